//! Leases of one client: asking, giving back, and whether what was kept may still be used. What is believed is decided
//! in [`crate::lease`]; this gives it the time, the messages and a lock.
//!
//! A client that serves no recalls asks for nothing and pays nothing.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use braid_layout::Layout;
use braid_net::Driver;
use braid_types::{FileIndex, Status, limits::LEASES_RETURNED_MAX};
use braid_wire::message::{
    lease::{LeaseGrant, LeaseMode, ReturnedLease},
    mds::{LayoutGrant, LeaseData, LeaseLayout, LeaseNames, NamesGrant, ReturnLeases},
    types::{At, Attributes},
};

use super::{Caller, Engine, Run, gate::lock, recalls::Channel};
use crate::{
    error::{Error, Result},
    lease::{Ask, Duty, Holding, LeaseOf, LeaseTicket, Recalled},
};

/// The leases of one client.
pub(crate) struct Leasing<D: Driver> {
    holding: Mutex<Holding>,
    /// Somebody carries recalls out.
    served: AtomicBool,
    ended: AtomicBool,
    /// Given back, and the server does not know it yet.
    returns: Mutex<Vec<ReturnedLease>>,
    pub(super) channel: Mutex<Option<Arc<Channel<D>>>>,
}

impl<D: Driver> Default for Leasing<D> {
    fn default() -> Self {
        let (served, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        Self {
            holding: Mutex::new(Holding::new()),
            served,
            ended,
            returns: Mutex::default(),
            channel: Mutex::new(None),
        }
    }
}

impl<D: Driver> Leasing<D> {
    /// Recalls are carried out from now on; whether they were not before.
    pub(crate) fn serve(&self) -> bool {
        !self.served.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_served(&self) -> bool {
        self.served.load(Ordering::Acquire)
    }

    /// The session ends: nothing is believed any more.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        *lock(&self.channel) = None;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// A connection to this run of the server was made.
    pub(super) fn met(&self, run: Run) {
        lock(&self.holding).met(run);
    }

    /// Whether leases of another run of the server may still be used.
    pub(super) fn may_believe(&self) -> bool {
        self.is_served() && lock(&self.holding).owes_dropping()
    }

    pub(super) fn renewed(&self, run: Run, sent: Duration, now: Duration) {
        if self.is_served() {
            lock(&self.holding).renewed(run, sent, now);
        }
    }

    pub(super) fn duty(&self, now: Duration) -> Duty {
        lock(&self.holding).duty(now)
    }

    /// Whether recalls may be awaited of this run, having seen those up to this number.
    pub(super) fn may_await(&self, run: Run, seen: u64, now: Duration) -> bool {
        let mut holding = lock(&self.holding);
        holding.is_of(run) && matches!(holding.duty(now), Duty::Await(known, _) if known == seen)
    }

    pub(super) fn holding(&self) -> std::sync::MutexGuard<'_, Holding> {
        lock(&self.holding)
    }
}

/// An ask that is under way: forgotten when it is dropped without an answer.
pub(crate) struct Asking<'a, D: Driver> {
    leasing: &'a Leasing<D>,
    ask: Option<Ask>,
}

impl<D: Driver> Drop for Asking<'_, D> {
    fn drop(&mut self) {
        if let Some(ask) = self.ask.take() {
            lock(&self.leasing.holding).unanswered(ask);
        }
    }
}

impl<D: Driver> Asking<'_, D> {
    /// The answer came, from `run`: the lease, if it is one and no recall has overtaken it.
    pub(crate) fn answered(
        mut self,
        run: Run,
        of: LeaseOf,
        grant: LeaseGrant,
        now: Duration,
    ) -> Option<LeaseTicket> {
        let ask = self.ask.take()?;
        lock(&self.leasing.holding).answered(ask, run, Some((of, grant)), now)
    }
}

impl<D: Driver> Engine<D> {
    /// A lease, if it is held now. See [`Engine::still`].
    pub fn ticket(&self, of: LeaseOf) -> Option<LeaseTicket> {
        if !self.is_ours() || !self.leasing.is_served() || self.leasing.has_ended() {
            return None;
        }
        lock(&self.leasing.holding).ticket(of, self.driver.now())
    }

    /// Whether a lease was held, and allowed the same, from the moment of the ticket until now. What a call answered
    /// that was sent after the ticket was taken may be kept if it says so, for as long as it says so.
    pub fn still(&self, ticket: &LeaseTicket) -> bool {
        self.ticket(ticket.of()).as_ref() == Some(ticket)
    }

    /// Gives a lease back that is of no more use; the server is told with the next closes.
    pub(crate) fn give_back_later(&self, of: LeaseOf) {
        if let Some(returned) = self.leasing.holding().give_back(of) {
            lock(&self.leasing.returns).push(returned);
        }
    }

    /// How many leases the server is still to be told of.
    pub(super) fn returns(&self) -> usize {
        lock(&self.leasing.returns).len()
    }

    /// Tells the server of leases that were given back. One that it does not learn of it recalls when it wants it.
    pub(super) async fn flush_returns(self: &Arc<Self>) {
        let mut waiting = std::mem::take(&mut *lock(&self.leasing.returns));
        while !waiting.is_empty() {
            let rest = waiting.split_off(waiting.len().min(LEASES_RETURNED_MAX));
            let _ = self.return_leases(waiting).await;
            waiting = rest;
        }
    }

