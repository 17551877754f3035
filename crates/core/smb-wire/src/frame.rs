//! What a connection carries: frames with their length, in each of them one message, a compound of
//! several, or what is encrypted. MS-SMB2 2.1, 2.2.41, 3.3.5.2.7.
//!
//! ```text
//!   0, length (3 bytes, big-endian) | message ... NextCommand ──> message ... 0
//!                                   | TRANSFORM_HEADER, encrypted messages
//! ```

use crate::cursor::{Malformed, Reader, Result, Writer};
use crate::smb2::HEADER_BYTES;
use crate::smb2::header::{PROTOCOL_ID, SMB1_PROTOCOL_ID};
use bytes::Bytes;

/// Bytes of the length before a frame.
pub const LENGTH_BYTES: usize = 4;
/// The longest frame that a length can give.
pub const MAX_FRAME: usize = 0xff_ffff;
/// Most messages of a compound.
pub const MAX_COMPOUND: usize = 256;
/// The first bytes of an encrypted message.
pub const TRANSFORM_PROTOCOL_ID: [u8; 4] = [0xfd, b'S', b'M', b'B'];
/// The first bytes of a compressed message.
pub const COMPRESSION_PROTOCOL_ID: [u8; 4] = [0xfc, b'S', b'M', b'B'];
/// Where `NextCommand` is in a header.
const NEXT_COMMAND: usize = 20;

/// The bytes of the frame behind a prefix.
///
/// # Errors
/// The first byte is not 0, or the frame has over `max` bytes.
pub fn decode_length(prefix: [u8; LENGTH_BYTES], max: usize) -> Result<usize> {
    // 2.1: the first byte is 0, the others are the length in network byte order.
    match u32::from_be_bytes(prefix) as usize {
        length if length <= max.min(MAX_FRAME) => Ok(length),
        _ => Err(Malformed("frame: StreamProtocolLength")),
    }
}

/// The prefix of a frame.
///
/// # Panics
/// If `length` is over [`MAX_FRAME`]: no limit of a server allows such a response.
pub fn encode_length(length: usize) -> [u8; LENGTH_BYTES] {
    assert!(length <= MAX_FRAME, "a frame of {length} bytes");
    (length as u32).to_be_bytes()
}

/// What a frame is, by its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// An SMB 1 message: see [`smb1_dialects`](crate::smb1::smb1_dialects).
    Smb1,
    /// One or several messages of SMB 2 or 3.
    Smb2,
    /// An encrypted message: see [`Transform`].
    Transform,
    /// A compressed message.
    Compression,
}

impl FrameKind {
    /// The kind of a frame.
    ///
    /// # Errors
    /// The bytes begin none.
    pub fn of(frame: &[u8]) -> Result<Self> {
        match *frame.first_chunk().ok_or(Malformed("frame: too short"))? {
            SMB1_PROTOCOL_ID => Ok(Self::Smb1),
            PROTOCOL_ID => Ok(Self::Smb2),
            TRANSFORM_PROTOCOL_ID => Ok(Self::Transform),
            COMPRESSION_PROTOCOL_ID => Ok(Self::Compression),
            _ => Err(Malformed("frame: ProtocolId")),
        }
    }
}

/// The messages of a frame, slices of it: one, or those of a compound in their order. Each has its
/// padding, which its signature covers.
///
/// # Errors
/// A message is shorter than a header, does not begin at a multiple of 8 (3.3.5.2.7), or there are
/// over [`MAX_COMPOUND`].
pub fn messages(mut frame: Bytes) -> Result<Vec<Bytes>> {
    let mut messages = Vec::new();
    loop {
        if frame.len() < HEADER_BYTES {
            return Err(Malformed("frame: a message is shorter than a header"));
        }
        if messages.len() == MAX_COMPOUND {
            return Err(Malformed("frame: too many messages"));
        }
        let next = frame[NEXT_COMMAND..].first_chunk().map_or(0, |next| u32::from_le_bytes(*next));
        let next = next as usize;
        if next == 0 {
            messages.push(frame);
            return Ok(messages);
        }
        if !next.is_multiple_of(8) || next < HEADER_BYTES || next > frame.len() {
            return Err(Malformed("frame: NextCommand"));
        }
        messages.push(frame.split_to(next));
    }
}

/// The header of an encrypted message. 2.2.41.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transform {
    /// Authenticates the encrypted bytes and the header behind it.
    pub signature: [u8; 16],
    /// The nonce: AES-CCM takes 11 bytes of it, AES-GCM 12.
    pub nonce: [u8; 16],
    /// Bytes of the message before its encryption.
    pub original_size: u32,
    /// 1: encrypted, with the cipher of the connection.
    pub flags: u16,
    /// The session, whose keys encrypt.
    pub session_id: u64,
}

impl Transform {
    /// Bytes of the header.
    pub const BYTES: usize = 52;
    /// Where the signature is.
    pub const SIGNATURE: std::ops::Range<usize> = 4..20;
    /// The bytes of the header that the signature covers.
    pub const AUTHENTICATED: std::ops::Range<usize> = 20..52;
    /// The flags of an encrypted message (3.1.1: Flags; 3.0: EncryptionAlgorithm, AES-128-CCM).
    pub const ENCRYPTED: u16 = 1;

    /// Reads the header from the beginning of a frame, and leaves the reader before the encrypted
    /// bytes. It compares the size with nothing: 3.3.5.2.1 is the server's.
    ///
    /// # Errors
    /// The bytes are no such header.
    pub fn decode(reader: &mut Reader) -> Result<Self> {
        if reader.array()? != TRANSFORM_PROTOCOL_ID {
            return Err(Malformed("transform: ProtocolId"));
        }
        let signature = reader.array()?;
        let nonce = reader.array()?;
        let original_size = reader.u32()?;
        reader.skip(2)?;
        let flags = reader.u16()?;
        Ok(Self { signature, nonce, original_size, flags, session_id: reader.u64()? })
    }

    /// Appends the header.
    pub fn encode(&self, writer: &mut Writer) {
        writer.bytes(&TRANSFORM_PROTOCOL_ID);
        writer.bytes(&self.signature);
        writer.bytes(&self.nonce);
        writer.u32(self.original_size);
        writer.u16(0);
        writer.u16(self.flags);
        writer.u64(self.session_id);
    }

    /// The bytes of the header.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut writer = Writer::new();
        self.encode(&mut writer);
        writer.finish().try_into().expect("a transform header has 52 bytes")
    }
}
