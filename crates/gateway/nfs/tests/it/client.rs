//! A small NFSv4.1 client: it sends any compound, correct or not, and answers callbacks.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::callback::{
    CallbackArgOp, CallbackHeader, CallbackResOp, CallbackSequenceArgs, CallbackSequenceResult,
};
use braid_nfs_wire::nfs4::results::*;
use braid_nfs_wire::nfs4::*;
use braid_nfs_wire::rpc::auth::{AUTH_NONE, OpaqueAuth};
use braid_nfs_wire::rpc::auth_sys::AuthSys;
use braid_nfs_wire::rpc::message::{AcceptStatus, CallHeader, MessageType, ReplyBody, ReplyHeader};
use braid_nfs_wire::rpc::record::{RecordReader, record_header};
use braid_nfs_wire::xdr::{Decoder, Encoder, Xdr};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Program number for callbacks.
pub const CALLBACK_PROGRAM: u32 = 0x4000_0007;

/// A connection of a client.
pub struct Connection {
    pub stream: TcpStream,
    records: RecordReader,
    xid: u32,
    /// The credential of all calls.
    pub credential: OpaqueAuth,
    /// Minor version of all compounds.
    pub minor_version: u32,
    /// Tag of all compounds.
    pub tag: Bytes,
    replies: HashMap<u32, Bytes>,
    callbacks: VecDeque<Callback>,
}

/// A callback that was received.
#[derive(Debug)]
pub struct Callback {
    pub call: CallHeader,
    pub header: CallbackHeader,
    pub sequence: CallbackSequenceArgs,
    pub op: CallbackArgOp,
}

/// The result of a compound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompoundResult {
    pub status: NfsStatus,
    pub tag: Bytes,
    pub results: Vec<ResOp>,
}

impl CompoundResult {
    /// The results of a compound.
    pub fn decode(mut from: Decoder) -> Self {
        let header = CompoundReplyHeader::decode(&mut from).unwrap();
        let mut results = Vec::new();
        for _ in 0..header.op_count {
            results.push(ResOp::decode(&mut from).unwrap());
        }
        from.finish().unwrap();
        if let Some(last) = results.last() {
            assert_eq!(last.status(), header.status);
        }
        Self { status: header.status, tag: header.tag, results }
    }

    /// The last result, which must have succeeded.
    #[track_caller]
    pub fn last(mut self) -> ResOp {
        assert_eq!(self.status, NfsStatus::Ok, "{:?}", self.results);
        self.results.pop().expect("a result")
    }
}

/// The value of the last result of a compound.
#[macro_export]
macro_rules! last {
    ($op:ident, $result:expr) => {
        match $result.last() {
            ResOp::$op(Ok(value)) => value,
            other => panic!("{other:?}"),
        }
    };
}

/// The credential of a user.
pub fn user(uid: u32) -> OpaqueAuth {
    let user = AuthSys {
        stamp: 0,
        machine_name: Bytes::from_static(b"host"),
        uid,
        gid: uid,
        gids: Vec::new(),
    };
    user.to_credential()
}

impl Connection {
    /// Connects as user 0 with minor version 1.
    pub async fn new(server: SocketAddr) -> Self {
        Self::over(TcpStream::connect(server).await.unwrap())
    }

    /// As [`Connection::new`], over a stream that is connected.
    pub fn over(stream: TcpStream) -> Self {
        Self {
            stream,
            records: RecordReader::new(),
            xid: 100,
            credential: user(0),
            minor_version: 1,
            tag: Bytes::new(),
            replies: HashMap::new(),
            callbacks: VecDeque::new(),
        }
    }

    /// Sends a record of one fragment.
    pub async fn send_record(&mut self, record: &[u8]) {
        let message = [&record_header(record.len())[..], record].concat();
        self.stream.write_all(&message).await.unwrap();
    }

    /// Sends a call of any program; returns its transaction.
    pub async fn send_call(
        &mut self,
        (program, version, procedure): (u32, u32, u32),
        arguments: impl FnOnce(&mut Encoder),
    ) -> u32 {
        self.xid += 1;
        let call = CallHeader {
            xid: self.xid,
            program,
            version,
            procedure,
            credential: self.credential.clone(),
            verifier: OpaqueAuth::none(),
        };
        let mut to = Encoder::new();
        call.encode(&mut to);
        arguments(&mut to);
        self.send_record(&to.to_vec()).await;
        self.xid
    }

