//! Leases of one client: requesting and returning them, and whether cached data may still be used.
//! The state machine is in [`crate::lease`]; this module supplies the time, the messages and a
//! lock.
//!
//! A client that does not serve recalls requests no leases and pays nothing.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::Duration,
};

use braid_layout::Layout;
use braid_net::Driver;
use braid_types::{FileIndex, Status, limits::LEASES_RETURNED_MAX};
use braid_wire::message::{
    lease::{LeaseGrant, LeaseMode, ReturnedLease},
    mds::{
        LayoutGrant, LeaseData, LeaseDelegation, LeaseLayout, LeaseNames, NamesGrant, ReturnLeases,
    },
    types::{Attributes, PathRef},
};

use super::{Caller, Engine, ServerEpoch, recall_channel::RecallChannel, semaphore::lock};
use crate::{
    error::{Error, Result},
    lease::{LeaseOf, LeaseRequest, LeaseState, LeaseTicket, Recalled, RequiredAction},
};

const NOBODY: u8 = 0;
const UNDER_LEASES: u8 = 1;
const WITHOUT_LEASES: u8 = 2;

/// The leases of one client.
pub(crate) struct LeaseClient<D: Driver> {
    state: Mutex<LeaseState>,
    /// Whether some thread or task carries out recalls: one of `NOBODY`, `UNDER_LEASES` and
    /// `WITHOUT_LEASES`, which differ as [`crate::lease::LeaseHolder::does_io_under_leases`] says.
    holder: AtomicU8,
    ended: AtomicBool,
    /// Returned leases that the server does not know of yet.
    pending_returns: Mutex<Vec<ReturnedLease>>,
    pub(super) channel: Mutex<Option<Arc<RecallChannel<D>>>>,
}

impl<D: Driver> Default for LeaseClient<D> {
    fn default() -> Self {
        Self {
            state: Mutex::new(LeaseState::new()),
            holder: AtomicU8::new(NOBODY),
            ended: AtomicBool::new(false),
            pending_returns: Mutex::default(),
            channel: Mutex::new(None),
        }
    }
}

impl<D: Driver> LeaseClient<D> {
    /// Recalls are carried out from now on. Returns whether they were not before.
    pub(crate) fn serve(&self, io_under_leases: bool) -> bool {
        let holder = if io_under_leases { UNDER_LEASES } else { WITHOUT_LEASES };
        let (set, failed) = (Ordering::AcqRel, Ordering::Acquire);
        self.holder.compare_exchange(NOBODY, holder, set, failed).is_ok()
    }

    /// Nobody carries out recalls after all.
    pub(crate) fn serve_not(&self) {
        self.holder.store(NOBODY, Ordering::Release);
    }

    pub(crate) fn has_holder(&self) -> bool {
        self.holder.load(Ordering::Acquire) != NOBODY
    }

    pub(super) fn does_io_under_leases(&self) -> bool {
        self.holder.load(Ordering::Acquire) != WITHOUT_LEASES
    }

    /// The session ends: no lease is valid any more.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        *lock(&self.channel) = None;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// A connection to this epoch of the server was made.
    pub(super) fn set_epoch(&self, run: ServerEpoch) {
        lock(&self.state).set_epoch(run);
    }

    /// Whether leases of another epoch may still be in use.
    pub(super) fn may_use_old_leases(&self) -> bool {
        self.has_holder() && lock(&self.state).must_invalidate()
    }

    pub(super) fn renewed(&self, run: ServerEpoch, sent: Duration, now: Duration) {
        if self.has_holder() {
            lock(&self.state).renewed(run, sent, now);
        }
    }

    pub(super) fn required_action(&self, now: Duration) -> RequiredAction {
        lock(&self.state).required_action(now)
    }

    /// Whether recalls of this epoch after this number may be awaited.
    pub(super) fn may_await(&self, run: ServerEpoch, seen: u64, now: Duration) -> bool {
        let mut holding = lock(&self.state);
        if !holding.is_of(run) {
            return false;
        }
        let action = holding.required_action(now);
        matches!(action, RequiredAction::AwaitRecalls(known, _) if known == seen)
    }

    pub(super) fn state(&self) -> std::sync::MutexGuard<'_, LeaseState> {
        lock(&self.state)
    }
}

/// A lease request in flight. Cancelled when dropped without a reply.
pub(crate) struct PendingRequest<'a, D: Driver> {
    leasing: &'a LeaseClient<D>,
    ask: Option<LeaseRequest>,
}

