//! The three messages. MS-NLMP 2.2.1.

use bytes::Bytes;

use super::SIGNATURE;
use super::av_pairs::AvPairs;
use crate::cursor::{Malformed, Reader, Result, Writer};

/// Bits of a message. 2.2.2.5.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct MessageFlags(pub u32);

impl MessageFlags {
    /// Texts are UTF-16.
    pub const UNICODE: Self = Self(1);
    /// The client wants the server's name.
    pub const REQUEST_TARGET: Self = Self(4);
    /// Messages are signed.
    pub const SIGN: Self = Self(0x10);
    /// Messages are encrypted.
    pub const SEAL: Self = Self(0x20);
    /// NTLM, not LM alone.
    pub const NTLM: Self = Self(0x200);
    /// The client logs on without a name.
    pub const ANONYMOUS: Self = Self(0x800);
    /// A key is agreed on even where nothing is signed.
    pub const ALWAYS_SIGN: Self = Self(0x8000);
    /// The target is a server, not a domain.
    pub const TARGET_TYPE_SERVER: Self = Self(0x2_0000);
    /// The key derivation of NTLM version 2.
    pub const EXTENDED_SESSION_SECURITY: Self = Self(0x8_0000);
    /// The challenge has AV pairs.
    pub const TARGET_INFO: Self = Self(0x80_0000);
    /// The field of the version is meant.
    pub const VERSION: Self = Self(0x200_0000);
    /// Keys of 128 bits.
    pub const BITS_128: Self = Self(0x2000_0000);
    /// The client sends the session's key, encrypted.
    pub const KEY_EXCHANGE: Self = Self(0x4000_0000);
    /// Keys of 56 bits.
    pub const BITS_56: Self = Self(0x8000_0000);

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::fmt::Debug for MessageFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MessageFlags({:#x})", self.0)
    }
}

/// Version 15 of the protocol, of a system 6.1. 2.2.2.10: for debugging only.
const VERSION: [u8; 8] = [6, 1, 0, 0, 0, 0, 0, 15];

fn header(reader: &mut Reader, kind: u32) -> Result<()> {
    if reader.array()? != *SIGNATURE || reader.u32()? != kind {
        return Err(Malformed("NTLM: not the expected message"));
    }
    Ok(())
}

/// The buffer that the next field names. 2.2.1: a length, a maximum that is ignored, an offset.
fn buffer(reader: &mut Reader) -> Result<Bytes> {
    let length = usize::from(reader.u16()?);
    reader.skip(2)?;
    let offset = reader.u32()? as usize;
    reader.slice(offset, length)
}

/// Fields of buffers whose bytes stand behind the fixed part.
struct Buffers {
    writer: Writer,
    payload: Vec<u8>,
    payload_offset: usize,
}

impl Buffers {
    fn new(kind: u32, payload_offset: usize) -> Self {
        let mut writer = Writer::new();
        writer.bytes(SIGNATURE);
        writer.u32(kind);
        Self { writer, payload: Vec::new(), payload_offset }
    }

    fn buffer(&mut self, bytes: &[u8]) {
        self.writer.u16(bytes.len() as u16);
        self.writer.u16(bytes.len() as u16);
        self.writer.u32((self.payload_offset + self.payload.len()) as u32);
        self.payload.extend_from_slice(bytes);
    }

    fn finish(mut self) -> Vec<u8> {
        self.writer.bytes(&self.payload);
        self.writer.finish()
    }
}

/// NEGOTIATE: what a client can do. 2.2.1.1. Its names of domain and workstation are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Negotiate {
    /// Bits.
    pub flags: MessageFlags,
}

impl Negotiate {
    /// Reads it.
    ///
    /// # Errors
    /// It is not this message.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let mut reader = Reader::new(bytes.clone());
        header(&mut reader, 1)?;
        Ok(Self { flags: MessageFlags(reader.u32()?) })
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Buffers::new(1, 40);
        fields.writer.u32(self.flags.0);
        fields.buffer(&[]);
        fields.buffer(&[]);
        fields.writer.bytes(&VERSION);
        fields.finish()
    }
}

