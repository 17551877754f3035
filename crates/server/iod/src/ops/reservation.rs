//! Writes of sessions with buffered writes, and returns of reservations (ADR 0014).
//!
//! Invariants:
//! 1. A session gets a reservation only with a capability to write, and returns it only over its
//!    own connections.
//! 2. A write uses the reservation for all of its bytes or for none. Without it, it is an ordinary
//!    write.
//! 3. A reservation is made in a slice that is admitted as one that changes objects. A fence waits
//!    for it and then ends the reservations of its sessions, so no fenced session keeps one (I4).

use std::time::Duration;

use braid_store::{ObjectStore, StoreSpace};
use braid_types::{Failure, SessionId, Status};
use braid_wire::message::iod::{ReturnReservation, WriteWithReservation};

use super::write::{self, WriteJob, WriteReplyForm};
use crate::{
    connection::{ConnectionState, PeerRights},
    iod_core::IodCore,
};

pub(crate) fn write<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    write: &WriteWithReservation,
    payload_bytes: u32,
) -> Result<Box<WriteJob>, Failure> {
    let session = session(connection)?;
    let mut job = write::job(
        core,
        connection,
        (write.handle, &write.present, &write.request),
        payload_bytes,
    )?;
    let uses =
        if u64::from(payload_bytes) <= write.reserved_bytes.0 { write.reserved_bytes.0 } else { 0 };
    update(core, &mut job, (session, write), uses, now, || core.free_space())?;
    job.modified = write.modified;
    Ok(job)
}

/// Updates the session's reservation. `uses`: the bytes of it that the job needs. `measure` asks
/// the disk for its free space.
fn update<S: ObjectStore>(
    core: &IodCore<S>,
    job: &mut WriteJob,
    (session, write): (SessionId, &WriteWithReservation),
    uses: u64,
    now: Duration,
    measure: impl FnOnce() -> Option<StoreSpace>,
) -> Result<(), Failure> {
    // Invariant 3.
    let _guard = job.begin_slice(core, now)?;
    let (reservation, covers) =
        core.reservations().update(session, &write.account, write.wanted.0, uses, now, measure);
    job.uses_reservation = covers;
    job.reply = WriteReplyForm::WithReservation(reservation);
    Ok(())
}

pub(crate) fn release<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &ConnectionState,
    now: Duration,
    back: &ReturnReservation,
) -> Result<(), Failure> {
    core.reservations().release(session(connection)?, &back.account, now);
    Ok(())
}

fn session(connection: &ConnectionState) -> Result<SessionId, Failure> {
    match connection.rights() {
        PeerRights::Client(session) => Ok(session),
        _ => Err(Status::WrongRole.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::Arc};

    use braid_layout::{Distribution, Layout, Request};
    use braid_store::MemStore;
    use braid_types::{
        ByteCount, ClusterUuid, ConnectionId, FileIndex, FileOffset, IodId, KeyId, MdsEpoch,
        SizeGeneration,
    };
    use braid_wire::{
        Capability, Credential, Rights, Role, Secret,
        message::{iod::ReservationAccount, mds::SessionRange},
    };

    use super::*;
    use crate::connection::Peer;

    const NOW: Duration = Duration::from_secs(100);
    const SESSION: SessionId = SessionId(5);
    const EPOCH: MdsEpoch = MdsEpoch(1);
    const WANTED: u64 = 1 << 20;

    fn server_key() -> Secret {
        Secret::from_bytes([7; 32])
    }

    fn write_that_wants_a_reservation() -> WriteWithReservation {
        let capability = Capability {
            file: FileIndex(77),
            size_generation: SizeGeneration(1),
            rights: Rights::READ_WRITE,
            session: SESSION,
            epoch: EPOCH,
            owner: (1000, 100),
            layout: Layout::one(Distribution::Single, [IodId(1)]),
            existing_parts: Vec::new(),
        };
        WriteWithReservation {
            handle: 1,
            present: capability.sign(&server_key()),
            request: Request::contiguous(FileOffset(0), 1),
            account: ReservationAccount { term: 0, released: ByteCount(0) },
            wanted: ByteCount(WANTED),
            reserved_bytes: ByteCount(0),
            modified: None,
        }
    }

    #[test]
    fn no_reservation_outlives_the_fence_that_meets_it_being_made() {
        for is_fenced in [true, false] {
            let store = MemStore::new(ClusterUuid([9; 16]), Some(IodId(1)), 1);
            let core = IodCore::new(Arc::new(store), server_key(), NOW);
            core.serve_until(Some(NOW + Duration::from_secs(10)));
            let credential =
                Credential::Session { session: SESSION, key: KeyId(1), user: None, epoch: EPOCH };
            let peer = Peer { role: Role::Client, credential, id: ConnectionId([1; 16]) };
            let mut connection = core.new_connection(&peer);
            let write = write_that_wants_a_reservation();
            let presented = (write.handle, &write.present[..], &write.request);
            let mut job = write::job(&core, &mut connection, presented, 1).unwrap();

            // The fence falls between the check and the entry of the reservation: it is set, and
            // there is no reservation yet that it could end.
            let own = [SessionRange { first: SESSION, last: SESSION }];
            let holds = Cell::new(false);
            let measure = || {
                if is_fenced {
                    holds.set(core.admission().try_fence_ranges(&own, EPOCH));
                }
                core.free_space()
            };
            update(&core, &mut job, (SESSION, &write), 0, NOW, measure).unwrap();
            if is_fenced && !holds.get() {
                // The daemon has not confirmed the fence: it comes again with the next heartbeat.
                assert!(core.try_fence_ranges(&own, EPOCH));
            }
            assert_eq!(core.reservations().reserved_bytes() > 0, !is_fenced);
        }
    }
}
