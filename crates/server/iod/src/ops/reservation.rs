//! Writes of sessions with buffered writes, and returns of reservations (ADR 0014).
//!
//! Invariants:
//! 1. A session gets a reservation only with a capability to write, and returns it only over its
//!    own connections.
//! 2. A write uses the reservation for all of its bytes or for none. Without it, it is an ordinary
//!    write.

use std::time::Duration;

use braid_store::ObjectStore;
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
    // Before anything is reserved, since a fence has ended the reservations of its sessions.
    job.check(core, now)?;
    let uses =
        if u64::from(payload_bytes) <= write.reserved_bytes.0 { write.reserved_bytes.0 } else { 0 };
    let (room, in_room) =
        core.reservations()
            .update(session, &write.account, write.wanted.0, uses, now, || core.free_space());
    job.uses_reservation = in_room;
    job.reply = WriteReplyForm::WithReservation(room);
    job.modified = write.modified;
    Ok(job)
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
