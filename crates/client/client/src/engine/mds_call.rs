//! One call of the metadata server: sent until it is answered or its time is over.
//!
//! ```text
//!   answer: done           refused: an error        TryAgain: wait, again
//!   lost, late, NoSession: connect again, reclaim the session, the same call again
//! ```
//!
//! Invariants: (1) a call that changes something goes out with the same slot and sequence every time, so that
//! the server answers a repetition from its record (I7); (2) when the session itself is gone together with its
//! records, a change whose fate is not known is not repeated: the caller is told; (3) all attempts end by the
//! deadline, and the error names the server (I8).

use std::{sync::Arc, time::Duration};

use braid_net::{Driver, NetError};
use braid_types::{Failure, SessionId, Status};
use braid_wire::{
    Call, decode_outcome,
    message::{
        mds::{Envelope, Open, SetAttributes, Stat, ToldSize},
        types::At,
    },
};

use super::{
    Caller, Engine,
    backoff::Backoff,
    handles::Run,
    link::{Attempt, Link, enveloped, is_passing},
    session::Session,
    show,
    slots::Held,
};
use crate::error::{Error, Result};

/// Whether a repetition must be answered from the server's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Changes nothing, or may be done twice: sent without a slot.
    Free,
    /// Done once: sent with a slot.
    Once,
}

impl<D: Driver> Caller<D> {
    /// A call that changes nothing.
    pub(crate) async fn ask<C: Call + Sync>(
        &self,
        what: &'static str,
        at: &At,
        call: C,
    ) -> Result<C::Reply>
    where
        C::Reply: Send,
    {
        self.named(what, at, call, Kind::Free).await
    }

    /// A call that changes something, once (I7).
    pub(crate) async fn change<C: Call + Sync>(
        &self,
        what: &'static str,
        at: &At,
        call: C,
    ) -> Result<C::Reply>
    where
        C::Reply: Send,
    {
        self.named(what, at, call, Kind::Once).await
    }

    async fn named<C: Call + Sync>(
        &self,
        what: &'static str,
        at: &At,
        call: C,
        kind: Kind,
    ) -> Result<C::Reply>
    where
        C::Reply: Send,
    {
        self.answered(what, at, call, kind).await.map(|(reply, _)| reply)
    }

    /// A call, with who answered it: a handle is of use to that run of the server alone.
    pub(crate) async fn answered<C: Call + Sync>(
        &self,
        what: &'static str,
        at: &At,
        call: C,
        kind: Kind,
    ) -> Result<(C::Reply, Run)>
    where
        C::Reply: Send,
    {
        let engine = &self.engine;
        // The file whose size the answer has.
        let sized = at.path.is_empty() && [Stat::OP, SetAttributes::OP, Open::OP].contains(&C::OP);
        let told =
            if sized { engine.handles.tell(at.dir).into_iter().collect() } else { Vec::new() };
        let asker = Asker { identity: self.identity.number(), told };
        let deadline = match kind {
            Kind::Free => engine.cut_short([&engine.mds_away], engine.deadline()),
            // What became of a change that is cut short would not be known.
            Kind::Once => engine.deadline(),
        };
        let reply = engine.call_as(&asker, &call, kind, deadline).await;
        reply.map_err(|error| error.during(what, show(at)))
    }
}

/// Who calls, and what is known of files that the call is about.
#[derive(Debug)]
struct Asker {
    identity: u32,
    told: Vec<ToldSize>,
}

impl Asker {
    const fn plain(identity: u32) -> Self {
        Self { identity, told: Vec::new() }
    }

    fn envelope(&self, slot: u32, sequence: u64) -> Envelope {
        Envelope { slot, sequence, identity: self.identity, told: self.told.clone() }
    }
}

impl<D: Driver> Engine<D> {
    pub(crate) async fn call<C: Call + Sync>(
        self: &Arc<Self>,
        identity: u32,
        call: &C,
        kind: Kind,
        deadline: Duration,
    ) -> Result<C::Reply>
    where
        C::Reply: Send,
    {
        self.call_answered(identity, call, kind, deadline).await.map(|(reply, _)| reply)
    }

    pub(crate) async fn call_answered<C: Call + Sync>(
        self: &Arc<Self>,
        identity: u32,
        call: &C,
        kind: Kind,
        deadline: Duration,
    ) -> Result<(C::Reply, Run)>
    where
        C::Reply: Send,
    {
        self.call_as(&Asker::plain(identity), call, kind, deadline).await
    }

