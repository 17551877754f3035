//! Free space of the disk, without what is reserved for buffered writes.

use braid_store::ObjectStore;
use braid_types::Failure;
use braid_wire::message::types::Space;

use crate::iod_core::IodCore;

pub(crate) fn space<S: ObjectStore>(core: &IodCore<S>) -> Result<Space, Failure> {
    core.space()
}
