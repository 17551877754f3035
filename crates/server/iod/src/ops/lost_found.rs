//! Move to lost+found, for fsck: nothing is deleted.

use braid_store::ObjectStore;
use braid_wire::message::iod::MoveToLost;

use super::BlockingWork;
use crate::iod_core::IodCore;

pub(crate) fn begin<S: ObjectStore>(lost: MoveToLost) -> BlockingWork<S> {
    BlockingWork::new("MoveToLost", move |core: &IodCore<S>, _| {
        let path = core.logged(core.store().move_to_lost_and_found(lost.object))?;
        tracing::info!(object = %lost.object, path, "moved to lost+found");
        Ok(())
    })
}
