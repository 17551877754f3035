//! COMPOUND: the operations of a data server. RFC 8881 13.6 and 16.2.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use braid_nfs_wire::{
    nfs4::{
        ArgOp, ClientOwner, CompoundHeader, CompoundReply, ExchangeIdFlags, FileHandle, NfsResult,
        NfsStatus, OpNumber, Payload, ResOp, ServerOwner, StableHow, Verifier,
        args::{
            BindConnToSessionArgs, CommitArgs, ExchangeIdArgs, ReadArgs, SequenceArgs,
            StateProtectArgs, WriteArgs,
        },
        results::{
            BindConnToSessionResult, ChannelDirFromServer, CommitResult, ExchangeIdResult,
            GetAttrResult, ReadResult, StateProtectResult, WriteResult,
        },
    },
    xdr::{Decoder, Encoder, Segment, Xdr},
};
use braid_store::{Object, ObjectStore};
use braid_types::{ConnectionId, Failure, ObjectOffset, Status, WriteVerifier};
use bytes::{BufMut, Bytes, BytesMut};

use super::{
    DataServer, attributes, random,
    sessions::{CACHED_BYTES_MAX, MESSAGE_BYTES_MAX, SlotAnswer},
};
use crate::ops::{COPIED_BYTES_MAX, DataServerFile, DataServerRead};

/// Verified handles that a connection keeps (I9): some 300 bytes each. With more, all are verified
/// again.
const HANDLES_MAX: usize = 1024;
/// Operations of a compound outside of a session.
const OPERATIONS_MAX: u32 = 16;
/// The RPC header of a reply: transaction, type, AUTH_NONE and two statuses.
const RPC_HEADER_BYTES: usize = 24;
/// Number and status of an operation that failed.
const FAILURE_BYTES: usize = 8;
/// Bytes of READ's result besides the data: number, status, end of file, length, padding.
const READ_RESULT_BYTES: usize = 20;
/// Longest result of an operation that changes something, so that it does not begin if the reply
/// might be too big.
const CHANGE_RESULT_BYTES: usize = 64;
/// The same for EXCHANGE_ID, with the name of the daemon, and CREATE_SESSION, with two channels.
const CLIENT_RESULT_BYTES: usize = 256;

/// The bytes of a READ that the connection sends from the object.
#[derive(Debug)]
pub(super) struct ObjectBytes {
    pub(super) object: Arc<dyn Object>,
    pub(super) offset: ObjectOffset,
    /// Bytes of the object; zeros follow up to the length of the segment.
    pub(super) data: u64,
}

/// The results of a compound.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) segments: Vec<Segment>,
    /// The sources of the external segments, in order.
    pub(super) external: Vec<ObjectBytes>,
}

/// The arguments cannot be decoded, not even in part.
#[derive(Debug)]
pub(super) struct GarbageArguments;

/// What a connection keeps from one compound to the next.
#[derive(Debug, Default)]
pub(super) struct VerifiedHandles(HashMap<Bytes, DataServerFile>);

/// The file of the current file handle.
#[derive(Debug)]
enum Current {
    Root,
    File(DataServerFile),
}

struct Compound<'a> {
    server: &'a DataServer,
    handles: &'a mut VerifiedHandles,
    current: Option<Current>,
    external: Vec<ObjectBytes>,
    /// Bytes that the next result may have.
    reply_space: usize,
    /// Whether an operation has read, or changed something.
    has_read: bool,
    has_changed: bool,
}

/// Runs a compound.
pub(super) fn run(
    server: &DataServer,
    handles: &mut VerifiedHandles,
    mut from: Decoder,
) -> Result<Results, GarbageArguments> {
    let header = CompoundHeader::decode(&mut from).map_err(|_| GarbageArguments)?;
    let mut to = Encoder::new();
    let reply = CompoundReply::begin(&header.tag, &mut to);
    let refused = match (header.minor_version, header.op_count) {
        (1 | 2, 0..=OPERATIONS_MAX) => None,
        (1 | 2, _) => Some(NfsStatus::TooManyOps),
        // RFC 8881 16.2.3.
        _ => Some(NfsStatus::MinorVersMismatch),
    };
    if let Some(status) = refused {
        reply.finish_with_status(status, &mut to);
        return Ok(Results { segments: to.into_segments(), external: Vec::new() });
    }
    let compound = Compound {
        server,
        handles,
        current: None,
        external: Vec::new(),
        reply_space: MESSAGE_BYTES_MAX as usize,
        has_read: false,
        has_changed: false,
    };
    Ok(compound.run(&header, from, reply, to))
}

