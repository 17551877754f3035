//! Periodic work: renews the session, sends closes and pending unlocks, returns unused
//! reservations, wakes waiters whose deadline has passed.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use braid_net::Driver;
use braid_types::{MapEpoch, SessionId, limits::GRACE_MS};
use braid_wire::{
    Call,
    message::mds::{CloseSession, Envelope, Renew},
};

use super::{Engine, open_table::ServerEpoch, semaphore::lock};
use crate::error::Result;

/// The session is renewed at least this often within the silence that would end it.
const RENEWALS_PER_SILENCE: u32 = 4;
/// The longest time between renewals. An idle client notices a restart of the metadata server this
/// way, and must reclaim in time.
const RENEW_PERIOD: Duration = Duration::from_secs(5);
/// The longest time of a tick, so that an unresponsive server delays no other client's session.
const TICK_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest delay of an exiting program by the end of its session.
const SESSION_END_TIMEOUT: Duration = Duration::from_secs(1);
/// How often both APIs call [`Engine::tick`].
pub const TICK: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Schedule {
    renewed: Option<(SessionId, Duration)>,
    pub(crate) map_epoch: Option<MapEpoch>,
}

impl<D: Driver> Engine<D> {
    /// Must be called about once per [`TICK`]: renews the session when necessary, sends closes,
    /// returns unused reservations, wakes waiters whose deadline has passed.
    ///
    /// # Errors
    /// Those of the calls; the next tick retries them.
    pub async fn tick(self: &Arc<Self>) -> Result<()> {
        self.wake_expired();
        if lock(&self.session).is_none() {
            return Ok(());
        }
        let outcome = self.waking_expired(self.renew_and_close()).await;
        self.waking_expired(self.return_reservations(false)).await;
        self.wake_expired();
        outcome
    }

    /// Wakes expired waiters also while `work` waits for an unresponsive server (I8).
    async fn waking_expired<T>(&self, work: impl Future<Output = T> + Send) -> T {
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
                self.wake_expired();
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
        self.send_pending_unlocks(deadline).await
    }

    fn wake_expired(&self) {
        self.connecting.wake_expired();
        self.unlock_queues.wake_expired();
        if let Some(session) = &*lock(&self.session) {
            session.slots.wake_expired();
        }
        lock(&self.pools).values().for_each(|pool| pool.wake_expired());
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
        let reply = self.repeatable(Renew {}).until(deadline).send().await?;
        let (session, stale_map) = (lock(&self.session).clone(), {
            let known = lock(&self.service).map_epoch;
            known != Some(reply.map_epoch)
        });
        if let Some(session) = session {
            lock(&self.service).renewed = Some((session.id, now));
            self.lease_client.renewed(
                ServerEpoch { session: session.id, epoch: reply.epoch },
                now,
                self.driver.now(),
            );
            if session.epoch() != reply.epoch {
                self.reconnect_mds(deadline).await?;
            }
        }
        if stale_map { self.refresh_map(deadline).await } else { Ok(()) }
    }

    /// Ends the session: sends closes, and closes open files. A program that ends has no use for
    /// errors, and the server ends a silent session by itself.
    pub async fn shut_down(self: &Arc<Self>) {
        if self.check_process().is_err() {
            return;
        }
        self.lease_client.end();
        self.return_reservations(true).await;
        let link = lock(&self.mds_connection).take();
        if let Some(link) = link {
            let deadline =
                self.driver.now().saturating_add(SESSION_END_TIMEOUT.min(self.config.timeout));
            let _ = self
                .exchange(&link.shared, Some(&Envelope::PLAIN), &CloseSession {}, deadline)
                .await;
        }
        // Otherwise the next tick would open another session, as long as a file of this client
        // exists.
        *lock(&self.session) = None;
    }

    /// Ends the connection and leaves the session as it is, for the next start of a gateway. What
    /// was closed is closed at the server, too.
    pub async fn leave(self: &Arc<Self>) {
        if self.check_process().is_err() {
            return;
        }
        self.left.store(true, Ordering::SeqCst);
        self.lease_client.end();
        let deadline =
            self.driver.now().saturating_add(SESSION_END_TIMEOUT.min(self.config.timeout));
        // A close that the server does not receive stays in the listing of the next start.
        let _ = self.flush_closes_until(deadline).await;
        let _ = self.send_pending_unlocks(deadline).await;
        self.return_reservations(true).await;
        drop(lock(&self.mds_connection).take());
        // Otherwise the next tick would connect again.
        *lock(&self.session) = None;
    }

    /// One attempt of a call that both kinds of server understand, to the metadata server.
    pub(crate) async fn call_without_envelope<C: Call + Sync>(
        self: &Arc<Self>,
        call: C,
        deadline: Duration,
    ) -> Result<C::Reply>
    where
        C::Reply: Send,
    {
        let link = self.mds_connection(deadline).await?;
        let reply = self.exchange(&link.shared, None, &call, deadline).await;
        reply.map_err(|failure| failure.into_error(&link.server))
    }
}

const _: () = {
    let noticed = RENEW_PERIOD.as_millis() + TICK.as_millis() + TICK_TIMEOUT.as_millis();
    assert!(noticed < GRACE_MS as u128, "an idle client reclaims within the grace period");
};