impl<D: Driver> Drop for PendingRequest<'_, D> {
    fn drop(&mut self) {
        if let Some(ask) = self.ask.take() {
            lock(&self.leasing.state).unanswered(ask);
        }
    }
}

impl<D: Driver> PendingRequest<'_, D> {
    /// The reply came, from epoch `run`. Returns the lease if one was granted and no recall has
    /// overtaken it.
    pub(crate) fn answered(
        mut self,
        run: ServerEpoch,
        of: LeaseOf,
        grant: LeaseGrant,
        now: Duration,
    ) -> Option<LeaseTicket> {
        let ask = self.ask.take()?;
        lock(&self.leasing.state).answered(ask, run, Some((of, grant)), now)
    }
}

impl<D: Driver> Engine<D> {
    /// A lease, if it is held now. See [`Engine::is_valid`].
    pub fn ticket(&self, of: LeaseOf) -> Option<LeaseTicket> {
        if !self.is_ours() || !self.lease_client.has_holder() || self.lease_client.has_ended() {
            return None;
        }
        lock(&self.lease_client.state).ticket(of, self.driver.now())
    }

    /// Whether the lease was held, and allowed the same, from the moment of the ticket until now. A
    /// reply to a call that was sent after the ticket was taken may be cached, and used, as long as
    /// this returns true.
    pub fn is_valid(&self, ticket: &LeaseTicket) -> bool {
        self.ticket(ticket.of()).as_ref() == Some(ticket)
    }

    /// Returns a lease that is not needed any more. The server learns of it with the next closes.
    pub(crate) fn return_lease_later(&self, of: LeaseOf) {
        if let Some(returned) = self.lease_client.state().return_lease(of) {
            lock(&self.lease_client.pending_returns).push(returned);
        }
    }

    /// The number of returned leases that the server does not know of yet.
    pub(super) fn pending_returns(&self) -> usize {
        lock(&self.lease_client.pending_returns).len()
    }

    /// Sends the returned leases to the server. If one is not received, the server recalls it when
    /// another client needs it.
    pub(super) async fn flush_returns(self: &Arc<Self>) {
        let mut waiting = std::mem::take(&mut *lock(&self.lease_client.pending_returns));
        while !waiting.is_empty() {
            let rest = waiting.split_off(waiting.len().min(LEASES_RETURNED_MAX));
            let _ = self.return_leases(waiting).await;
            waiting = rest;
        }
    }

    /// Recalls are carried out from now on; before this, no lease is requested. Returns whether
    /// they were not before.
    pub fn serve_recalls(&self, io_under_leases: bool) -> bool {
        self.is_ours() && self.lease_client.serve(io_under_leases)
    }

    /// The thread that was to carry out recalls could not be started.
    pub(crate) fn serve_no_recalls(&self) {
        self.lease_client.serve_not();
    }

    /// Whether somebody carries out recalls.
    pub(crate) fn serves_recalls(&self) -> bool {
        self.lease_client.has_holder()
    }

    /// Begins a lease request; `None` if nobody carries out recalls.
    pub(crate) fn begin_request(&self) -> Option<PendingRequest<'_, D>> {
        self.lease_client.has_holder().then(|| {
            let ask = lock(&self.lease_client.state).begin_request(self.driver.now());
            PendingRequest { leasing: &self.lease_client, ask: Some(ask) }
        })
    }

    /// Sends returned leases to the server.
    pub(super) async fn return_leases(self: &Arc<Self>, leases: Vec<ReturnedLease>) -> Result<()> {
        if leases.is_empty() {
            return Ok(());
        }
        self.repeatable(ReturnLeases { leases }).until(self.deadline()).send().await
    }

    /// A recall has been carried out, and the mode `keep` is kept. Reports it to the server for as
    /// long as leases are valid. After that they are lost, which the server learns at the next
    /// contact.
    ///
    /// # Errors
    /// The server is not reached: it repeats the recall, or ends the session.
    pub async fn carried_out(self: &Arc<Self>, recalled: &Recalled, keep: LeaseMode) -> Result<()> {
        let returned = self.lease_client.state().carried_out(recalled, keep);
        let call = ReturnLeases { leases: vec![returned] };
        let latest = self.deadline();
        let lease_end = || latest.min(self.lease_client.state().valid_until());
        let mut until = lease_end();
        loop {
            if self.driver.now() >= until {
                let why = "the leases are lost: the server did not answer in time";
                return Err(Error::new(Status::Unreachable, why).at(self.mds_name()));
            }
            let reply = self.repeatable(call.clone()).until(until).send().await;
            let now_until = lease_end();
            // If the server has answered a renewal meanwhile, the lease is valid longer.
            if reply.is_ok() || now_until <= until {
                return reply;
            }
            until = now_until;
        }
    }
}

