//! Flush: what was written to a file's objects here survives a loss of power (I6).
//!
//! A flush may wait long in its queue. So it is checked when it is queued and before each object
//! (I4). It changes nothing, so no fence waits for it.

use std::{sync::Arc, time::Duration};

use braid_store::ObjectStore;
use braid_types::Failure;
use braid_wire::{
    Rights,
    message::iod::{Flush, FlushReply},
};

use super::{BlockingWork, Clock};
use crate::{
    connection::ConnectionState, connections::ConnectionEntry, iod_core::IodCore,
    verified_capability::VerifiedCapability,
};

pub(crate) fn begin<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    flush: &Flush,
) -> Result<BlockingWork<S>, Failure> {
    let (capability, caller) = core.admission().admitted_capability(
        connection,
        now,
        flush.handle,
        &flush.present,
        Rights::WRITE,
    )?;
    Ok(BlockingWork::new("Flush", move |core, clock| run(core, &capability, &caller, clock)))
}

fn run<S: ObjectStore>(
    core: &IodCore<S>,
    capability: &VerifiedCapability,
    caller: &Arc<ConnectionEntry>,
    clock: Clock<'_>,
) -> Result<FlushReply, Failure> {
    for local_part in &capability.local_parts {
        core.admission().check(capability, caller, clock())?;
        if let Some(opened) = core.open(capability, local_part)? {
            core.logged(opened.object.flush())?;
        }
    }
    // Read after the last flush: it shows a loss that any of them met.
    Ok(FlushReply { verifier: core.store().write_verifier() })
}

/// Flushes every write of any client that was acknowledged before this request arrived.
pub(crate) fn begin_all<S: ObjectStore>(core: &IodCore<S>) -> BlockingWork<S> {
    let ticket = core.flushes().ticket();
    BlockingWork::long_running("FlushAll", move |core: &IodCore<S>, _| {
        let verifier = core.flushes().run(ticket, || core.logged(core.store().flush_all()))?;
        Ok(FlushReply { verifier })
    })
}