/// CHALLENGE: the server's answer. 2.2.1.2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Challenge {
    /// The server's name, in UTF-16.
    pub target_name: Bytes,
    /// Bits.
    pub flags: MessageFlags,
    /// Random bytes.
    pub server_challenge: [u8; 8],
    /// Attributes of the server.
    pub target_info: AvPairs,
}

impl Challenge {
    /// Reads it.
    ///
    /// # Errors
    /// It is not this message, or its AV pairs are malformed.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let mut reader = Reader::new(bytes.clone());
        header(&mut reader, 2)?;
        let target_name = buffer(&mut reader)?;
        let flags = MessageFlags(reader.u32()?);
        let server_challenge = reader.array()?;
        reader.skip(8)?;
        let target_info = match flags.has(MessageFlags::TARGET_INFO) {
            true => AvPairs::decode(&mut Reader::new(buffer(&mut reader)?))?,
            false => AvPairs::default(),
        };
        Ok(Self { target_name, flags, server_challenge, target_info })
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Buffers::new(2, 56);
        fields.buffer(&self.target_name);
        fields.writer.u32(self.flags.0);
        fields.writer.bytes(&self.server_challenge);
        fields.writer.zeros(8);
        fields.buffer(&self.target_info.to_bytes());
        fields.writer.bytes(&VERSION);
        fields.finish()
    }
}

/// AUTHENTICATE: the user, and the proof. 2.2.1.3.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Authenticate {
    /// The response of LM; not used here.
    pub lm_response: Bytes,
    /// The response of NTLM: of version 2 if it is longer than 24 bytes.
    pub nt_response: Bytes,
    /// The user's domain, in UTF-16.
    pub domain: Bytes,
    /// The user, in UTF-16.
    pub user: Bytes,
    /// The client's name, in UTF-16.
    pub workstation: Bytes,
    /// The session's key, encrypted; empty without [`MessageFlags::KEY_EXCHANGE`].
    pub encrypted_session_key: Bytes,
    /// Bits.
    pub flags: MessageFlags,
    /// MIC of the three messages; zeros in a message without one.
    pub mic: [u8; 16],
}

impl Authenticate {
    /// Where the MIC is, in a message that has one.
    pub const MIC: std::ops::Range<usize> = 72..88;

    /// Reads it.
    ///
    /// # Errors
    /// It is not this message, or a buffer is not inside of it.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let mut reader = Reader::new(bytes.clone());
        header(&mut reader, 3)?;
        let lm_response = buffer(&mut reader)?;
        let nt_response = buffer(&mut reader)?;
        let domain = buffer(&mut reader)?;
        let user = buffer(&mut reader)?;
        let workstation = buffer(&mut reader)?;
        let encrypted_session_key = buffer(&mut reader)?;
        let flags = MessageFlags(reader.u32()?);
        // Old clients end the fixed part here; then nothing of it is a MIC, and the flags in the
        // response do not announce one.
        let mic = bytes.get(Self::MIC).and_then(|mic| mic.try_into().ok()).unwrap_or_default();
        Ok(Self {
            lm_response,
            nt_response,
            domain,
            user,
            workstation,
            encrypted_session_key,
            flags,
            mic,
        })
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Buffers::new(3, 88);
        fields.buffer(&self.lm_response);
        fields.buffer(&self.nt_response);
        fields.buffer(&self.domain);
        fields.buffer(&self.user);
        fields.buffer(&self.workstation);
        fields.buffer(&self.encrypted_session_key);
        fields.writer.u32(self.flags.0);
        fields.writer.bytes(&VERSION);
        fields.writer.bytes(&self.mic);
        fields.finish()
    }
}