impl Compound<'_> {
    fn run(
        mut self,
        header: &CompoundHeader,
        mut from: Decoder,
        mut reply: CompoundReply,
        mut to: Encoder,
    ) -> Results {
        let mut slot: Option<SequenceArgs> = None;
        let mut limit = MESSAGE_BYTES_MAX as usize - RPC_HEADER_BYTES;
        for at in 0..header.op_count {
            // RFC 8881 2.10.6.4. A later operation must be able to report a failure.
            let later = if at + 1 < header.op_count { FAILURE_BYTES } else { 0 };
            self.reply_space = limit.saturating_sub(to.len() + later);
            let mut result = match ArgOp::decode(&mut from, header.minor_version) {
                Err(error) => error.result(),
                Ok(ArgOp::Sequence(args)) if at == 0 => match self.server.sessions().begin(&args) {
                    Ok(SlotAnswer::Cached(results)) => return cached(&results),
                    Ok(SlotAnswer::Run { result, reply_bytes }) => {
                        slot = Some(args);
                        limit = reply_bytes - RPC_HEADER_BYTES;
                        ResOp::Sequence(Ok(result))
                    }
                    Err(status) => ResOp::Sequence(Err(status)),
                },
                Ok(op) => match placement_error(&op, at, header.op_count, slot.is_some()) {
                    Some(status) => ResOp::failure(op.number(), status),
                    None => self.execute(op),
                },
            };
            let before = to.position();
            let bytes_before = to.len();
            result.encode(&mut to);
            // READ limits its data itself, so that no external bytes are cut off here.
            if slot.is_some() && to.len() - bytes_before > self.reply_space.max(FAILURE_BYTES) {
                to.truncate(before);
                result = ResOp::failure(result.number(), NfsStatus::RepTooBig);
                result.encode(&mut to);
            }
            reply.count_encoded(result.status());
            if reply.status() != NfsStatus::Ok {
                break;
            }
        }
        reply.finish(&mut to);
        if let Some(args) = slot {
            // A READ is repeated instead: it changes nothing.
            let is_short = self.external.is_empty() && to.len() <= CACHED_BYTES_MAX;
            let results = is_short.then(|| Arc::from(to.to_vec()));
            self.server.sessions().finish(&args, results);
        }
        Results { segments: to.into_segments(), external: self.external }
    }

    fn execute(&mut self, op: ArgOp) -> ResOp {
        let number = op.number();
        let changes = longest_change_result(number);
        if changes.is_some_and(|bytes| self.reply_space < bytes) {
            return ResOp::failure(number, NfsStatus::RepTooBig);
        }
        self.has_changed |= changes.is_some();
        self.has_read |= number == OpNumber::Read;
        if self.has_read && self.has_changed {
            // RFC 8881 2.10.6.4: the reply of a READ is not cached, so a retry would repeat the
            // change. No client sends both in one compound.
            return ResOp::failure(number, NfsStatus::RepTooBigToCache);
        }
        match op {
            ArgOp::ExchangeId(args) => ResOp::ExchangeId(self.exchange_id(&args)),
            ArgOp::CreateSession(args) => {
                ResOp::CreateSession(self.server.sessions().create_session(&args))
            }
            ArgOp::BindConnToSession(args) => ResOp::BindConnToSession(self.bind(&args)),
            ArgOp::DestroySession(args) => {
                ResOp::DestroySession(self.server.sessions().destroy_session(&args.session_id))
            }
            ArgOp::DestroyClientId(args) => {
                self.server.sessions().destroy_client(args.client_id);
                ResOp::DestroyClientId(Ok(()))
            }
            // Nothing is reclaimed here.
            ArgOp::ReclaimComplete(_) => ResOp::ReclaimComplete(Ok(())),
            ArgOp::PutRootFh => {
                self.current = Some(Current::Root);
                ResOp::PutRootFh(Ok(()))
            }
            ArgOp::PutFh(args) => ResOp::PutFh(self.put_fh(&args.handle)),
            ArgOp::GetAttr(args) => ResOp::GetAttr(match &self.current {
                None => Err(NfsStatus::NoFileHandle),
                Some(Current::Root) => {
                    Ok(GetAttrResult { attributes: attributes::of_root(&args.attributes) })
                }
                Some(Current::File(file)) => Ok(GetAttrResult {
                    attributes: attributes::of_file(file.file().0, &args.attributes),
                }),
            }),
            ArgOp::Read(args) => ResOp::Read(self.read(&args)),
            ArgOp::Write(args) => ResOp::Write(self.write(&args)),
            ArgOp::Commit(args) => ResOp::Commit(self.commit(&args)),
            ArgOp::Illegal(_) => ResOp::Illegal(NfsStatus::OpIllegal),
            // RFC 8881 13.6: a data server need not support the operations of a metadata server.
            _ => ResOp::failure(number, NfsStatus::NotSupp),
        }
    }

    /// RFC 8881 18.35 and 13.1.
    fn exchange_id(&self, args: &ExchangeIdArgs) -> NfsResult<ExchangeIdResult> {
        if args.state_protect != StateProtectArgs::None {
            // There is no state to protect.
            return Err(NfsStatus::EncrAlgUnsupp);
        }
        let ClientOwner { verifier, owner_id } = &args.client_owner;
        let known = self.server.sessions().exchange_id(owner_id, *verifier)?;
        let mut flags = ExchangeIdFlags::USE_PNFS_DS;
        if known.confirmed {
            flags |= ExchangeIdFlags::CONFIRMED_R;
        }
        let identity = self.server.core.store().identity();
        // RFC 8881 2.10.5: another `major_id` for each daemon, so that no client takes the
        // addresses of two daemons for those of one server.
        let major_id = format!("braid iod {} of {}", self.server.core.iod(), identity.cluster);
        Ok(ExchangeIdResult {
            client_id: known.id,
            sequence_id: known.sequence,
            flags,
            state_protect: StateProtectResult::None,
            server_owner: ServerOwner { minor_id: 0, major_id: major_id.into() },
            server_scope: Bytes::copy_from_slice(&identity.cluster.0),
            implementation: None,
        })
    }

    /// RFC 8881 18.34. A connection serves every session that is named on it.
    fn bind(&self, args: &BindConnToSessionArgs) -> NfsResult<BindConnToSessionResult> {
        if !self.server.sessions().has_session(&args.session_id) {
            return Err(NfsStatus::BadSession);
        }
        Ok(BindConnToSessionResult {
            session_id: args.session_id,
            direction: ChannelDirFromServer::Fore,
            use_rdma: false,
        })
    }

    fn put_fh(&mut self, handle: &FileHandle) -> NfsResult<()> {
        let handles = &mut self.handles.0;
        if handles.len() >= HANDLES_MAX && !handles.contains_key(&handle.0) {
            handles.clear();
        }
        let file = match handles.entry(handle.0.clone()) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => {
                let connection = random().map_err(|_| NfsStatus::Delay)?;
                let verified =
                    self.server.core.data_server_file(ConnectionId(connection), new.key());
                // RFC 8881 15.1.2.1: NFS4ERR_BADHANDLE for what is no handle of this server.
                let verified = verified.map_err(|_| NfsStatus::BadHandle)?;
                // The key must not keep the memory of the whole message.
                let key = Bytes::copy_from_slice(&handle.0);
                handles.insert(key, verified.clone());
                verified
            }
        };
        self.current = Some(Current::File(file));
        Ok(())
    }

    fn file(&self) -> NfsResult<&DataServerFile> {
        match &self.current {
            Some(Current::File(file)) => Ok(file),
            Some(Current::Root) => Err(NfsStatus::IsDir),
            None => Err(NfsStatus::NoFileHandle),
        }
    }

    /// RFC 8881 18.22 and 13.10. The state id is that of the metadata server, which has signed what
    /// it allows into the file handle.
    fn read(&mut self, args: &ReadArgs) -> NfsResult<ReadResult> {
        let server = self.server;
        let file = self.file()?;
        // RFC 8881 18.22.3: fewer bytes than asked for, as the session's limit allows.
        let space = self.reply_space.saturating_sub(READ_RESULT_BYTES);
        if space == 0 && args.count > 0 {
            return Err(NfsStatus::RepTooBig);
        }
        let count = u64::from(args.count).min(1 << 20).min(space as u64);
        let now = server.clock.now();
        let DataServerRead { object, data, wanted } =
            file.read(&server.core, now, args.offset, count).map_err(logged)?;
        let (bytes, eof) = if data < wanted || wanted == 0 {
            let size = server.sizes.size(file.file()).map_err(logged)?;
            let left = size.saturating_sub(args.offset);
            // RFC 8881 13.10: the client cannot tell a hole from the end of the file, so the data
            // server fills holes with zeros.
            let bytes = wanted.min(left.max(data));
            (bytes, args.offset.saturating_add(bytes) >= size)
        } else {
            (data, false)
        };
        let data = match object {
            Some((object, offset)) if bytes > COPIED_BYTES_MAX as u64 => {
                self.external.push(ObjectBytes { object, offset, data: data.min(bytes) });
                Payload::External(bytes as usize)
            }
            object => Payload::Bytes(copied(object, data.min(bytes), bytes)?),
        };
        Ok(ReadResult { eof, data })
    }

    /// RFC 8881 18.32.
    fn write(&mut self, args: &WriteArgs) -> NfsResult<WriteResult> {
        let server = self.server;
        let file = self.file()?;
        // The length of a record is limited to less.
        let count = args.data.len() as u32;
        let mut job = file.write(&server.core, args.offset, count).map_err(logged)?;
        let mut rest = &args.data[..];
        while !rest.is_empty() {
            let taken = job.push(&server.core, server.clock.now(), rest);
            rest = &rest[taken..];
        }
        let verifier = loop {
            if let Some(outcome) = job.finish(&server.core, server.clock.now()) {
                break outcome.map_err(logged)?;
            }
        };
        let (committed, verifier) = match args.stable {
            StableHow::Unstable => (StableHow::Unstable, verifier),
            _ => {
                let now = server.clock.now();
                (StableHow::FileSync, file.commit(&server.core, now).map_err(logged)?)
            }
        };
        Ok(WriteResult { count, committed, verifier: wire_verifier(verifier) })
    }

    /// RFC 8881 18.3 and 13.7. The whole object is flushed, whatever the range.
    fn commit(&mut self, _: &CommitArgs) -> NfsResult<CommitResult> {
        let server = self.server;
        let verifier = self.file()?.commit(&server.core, server.clock.now()).map_err(logged)?;
        Ok(CommitResult { verifier: wire_verifier(verifier) })
    }
}

