//! Room on the disk, without what is kept for sessions that gather.

use braid_store::ObjectStore;
use braid_types::{ByteCount, Failure};
use braid_wire::message::types::Space;

use crate::iod_core::IodCore;

pub(crate) fn space<S: ObjectStore>(core: &IodCore<S>) -> Result<Space, Failure> {
    let space = core.store().space()?;
    let device = u128::from_le_bytes(space.device.0);
    Ok(Space {
        // 64 bits travel; folding keeps devices apart whichever half of the name differs.
        device: (device >> 64) as u64 ^ device as u64,
        total: ByteCount(space.total_bytes),
        free: ByteCount(space.free_bytes.saturating_sub(core.room().kept())),
        available: ByteCount(space.available_bytes.saturating_sub(core.room().kept())),
        files_free: space.free_objects,
    })
}
