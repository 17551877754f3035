//! Calls that claim, ask for, wait for and return leases.

use std::{sync::Arc, time::Duration};

use braid_meta::{
    Inode,
    lease::{LeaseMode, LeaseOf, Wait},
};
use braid_types::{Failure, FileIndex, SessionId, Status, limits::RECALL_CONTACT_MS};

use super::{
    delegation_of, layout, names_of,
    service::{
        DataGrant, ExpiredWaits, LeaseService, LeaseWait, LeasedItems, Leases, Need,
        SuspendOutcome, no_recalls,
    },
};
use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
    size::SuspendedCall,
};

/// A thread that runs calls again. Dropped when one of them panics.
struct Draining<'a>(&'a Leases);

impl Drop for Draining<'_> {
    fn drop(&mut self) {
        self.0.stop_draining();
    }
}

impl MdsCore {
    /// Does something under the lock of the leases and then, without it, what follows.
    pub(super) fn with_leases<T>(&self, work: impl FnOnce(&mut LeaseService) -> T) -> T {
        let (done, after) = self.leases.with_lock(work);
        after.replies.into_iter().for_each(|(call, answer)| call.responder.send(answer));
        if after.must_resume {
            self.resume_ready();
        }
        done
    }

    /// Runs calls again that waited. If one of them panics, the next change of a lease goes on with
    /// the rest.
    fn resume_ready(&self) {
        let draining = Draining(&self.leases);
        while let Some((call, request)) = self.leases.next_ready() {
            self.run(call, request);
        }
        std::mem::forget(draining); // the end of the queue has ended it
    }

    /// Claims what a call needs, or checks its claims again. The call comes back when it may go on.
    // A flow is large because a call is, and is handed on immediately.
    #[allow(clippy::result_large_err)]
    pub(crate) fn claim(&self, call: Call, needs: &[Need]) -> Result<Call, CallOutcome> {
        let session = call.caller_session();
        self.claim_against(call, session, needs)
    }

    /// Claims what a call needs of all sessions but this one; of all, where it is 0, which is no
    /// session.
    #[allow(clippy::result_large_err)]
    pub(crate) fn claim_against(
        &self,
        mut call: Call,
        session: SessionId,
        needs: &[Need],
    ) -> Result<Call, CallOutcome> {
        if needs.is_empty() {
            return Ok(call);
        }
        let now = self.now();
        let (earlier_guard, dropped) = match call.claims.take() {
            Some(claim_guard) if claim_guard.of == LeasedItems::of(needs) => {
                (Some(claim_guard), None)
            }
            other => (None, other),
        };
        let core = self.weak();
        let (claim_guard, blocked) =
            self.with_leases(|service| service.claim(earlier_guard, &core, session, needs, now));
        // After the new claim, so that no other call comes between.
        drop(dropped);
        call.claims = Some(claim_guard);
        match blocked {
            None => Ok(call),
            Some(blocked) => Err(CallOutcome::Lease(call, blocked)),
        }
    }

    /// Whether another session than the caller's holds an item, or may.
    pub(crate) fn is_leased(&self, call: &Call, of: LeaseOf) -> bool {
        let session = call.caller_session();
        self.with_leases(|service| service.is_held_by_other(session, of))
    }

    /// Claims what the size of a file needs: that no other session has buffered writes to it.
    #[allow(clippy::result_large_err)]
    pub(crate) fn claim_size_query(
        &self,
        call: Call,
        file: FileIndex,
    ) -> Result<Call, CallOutcome> {
        if !self.has_buffered_writes(&call, file) {
            return Ok(call);
        }
        let needs =
            [LeaseOf::Data(file), LeaseOf::Delegation(file)].map(|of| (of, LeaseMode::Look));
        self.claim(call, &needs)
    }

    /// Whether another session than the caller's may have buffered writes to a file.
    pub(crate) fn has_buffered_writes(&self, call: &Call, file: FileIndex) -> bool {
        let session = call.caller_session();
        self.leases.any_writing()
            && self.with_leases(|service| service.has_buffered_writes(session, file))
    }

    /// Suspends a call that waits for leases.
    pub(crate) fn park(&self, blocked: &LeaseWait, waiting: SuspendedCall) {
        match self.with_leases(|service| service.suspend(blocked, waiting)) {
            SuspendOutcome::Waits => {}
            SuspendOutcome::Full(full) => {
                let why = "too many calls wait for leases of the file or directory";
                self.fail(full.0, &Failure::new(Status::TryAgain, why));
            }
            SuspendOutcome::Freed(again) => {
                let (call, request) = *again;
                self.run(call, request);
            }
        }
    }

    /// Whether a session is on record as a holder of leases.
    pub(crate) fn is_lease_holder(&self, session: SessionId) -> bool {
        self.with_leases(|service| service.is_lease_holder(session))
    }

    /// Whether a session reads and writes files only while it holds their data lease.
    pub(crate) fn does_io_under_leases(&self, session: SessionId) -> bool {
        self.with_leases(|service| service.does_io_under_leases(session))
    }

