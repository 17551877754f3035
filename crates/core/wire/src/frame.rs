//! The frame header: 32 bytes before everything on the wire.
//!
//! ```text
//!   0        4    6     8            16          20             24          28
//!   | magic  | op | flg | request id | body bytes| payload bytes| reserved  | crc32c of 0..28 |
//!   |"BRD1"  | u16| u16 | u64        | u32       | u32          | u32 = 0   | u32             |
//! ```
//!
//! Invariants:
//! 1. The checksum matches, or the connection ends.
//! 2. `body bytes` and `payload bytes` are within their limits before memory is allocated for them
//!    (I9).
//! 3. Unknown flags and reserved bits are refused (I10).
//!
//! These are checks of what a peer sends, not assertions: `from_bytes` refuses what breaks them.

use braid_types::limits::{FRAME_BODY_BYTES_MAX, REPLY_DATA_BYTES_MAX, WINDOW_BYTES};

use crate::codec::WireError;

/// Bytes in a frame header.
pub const FRAME_HEADER_BYTES: usize = 32;
/// The newest protocol version of this code, and at present the only one.
pub const PROTOCOL_VERSION: u16 = 1;

const MAGIC: [u8; 4] = *b"BRD1";

/// The kind of a frame, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameFlags(pub u16);

impl FrameFlags {
    /// A request: the only frame that the caller sends in its call.
    pub const REQUEST: Self = Self(0);
    /// A data frame of a reply: payload only; more frames of the call follow.
    pub const DATA: Self = Self(1);
    /// The final frame of a reply. Its body begins with the status; it may carry the last payload.
    pub const FINAL: Self = Self(2);
}

/// The header of one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Message number ([`crate::Call::OP`]); a reply repeats its request's.
    pub op: u16,
    /// Request, data or final.
    pub flags: FrameFlags,
    /// Chosen by the caller, unique among its calls in flight on the connection.
    pub request_id: u64,
    /// Bytes of the encoded message that follows the header.
    pub body_bytes: u32,
    /// Raw file bytes that follow the body.
    pub payload_bytes: u32,
}

impl FrameHeader {
    /// The header's 32 bytes.
    pub fn to_bytes(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut out = [0; FRAME_HEADER_BYTES];
        out[0..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&self.op.to_le_bytes());
        out[6..8].copy_from_slice(&self.flags.0.to_le_bytes());
        out[8..16].copy_from_slice(&self.request_id.to_le_bytes());
        out[16..20].copy_from_slice(&self.body_bytes.to_le_bytes());
        out[20..24].copy_from_slice(&self.payload_bytes.to_le_bytes());
        let crc = crc32c::crc32c(&out[..28]);
        out[28..32].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads and checks a header.
    ///
    /// # Errors
    /// [`WireError::BadMagic`] and [`WireError::BadChecksum`] for bytes that are not a header,
    /// [`WireError::Unknown`] for unknown flags or reserved bits, [`WireError::TooLong`] for a body
    /// or payload over its limit.
    pub fn from_bytes(bytes: &[u8; FRAME_HEADER_BYTES]) -> Result<Self, WireError> {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if bytes[0..4] != MAGIC {
            return Err(WireError::BadMagic);
        }
        if crc32c::crc32c(&bytes[..28]) != u32_at(28) {
            return Err(WireError::BadChecksum);
        }
        let header = Self {
            op: u16_at(4),
            flags: FrameFlags(u16_at(6)),
            request_id: u64::from(u32_at(8)) | u64::from(u32_at(12)) << 32,
            body_bytes: u32_at(16),
            payload_bytes: u32_at(20),
        };
        if header.flags.0 > 2 || u32_at(24) != 0 {
            return Err(WireError::Unknown);
        }
        header.check_lengths()?;
        Ok(header)
    }

    fn check_lengths(&self) -> Result<(), WireError> {
        let payload_max = if self.flags == FrameFlags::REQUEST {
            WINDOW_BYTES
        } else {
            REPLY_DATA_BYTES_MAX as u64
        };
        let within = self.body_bytes as usize <= FRAME_BODY_BYTES_MAX
            && u64::from(self.payload_bytes) <= payload_max;
        if within { Ok(()) } else { Err(WireError::TooLong) }
    }
}
