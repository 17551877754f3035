//! Collect sizes, for the metadata server, while a file has its size mark (I5).

use braid_store::{ObjectStat, ObjectStore};
use braid_types::{Failure, ObjectId, Status, WriteVerifier, limits::FRAME_BODY_BYTES_MAX};
use braid_wire::{
    Wire,
    message::{
        iod::{CollectReply, CollectSizes},
        types::ObjectInfo,
    },
};

use super::BlockingWork;
use crate::iod_core::IodCore;

/// Objects in one call, so that the reply fits a frame's body.
pub const COLLECT_OBJECTS_MAX: usize = 16_384;

const _: () = assert!(COLLECT_OBJECTS_MAX * ObjectInfo::BYTES_MIN + 64 <= FRAME_BODY_BYTES_MAX);

/// Refuses a list whose reply would not fit.
pub(super) fn check_count(objects: usize) -> Result<(), Failure> {
    if objects <= COLLECT_OBJECTS_MAX {
        return Ok(());
    }
    Err(Failure::new(
        Status::LimitExceeded,
        format!("{objects} objects in one call, at most {COLLECT_OBJECTS_MAX} are allowed"),
    ))
}

pub(crate) fn begin<S: ObjectStore>(collect: CollectSizes) -> BlockingWork<S> {
    BlockingWork::new("CollectSizes", move |core, _| collect_sizes(core, &collect))
}

/// Without a flush it does not block, and may run on the thread that received it.
///
/// With one, every reported object was on disk before the report. The objects are looked at first
/// and flushed then, so that an object which is created or grows in between is not reported.
pub(crate) fn collect_sizes<S: ObjectStore>(
    core: &IodCore<S>,
    collect: &CollectSizes,
) -> Result<CollectReply, Failure> {
    check_count(collect.objects.len())?;
    let verifier = core.store().write_verifier();
    let (mut objects, mut there) = (Vec::with_capacity(collect.objects.len()), Vec::new());
    for id in &collect.objects {
        let stat = one(core, *id)?;
        there.extend(stat.map(|stat| (*id, stat)));
        objects.push(core.object_info(id.part, stat.as_ref()));
    }
    if collect.flush {
        flush(core, &there, verifier)?;
    }
    Ok(CollectReply { objects, verifier })
}

fn one<S: ObjectStore>(core: &IodCore<S>, id: ObjectId) -> Result<Option<ObjectStat>, Failure> {
    match core.store().open(id) {
        Err(why) if why.is_no_object() => Ok(None),
        opened => core.logged(opened.and_then(|object| object.stat())).map(Some),
    }
}

/// The system reports a failed write-back only once, and perhaps to another flush: then the
/// verifier has changed.
fn flush<S: ObjectStore>(
    core: &IodCore<S>,
    objects: &[(ObjectId, ObjectStat)],
    before: WriteVerifier,
) -> Result<(), Failure> {
    let ids: Vec<ObjectId> = objects.iter().map(|(id, _)| *id).collect();
    let after = core.logged(core.store().flush_objects(&ids))?;
    if after == before {
        core.store().remember_lengths(objects);
        return Ok(());
    }
    Err(Failure::new(
        Status::DiskError,
        "a write to the disk failed while sizes were collected; try: again",
    ))
}