    /// A session says whether it does all I/O under leases.
    pub(crate) fn set_io_under_leases(&self, session: SessionId, yes: bool) {
        self.with_leases(|service| service.set_io_under_leases(session, yes));
    }

    /// Grants a delegation if no other session holds or claims a conflicting one, and if no other
    /// session's open conflicts with it. Returns its number.
    pub(crate) fn grant_delegation(
        &self,
        session: SessionId,
        file: FileIndex,
        mode: LeaseMode,
    ) -> Option<u64> {
        let now = self.now();
        let number =
            self.with_leases(|service| service.try_delegation(session, file, mode, now))?;
        // After the grant: an open that is entered later claims the delegation, and finds the
        // grant.
        let opens = self.namespace.opens_of(file);
        let mut besides = opens.iter().filter(|open| open.session != session);
        let conflicts = match mode {
            LeaseMode::Write => besides.next().is_some(),
            // What the session itself denies, its gateway knows.
            _ => besides.any(|open| {
                let denied = open.denied();
                open.writers > 0 || denied.read || denied.write
            }),
        };
        if !conflicts {
            return Some(number);
        }
        let returned = [(LeaseOf::Delegation(file), number, LeaseMode::None)];
        self.with_leases(|service| service.return_leases(session, &returned));
        None
    }

    /// Notes a session as a holder of leases once the store has it on record. False when it has
    /// ended.
    pub(crate) fn note_lease_holder(&self, session: SessionId) -> bool {
        // Held to the end: a session that ends is removed from the live ones first, and its leases
        // are ended then.
        let state = self.state();
        let lives = state.sessions.live.get(session).is_some();
        if lives {
            self.leases.add_lease_holder(session);
        }
        lives
    }

    /// Grants a lease that all sessions may hold, of names or of a layout, if nothing conflicts
    /// with it. Returns its number.
    pub(crate) fn grant_shared(&self, of: LeaseOf, session: SessionId) -> Option<u64> {
        let now = self.now();
        self.with_leases(|service| service.grant_shared(of, session, now))
    }

    /// Asks for a data lease; the call comes back with its mode and number. `wish` is the mode, and
    /// whether the session must be alone with the file.
    #[allow(clippy::result_large_err)]
    pub(crate) fn ask_data(
        &self,
        mut call: Call,
        file: FileIndex,
        wish: (LeaseMode, bool),
    ) -> Result<(Call, LeaseMode, u64), CallOutcome> {
        let (session, now, core) = (call.caller_session(), self.now(), self.weak());
        let earlier_guard = call.claims.take();
        let (claim_guard, granted) = self.with_leases(|service| {
            service.ask_data(earlier_guard, &core, (session, file), wish, now)
        });
        call.claims = Some(claim_guard);
        match granted {
            // A session that must be alone is, as far as leases show. Its append must still be
            // done beside clients that use none.
            DataGrant::Granted(mode, number) if wish.1 => Ok((call, mode, number)),
            DataGrant::Granted(mode, number) => {
                Ok((call, self.downgraded_lease(file, session, mode), number))
            }
            DataGrant::Waits(blocked) => Err(CallOutcome::Lease(call, blocked)),
            DataGrant::Full => {
                let why =
                    "the server has as many leases as it can hold; the least used are recalled";
                Err(CallOutcome::Fail(call, Failure::new(Status::TryAgain, why)))
            }
            DataGrant::Ended => Err(CallOutcome::Fail(call, has_ended(session))),
        }
    }

    /// Grants a data lease with an open, if nothing conflicts with it.
    pub(crate) fn try_data(
        &self,
        call: &Call,
        file: FileIndex,
        wish: LeaseMode,
    ) -> (LeaseMode, u64) {
        let (session, now) = (call.caller_session(), self.now());
        let (read, _) = self.opens_without_leases(file, session);
        match self.with_leases(|service| service.try_data(session, file, wish, read, now)) {
            Some((mode, number)) => (self.downgraded_lease(file, session, mode), number),
            None => (LeaseMode::None, 0),
        }
    }

    /// What remains of a data lease beside clients that use the file without leases. They are
    /// checked after the grant: a client that opens the file later claims it, and finds the grant.
    fn downgraded_lease(&self, file: FileIndex, session: SessionId, mode: LeaseMode) -> LeaseMode {
        if mode == LeaseMode::Shared {
            return mode;
        }
        let (read, written) = self.opens_without_leases(file, session);
        if !(written || read && mode == LeaseMode::Write) {
            return mode;
        }
        self.with_leases(|service| service.lessen(file, session));
        LeaseMode::Shared
    }

    /// Whether other sessions that read and write without leases have a file open, and whether for
    /// writing.
    fn opens_without_leases(&self, file: FileIndex, session: SessionId) -> (bool, bool) {
        let opens = self.namespace.opens_of(file);
        let besides = || {
            opens
                .iter()
                .filter(|open| open.session != session && !self.does_io_under_leases(open.session))
        };
        (besides().next().is_some(), besides().any(|open| open.writers > 0))
    }

