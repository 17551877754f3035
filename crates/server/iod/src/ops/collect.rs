//! Collect sizes, for the metadata server, while the mark "size is in the objects" stands (I5).

use braid_store::{ObjectStat, ObjectStore};
use braid_types::{Failure, ObjectId};
use braid_wire::message::iod::{CollectReply, CollectSizes};

use super::Work;
use crate::iod_core::IodCore;

pub(super) fn begin<S: ObjectStore>(collect_sizes: CollectSizes) -> Work<S> {
    Work::new("CollectSizes", move |core, _| collect(core, &collect_sizes))
}

/// Without a flush it waits for nothing, and may run where it was received.
pub(super) fn collect<S: ObjectStore>(core: &IodCore<S>, collect: &CollectSizes) -> Result<CollectReply, Failure> {
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
