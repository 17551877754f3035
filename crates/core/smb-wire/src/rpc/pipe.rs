//! The server's end of a named pipe: what a client writes are packets, and what it reads are the
//! answers.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use bytes::Bytes;

use super::pdu::{
    self, Bind, BindAck, Body, CALL_HEADER_LENGTH, Context, ContextResult, FLAG_DID_NOT_EXECUTE,
    FLAG_FIRST, FLAG_LAST, MAX_CONTEXTS, NDR, Packet, Request, Response, Syntax,
};
use super::{ServerInfo, srvsvc, wkssvc};
use crate::cursor::Malformed;
use crate::status::NtStatus;

/// The longest fragment that the server sends, in bytes.
const MAX_TRANSMIT: u16 = 5840;
/// The shortest limit that a client may have for fragments (C706 12.6.3.1, `MustRecvFragSize`).
const MIN_TRANSMIT: u16 = 1432;
/// The longest arguments of a call, in bytes, of all its fragments.
const MAX_ARGUMENTS: usize = 64 << 10;
/// The most bytes that one write may leave to be decoded.
const MAX_WRITTEN: usize = 128 << 10;
/// No packet is handled while this many bytes wait to be read.
const MAX_UNREAD: usize = 64 << 10;
/// The group of connections that clients without one join. Groups have no use here.
const GROUP: u32 = 0x53f0;

/// Refusal of a bind: the reason is not given (C706 12.6.3.1).
const NAK_NOT_SPECIFIED: u16 = 0;
/// Refusal of a bind: no security of this kind (MS-RPCE 2.2.2.5).
const NAK_AUTHENTICATION: u16 = 8;

/// The pipes that there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipeKind {
    /// Lists shares.
    Srvsvc,
    /// Describes the computer.
    Wkssvc,
}

impl PipeKind {
    /// The pipe that a client opens by a name such as `srvsvc`, `\srvsvc` or `\PIPE\srvsvc`, in any
    /// case.
    pub fn by_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let name = name.strip_prefix('\\').unwrap_or(&name);
        match name.strip_prefix("pipe\\").unwrap_or(name) {
            "srvsvc" => Some(Self::Srvsvc),
            "wkssvc" => Some(Self::Wkssvc),
            _ => None,
        }
    }

    fn interface(self) -> Syntax {
        match self {
            Self::Srvsvc => srvsvc::SYNTAX,
            Self::Wkssvc => wkssvc::SYNTAX,
        }
    }

    fn address(self) -> String {
        match self {
            Self::Srvsvc => "\\PIPE\\srvsvc".to_owned(),
            Self::Wkssvc => "\\PIPE\\wkssvc".to_owned(),
        }
    }
}

/// Why a pipe does not take bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PipeError {
    /// The bytes are no packets. The pipe is of no more use.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A call is longer than its limit, or more is written than may wait. The pipe is of no more
    /// use.
    #[error("too much is written to a pipe")]
    TooLong,
    /// Answers have to be read first.
    #[error("answers of a pipe are not read")]
    Busy,
    /// The bytes are taken, but there is no answer to them: they are not a whole call.
    #[error("no answer in a pipe")]
    NoAnswer,
    /// An error occurred before.
    #[error("a pipe is disconnected")]
    Disconnected,
}

impl PipeError {
    /// What a server answers to the WRITE or IOCTL.
    pub fn status(self) -> NtStatus {
        match self {
            Self::Busy => NtStatus::PIPE_BUSY,
            Self::NoAnswer => NtStatus::PIPE_EMPTY,
            Self::Malformed(_) | Self::TooLong | Self::Disconnected => NtStatus::PIPE_DISCONNECTED,
        }
    }
}

/// The status of a call that fails without results (MS-RPCE 2.2.2.9).
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault(u32);

impl Fault {
    /// `nca_s_op_rng_error`: the interface has no such operation.
    pub(super) const UNKNOWN_OPERATION: Self = Self(0x1c01_0002);
    /// `nca_s_unk_if`: no such interface is bound.
    const UNKNOWN_INTERFACE: Self = Self(0x1c01_0003);
    /// `nca_s_proto_error`: a packet at the wrong time.
    const PROTOCOL: Self = Self(0x1c01_000b);
    /// `RPC_X_BAD_STUB_DATA`: the arguments do not follow their format.
    const BAD_ARGUMENTS: Self = Self(1783);
    /// `ERROR_ACCESS_DENIED`: a verifier that was not agreed upon.
    const ACCESS_DENIED: Self = Self(5);
}

impl From<Malformed> for Fault {
    fn from(_: Malformed) -> Self {
        Self::BAD_ARGUMENTS
    }
}

