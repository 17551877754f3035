//! The recall channel: a separate connection with one pending `AwaitRecalls`, which the server
//! answers when it recalls leases. It is separate so that the thread that waits here never receives
//! replies to other calls. ADR 0009.

use std::{sync::Arc, time::Duration};

use braid_net::Driver;
use braid_types::{Status, limits::AWAIT_RECALLS_MS};
use braid_wire::message::mds::{AwaitRecalls, Envelope};

use super::{Engine, ServerEpoch, semaphore::lock};
use crate::{
    error::{Error, Result},
    lease::{Recalled, RequiredAction},
};

/// Additional time for a reply, beyond the time that the server may hold it back.
const REPLY_MS: u64 = 2_000;
/// The wait after a failure.
const RETRY_WAIT: Duration = Duration::from_millis(100);

/// A connection that waits for recalls.
pub(crate) struct RecallChannel<D: Driver> {
    shared: D::Shared,
    run: ServerEpoch,
    server: String,
}

/// What the thread that carries out recalls must do.
#[derive(Debug)]
pub enum RecallNotice {
    /// All leases are lost: drop everything, then call [`Engine::all_invalidated`] with this
    /// number.
    AllLost(u64),
    /// Recalled leases; end each with [`Engine::carried_out`].
    Recalled(Vec<Recalled>),
    /// Nothing to do: call again.
    Quiet,
    /// The client is closed.
    Ended,
}

impl<D: Driver> Engine<D> {
    /// Waits, for a bounded time, for something to do about leases. Called repeatedly by one task
    /// or thread that does nothing else.
    pub async fn next_notice(self: &Arc<Self>) -> RecallNotice {
        if !self.is_ours() || self.lease_client.has_ended() {
            return RecallNotice::Ended;
        }
        match self.lease_client.required_action(self.driver.now()) {
            RequiredAction::Invalidate(lost) => RecallNotice::AllLost(lost),
            RequiredAction::AwaitRecalls(seen, until) => {
                match self.await_recalls(seen, until).await {
                    Ok(recalled) if recalled.is_empty() => RecallNotice::Quiet,
                    Ok(recalled) => RecallNotice::Recalled(recalled),
                    Err(_) => {
                        *lock(&self.lease_client.channel) = None;
                        self.driver.sleep(RETRY_WAIT).await;
                        RecallNotice::Quiet
                    }
                }
            }
        }
    }

    /// The caches were dropped for all lease losses up to this number.
    pub fn all_invalidated(&self, lost: u64) {
        self.lease_client.state().all_invalidated(lost);
    }

    async fn await_recalls(
        self: &Arc<Self>,
        seen: u64,
        until: Option<Duration>,
    ) -> Result<Vec<Recalled>> {
        let sent = self.driver.now();
        let deadline = sent + Duration::from_millis(AWAIT_RECALLS_MS + REPLY_MS);
        let deadline = until.map_or(deadline, |until| until.min(deadline));
        let channel = self.recall_channel(deadline).await?;
        if !self.lease_client.may_await(channel.run, seen, sent) {
            // The client connected to another epoch meanwhile, which would take this call as the
            // confirmation that everything cached before is dropped.
            return Ok(Vec::new());
        }
        let io_under_leases = self.lease_client.does_io_under_leases();
        let call = AwaitRecalls { seen, io_under_leases };
        let recalls = self.exchange(&channel.shared, Some(&Envelope::PLAIN), &call, deadline).await;
        let recalls = recalls.map_err(|failure| failure.into_error(&channel.server))?;
        let now = self.driver.now();
        let mut holding = self.lease_client.state();
        holding.renewed(channel.run, sent, now);
        Ok(holding.recalls(channel.run, &recalls, now))
    }

    async fn recall_channel(self: &Arc<Self>, deadline: Duration) -> Result<Arc<RecallChannel<D>>> {
        let link = self.mds_connection(deadline).await?;
        let known = lock(&self.lease_client.channel).clone();
        if let Some(channel) = known.filter(|channel| channel.run == link.epoch) {
            return Ok(channel);
        }
        let endpoint = self.mds_endpoint()?;
        let shared = self.driver.connect_shared(&endpoint, self.attempt_deadline(deadline)).await?;
        let reply = self.join_session(&shared, &link.server, Some(&link.session), deadline).await?;
        let run = ServerEpoch { session: reply.session, epoch: reply.epoch };
        if run != link.epoch {
            // The server restarted, and the other connection has not noticed yet. That connection
            // must reclaim first.
            self.drop_mds_connection(&link);
            return Err(Error::refused(&link.server, Status::TryAgain.into()));
        }
        let channel = Arc::new(RecallChannel { shared, run, server: link.server.clone() });
        if !self.lease_client.has_ended() {
            *lock(&self.lease_client.channel) = Some(Arc::clone(&channel));
        }
        Ok(channel)
    }
}
