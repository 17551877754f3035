//! Runs a compound.

use std::sync::Arc;

use braid_nfs_wire::nfs4::results::SequenceResult;
use braid_nfs_wire::nfs4::{ArgOp, CompoundHeader, CompoundReply, NfsStatus, OpNumber, ResOp};
use braid_nfs_wire::xdr::{Decoder, Encoder, Segment, Xdr};
use braid_share::Share;

use super::reply_limit::{FAILURE_BYTES, ReplyMemory, longest_result};
use super::sequence::{RequestFacts, Started};
use super::{CompoundState, known::keeps_attributes, security, sequence};
use crate::connection::Connection;
use crate::dispatch::dispatch;
use crate::rpc::Caller;
use crate::server::NfsServer;
use crate::state::sessions::{CHANNEL_BYTES_MIN, CachedReply};

/// Longest tag. RFC 8881 16.2 has no limit; Linux sends none or some characters.
const TAG_BYTES_MAX: usize = 1024;
/// Bytes of a SEQUENCE result with its number and status.
const SEQUENCE_RESULT_BYTES: usize = 8 + 36;
/// Longest reply of a compound without a session.
const SESSIONLESS_REPLY_BYTES: usize = 4096;

/// The arguments are no COMPOUND: the RPC reply is `GARBAGE_ARGS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadArguments;

/// The result of a compound, without the header of the RPC reply.
#[derive(Debug, Default)]
pub struct Results {
    /// The encoded result.
    pub segments: Vec<Segment>,
    /// The memory that it takes; to be kept until it is sent.
    pub memory: ReplyMemory,
}

impl From<Vec<Segment>> for Results {
    fn from(segments: Vec<Segment>) -> Self {
        Self { segments, memory: ReplyMemory::default() }
    }
}

/// A request as the RPC layer received it.
#[derive(Debug)]
pub struct Request<'a> {
    /// The user that sent it.
    pub caller: &'a Caller,
    /// Bytes of the whole RPC message.
    pub bytes: usize,
    /// Bytes of the header of the RPC reply.
    pub reply_header_bytes: usize,
    /// The arguments of the procedure COMPOUND.
    pub arguments: Decoder,
}

