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

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use braid_client::{
    FileIndex,
    lease::{LeaseOf, LeaseTicket},
};

use crate::mount_caches::Holder;

/// A names lease, from its grant to its end. The next lease of the directory is another one.
#[derive(Debug)]
pub(crate) struct Promise {
    directory: FileIndex,
    ticket: LeaseTicket,
    /// This mount caches the directory no longer, and is about to give the lease back.
    ended: AtomicBool,
}

impl Promise {
    pub(crate) fn directory(&self) -> FileIndex {
        self.directory
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// The same for another directory.
    #[cfg(test)]
    pub(crate) fn of(&self, directory: FileIndex) -> Arc<Self> {
        Arc::new(Self { directory, ticket: self.ticket, ended: AtomicBool::new(false) })
    }
}

impl Holder {
    /// Whether a names lease is valid.
    pub(crate) fn holds(&self, lease: &Promise) -> bool {
        !lease.ended.load(Ordering::Acquire) && self.leases().is_valid(&lease.ticket)
    }

    /// The names lease of a directory. Asks for one where none is held and it is worth asking.
    pub(crate) fn promise(&self, directory: FileIndex) -> Option<Arc<Promise>> {
        if !self.is_serving() {
            return None;
        }
        if let Some(lease) = self.held_promise(directory) {
            return Some(lease);
        }
        if !self.cache.is_worth_asking(directory) {
            return None;
        }
        let mark = self.cache.mark();
        // A lease is never needed: if the call fails, a later one asks again.
        let (ticket, own) = self.leases().ask_names_with_attributes(directory).ok()??;
        let lease = self.begin_caching(directory, ticket);
        self.cache.keep_attributes(&lease, mark, &own, |lease| self.holds(lease));
        Some(lease)
    }

    /// The names lease of a directory, if one is held.
    pub(crate) fn held_promise(&self, directory: FileIndex) -> Option<Arc<Promise>> {
        if let Some(lease) = self.cache.promise(directory).filter(|lease| self.holds(lease)) {
            return Some(lease);
        }
        Some(self.begin_caching(directory, self.leases().names_ticket(directory)?))
    }

    fn begin_caching(&self, directory: FileIndex, ticket: LeaseTicket) -> Arc<Promise> {
        let lease = Arc::new(Promise { directory, ticket, ended: AtomicBool::new(false) });
        let lease = self.cache.begin(directory, lease, |lease| self.holds(lease));
        self.evict(directory);
        lease
    }

    /// Evicts the oldest directories where too many names are cached.
    fn evict(&self, wanted: FileIndex) {
        for (directory, lease) in self.cache.too_many(wanted) {
            lease.end();
            self.forget(directory);
            // A lease that is returned before its lazy opens are sent would not protect them.
            if self.late.open(directory).is_err() {
                continue;
            }
            // If this call fails, the server recalls the lease when it needs it.
            let _ = self.leases().return_lease(LeaseOf::Names(directory));
        }
    }

    /// A change of an entry of this directory was given up, and the server may still make it. Such
    /// a change recalls nothing from this mount.
    pub(crate) fn doubt(&self, directory: FileIndex) {
        self.cache.doubt(directory);
        // No gateway caches what was put into the cache before.
        if let Some(lease) = self.cache.promise(directory) {
            lease.end();
        }
        self.forget(directory);
    }
}