/// A pipe that a client has opened.
#[derive(Debug)]
pub struct Pipe {
    kind: PipeKind,
    info: ServerInfo,
    /// Written, but not yet a whole packet.
    written: Vec<u8>,
    /// A call whose last fragment is not here.
    call: Option<Call>,
    /// The contexts that were accepted; `None` before a bind.
    contexts: Option<Vec<u16>>,
    /// The longest fragment that the client takes, and we send.
    max_transmit: u16,
    /// Fragments to be read, and the sum of their bytes.
    answers: VecDeque<Bytes>,
    unread: usize,
    broken: bool,
}

/// The fragments of a call.
#[derive(Debug)]
struct Call {
    id: u32,
    context: u16,
    operation: u16,
    arguments: Vec<u8>,
}

impl Pipe {
    /// A pipe to which nothing was written.
    pub fn new(kind: PipeKind, info: ServerInfo) -> Self {
        Self {
            kind,
            info,
            written: Vec::new(),
            call: None,
            contexts: None,
            max_transmit: MAX_TRANSMIT,
            answers: VecDeque::new(),
            unread: 0,
            broken: false,
        }
    }

    /// Takes bytes: a part of a packet, a packet, or several. Answers are for [`Self::read`].
    ///
    /// # Errors
    /// Those of [`PipeError`], but not [`PipeError::NoAnswer`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PipeError> {
        if self.broken {
            return Err(PipeError::Disconnected);
        }
        if self.unread >= MAX_UNREAD {
            return Err(PipeError::Busy);
        }
        let done = self.take(bytes);
        if done.is_err() {
            self.broken = true;
            self.written = Vec::new();
            self.call = None;
        }
        done
    }

    /// Takes at most `max` bytes of the first answer, a fragment, and whether more of it is left
    /// (STATUS_BUFFER_OVERFLOW); `None` if there is no answer.
    pub fn read(&mut self, max: usize) -> Option<(Bytes, bool)> {
        let answer = self.answers.front_mut()?;
        let part = answer.split_to(max.min(answer.len()));
        let more = !answer.is_empty();
        if !more {
            self.answers.pop_front();
        }
        self.unread -= part.len();
        Some((part, more))
    }

    /// Writes, and reads the answer (FSCTL_PIPE_TRANSCEIVE).
    ///
    /// # Errors
    /// Those of [`PipeError`].
    pub fn transact(&mut self, bytes: &[u8], max: usize) -> Result<(Bytes, bool), PipeError> {
        if !self.answers.is_empty() {
            return Err(PipeError::Busy);
        }
        self.write(bytes)?;
        self.read(max).ok_or(PipeError::NoAnswer)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), PipeError> {
        if bytes.len() > MAX_WRITTEN - self.written.len() {
            return Err(PipeError::TooLong);
        }
        self.written.extend_from_slice(bytes);
        let mut written = Bytes::from(std::mem::take(&mut self.written));
        while let Some(length) = pdu::packet_length(&written)? {
            if length > written.len() {
                break;
            }
            if self.unread >= MAX_UNREAD {
                return Err(PipeError::TooLong);
            }
            self.handle(Packet::decode(written.split_to(length))?)?;
        }
        // Fewer bytes than a packet can have.
        self.written = written.to_vec();
        Ok(())
    }

    fn handle(&mut self, packet: Packet) -> Result<(), PipeError> {
        let Packet { flags, call_id, has_verifier, body } = packet;
        match body {
            Body::Bind(_) if has_verifier => {
                self.answer(call_id, Body::BindNak(NAK_AUTHENTICATION));
            }
            Body::Bind(_) if self.contexts.is_some() => {
                self.answer(call_id, Body::BindNak(NAK_NOT_SPECIFIED));
            }
            Body::Bind(bind) => self.bind(call_id, &bind),
            Body::AlterContext(_) if has_verifier => self.fault(call_id, 0, Fault::ACCESS_DENIED),
            Body::AlterContext(_) if self.contexts.is_none() => {
                self.fault(call_id, 0, Fault::PROTOCOL);
            }
            Body::AlterContext(bind) => {
                let ack = self.accept(&bind, String::new());
                self.answer(call_id, Body::AlterContextResponse(ack));
            }
            Body::Request(request) if has_verifier => {
                self.fault(call_id, request.context, Fault::ACCESS_DENIED);
            }
            Body::Request(request) => self.request(flags, call_id, request)?,
            // 12.6.4.8: the client has no more interest in the call.
            Body::Other(19) => self.call = None,
            // A cancel comes too late for calls that take no time, and a further leg of a logon
            // belongs to none.
            Body::Other(16 | 18) => {}
            _ => return Err(Malformed("rpc packet: not for a server").into()),
        }
        Ok(())
    }

    fn bind(&mut self, call_id: u32, bind: &Bind) {
        self.max_transmit = bind.max_receive.clamp(MIN_TRANSMIT, MAX_TRANSMIT);
        self.contexts = Some(Vec::new());
        let ack = self.accept(bind, self.kind.address());
        self.answer(call_id, Body::BindAck(ack));
    }

    fn accept(&mut self, bind: &Bind, address: String) -> BindAck {
        BindAck {
            max_transmit: self.max_transmit,
            max_receive: bind.max_transmit.clamp(MIN_TRANSMIT, MAX_TRANSMIT),
            group: if bind.group == 0 { GROUP } else { bind.group },
            address,
            results: bind.contexts.iter().map(|context| self.accept_context(context)).collect(),
        }
    }

    /// NDR64 and the negotiation of features at bind time (MS-RPCE 3.3.1.5.3) are transfer
    /// syntaxes that we do not know.
    fn accept_context(&mut self, context: &Context) -> ContextResult {
        let refused = |reason| ContextResult { result: 2, reason, transfer: Syntax::default() };
        if context.interface != self.kind.interface() {
            return refused(1);
        }
        if !context.transfer.contains(&NDR) {
            return refused(2);
        }
        let accepted = self.contexts.get_or_insert_default();
        if !accepted.contains(&context.id) {
            if accepted.len() == MAX_CONTEXTS {
                return refused(3);
            }
            accepted.push(context.id);
        }
        ContextResult { result: 0, reason: 0, transfer: NDR }
    }

    fn request(&mut self, flags: u8, id: u32, request: Request) -> Result<(), PipeError> {
        let Request { context, operation, stub, .. } = request;
        let Some(contexts) = &self.contexts else {
            self.fault(id, context, Fault::PROTOCOL);
            return Ok(());
        };
        if !contexts.contains(&context) {
            self.fault(id, context, Fault::UNKNOWN_INTERFACE);
            return Ok(());
        }
        if flags & FLAG_FIRST != 0 {
            if self.call.is_some() {
                return Err(Malformed("rpc request: the call before is not complete").into());
            }
            self.call = Some(Call { id, context, operation, arguments: Vec::new() });
        }
        let Some(call) = &mut self.call else {
            return Err(Malformed("rpc request: no first fragment").into());
        };
        if (call.id, call.context, call.operation) != (id, context, operation) {
            return Err(Malformed("rpc request: a fragment of another call").into());
        }
        if stub.len() > MAX_ARGUMENTS - call.arguments.len() {
            return Err(PipeError::TooLong);
        }
        call.arguments.extend_from_slice(&stub);
        if flags & FLAG_LAST != 0 {
            self.execute();
        }
        Ok(())
    }

    fn execute(&mut self) {
        let Some(call) = self.call.take() else { return };
        let arguments = call.arguments.into();
        let results = match self.kind {
            PipeKind::Srvsvc => srvsvc::call(&self.info, call.operation, arguments),
            PipeKind::Wkssvc => wkssvc::call(&self.info, call.operation, arguments),
        };
        match results {
            Ok(results) => self.respond(call.id, call.context, results.into()),
            Err(fault) => self.fault(call.id, call.context, fault),
        }
    }

    /// Results in fragments of which all but the last have a multiple of 8 bytes.
    fn respond(&mut self, call_id: u32, context: u16, mut results: Bytes) {
        let most = (usize::from(self.max_transmit) - CALL_HEADER_LENGTH) & !7;
        let mut flags = FLAG_FIRST;
        loop {
            let alloc_hint = u32::try_from(results.len()).unwrap_or(0);
            let stub = results.split_to(most.min(results.len()));
            if results.is_empty() {
                flags |= FLAG_LAST;
            }
            let body = Body::Response(Response { alloc_hint, context, stub });
            self.send(&Packet { flags, call_id, has_verifier: false, body });
            if results.is_empty() {
                return;
            }
            flags = 0;
        }
    }

    fn fault(&mut self, call_id: u32, context: u16, Fault(status): Fault) {
        let mut packet = Packet::whole(call_id, Body::Fault(pdu::Fault { context, status }));
        packet.flags |= FLAG_DID_NOT_EXECUTE;
        self.send(&packet);
    }

    fn answer(&mut self, call_id: u32, body: Body) {
        self.send(&Packet::whole(call_id, body));
    }

    fn send(&mut self, packet: &Packet) {
        let packet = Bytes::from(packet.encode());
        self.unread += packet.len();
        self.answers.push_back(packet);
    }
}
