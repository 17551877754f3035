//! Admission of requests: what a caller must show before its request may touch objects.
//!
//! ```text
//!   request begins   handle or capability ── signature, session, rights ──> verified capability
//!   each slice       epoch, fences, heartbeat, connection ──> it runs, or the request ends
//! ```
//!
//! Invariants:
//! 1. No object is touched without a verified capability of the caller's session, or the metadata
//!    server's own key (I4).
//! 2. Each slice of a request is checked once, when it starts and before it touches an object. A
//!    fence, a new epoch, or a lost metadata server therefore stops a request between two slices.
//!    See [`SliceAdmission`] for what the check guarantees.
//! 3. A slice that changes objects holds a guard ([`AdmissionGuard`]), for which its fence waits. A
//!    slice that only reads holds none.
//!
//! The types enforce 1: operations open objects only by a verified capability, which only this
//! module and the handles of a connection give out. They also enforce 3: `begin_slice` returns the
//! guard. When a slice starts is known to its operation alone, so 2 is not asserted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use braid_types::{ConnectionId, Failure, IodId, MdsEpoch, SessionId, Status};
use braid_wire::{
    Rights, Secret,
    message::{iod::Fence, mds::SessionRange},
};

use crate::{
    connection::{ConnectionState, Peer},
    connections::{ConnectionEntry, ConnectionTable},
    slice_admission::{AdmissionGuard, SliceAdmission},
    verified_capability::VerifiedCapability,
};

/// Decides which requests and slices may touch objects.
#[derive(Debug)]
pub(crate) struct RequestAdmission {
    server_key: Secret,
    /// 0 until the metadata server has assigned one.
    iod: AtomicU32,
    slices: SliceAdmission,
    callers: ConnectionTable,
}

impl RequestAdmission {
    /// Admits no client before the first [`RequestAdmission::serve_until`]. `iod` is 0 if none is
    /// assigned yet.
    pub(crate) fn new(server_key: Secret, iod: IodId) -> Self {
        let callers = ConnectionTable::default();
        let slices = SliceAdmission::not_serving(callers.clone());
        Self { server_key, iod: AtomicU32::new(iod.0), slices, callers }
    }

    /// The daemon's id; 0 until the metadata server has assigned one.
    pub(crate) fn iod(&self) -> IodId {
        IodId(self.iod.load(Relaxed))
    }

    pub(crate) fn set_iod(&self, iod: IodId) {
        self.iod.store(iod.0, Relaxed);
    }

    /// State for a new connection whose peer is authenticated.
    pub(crate) fn connected(&self, peer: &Peer) -> ConnectionState {
        ConnectionState::new(peer, &self.callers)
    }

    /// The capability of a request, if it has the rights that the request needs. Its slices are not
    /// checked yet.
    ///
    /// # Errors
    /// [`Status::WrongRole`], [`Status::BadCapability`], [`Status::UnknownHandle`].
    pub(crate) fn capability(
        &self,
        connection: &mut ConnectionState,
        handle: u32,
        present: &[u8],
        wanted: Rights,
    ) -> Result<(Arc<VerifiedCapability>, Arc<ConnectionEntry>), Failure> {
        let capability = connection.capability(handle, present, &self.server_key, self.iod())?;
        capability.check_rights(wanted)?;
        Ok((capability, connection.data_caller()?.clone()))
    }

    /// The same for a request whose first slice begins with this call.
    ///
    /// # Errors
    /// As [`RequestAdmission::capability`] and [`RequestAdmission::check`].
    pub(crate) fn admitted_capability(
        &self,
        connection: &mut ConnectionState,
        now: Duration,
        handle: u32,
        present: &[u8],
        wanted: Rights,
    ) -> Result<(Arc<VerifiedCapability>, Arc<ConnectionEntry>), Failure> {
        let (capability, caller) = self.capability(connection, handle, present, wanted)?;
        self.check(&capability, &caller, now)?;
        Ok((capability, caller))
    }

    /// The capability for a second file of the same request, of the same session.
    ///
    /// # Errors
    /// [`Status::BadCapability`], [`Status::StaleEpoch`].
    pub(crate) fn second_capability(
        &self,
        first: &VerifiedCapability,
        signed: &[u8],
        wanted: Rights,
    ) -> Result<VerifiedCapability, Failure> {
        let capability = VerifiedCapability::verify(signed, &self.server_key, self.iod())?;
        if capability.session != first.session {
            return Err(Failure::new(
                Status::BadCapability,
                "the second capability belongs to another session",
            ));
        }
        capability.check_rights(wanted)?;
        self.slices.check_epoch(capability.epoch)?;
        Ok(capability)
    }

