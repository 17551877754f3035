//! Reclaim of the files that a session had open before a restart (I5, I6). ADR 0008.
//!
//! ```text
//!   OpenSession(known) ──> Reclaim(some) ... Reclaim(rest, complete) ──> every other call
//!                            reclaimed: handle, open record, mark  | what was not named is closed
//! ```
//!
//! The client is trusted about what was open, but not about permissions: these are checked again,
//! by mode or ownership.
//!
//! Invariants:
//! 1. A handle is counted once, however often it is named.
//! 2. Nothing is reclaimed and nothing closed once the session has completed its reclaim: a late
//!    message from a connection that was given up changes nothing.
//!
//! `ClientSession::insert` asserts 1. `ClientSession::reclaim` and `close_unreclaimed` look at
//! `reclaiming` before they change anything (2).

use braid_meta::{Call as Change, Identity, Want};
use braid_types::{Failure, SessionId, Status, limits::RECLAIM_OPENS_MAX};
use braid_wire::{
    Rights,
    message::mds::{Reclaim, ReclaimedOpen},
};

use super::open::{ended, session_of};
use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
    session::OpenFile,
};

impl MdsCore {
    pub(super) fn reclaim(&self, call: Call, r: &Reclaim) -> CallOutcome {
        let refused = session_of(&call).and_then(|session| {
            if r.opens.len() > RECLAIM_OPENS_MAX {
                let why = format!("at most {RECLAIM_OPENS_MAX} open files in one message");
                return Err(Failure::new(Status::LimitExceeded, why));
            }
            let mut refused = Vec::new();
            for named in &r.opens {
                if !self.reclaim_open(&call, session, named)? {
                    refused.push(named.open_id);
                }
            }
            if r.complete {
                self.close_unreclaimed(session)?;
                self.end_uncertainty_if_reclaimed();
                self.end_reclaim_of_leases(session, r);
            }
            Ok(refused)
        });
        CallOutcome::from(call, refused)
    }

    /// While the session may hold leases of before the restart, others are granted none that
    /// conflict. Before that ends, its opens count as what they are.
    fn end_reclaim_of_leases(&self, session: SessionId, r: &Reclaim) {
        self.set_io_under_leases(session, r.io_under_leases);
        if !r.leases {
            self.drop_old_leases(session);
        }
    }

    /// Reclaims an open file. False when the client may not have it any more, an error when that is
    /// not known.
    fn reclaim_open(
        &self,
        call: &Call,
        session: SessionId,
        named: &ReclaimedOpen,
    ) -> Result<bool, Failure> {
        let open = OpenFile { file: named.file, rights: named.rights, deny: named.deny };
        let taken = self.check_right(call, open).and_then(|()| {
            let mut state = self.state();
            if open.rights.allow(Rights::WRITE) {
                state.sizes.opened_for_writing(open.file);
            }
            let live = state.sessions.live.get_mut(session).ok_or_else(|| ended(session))?;
            Ok(live.reclaim(named.open_id, open))
        });
        let counted = match taken {
            Ok(true) => self.ensure_counted(session, open, named.open_id).map(|()| true),
            taken => taken,
        };
        match counted {
            Err(failure) if is_refusal(failure.status) => {
                tracing::info!(
                    %session, file = %open.file, %failure,
                    "an open file is not reclaimed"
                );
                Ok(false)
            }
            counted => counted,
        }
    }

    fn check_right(&self, call: &Call, open: OpenFile) -> Result<(), Failure> {
        let inode = self.file_named(call, open.file)?;
        let writes = open.rights.allow(Rights::WRITE);
        if writes && call.connection.rights.read_only {
            return Err(Status::ReadOnly.into());
        }
        if inode.layout.is_none() {
            return Err(Status::StaleHandle.into());
        }
        let want = if writes { Want::WRITE } else { Want::READ };
        if call.who.owns(&inode) { Ok(()) } else { braid_meta::permit(&call.who, &inode, want) }
    }

    /// Makes the store count at least the handles that the session has of a file. If it cannot, the
    /// handle is removed.
    pub(super) fn ensure_counted(
        &self,
        session: SessionId,
        open: OpenFile,
        open_id: u64,
    ) -> Result<(), Failure> {
        let held = self
            .state()
            .sessions
            .live
            .get(session)
            .map(|live| live.handles_of(open.file))
            .ok_or_else(|| ended(session))?;
        let who = Identity::root();
        let change = Change { who: &who, now: self.env.clock.wall(), replay: None };
        let counted = self.namespace.reclaim_open(&change, &held);
        if counted.is_err()
            && let Some(live) = self.state().sessions.live.get_mut(session)
        {
            live.close(open_id);
        }
        counted
    }

    /// The session has reclaimed all: closes what the store counts and the session has no handle
    /// of.
    ///
    /// One lock is held to the end, so that no open comes between the check of the handles and the
    /// end of the counts.
    fn close_unreclaimed(&self, session: SessionId) -> Result<(), Failure> {
        let who = Identity::root();
        let change = Change { who: &who, now: self.env.clock.wall(), replay: None };
        let mut state = self.state();
        let live = state.sessions.live.get(session).ok_or_else(|| ended(session))?;
        if !live.reclaiming {
            return Ok(());
        }
        let excess = self.namespace.open_files_of(session).into_iter().filter_map(|counted| {
            let held = live.handles_of(counted.file);
            (!counted.is_within(&held)).then_some(held)
        });
        let excess: Vec<braid_meta::OpenFile> = excess.collect();
        for open in excess {
            if self.namespace.limit_opens(&change, &open)? {
                state.sizes.last_writer_closed(open.file);
            }
        }
        if let Some(live) = state.sessions.live.get_mut(session) {
            live.reclaiming = false;
        }
        state.deletions.note_queued();
        Ok(())
    }
}

/// Whether a failure is about the file or the permission, not about the server.
fn is_refusal(status: Status) -> bool {
    matches!(
        status,
        Status::StaleHandle
            | Status::NotFound
            | Status::PermissionDenied
            | Status::NotPermitted
            | Status::ReadOnly
            | Status::SharingViolation
    )
}
