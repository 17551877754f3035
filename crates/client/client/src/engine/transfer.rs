//! A set of exchanges with the daemons of a file, retried until each is done or the call fails.
//!
//! Invariant: each daemon that still has to answer has the time of one call (I8). What happens to
//! that time depends on what the daemon did in an attempt:
//!
//! - It answered something: its time starts again from the last byte that it moved.
//! - It was silent: its time runs, also while other daemons are active, but not while the call
//!   waited for its turn.
//! - It refused, or lost its connection: its time runs for as long as a daemon may be silent. If
//!   the attempt takes longer, because other daemons are active, the daemon is asked again at its
//!   end, and the additional time does not count.
//!
//! The daemon with the least time left determines the call's time. So a large transfer over a slow
//! network does not time out, but a silent daemon does, after the time of one call.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use braid_net::{Answer, Driver};
use braid_types::Status;
use braid_wire::{Wire, decode_outcome};

use super::{
    OpenFile, backoff::Backoff, iod_batch::IodCall, iod_body::Body, iod_error::RetryAction,
    open_file::FileState,
};
use crate::error::{Error, Result};

/// New capabilities and sessions that one call may request. If others truncate a file more often
/// than this, the call fails.
const REMEDIES_MAX: u32 = 8;
/// How often a call presents the capability to connections that do not know its handle. A daemon
/// that forgets it repeatedly is broken.
const PRESENTS_MAX: u32 = 16;
/// How long to wait for the cluster map when a daemon is not reached.
const MAP_WAIT: Duration = Duration::from_millis(500);

/// The reason why a transfer ended early.
#[derive(Debug)]
pub(crate) enum TransferEnd {
    /// The call fails.
    Failed(Error),
    /// The layout of the file has changed: the call must be planned again.
    Replan,
}

impl From<Error> for TransferEnd {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<braid_layout::LayoutError> for TransferEnd {
    fn from(error: braid_layout::LayoutError) -> Self {
        Self::Failed(error.into())
    }
}

/// A set of exchanges, each to be made once.
pub(crate) trait Transfer: Send {
    /// The number of exchanges.
    fn len(&self) -> usize;

    /// The target (daemon of the file) of an exchange.
    fn target(&self, index: usize) -> usize;

    /// The calls of the pending exchanges, in this order.
    fn calls<'s>(&'s mut self, pending: &[usize]) -> Result<Vec<IodCall<'s>>>;

    /// An exchange has succeeded.
    fn accept(&mut self, index: usize, answer: Answer) -> Result<()>;

    /// How far the exchanges may extend the file: nothing is sent past the growth grant.
    fn extends_to(&self) -> u64 {
        0
    }

    /// Whether all replies must come under one capability. Daemons that accept the same capability
    /// are all before or all after each truncate; replies under two capabilities would mix both
    /// states (I5).
    fn is_one_view(&self) -> bool;
}

impl<D: Driver> OpenFile<D> {
    /// Makes all exchanges of a job. Returns the capability of the last exchange; with
    /// [`Transfer::is_one_view`], of all. Extends the deadline while daemons make progress, also
    /// for a call that is planned again.
    pub(crate) async fn run_transfer<J: Transfer>(
        &self,
        grant: &Arc<FileState<D>>,
        job: &mut J,
        deadline: &mut Duration,
    ) -> Result<Arc<FileState<D>>, TransferEnd> {
        let mut grant = Arc::clone(grant);
        let mut pending: Vec<usize> = (0..job.len()).collect();
        self.check_time(&grant, job, *deadline)?;
        if job.is_one_view() {
            let asked = pending.iter().map(|index| &grant.pools[job.target(*index)].status);
            *deadline = self.engine().shorten_deadline(asked, *deadline);
        }
        let mut tries = RetryState::new(self, *deadline);
        loop {
            if self.is_stale() {
                grant = self.renew_capability(&grant, *deadline).await?;
                if job.is_one_view() && pending.len() < job.len() {
                    return Err(TransferEnd::Replan);
                }
            }
            self.extend_growth_grant(&grant, job.extends_to(), *deadline).await?;
            let outcomes = {
                let calls = job.calls(&pending)?;
                self.batch(&grant, calls, *deadline).await
            };
            let action = match outcomes {
                Ok((outcomes, moved)) => {
                    let left = take_outcomes(job, &pending, outcomes)?;
                    if left.most_severe.is_some() {
                        *deadline = tries.extend_deadline(self, &left, moved, *deadline);
                    }
                    pending = left.pending;
                    left.most_severe
                }
                Err(action) => Some(action),
            };
            let Some(action) = action else {
                (0..job.len())
                    .for_each(|index| grant.pools[job.target(index)].status.set_responsive());
                return Ok(grant);
            };
            let mended = tries.prepare_retry(self, Arc::clone(&grant), action, *deadline).await;
            if let Err(TransferEnd::Failed(error)) = &mended {
                self.note_unresponsive(
                    &grant,
                    pending.iter().map(|index| job.target(*index)),
                    error,
                );
            }
            let fresh = mended?;
            if job.is_one_view() && pending.len() < job.len() && !Arc::ptr_eq(&fresh, &grant) {
                return Err(TransferEnd::Replan);
            }
            grant = fresh;
        }
    }

