//! Open modes: what an open denies to others, and what excludes it. The rules are
//! [`braid_meta::lease::modes`]; ADR 0009.
//!
//! ```text
//!   open, deny ─> excluded? delegations recalled ─> still excluded? refused
//!              ─> deny read: names lease of its directory recalled
//!              ─> excluded by then? refused ─> recorded in one batch with the open
//!              ─> synced to disk ─> answered
//! ```
//!
//! Invariants:
//! 1. What is excluded is refused. It waits only for delegations of the file: their holders may
//!    have closed it without a call (ADR 0038).
//! 2. While reading is denied, no client has the file open without the server knowing it: its
//!    attributes are `uncacheable`, and clients that cached them returned the lease before the
//!    denial was recorded.
//! 3. A denial is on disk before its call is answered, so that a restarted server refuses what it
//!    excludes.
//!
//! No assertion checks these: `check_share` returns the refusal (1), `claim_to_open` recalls the
//! leases from all clients before the denial is recorded (2), and `answer_after_sync` answers after
//! the sync (3).

use std::sync::Arc;

use braid_meta::{
    Inode,
    lease::{LeaseMode, LeaseOf},
};
use braid_types::{Failure, SessionId, Status};
use braid_wire::{
    Deny, Rights,
    message::{
        mds::{MdsRequest, OpenReply, SetOpenModes},
        types::Attributes,
    },
};

use super::open::{args, ended, session_of};
use crate::{
    call::{Call, CallOutcome},
    convert,
    core::MdsCore,
    lease::{claimed, names_of},
    session::OpenFile,
};

impl MdsCore {
    /// Refuses an open that another open excludes, before anything is done for it.
    pub(super) fn check_share(
        &self,
        inode: &Inode,
        rights: Rights,
        deny: Deny,
    ) -> Result<(), Failure> {
        self.check_deny(deny)?;
        self.check_lost_parts(inode, rights)?;
        self.namespace.check_open(inode.file, convert::open_mode(rights, deny))
    }

    /// An open that others exclude waits until they have returned the delegations of the file:
    /// with a delegation, a client may have closed the file without a call.
    #[allow(clippy::result_large_err)]
    pub(super) fn recall_excluding(
        &self,
        call: Call,
        inode: &Inode,
        rights: Rights,
        deny: Deny,
    ) -> Result<Call, CallOutcome> {
        let of = LeaseOf::Delegation(inode.file);
        let excluded =
            self.namespace.check_open(inode.file, convert::open_mode(rights, deny)).is_err();
        if !excluded || !self.is_leased(&call, of) {
            return Ok(call);
        }
        self.claim(call, &[(of, LeaseMode::Write)])
    }

    /// After a restart, clients that only read are not known until they have reclaimed: until then
    /// nothing may be denied.
    fn check_deny(&self, deny: Deny) -> Result<(), Failure> {
        if deny.is_none() || !self.sizes_uncertain() {
            return Ok(());
        }
        let why = "after a restart the metadata server waits until clients have reclaimed their \
                   open files";
        Err(Failure::new(Status::TryAgain, why))
    }

    /// Claims what an open needs. An open that denies reading also needs that no client has the
    /// file open without the server knowing it. That includes its own client, which may cache
    /// attributes for many users.
    #[allow(clippy::result_large_err)]
    pub(super) fn claim_to_open(
        &self,
        call: Call,
        inode: &Inode,
        mut needs: Vec<(LeaseOf, LeaseMode)>,
        deny: Deny,
    ) -> Result<Call, CallOutcome> {
        if !deny.has(Deny::READ) {
            return self.claim(call, &needs);
        }
        needs.extend(names_of(inode).filter(|need| !needs.contains(need)));
        self.claim_against(call, SessionId::default(), &needs)
    }

