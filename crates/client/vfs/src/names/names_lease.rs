//! Names leases: asked for where they are of use, valid until they are recalled or given back.
//!
//! ```text
//!   question:  lease ── call ── reply ── cached, if the lease is valid ── reply_cacheable ─┐
//!                                                      gateway writes, under a shared lock ┘
//!   recall:    lease invalid ── directory taken out of the cache ── exclusive lock, a moment ─┐
//!                                                      gateway drops names ── lease returned ─┘
//! ```
//!
//! Invariants:
//! 1. What a gateway may cache was put into the name cache first, so that its recall finds it.
//! 2. A reply that allows it is written before the gateway must drop its names: the check that
//!    the lease is valid takes, shared, the lock that the recall takes exclusively.
//! 3. Recalls run on threads that serve no gateway.
//! 4. From before the gateway drops the names of an evicted directory until its lease is given
//!    back, nothing of the directory is cached: `lease_return`.
//!
//! No assertion checks these: the lock for 1 and 2 is in `Vfs::reply_cacheable`, and threads do not
//! record whom they serve (3). `NameCache::begin_directory` refuses what 4 excludes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use braid_client::{
    FileIndex,
    lease::{LeaseOf, LeaseTicket},
};

use crate::mount_caches::MountCaches;

/// A names lease, from its grant to its end. The next lease of the directory is another one.
#[derive(Debug)]
pub(crate) struct NamesLease {
    directory: FileIndex,
    ticket: LeaseTicket,
    /// This mount caches the directory no longer, and is about to give the lease back.
    ended: AtomicBool,
}

impl NamesLease {
    pub(crate) fn directory(&self) -> FileIndex {
        self.directory
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// The same for another directory.
    #[cfg(test)]
    pub(crate) fn of(&self, directory: FileIndex) -> Arc<Self> {
        Arc::new(Self { directory, ticket: self.ticket, ended: AtomicBool::new(false) })
    }
}

impl MountCaches {
    /// Whether a names lease is valid.
    pub(crate) fn is_valid(&self, lease: &NamesLease) -> bool {
        !lease.ended.load(Ordering::Acquire) && self.leases().is_valid(&lease.ticket)
    }

    /// The names lease of a directory. Asks for one where none is held and it is worth asking.
    pub(crate) fn names_lease(&self, directory: FileIndex) -> Option<Arc<NamesLease>> {
        if !self.is_serving() {
            return None;
        }
        if let Some(lease) = self.held_names_lease(directory) {
            return Some(lease);
        }
        if !self.names.should_ask_for_lease(directory) {
            return None;
        }
        let mark = self.names.mark();
        // A lease is never needed: if the call fails, a later one asks again.
        let (ticket, own) = self.leases().ask_names_with_attributes(directory).ok()??;
        let lease = self.begin_caching(directory, ticket)?;
        self.names.cache_attributes(&lease, mark, &own, |lease| self.is_valid(lease));
        Some(lease)
    }

    /// The names lease of a directory, if one is held.
    pub(crate) fn held_names_lease(&self, directory: FileIndex) -> Option<Arc<NamesLease>> {
        if let Some(lease) = self.names.lease_of(directory).filter(|lease| self.is_valid(lease)) {
            return Some(lease);
        }
        self.begin_caching(directory, self.leases().names_ticket(directory)?)
    }

    fn begin_caching(&self, directory: FileIndex, ticket: LeaseTicket) -> Option<Arc<NamesLease>> {
        let lease = Arc::new(NamesLease { directory, ticket, ended: AtomicBool::new(false) });
        let lease = self.names.begin_directory(directory, lease, |lease| self.is_valid(lease))?;
        self.evict(directory);
        Some(lease)
    }

    /// Evicts the oldest directories where too many names are cached.
    fn evict(&self, wanted: FileIndex) {
        for (directory, lease) in self.names.directories_to_evict(wanted) {
            let Some(_returning) = self.names.begin_return(&lease) else { continue };
            self.forget_directory(directory);
            // A lease that is returned before its lazy opens are sent would not protect them.
            if self.lazy_opens.open(directory).is_err() {
                continue;
            }
            // If this call fails, the server recalls the lease when it needs it.
            let _ = self.leases().return_lease(LeaseOf::Names(directory));
        }
    }

    /// A change of an entry of this directory was given up, and the server may still make it. Such
    /// a change recalls nothing from this mount.
    pub(crate) fn mark_uncertain(&self, directory: FileIndex) {
        self.names.mark_uncertain(directory);
        // No gateway caches what was put into the cache before.
        if let Some(lease) = self.names.lease_of(directory) {
            lease.end();
        }
        self.forget_directory(directory);
    }
}

#[cfg(test)]
mod tests;