    /// Fails if no time is left for any daemon of the job.
    fn check_time<J: Transfer>(
        &self,
        grant: &FileState<D>,
        job: &J,
        deadline: Duration,
    ) -> Result<()> {
        let first = || {
            if job.len() == 0 {
                "the I/O daemons".to_owned()
            } else {
                grant.pools[job.target(0)].server_name()
            }
        };
        self.engine().check_time(deadline, first)
    }

    /// The call failed while it waited for these daemons.
    fn note_unresponsive(
        &self,
        grant: &FileState<D>,
        mut targets: impl Iterator<Item = usize>,
        error: &Error,
    ) {
        if error.was_given_up() {
            let blamed =
                targets.find(|target| error.server() == Some(&*grant.pools[*target].server_name()));
            self.engine()
                .note_unresponsive(blamed.map(|target| &grant.pools[target].status), error);
        }
    }

    /// Sends one call without payload to each of `targets`. Returns the replies in the same order.
    /// If the call is a query and `grant` is not valid any more, the call must be planned again, so
    /// that the replies match what was read before under `grant`.
    pub(crate) async fn ask_targets<R: Wire + Send>(
        &self,
        grant: &Arc<FileState<D>>,
        targets: &[usize],
        body: Body<'_>,
        deadline: &mut Duration,
    ) -> Result<Vec<R>, TransferEnd> {
        let servers = targets.iter().map(|target| grant.pools[*target].server_name()).collect();
        let mut job = QueryTransfer {
            targets,
            servers,
            body,
            replies: targets.iter().map(|_| None).collect(),
        };
        let used = self.run_transfer(grant, &mut job, deadline).await?;
        if job.is_one_view() && !Arc::ptr_eq(&used, grant) {
            return Err(TransferEnd::Replan);
        }
        Ok(job.replies.into_iter().flatten().collect())
    }
}

/// What is left after an attempt.
struct RemainingWork {
    pending: Vec<usize>,
    most_severe: Option<RetryAction>,
    /// The daemons of the pending exchanges.
    daemons: BTreeMap<usize, RemainingDaemon>,
}

/// A daemon that must be asked again.
#[derive(Default)]
struct RemainingDaemon {
    /// It has answered some of its exchanges.
    answered: bool,
    /// How long it was silent at the end.
    silent: Duration,
    /// How long it was not asked before that.
    unasked: Duration,
}

fn take_outcomes<J: Transfer>(
    job: &mut J,
    pending: &[usize],
    outcomes: Vec<Result<Answer, RetryAction>>,
) -> Result<RemainingWork> {
    let mut left =
        RemainingWork { pending: Vec::new(), most_severe: None, daemons: BTreeMap::new() };
    let mut answered = BTreeSet::new();
    for (index, outcome) in pending.iter().zip(outcomes) {
        match outcome {
            Ok(answer) => {
                job.accept(*index, answer)?;
                answered.insert(job.target(*index));
            }
            Err(action) => {
                left.pending.push(*index);
                let daemon = left.daemons.entry(job.target(*index)).or_default();
                let (silent, unasked) = action.idle_times();
                (daemon.silent, daemon.unasked) =
                    (daemon.silent.max(silent), daemon.unasked.max(unasked));
                left.most_severe = Some(action.more_severe(left.most_severe.take()));
            }
        }
    }
    left.daemons
        .iter_mut()
        .for_each(|(target, daemon)| daemon.answered = answered.contains(target));
    Ok(left)
}

/// The state that the attempts of one transfer share.
struct RetryState {
    backoff: Backoff,
    started: Duration,
    remedies_left: u32,
    presents_left: u32,
}

impl RetryState {
    fn new<D: Driver>(file: &OpenFile<D>, deadline: Duration) -> Self {
        Self {
            backoff: Backoff::new(deadline),
            started: file.engine().driver().now(),
            remedies_left: REMEDIES_MAX,
            presents_left: PRESENTS_MAX,
        }
    }

