//! Room on the disk.

use braid_store::ObjectStore;
use braid_types::{ByteCount, Failure};
use braid_wire::message::types::Space;

pub(crate) fn space<S: ObjectStore>(store: &S) -> Result<Space, Failure> {
    let space = store.space()?;
    let device = u128::from_le_bytes(space.device.0);
    Ok(Space {
        // 64 bits travel; folding keeps devices apart whichever half of the name differs.
        device: (device >> 64) as u64 ^ device as u64,
        total: ByteCount(space.total_bytes),
        available: ByteCount(space.available_bytes),
        files_free: space.free_objects,
    })
}
