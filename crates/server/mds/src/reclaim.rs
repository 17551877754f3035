//! The records of sizes after a restart: in doubt until every client of before has told what it has open. ADR 0008.
//!
//! ```text
//!   start, sessions on record ──> in doubt ──each has reclaimed or ended──────────────> as ever
//!                                     └─────grace period over, older epochs fenced────────^
//! ```
//!
//! A loss of power may have taken the mark of a file that a client goes on writing. So while in doubt: (1) the I/O
//! daemons are asked for the size of every file, and one whose objects disagree with its record is marked (I5);
//! (2) no mark ends: who has a file open for writing may not have said so yet. Until the grace period is over a file whose
//! last name or open goes is kept as an orphan, for a reader that has not said so yet.

use std::sync::{Arc, atomic::Ordering};

use braid_meta::{Call as Change, Identity, Inode};
use braid_types::{Failure, Status};
use braid_wire::message::types::Attributes;

use crate::{convert, core::MdsCore, objects::Found};

impl MdsCore {
    /// Whether recorded sizes are in doubt.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Acquire)
    }

    /// Ends the doubt when nobody is awaited any more.
    pub(crate) fn look_at_doubt(&self) {
        if self.is_in_doubt() && !self.state().sessions.awaits_reclaims() {
            self.end_doubt();
        }
    }

    pub(crate) fn end_doubt(&self) {
        self.in_doubt.store(false, Ordering::Release);
        self.grant_locks();
    }

    /// The attributes of a file without the mark whose daemons were asked all the same.
    pub(crate) fn resolve_doubt(
        self: &Arc<Self>,
        inode: &Inode,
        found: Result<Found, Failure>,
    ) -> Result<Attributes, Failure> {
        let found = match found {
            // The same of one whose daemon was removed.
            Ok(found) if found.lost => return Ok(convert::attributes(inode)),
            Ok(found) => found,
            // A part that its daemon lost: who reads it is told (I11); the record is as good as without a restart.
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
        self.names.mark_size(&change, inode.file, found.fetch.generation)?;
        let mut state = self.state();
        state.collector.add(inode.file);
        Ok(state.merged(inode, &found))
    }
}