    async fn call_as<C: Call + Sync>(
        self: &Arc<Self>,
        asker: &Asker,
        call: &C,
        kind: Kind,
        deadline: Duration,
    ) -> Result<(C::Reply, Run)>
    where
        C::Reply: Send,
    {
        self.check_process()?;
        match kind {
            Kind::Free => self.call_free(asker, call, None, deadline).await,
            Kind::Once => self.call_once(asker, call, deadline).await,
        }
    }

    /// A call about handles of one session, which may be done twice, and tells of their files.
    pub(super) async fn tell_in_session<C: Call + Sync>(
        self: &Arc<Self>,
        session: SessionId,
        told: Vec<ToldSize>,
        call: &C,
        deadline: Duration,
    ) -> Result<C::Reply>
    where
        C::Reply: Send,
    {
        self.check_process()?;
        let asker = Asker { told, ..Asker::plain(0) };
        self.call_free(&asker, call, Some(session), deadline).await.map(|(reply, _)| reply)
    }

    /// A call that may be done twice, about handles of one session: another session has other files under their numbers.
    pub(crate) async fn call_in_session<C: Call + Sync>(
        self: &Arc<Self>,
        session: SessionId,
        identity: u32,
        call: &C,
        deadline: Duration,
    ) -> Result<C::Reply>
    where
        C::Reply: Send,
    {
        self.answered_in_session(session, identity, call, deadline).await.map(|(reply, _)| reply)
    }

    /// As `call_in_session`, with who answered it.
    pub(crate) async fn answered_in_session<C: Call + Sync>(
        self: &Arc<Self>,
        session: SessionId,
        identity: u32,
        call: &C,
        deadline: Duration,
    ) -> Result<(C::Reply, Run)>
    where
        C::Reply: Send,
    {
        self.check_process()?;
        self.call_free(&Asker::plain(identity), call, Some(session), deadline).await
    }

    async fn call_free<C: Call + Sync>(
        self: &Arc<Self>,
        asker: &Asker,
        call: &C,
        only: Option<SessionId>,
        deadline: Duration,
    ) -> Result<(C::Reply, Run)>
    where
        C::Reply: Send,
    {
        self.check_time(deadline, || self.mds_name())?;
        let mut attempts = Attempts::new(self, deadline);
        loop {
            let link = self.link(deadline).await.map_err(|error| attempts.whole(self, error))?;
            if only.is_some_and(|only| only != link.run.session) {
                return Err(Error::refused(&link.server, Status::NoSession.into()));
            }
            match self.try_call(&link, asker.envelope(0, 0), call, deadline).await {
                Ok(reply) => return Ok((reply, link.run)),
                Err(attempt) => attempts.next(self, &link, attempt).await?,
            };
        }
    }

    async fn call_once<C: Call + Sync>(
        self: &Arc<Self>,
        asker: &Asker,
        call: &C,
        deadline: Duration,
    ) -> Result<(C::Reply, Run)>
    where
        C::Reply: Send,
    {
        self.check_time(deadline, || self.mds_name())?;
        let mut attempts = Attempts::new(self, deadline);
        let mut may_be_done = false;
        loop {
            let link = self.link(deadline).await.map_err(|error| attempts.whole(self, error))?;
            let session = Arc::clone(&link.session);
            let mut held = session
                .slots
                .take(&self.driver, deadline)
                .await
                .map_err(|refused| self.waited(refused))?;
            let attempt = self.call_in(
                &session,
                &mut held,
                asker,
                call,
                deadline,
                &mut attempts,
                &mut may_be_done,
            );
            if let Some(reply) = attempt.await? {
                return Ok(reply);
            }
            if may_be_done {
                let why = "the session ended while the call was under way: whether it was done is not known";
                return Err(Error::new(Status::ConnectionLost, why)
                    .with_hint("look whether it was done, then again"));
            }
        }
    }

    /// Repeats the call with one slot as long as the session lives; `None` when another took its place.
    #[allow(clippy::too_many_arguments)]
    async fn call_in<C: Call + Sync>(
        self: &Arc<Self>,
        session: &Arc<Session>,
        held: &mut Held<'_>,
        asker: &Asker,
        call: &C,
        deadline: Duration,
        attempts: &mut Attempts,
        may_be_done: &mut bool,
    ) -> Result<Option<(C::Reply, Run)>>
    where
        C::Reply: Send,
    {
        let envelope = asker.envelope(held.number, held.sequence);
        loop {
            let link = self.link(deadline).await.map_err(|error| attempts.whole(self, error))?;
            if !Arc::ptr_eq(&link.session, session) {
                return Ok(None);
            }
            match self.try_call(&link, envelope.clone(), call, deadline).await {
                Ok(reply) => {
                    held.answered();
                    return Ok(Some((reply, link.run)));
                }
                Err(Attempt::Refused(failure)) if !is_repeated(failure.status) => {
                    held.answered();
                    return Err(Error::refused(&link.server, failure));
                }
                Err(attempt) => *may_be_done |= attempts.next(self, &link, attempt).await?,
            }
        }
    }

