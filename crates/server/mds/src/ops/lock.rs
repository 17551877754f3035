//! Locks: request, wait, cancel, test, release, and reclaim after a restart. `lock/` has the rules.
//!
//! A wait takes no replay slot. Otherwise a session with as many waits as slots could not send the
//! call that ends them. Calls that change the table (`LockSet`, `Unlock`) have a slot. `LockAwait`
//! may be sent twice: a late duplicate finds no wait any more, and changes nothing.

use std::{sync::Arc, time::Duration};

use braid_types::{
    Failure, Status,
    limits::{LOCK_WAIT_MS_MAX, RECLAIM_LOCKS_MAX},
};
use braid_wire::message::{
    lock::{LockOutcome, LockReply, LockRequest, LockSpace},
    mds::{LockAwait, LockCancel, LockReclaim, LockSet, LockTest, Unlock},
};

use super::open::{ended, session_of};
use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
    lock::{Answers, LockRequestOf, LockResult, WaitOutcome, WaitingCall},
};

impl MdsCore {
    pub(super) fn lock_set(&self, call: Call, r: &LockSet) -> CallOutcome {
        let asked =
            self.may_lock(&call, &r.lock).and_then(|wanted| self.ask_lock(&wanted, r.ticket));
        CallOutcome::from(call, asked)
    }

    pub(crate) fn ask_lock(
        &self,
        wanted: &LockRequestOf,
        ticket: u64,
    ) -> Result<LockReply, Failure> {
        let (session, now) = (wanted.owner.session, self.now());
        let (asked, answers) = {
            let mut state = self.state();
            // A session that has just ended would hold it forever.
            state.sessions.live.get(session).ok_or_else(|| ended(session))?;
            state.locks.request(wanted, (ticket != 0).then_some((session, ticket)), now)
        };
        self.answer_locks(answers);
        reply(asked)
    }