/// The answer to a retry.
fn cached(results: &Arc<[u8]>) -> Results {
    let segments = vec![Segment::Bytes(Bytes::copy_from_slice(results))];
    Results { segments, external: Vec::new() }
}

/// RFC 8881 2.10.6.4 and 18.46.3: SEQUENCE comes first, and only operations that make or end a
/// session come without it, alone.
fn placement_error(op: &ArgOp, at: u32, count: u32, in_session: bool) -> Option<NfsStatus> {
    match op.number() {
        OpNumber::Sequence => Some(NfsStatus::SequencePos),
        _ if in_session => None,
        OpNumber::ExchangeId
        | OpNumber::CreateSession
        | OpNumber::BindConnToSession
        | OpNumber::DestroySession
        | OpNumber::DestroyClientId => (at > 0 || count > 1).then_some(NfsStatus::NotOnlyOp),
        OpNumber::Illegal => None,
        _ => Some(NfsStatus::OpNotInSession),
    }
}

/// The longest result of an operation with an effect that must not come without a reply.
fn longest_change_result(op: OpNumber) -> Option<usize> {
    match op {
        OpNumber::Write
        | OpNumber::Commit
        | OpNumber::BindConnToSession
        | OpNumber::DestroySession
        | OpNumber::DestroyClientId
        | OpNumber::ReclaimComplete => Some(CHANGE_RESULT_BYTES),
        OpNumber::ExchangeId | OpNumber::CreateSession => Some(CLIENT_RESULT_BYTES),
        _ => None,
    }
}

