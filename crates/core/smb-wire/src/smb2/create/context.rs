//! The list of contexts of a CREATE. MS-SMB2 2.2.13.2.

use crate::cursor::{Malformed, Reader, Result, Writer};
use bytes::Bytes;

/// Most contexts of a request or a response.
pub const MAX_CREATE_CONTEXTS: usize = 64;
/// Most bytes of a context's name; those of the standard have 4 or 16.
pub const MAX_CONTEXT_NAME: usize = 64;
/// Bytes of a context before its name.
const CONTEXT_HEADER_BYTES: usize = 16;

/// Extended attributes: a list of MS-FSCC 2.4.16. 2.2.13.2.1.
pub const EXTENDED_ATTRIBUTES: &[u8] = b"ExtA";
/// A security descriptor: MS-DTYP 2.4.6. 2.2.13.2.2.
pub const SECURITY_DESCRIPTOR: &[u8] = b"SecD";
/// A durable open is asked for, or granted. 2.2.13.2.3, 2.2.14.2.3.
pub const DURABLE_REQUEST: &[u8] = b"DHnQ";
/// A durable open is opened again. 2.2.13.2.4.
pub const DURABLE_RECONNECT: &[u8] = b"DHnC";
/// The maximal access. 2.2.13.2.5, 2.2.14.2.5.
pub const MAXIMAL_ACCESS: &[u8] = b"MxAc";
/// Bytes to reserve on disks. 2.2.13.2.6.
pub const ALLOCATION_SIZE: &[u8] = b"AlSi";
/// A snapshot. 2.2.13.2.7.
pub const TIMEWARP: &[u8] = b"TWrp";
/// A lease. 2.2.13.2.8, 2.2.13.2.10, 2.2.14.2.10, 2.2.14.2.11.
pub const LEASE: &[u8] = b"RqLs";
/// The number of the file on its volume. 2.2.13.2.9, 2.2.14.2.9.
pub const ON_DISK_ID: &[u8] = b"QFid";
/// A durable open of SMB 3. 2.2.13.2.11, 2.2.14.2.12.
pub const DURABLE_REQUEST_V2: &[u8] = b"DH2Q";
/// A durable open of SMB 3 is opened again. 2.2.13.2.12.
pub const DURABLE_RECONNECT_V2: &[u8] = b"DH2C";
/// An application. 2.2.13.2.13.
pub const APP_INSTANCE_ID: &[u8] = &[
    0x45, 0xbc, 0xa6, 0x6a, 0xef, 0xa7, 0xf7, 0x4a, 0x90, 0x08, 0xfa, 0x46, 0x2e, 0x14, 0x4d, 0x74,
];
/// The version of an application. 2.2.13.2.15.
pub const APP_INSTANCE_VERSION: &[u8] = &[
    0xb9, 0x82, 0xd0, 0xb7, 0x3b, 0x56, 0x07, 0x4f, 0xa0, 0x7b, 0x52, 0x4a, 0x81, 0x16, 0xa0, 0x10,
];
/// The POSIX extensions: `SMB2_CREATE_TAG_POSIX`.
pub const POSIX: &[u8] = &crate::smb2::negotiate::POSIX_EXTENSIONS;
/// The extensions of macOS.
pub const APPLE: &[u8] = b"AAPL";

/// A context: its name decides what its data are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateContext {
    /// The name, one of the constants of this module or any other.
    pub name: Bytes,
    /// The data.
    pub data: Bytes,
}

impl CreateContext {
    /// A context.
    pub fn new(name: &'static [u8], data: impl Into<Bytes>) -> Self {
        Self { name: Bytes::from_static(name), data: data.into() }
    }

    /// The data of the first context with a name.
    pub fn find<'a>(list: &'a [Self], name: &[u8]) -> Option<&'a Bytes> {
        list.iter().find(|context| context.name == name).map(|context| &context.data)
    }

    /// Reads a context from its bytes, which end where the next one begins.
    fn decode(bytes: Bytes) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        reader.skip(4)?;
        let (name_offset, name_length) = (usize::from(reader.u16()?), usize::from(reader.u16()?));
        reader.skip(2)?;
        let (data_offset, data_length) = (usize::from(reader.u16()?), reader.u32()? as usize);
        if name_length > MAX_CONTEXT_NAME {
            return Err(Malformed("create context: NameLength"));
        }
        let name = reader.slice(name_offset, name_length)?;
        Ok(Self { name, data: reader.slice(data_offset, data_length)? })
    }

    fn encode(&self, writer: &mut Writer) {
        let start = writer.position();
        writer.u32(0);
        writer.u16(CONTEXT_HEADER_BYTES as u16);
        writer.u16(self.name.len() as u16);
        writer.u16(0);
        let data_at = writer.position();
        writer.u16(0);
        writer.u32(self.data.len() as u32);
        writer.bytes(&self.name);
        if !self.data.is_empty() {
            writer.align(8);
            writer.set_u16(data_at, (writer.position() - start) as u16);
            writer.bytes(&self.data);
        }
    }
}

/// Reads the contexts of a message's buffer. Each one but the last gives the offset of the next.
///
/// # Errors
/// A context is not inside, or does not begin at a multiple of 8; or there are over
/// [`MAX_CREATE_CONTEXTS`].
pub fn decode_list(mut bytes: Bytes) -> Result<Vec<CreateContext>> {
    let mut contexts = Vec::new();
    while !bytes.is_empty() {
        if contexts.len() == MAX_CREATE_CONTEXTS {
            return Err(Malformed("create contexts: too many"));
        }
        let next = Reader::new(bytes.clone()).u32()? as usize;
        if next == 0 {
            contexts.push(CreateContext::decode(bytes)?);
            break;
        }
        if !next.is_multiple_of(8) || next < CONTEXT_HEADER_BYTES || next >= bytes.len() {
            return Err(Malformed("create context: Next"));
        }
        contexts.push(CreateContext::decode(bytes.split_to(next))?);
    }
    Ok(contexts)
}

/// Appends contexts, and writes their offset and length to `fields_at`; both stay 0 without any.
pub(super) fn encode_list(writer: &mut Writer, fields_at: usize, contexts: &[CreateContext]) {
    let Some((first, others)) = contexts.split_first() else { return };
    writer.align(8);
    let start = writer.position();
    let mut before = start;
    first.encode(writer);
    for context in others {
        writer.align(8);
        let at = writer.position();
        writer.set_u32(before, (at - before) as u32);
        context.encode(writer);
        before = at;
    }
    writer.set_u32(fields_at, start as u32);
    writer.set_u32(fields_at + 4, (writer.position() - start) as u32);
}
