//! Directory listings in the name cache.

use std::sync::Arc;

use braid_client::{FileIndex, message::mds::ReadDirectoryReply};

use super::{
    change_marks::ChangeMark,
    name_cache::{FILES_MAX, NameCache},
    names_lease::NamesLease,
};
use crate::mutex::lock;

impl NameCache {
    /// Whether a listing of the directory is worth its files' attributes: not all of them are
    /// cached, and there is space for more.
    pub(crate) fn wants_listed_attributes(
        &self,
        directory: FileIndex,
        is_valid: impl Fn(&NamesLease) -> bool,
    ) -> bool {
        let cached = lock(&self.0);
        cached.names < FILES_MAX / 2
            && cached
                .valid(directory, is_valid)
                .is_some_and(|found| !cached.is_complete(directory, found))
    }

    /// At most `count` entries of a directory after a cookie, as the server would return them.
    /// `None`: they are not cached, or asking the server brings attributes that are worth caching.
    pub(crate) fn listing(
        &self,
        directory: FileIndex,
        (cookie, count): (u64, usize),
        is_valid: impl Fn(&NamesLease) -> bool,
    ) -> Option<ReadDirectoryReply> {
        let cached = lock(&self.0);
        let found = cached.valid(directory, is_valid)?;
        let gains = cached.names < FILES_MAX / 2 && !cached.is_complete(directory, found);
        if gains || cached.pending.is_changing(directory) {
            return None;
        }
        let (entries, end) = found.listing.after(cookie, count)?;
        Some(ReadDirectoryReply { entries, end, last_cookie: found.listing.last() })
    }

    /// Caches what the server listed after a cookie.
    pub(crate) fn cache_listing(
        &self,
        lease: &Arc<NamesLease>,
        mark: ChangeMark,
        cookie: u64,
        reply: &ReadDirectoryReply,
        is_valid: impl Fn(&NamesLease) -> bool,
    ) {
        let mut cached = lock(&self.0);
        let directory = lease.directory();
        let fresh = is_valid(lease)
            && cached.marks.is_unchanged(directory, mark)
            && !cached.pending.is_changing(directory);
        if fresh && cached.listed + reply.entries.len() <= FILES_MAX {
            let more = cached.under(lease).map_or(0, |found| {
                found.listing.extend(cookie, &reply.entries, (reply.end, reply.last_cookie))
            });
            cached.listed += more;
        }
    }
}