    /// The capability that the metadata server signed for its own request.
    ///
    /// # Errors
    /// [`Status::BadCapability`], [`Status::StaleEpoch`].
    pub(crate) fn mds_capability(&self, signed: &[u8]) -> Result<VerifiedCapability, Failure> {
        let capability = VerifiedCapability::verify(signed, &self.server_key, self.iod())?;
        self.slices.check_epoch(capability.epoch)?;
        Ok(capability)
    }

    /// The capability in the file handle of an NFS data server, the offset at which its writes end,
    /// and its session as a caller of this connection. Its slices are not checked yet.
    ///
    /// # Errors
    /// [`Status::BadCapability`].
    pub(crate) fn data_server_handle(
        &self,
        connection: ConnectionId,
        signed: &[u8],
    ) -> Result<(VerifiedCapability, u64, Arc<ConnectionEntry>), Failure> {
        let (capability, write_end) =
            VerifiedCapability::of_data_server_handle(signed, &self.server_key, self.iod())?;
        let caller = self.callers.add(connection, Some(capability.session));
        Ok((capability, write_end, caller))
    }

    /// Checks a slice that changes nothing, which no fence waits for.
    ///
    /// # Errors
    /// As [`SliceAdmission::check`].
    pub(crate) fn check(
        &self,
        capability: &VerifiedCapability,
        caller: &ConnectionEntry,
        now: Duration,
    ) -> Result<(), Failure> {
        self.slices.check(caller, capability.epoch, now)
    }

    /// Checks a slice that changes objects. While the guard lives, fences of the slice's session
    /// wait.
    ///
    /// # Errors
    /// As [`SliceAdmission::begin_slice`].
    pub(crate) fn begin_slice(
        &self,
        capability: &VerifiedCapability,
        caller: &Arc<ConnectionEntry>,
        now: Duration,
    ) -> Result<AdmissionGuard<'_>, Failure> {
        self.slices.begin_slice(caller, capability.epoch, now)
    }

    /// The same for one slice of several callers, each with its capability.
    ///
    /// # Errors
    /// As [`SliceAdmission::begin_shared_slice`].
    pub(crate) fn begin_shared_slice(
        &self,
        of: &[(Arc<VerifiedCapability>, Arc<ConnectionEntry>)],
        now: Duration,
    ) -> Result<AdmissionGuard<'_>, Failure> {
        self.slices.begin_shared_slice(
            of.iter().map(|(capability, caller)| (caller, capability.epoch)),
            now,
        )
    }

    /// Checks a request that carries no capability.
    ///
    /// # Errors
    /// [`Status::Fenced`], [`Status::NotServing`], [`Status::Cancelled`].
    pub(crate) fn check_connection(
        &self,
        connection: &ConnectionState,
        now: Duration,
    ) -> Result<(), Failure> {
        self.slices.check_without_capability(connection.caller(), now)
    }

    /// Refuses these sessions and older epochs from now on. Returns when none of their slices runs
    /// (I4).
    pub(crate) fn fence(&self, fence: &Fence) {
        self.slices.fence(&fence.sessions, fence.epoch_min);
    }

    /// As [`RequestAdmission::fence`] for ranges of sessions, without waiting; whether the fence
    /// holds already.
    pub(crate) fn try_fence_ranges(&self, ranges: &[SessionRange], epoch_min: MdsEpoch) -> bool {
        let ranges = ranges.iter().map(|range| (range.first, range.last));
        self.slices.try_fence_ranges(ranges, epoch_min)
    }

    /// Ends all requests of these connections of a session. Returns when none of their slices runs.
    /// An unknown connection has ended: nothing of it can run.
    ///
    /// # Errors
    /// [`Status::NotPermitted`] when one belongs to another session; then nothing was done.
    pub(crate) fn abandon(
        &self,
        connections: &[ConnectionId],
        session: SessionId,
    ) -> Result<(), Failure> {
        let callers = self.callers.find(connections, session)?;
        tracing::debug!(%session, asked = connections.len(), found = callers.len(), "abandoned");
        self.slices.abandon(&callers);
        Ok(())
    }

    /// Admits clients until this moment; `None` stops immediately.
    pub(crate) fn serve_until(&self, until: Option<Duration>) {
        self.slices.serve_until(until);
    }

    /// Whether clients are admitted at `now`.
    pub(crate) fn serves(&self, now: Duration) -> bool {
        self.slices.serves(now)
    }
}