    /// Says that recalls are carried out from now on: before this nothing is asked for. Whether they were not before.
    pub fn serve_recalls(&self) -> bool {
        self.is_ours() && self.leasing.serve()
    }

    /// Begins to ask for a lease; `None` when nobody carries recalls out.
    pub(crate) fn asking(&self) -> Option<Asking<'_, D>> {
        self.leasing.is_served().then(|| {
            let ask = lock(&self.leasing.holding).ask(self.driver.now());
            Asking { leasing: &self.leasing, ask: Some(ask) }
        })
    }

    /// Tells the server that leases are given back.
    pub(super) async fn return_leases(self: &Arc<Self>, leases: Vec<ReturnedLease>) -> Result<()> {
        if leases.is_empty() {
            return Ok(());
        }
        self.repeatable(ReturnLeases { leases }).until(self.deadline()).send().await
    }

    /// A recall has been carried out, and `keep` is kept. The server is told of it for as long as leases are believed: after that
    /// they are lost, and it learns so when it is heard again.
    ///
    /// # Errors
    /// The server is not reached: it recalls again, or ends the session.
    pub async fn carried_out(self: &Arc<Self>, recalled: &Recalled, keep: LeaseMode) -> Result<()> {
        let returned = self.leasing.holding().carried_out(recalled, keep);
        let call = ReturnLeases { leases: vec![returned] };
        let latest = self.deadline();
        let believed_until = || latest.min(self.leasing.holding().believed_until());
        let mut until = believed_until();
        loop {
            if self.driver.now() >= until {
                let why = "the leases are lost: the server did not answer in time";
                return Err(Error::new(Status::Unreachable, why).at(self.mds_name()));
            }
            let reply = self.repeatable(call.clone()).until(until).send().await;
            let now_until = believed_until();
            // Where the server was heard of meanwhile, the lease is believed for longer.
            if reply.is_ok() || now_until <= until {
                return reply;
            }
            until = now_until;
        }
    }
}

impl<D: Driver> Caller<D> {
    /// Asks for the names lease of a directory. `None`: something is in its way; it is not waited for.
    ///
    /// # Errors
    /// As any call.
    pub async fn ask_names(&self, dir: FileIndex) -> Result<Option<LeaseTicket>> {
        Ok(self.ask_names_told(dir).await?.map(|(ticket, _)| ticket))
    }

    /// As `ask_names`; told as well are the directory's own attributes, which may be kept under the ticket.
    pub async fn ask_names_told(
        &self,
        dir: FileIndex,
    ) -> Result<Option<(LeaseTicket, Attributes)>> {
        let Some(asking) = self.engine.asking() else { return Ok(None) };
        let (at, call) = (At::file(dir), LeaseNames { dir });
        let (granted, run) =
            self.repeatable("ask for the names lease of", &at, call).send_with_epoch().await?;
        let Some(NamesGrant { number, attributes }) = granted else { return Ok(None) };
        let grant = LeaseGrant { mode: LeaseMode::Read, number, ..LeaseGrant::NONE };
        let ticket = asking.answered(run, LeaseOf::Names(dir), grant, self.engine.driver.now());
        Ok(ticket.map(|ticket| (ticket, attributes)))
    }

    /// Asks for the layout lease of a file; told as well is the layout, which may be kept under the ticket. `None`: something
    /// is in its way; it is not waited for.
    ///
    /// # Errors
    /// As any call.
    pub async fn ask_layout(&self, file: FileIndex) -> Result<Option<(LeaseTicket, Layout)>> {
        let Some(asking) = self.engine.asking() else { return Ok(None) };
        let (at, call) = (At::file(file), LeaseLayout { file });
        let (granted, run) =
            self.repeatable("ask for the layout lease of", &at, call).send_with_epoch().await?;
        let Some(LayoutGrant { number, layout }) = granted else { return Ok(None) };
        let grant = LeaseGrant { mode: LeaseMode::Read, number, ..LeaseGrant::NONE };
        let ticket = asking.answered(run, LeaseOf::Layout(file), grant, self.engine.driver.now());
        Ok(ticket.map(|ticket| (ticket, layout)))
    }

    /// Asks for the data lease of a file, and waits while it is recalled from others. What comes may be less than what
    /// was wished, unless it is to be had `alone`; `None` when it was recalled again before it came: ask again.
    ///
    /// # Errors
    /// As any call; [`braid_types::Status::TryAgain`] with the name of a client that does not give it back.
    pub async fn ask_data(
        &self,
        file: FileIndex,
        mode: LeaseMode,
        alone: bool,
    ) -> Result<Option<LeaseTicket>> {
        let Some(asking) = self.engine.asking() else { return Ok(None) };
        let call = LeaseData { file, mode, alone };
        let (grant, run) = self
            .repeatable("ask for the data lease of", &At::file(file), call)
            .send_with_epoch()
            .await?;
        Ok(asking.answered(run, LeaseOf::Data(file), grant, self.engine.driver.now()))
    }

    /// Gives a lease back that is of no more use. It is lost at once; nothing that was kept under it may be used.
    ///
    /// # Errors
    /// As any call: the server learns it when it wants the lease.
    pub async fn give_back(&self, of: LeaseOf) -> Result<()> {
        self.engine.check_process()?;
        let returned = self.engine.leasing.holding().give_back(of);
        self.engine.return_leases(returned.into_iter().collect()).await
    }
}
