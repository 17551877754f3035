//! Runs the requests of a frame. MS-SMB2 3.3.5.2, 3.3.4.1.
//!
//! Invariants:
//! 1. The requests of a compound run one after the other, and their responses are one frame.
//! 2. The responses of a frame have at most [`LONG_RESPONSE_BYTES_MAX`] bytes, and [`SHORT_BYTES`]
//!    each.
//! 3. A request of a session that requires protection has no effect unless it is signed with the
//!    session's key, or encrypted.

use std::sync::Arc;

use braid_share::Share;
use braid_smb_wire::frame::{self, FrameKind};
use braid_smb_wire::smb2::{Command, Dialect, ErrorBody, FileId, Flags, HEADER_BYTES, Header};
use braid_smb_wire::{NtStatus, Reader};
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::connection::budget::ResponseRoom;
use crate::connection::{Connection, TRANSFER_BYTES_MAX};
use crate::context::{Context, OpResult, Reply};
use crate::disconnect::Disconnect;
use crate::dispatch;
use crate::ops::negotiate;
use crate::pending::{Outcome, Wait};
use crate::protection::Sealed;
use crate::server::SmbServer;
use crate::session::{Logon, Session};
use crate::tree::Tree;

/// Most bytes of the responses of one frame: what one READ may have.
pub const LONG_RESPONSE_BYTES_MAX: usize = TRANSFER_BYTES_MAX as usize;
/// Bytes of each response that do not count: those of requests with an effect are no longer.
const SHORT_BYTES: usize = 4096;

/// The slices of a frame to send; none if nothing is answered.
type Frame = Vec<Bytes>;

/// What answers a frame.
#[derive(Debug, Default)]
pub struct Answer {
    /// The responses.
    pub frame: Frame,
    /// Dropped when they were sent: then requests that wait may be answered.
    pub sent: Vec<oneshot::Sender<()>>,
}

impl From<Frame> for Answer {
    fn from(frame: Frame) -> Self {
        Self { frame, sent: Vec::new() }
    }
}

/// Runs the requests of a frame, and returns the frame with the responses. `room` becomes what they
/// may need.
///
/// # Errors
/// The client broke the protocol so that the connection must end.
pub async fn execute<S: Share>(
    server: &Arc<SmbServer<S>>,
    connection: &Arc<Connection>,
    bytes: Bytes,
    room: &mut ResponseRoom,
) -> Result<Answer, Disconnect> {
    match FrameKind::of(&bytes)? {
        FrameKind::Smb1 => {
            let response = negotiate::multi_protocol(server, connection, &bytes)?;
            Ok(respond_alone(connection, response).into())
        }
        FrameKind::Smb2 => run(server, connection, bytes, None, room).await,
        FrameKind::Transform => {
            let (session, plain) = unseal(server, connection, bytes)?;
            let mut answer = run(server, connection, plain, Some(&session), room).await?;
            if !answer.frame.is_empty() {
                answer.frame = session.protection.seal(session.id, &answer.frame);
            }
            Ok(answer)
        }
        // Not negotiated, 3.3.5.2.13.
        FrameKind::Compression => Err(Disconnect::Decryption),
    }
}

/// The response to an SMB 1 NEGOTIATE, which has the message number 0.
fn respond_alone(connection: &Connection, reply: Reply) -> Frame {
    // It used the first number, 3.3.5.3.1.
    let _ = connection.credits().take(0, 1);
    let credits = connection.grant(1, 1);
    let header = Header {
        flags: Flags::RESPONSE,
        credits,
        status: reply.status,
        ..Header::request(Command::Negotiate, 0)
    };
    vec![Bytes::copy_from_slice(&header.to_bytes()), reply.body.into()]
}

/// Decrypts a frame with the keys of the session that it names.
fn unseal<S: Share>(
    server: &SmbServer<S>,
    connection: &Connection,
    bytes: Bytes,
) -> Result<(Arc<Session<S>>, Bytes), Disconnect> {
    let sealed = Sealed::read(&bytes)?;
    let session = server.session(sealed.session_id()).ok_or(Disconnect::Decryption)?;
    if session.connection != connection.number() {
        return Err(Disconnect::Decryption);
    }
    let plain = session.protection.unseal(&sealed, &bytes).ok_or(Disconnect::Decryption)?;
    // 3.3.5.2.1.1: what was encrypted is messages, not encrypted once more.
    if FrameKind::of(&plain)? != FrameKind::Smb2 {
        return Err(Disconnect::Decryption);
    }
    Ok((session, plain))
}

