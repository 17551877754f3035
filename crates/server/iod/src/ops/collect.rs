//! Collect sizes, for the metadata server, while the mark "size is in the objects" stands (I5).

use braid_store::{ObjectStat, ObjectStore};
use braid_types::{Failure, ObjectId, Status, limits::FRAME_BODY_BYTES_MAX};
use braid_wire::{
    Wire,
    message::{
        iod::{CollectReply, CollectSizes},
        types::ObjectInfo,
    },
};

use super::Work;
use crate::iod_core::IodCore;

/// Objects in one call: so many answers fit a frame's body.
pub const COLLECT_OBJECTS_MAX: usize = 16_384;

const _: () = assert!(COLLECT_OBJECTS_MAX * ObjectInfo::BYTES_MIN + 64 <= FRAME_BODY_BYTES_MAX);

/// Refuses a list whose answer would not fit.
pub(super) fn check_count(objects: usize) -> Result<(), Failure> {
    if objects <= COLLECT_OBJECTS_MAX {
        return Ok(());
    }
    Err(Failure::new(
        Status::LimitExceeded,
        format!("{objects} objects in one call, {COLLECT_OBJECTS_MAX} are the most"),
    ))
}

pub(super) fn begin<S: ObjectStore>(collect_sizes: CollectSizes) -> Work<S> {
    Work::new("CollectSizes", move |core, _| collect(core, &collect_sizes))
}

/// Without a flush it waits for nothing, and may run where it was received.
pub(super) fn collect<S: ObjectStore>(core: &IodCore<S>, collect: &CollectSizes) -> Result<CollectReply, Failure> {
    check_count(collect.objects.len())?;
    let mut objects = Vec::with_capacity(collect.objects.len());
    for id in &collect.objects {
        let stat = one(core, *id, collect.flush)?;
        objects.push(core.info(id.part, stat.as_ref()));
    }
    Ok(CollectReply { objects, verifier: core.store().write_verifier() })
}

fn one<S: ObjectStore>(core: &IodCore<S>, id: ObjectId, flush: bool) -> Result<Option<ObjectStat>, Failure> {
    let object = match core.store().open(id) {
        Err(why) if why.is_no_object() => return Ok(None),
        opened => core.warned(opened)?,
    };
    if flush {
        core.warned(object.flush())?;
    }
    core.warned(object.stat()).map(Some)
}
