//! Calls of the metadata server: how a call is described and sent, in which session, and with which
//! replay slot.
//!
//! ```text
//!   send ─┬─ repeatable ──> attempt, retried in any session (or in the given one only)
//!         └─ once ──> session ──> replay slot ──> attempt, retried with the same slot
//!                        ^                           │ the session was replaced
//!                        └── no attempt was executed ┴── else: an error, outcome unknown
//! ```
//!
//! `mds_retry.rs` decides when an attempt is retried, and for how long. `mds_connection.rs` makes
//! the connection and opens the session.
//!
//! Invariants:
//! 1. All attempts of a call that runs once carry the same slot and sequence, so that the server
//!    answers a repetition from its replay record (I7).
//! 2. When the session ended together with its replay records, a call that may have been executed
//!    is not repeated: it fails, and the error reports that its outcome is unknown.
//! 3. All attempts end by the call's deadline, and the error names the server (I8).
//!
//! Assertions check 1, and `answer_once` obeys 2 where a comment names it. 3 is not asserted, since
//! the clock may pass the deadline while the thread sleeps.

use std::{sync::Arc, time::Duration};

use braid_net::Driver;
use braid_types::{SessionId, Status};
use braid_wire::{
    Call,
    message::{
        mds::{Envelope, Open, SetAttributes, SizeReport, Stat},
        types::PathRef,
    },
};

use super::{
    Caller, Engine,
    mds_connection::{CallFailure, MdsConnection, is_transient},
    mds_retry::{CallRetry, FailedAttempt},
    open_table::ServerEpoch,
    session::Session,
    shown_path,
    slots::HeldSlot,
};
use crate::error::{Error, Result};

/// One call of the metadata server, ready to be sent.
///
/// Made by [`Caller::repeatable`] or [`Caller::once`]; for calls of the engine itself by
/// [`Engine::repeatable`] or [`Engine::once`], which use the connection's own identity.
pub(crate) struct MdsCall<'r, D: Driver, C> {
    engine: &'r Arc<Engine<D>>,
    call: C,
    /// It must not be executed twice: it is sent with a replay slot (I7).
    once: bool,
    /// The number of the identity that calls; 0 for that of the connection.
    identity: u32,
    /// The only session in which it may be sent.
    session: Option<SessionId>,
    deadline: Option<Duration>,
    size_reports: Vec<SizeReport>,
    /// What failed, for errors.
    context: Option<(&'static str, &'r PathRef)>,
}

impl<D: Driver> Caller<D> {
    /// A call that changes nothing, or that may be executed twice. `what` and `at` name it in
    /// errors.
    pub(crate) fn repeatable<'r, C: Call>(
        &'r self,
        what: &'static str,
        at: &'r PathRef,
        call: C,
    ) -> MdsCall<'r, D, C> {
        self.with_context(self.engine.repeatable(call), what, at)
    }

    /// A call that the server executes at most once (I7). `what` and `at` name it in errors.
    pub(crate) fn once<'r, C: Call>(
        &'r self,
        what: &'static str,
        at: &'r PathRef,
        call: C,
    ) -> MdsCall<'r, D, C> {
        self.with_context(self.engine.once(call), what, at)
    }

    fn with_context<'r, C: Call>(
        &self,
        call: MdsCall<'r, D, C>,
        what: &'static str,
        at: &'r PathRef,
    ) -> MdsCall<'r, D, C> {
        let engine = call.engine;
        // The reply of these calls contains the size of the file that `at` is.
        let returns_size = [Stat::OP, SetAttributes::OP, Open::OP].contains(&C::OP);
        // After a fork another thread may have held the table's lock; the call fails when it is
        // sent.
        let report = if returns_size && at.path.is_empty() && engine.is_ours() {
            engine.open_table.size_report(at.dir)
        } else {
            None
        };
        MdsCall { context: Some((what, at)), ..call }
            .identity(self.identity.number())
            .size_reports(report.into_iter().collect())
    }
}

impl<D: Driver> Engine<D> {
    /// A call that changes nothing, or that may be executed twice.
    pub(crate) fn repeatable<C: Call>(self: &Arc<Self>, call: C) -> MdsCall<'_, D, C> {
        MdsCall {
            engine: self,
            call,
            once: false,
            identity: 0,
            session: None,
            deadline: None,
            size_reports: Vec::new(),
            context: None,
        }
    }

    /// A call that the server executes at most once (I7).
    pub(crate) fn once<C: Call>(self: &Arc<Self>, call: C) -> MdsCall<'_, D, C> {
        MdsCall { once: true, ..self.repeatable(call) }
    }
}

impl<D: Driver, C: Call> MdsCall<'_, D, C> {
    /// Calls as the identity of this number.
    pub(crate) fn identity(self, identity: u32) -> Self {
        Self { identity, ..self }
    }

    /// Ends by this deadline instead of the default: a call's time from now, and less for a
    /// repeatable call while the server is unresponsive (ADR 0031).
    pub(crate) fn until(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Is sent in this session only, since it names handles: in another session their numbers
    /// belong to other files.
    pub(crate) fn in_session(self, session: SessionId) -> Self {
        debug_assert!(!self.once, "1: a replay slot is of the current session, whichever that is");
        Self { session: Some(session), ..self }
    }

    /// Reports the sizes of files whose sole writer this client is (ADR 0020).
    pub(crate) fn size_reports(self, size_reports: Vec<SizeReport>) -> Self {
        Self { size_reports, ..self }
    }

    fn deadline(&self) -> Duration {
        let engine = self.engine;
        match self.deadline {
            Some(deadline) => deadline,
            // A shortened call that changes something would end with an unknown outcome.
            None if self.once => engine.deadline(),
            None => engine.shorten_deadline([&engine.mds_status], engine.deadline()),
        }
    }

    fn envelope(&self, slot: u32, sequence: u64) -> Envelope {
        Envelope {
            slot,
            sequence,
            identity: self.identity,
            size_reports: self.size_reports.clone(),
        }
    }
}