    /// The deadline after an attempt in which bytes moved for at least `moved`; see the module.
    fn extend_deadline<D: Driver>(
        &mut self,
        file: &OpenFile<D>,
        left: &RemainingWork,
        moved: Duration,
        deadline: Duration,
    ) -> Duration {
        let (now, timeout) = (file.engine().driver().now(), file.engine().timeout());
        let until = left.daemons.values().map(|daemon| match daemon {
            RemainingDaemon { answered: true, silent, .. } => {
                now.saturating_sub(*silent).saturating_add(timeout)
            }
            RemainingDaemon { silent: Duration::ZERO, .. } => deadline.saturating_add(moved),
            RemainingDaemon { unasked, .. } => deadline.saturating_add(*unasked),
        });
        let until = until.min().unwrap_or(deadline).max(deadline);
        if until > deadline {
            file.engine().driver().extend_call_deadline(until);
        }
        if left.daemons.values().all(|daemon| daemon.answered) {
            (self.started, self.backoff) = (until.saturating_sub(timeout), Backoff::new(until));
        } else {
            self.backoff.until(until);
        }
        until
    }

    /// Prepares the next attempt, or returns why there is none.
    async fn prepare_retry<D: Driver>(
        &mut self,
        file: &OpenFile<D>,
        grant: Arc<FileState<D>>,
        action: RetryAction,
        deadline: Duration,
    ) -> Result<Arc<FileState<D>>, TransferEnd> {
        match action {
            RetryAction::Present => {
                let forgets = || {
                    Error::new(Status::UnknownHandle, "a daemon forgets the capability immediately")
                };
                self.presents_left = self.presents_left.checked_sub(1).ok_or_else(forgets)?;
                Ok(grant)
            }
            RetryAction::Wait(error) => {
                self.wait(file, error, deadline).await?;
                Ok(grant)
            }
            RetryAction::Renew(error) => {
                self.remedies_left = self.remedies_left.checked_sub(1).ok_or(error)?;
                self.with_total_time(file, file.renew_capability(&grant, deadline).await)
            }
            RetryAction::Reclaim(error) => {
                self.remedies_left =
                    self.remedies_left.checked_sub(1).ok_or_else(|| error.clone())?;
                self.wait(file, error, deadline).await?;
                self.with_total_time(
                    file,
                    file.engine().reconnect_mds(deadline).await.map_err(TransferEnd::Failed),
                )?;
                self.with_total_time(file, file.renew_capability(&grant, deadline).await)
            }
            RetryAction::Fail(error) => {
                if error.status() == Status::Fenced {
                    file.mark_fenced();
                }
                Err(error.into())
            }
        }
    }

    /// The result of a step; its error reports the time of the whole call.
    fn with_total_time<D: Driver, T>(
        &self,
        file: &OpenFile<D>,
        step: Result<T, TransferEnd>,
    ) -> Result<T, TransferEnd> {
        let time = file.engine().driver().now().saturating_sub(self.started);
        step.map_err(|stop| match stop {
            TransferEnd::Failed(error) => TransferEnd::Failed(error.tried_for(time)),
            TransferEnd::Replan => TransferEnd::Replan,
        })
    }

    async fn wait<D: Driver>(
        &mut self,
        file: &OpenFile<D>,
        error: Error,
        deadline: Duration,
    ) -> Result<()> {
        let (engine, driver) = (file.engine(), file.engine().driver());
        if !self.backoff.wait(driver).await {
            return Err(error.given_up(driver.now().saturating_sub(self.started)));
        }
        if error.status() == Status::Unreachable {
            // The daemon may have moved. Without a map, the old address is tried again.
            let _ = engine.refresh_map(deadline.min(driver.now().saturating_add(MAP_WAIT))).await;
        }
        Ok(())
    }
}

/// Calls without payload.
struct QueryTransfer<'a, R> {
    targets: &'a [usize],
    servers: Vec<String>,
    body: Body<'a>,
    replies: Vec<Option<R>>,
}

impl<R: Wire + Send> Transfer for QueryTransfer<'_, R> {
    fn len(&self) -> usize {
        self.targets.len()
    }

    fn target(&self, index: usize) -> usize {
        self.targets[index]
    }

    fn calls<'s>(&'s mut self, pending: &[usize]) -> Result<Vec<IodCall<'s>>> {
        Ok(pending
            .iter()
            .map(|index| IodCall::without_payload(self.targets[*index], self.body))
            .collect())
    }

    fn accept(&mut self, index: usize, answer: Answer) -> Result<()> {
        self.replies[index] = Some(reply(|| self.servers[index].clone(), &answer)?);
        Ok(())
    }

    fn extends_to(&self) -> u64 {
        self.body.extends_to()
    }

    fn is_one_view(&self) -> bool {
        self.body.is_query()
    }
}

/// Decodes the reply of a success.
pub(crate) fn reply<R: Wire>(server: impl Fn() -> String, answer: &Answer) -> Result<R> {
    let outcome = decode_outcome::<R>(&answer.body)
        .map_err(|error| Error::malformed_reply(server(), error))?;
    outcome.map_err(|failure| Error::refused(server(), failure))
}
