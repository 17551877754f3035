//! Abandon, from a client that abandons connections: acknowledged when none of their slices runs.
//!
//! It does not run on the worker threads: the client retries its requests only after this reply,
//! and must not wait behind a flush.

use braid_store::ObjectStore;
use braid_types::{Failure, Status, limits::ABANDONED_CONNECTIONS_MAX};
use braid_wire::message::iod::Abandon;

use crate::{
    connection::{ConnectionState, PeerRights},
    iod_core::IodCore,
};

pub(crate) fn abandon<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &ConnectionState,
    abandon: &Abandon,
) -> Result<(), Failure> {
    let PeerRights::Client(session) = connection.rights() else {
        return Err(Status::WrongRole.into());
    };
    let count = abandon.connections.len();
    if count > ABANDONED_CONNECTIONS_MAX {
        let detail = format!("{count} connections, more than {ABANDONED_CONNECTIONS_MAX}");
        return Err(Failure::new(Status::LimitExceeded, detail));
    }
    core.admission().abandon(&abandon.connections, session)
}
