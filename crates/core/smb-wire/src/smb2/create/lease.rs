//! The context of a lease, which requests and responses have in the same form. MS-SMB2 2.2.13.2.8,
//! 2.2.13.2.10, 2.2.14.2.10, 2.2.14.2.11.

use super::context::{self, CreateContext};
use crate::cursor::{Malformed, Reader, Result, Writer};
use crate::smb2::bits::bits;
use bytes::Bytes;

/// Bytes of version 1.
const V1_BYTES: usize = 32;
/// Bytes of version 2.
const V2_BYTES: usize = 52;

bits! {
    /// What a client may cache. 2.2.13.2.8, LeaseState.
    LeaseState(u32) {
        /// Nothing.
        NONE = 0,
        /// Reads.
        READ = 1,
        /// Opens: a close may be delayed.
        HANDLE = 2,
        /// Writes.
        WRITE = 4,
    }

    /// 2.2.13.2.10, Flags.
    LeaseFlags(u32) {
        /// In a response: the lease is being broken.
        BREAK_IN_PROGRESS = 2,
        /// The key of the parent is there.
        PARENT_LEASE_KEY_SET = 4,
    }
}

/// A lease that is asked for, or granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// Names the lease; its client's other opens with this key share it.
    pub key: [u8; 16],
    /// What may be cached.
    pub state: LeaseState,
    /// Flags.
    pub flags: LeaseFlags,
    /// Fields of version 2 (SMB 3); none in version 1.
    pub v2: Option<LeaseV2>,
}

/// Fields that only version 2 has. 2.2.13.2.10.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeaseV2 {
    /// The key of the directory, with [`LeaseFlags::PARENT_LEASE_KEY_SET`].
    pub parent_key: [u8; 16],
    /// Counts the changes of the lease's state.
    pub epoch: u16,
}

impl Lease {
    /// Reads it; its length decides the version (3.3.5.9.8, 3.3.5.9.11).
    ///
    /// # Errors
    /// The length is of neither version.
    pub fn decode(data: &Bytes) -> Result<Self> {
        if data.len() != V1_BYTES && data.len() != V2_BYTES {
            return Err(Malformed("lease context: length"));
        }
        let mut reader = Reader::new(data.clone());
        let key = reader.array()?;
        let state = LeaseState(reader.u32()?);
        let flags = LeaseFlags(reader.u32()?);
        reader.skip(8)?;
        let v2 = match data.len() {
            V1_BYTES => None,
            _ => Some(LeaseV2 { parent_key: reader.array()?, epoch: reader.u16()? }),
        };
        Ok(Self { key, state, flags, v2 })
    }

    /// The context.
    pub fn to_context(self) -> CreateContext {
        let mut writer = Writer::new();
        writer.bytes(&self.key);
        writer.u32(self.state.0);
        writer.u32(self.flags.0);
        writer.u64(0);
        if let Some(v2) = self.v2 {
            writer.bytes(&v2.parent_key);
            writer.u16(v2.epoch);
            writer.u16(0);
        }
        CreateContext::new(context::LEASE, writer.finish())
    }
}