#[cfg(test)]
mod tests {
    use braid_layout::{Distribution, Layout, Request};
    use braid_store::MemStore;
    use braid_types::{ClusterUuid, FileIndex, FileOffset, KeyId, SizeGeneration};
    use braid_wire::{
        Call, Capability, Credential, Role, Wire, decode_outcome,
        message::iod::{Read, ReadReply, Write},
    };

    use super::*;
    use crate::{IodCore, MemorySink, ReadProgress, StartedRequest};

    const NOW: Duration = Duration::from_secs(100);
    const SESSION: SessionId = SessionId(5);
    const EPOCH: MdsEpoch = MdsEpoch(1);

    fn server_key() -> Secret {
        Secret::from_bytes([7; 32])
    }

    fn serving() -> IodCore<MemStore> {
        let store = MemStore::new(ClusterUuid([9; 16]), Some(IodId(1)), 1);
        let core = IodCore::new(Arc::new(store), server_key(), NOW);
        core.serve_until(Some(NOW + Duration::from_secs(10)));
        core
    }

    fn connection(core: &IodCore<MemStore>) -> ConnectionState {
        let credential =
            Credential::Session { session: SESSION, key: KeyId(1), user: None, epoch: EPOCH };
        core.new_connection(&Peer { role: Role::Client, credential, id: ConnectionId([1; 16]) })
    }

    fn capability() -> Vec<u8> {
        let layout = Layout::one(Distribution::SimpleStripe { stripe_size: 4096 }, [IodId(1)]);
        let capability = Capability {
            file: FileIndex(77),
            size_generation: SizeGeneration(1),
            rights: Rights::READ_WRITE,
            session: SESSION,
            epoch: EPOCH,
            owner: (1000, 100),
            layout,
            existing_parts: Vec::new(),
        };
        capability.sign(&server_key())
    }

    fn fence(core: &IodCore<MemStore>) {
        core.fence(&Fence { sessions: vec![SESSION], fence: 1, epoch_min: EPOCH });
    }

    fn read() -> Vec<u8> {
        let request = Request::contiguous(FileOffset(0), 100);
        Read { handle: 1, present: capability(), request }.to_bytes()
    }

    fn status(out: MemorySink) -> Status {
        let body = out.body.expect("a final frame");
        decode_outcome::<ReadReply>(&body)
            .expect("well-formed")
            .err()
            .map_or(Status::Ok, |failure| failure.status)
    }

    #[test]
    fn a_read_is_checked_by_its_first_slice_before_it_opens_an_object() {
        for fenced in [false, true] {
            let core = serving();
            let mut connection = connection(&core);
            let StartedRequest::Read(mut job) =
                core.begin(&mut connection, NOW, Read::OP, &read(), 0)
            else {
                panic!("a job")
            };
            if fenced {
                fence(&core);
            }
            let mut out = MemorySink::default();
            assert_eq!(job.step(&core, NOW, &mut out), Ok(ReadProgress::Finished));
            assert_eq!(status(out), if fenced { Status::Fenced } else { Status::Ok });
        }
    }

    #[test]
    fn a_read_is_refused_when_service_ends_between_its_request_and_its_slice() {
        let core = serving();
        let mut connection = connection(&core);
        let StartedRequest::Read(mut job) = core.begin(&mut connection, NOW, Read::OP, &read(), 0)
        else {
            panic!("a job")
        };
        let mut out = MemorySink::default();
        let later = NOW + Duration::from_secs(10);
        assert_eq!(job.step(&core, later, &mut out), Ok(ReadProgress::Finished));
        assert_eq!(status(out), Status::NotServing);
    }

    #[test]
    fn a_write_is_checked_also_without_payload() {
        for payload in [&b""[..], b"abc"] {
            let core = serving();
            let mut connection = connection(&core);
            let bytes = payload.len();
            let request = Request::contiguous(FileOffset(0), bytes as u64);
            let write = Write { handle: 1, present: capability(), request }.to_bytes();
            let StartedRequest::Write(mut job) =
                core.begin(&mut connection, NOW, Write::OP, &write, bytes as u32)
            else {
                panic!("a job")
            };
            fence(&core);
            if bytes > 0 {
                assert_eq!(job.push(&core, NOW, payload), bytes, "taken and dropped");
            }
            assert_eq!(job.finish(&core, NOW).expect("the end").status, Status::Fenced);
        }
    }
}
