//! Truncate, from the metadata server: lengths of objects with a new size generation (I5).
//!
//! A repeated call is harmless: the store makes a change of one generation once. An object that is
//! lost, or whose record cannot be read, stays as it is and is reported as absent. None of its
//! bytes can be read or written before or after, and a file that lost a part can still be truncated
//! and emptied (I11).
//!
//! A part without an object has no record that could refuse an older generation. While the file has
//! writers, the metadata server sets `make_absent`, and each such part gets an empty object of the
//! new generation.

use braid_store::{ObjectStore, SizeChange, StoreError};
use braid_types::{Failure, Status};
use braid_wire::message::{
    iod::{ObjectLength, Truncate},
    types::ObjectInfo,
};

use super::{BlockingWork, collect_sizes::check_count};
use crate::{iod_core::IodCore, verified_capability::VerifiedCapability};

pub(crate) fn begin<S: ObjectStore>(
    core: &IodCore<S>,
    truncate: Truncate,
) -> Result<BlockingWork<S>, Failure> {
    check_count(truncate.objects.len())?;
    let capability = core.admission().mds_capability(&truncate.capability)?;
    for length in &truncate.objects {
        capability.local_part(length.object)?;
    }
    Ok(BlockingWork::new("Truncate", move |core, _| {
        truncate
            .objects
            .iter()
            .map(|length| one(core, &capability, length, &truncate))
            .collect::<Result<Vec<_>, _>>()
    }))
}

fn one<S: ObjectStore>(
    core: &IodCore<S>,
    capability: &VerifiedCapability,
    length: &ObjectLength,
    truncate: &Truncate,
) -> Result<ObjectInfo, Failure> {
    let ObjectLength { object: id, bytes } = length;
    let change = SizeChange::Truncate { length: bytes.0 };
    let recorded = capability.local_part(*id)?.recorded;
    match core.store().open(*id) {
        Ok(object) => core.logged(object.change_size(change, truncate.size_generation))?,
        Err(why) if why.is_no_object() && bytes.0 == 0 && (recorded || !truncate.make_absent) => {
            return Ok(core.object_info(id.part, None));
        }
        Err(why) if why.is_no_object() && !recorded => {
            let new = capability.new_object(*id);
            match core.logged(core.store().change_size(&new, change, truncate.size_generation)) {
                // A truncate frees space. Without space for an empty object, a writer of an older
                // generation has none either.
                Err(full) if full.status == Status::NoSpace && bytes.0 == 0 => {
                    return Ok(core.object_info(id.part, None));
                }
                made => made?,
            }
        }
        Err(why) if is_unusable(&why) => {
            tracing::warn!(iod = core.iod().0, "a truncate skips a lost object: {why}");
            return Ok(core.object_info(id.part, None));
        }
        Err(why) => return core.logged(Err(why)),
    }
    let stat = core.logged(core.store().open(*id).and_then(|object| object.stat()))?;
    if stat.size_generation > truncate.size_generation {
        let detail = format!("object {id} is of size generation {} already", stat.size_generation);
        return Err(Failure::new(Status::StaleGeneration, detail));
    }
    Ok(core.object_info(id.part, Some(&stat)))
}

/// Whether the object can never be read or written.
pub(super) fn is_unusable(why: &StoreError) -> bool {
    matches!(why.status(), Status::ObjectLost | Status::Corrupted)
}
