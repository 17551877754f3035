//! What must be done now and then: the session renewed, closes sent, locks of owners that closed let go, late waiters told.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use braid_net::Driver;
use braid_types::{MapEpoch, SessionId, limits::GRACE_MS};
use braid_wire::{
    Call, decode_outcome,
    message::mds::{CloseSession, Renew},
};

use super::{
    Engine,
    gate::lock,
    handles::Run,
    link::{Link, enveloped},
    mds_call::Kind,
};
use crate::error::{Error, Result};

/// A session is renewed so many times in the silence that would end it, at least.
const RENEWALS_PER_SILENCE: u32 = 4;
/// A session is renewed this often, at least: a client that calls nothing learns by it that the metadata server
/// restarted, and must tell it in time what it has open.
const RENEW_PERIOD: Duration = Duration::from_secs(5);
/// How long a tick may wait for a server, so that one that is away keeps no other client's session waiting.
const TICK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the end of a session may keep a program that exits.
const FAREWELL: Duration = Duration::from_secs(1);
/// How often the faces call [`Engine::tick`].
pub const TICK: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Schedule {
    renewed: Option<(SessionId, Duration)>,
    pub(crate) map_epoch: Option<MapEpoch>,
}

impl<D: Driver> Engine<D> {
    /// To be called about once a [`TICK`]: renews the session when it is time, sends closes, gives idle room back, wakes late waiters.
    ///
    /// # Errors
    /// Those of the calls; the next tick tries again.
    pub async fn tick(self: &Arc<Self>) -> Result<()> {
        self.nudge();
        if lock(&self.session).is_none() {
            return Ok(());
        }
        let outcome = self.nudging(self.renew_and_close()).await;
        self.nudging(self.return_room(false)).await;
        self.nudge();
        outcome
    }

    /// Wakes late waiters also while `work` waits for a server that is away (I8).
    async fn nudging<T>(&self, work: impl Future<Output = T> + Send) -> T {
        let mut work = pin!(work);
        let mut alarm = None;
        poll_fn(|context| {
            loop {
                if let Poll::Ready(value) = work.as_mut().poll(context) {
                    return Poll::Ready(value);
                }
                let ring = alarm.get_or_insert_with(|| Box::pin(self.driver.sleep(TICK)));
                if ring.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                alarm = None;
                self.nudge();
            }
        })
        .await
    }

    async fn renew_and_close(self: &Arc<Self>) -> Result<()> {
        let deadline = self.driver.now().saturating_add(TICK_TIMEOUT.min(self.config.timeout));
        let closed = self.flush_closes_until(deadline).await;
        let renewed =
            if self.is_renewal_due() { self.renew_session(deadline).await } else { Ok(()) };
        closed.and(renewed)?;
        self.settle_unlocks(deadline).await
    }

    fn nudge(&self) {
        self.linking.nudge();
        self.unlocking.nudge();
        if let Some(session) = &*lock(&self.session) {
            session.slots.nudge();
        }
        lock(&self.pools).values().for_each(|pool| pool.nudge());
    }

    fn is_renewal_due(&self) -> bool {
        let Some(session) = lock(&self.session).clone() else { return false };
        let period = Duration::from_millis(u64::from(session.silent_ms_max)) / RENEWALS_PER_SILENCE;
        let period = period.min(RENEW_PERIOD);
        let mut schedule = lock(&self.service);
        match schedule.renewed {
            Some((id, at)) if id == session.id => self.driver.now() >= at.saturating_add(period),
            _ => {
                schedule.renewed = Some((session.id, self.driver.now()));
                false
            }
        }
    }

    async fn renew_session(self: &Arc<Self>, deadline: Duration) -> Result<()> {
        let now = self.driver.now();
        let reply = self.call(0, &Renew {}, Kind::Free, deadline).await?;
        let (session, stale_map) = (lock(&self.session).clone(), {
            let known = lock(&self.service).map_epoch;
            known != Some(reply.map_epoch)
        });
        if let Some(session) = session {
            lock(&self.service).renewed = Some((session.id, now));
            self.leasing.renewed(
                Run { session: session.id, epoch: reply.epoch },
                now,
                self.driver.now(),
            );
            if session.epoch() != reply.epoch {
                self.relink(deadline).await?;
            }
        }
        if stale_map { self.refresh_map(deadline).await } else { Ok(()) }
    }

    /// Ends the session in good order: closes are sent, what is open is closed. Errors are of no use to
    /// a program that ends; the server ends a silent session by itself.
    pub async fn shut_down(self: &Arc<Self>) {
        if self.check_process().is_err() {
            return;
        }
        self.leasing.end();
        self.return_room(true).await;
        let link = lock(&self.link).take();
        if let Some(link) = link {
            let deadline = self.driver.now().saturating_add(FAREWELL.min(self.config.timeout));
            let _ = self.call_on::<CloseSession>(&link, CloseSession {}, true, deadline).await;
        }
    }

    /// A message that both kinds of server understand, to the metadata server.
    pub(crate) async fn common_call<C: Call + Sync>(
        self: &Arc<Self>,
        call: C,
        deadline: Duration,
    ) -> Result<C::Reply>
    where
        C::Reply: Send,
    {
        let link = self.link(deadline).await?;
        self.call_on(&link, call, false, deadline).await
    }

    /// One attempt on a connection, outside of any retry.
    pub(super) async fn call_on<C: Call + Sync>(
        &self,
        link: &Link<D>,
        call: C,
        envelope: bool,
        deadline: Duration,
    ) -> Result<C::Reply>
    where
        C::Reply: Send,
    {
        let body = if envelope {
            enveloped(&braid_wire::message::mds::Envelope::PLAIN, &call)
        } else {
            call.to_bytes()
        };
        let answer = self.driver.call(&link.shared, C::OP, &body, deadline).await?;
        decode_outcome::<C::Reply>(&answer.body)
            .map_err(|error| Error::broken(&link.server, error))?
            .map_err(|failure| Error::refused(&link.server, failure))
    }
}

const _: () = {
    let noticed = RENEW_PERIOD.as_millis() + TICK.as_millis() + TICK_TIMEOUT.as_millis();
    assert!(noticed < GRACE_MS as u128, "an idle client reclaims within the grace period");
};
