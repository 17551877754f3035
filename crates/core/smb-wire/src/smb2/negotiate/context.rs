//! Contexts of NEGOTIATE in 3.1.1. MS-SMB2 2.2.3.1; that of POSIX is of the SMB 3.1.1 POSIX
//! extensions.

use crate::cursor::{Malformed, Reader, Result, Writer, to_utf16, utf16};
use crate::smb2::bits::{bits, values};
use bytes::Bytes;

/// Most contexts of a message.
pub const MAX_NEGOTIATE_CONTEXTS: usize = 64;
/// The bytes of a POSIX context: one version of the extensions.
pub const POSIX_EXTENSIONS: [u8; 16] = [
    0x93, 0xad, 0x25, 0x50, 0x9c, 0xb4, 0x11, 0xe7, 0xb4, 0x23, 0x83, 0xde, 0x96, 0x8b, 0xcd, 0x7c,
];

const PREAUTH_INTEGRITY: u16 = 1;
const ENCRYPTION: u16 = 2;
const COMPRESSION: u16 = 3;
const NETNAME: u16 = 5;
const SIGNING: u16 = 8;
const POSIX: u16 = 0x100;

values! {
    /// A hash for the integrity of the messages before a logon. 2.2.3.1.1.
    HashAlgorithm(u16) {
        /// SHA-512.
        SHA512 = 1,
    }

    /// A cipher. 2.2.3.1.2.
    Cipher(u16) {
        /// None: the server supports none of those that the client offers.
        NONE = 0,
        /// AES-128-CCM.
        AES_128_CCM = 1,
        /// AES-128-GCM.
        AES_128_GCM = 2,
        /// AES-256-CCM.
        AES_256_CCM = 3,
        /// AES-256-GCM.
        AES_256_GCM = 4,
    }

    /// How messages are signed. 2.2.3.1.7.
    SigningAlgorithm(u16) {
        /// HMAC-SHA256.
        HMAC_SHA256 = 0,
        /// AES-128-CMAC.
        AES_CMAC = 1,
        /// AES-128-GMAC.
        AES_GMAC = 2,
    }

    /// How messages are compressed. 2.2.3.1.3.
    CompressionAlgorithm(u16) {
        /// Not.
        NONE = 0,
        /// LZNT1.
        LZNT1 = 1,
        /// LZ77.
        LZ77 = 2,
        /// LZ77 and Huffman.
        LZ77_HUFFMAN = 3,
        /// A byte that is repeated.
        PATTERN_V1 = 4,
        /// LZ4.
        LZ4 = 5,
    }
}

bits! {
    /// 2.2.3.1.3, Flags.
    CompressionFlags(u32) {
        /// A message may have several compressed parts.
        CHAINED = 1,
    }
}

/// A context.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NegotiateContext {
    /// Hashes that are offered, or the one that is chosen, and random bytes. 2.2.3.1.1.
    PreauthIntegrity {
        /// Hashes.
        hashes: Vec<HashAlgorithm>,
        /// Random bytes.
        salt: Bytes,
    },
    /// Ciphers, the preferred first, or the one that is chosen. 2.2.3.1.2.
    Encryption(Vec<Cipher>),
    /// Algorithms for compression. 2.2.3.1.3.
    Compression {
        /// Whether they may be chained.
        flags: CompressionFlags,
        /// Algorithms.
        algorithms: Vec<CompressionAlgorithm>,
    },
    /// The name by which the client knows the server. 2.2.3.1.4.
    NetName(String),
    /// Algorithms for signatures, the preferred first, or the one that is chosen. 2.2.3.1.7.
    Signing(Vec<SigningAlgorithm>),
    /// Versions of the POSIX extensions.
    Posix(Vec<[u8; 16]>),
    /// Any other: ignored by a server (3.3.5.4).
    Other {
        /// Its type.
        kind: u16,
        /// Its data.
        data: Bytes,
    },
}

impl NegotiateContext {
    /// The number of its type.
    pub fn kind(&self) -> u16 {
        match self {
            Self::PreauthIntegrity { .. } => PREAUTH_INTEGRITY,
            Self::Encryption(_) => ENCRYPTION,
            Self::Compression { .. } => COMPRESSION,
            Self::NetName(_) => NETNAME,
            Self::Signing(_) => SIGNING,
            Self::Posix(_) => POSIX,
            Self::Other { kind, .. } => *kind,
        }
    }