    async fn try_call<C: Call + Sync>(
        &self,
        link: &Link<D>,
        envelope: Envelope,
        call: &C,
        deadline: Duration,
    ) -> Result<C::Reply, Attempt>
    where
        C::Reply: Send,
    {
        let deadline = self.attempt(deadline);
        self.ensure_identity(link, envelope.identity, deadline).await?;
        let body = enveloped(&envelope, call);
        let answer =
            self.driver.call(&link.shared, C::OP, &body, deadline).await.map_err(Attempt::Net)?;
        match decode_outcome::<C::Reply>(&answer.body) {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(failure)) => Err(Attempt::Refused(failure)),
            Err(error) => Err(Attempt::Broken(error)),
        }
    }
}

/// Whether a refusal is not the answer: the same call is sent again.
fn is_repeated(status: Status) -> bool {
    status == Status::NoSession || is_passing(status)
}

/// What the attempts of one call share.
pub(crate) struct Attempts {
    backoff: Backoff,
    started: Duration,
    /// The last that the metadata server said of a daemon that it waits for.
    blamed: Option<Error>,
    /// What it said to the attempt before, if it bade to ask again.
    said: Option<Error>,
}

impl Attempts {
    fn new<D: Driver>(engine: &Engine<D>, deadline: Duration) -> Self {
        Self {
            backoff: Backoff::new(deadline),
            started: engine.driver.now(),
            blamed: None,
            said: None,
        }
    }

    fn time<D: Driver>(&self, engine: &Engine<D>) -> Duration {
        engine.driver.now().saturating_sub(self.started)
    }

    /// Why a later attempt found nobody, its time being that of the call so far.
    fn whole<D: Driver>(&self, engine: &Engine<D>, error: Error) -> Error {
        error.tried_for(self.time(engine))
    }

    /// Makes ready for the next attempt, or fails with why there is none. Tells whether the failed one may
    /// have been carried out.
    async fn next<D: Driver>(
        &mut self,
        engine: &Arc<Engine<D>>,
        link: &Arc<Link<D>>,
        failed: Attempt,
    ) -> Result<bool> {
        let said = self.said.take();
        let is_cut = matches!(failed, Attempt::Net(NetError::TimedOut { .. }));
        let (error, may_be_done) = match failed {
            Attempt::Refused(Failure { status: Status::NoSession, .. }) => {
                engine.unlink(link);
                // The session is reclaimed, or a new one made, when the next attempt connects.
                let error = Error::refused(&link.server, Status::NoSession.into());
                return if self.backoff.wait(&engine.driver).await {
                    Ok(false)
                } else {
                    Err(error)
                };
            }
            Attempt::Refused(failure) => {
                let blames = failure.blamed().is_some();
                let error = Error::refused(&link.server, failure);
                self.blamed = (blames && is_passing(error.status())).then(|| error.clone());
                self.said = is_passing(error.status()).then(|| error.clone());
                (error, false)
            }
            Attempt::Broken(error) => (Error::broken(&link.server, error), true),
            Attempt::Net(error) => {
                let sent =
                    matches!(error, NetError::ConnectionLost { .. } | NetError::TimedOut { .. });
                (Error::from(error), sent)
            }
        };
        if may_be_done || error.status() == Status::Unreachable {
            engine.unlink(link);
        }
        if !is_passing(error.status()) {
            return Err(error);
        }
        if let Some(blamed) = &self.blamed
            && engine.is_given_up(link, blamed).await
        {
            return Err(blamed.clone().unreachable());
        }
        if self.backoff.wait(&engine.driver).await {
            return Ok(may_be_done);
        }
        if let Some(blamed) = &self.blamed {
            engine.given_up.waited_for(blamed);
        }
        // An attempt that the deadline cut short says nothing of who is gone: what was said just before it does.
        let told = self.blamed.take().or(said.filter(|_| is_cut));
        let is_silent = told.is_none();
        let error = told.map_or(error, Error::unreachable).given_up(self.time(engine));
        engine.waited_in_vain(is_silent.then_some(&engine.mds_away), &error);
        Err(error)
    }
}
