//! LOCK. MS-SMB2 2.2.26; the response (2.2.27) is [`Empty`](super::Empty).

use super::bits::bits;
use super::{Body, FileId};
use crate::cursor::{Malformed, Reader, Result, Writer};

/// Most ranges of a request.
pub const MAX_LOCKS: usize = 1024;
/// Bytes of a range.
const LOCK_BYTES: usize = 24;

bits! {
    /// 2.2.26.1, Flags.
    LockFlags(u32) {
        /// Others may take shared locks, and read.
        SHARED = 1,
        /// Others may neither read nor write.
        EXCLUSIVE = 2,
        /// The range is unlocked.
        UNLOCK = 4,
        /// The request fails instead of waiting.
        FAIL_IMMEDIATELY = 0x10,
    }
}

/// A range. 2.2.26.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockElement {
    /// Its first byte.
    pub offset: u64,
    /// Its bytes; it may have none.
    pub length: u64,
    /// What is done with it.
    pub flags: LockFlags,
}

/// The request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockRequest {
    /// Number of the sequence in the lower 4 bits and its index above: a repeated request is
    /// recognised by it (3.3.5.14). 0 in SMB 2.0.2.
    pub sequence: u32,
    /// The open.
    pub file_id: FileId,
    /// Ranges; a server refuses none at all (3.3.5.14).
    pub locks: Vec<LockElement>,
}

impl Body for LockRequest {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(48)?;
        let count = usize::from(reader.u16()?);
        let sequence = reader.u32()?;
        let file_id = FileId::decode(reader)?;
        if count > MAX_LOCKS || count * LOCK_BYTES > reader.remaining() {
            return Err(Malformed("lock: LockCount"));
        }
        let mut locks = Vec::with_capacity(count);
        for _ in 0..count {
            let (offset, length) = (reader.u64()?, reader.u64()?);
            let flags = LockFlags(reader.u32()?);
            reader.skip(4)?;
            locks.push(LockElement { offset, length, flags });
        }
        Ok(Self { sequence, file_id, locks })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(48);
        writer.u16(self.locks.len() as u16);
        writer.u32(self.sequence);
        self.file_id.encode(writer);
        for lock in &self.locks {
            writer.u64(lock.offset);
            writer.u64(lock.length);
            writer.u32(lock.flags.0);
            writer.u32(0);
        }
    }
}
