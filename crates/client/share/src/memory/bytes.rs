//! Reads, writes and commits of open files.

use braid_types::{
    FileIndex, Status, dos_attributes,
    limits::{COPY_RANGE_BYTES_MAX, FILE_BYTES_MAX},
};
use bytes::Bytes;

use super::{
    data::{FileData, SparseBytes},
    inode::Content,
    state::{Outcome, State},
};
use crate::{Attributes, ReadResult, Rights, Verifier, WriteResult};

/// Bytes of the imagined disk, for `statfs` and for allocations.
pub(super) const DISK_BYTES: u64 = 1 << 40;

impl State {
    pub(super) fn read(&self, id: u64, offset: u64, bytes: u32) -> Outcome<ReadResult> {
        let data = &self.data(self.file_of(id, Rights::READ)?)?.present;
        let read = data.read(offset, u64::from(bytes));
        let end = offset.saturating_add(read.len() as u64) >= data.len();
        Ok(ReadResult { data: Bytes::from(read), end })
    }

    pub(super) fn write(
        &mut self,
        id: u64,
        offset: u64,
        data: &Bytes,
        durable: bool,
    ) -> Outcome<WriteResult> {
        let file = self.file_of(id, Rights::WRITE)?;
        check_end(offset, data.len() as u64)?;
        if !data.is_empty() {
            self.modify_data(file, |bytes| {
                bytes.change_unflushed(|bytes| bytes.write(offset, data));
            })?;
            let losses = self.losses;
            self.opens.get_mut(id)?.unflushed_since.get_or_insert(losses);
        }
        if durable {
            self.commit(id)?;
        }
        Ok(WriteResult { bytes: data.len() as u64, durable, verifier: self.verifier() })
    }

    /// Makes the bytes of a file durable. The verifier is another one since bytes were lost.
    pub(super) fn commit(&mut self, id: u64) -> Outcome<Verifier> {
        let (file, session) = {
            let open = self.opens.get(id)?;
            (open.file, open.session)
        };
        if let Content::File(data) =
            &mut self.inodes.get_mut(&file).ok_or(Status::Internal)?.content
        {
            data.flush();
        }
        self.opens.flushed(session, file);
        Ok(self.verifier())
    }

    pub(super) fn set_len(&mut self, id: u64, bytes: u64) -> Outcome<Attributes> {
        let file = self.file_of(id, Rights::WRITE)?;
        check_end(bytes, 0)?;
        let who = self.opens.get(id)?.who.clone();
        self.resize(&who, file, bytes)?;
        Ok(self.inode(file)?.attributes())
    }

    pub(super) fn allocate(&mut self, id: u64, offset: u64, bytes: u64) -> Outcome<()> {
        let file = self.file_of(id, Rights::WRITE)?;
        check_end(offset, bytes)?;
        if bytes > DISK_BYTES - self.bytes_used() {
            return Err(Status::NoSpace);
        }
        self.modify_data(file, |data| data.change_unflushed(|data| data.allocate(offset, bytes)))
    }

    pub(super) fn punch(&mut self, id: u64, offset: u64, bytes: u64) -> Outcome<()> {
        let file = self.file_of(id, Rights::WRITE)?;
        if bytes == 0 {
            return Err(Status::Invalid);
        }
        check_end(offset, bytes)?;
        self.modify_data(file, |data| data.change_durably(|data| data.punch(offset, bytes)))
    }

    pub(super) fn seek(
        &self,
        id: u64,
        find: impl FnOnce(&SparseBytes) -> Option<u64>,
    ) -> Outcome<Option<u64>> {
        Ok(find(&self.data(self.file_of(id, Rights::READ)?)?.present))
    }

    pub(super) fn copy(
        &mut self,
        (source, from): (u64, u64),
        (target, to): (u64, u64),
        bytes: u64,
    ) -> Outcome<u64> {
        let source = self.file_of(source, Rights::READ)?;
        let file = self.file_of(target, Rights::WRITE)?;
        if to > FILE_BYTES_MAX {
            return Err(Status::TooLarge);
        }
        let data = &self.data(source)?.present;
        let bytes = data.len().saturating_sub(from).min(bytes).min(FILE_BYTES_MAX - to);
        if source == file && from < to + bytes && to < from + bytes {
            return Err(Status::Invalid);
        }
        // Bounded as in a cluster: the caller calls again.
        let copied = Bytes::from(data.read(from, bytes.min(COPY_RANGE_BYTES_MAX)));
        self.write(target, to, &copied, false).map(|written| written.bytes)
    }

    /// Loses unflushed bytes of all files, as after a loss of power.
    pub(super) fn lose_unflushed(&mut self) {
        self.losses += 1;
        let files: Vec<FileIndex> = self.inodes.keys().copied().collect();
        for file in files {
            let Some(inode) = self.inodes.get_mut(&file) else { continue };
            if let Content::File(data) = &mut inode.content
                && data.lose_unflushed()
            {
                // The change counter must not show other bytes under the same number.
                let _ = self.change(file, |_| ());
            }
        }
    }

    pub(super) fn bytes_used(&self) -> u64 {
        self.inodes.values().map(|inode| inode.attributes().bytes_used.0).sum()
    }

    /// The file of an open that has this right.
    fn file_of(&self, id: u64, right: Rights) -> Outcome<FileIndex> {
        let open = self.opens.get(id)?;
        // POSIX has EBADF; this is the status of a cluster's client.
        if open.mode.rights.allow(right) { Ok(open.file) } else { Err(Status::NotPermitted) }
    }

    fn data(&self, file: FileIndex) -> Outcome<&FileData> {
        match &self.inode(file)?.content {
            Content::File(data) => Ok(data),
            _ => Err(Status::Invalid),
        }
    }

    fn modify_data(&mut self, file: FileIndex, change: impl FnOnce(&mut FileData)) -> Outcome<()> {
        self.modify(file, |inode| match &mut inode.content {
            Content::File(data) => {
                change(data);
                inode.flags = dos_attributes::after_write(inode.flags);
                Ok(())
            }
            _ => Err(Status::Invalid),
        })?
    }
}

fn check_end(offset: u64, bytes: u64) -> Outcome<()> {
    match offset.checked_add(bytes) {
        Some(end) if end <= FILE_BYTES_MAX => Ok(()),
        _ => Err(Status::TooLarge),
    }
}