    /// Delays an answer until the denial of its call is on disk.
    pub(super) fn answer_after_sync(&self, flow: CallOutcome, deny: Deny) -> CallOutcome {
        let (call, body) = match flow {
            CallOutcome::Answer(call, body) if !deny.is_none() => (call, body),
            flow => return flow,
        };
        let Some(me) = self.arc() else {
            return CallOutcome::Fail(call, Status::NotServing.into());
        };
        me.sync_log_then(move |core, forced| match forced {
            Ok(()) => core.answer(call, body),
            Err(failure) => core.fail(call, &failure),
        });
        CallOutcome::Pending
    }

    pub(super) fn set_open_modes(&self, call: Call, r: &SetOpenModes) -> CallOutcome {
        let open = session_of(&call).and_then(|session| {
            let open =
                self.state().sessions.live.get(session).and_then(|live| live.opened(r.open_id));
            handle(open, r)
        });
        let found = open.and_then(|open| {
            let denies = Deny(r.deny.0 & !open.deny.0);
            self.check_deny(denies)?;
            Ok((open, denies, self.file_named(&call, r.file)?))
        });
        let (open, denies, inode) = match found {
            Ok(found) => found,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        if self.is_size_changing(r.file) {
            return CallOutcome::Gate(call, r.file);
        }
        let more = Rights(r.rights.0 & !open.rights.0);
        if let Err(failure) = self.check_lost_parts(&inode, more) {
            return CallOutcome::Fail(call, failure);
        }
        let needs = if more == Rights(0) && denies.is_none() {
            Vec::new()
        } else {
            self.needs_of_open(&call, &inode, more, denies, false)
        };
        let call = claimed!(self.claim_to_open(call, &inode, needs, denies));
        let (to, again) = (r.clone(), r.clone());
        self.with_true_size(
            call,
            inode,
            || MdsRequest::SetOpenModes(again),
            move |core, call, known| {
                let changed = core.change_open(&call, &to, known);
                core.answer_after_sync(CallOutcome::from(call, changed), to.deny)
            },
        )
    }

    /// Changes a handle together with the count in the store. It needs no replay record, since a
    /// second try changes nothing.
    fn change_open(
        &self,
        call: &Call,
        to: &SetOpenModes,
        known: Attributes,
    ) -> Result<OpenReply, Failure> {
        let session = session_of(call)?;
        let change = braid_meta::Call { replay: None, ..self.change(call) };
        let inode: Arc<Inode> = {
            let mut state = self.state();
            let live = state.sessions.live.get(session).ok_or_else(|| ended(session))?;
            let open = handle(live.opened(to.open_id), to)?;
            let was = args(session, open.rights, open.deny);
            let mode = convert::open_mode(to.rights, to.deny);
            let (inode, ends) = self.namespace.change_open(&change, to.file, was, mode)?;
            if let Some(live) = state.sessions.live.get_mut(session) {
                live.change(to.open_id, to.rights, to.deny);
            }
            if to.rights.allow(Rights::WRITE) {
                state.sizes.opened_for_writing(to.file);
            }
            if open.rights.allow(Rights::WRITE)
                && !to.rights.allow(Rights::WRITE)
                && call.connection.owner.user.is_some()
            {
                state.note_unfenced_close(session, to.file);
            }
            if ends {
                state.sizes.writer_closed(to.file);
                state.sizes.last_writer_closed(to.file);
            }
            inode
        };
        let now = convert::attributes(&inode);
        let (size_is_known, Attributes { bytes, bytes_used, mtime, change, .. }) =
            (!known.uncacheable, known);
        let change = change.max(now.change);
        let uncacheable = self.is_uncacheable(call, &inode, size_is_known);
        let attributes = Attributes { bytes, bytes_used, mtime, change, uncacheable, ..now };
        self.with_capability(session, &inode, attributes, to.rights, to.open_id)
    }
}

/// Checks the open file of a change of modes.
fn handle(open: Option<OpenFile>, r: &SetOpenModes) -> Result<OpenFile, Failure> {
    match open {
        Some(open) if open.file == r.file => Ok(open),
        Some(_) => {
            Err(Failure::new(Status::Invalid, format!("handle {} is of another file", r.open_id)))
        }
        // It was closed, or not reclaimed.
        None => Err(Failure::new(Status::StaleHandle, format!("handle {} is not open", r.open_id))),
    }
}
