//! Punch, from the metadata server: a range of the file reads as zeros, with a new size generation
//! (I5).
//!
//! A contiguous range of a file is one contiguous range of each object (`braid_layout`: objects
//! have no gaps). So this needs no unfolding, only one change for each part. Objects outside the
//! range get the new generation too, so that a writer of an older one is refused at every object of
//! the file. A part without an object has nothing to punch; a first write of an older generation
//! there counts as one after the hole. A range of no bytes sets only the new generation: so the
//! metadata server ends a change that a daemon refused.

use braid_store::{ObjectStore, SizeChange};
use braid_types::{Failure, ObjectOffset};
use braid_wire::message::iod::Punch;

use super::{BlockingWork, allocate::range_end, invalid, truncate::is_unusable};
use crate::{
    iod_core::IodCore,
    verified_capability::{LocalPart, VerifiedCapability},
};

pub(crate) fn begin<S: ObjectStore>(
    core: &IodCore<S>,
    punch: Punch,
) -> Result<BlockingWork<S>, Failure> {
    let capability = core.admission().mds_capability(&punch.capability)?;
    let end = range_end(punch.offset, punch.bytes)?;
    Ok(BlockingWork::new("Punch", move |core, _| {
        capability
            .local_parts
            .iter()
            .try_for_each(|local_part| one(core, &capability, local_part, &punch, end))
    }))
}

fn one<S: ObjectStore>(
    core: &IodCore<S>,
    capability: &VerifiedCapability,
    local_part: &LocalPart,
    punch: &Punch,
    end: u64,
) -> Result<(), Failure> {
    let object = match core.store().open(local_part.object) {
        Err(why) if why.is_no_object() && !local_part.recorded => return Ok(()),
        // There is no hole, only the new generation, which is not needed where nobody can write.
        Err(why) if punch.bytes.0 == 0 && is_unusable(&why) => return Ok(()),
        opened => core.logged(opened)?,
    };
    let part = local_part.object.part;
    let low = capability.map.object_bytes(punch.offset.0, part).map_err(invalid)?;
    let high = capability.map.object_bytes(end, part).map_err(invalid)?;
    let change = SizeChange::Punch { offset: ObjectOffset(low), length: high - low };
    core.logged(object.change_size(change, punch.size_generation))
}