    fn decode(kind: u16, data: Bytes) -> Result<Self> {
        let mut reader = Reader::new(data.clone());
        Ok(match kind {
            PREAUTH_INTEGRITY => {
                let (hash_count, salt_length) = (reader.u16()?, reader.u16()?);
                let hashes = numbers(&mut reader, hash_count, HashAlgorithm)?;
                Self::PreauthIntegrity { hashes, salt: reader.take(usize::from(salt_length))? }
            }
            ENCRYPTION => {
                let count = reader.u16()?;
                Self::Encryption(numbers(&mut reader, count, Cipher)?)
            }
            COMPRESSION => {
                let count = reader.u16()?;
                reader.skip(2)?;
                let flags = CompressionFlags(reader.u32()?);
                let algorithms = numbers(&mut reader, count, CompressionAlgorithm)?;
                Self::Compression { flags, algorithms }
            }
            // A server does not use the name (3.3.5.4): one that is no text fails nothing.
            NETNAME => utf16(&data).map_or(Self::Other { kind, data }, Self::NetName),
            SIGNING => {
                let count = reader.u16()?;
                Self::Signing(numbers(&mut reader, count, SigningAlgorithm)?)
            }
            POSIX => Self::Posix(
                (0..data.len() / 16).map(|_| reader.array()).collect::<Result<Vec<_>>>()?,
            ),
            _ => Self::Other { kind, data },
        })
    }

    /// The bytes behind the type and the length.
    fn data(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        match self {
            Self::PreauthIntegrity { hashes, salt } => {
                writer.u16(hashes.len() as u16);
                writer.u16(salt.len() as u16);
                hashes.iter().for_each(|hash| writer.u16(hash.0));
                writer.bytes(salt);
            }
            Self::Encryption(ciphers) => {
                writer.u16(ciphers.len() as u16);
                ciphers.iter().for_each(|cipher| writer.u16(cipher.0));
            }
            Self::Compression { flags, algorithms } => {
                writer.u16(algorithms.len() as u16);
                writer.u16(0);
                writer.u32(flags.0);
                algorithms.iter().for_each(|algorithm| writer.u16(algorithm.0));
            }
            Self::NetName(name) => writer.bytes(&to_utf16(name)),
            Self::Signing(algorithms) => {
                writer.u16(algorithms.len() as u16);
                algorithms.iter().for_each(|algorithm| writer.u16(algorithm.0));
            }
            Self::Posix(versions) => versions.iter().for_each(|version| writer.bytes(version)),
            Self::Other { data, .. } => writer.bytes(data),
        }
        writer.finish()
    }
}

/// Reads `count` 16-bit numbers; no memory is taken for more than there are.
fn numbers<T>(reader: &mut Reader, count: u16, make: fn(u16) -> T) -> Result<Vec<T>> {
    if usize::from(count) * 2 > reader.remaining() {
        return Err(Malformed("negotiate context: count"));
    }
    (0..count).map(|_| reader.u16().map(make)).collect()
}

/// Reads the contexts at an offset of the message; each begins at a multiple of 8 (2.2.3.1).
pub(super) fn decode_list(
    reader: &Reader,
    offset: usize,
    count: usize,
) -> Result<Vec<NegotiateContext>> {
    if count > MAX_NEGOTIATE_CONTEXTS {
        return Err(Malformed("negotiate: NegotiateContextCount"));
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut reader = Reader::new(reader.message().clone());
    reader.skip(offset)?;
    let mut contexts = Vec::with_capacity(count);
    for _ in 0..count {
        reader.align(8);
        let kind = reader.u16()?;
        let length = reader.u16()?;
        reader.skip(4)?;
        contexts.push(NegotiateContext::decode(kind, reader.take(usize::from(length))?)?);
    }
    Ok(contexts)
}

/// Appends the contexts, and writes their offset to `offset_at`.
pub(super) fn encode_list(writer: &mut Writer, offset_at: usize, contexts: &[NegotiateContext]) {
    for (index, context) in contexts.iter().enumerate() {
        writer.align(8);
        if index == 0 {
            writer.set_u32(offset_at, writer.position() as u32);
        }
        let data = context.data();
        writer.u16(context.kind());
        writer.u16(data.len() as u16);
        writer.u32(0);
        writer.bytes(&data);
    }
}