/// Runs a compound.
///
/// # Errors
/// [`BadArguments`] if nothing can be executed.
pub async fn run<S: Share>(
    server: &Arc<NfsServer<S>>,
    connection: &Arc<Connection>,
    mut request: Request<'_>,
) -> Result<Results, BadArguments> {
    let header = CompoundHeader::decode(&mut request.arguments).map_err(|_| BadArguments)?;
    if header.tag.len() > TAG_BYTES_MAX {
        return Err(BadArguments);
    }
    let mut reply = Reply::begin(&header.tag);
    // RFC 8881 16.2.3: checked before anything else, also before the numbers of operations.
    if !matches!(header.minor_version, 1 | 2) {
        if connection.is_first_mistake() {
            tracing::info!(
                peer = %connection.peer(),
                "a client asked for NFS version 4.{}; this server has 4.1 and 4.2 only (mount \
                 option vers=4.2)",
                header.minor_version
            );
        }
        return Ok(reply.finish_with(NfsStatus::MinorVersMismatch).into());
    }
    // RFC 8881 14.5: the tag is a UTF-8 string.
    if std::str::from_utf8(&header.tag).is_err() {
        return Ok(reply.finish_with(NfsStatus::Inval).into());
    }
    if header.op_count == 0 {
        return Ok(reply.finish_with(NfsStatus::Ok).into());
    }
    let mut state = CompoundState::new(
        server,
        connection,
        request.caller,
        header.minor_version,
        header.op_count,
    );
    let first = match ArgOp::decode(&mut request.arguments, header.minor_version) {
        Ok(op) => op,
        Err(error) => {
            reply.push(&error.result());
            return Ok(reply.finish().into());
        }
    };
    let ArgOp::Sequence(args) = first else {
        run_without_session(&mut state, first, &mut reply).await;
        return Ok(reply.finish().into());
    };

    let rest = request.arguments.clone().rest();
    let header_bytes = request.reply_header_bytes;
    let facts = RequestFacts {
        bytes: request.bytes,
        operations: header.op_count,
        minor_version: header.minor_version,
        rest: &rest,
        shortest_reply: header_bytes + reply.encoder.len() + SEQUENCE_RESULT_BYTES,
    };
    let (guard, result) = match sequence::start(server, connection, request.caller, &args, &facts) {
        Err(status) => {
            reply.push(&ResOp::failure(OpNumber::Sequence, status));
            return Ok(reply.finish().into());
        }
        Ok(Started::Retry(cached, result)) => {
            return Ok(repeat(cached, result, reply, &mut request.arguments, &state).into());
        }
        Ok(Started::New(guard, result)) => (guard, result),
    };
    let fore = *guard.session().fore();
    let (limit, too_big) = if args.cache_this {
        (fore.cached_reply_bytes, NfsStatus::RepTooBigToCache)
    } else {
        (fore.reply_bytes, NfsStatus::RepTooBig)
    };
    reply.limit = (limit as usize).saturating_sub(header_bytes);
    reply.too_big = too_big;
    state.too_big = too_big;
    state.slot = Some(guard);
    reply.push(&ResOp::Sequence(Ok(result)));
    let mut memory = ReplyMemory::default();
    run_operations(&mut state, &mut request.arguments, &mut reply, &mut memory).await;

    let segments = reply.finish();
    // A retry of SEQUENCE alone has no second operation that could report the missing reply.
    let cached = if args.cache_this || state.op_count == 1 {
        CachedReply::Whole(segments.clone())
    } else {
        CachedReply::NotCached
    };
    if let Some(guard) = state.slot.take() {
        guard.finish(cached);
    }
    Ok(Results { segments, memory })
}

/// The results of a compound of which nothing is executed: its first operation has `status`.
///
/// # Errors
/// [`BadArguments`], as [`run`].
pub(crate) fn refuse(
    mut arguments: Decoder,
    status: NfsStatus,
) -> Result<Vec<Segment>, BadArguments> {
    let header = CompoundHeader::decode(&mut arguments).map_err(|_| BadArguments)?;
    if header.tag.len() > TAG_BYTES_MAX {
        return Err(BadArguments);
    }
    let mut reply = Reply::begin(&header.tag);
    if header.op_count == 0 {
        return Ok(reply.finish_with(status));
    }
    match ArgOp::decode(&mut arguments, header.minor_version) {
        Ok(op) => reply.push(&ResOp::failure(op.number(), status)),
        Err(error) => reply.push(&error.result()),
    }
    Ok(reply.finish())
}

/// RFC 8881 2.10.6.1.3: the answer to a retry.
fn repeat<S: Share>(
    cached: CachedReply,
    result: SequenceResult,
    mut reply: Reply,
    arguments: &mut Decoder,
    state: &CompoundState<'_, S>,
) -> Vec<Segment> {
    match cached {
        CachedReply::Whole(segments) => segments,
        CachedReply::NotCached => {
            reply.push(&ResOp::Sequence(Ok(result)));
            let second = match ArgOp::decode(arguments, state.minor_version) {
                Ok(op) => op.number(),
                Err(error) => error.op,
            };
            reply.push(&ResOp::failure(second, NfsStatus::RetryUncachedRep));
            reply.finish()
        }
    }
}

