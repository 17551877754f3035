//! Of which directories the kernel has the attributes of all files, so that a listing need not
//! bring them again. A wrong guess costs a lookup for each file, never a wrong answer.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use braid_union::{ListingId, NodeId};

use super::{attribute_demand::Demand, validity::LONG};

#[derive(Debug, Default)]
pub(super) struct KnownAttributes {
    directories: Mutex<HashMap<NodeId, Known>>,
}

#[derive(Debug)]
struct Known {
    listing: ListingId,
    /// `Names`: only those of the subdirectories.
    given: Demand,
    since: Instant,
}

impl KnownAttributes {
    fn directories(&self) -> MutexGuard<'_, HashMap<NodeId, Known>> {
        // What a panic left here costs time at most.
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel was given all that a program with this demand needs, valid for long.
    pub(super) fn given(&self, directory: NodeId, listing: ListingId, given: Demand) {
        let known = Known { listing, given, since: Instant::now() };
        self.directories().insert(directory, known);
    }

    /// Whether it still has that.
    pub(super) fn suffice(&self, directory: NodeId, listing: ListingId, demand: Demand) -> bool {
        let directories = self.directories();
        directories.get(&directory).is_some_and(|known| {
            known.listing == listing
                && known.since.elapsed() < LONG
                && (demand == known.given || known.given == Demand::Attributes)
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.directories().is_empty()
    }

    /// The kernel has dropped a file or directory that these directories have, or one of
    /// themselves.
    pub(super) fn forget(&self, directories: impl Iterator<Item = NodeId>) {
        let mut known = self.directories();
        directories.for_each(|directory| _ = known.remove(&directory));
    }
}