impl<D: Driver, C: Call + Sync> MdsCall<'_, D, C>
where
    C::Reply: Send,
{
    /// Sends the call, again where needed, until it is answered or its deadline has passed.
    pub(crate) async fn send(self) -> Result<C::Reply> {
        self.send_with_epoch().await.map(|(reply, _)| reply)
    }

    /// As [`MdsCall::send`]; returns also the epoch of the server that answered: a handle, lock or
    /// lease is valid in that epoch only, until it is reclaimed.
    pub(crate) async fn send_with_epoch(self) -> Result<(C::Reply, ServerEpoch)> {
        let answer = self.answer().await;
        answer.map_err(|error| match self.context {
            Some((what, at)) => error.during(what, shown_path(at)),
            None => error,
        })
    }

    async fn answer(&self) -> Result<(C::Reply, ServerEpoch)> {
        let engine = self.engine;
        engine.check_process()?;
        let deadline = self.deadline();
        engine.check_time(deadline, || engine.mds_name())?;
        let mut retry = CallRetry::new(engine, deadline);
        match self.once {
            true => self.answer_once(&mut retry).await,
            false => self.answer_repeatable(&mut retry).await,
        }
    }

    async fn answer_repeatable(&self, retry: &mut CallRetry) -> Result<(C::Reply, ServerEpoch)> {
        loop {
            let link = self.link(retry).await?;
            if self.session.is_some_and(|only| only != link.epoch.session) {
                return Err(Error::refused(&link.server, Status::NoSession.into()));
            }
            match self.attempt(&link, self.envelope(0, 0), retry.deadline()).await {
                Ok(reply) => return Ok((reply, link.epoch)),
                Err(failure) => self.prepare_retry(retry, &link, failure).await?,
            }
        }
    }

    async fn answer_once(&self, retry: &mut CallRetry) -> Result<(C::Reply, ServerEpoch)> {
        let engine = self.engine;
        loop {
            let session = Arc::clone(&self.link(retry).await?.session);
            let slot = session.slots.take(&engine.driver, retry.deadline()).await;
            let mut slot = slot.map_err(|refused| engine.wait_error(refused))?;
            if let Some(answer) = self.answer_in_session(&session, &mut slot, retry).await? {
                return Ok(answer);
            }
            // Invariant 2.
            if retry.may_be_done() {
                return Err(outcome_unknown());
            }
        }
    }

    /// Repeats the call with one slot for as long as the session lives; `None` when another session
    /// replaced it.
    async fn answer_in_session(
        &self,
        session: &Arc<Session>,
        slot: &mut HeldSlot<'_>,
        retry: &mut CallRetry,
    ) -> Result<Option<(C::Reply, ServerEpoch)>> {
        // Invariant 1: one envelope for all attempts.
        debug_assert!(slot.sequence > 0, "1: a call that runs once has a sequence number");
        let envelope = self.envelope(slot.number, slot.sequence);
        loop {
            let link = self.link(retry).await?;
            if !Arc::ptr_eq(&link.session, session) {
                return Ok(None);
            }
            match self.attempt(&link, envelope.clone(), retry.deadline()).await {
                Ok(reply) => {
                    slot.answered();
                    return Ok(Some((reply, link.epoch)));
                }
                Err(CallFailure::Refused(failure)) if is_answer(failure.status) => {
                    slot.answered();
                    return Err(Error::refused(&link.server, failure));
                }
                Err(failure) => self.prepare_retry(retry, &link, failure).await?,
            }
        }
    }

    /// The connection for the next attempt, with the session that belongs to it.
    async fn link(&self, retry: &CallRetry) -> Result<Arc<MdsConnection<D>>> {
        let link = self.engine.mds_connection(retry.deadline()).await;
        link.map_err(|error| retry.with_total_time(self.engine, error))
    }

    async fn attempt(
        &self,
        link: &MdsConnection<D>,
        envelope: Envelope,
        deadline: Duration,
    ) -> Result<C::Reply, CallFailure> {
        let engine = self.engine;
        let deadline = engine.attempt_deadline(deadline);
        engine.define_identity(link, envelope.identity, deadline).await?;
        engine.exchange(&link.shared, Some(&envelope), &self.call, deadline).await
    }

    /// Drops a connection that cannot be used again, and waits until the call may be sent again.
    async fn prepare_retry(
        &self,
        retry: &mut CallRetry,
        link: &Arc<MdsConnection<D>>,
        failure: CallFailure,
    ) -> Result<()> {
        let failed = FailedAttempt::new(&link.server, failure);
        // The session is reclaimed, or a new one opened, when the next attempt connects.
        if failed.needs_new_connection() {
            self.engine.drop_mds_connection(link);
        }
        retry.wait_after(self.engine, link, failed).await
    }
}

/// Whether a refusal answers the call: other refusals are retried.
fn is_answer(status: Status) -> bool {
    status != Status::NoSession && !is_transient(status)
}

fn outcome_unknown() -> Error {
    let why = "the session ended while the call was in flight: it is unknown whether it was done";
    Error::new(Status::ConnectionLost, why)
        .with_hint("check whether it was done, and repeat the command if not")
}
