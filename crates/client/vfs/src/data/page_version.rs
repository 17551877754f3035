//! The version of a file whose pages a relaxed mount caches without a lease.
//!
//! ```text
//!   open ── attributes ── same version as the pages? ── yes ── pages stay
//!                                  └ no ── pages are dropped, and have this version from now on
//! ```
//!
//! Writes do not pass the metadata server. It knows of them from its records and from times of the
//! I/O daemons. Two writes within one tick of a daemon's clock, or of two daemons whose clocks
//! differ a little, look like one.
//!
//! Invariant: pages stay only if the attributes show every write that came after the pages were
//! read. That is so under the same names lease, held ever since: another client's open for writing
//! would have ended it. It is also so if the pages were read so long after the version was first
//! seen that an invisible write must be older than they are.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use braid_client::Attributes;
use braid_types::{ByteCount, SizeGeneration, Timestamp};

/// How long a write may look like an earlier one. The metadata server corrects the daemons' clocks
/// to 50 ms each, and a tick is at most 10 ms; the rest is margin.
const MOMENT: Duration = Duration::from_millis(200);

/// Attributes that change with the file's bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PageVersion {
    change: u64,
    generation: SizeGeneration,
    bytes: ByteCount,
    mtime: Timestamp,
}

impl From<&Attributes> for PageVersion {
    fn from(seen: &Attributes) -> Self {
        let Attributes { change, size_generation: generation, bytes, mtime, .. } = *seen;
        Self { change, generation, bytes, mtime }
    }
}

/// The version of a file's cached pages.
#[derive(Debug)]
pub(super) struct CachedPages<P> {
    version: PageVersion,
    /// When the version was first seen.
    seen: Instant,
    /// The earliest time at which a cached page was read.
    since: Instant,
    /// The names lease under which the attributes were cached then.
    lease: Option<Arc<P>>,
}

impl<P> CachedPages<P> {
    /// For pages that are dropped at `now` and read again.
    pub(super) fn read_from(
        before: Option<Self>,
        version: PageVersion,
        lease: Option<&Arc<P>>,
        now: Instant,
    ) -> Self {
        let seen =
            before.filter(|before| before.version == version).map_or(now, |before| before.seen);
        Self { version, seen, since: now, lease: lease.cloned() }
    }

    /// Whether the pages are current. `version`: the file's, seen just now under this lease.
    pub(super) fn is_current(&self, version: &PageVersion, lease: Option<&Arc<P>>) -> bool {
        let unbroken =
            matches!((&self.lease, lease), (Some(then), Some(now)) if Arc::ptr_eq(then, now));
        self.version == *version && (unbroken || self.since.duration_since(self.seen) >= MOMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(change: u64) -> PageVersion {
        PageVersion {
            change,
            generation: SizeGeneration::default(),
            bytes: ByteCount(1),
            mtime: Timestamp::default(),
        }
    }

    fn held(before: Option<CachedPages<()>>, change: u64, now: Instant) -> CachedPages<()> {
        CachedPages::read_from(before, version(change), None, now)
    }

    #[test]
    fn pages_of_another_version_are_not_current() {
        let (lease, now) = (Arc::new(()), Instant::now());
        let pages = CachedPages::read_from(None, version(1), Some(&lease), now);
        assert!(pages.is_current(&version(1), Some(&lease)));
        assert!(!pages.is_current(&version(2), Some(&lease)));
    }

    #[test]
    fn a_lease_granted_again_does_not_cover_the_time_between() {
        let pages = CachedPages::read_from(None, version(1), Some(&Arc::new(())), Instant::now());
        assert!(!pages.is_current(&version(1), Some(&Arc::new(()))));
        assert!(!pages.is_current(&version(1), None));
    }

    #[test]
    fn pages_read_long_enough_after_their_version_need_no_lease() {
        let now = Instant::now();
        let young = held(Some(held(None, 1, now)), 1, now + MOMENT - Duration::from_millis(1));
        assert!(
            !young.is_current(&version(1), None),
            "a write of the same tick may have come after them"
        );
        let old = held(Some(young), 1, now + MOMENT);
        assert!(old.is_current(&version(1), None));
        let other = held(Some(old), 2, now + 2 * MOMENT);
        assert!(!other.is_current(&version(2), None), "the moment begins with each version");
    }
}