/// The session of a request, if it has one, and whether the request's signature was right.
type Signed<S> = (Option<Arc<Session<S>>>, bool);

/// What the requests of a compound take over from the one before. 3.3.5.2.7.2.
#[derive(Debug, Default)]
struct Chain {
    session_id: u64,
    tree_id: u32,
    file: Option<FileId>,
    /// The failure of the last request that should have made an open.
    failed: Option<NtStatus>,
}

async fn run<S: Share>(
    server: &Arc<SmbServer<S>>,
    connection: &Arc<Connection>,
    bytes: Bytes,
    sealed_by: Option<&Arc<Session<S>>>,
    reserved: &mut ResponseRoom,
) -> Result<Answer, Disconnect> {
    let messages = frame::messages(bytes)?;
    let reserved = reserved.reserve(messages.iter().map(long_bytes_max).sum()).await;
    let mut chain = Chain::default();
    let mut responses = Vec::with_capacity(messages.len());
    let mut room = if reserved { LONG_RESPONSE_BYTES_MAX } else { 0 };
    let mut sent = Vec::new();
    let count = messages.len();
    for (index, message) in messages.into_iter().enumerate() {
        let mut reader = Reader::new(message.clone());
        let header = Header::decode(&mut reader)?;
        if header.flags.has(Flags::RESPONSE) {
            return Err(Disconnect::Response);
        }
        let position = Position { is_first: index == 0, is_last: index + 1 == count };
        let request = Request { server, connection, sealed_by, position };
        // 3.3.5.16: it uses no number, and is never answered.
        if header.command == Command::Cancel as u16 {
            if connection.negotiated().is_none() {
                return Err(Disconnect::Negotiate);
            }
            request.cancel(&header, &message);
            continue;
        }
        if !connection.credits().take(header.message_id, header.credit_charge) {
            return Err(Disconnect::Sequence(header.message_id));
        }
        let mut response = request.run(header, message, reader, &mut chain).await?;
        sent.extend(response.sent.take());
        match room.checked_sub(response.long_bytes()) {
            Some(left) => room = left,
            None => response.fail(NtStatus::INSUFFICIENT_RESOURCES),
        }
        responses.push(response);
    }
    Ok(Answer { frame: joined(responses), sent })
}

/// Most bytes of the response to a message, besides those of a short one.
fn long_bytes_max(message: &Bytes) -> usize {
    let header = Header::decode(&mut Reader::new(message.clone()));
    header.map_or(0, |header| dispatch::long_bytes_max(&header))
}

/// A response, before it is known whether another follows in its frame.
struct Response<S: Share> {
    header: Header,
    reply: Reply,
    /// The session whose key signs it.
    signed_by: Option<Arc<Session<S>>>,
    /// A logon or negotiation whose hash goes over the response.
    hash: Option<Hashed>,
    connection: Arc<Connection>,
    /// Of a request that waits: dropped when this response was sent.
    sent: Option<oneshot::Sender<()>>,
}

impl<S: Share> Response<S> {
    /// Its bytes over those of a short one (invariant 2).
    fn long_bytes(&self) -> usize {
        let bytes = self.reply.body.len() + self.reply.data.len();
        bytes.saturating_sub(SHORT_BYTES)
    }

    /// Makes an error of it.
    fn fail(&mut self, status: NtStatus) {
        self.header.status = status;
        self.reply = Reply::new(&ErrorBody::default()).with_status(status);
    }
}

/// What the hash of a response is added to. 3.3.5.4, 3.3.5.5.
enum Hashed {
    Connection,
    Logon(u64),
}

