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
    let (capability, _) =
        core.admission().admitted_capability(connection, now, sizes.handle, &sizes.present, ANY)?;
    let info = |local_part| {
        core.open(&capability, local_part).map(|opened| {
            core.object_info(local_part.object.part, opened.as_ref().map(|opened| &opened.stat))
        })
    };
    capability.local_parts.iter().map(info).collect()
}
