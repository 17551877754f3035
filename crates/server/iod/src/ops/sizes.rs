//! Object sizes: the lengths of the file's local objects.

use std::time::Duration;

use braid_store::ObjectStore;
use braid_types::Failure;
use braid_wire::{
    Rights,
    message::{iod::ObjectSizes, types::ObjectInfo},
};

use crate::{connection::ConnectionState, iod_core::IodCore};

/// No right is required: `fstat` and `lseek` also work on a file that is open for writing only.
pub(super) const ANY: Rights = Rights(0);

pub(crate) fn object_sizes<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    sizes: &ObjectSizes,
) -> Result<Vec<ObjectInfo>, Failure> {
    let (grant, _) =
        core.admission().admitted_capability(connection, now, sizes.handle, &sizes.present, ANY)?;
    let info = |place| {
        core.open(&grant, place)
            .map(|opened| core.info(place.object.part, opened.as_ref().map(|opened| &opened.stat)))
    };
    grant.places.iter().map(info).collect()
}
