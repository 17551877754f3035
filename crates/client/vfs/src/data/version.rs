//! Of which content the pages of a file are that a weak mount keeps without a lease.
//!
//! ```text
//!   open ── attributes ── those of the pages? ── yes ── kept
//!                                  └ no ── pages are dropped, and are of these attributes from now on
//! ```
//!
//! Writes do not pass the metadata server: what it says of a file is from its records and from times of the I/O daemons. Two
//! writes within one tick of a daemon's clock, or of two daemons whose clocks are not quite alike, show as one.
//!
//! Invariant: pages are kept only if no write can have come after they were read that the attributes do not show: under
//! the very promise of names that was held ever since (another's open for writing would have ended it), or when they were
//! read so long after the attributes were seen first that such a write was there before.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use braid_client::Attributes;
use braid_types::{ByteCount, SizeGeneration, Timestamp};

/// How long a write may hide behind one of before: the metadata server corrects the daemons' clocks to 50 ms each, and a
/// tick of theirs is at most 10 ms; the rest is to spare.
const MOMENT: Duration = Duration::from_millis(200);

/// What moves when a file's bytes change, and when its attributes do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Version {
    change: u64,
    generation: SizeGeneration,
    bytes: ByteCount,
    mtime: Timestamp,
}

impl From<&Attributes> for Version {
    fn from(seen: &Attributes) -> Self {
        let Attributes { change, size_generation: generation, bytes, mtime, .. } = *seen;
        Self { change, generation, bytes, mtime }
    }
}

/// What a file's pages are of.
#[derive(Debug)]
pub(super) struct Held<P> {
    version: Version,
    /// When the version was seen first.
    seen: Instant,
    /// When the oldest of the pages can have been read.
    since: Instant,
    /// Under which the attributes were kept then.
    promise: Option<Arc<P>>,
}

impl<P> Held<P> {
    /// Pages that are dropped at `now`, and read again.
    pub(super) fn from_now(
        before: Option<Self>,
        version: Version,
        promise: Option<&Arc<P>>,
        now: Instant,
    ) -> Self {
        let seen =
            before.filter(|before| before.version == version).map_or(now, |before| before.seen);
        Self { version, seen, since: now, promise: promise.cloned() }
    }

    /// Whether they are of the file as it is, which was seen just now, under this promise.
    pub(super) fn is_of(&self, version: &Version, promise: Option<&Arc<P>>) -> bool {
        let unbroken =
            matches!((&self.promise, promise), (Some(then), Some(now)) if Arc::ptr_eq(then, now));
        self.version == *version && (unbroken || self.since.duration_since(self.seen) >= MOMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(change: u64) -> Version {
        Version {
            change,
            generation: SizeGeneration::default(),
            bytes: ByteCount(1),
            mtime: Timestamp::default(),
        }
    }

    fn held(before: Option<Held<()>>, change: u64, now: Instant) -> Held<()> {
        Held::from_now(before, version(change), None, now)
    }

    #[test]
    fn pages_of_another_version_are_not_of_this_one() {
        let (promise, now) = (Arc::new(()), Instant::now());
        let pages = Held::from_now(None, version(1), Some(&promise), now);
        assert!(pages.is_of(&version(1), Some(&promise)));
        assert!(!pages.is_of(&version(2), Some(&promise)));
    }

    #[test]
    fn a_promise_that_was_given_anew_says_nothing_of_the_time_between() {
        let pages = Held::from_now(None, version(1), Some(&Arc::new(())), Instant::now());
        assert!(!pages.is_of(&version(1), Some(&Arc::new(()))));
        assert!(!pages.is_of(&version(1), None));
    }

    #[test]
    fn pages_that_were_read_a_moment_after_their_version_was_seen_are_kept_without_a_promise() {
        let now = Instant::now();
        let young = held(Some(held(None, 1, now)), 1, now + MOMENT - Duration::from_millis(1));
        assert!(
            !young.is_of(&version(1), None),
            "a write of the same tick may have come after them"
        );
        let old = held(Some(young), 1, now + MOMENT);
        assert!(old.is_of(&version(1), None));
        let other = held(Some(old), 2, now + 2 * MOMENT);
        assert!(!other.is_of(&version(2), None), "the moment begins with each version");
    }
}
