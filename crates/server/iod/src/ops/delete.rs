//! Delete, from the metadata server. It repeats the call until it is answered, so an absent object
//! is no error.

use braid_store::ObjectStore;
use braid_wire::message::iod::Delete;

use super::{BlockingWork, Clock};
use crate::iod_core::IodCore;

pub(crate) fn begin<S: ObjectStore>(delete: Delete) -> BlockingWork<S> {
    let durable = delete.durable;
    let run = move |core: &IodCore<S>, _: Clock<'_>| {
        // First: a write that comes now must not create the object again.
        core.deleted_objects().note(&delete.objects);
        for object in &delete.objects {
            core.logged(core.store().delete(*object))?;
        }
        if delete.durable { core.logged(core.store().flush_names(&delete.objects)) } else { Ok(()) }
    };
    if durable {
        BlockingWork::long_running("Delete", run)
    } else {
        BlockingWork::new("Delete", run)
    }
}
