//! Objects that were deleted: no capability creates them again.
//!
//! A client that keeps a capability or a data server handle of a file after its close may write
//! when the file is removed. Where the object was never recorded, that write would create it again,
//! and nothing would ever delete it. File indexes and generations are never used twice, so a
//! deleted object is never wanted.
//!
//! The last 32,768 deletions since the start are known. A write that runs while its object is
//! deleted may still create it: the metadata server deletes each object a second time, seconds
//! later (`mds/src/deletion.rs`). What a client writes after more deletions, or after a restart of
//! the daemon, stays until `braid fsck --mend`.

use std::{
    collections::{HashSet, VecDeque},
    sync::Mutex,
};

use braid_types::ObjectId;

/// Objects that are known to be deleted (I9): about 2 MiB.
const DELETED_OBJECTS_MAX: usize = 32_768;

/// The objects that were deleted last.
#[derive(Debug, Default)]
pub(crate) struct DeletedObjects(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    objects: HashSet<ObjectId>,
    /// Oldest first.
    order: VecDeque<ObjectId>,
}

impl DeletedObjects {
    /// These are being deleted.
    pub(crate) fn note(&self, objects: &[ObjectId]) {
        let mut known = self.0.lock().unwrap_or_else(braid_types::poisoned);
        for object in objects {
            if !known.objects.insert(*object) {
                continue;
            }
            known.order.push_back(*object);
            if known.order.len() > DELETED_OBJECTS_MAX
                && let Some(oldest) = known.order.pop_front()
            {
                known.objects.remove(&oldest);
            }
        }
    }

    /// Whether this one was deleted.
    pub(crate) fn contains(&self, object: ObjectId) -> bool {
        self.0.lock().unwrap_or_else(braid_types::poisoned).objects.contains(&object)
    }
}

#[cfg(test)]
mod tests {
    use braid_types::{FileIndex, ObjectGeneration, PartIndex};

    use super::*;

    fn object(file: u64) -> ObjectId {
        let (part, generation) = (PartIndex(0), ObjectGeneration(1));
        ObjectId { file: FileIndex(file), part, generation }
    }

    #[test]
    fn the_last_deletions_are_known_and_their_memory_is_bounded() {
        let deleted = DeletedObjects::default();
        let last = DELETED_OBJECTS_MAX as u64;
        for file in 0..=last {
            // Deleted twice, as the metadata server does.
            deleted.note(&[object(file), object(file)]);
        }
        assert!(deleted.contains(object(1)) && deleted.contains(object(last)));
        assert!(!deleted.contains(object(0)), "the oldest one is forgotten");
        let known = deleted.0.lock().unwrap();
        assert_eq!((known.objects.len(), known.order.len()), (DELETED_OBJECTS_MAX, 32_768));
    }
}
