//! Packets of DCE/RPC over connections (C706 12.6; MS-RPCE 2.2.2), one fragment each.

use bytes::Bytes;

use crate::cursor::{Malformed, Reader, Result, Writer};

/// Bytes of the header that all packets begin with.
pub const HEADER_LENGTH: usize = 16;
/// Bytes before the arguments of a request without an object, and before the results of a response.
pub const CALL_HEADER_LENGTH: usize = 24;
/// The most presentation contexts of a bind, and the most transfer syntaxes of each.
pub const MAX_CONTEXTS: usize = 16;

/// The first fragment of a call (12.6.3.1).
pub const FLAG_FIRST: u8 = 0x01;
/// The last fragment of a call.
pub const FLAG_LAST: u8 = 0x02;
/// In a fault: the call was not begun.
pub const FLAG_DID_NOT_EXECUTE: u8 = 0x20;
/// In a request: the number of an object follows its header.
const FLAG_OBJECT: u8 = 0x80;

/// An interface or a transfer syntax, and its version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Syntax {
    /// Its UUID, as on the wire: the first three fields are little endian.
    pub uuid: [u8; 16],
    /// The major version in the low 16 bits, the minor one in the high ones.
    pub version: u32,
}

/// NDR 2.0: 8a885d04-1ceb-11c9-9fe8-08002b104860 (MS-RPCE 2.2.4.12).
pub const NDR: Syntax = Syntax {
    uuid: *b"\x04\x5d\x88\x8a\xeb\x1c\xc9\x11\x9f\xe8\x08\x00\x2b\x10\x48\x60",
    version: 2,
};

/// One fragment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Flags such as [`FLAG_FIRST`].
    pub flags: u8,
    /// The number that a client gives a call.
    pub call_id: u32,
    /// Whether a verifier follows the body. It is not decoded, and none is encoded.
    pub has_verifier: bool,
    /// What follows the header.
    pub body: Body,
}

/// What follows the header of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// Asks for interfaces.
    Bind(Bind),
    /// The answer to it.
    BindAck(BindAck),
    /// The refusal of a whole bind, with its reason (12.6.3.1, `p_reject_reason_t`).
    BindNak(u16),
    /// Asks for further interfaces.
    AlterContext(Bind),
    /// The answer to it.
    AlterContextResponse(BindAck),
    /// A call.
    Request(Request),
    /// Its results.
    Response(Response),
    /// Why it has none.
    Fault(Fault),
    /// A packet of another type (12.6.3), such as cancel (18) or orphaned (19).
    Other(u8),
}

/// Asks for interfaces (12.6.4.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bind {
    /// The longest fragment that the sender sends, in bytes.
    pub max_transmit: u16,
    /// The longest fragment that the sender takes, in bytes.
    pub max_receive: u16,
    /// The group of connections to join; 0: a new one.
    pub group: u32,
    /// The interfaces.
    pub contexts: Vec<Context>,
}

/// An interface that a client asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Context {
    /// The number by which requests name it.
    pub id: u16,
    /// The interface.
    pub interface: Syntax,
    /// How arguments may be written; the server chooses one.
    pub transfer: Vec<Syntax>,
}

/// Answers a bind (12.6.4.4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BindAck {
    /// The longest fragment that the sender sends, in bytes.
    pub max_transmit: u16,
    /// The longest fragment that the sender takes, in bytes.
    pub max_receive: u16,
    /// The group of connections.
    pub group: u32,
    /// The name of the pipe, `\PIPE\srvsvc`; empty in the answer to an alter context.
    pub address: String,
    /// One for each context of the request.
    pub results: Vec<ContextResult>,
}

/// Whether a context is accepted (12.6.3.1, `p_result_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContextResult {
    /// 0: accepted, 2: the server refuses it.
    pub result: u16,
    /// Why: 1 no such interface, 2 no such transfer syntax, 3 too many.
    pub reason: u16,
    /// The transfer syntax that was chosen; 0 if none was.
    pub transfer: Syntax,
}

/// A call, or a part of it (12.6.4.9).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The bytes of arguments from here to the end of the call; 0: unknown.
    pub alloc_hint: u32,
    /// The context of the interface.
    pub context: u16,
    /// The number of the operation in the interface.
    pub operation: u16,
    /// Arguments.
    pub stub: Bytes,
}

/// The results of a call, or a part of them (12.6.4.10).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// The bytes of results from here to the end of the call; 0: unknown.
    pub alloc_hint: u32,
    /// The context of the interface.
    pub context: u16,
    /// Results.
    pub stub: Bytes,
}

/// A call failed without results (12.6.4.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The context of the interface.
    pub context: u16,
    /// Why (C706 appendix E, MS-RPCE 2.2.2.9).
    pub status: u32,
}

