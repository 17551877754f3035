//! Recorded sizes after a restart: uncertain until every client of before has reclaimed what it has
//! open. ADR 0008.
//!
//! ```text
//!   start, sessions on record ──> uncertain ──each has reclaimed or ended────────────> certain
//!                                     └───────grace period over, older epochs fenced─────^
//! ```
//!
//! A loss of power may have taken the size mark of a file that a client is still writing. So, while
//! records are uncertain:
//! 1. The I/O daemons are asked for the size of every file. A file whose objects disagree with its
//!    record is marked (I5).
//! 2. No mark ends: a client that has the file open for writing may not have reclaimed it yet.
//!
//! Until the grace period is over, a file that loses its last name or open is kept as an orphan,
//! for a reader that has not reclaimed it yet.

use std::sync::{Arc, atomic::Ordering};

use braid_meta::{Call as Change, Identity, Inode};
use braid_types::{Failure, Status};
use braid_wire::message::types::Attributes;

use crate::{convert, core::MdsCore, objects::CollectedSize};

impl MdsCore {
    /// Whether recorded sizes are uncertain.
    pub(crate) fn sizes_uncertain(&self) -> bool {
        self.in_doubt.load(Ordering::Acquire)
    }

    /// Makes recorded sizes certain when no client is waited for any more.
    pub(crate) fn end_uncertainty_if_reclaimed(&self) {
        if self.sizes_uncertain() && !self.state().sessions.awaits_reclaims() {
            self.end_uncertainty();
        }
    }

    /// Makes recorded sizes certain, and lets locks be granted.
    pub(crate) fn end_uncertainty(&self) {
        self.in_doubt.store(false, Ordering::Release);
        self.grant_locks();
    }

    /// The attributes of a file without a mark, by the answers of its daemons.
    pub(super) fn check_uncertain_record(
        self: &Arc<Self>,
        inode: &Inode,
        found: Result<CollectedSize, Failure>,
    ) -> Result<Attributes, Failure> {
        let found = match found {
            // A part went with a removed daemon: reads of it fail, and the record is as good as
            // before the restart.
            Ok(found) if found.is_part_lost => return Ok(convert::attributes(inode)),
            Ok(found) => found,
            // A daemon lost a part: as above (I11).
            Err(failure) if failure.status == Status::ObjectLost => {
                return Ok(convert::attributes(inode));
            }
            Err(failure) => return Err(failure),
        };
        if found.fetch.size == inode.size
            && found.fetch.parts.iter().all(|part| inode.parts.contains(part))
        {
            return Ok(convert::attributes(inode));
        }
        let who = Identity::root();
        let change = Change { who: &who, now: self.env.clock.wall(), replay: None };
        self.namespace.set_size_mark(&change, inode.file, found.fetch.generation)?;
        let mut state = self.state();
        state.sizes.collector.enqueue(inode.file);
        Ok(state.sizes.attributes_from_objects(inode, &found))
    }
}