/// The responses as one frame, each signed. 3.3.4.1.1, 3.3.4.1.3.
fn joined<S: Share>(responses: Vec<Response<S>>) -> Frame {
    let count = responses.len();
    let mut frame = Vec::with_capacity(3 * count);
    for (index, mut response) in responses.into_iter().enumerate() {
        let reply = response.reply;
        let length = HEADER_BYTES + reply.body.len() + reply.data.len();
        let mut padding = Bytes::new();
        if count > 1 {
            let next = length.next_multiple_of(8);
            // 3.3.4.1.3: the last one is padded, too.
            if index + 1 < count {
                response.header.next_command = next as u32;
            }
            padding = Bytes::from_static(&[0; 8]).slice(..next - length);
        }
        let body = Bytes::from(reply.body);
        if let Some(session) = &response.signed_by {
            let rest = [&body[..], &reply.data, &padding];
            session.protection.sign(&mut response.header, &rest);
        }
        let header = Bytes::copy_from_slice(&response.header.to_bytes());
        match response.hash {
            Some(Hashed::Connection) => response.connection.hash(&[&header, &body]),
            Some(Hashed::Logon(id)) => response.connection.hash_logon(id, &[&header, &body]),
            None => {}
        }
        let slices = [header, body, reply.data, padding];
        frame.extend(slices.into_iter().filter(|slice| !slice.is_empty()));
    }
    frame
}

/// One request of a frame.
struct Request<'a, S: Share> {
    server: &'a Arc<SmbServer<S>>,
    connection: &'a Arc<Connection>,
    sealed_by: Option<&'a Arc<Session<S>>>,
    position: Position,
}

/// Where a request is in its frame.
#[derive(Clone, Copy)]
struct Position {
    is_first: bool,
    is_last: bool,
}

/// What a request that was run leaves.
struct Ran<S: Share> {
    result: OpResult,
    /// The session whose key signs the response.
    signed_by: Option<Arc<Session<S>>>,
    /// If it waits: dropped when the response that it has now was sent.
    sent: Option<oneshot::Sender<()>>,
}

impl<S: Share> Ran<S> {
    fn failed(status: NtStatus, signed_by: Option<Arc<Session<S>>>) -> Self {
        Self { result: Err(status), signed_by, sent: None }
    }
}

/// A request that waits, and how it is answered.
struct LateAnswer<S: Share> {
    connection: Arc<Connection>,
    request: Header,
    signed_by: Option<Arc<Session<S>>>,
    sealed_by: Option<Arc<Session<S>>>,
}

impl<S: Share> LateAnswer<S> {
    /// Sends the response. 3.3.4.1.
    async fn send(self, async_id: u64, result: OpResult) {
        let reply = result.unwrap_or_else(error);
        let mut flags = Flags::RESPONSE.with(Flags::ASYNC);
        if self.signed_by.is_some() {
            flags = flags.with(Flags::SIGNED);
        }
        // The credits were granted with the response before.
        let header = Header {
            status: reply.status,
            credits: 0,
            flags,
            next_command: 0,
            async_id,
            signature: [0; 16],
            ..self.request
        };
        let connection = Arc::clone(&self.connection);
        let signed_by = self.signed_by;
        let response = Response { header, reply, signed_by, hash: None, connection, sent: None };
        let mut frame = joined(vec![response]);
        if let Some(session) = &self.sealed_by {
            frame = session.protection.seal(session.id, &frame);
        }
        self.connection.send(&frame).await;
    }
}

/// The reply of a request that failed.
fn error(status: NtStatus) -> Reply {
    Reply::new(&ErrorBody::default()).with_status(status)
}