    /// Sends a compound; returns its transaction.
    pub async fn send(&mut self, ops: &[ArgOp]) -> u32 {
        let (tag, minor_version) = (self.tag.clone(), self.minor_version);
        let procedure = (NFS_PROGRAM, NFS_VERSION, PROCEDURE_COMPOUND);
        self.send_call(procedure, |to| {
            CompoundHeader { tag, minor_version, op_count: ops.len() as u32 }.encode(to);
            ops.iter().for_each(|op| op.encode(to));
        })
        .await
    }

    /// Reads one record; `None` at the end of the stream.
    async fn read_record(&mut self) -> Option<Bytes> {
        loop {
            if let Some(record) = self.records.next_record().unwrap() {
                return Some(record);
            }
            match self.stream.read_buf(&mut self.records.unfilled()).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Waits until the server closes the connection, and fails if it sends anything.
    pub async fn expect_close(&mut self) {
        assert_eq!(self.read_record().await, None);
    }

    /// Reads one message and keeps it.
    async fn read_message(&mut self) {
        let record = self.read_record().await.expect("the server closed the connection");
        let (xid, kind) = MessageType::peek(&record).unwrap();
        if kind == MessageType::Reply {
            self.replies.insert(xid, record);
            return;
        }
        let mut from = Decoder::new(record);
        let call = CallHeader::decode(&mut from).unwrap();
        let header = CallbackHeader::decode(&mut from).unwrap();
        assert_eq!((header.op_count, call.program), (2, CALLBACK_PROGRAM));
        let sequence = CallbackArgOp::decode(&mut from, header.minor_version).unwrap();
        let CallbackArgOp::Sequence(sequence) = sequence else { panic!("{sequence:?}") };
        let op = CallbackArgOp::decode(&mut from, header.minor_version).unwrap();
        from.finish().unwrap();
        self.callbacks.push_back(Callback { call, header, sequence, op });
    }

    /// Whether the reply to a transaction arrives before the server closes the connection.
    pub async fn try_receive(&mut self, xid: u32) -> bool {
        match self.read_record().await {
            Some(record) => MessageType::peek(&record) == Ok((xid, MessageType::Reply)),
            None => false,
        }
    }

    /// The reply to a transaction: its header and what follows.
    pub async fn receive(&mut self, xid: u32) -> (ReplyBody, Decoder) {
        while !self.replies.contains_key(&xid) {
            self.read_message().await;
        }
        let mut from = Decoder::new(self.replies.remove(&xid).unwrap());
        let header = ReplyHeader::decode(&mut from).unwrap();
        (header.body, from)
    }

    /// The result of a compound that was sent.
    pub async fn receive_compound(&mut self, xid: u32) -> CompoundResult {
        let (body, from) = self.receive(xid).await;
        let ReplyBody::Accepted { status: AcceptStatus::Success, verifier } = body else {
            panic!("{body:?}")
        };
        assert_eq!(verifier.flavor, AUTH_NONE);
        CompoundResult::decode(from)
    }

    /// Sends a compound and waits for its result.
    pub async fn compound(&mut self, ops: &[ArgOp]) -> CompoundResult {
        let xid = self.send(ops).await;
        self.receive_compound(xid).await
    }

    /// The status of a compound.
    pub async fn status(&mut self, ops: &[ArgOp]) -> NfsStatus {
        self.compound(ops).await.status
    }

    /// The next callback.
    pub async fn callback(&mut self) -> Callback {
        while self.callbacks.is_empty() {
            self.read_message().await;
        }
        self.callbacks.pop_front().unwrap()
    }

    /// Whether a callback has arrived that was not looked at.
    pub fn has_callback(&self) -> bool {
        !self.callbacks.is_empty()
    }

    /// Answers a callback. `sequence` is the status of CB_SEQUENCE.
    pub async fn answer(
        &mut self,
        callback: &Callback,
        sequence: NfsStatus,
        result: &CallbackResOp,
    ) {
        let mut to = Encoder::new();
        callback.call.accepted(OpaqueAuth::none(), AcceptStatus::Success).encode(&mut to);
        let args = &callback.sequence;
        let ok = sequence == NfsStatus::Ok;
        let status = if ok { result.status() } else { sequence };
        let op_count = if ok { 2 } else { 1 };
        CompoundReplyHeader { status, tag: Bytes::new(), op_count }.encode(&mut to);
        let first = if ok {
            Ok(CallbackSequenceResult {
                session_id: args.session_id,
                sequence_id: args.sequence_id,
                slot_id: args.slot_id,
                highest_slot_id: args.highest_slot_id,
                target_highest_slot_id: args.highest_slot_id,
            })
        } else {
            Err(sequence)
        };
        CallbackResOp::Sequence(first).encode(&mut to);
        if ok {
            result.encode(&mut to);
        }
        self.send_record(&to.to_vec()).await;
    }

    /// EXCHANGE_ID.
    pub async fn exchange_id(&mut self, args: ExchangeIdArgs) -> NfsResult<ExchangeIdResult> {
        let result = self.compound(&[ArgOp::ExchangeId(args)]).await;
        match result.results.into_iter().next() {
            Some(ResOp::ExchangeId(result)) => result,
            other => panic!("{other:?}"),
        }
    }

    /// CREATE_SESSION.
    pub async fn create_session(
        &mut self,
        args: CreateSessionArgs,
    ) -> NfsResult<CreateSessionResult> {
        let result = self.compound(&[ArgOp::CreateSession(args)]).await;
        match result.results.into_iter().next() {
            Some(ResOp::CreateSession(result)) => result,
            other => panic!("{other:?}"),
        }
    }

    /// A client named `owner` with a session, whose back channel is this connection.
    pub async fn session(&mut self, owner: &str) -> Session {
        let client = self.exchange_id(exchange_args(owner, 1)).await.unwrap();
        let args = create_args(client.client_id, client.sequence_id.0);
        let created = self.create_session(args).await.unwrap();
        Session::new(client.client_id, created)
    }
}

/// Arguments of EXCHANGE_ID without wishes.
pub fn exchange_args(owner: &str, verifier: u8) -> ExchangeIdArgs {
    ExchangeIdArgs {
        client_owner: ClientOwner {
            verifier: Verifier([verifier; 8]),
            owner_id: Bytes::copy_from_slice(owner.as_bytes()),
        },
        flags: ExchangeIdFlags::empty(),
        state_protect: StateProtectArgs::None,
        implementation: None,
    }
}

/// Limits of a channel as Linux asks for them, roughly.
pub const CHANNEL: ChannelAttributes = ChannelAttributes {
    header_pad_size: 0,
    max_request_size: 1 << 20,
    max_response_size: 1 << 20,
    max_response_size_cached: 4096,
    max_operations: 16,
    max_requests: 8,
    rdma_ird: None,
};

/// Arguments of CREATE_SESSION with a back channel.
pub fn create_args(client_id: ClientId, sequence: u32) -> CreateSessionArgs {
    CreateSessionArgs {
        client_id,
        sequence: SequenceId(sequence),
        flags: CreateSessionFlags::CONN_BACK_CHAN,
        fore_channel: CHANNEL,
        back_channel: CHANNEL,
        callback_program: CALLBACK_PROGRAM,
        callback_security: vec![CallbackSecurity::None],
    }
}

/// A session with the numbers of its slots.
#[derive(Clone, Debug)]
pub struct Session {
    pub client: ClientId,
    pub id: SessionId,
    sequences: Vec<u32>,
}

impl Session {
    pub fn new(client: ClientId, created: CreateSessionResult) -> Self {
        let slots = created.fore_channel.max_requests as usize;
        Self { client, id: created.session_id, sequences: vec![0; slots] }
    }

    /// SEQUENCE of the next request on a slot.
    pub fn next_on(&mut self, slot: u32) -> SequenceArgs {
        self.sequences[slot as usize] = self.sequences[slot as usize].wrapping_add(1);
        self.again_on(slot)
    }

    /// SEQUENCE of the last request on a slot.
    pub fn again_on(&self, slot: u32) -> SequenceArgs {
        SequenceArgs {
            session_id: self.id,
            sequence_id: SequenceId(self.sequences[slot as usize]),
            slot_id: SlotId(slot),
            highest_slot_id: SlotId(slot),
            cache_this: false,
        }
    }

    /// A compound on slot 0, without caching.
    pub fn ops(&mut self, ops: impl IntoIterator<Item = ArgOp>) -> Vec<ArgOp> {
        with_sequence(self.next_on(0), ops)
    }
}

/// A compound that begins with SEQUENCE.
pub fn with_sequence(sequence: SequenceArgs, ops: impl IntoIterator<Item = ArgOp>) -> Vec<ArgOp> {
    std::iter::once(ArgOp::Sequence(sequence)).chain(ops).collect()
}
