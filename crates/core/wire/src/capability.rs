//! Capabilities: signed by the metadata server, verified by an I/O daemon (I4).

use braid_layout::Layout;
use braid_types::{FileIndex, MdsEpoch, PartIndex, SessionId, SizeGeneration};

use crate::{
    codec::{Decoder, Wire, WireError, wire_struct},
    key::{KEY_BYTES, Secret},
};

const PURPOSE: &str = "braid capability";
const VERSION: u8 = 1;
/// Capacity that fits most signed capabilities.
const SIGNED_BYTES_USUAL: usize = 512;

/// The rights of a capability, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Rights(pub u8);

impl Rights {
    /// Read data and sizes.
    pub const READ: Self = Self(1);
    /// Write, allocate and flush.
    pub const WRITE: Self = Self(2);
    /// Both.
    pub const READ_WRITE: Self = Self(3);

    /// Whether all of `wanted` is allowed.
    pub fn allow(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

impl Wire for Rights {
    const BYTES_MIN: usize = 1;
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.0);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        match u8::decode(from)? {
            bits @ 1..=3 => Ok(Self(bits)),
            _ => Err(WireError::Unknown),
        }
    }
}

wire_struct! {
    /// The right of one client session to the objects of one file.
    pub struct Capability {
        /// The file.
        file: FileIndex,
        /// Objects whose size generation is newer refuse this capability (I5).
        size_generation: SizeGeneration,
        /// The rights.
        rights: Rights,
        /// The session that may use it. I/O daemons compare it with the session of the connection.
        session: SessionId,
        /// Epoch of the metadata server that signed it.
        epoch: MdsEpoch,
        /// Owner and group of the file, for the object's record.
        owner: (u64, u64),
        /// Placement of the file's parts, with the layout version.
        layout: Layout,
        /// Bit `p` (byte `p / 8`, bit `p % 8`): part `p` is recorded as existing (I11).
        existing_parts: Vec<u8>,
    }
}

impl Capability {
    /// Whether part `part` is recorded as existing, so that its absence is a loss (I11).
    pub fn is_recorded(&self, part: PartIndex) -> bool {
        let part = usize::from(part.0);
        self.existing_parts.get(part / 8).is_some_and(|byte| byte >> (part % 8) & 1 == 1)
    }

    /// The capability as sent: version, body, and a tag under a key derived from the server key.
    pub fn sign(&self, server_key: &Secret) -> Vec<u8> {
        let mut out = Vec::with_capacity(SIGNED_BYTES_USUAL);
        VERSION.encode(&mut out);
        self.encode(&mut out);
        let tag = server_key.mac(PURPOSE, &[&out]);
        out.extend_from_slice(&tag);
        out
    }

    /// Checks the tag and reads a capability. `None` when the bytes were not signed with this key.
    pub fn verify(signed: &[u8], server_key: &Secret) -> Option<Self> {
        let (body, tag) = signed.split_last_chunk::<KEY_BYTES>()?;
        if !server_key.verify(PURPOSE, &[body], tag) || body.first() != Some(&VERSION) {
            return None;
        }
        Self::from_bytes(&body[1..]).ok()
    }
}
