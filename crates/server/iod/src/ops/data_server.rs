//! READ, WRITE and COMMIT of an NFS data server (RFC 8881 13.9): one part of a file, named by a
//! handle that the metadata server signed.
//!
//! The layout is sparse: offsets are those of the file (RFC 8881 13.4.4).
//!
//! Invariants:
//! 1. A handle is verified before its first use, and each slice is admitted as those of native
//!    requests: fences, epoch, heartbeat (I4).
//! 2. A read or write stays within one stripe of the handle's part.
//! 3. Nothing is written at or after the handle's `write_end`, which a quota may refuse (ADR 0012).

use std::{sync::Arc, time::Duration};

use braid_layout::{Request, View};
use braid_store::{Object, ObjectStore};
use braid_types::{
    ConnectionId, Failure, FileIndex, FileOffset, ObjectOffset, SessionId, Status, WriteVerifier,
    limits::FILE_BYTES_MAX,
};
use braid_wire::Rights;

use super::{
    invalid,
    write::{self, WriteJob},
};
use crate::{
    connections::ConnectionEntry, iod_core::IodCore, ops::OpenedObjects,
    verified_capability::VerifiedCapability,
};

/// The part of a file that a verified handle names. One for each connection and handle.
#[derive(Clone, Debug)]
pub struct DataServerFile {
    capability: Arc<VerifiedCapability>,
    caller: Arc<ConnectionEntry>,
    write_end: u64,
}

/// A read that was admitted: the bytes that the object has, and what the file may have behind them.
#[derive(Debug)]
pub struct DataServerRead {
    /// The object, and the first byte to read of it; `None` when it has none of the bytes.
    pub object: Option<(Arc<dyn Object>, ObjectOffset)>,
    /// Bytes that the object has, from the first wanted one on.
    pub data: u64,
    /// Bytes that were asked for, up to the end of the stripe. Those behind `data` are a hole, or
    /// behind the end of the file: the size of the file shows which.
    pub wanted: u64,
}

/// A write in progress.
#[derive(Debug)]
pub struct DataServerWrite(Box<WriteJob>);

impl<S: ObjectStore> IodCore<S> {
    /// Verifies a handle. `connection` is a random id of the pair of connection and handle.
    ///
    /// # Errors
    /// [`Status::BadCapability`] for anything that the metadata server did not sign.
    pub fn data_server_file(
        &self,
        connection: ConnectionId,
        handle: &[u8],
    ) -> Result<DataServerFile, Failure> {
        let (capability, write_end, caller) =
            self.admission().data_server_handle(connection, handle)?;
        Ok(DataServerFile { capability: Arc::new(capability), caller, write_end })
    }
}

impl DataServerFile {
    /// The file.
    pub fn file(&self) -> FileIndex {
        self.capability.file
    }

    /// The session that the handle belongs to.
    pub fn session(&self) -> SessionId {
        self.capability.session
    }

    /// Admits a read of up to `bytes` at an offset of the file, and opens the object.
    ///
    /// # Errors
    /// [`Status::BadCapability`] for a handle that may not read, or an offset of another part;
    /// [`Status::Fenced`], [`Status::StaleEpoch`], [`Status::StaleGeneration`],
    /// [`Status::ObjectLost`], [`Status::NotServing`]; disk errors.
    pub fn read<S: ObjectStore>(
        &self,
        core: &IodCore<S>,
        now: Duration,
        offset: u64,
        bytes: u64,
    ) -> Result<DataServerRead, Failure> {
        self.capability.check_rights(Rights::READ)?;
        core.admission().check(&self.capability, &self.caller, now)?;
        let (object_offset, contiguous) = self.locate(offset)?;
        let wanted = bytes.min(contiguous).min(FILE_BYTES_MAX.saturating_sub(offset));
        let local_part = &self.capability.local_parts[0];
        let Some(opened) = core.open(&self.capability, local_part)? else {
            return Ok(DataServerRead { object: None, data: 0, wanted });
        };
        let size = opened.stat.size;
        let data = size.saturating_sub(object_offset.0).min(wanted);
        let end = object_offset.0 + data;
        if let Some(from) = opened.stat.lost_from.filter(|from| data > 0 && end > *from) {
            return Err(OpenedObjects::lost_range_error(local_part.object, from, size));
        }
        core.counters().bytes_read.fetch_add(data, std::sync::atomic::Ordering::Relaxed);
        let object = (data > 0).then_some((opened.object, object_offset));
        Ok(DataServerRead { object, data, wanted })
    }

    /// Begins a write of `bytes` at an offset of the file.
    ///
    /// # Errors
    /// [`Status::BadCapability`] for a handle that may not write, or bytes of another part or
    /// beyond a stripe; [`Status::StaleGeneration`] for bytes that a quota may refuse, so that the
    /// client writes them through its metadata server.
    pub fn write<S: ObjectStore>(
        &self,
        core: &IodCore<S>,
        offset: u64,
        bytes: u32,
    ) -> Result<DataServerWrite, Failure> {
        self.capability.check_rights(Rights::WRITE)?;
        let (_, contiguous) = self.locate(offset)?;
        let count = u64::from(bytes);
        if count > contiguous {
            return Err(not_of_this_part(offset, count));
        }
        // At most 2^63 + 2^32, since `locate` has checked the offset.
        if offset + count > self.write_end {
            let why = format!("the quota of file {} is checked beyond this", self.write_end);
            return Err(Failure::new(Status::StaleGeneration, why));
        }
        let request = Request { view: View::whole(), start: offset, bytes: count };
        let of = (self.capability.clone(), self.caller.clone());
        write::job_of(core, of, &request, bytes).map(DataServerWrite)
    }

    /// Makes all bytes of the object durable: the write verifier (I6).
    ///
    /// # Errors
    /// As [`DataServerFile::read`], and disk errors of the flush.
    pub fn commit<S: ObjectStore>(
        &self,
        core: &IodCore<S>,
        now: Duration,
    ) -> Result<WriteVerifier, Failure> {
        self.capability.check_rights(Rights::WRITE)?;
        core.admission().check(&self.capability, &self.caller, now)?;
        if let Some(opened) = core.open(&self.capability, &self.capability.local_parts[0])? {
            core.logged(opened.object.flush())?;
        }
        // Read after the flush: it shows a loss that the flush met.
        Ok(core.store().write_verifier())
    }

    /// Where a byte of the file is in the object, and the bytes from there to the end of the
    /// stripe.
    fn locate(&self, offset: u64) -> Result<(ObjectOffset, u64), Failure> {
        let location = self.capability.map.locate(FileOffset(offset)).map_err(invalid)?;
        // Invariant 2.
        if location.part != self.capability.local_parts[0].object.part {
            return Err(not_of_this_part(offset, 1));
        }
        Ok((location.object_offset, location.contiguous))
    }
}

impl DataServerWrite {
    /// Writes the next bytes of the payload, as [`WriteJob::push`].
    pub fn push<S: ObjectStore>(&mut self, core: &IodCore<S>, now: Duration, data: &[u8]) -> usize {
        self.0.push(core, now, data)
    }

    /// After the whole payload: the write verifier. `None`: call again.
    pub fn finish<S: ObjectStore>(
        &mut self,
        core: &IodCore<S>,
        now: Duration,
    ) -> Option<Result<WriteVerifier, Failure>> {
        self.0.outcome(core, now)
    }
}

fn not_of_this_part(offset: u64, bytes: u64) -> Failure {
    let why = format!("{bytes} bytes at {offset} are not in one stripe of the handle's part");
    Failure::new(Status::BadCapability, why)
}
