//! Flush: what was written to a file's objects here survives a loss of power (I6).

use std::time::Duration;

use braid_store::ObjectStore;
use braid_types::Failure;
use braid_wire::{
    Rights,
    message::iod::{Flush, FlushReply},
};

use super::Work;
use crate::{connection::ConnectionState, grant::Grant, iod_core::IodCore};

pub(crate) fn begin<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    flush: &Flush,
) -> Result<Work<S>, Failure> {
    let (capability, _) = core.admission().admitted_capability(
        connection,
        now,
        flush.handle,
        &flush.present,
        Rights::WRITE,
    )?;
    Ok(Work::new("Flush", move |core, _| run(core, &capability)))
}

fn run<S: ObjectStore>(core: &IodCore<S>, capability: &Grant) -> Result<FlushReply, Failure> {
    for local_part in &capability.places {
        if let Some(opened) = core.open(capability, local_part)? {
            core.warned(opened.object.flush())?;
        }
    }
    // Read after the last flush: it shows a loss that any of them met.
    Ok(FlushReply { verifier: core.store().write_verifier() })
}

/// Flushes every write of any client that was acknowledged before this request arrived.
pub(crate) fn begin_all<S: ObjectStore>(core: &IodCore<S>) -> Work<S> {
    let ticket = core.flushes().ticket();
    Work::apart("FlushAll", move |core: &IodCore<S>, _| {
        let verifier = core.flushes().run(ticket, || core.warned(core.store().flush_all()))?;
        Ok(FlushReply { verifier })
    })
}
