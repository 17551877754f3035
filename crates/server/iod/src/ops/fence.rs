//! Fence, from the metadata server: acknowledged when it holds (I4).
//!
//! Not on the worker threads: a fence must not wait behind somebody's flush.

use braid_store::ObjectStore;
use braid_types::Failure;
use braid_wire::message::iod::Fence;

use crate::iod_core::IodCore;

pub(crate) fn fence<S: ObjectStore>(core: &IodCore<S>, fence: &Fence) -> Result<(), Failure> {
    core.fence(fence);
    Ok(())
}
