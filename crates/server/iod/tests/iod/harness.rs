//! A daemon with a store in memory, capabilities as the metadata server signs them, and clients.

use std::{sync::Arc, time::Duration};

use braid_iod::{ConnectionState, IodCore, MemorySink, Peer};
use braid_layout::{Distribution, Layout, Request};
use braid_store::{MemStore, ObjectStore};
use braid_types::{
    ByteCount, ClusterUuid, ConnectionId, Failure, FileIndex, FileOffset, IodId, KeyId, MdsEpoch,
    ObjectGeneration, ObjectId, PartIndex, SessionId, SizeGeneration, Status,
};
use braid_wire::{
    Call, Capability, Credential, Rights, Role, Secret, decode_outcome,
    message::iod::{ObjectEnd, Read, ReadReply, Write, WriteReply},
};

pub const NOW: Duration = Duration::from_secs(1000);
pub const SERVES_FOR: Duration = Duration::from_secs(10);
pub const FILE: FileIndex = FileIndex(77);
pub const SESSION: SessionId = SessionId(5);
pub const EPOCH: MdsEpoch = MdsEpoch(3);
pub const STRIPE: u64 = 4096;

pub fn server_key() -> Secret {
    Secret::from_bytes([7; 32])
}

/// A daemon that is registered and serves.
pub fn daemon(iod: u32) -> IodCore<MemStore> {
    let store = MemStore::new(ClusterUuid([9; 16]), Some(IodId(iod)), 1);
    let core = IodCore::new(Arc::new(store), server_key(), NOW);
    core.serve_until(Some(NOW + SERVES_FOR));
    core
}

pub fn striped(iods: impl IntoIterator<Item = u32>) -> Layout {
    Layout::one(Distribution::SimpleStripe { stripe_size: STRIPE }, iods.into_iter().map(IodId))
}

/// A capability for [`FILE`] in [`SESSION`], for reading and writing.
pub fn capability(layout: Layout) -> Capability {
    Capability {
        file: FILE,
        size_generation: SizeGeneration(1),
        rights: Rights::READ_WRITE,
        session: SESSION,
        epoch: EPOCH,
        owner: (1000, 100),
        layout,
        existing_parts: Vec::new(),
    }
}

pub fn object(part: u16) -> ObjectId {
    ObjectId { file: FILE, part: PartIndex(part), generation: ObjectGeneration(1) }
}

/// One connection.
pub struct Client<'a, S = MemStore> {
    pub core: &'a IodCore<S>,
    pub state: ConnectionState,
    pub now: Duration,
}

/// The reply of a successful call.
pub struct Reply<R> {
    pub reply: R,
    pub payload: Vec<u8>,
    pub data_frames: Vec<usize>,
}

impl<'a, S: ObjectStore> Client<'a, S> {
    /// A client of this session.
    pub fn of_session(core: &'a IodCore<S>, session: SessionId) -> Self {
        Self::new(
            core,
            Role::Client,
            Credential::Session { session, key: KeyId(1), user: None, epoch: EPOCH },
        )
    }

    /// A client whose session a user's ticket started.
    pub fn of_user(core: &'a IodCore<S>, user: u64, session: SessionId) -> Self {
        Self::new(
            core,
            Role::Client,
            Credential::Session { session, key: KeyId(1), user: Some(user), epoch: EPOCH },
        )
    }

    pub fn mds(core: &'a IodCore<S>) -> Self {
        Self::new(core, Role::Mds, Credential::Server)
    }

    pub fn new(core: &'a IodCore<S>, role: Role, credential: Credential) -> Self {
        Self::with_id(core, role, credential, ConnectionId::default())
    }

    /// A client of this session over a connection of this id.
    pub fn over(core: &'a IodCore<S>, session: SessionId, id: ConnectionId) -> Self {
        Self::with_id(
            core,
            Role::Client,
            Credential::Session { session, key: KeyId(1), user: None, epoch: EPOCH },
            id,
        )
    }

    fn with_id(core: &'a IodCore<S>, role: Role, credential: Credential, id: ConnectionId) -> Self {
        Self { core, state: core.new_connection(&Peer { role, credential, id }), now: NOW }
    }

    pub fn call<C: Call>(&mut self, call: &C) -> Result<C::Reply, Failure> {
        self.call_with(call, &[]).map(|reply| reply.reply)
    }

    pub fn call_with<C: Call>(
        &mut self,
        call: &C,
        payload: &[u8],
    ) -> Result<Reply<C::Reply>, Failure> {
        let mut out = MemorySink::default();
        self.core
            .handle(&mut self.state, self.now, C::OP, &call.to_bytes(), payload, &mut out)
            .expect("sent");
        let reply =
            decode_outcome::<C::Reply>(&out.body.expect("a final frame")).expect("well-formed")?;
        Ok(Reply { reply, payload: out.payload, data_frames: out.data_frames })
    }

    /// A signed capability, under handle 1.
    pub fn present(&self, capability: &Capability) -> (u32, Vec<u8>) {
        (1, capability.sign(&server_key()))
    }

    pub fn write(
        &mut self,
        capability: &Capability,
        request: Request,
        payload: &[u8],
    ) -> Result<WriteReply, Failure> {
        let (handle, present) = self.present(capability);
        self.call_with(&Write { handle, present, request }, payload).map(|reply| reply.reply)
    }

    pub fn read(
        &mut self,
        capability: &Capability,
        request: Request,
    ) -> Result<Reply<ReadReply>, Failure> {
        let (handle, present) = self.present(capability);
        let reply = self.call_with(&Read { handle, present, request }, &[])?;
        assert_eq!(reply.reply.bytes.0, reply.payload.len() as u64);
        Ok(reply)
    }
}

pub fn contiguous(offset: u64, bytes: u64) -> Request {
    Request::contiguous(FileOffset(offset), bytes)
}

pub fn end(part: u16, bytes: u64) -> ObjectEnd {
    ObjectEnd { part: PartIndex(part), bytes: ByteCount(bytes) }
}

/// Bytes that depend on their position.
pub fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    (0..bytes as u64).map(|i| ((i * 7 + seed * 13 + i / 251) % 251 + 1) as u8).collect()
}

/// The status of a call that must fail.
pub fn refusal<T>(outcome: Result<T, Failure>) -> Status {
    outcome.err().expect("it should be refused").status
}
