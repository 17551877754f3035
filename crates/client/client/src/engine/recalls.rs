//! The channel of recalls: a connection of its own, so that nobody else's answer is read by the thread that waits there,
//! and one `AwaitRecalls` on it that the server answers when it has something to say. ADR 0009.

use std::{sync::Arc, time::Duration};

use braid_net::Driver;
use braid_types::{Status, limits::AWAIT_RECALLS_MS};
use braid_wire::message::mds::{AwaitRecalls, Envelope};

use super::{Engine, Run, gate::lock};
use crate::{
    error::{Error, Result},
    lease::{Duty, Recalled},
};

/// What an answer may take beyond the time that the server holds it back.
const ANSWER_MS: u64 = 2_000;
/// The wait after a failure, while leases are believed or not.
const REST: Duration = Duration::from_millis(100);

/// A connection that waits for recalls.
pub(crate) struct Channel<D: Driver> {
    shared: D::Shared,
    run: Run,
    server: String,
}

/// What whoever carries recalls out is told.
#[derive(Debug)]
pub enum Notice {
    /// Every lease is lost: drop everything, then say so to [`Engine::all_dropped`] with this number.
    LostAll(u64),
    /// These are wanted back, each to be ended with [`Engine::carried_out`].
    Recalled(Vec<Recalled>),
    /// Nothing for now: ask again.
    Quiet,
    /// The client is closed.
    Ended,
}

impl<D: Driver> Engine<D> {
    /// Waits, bounded, for something to do about leases. To be called again and again by one task or thread, which
    /// serves nobody else.
    pub async fn next_notice(self: &Arc<Self>) -> Notice {
        if !self.is_ours() || self.leasing.has_ended() {
            return Notice::Ended;
        }
        match self.leasing.duty(self.driver.now()) {
            Duty::Drop(lost) => Notice::LostAll(lost),
            Duty::Await(seen, until) => match self.await_recalls(seen, until).await {
                Ok(recalled) if recalled.is_empty() => Notice::Quiet,
                Ok(recalled) => Notice::Recalled(recalled),
                Err(_) => {
                    *lock(&self.leasing.channel) = None;
                    self.driver.sleep(REST).await;
                    Notice::Quiet
                }
            },
        }
    }

    /// Everything that was lost up to this number is dropped.
    pub fn all_dropped(&self, lost: u64) {
        self.leasing.holding().all_dropped(lost);
    }

    async fn await_recalls(
        self: &Arc<Self>,
        seen: u64,
        until: Option<Duration>,
    ) -> Result<Vec<Recalled>> {
        let sent = self.driver.now();
        let deadline = sent + Duration::from_millis(AWAIT_RECALLS_MS + ANSWER_MS);
        let deadline = until.map_or(deadline, |until| until.min(deadline));
        let channel = self.recall_channel(deadline).await?;
        if !self.leasing.may_await(channel.run, seen, sent) {
            // Another run of the server was met meanwhile: it takes this question for the word that all of before is
            // dropped.
            return Ok(Vec::new());
        }
        let call = AwaitRecalls { seen };
        let recalls = self.exchange(&channel.shared, Some(&Envelope::PLAIN), &call, deadline).await;
        let recalls = recalls.map_err(|failure| failure.into_error(&channel.server))?;
        let now = self.driver.now();
        let mut holding = self.leasing.holding();
        holding.renewed(channel.run, sent, now);
        Ok(holding.recalls(channel.run, &recalls, now))
    }

    async fn recall_channel(self: &Arc<Self>, deadline: Duration) -> Result<Arc<Channel<D>>> {
        let link = self.link(deadline).await?;
        let known = lock(&self.leasing.channel).clone();
        if let Some(channel) = known.filter(|channel| channel.run == link.run) {
            return Ok(channel);
        }
        let endpoint = self.mds_endpoint()?;
        let shared = self.driver.connect_shared(&endpoint, self.attempt(deadline)).await?;
        let reply = self.open_session(&shared, &link.server, Some(&link.session), deadline).await?;
        let run = Run { session: reply.session, epoch: reply.epoch };
        if run != link.run {
            // The server restarted, and the other connection has not noticed yet: first it tells what is open.
            self.unlink(&link);
            return Err(Error::refused(&link.server, Status::TryAgain.into()));
        }
        let channel = Arc::new(Channel { shared, run, server: link.server.clone() });
        if !self.leasing.has_ended() {
            *lock(&self.leasing.channel) = Some(Arc::clone(&channel));
        }
        Ok(channel)
    }
}