/// The length of the packet that begins with `bytes`; `None` if fewer than a header are there.
///
/// # Errors
/// The version is not 5.0 or 5.1, numbers are not little endian, or the length is below a header's.
pub fn packet_length(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(header) = bytes.first_chunk::<HEADER_LENGTH>() else { return Ok(None) };
    if header[0] != 5 || header[1] > 1 {
        return Err(Malformed("rpc packet: version"));
    }
    // 14.2.5: the high half is the order of integers, the low one the character set.
    if header[4] & 0xf0 != 0x10 {
        return Err(Malformed("rpc packet: not little endian"));
    }
    match usize::from(u16::from_le_bytes([header[8], header[9]])) {
        length if length < HEADER_LENGTH => Err(Malformed("rpc packet: length")),
        length => Ok(Some(length)),
    }
}

impl Packet {
    /// A packet that is the whole call.
    pub fn whole(call_id: u32, body: Body) -> Self {
        Self { flags: FLAG_FIRST | FLAG_LAST, call_id, has_verifier: false, body }
    }

    /// Decodes a packet.
    ///
    /// # Errors
    /// It does not follow its format, or its length is not that of `bytes`.
    pub fn decode(bytes: Bytes) -> Result<Self> {
        if packet_length(&bytes)? != Some(bytes.len()) {
            return Err(Malformed("rpc packet: length"));
        }
        let mut header = Reader::new(bytes.clone());
        header.skip(2)?;
        let (kind, flags) = (header.u8()?, header.u8()?);
        header.skip(6)?;
        let verifier = usize::from(header.u16()?);
        let call_id = header.u32()?;
        let body = without_verifier(bytes, verifier)?;
        let body = Body::decode(kind, flags, body)?;
        Ok(Self { flags: flags & !FLAG_OBJECT, call_id, has_verifier: verifier != 0, body })
    }

    /// Encodes a packet. A body that is longer than a fragment can be is cut.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.bytes(&[5, 0, self.body.kind(), self.flags, 0x10, 0, 0, 0]);
        writer.u32(0);
        writer.u32(self.call_id);
        self.body.encode(&mut writer);
        writer.truncate(usize::from(u16::MAX));
        writer.set_u16(8, u16::try_from(writer.position()).unwrap_or(u16::MAX));
        writer.finish()
    }
}

/// A packet without the verifier at its end: 8 bytes, and as many as the header says
/// (MS-RPCE 2.2.2.11).
fn without_verifier(bytes: Bytes, verifier: usize) -> Result<Bytes> {
    if verifier == 0 {
        return Ok(bytes);
    }
    let end = bytes.len().checked_sub(verifier + 8).filter(|end| *end >= HEADER_LENGTH);
    let end = end.ok_or(Malformed("rpc packet: verifier"))?;
    let padding = usize::from(bytes[end + 2]);
    let end = end.checked_sub(padding).filter(|end| *end >= HEADER_LENGTH);
    Ok(bytes.slice(..end.ok_or(Malformed("rpc packet: padding of the verifier"))?))
}

impl Body {
    fn kind(&self) -> u8 {
        match self {
            Self::Request(_) => 0,
            Self::Response(_) => 2,
            Self::Fault(_) => 3,
            Self::Bind(_) => 11,
            Self::BindAck(_) => 12,
            Self::BindNak(_) => 13,
            Self::AlterContext(_) => 14,
            Self::AlterContextResponse(_) => 15,
            Self::Other(kind) => *kind,
        }
    }

    /// `packet` has the header too, from which alignment counts.
    fn decode(kind: u8, flags: u8, packet: Bytes) -> Result<Self> {
        let mut reader = Reader::new(packet);
        reader.skip(HEADER_LENGTH)?;
        let reader = &mut reader;
        Ok(match kind {
            0 => Self::Request(Request::decode(reader, flags)?),
            2 => Self::Response(Response::decode(reader)?),
            3 => Self::Fault(Fault::decode(reader)?),
            11 => Self::Bind(Bind::decode(reader)?),
            12 => Self::BindAck(BindAck::decode(reader)?),
            13 => Self::BindNak(reader.u16()?),
            14 => Self::AlterContext(Bind::decode(reader)?),
            15 => Self::AlterContextResponse(BindAck::decode(reader)?),
            kind => Self::Other(kind),
        })
    }

    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Request(request) => {
                writer.u32(request.alloc_hint);
                writer.u16(request.context);
                writer.u16(request.operation);
                writer.bytes(&request.stub);
            }
            Self::Response(response) => {
                writer.u32(response.alloc_hint);
                writer.u16(response.context);
                writer.u16(0);
                writer.bytes(&response.stub);
            }
            Self::Fault(fault) => {
                writer.u32(0);
                writer.u16(fault.context);
                writer.u16(0);
                writer.u32(fault.status);
                writer.u32(0);
            }
            Self::Bind(bind) | Self::AlterContext(bind) => bind.encode(writer),
            Self::BindAck(ack) | Self::AlterContextResponse(ack) => ack.encode(writer),
            Self::BindNak(reason) => {
                writer.u16(*reason);
                // One version of the protocol, 5.0 (`p_rt_versions_supported_t`).
                writer.bytes(&[1, 5, 0]);
            }
            Self::Other(_) => {}
        }
    }
}

