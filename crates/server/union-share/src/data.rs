//! Bytes of open files.

use braid_share::{
    Attributes, FILE_BYTES_MAX, FileIndex, ReadResult, Rights, Status, Verifier, WriteResult,
    tables::Outcome,
};
use braid_types::limits::COPY_RANGE_BYTES_MAX;
use braid_union::{NewAttributes, OpenFile};
use bytes::Bytes;
use rustix::{fs::FallocateFlags, io::Errno};

use crate::{
    opens::has_set_ids,
    rights::is_privileged,
    service::Service,
    status::{OrStatus, status_of},
};

/// Bytes of one step of a copy between file systems.
const COPY_STEP_BYTES: u64 = 1 << 20;

impl Service {
    pub(crate) fn read(&self, id: u64, offset: u64, bytes: u32) -> Outcome<ReadResult> {
        let (_, open, _) = self.opened(id, Rights::READ)?;
        let size = size_of(&open.file)?;
        if offset >= size {
            return Ok(ReadResult { data: Bytes::new(), end: bytes > 0 || offset > 0 });
        }
        let wanted = u64::from(bytes).min(size - offset);
        let mut data = vec![0; usize::try_from(wanted).map_err(|_| Status::Invalid)?];
        let read = self.union.read(&open.file, offset, &mut data).or_status()?;
        data.truncate(read);
        Ok(ReadResult { end: offset + read as u64 >= size, data: data.into() })
    }

    pub(crate) fn write(
        &self,
        id: u64,
        offset: u64,
        data: &[u8],
        durable: bool,
    ) -> Outcome<WriteResult> {
        check_end(offset, data.len() as u64)?;
        // Before the write: a loss between the two shows in the next commit.
        let verifier = self.sessions().verifier();
        self.modify(id, |file| {
            let mut done = 0;
            while done < data.len() {
                // Less than all: the next call says why.
                done += self.union.write(file, offset + done as u64, &data[done..], false)?;
            }
            Ok(())
        })?;
        if durable {
            self.sync(id, true)?;
        }
        Ok(WriteResult { bytes: data.len() as u64, durable, verifier })
    }

    pub(crate) fn commit(&self, id: u64) -> Outcome<Verifier> {
        self.sync(id, false)?;
        Ok(self.sessions().verifier())
    }

    /// The kernel reports a failed write-back once, and drops the bytes. So clients must write
    /// again what they have not committed: the verifier changes.
    fn sync(&self, id: u64, data_only: bool) -> Outcome<()> {
        let file = {
            let sessions = self.sessions();
            sessions.opens.get(id)?;
            sessions.branch_files.get(&id).cloned().ok_or(Status::StaleHandle)?
        };
        self.union.sync(&file.file, data_only).or_status().inspect_err(|_| self.sessions().lost())
    }

    pub(crate) fn file_attributes(&self, id: u64) -> Outcome<Attributes> {
        let file = self.sessions().opens.get(id)?.file;
        self.attributes(file)
    }

    pub(crate) fn set_len(&self, id: u64, bytes: u64) -> Outcome<Attributes> {
        check_end(bytes, 0)?;
        let size = NewAttributes { size: Some(bytes), ..NewAttributes::default() };
        let file = self.modify(id, |file| self.union.set_attributes(file.node, &size).map(drop))?;
        self.attributes(file)
    }

    pub(crate) fn allocate(&self, id: u64, offset: u64, bytes: u64) -> Outcome<()> {
        check_end(offset, bytes)?;
        self.modify(id, |file| self.union.allocate(file, 0, offset, bytes)).map(drop)
    }

    pub(crate) fn punch(&self, id: u64, offset: u64, bytes: u64) -> Outcome<()> {
        if bytes == 0 {
            return Err(Status::Invalid);
        }
        check_end(offset, bytes)?;
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.modify(id, |file| self.union.allocate(file, mode.bits(), offset, bytes)).map(drop)
    }

    /// The next byte of data (`true`) or hole at or after an offset.
    pub(crate) fn seek(&self, id: u64, offset: u64, data: bool) -> Outcome<Option<u64>> {
        let (_, open, _) = self.opened(id, Rights::READ)?;
        if offset > FILE_BYTES_MAX {
            return Ok(None);
        }
        match self.union.seek(&open.file, offset, data) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(error) => Err(status_of(error)),
        }
    }

    /// Copies a part of what is wanted; the caller calls again.
    pub(crate) fn copy(
        &self,
        (source, from): (u64, u64),
        (target, to): (u64, u64),
        bytes: u64,
    ) -> Outcome<u64> {
        let (source_file, source, _) = self.opened(source, Rights::READ)?;
        let (target_file, ..) = self.opened(target, Rights::WRITE)?;
        if to > FILE_BYTES_MAX {
            return Err(Status::TooLarge);
        }
        let left = size_of(&source.file)?.saturating_sub(from);
        let bytes = bytes.min(left).min(FILE_BYTES_MAX - to);
        if source_file == target_file && from < to + bytes && to < from + bytes {
            return Err(Status::Invalid);
        }
        let bytes = bytes.min(COPY_RANGE_BYTES_MAX);
        if bytes == 0 {
            return Ok(0);
        }
        let mut copied = 0;
        self.modify(target, |target| {
            copied = self.copy_step((&source.file, from), (target, to), bytes)?;
            Ok(())
        })?;
        Ok(copied)
    }

    fn copy_step(
        &self,
        from: (&OpenFile, u64),
        to: (&OpenFile, u64),
        bytes: u64,
    ) -> braid_union::Result<u64> {
        match self.union.copy_range(from, to, bytes) {
            Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS) => {}
            copied => return copied.map(|bytes| bytes as u64),
        }
        // Between two branches.
        let mut data = vec![0; bytes.min(COPY_STEP_BYTES) as usize];
        let read = self.union.read(from.0, from.1, &mut data)?;
        self.union.write(to.0, to.1, &data[..read], false).map(|bytes| bytes as u64)
    }

    /// Changes the bytes of a file that is open for writing.
    fn modify(
        &self,
        id: u64,
        change: impl FnOnce(&OpenFile) -> braid_union::Result<()>,
    ) -> Outcome<FileIndex> {
        let (file, open, who) = self.opened(id, Rights::WRITE)?;
        let node = open.file.node;
        if !is_privileged(&who) && has_set_ids(&open.file)? {
            let ends = NewAttributes { kill_suidgid: true, ..NewAttributes::default() };
            self.union.set_attributes(node, &ends).or_status()?;
        }
        let done = change(&open.file).or_status();
        // Also after a failure: a part may have been written.
        self.file_changed(file, node);
        done.map(|()| file)
    }
}

fn size_of(file: &OpenFile) -> Outcome<u64> {
    let stat = rustix::fs::fstat(&*file.fd()).map_err(status_of)?;
    u64::try_from(stat.st_size).map_err(|_| Status::Invalid)
}

fn check_end(offset: u64, bytes: u64) -> Outcome<()> {
    let end = offset.checked_add(bytes).filter(|end| *end <= FILE_BYTES_MAX);
    end.map(drop).ok_or(Status::TooLarge)
}