impl<D: Driver> Caller<D> {
    /// Requests the names lease of a directory. `None`: something conflicts; the call does not
    /// wait.
    ///
    /// # Errors
    /// As any call.
    pub async fn ask_names(&self, dir: FileIndex) -> Result<Option<LeaseTicket>> {
        Ok(self.ask_names_with_attributes(dir).await?.map(|(ticket, _)| ticket))
    }

    /// As `ask_names`; also returns the directory's own attributes, which may be cached under the
    /// ticket.
    pub async fn ask_names_with_attributes(
        &self,
        dir: FileIndex,
    ) -> Result<Option<(LeaseTicket, Attributes)>> {
        let Some(asking) = self.engine.begin_request() else { return Ok(None) };
        let (at, call) = (PathRef::file(dir), LeaseNames { dir });
        let (granted, run) =
            self.repeatable("ask for the names lease of", &at, call).send_with_epoch().await?;
        let Some(NamesGrant { number, attributes }) = granted else { return Ok(None) };
        let grant = LeaseGrant { mode: LeaseMode::Read, number, ..LeaseGrant::NONE };
        let ticket = asking.answered(run, LeaseOf::Names(dir), grant, self.engine.driver.now());
        Ok(ticket.map(|ticket| (ticket, attributes)))
    }

    /// Requests the layout lease of a file. Returns also the layout, which may be cached under the
    /// ticket. `None`: something conflicts; the call does not wait.
    ///
    /// # Errors
    /// As any call.
    pub async fn ask_layout(&self, file: FileIndex) -> Result<Option<(LeaseTicket, Layout)>> {
        let Some(asking) = self.engine.begin_request() else { return Ok(None) };
        let (at, call) = (PathRef::file(file), LeaseLayout { file });
        let (granted, run) =
            self.repeatable("ask for the layout lease of", &at, call).send_with_epoch().await?;
        let Some(LayoutGrant { number, layout }) = granted else { return Ok(None) };
        let grant = LeaseGrant { mode: LeaseMode::Read, number, ..LeaseGrant::NONE };
        let ticket = asking.answered(run, LeaseOf::Layout(file), grant, self.engine.driver.now());
        Ok(ticket.map(|ticket| (ticket, layout)))
    }

    /// Requests the data lease of a file, and waits while it is recalled from other clients. Unless
    /// `alone` is set, the granted mode may be less than the requested one. `None` if it was
    /// recalled again before the reply came: call again.
    ///
    /// # Errors
    /// As any call; [`braid_types::Status::TryAgain`] with the name of a client that does not
    /// return its lease.
    pub async fn ask_data(
        &self,
        file: FileIndex,
        mode: LeaseMode,
        alone: bool,
    ) -> Result<Option<LeaseTicket>> {
        let Some(asking) = self.engine.begin_request() else { return Ok(None) };
        let call = LeaseData { file, mode, exclusive: alone };
        let (grant, run) = self
            .repeatable("ask for the data lease of", &PathRef::file(file), call)
            .send_with_epoch()
            .await?;
        Ok(asking.answered(run, LeaseOf::Data(file), grant, self.engine.driver.now()))
    }

    /// Requests the delegation of a file that the session has open. `None`: something conflicts,
    /// or it was recalled before the reply came; the call does not wait.
    ///
    /// # Errors
    /// As any call.
    pub async fn ask_delegation(
        &self,
        file: FileIndex,
        mode: LeaseMode,
    ) -> Result<Option<LeaseTicket>> {
        let Some(asking) = self.engine.begin_request() else { return Ok(None) };
        let (at, call) = (PathRef::file(file), LeaseDelegation { file, mode });
        let (granted, run) =
            self.repeatable("ask for the delegation of", &at, call).send_with_epoch().await?;
        let Some(number) = granted else { return Ok(None) };
        let grant = LeaseGrant { mode, number, ..LeaseGrant::NONE };
        let of = LeaseOf::Delegation(file);
        Ok(asking.answered(run, of, grant, self.engine.driver.now()))
    }

    /// Returns a lease that is not needed any more. It is lost immediately; nothing cached under it
    /// may be used.
    ///
    /// # Errors
    /// As any call. The server then learns of it when it recalls the lease.
    pub async fn return_lease(&self, of: LeaseOf) -> Result<()> {
        self.engine.check_process()?;
        let returned = self.engine.lease_client.state().return_lease(of);
        self.engine.return_leases(returned.into_iter().collect()).await
    }
}