    pub(super) fn lock_await(&self, call: Call, r: &LockAwait) -> CallOutcome {
        let wanted = match wanted(&call, &r.lock) {
            Ok(wanted) => wanted,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let until = self.now() + Duration::from_millis(u64::from(r.wait_ms.min(LOCK_WAIT_MS_MAX)));
        let ticket = (wanted.owner.session, r.ticket);
        let answers = self.state().locks.attach_call(&wanted, ticket, WaitingCall { call, until });
        self.answer_locks(answers);
        CallOutcome::Pending
    }

    pub(super) fn lock_cancel(&self, call: Call, r: &LockCancel) -> CallOutcome {
        let session = match session_of(&call) {
            Ok(session) => session,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let answers = self.state().locks.cancel((session, r.ticket));
        self.answer_locks(answers);
        CallOutcome::from(call, Ok(()))
    }

    pub(super) fn lock_test(&self, call: Call, r: &LockTest) -> CallOutcome {
        let found = self.may_lock(&call, &r.lock).and_then(|wanted| {
            if self.sizes_uncertain() {
                return Err(not_yet());
            }
            Ok(self.state().locks.conflicting_lock(&wanted))
        });
        CallOutcome::from(call, found)
    }

    pub(super) fn unlock(&self, call: Call, r: &Unlock) -> CallOutcome {
        let range = &r.range;
        let lock = LockRequest {
            file: range.file,
            space: range.space,
            owner: range.owner,
            pid: 0,
            start: range.start,
            last: range.last,
            exclusive: false,
        };
        let done = wanted(&call, &lock).and_then(
            |LockRequestOf { target, owner, start, last, .. }| {
                let (done, answers) = self.state().locks.unlock(target, owner, start, last);
                self.answer_locks(answers);
                if done { Ok(()) } else { Err(Status::NoLocks.into()) }
            },
        );
        CallOutcome::from(call, done)
    }

    /// Reclaims locks after a restart. As with open files, nothing is reclaimed once the session
    /// has completed its reclaim.
    pub(super) fn lock_reclaim(&self, call: Call, r: &LockReclaim) -> CallOutcome {
        let refused = session_of(&call).and_then(|session| {
            if r.locks.len() > RECLAIM_LOCKS_MAX {
                let why = format!("at most {RECLAIM_LOCKS_MAX} locks");
                return Err(Failure::new(Status::LimitExceeded, why));
            }
            let asked: Vec<_> = r.locks.iter().map(|lock| self.may_lock(&call, lock)).collect();
            let mut state = self.state();
            if !state.sessions.live.get(session).ok_or_else(|| ended(session))?.reclaiming {
                return Ok(Vec::new());
            }
            let mut refused = Vec::new();
            for (at, (asked, lock)) in asked.into_iter().zip(&r.locks).enumerate() {
                if !asked.is_ok_and(|wanted| state.locks.reclaim(&wanted)) {
                    tracing::warn!(
                        %session, file = %lock.file,
                        "a lock is not reclaimed: another owner has it"
                    );
                    refused.push(at as u32);
                }
            }
            Ok(refused)
        });
        CallOutcome::from(call, refused)
    }

    /// A user who may neither read nor write a file may not lock it, unless the session has it
    /// open.
    fn may_lock(&self, call: &Call, lock: &LockRequest) -> Result<LockRequestOf, Failure> {
        let wanted = wanted(call, lock)?;
        let inode = self.file_named(call, lock.file)?;
        self.may_access(call, &inode).map(|()| wanted)
    }

    /// Grants locks again: every client from before the restart has reclaimed its locks.
    pub(crate) fn grant_locks(&self) {
        let answers = self.state().locks.start_granting();
        self.answer_locks(answers);
    }

    pub(crate) fn expire_lock_waits(self: &Arc<Self>, now: Duration) {
        let answers = self.state().locks.expire(now);
        self.answer_locks(answers);
    }

    pub(crate) fn answer_locks(&self, answers: Answers<Call>) {
        for (call, outcome) in answers {
            self.finish(call, reply_of(outcome));
        }
    }
}

/// The lock that a call requests.
fn wanted(call: &Call, lock: &LockRequest) -> Result<LockRequestOf, Failure> {
    let session = session_of(call)?;
    let whole = LockRequest { start: 0, last: u64::MAX, ..lock.clone() };
    let lock = if lock.space == LockSpace::Whole { &whole } else { lock };
    if lock.start > lock.last {
        return Err(Failure::new(Status::Invalid, "a range ends before it begins"));
    }
    Ok(LockRequestOf::of((session, call.connection.owner), lock))
}

fn reply(asked: LockResult) -> Result<LockReply, Failure> {
    match asked {
        LockResult::Granted => Ok(LockReply::without_holder(LockOutcome::Granted)),
        LockResult::Held(holder) => {
            Ok(LockReply { outcome: LockOutcome::Held, holder: Some(holder) })
        }
        LockResult::Waiting => Ok(LockReply::without_holder(LockOutcome::Waiting)),
        LockResult::Deadlock => Err(Status::Deadlock.into()),
        LockResult::Full => Err(full()),
        LockResult::InGracePeriod => Err(not_yet()),
    }
}

fn reply_of(outcome: WaitOutcome) -> Result<LockReply, Failure> {
    match outcome {
        WaitOutcome::Granted => Ok(LockReply::without_holder(LockOutcome::Granted)),
        WaitOutcome::StillWaiting => Ok(LockReply::without_holder(LockOutcome::Waiting)),
        WaitOutcome::NoSuchWait => Ok(LockReply::without_holder(LockOutcome::NoSuchWait)),
        WaitOutcome::Cancelled => Ok(LockReply::without_holder(LockOutcome::Cancelled)),
        WaitOutcome::Deadlock => Err(Status::Deadlock.into()),
        WaitOutcome::Full => Err(full()),
    }
}

fn full() -> Failure {
    Failure::new(Status::NoLocks, "too many locks of the server, or of this session, user or key")
}

fn not_yet() -> Failure {
    Failure::new(
        Status::TryAgain,
        "after a restart the metadata server waits until clients have reclaimed their locks",
    )
}