impl<S: Share> Request<'_, S> {
    async fn run(
        &self,
        mut header: Header,
        message: Bytes,
        body: Reader,
        chain: &mut Chain,
    ) -> Result<Response<S>, Disconnect> {
        let command = Command::from_number(header.command);
        let negotiates = command == Some(Command::Negotiate);
        if negotiates == self.connection.negotiated().is_some() {
            return Err(Disconnect::Negotiate);
        }
        let is_related = header.flags.has(Flags::RELATED);
        if is_related && !self.position.is_first {
            (header.session_id, header.tree_id) = (chain.session_id, chain.tree_id);
        } else {
            *chain = Chain::default();
        }
        let ran = self.result(command, &header, message, body, chain).await?;
        let reply = ran.result.unwrap_or_else(|status| {
            tracing::debug!(?command, %status, "a request fails");
            error(status)
        });
        let made = (reply.session_id, reply.tree_id);
        chain.session_id = made.0.unwrap_or(header.session_id);
        chain.tree_id = made.1.unwrap_or(header.tree_id);
        if reply.file_id.is_some() {
            (chain.file, chain.failed) = (reply.file_id, None);
        } else if reply.status.is_error()
            && (command == Some(Command::Create) || chain.file.is_none())
        {
            (chain.file, chain.failed) = (None, Some(reply.status));
        }
        let mut response = self.response(command, header, reply, ran.signed_by);
        response.sent = ran.sent;
        Ok(response)
    }

    /// Cancels a request of the same session. 3.3.5.16.
    fn cancel(&self, header: &Header, message: &Bytes) {
        // 3.3.5.2.4: somebody else's is ignored.
        if self.session(Command::Cancel, header, message).is_ok() {
            self.connection.pending.cancel(header);
        }
    }

    /// Checks what all requests have in common, and runs the operation. The session is the one
    /// whose key signs the response.
    async fn result(
        &self,
        command: Option<Command>,
        header: &Header,
        message: Bytes,
        body: Reader,
        chain: &Chain,
    ) -> Result<Ran<S>, Disconnect> {
        let is_related = header.flags.has(Flags::RELATED);
        // 3.3.5.2.7.2: the first one has nothing before it.
        if is_related && self.position.is_first {
            return Ok(Ran::failed(NtStatus::INVALID_PARAMETER, None));
        }
        let Some(command) = command else {
            return Ok(Ran::failed(NtStatus::INVALID_PARAMETER, None));
        };
        let (session, signed) = match self.session(command, header, &message) {
            Ok(found) => found,
            // 3.3.5.2.7.2: the session is that of the request before, which had none.
            Err(NtStatus::USER_SESSION_DELETED) if is_related => {
                return Ok(Ran::failed(NtStatus::INVALID_PARAMETER, None));
            }
            Err(status) => return Ok(Ran::failed(status, None)),
        };
        if command == Command::TreeConnect && !signed && self.protects_trees(session.as_deref()) {
            return Err(Disconnect::TreeConnect);
        }
        let signs = session.clone().filter(|session| {
            self.sealed_by.is_none() && (signed || session.protection.requires_signing())
        });
        let tree = match self.tree(command, header, session.as_deref()) {
            Ok(tree) => tree,
            Err(status) => return Ok(Ran::failed(status, signs)),
        };
        if is_related
            && let Some(status) = chain.failed
            && dispatch::uses_open(command)
        {
            return Ok(Ran::failed(status, signs));
        }
        let context = Context {
            server: Arc::clone(self.server),
            connection: Arc::clone(self.connection),
            header: header.clone(),
            is_last: self.position.is_last,
            is_sealed: self.sealed_by.is_some(),
            message,
            session,
            tree,
            related: chain.file.filter(|_| is_related),
            running: Arc::default(),
        };
        let result = match dispatch::run(&context, command, body).await {
            Outcome::Done(result) => result,
            Outcome::Waits(wait) => return Ok(self.wait(header, wait, signs)),
        };
        // A session was there, so that this is the metadata server's answer.
        if let (Err(NtStatus::USER_SESSION_DELETED), Some(session)) = (&result, &context.session) {
            self.server.end_lost_session(session).await;
            self.connection.remove_session(session.id);
        }
        Ok(Ran { result, signed_by: signs, sent: None })
    }

    /// Lets a request wait, and answers that it does. 3.3.4.2.
    fn wait(&self, request: &Header, wait: Wait, signed_by: Option<Arc<Session<S>>>) -> Ran<S> {
        // Requests behind it would have to wait as well.
        if !self.position.is_last {
            return Ran::failed(NtStatus::INTERNAL_ERROR, signed_by);
        }
        let Some((id, cancelled)) = self.connection.pending.add(request) else {
            return Ran::failed(NtStatus::INSUFFICIENT_RESOURCES, signed_by);
        };
        let answer = LateAnswer {
            connection: Arc::clone(self.connection),
            request: request.clone(),
            signed_by: signed_by.clone().filter(|session| session.protection.can_sign()),
            sealed_by: self.sealed_by.cloned(),
        };
        let (sent, was_sent) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let _ = was_sent.await;
            let result = wait(cancelled).await;
            answer.connection.pending.remove(id);
            answer.send(id, result).await;
        });
        let reply = Reply { async_id: Some(id), ..error(NtStatus::PENDING) };
        Ran { result: Ok(reply), signed_by, sent: Some(sent) }
    }

    /// Whether a TREE_CONNECT must be signed or encrypted. 3.3.5.7: with it a client of 3.1.1
    /// proves that nobody has changed its negotiation and its logon.
    fn protects_trees(&self, session: Option<&Session<S>>) -> bool {
        let dialect = self.connection.negotiated().map(|negotiated| negotiated.dialect);
        let is_user = session.is_some_and(|session| session.logon == Logon::User);
        dialect == Some(Dialect::Smb311) && is_user
    }

    /// The session of a request.
    fn session(
        &self,
        command: Command,
        header: &Header,
        message: &Bytes,
    ) -> Result<Signed<S>, NtStatus> {
        if command == Command::Negotiate {
            return Ok((None, false));
        }
        // 3.3.5.2.9.
        let session = match self.sealed_by {
            Some(session) if session.id == header.session_id => Some(Arc::clone(session)),
            // 3.3.5.2.1.1: one key decrypts requests of its own session.
            Some(_) => return Err(NtStatus::USER_SESSION_DELETED),
            None => self.server.session(header.session_id),
        };
        let session = session.filter(|session| session.connection == self.connection.number());
        let Some(session) = session else {
            let free = matches!(command, Command::SessionSetup | Command::Echo);
            return if free { Ok((None, false)) } else { Err(NtStatus::USER_SESSION_DELETED) };
        };
        if self.sealed_by.is_some() {
            return Ok((Some(session), true));
        }
        // 3.3.5.2.4, 3.3.5.2.9: invariant 3.
        let signed = header.flags.has(Flags::SIGNED);
        let refused = if signed {
            !session.protection.verify(header, message)
        } else {
            session.protection.requires_signing() && command != Command::SessionSetup
        };
        if refused {
            return Err(NtStatus::ACCESS_DENIED);
        }
        Ok((Some(session), signed))
    }

    /// The tree of a request. 3.3.5.2.11.
    fn tree(
        &self,
        command: Command,
        header: &Header,
        session: Option<&Session<S>>,
    ) -> Result<Option<Arc<Tree>>, NtStatus> {
        if !dispatch::needs_tree(command) {
            return Ok(None);
        }
        let tree = session.and_then(|session| session.tree(header.tree_id));
        let tree = tree.ok_or(NtStatus::NETWORK_NAME_DELETED)?;
        if tree.requires_encryption() && self.sealed_by.is_none() {
            return Err(NtStatus::ACCESS_DENIED);
        }
        Ok(Some(tree))
    }

    fn response(
        &self,
        command: Option<Command>,
        request: Header,
        reply: Reply,
        signs: Option<Arc<Session<S>>>,
    ) -> Response<S> {
        let session_id = reply.session_id.unwrap_or(request.session_id);
        // 3.3.5.5.3: the last response of a logon is signed with the key that it made.
        let logged_on = (command == Some(Command::SessionSetup)
            && reply.status == NtStatus::SUCCESS
            && self.sealed_by.is_none())
        .then(|| self.server.session(session_id))
        .flatten();
        let signed_by = logged_on.or(signs).filter(|session| session.protection.can_sign());
        let hash = match command {
            Some(Command::Negotiate) => Some(Hashed::Connection),
            Some(Command::SessionSetup) if reply.status == NtStatus::MORE_PROCESSING_REQUIRED => {
                Some(Hashed::Logon(session_id))
            }
            _ => None,
        };
        let mut flags = Flags::RESPONSE;
        if request.flags.has(Flags::RELATED) {
            flags = flags.with(Flags::RELATED);
        }
        if signed_by.is_some() {
            flags = flags.with(Flags::SIGNED);
        }
        if reply.async_id.is_some() {
            flags = flags.with(Flags::ASYNC);
        }
        let credits = self.connection.grant(request.credits, request.credit_charge);
        let header = Header {
            status: reply.status,
            credits,
            flags,
            next_command: 0,
            tree_id: reply.tree_id.unwrap_or(request.tree_id),
            async_id: reply.async_id.unwrap_or_default(),
            session_id,
            signature: [0; 16],
            ..request
        };
        let connection = Arc::clone(self.connection);
        Response { header, reply, signed_by, hash, connection, sent: None }
    }
}