impl Syntax {
    fn decode(reader: &mut Reader) -> Result<Self> {
        Ok(Self { uuid: reader.array()?, version: reader.u32()? })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.bytes(&self.uuid);
        writer.u32(self.version);
    }
}

/// A count of items, and its three reserved bytes or one.
fn count(reader: &mut Reader, reserved: usize) -> Result<usize> {
    let count = usize::from(reader.u8()?);
    reader.skip(reserved)?;
    if count > MAX_CONTEXTS {
        return Err(Malformed("rpc bind: too many contexts"));
    }
    Ok(count)
}

/// A count of items that are at most [`MAX_CONTEXTS`].
fn count_byte(items: usize) -> u8 {
    u8::try_from(items).unwrap_or(u8::MAX)
}

impl Bind {
    fn decode(reader: &mut Reader) -> Result<Self> {
        let (max_transmit, max_receive, group) = (reader.u16()?, reader.u16()?, reader.u32()?);
        let contexts = (0..count(reader, 3)?).map(|_| Context::decode(reader));
        Ok(Self { max_transmit, max_receive, group, contexts: contexts.collect::<Result<_>>()? })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(self.max_transmit);
        writer.u16(self.max_receive);
        writer.u32(self.group);
        writer.bytes(&[count_byte(self.contexts.len()), 0, 0, 0]);
        for context in &self.contexts {
            writer.u16(context.id);
            writer.bytes(&[count_byte(context.transfer.len()), 0]);
            context.interface.encode(writer);
            for syntax in &context.transfer {
                syntax.encode(writer);
            }
        }
    }
}

impl Context {
    fn decode(reader: &mut Reader) -> Result<Self> {
        let id = reader.u16()?;
        let transfers = count(reader, 1)?;
        let interface = Syntax::decode(reader)?;
        let transfer = (0..transfers).map(|_| Syntax::decode(reader)).collect::<Result<_>>()?;
        Ok(Self { id, interface, transfer })
    }
}

impl BindAck {
    fn decode(reader: &mut Reader) -> Result<Self> {
        let (max_transmit, max_receive, group) = (reader.u16()?, reader.u16()?, reader.u32()?);
        let length = usize::from(reader.u16()?);
        let address = reader.take(length)?;
        let address = address.strip_suffix(&[0]).unwrap_or(&address);
        let address = str::from_utf8(address).map_err(|_| Malformed("rpc bind: address"))?;
        reader.align(4);
        let results = (0..count(reader, 3)?).map(|_| ContextResult::decode(reader));
        let results = results.collect::<Result<_>>()?;
        Ok(Self { max_transmit, max_receive, group, address: address.to_owned(), results })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(self.max_transmit);
        writer.u16(self.max_receive);
        writer.u32(self.group);
        if self.address.is_empty() {
            writer.u16(0);
        } else {
            writer.u16(u16::try_from(self.address.len() + 1).unwrap_or(u16::MAX));
            writer.bytes(self.address.as_bytes());
            writer.u8(0);
        }
        writer.align(4);
        writer.bytes(&[count_byte(self.results.len()), 0, 0, 0]);
        for result in &self.results {
            writer.u16(result.result);
            writer.u16(result.reason);
            result.transfer.encode(writer);
        }
    }
}

impl ContextResult {
    fn decode(reader: &mut Reader) -> Result<Self> {
        let (result, reason) = (reader.u16()?, reader.u16()?);
        Ok(Self { result, reason, transfer: Syntax::decode(reader)? })
    }
}

impl Request {
    fn decode(reader: &mut Reader, flags: u8) -> Result<Self> {
        let (alloc_hint, context, operation) = (reader.u32()?, reader.u16()?, reader.u16()?);
        if flags & FLAG_OBJECT != 0 {
            reader.skip(16)?;
        }
        Ok(Self { alloc_hint, context, operation, stub: reader.rest() })
    }
}

impl Response {
    fn decode(reader: &mut Reader) -> Result<Self> {
        let (alloc_hint, context) = (reader.u32()?, reader.u16()?);
        reader.skip(2)?;
        Ok(Self { alloc_hint, context, stub: reader.rest() })
    }
}

impl Fault {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.skip(4)?;
        let context = reader.u16()?;
        reader.skip(2)?;
        Ok(Self { context, status: reader.u32()? })
    }
}
