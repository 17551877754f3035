//! Names leases that this mount gives back, without a recall.
//!
//! A gateway drops a directory's names before the lease is given back. Until it is given back, a
//! thread that looks up a name still finds it held. What such a thread caches would stay in the
//! gateway, and no recall would come.

use std::sync::Arc;

use braid_client::FileIndex;

use super::{name_cache::NameCache, names_lease::NamesLease};
use crate::mutex::lock;

/// Nothing of this directory is cached until this is dropped.
#[derive(Debug)]
pub(super) struct LeaseReturn<'a> {
    cache: &'a NameCache,
    directory: FileIndex,
}

impl NameCache {
    /// Ends the lease that a directory is cached under, before it is given back. `None`: the
    /// directory is cached under another lease, or another thread gives it back.
    pub(super) fn begin_return(&self, lease: &Arc<NamesLease>) -> Option<LeaseReturn<'_>> {
        let directory = lease.directory();
        let cached = &mut *lock(&self.0);
        let is_current = cached
            .directories
            .get(&directory)
            .is_some_and(|found| Arc::ptr_eq(&found.lease, lease));
        if !is_current || !cached.returning.insert(directory) {
            return None;
        }
        lease.end();
        Some(LeaseReturn { cache: self, directory })
    }
}

impl Drop for LeaseReturn<'_> {
    fn drop(&mut self) {
        lock(&self.cache.0).returning.remove(&self.directory);
    }
}
