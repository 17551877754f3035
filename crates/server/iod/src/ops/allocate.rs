//! Allocate: disk space for a range of the file.
//!
//! A contiguous range of a file is one contiguous range of each object (`braid_layout`: objects
//! have no gaps). So this needs no unfolding, only one call for each part.

use std::{sync::Arc, time::Duration};

use braid_store::ObjectStore;
use braid_types::{ByteCount, Failure, FileOffset, ObjectOffset, Status, limits::FILE_BYTES_MAX};
use braid_wire::{
    Rights,
    message::iod::{Allocate, FlushReply},
};

use super::{BlockingWork, Clock, invalid};
use crate::{
    connection::ConnectionState,
    connections::ConnectionEntry,
    iod_core::IodCore,
    reservation::WriteCost,
    verified_capability::{LocalPart, VerifiedCapability},
};

pub(crate) fn begin<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    allocate: Allocate,
) -> Result<BlockingWork<S>, Failure> {
    let (capability, caller) = core.admission().admitted_capability(
        connection,
        now,
        allocate.handle,
        &allocate.present,
        Rights::WRITE,
    )?;
    let end = range_end(allocate.offset, allocate.bytes)?;
    Ok(BlockingWork::new("Allocate", move |core: &IodCore<S>, clock| {
        // As for a write, the verifier is from before: allocated space is not on disk before a
        // flush.
        let verifier = core.store().write_verifier();
        for local_part in &capability.local_parts {
            one(
                core,
                &capability,
                &caller,
                clock,
                local_part,
                allocate.offset.0,
                end,
                allocate.keep_size,
            )?;
        }
        Ok(FlushReply { verifier })
    }))
}

/// The end of a range of a file.
pub(super) fn range_end(offset: FileOffset, bytes: ByteCount) -> Result<u64, Failure> {
    let end = offset.checked_add(bytes.0).map(|end| end.0).filter(|end| *end <= FILE_BYTES_MAX);
    end.ok_or_else(|| {
        Failure::new(
            Status::TooLarge,
            format!("{bytes} bytes from {offset} exceed the largest file"),
        )
    })
}

#[allow(clippy::too_many_arguments)]
fn one<S: ObjectStore>(
    core: &IodCore<S>,
    capability: &VerifiedCapability,
    caller: &Arc<ConnectionEntry>,
    clock: Clock<'_>,
    local_part: &LocalPart,
    start: u64,
    end: u64,
    keep_size: bool,
) -> Result<(), Failure> {
    let part = local_part.object.part;
    let low = capability.map.object_bytes(start, part).map_err(invalid)?;
    let mut high = capability.map.object_bytes(end, part).map_err(invalid)?;
    let now = clock();
    let _guard = core.admission().begin_slice(capability, caller, now)?;
    if keep_size {
        // The store allocates within an object only: space behind its end would be lost with the
        // next truncate anyway.
        high = high.min(core.open(capability, local_part)?.map_or(0, |opened| opened.stat.size));
    }
    if low >= high {
        return Ok(());
    }
    let object = core.open_or_create(capability, local_part)?;
    let _charge = core.charge_space(WriteCost::of(low, high - low, true), now)?;
    core.logged(object.allocate(ObjectOffset(low), high - low, capability.size_generation))
}