/// Bytes of an object, and zeros up to `bytes`.
fn copied(
    object: Option<(Arc<dyn Object>, ObjectOffset)>,
    data: u64,
    bytes: u64,
) -> NfsResult<Bytes> {
    let mut buffer = BytesMut::zeroed(data as usize);
    if let Some((object, offset)) = object {
        let mut read = 0;
        while read < buffer.len() {
            let at = ObjectOffset(offset.0 + read as u64);
            match object.read_at(&mut buffer[read..], at) {
                // It was truncated meanwhile: the client tries again.
                Ok(0) => return Err(NfsStatus::Delay),
                Ok(some) => read += some,
                Err(why) => return Err(logged(why.into())),
            }
        }
    }
    buffer.put_bytes(0, (bytes - data) as usize);
    Ok(buffer.freeze())
}

fn wire_verifier(verifier: WriteVerifier) -> Verifier {
    Verifier(verifier.0.to_be_bytes())
}

/// The status for a failure. With STALE the client gives its layout back and asks the metadata
/// server again; after most others it goes through the metadata server immediately (Linux:
/// `filelayout_async_handle_error`).
fn logged(failure: Failure) -> NfsStatus {
    let status = match failure.status {
        Status::BadCapability => NfsStatus::Access,
        Status::Fenced
        | Status::StaleEpoch
        | Status::StaleGeneration
        | Status::StaleHandle
        | Status::NotFound => NfsStatus::Stale,
        Status::NotServing | Status::TryAgain => NfsStatus::Delay,
        Status::NoSpace => NfsStatus::NoSpc,
        Status::QuotaExceeded => NfsStatus::DQuot,
        Status::ReadOnly => NfsStatus::RoFs,
        Status::TooLarge => NfsStatus::FBig,
        Status::Invalid => NfsStatus::Inval,
        Status::DiskError | Status::ObjectLost | Status::Corrupted => NfsStatus::Io,
        _ => NfsStatus::ServerFault,
    };
    tracing::debug!(?status, %failure, "an NFS operation failed");
    status
}