    /// Sizes that were reported for these files were lost with a daemon's power: recalls the leases
    /// that cover them, without waiting.
    pub(crate) fn recall_names(&self, inodes: &[Arc<Inode>]) {
        self.recall_from_all(
            &inodes
                .iter()
                .flat_map(|inode| names_of(inode).into_iter().chain(delegation_of(inode)))
                .collect::<Vec<_>>(),
        );
    }

    /// These files are removed, and their objects are about to be: recalls the leases of their
    /// layouts, without waiting. The daemons refuse later reads, and no other file ever has the
    /// same index (I11).
    pub(crate) fn recall_layouts(&self, files: impl Iterator<Item = FileIndex>) {
        self.recall_from_all(&files.map(layout).collect::<Vec<_>>());
    }

    fn recall_from_all(&self, needs: &[Need]) {
        if !needs.is_empty() {
            let now = self.now();
            self.with_leases(|service| service.recall_from_all(needs, now));
        }
    }

    /// Suspends a session's question for recalls. What it held before a restart is gone.
    /// `io_under_leases`: whether it does all I/O under leases, noted first, so that no lease is
    /// granted to others without it.
    pub(crate) fn await_recalls_of(
        &self,
        call: Call,
        session: SessionId,
        (seen, io_under_leases): (u64, bool),
    ) {
        let answered = self.with_leases(|service| {
            service.set_io_under_leases(session, io_under_leases);
            service.await_recalls(call, session, seen)
        });
        if let Some((call, answer)) = answered {
            call.responder.send(answer);
        }
    }

    /// A session returns leases.
    pub(crate) fn return_leases_of(
        &self,
        session: SessionId,
        leases: &[(LeaseOf, u64, LeaseMode)],
    ) {
        self.with_leases(|service| service.return_leases(session, leases));
    }

    /// A session of before a restart relies on no lease any more.
    pub(crate) fn drop_old_leases(&self, session: SessionId) {
        self.with_leases(|service| service.drop_unreclaimed(session));
    }

    /// A session closed: its leases are free.
    pub(crate) fn free_leases(&self, session: SessionId) {
        let awaited = self.with_leases(|service| service.end_closed(session));
        awaited.into_iter().for_each(|call| self.fail(call, &has_ended(session)));
    }

    /// A session was ended whose last message arrived at `last_active`: its leases are freed when
    /// they are no longer valid.
    pub(crate) fn break_leases(&self, session: SessionId, last_active: Duration) {
        let awaited = self.with_leases(|service| service.end_broken(session, last_active));
        awaited.into_iter().for_each(|call| self.fail(call, &has_ended(session)));
    }

    /// The fences of these sessions hold.
    pub(crate) fn leases_fenced(&self, sessions: &[SessionId]) {
        self.with_leases(|service| service.fenced(sessions));
    }

    /// Ends waits that are too long, sessions that do not return leases, and leases that are no
    /// longer valid.
    pub(crate) fn age_leases(self: &Arc<Self>, now: Duration) {
        let ExpiredWaits { expired, awaited, overdue, overdue_though_active } =
            self.with_leases(|service| service.expire_all(now));
        awaited.into_iter().for_each(|call| call.responder.send(no_recalls()));
        for (call, by) in expired {
            let failure = self.holders_failure(&call, by);
            self.fail(call, &failure);
        }
        let is_given_up = |id: &SessionId| {
            let state = self.state();
            let silent = state.sessions.live.get(*id).map(|session| session.activity.idle_ms(now));
            silent.is_some_and(|silent| {
                silent > RECALL_CONTACT_MS || overdue_though_active.contains(id)
            })
        };
        let overdue: Vec<SessionId> = overdue.into_iter().filter(is_given_up).collect();
        if !overdue.is_empty() {
            tracing::warn!(count = overdue.len(), "sessions do not return leases in time");
            self.end_and_fence(&overdue);
        }
    }

    /// The failure of a call that waited too long: it names the clients.
    fn holders_failure(&self, call: &Call, by: Wait) -> Failure {
        let session = call.caller_session();
        let holders = self.with_leases(|service| service.holders_waited_for(by, session));
        let names: Vec<String> = {
            let state = self.state();
            let name = |id: &SessionId| match (
                state.sessions.live.get(*id),
                state.sessions.ended_client(*id),
            ) {
                (Some(live), _) => format!("{} (session {id})", live.client),
                (None, Some(client)) => format!("{client} (session {id}, which is ended)"),
                (None, None) => format!("session {id}, which is ended"),
            };
            holders.iter().take(3).map(name).collect()
        };
        let what = if by != Wait::Restart {
            "does not return its lease"
        } else {
            "may hold leases from before the restart"
        };
        let who = if names.is_empty() { "another client".to_owned() } else { names.join(", ") };
        Failure::new(Status::TryAgain, format!("client {who} {what}; its session is ended soon"))
    }
}

fn has_ended(session: SessionId) -> Failure {
    Failure::new(Status::NoSession, format!("session {session} has ended"))
}