/// Runs the first operation of a compound that does not begin with SEQUENCE.
async fn run_without_session<S: Share>(
    state: &mut CompoundState<'_, S>,
    op: ArgOp,
    reply: &mut Reply,
) {
    let number = op.number();
    let result = match op {
        ArgOp::Illegal(_) | ArgOp::Forbidden(_) => dispatch(state, op).await,
        // RFC 8881 18.46.3: these may be outside of a session, alone.
        ArgOp::ExchangeId(_)
        | ArgOp::CreateSession(_)
        | ArgOp::BindConnToSession(_)
        | ArgOp::DestroySession(_)
        | ArgOp::DestroyClientId(_) => {
            if state.op_count == 1 {
                state.reply_space = SESSIONLESS_REPLY_BYTES;
                dispatch(state, op).await
            } else {
                ResOp::failure(number, NfsStatus::NotOnlyOp)
            }
        }
        _ => ResOp::failure(number, NfsStatus::OpNotInSession),
    };
    reply.push(&result);
}

/// Runs the operations after SEQUENCE until one fails.
async fn run_operations<S: Share>(
    state: &mut CompoundState<'_, S>,
    arguments: &mut Decoder,
    reply: &mut Reply,
    memory: &mut ReplyMemory,
) {
    for index in 1..state.op_count {
        state.op_index = index;
        let op = match ArgOp::decode(arguments, state.minor_version) {
            Ok(op) => op,
            Err(error) => {
                reply.push(&error.result());
                return;
            }
        };
        let number = op.number();
        state.next_op = if state.is_last_op() {
            None
        } else {
            arguments.clone().u32().ok().and_then(OpNumber::from_code)
        };
        // A later operation must be able to report a failure.
        let reserved = if state.is_last_op() { 0 } else { FAILURE_BYTES };
        state.reply_space = reply.space().saturating_sub(reserved);
        // Invariant 1.
        if longest_result(number).is_some_and(|bytes| bytes > state.reply_space) {
            reply.push(&ResOp::failure(number, reply.too_big));
            return;
        }
        let limits = [state.connection.reply_bytes(), state.server.reply_bytes()];
        if let Err(status) = memory.reserve(&op, state.reply_space, limits).await {
            reply.push(&ResOp::failure(number, status));
            return;
        }
        tracing::trace!(peer = %state.connection.peer(), index, operation = ?number, "begins");
        if !keeps_attributes(number) {
            state.known.forget();
        }
        let mut result = dispatch(state, op).await;
        if result.status() == NfsStatus::Ok
            && let Err(status) = security::check(state, number)
        {
            result = ResOp::failure(number, status);
        }
        let before = reply.encoder.position();
        result.encode(&mut reply.encoder);
        let mut status = result.status();
        if reply.encoder.len() - before > state.reply_space.max(FAILURE_BYTES) {
            reply.encoder.truncate(before);
            status = reply.too_big;
            ResOp::failure(number, status).encode(&mut reply.encoder);
        }
        reply.compound.count_encoded(status);
        let peer = state.connection.peer();
        tracing::trace!(%peer, index, operation = ?number, ?status, "ended");
        if status != NfsStatus::Ok {
            return;
        }
    }
}

/// A reply that is written.
struct Reply {
    encoder: Encoder,
    compound: CompoundReply,
    /// Most bytes of the encoder.
    limit: usize,
    /// Status of an operation whose result exceeds it.
    too_big: NfsStatus,
}

impl Reply {
    fn begin(tag: &[u8]) -> Self {
        let mut encoder = Encoder::new();
        let compound = CompoundReply::begin(tag, &mut encoder);
        let limit = CHANNEL_BYTES_MIN as usize;
        Self { encoder, compound, limit, too_big: NfsStatus::RepTooBig }
    }

    fn space(&self) -> usize {
        self.limit.saturating_sub(self.encoder.len())
    }

    fn push(&mut self, result: &ResOp) {
        self.compound.push(result, &mut self.encoder);
    }

    fn finish(mut self) -> Vec<Segment> {
        self.compound.finish(&mut self.encoder);
        self.encoder.into_segments()
    }

    fn finish_with(mut self, status: NfsStatus) -> Vec<Segment> {
        self.compound.finish_with_status(status, &mut self.encoder);
        self.encoder.into_segments()
    }
}
