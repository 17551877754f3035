//! A set of exchanges with the daemons of a file, repeated until each is done or the call must fail.
//!
//! Invariant: time counts against the daemons that are still to answer (I8), a call's time for each:
//!
//! | in an attempt the daemon | its time |
//! |---|---|
//! | answered something | begins anew when it last moved a byte |
//! | was silent | goes on, also for what the others do meanwhile; not for a wait for the call's turn |
//! | refused, or lost its connection | goes on for as long as a daemon may be silent: an attempt that takes longer moves elsewhere, and the daemon is asked again when it has ended |
//!
//! That of the daemon which has the least is the call's. A large transfer over a slow network is not late; a daemon that is silent is,
//! in one call's time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use braid_net::{Answer, Driver};
use braid_types::Status;
use braid_wire::{Wire, decode_outcome};

use super::{
    OpenFile, backoff::Backoff, iod_batch::IodCall, iod_body::Body, iod_error::Remedy,
    open_file::Grant,
};
use crate::error::{Error, Result};

/// Fresh capabilities and sessions that one call asks for. A file that is truncated faster than that by others
/// is not read in one call.
const REMEDIES_MAX: u32 = 8;
/// A connection that does not know a handle is shown the capability; a daemon that forgets it again and again is broken.
const PRESENTS_MAX: u32 = 16;
/// How long the cluster map is waited for when a daemon is not reached.
const MAP_WAIT: Duration = Duration::from_millis(500);

/// Why a transfer ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The call fails.
    Failed(Error),
    /// The file has another layout now: the call is planned anew.
    Replan,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<braid_layout::LayoutError> for Stop {
    fn from(error: braid_layout::LayoutError) -> Self {
        Self::Failed(error.into())
    }
}

/// Exchanges that are to be made, each once.
pub(crate) trait Job: Send {
    /// How many there are.
    fn len(&self) -> usize;

    /// Which of the file's daemons one is made with.
    fn target(&self, index: usize) -> usize;

    /// Those that are still pending, in this order.
    fn calls<'s>(&'s mut self, pending: &[usize]) -> Result<Vec<IodCall<'s>>>;

    /// One is done.
    fn accept(&mut self, index: usize, answer: Answer) -> Result<()>;

    /// How far it may make the file grow: nothing is sent past the write end.
    fn extends_to(&self) -> u64 {
        0
    }

    /// Whether all answers must be of one capability. Daemons that take the same capability stand on the same side of
    /// every truncate; answers of two are half of the one and half of the other (I5).
    fn is_one_view(&self) -> bool;
}

impl<D: Driver> OpenFile<D> {
    /// Makes all exchanges of a job; the capability with which the last was made, and with [`Job::is_one_view`] all. The deadline is
    /// pushed on while daemons move, also for a call that is planned anew.
    pub(crate) async fn run<J: Job>(
        &self,
        grant: &Arc<Grant<D>>,
        job: &mut J,
        deadline: &mut Duration,
    ) -> Result<Arc<Grant<D>>, Stop> {
        let mut grant = Arc::clone(grant);
        let mut pending: Vec<usize> = (0..job.len()).collect();
        self.check_time(&grant, job, *deadline)?;
        if job.is_one_view() {
            let asked = pending.iter().map(|index| &grant.pools[job.target(*index)].away);
            *deadline = self.engine().cut_short(asked, *deadline);
        }
        let mut tries = Tries::new(self, *deadline);
        loop {
            if self.is_stale() {
                grant = self.renew(&grant, *deadline).await?;
                if job.is_one_view() && pending.len() < job.len() {
                    return Err(Stop::Replan);
                }
            }
            self.reach(&grant, job.extends_to(), *deadline).await?;
            let outcomes = {
                let calls = job.calls(&pending)?;
                self.batch(&grant, calls, *deadline).await
            };
            let remedy = match outcomes {
                Ok((outcomes, moved)) => {
                    let left = take_outcomes(job, &pending, outcomes)?;
                    if left.gravest.is_some() {
                        *deadline = tries.go_on(self, &left, moved, *deadline);
                    }
                    pending = left.pending;
                    left.gravest
                }
                Err(remedy) => Some(remedy),
            };
            let Some(remedy) = remedy else {
                (0..job.len()).for_each(|index| grant.pools[job.target(index)].away.answered());
                return Ok(grant);
            };
            let mended = tries.mend(self, Arc::clone(&grant), remedy, *deadline).await;
            if let Err(Stop::Failed(error)) = &mended {
                self.gave_up(&grant, pending.iter().map(|index| job.target(*index)), error);
            }
            let fresh = mended?;
            if job.is_one_view() && pending.len() < job.len() && !Arc::ptr_eq(&fresh, &grant) {
                return Err(Stop::Replan);
            }
            grant = fresh;
        }
    }

    /// Fails when no time is left for any daemon of the job.
    fn check_time<J: Job>(&self, grant: &Grant<D>, job: &J, deadline: Duration) -> Result<()> {
        let first = || {
            if job.len() == 0 {
                "the I/O daemons".to_owned()
            } else {
                grant.pools[job.target(0)].server()
            }
        };
        self.engine().check_time(deadline, first)
    }

    /// A call that still waited for these daemons failed.
    fn gave_up(&self, grant: &Grant<D>, mut targets: impl Iterator<Item = usize>, error: &Error) {
        if error.was_given_up() {
            let blamed =
                targets.find(|target| error.server() == Some(&*grant.pools[*target].server()));
            self.engine().waited_in_vain(blamed.map(|target| &grant.pools[target].away), error);
        }
    }

    /// One call without payload to each of `targets`; the replies in the same order. A call that looks is planned anew
    /// when `grant` is not good any more, so that its answers fit what was seen with it before.
    pub(crate) async fn ask_targets<R: Wire + Send>(
        &self,
        grant: &Arc<Grant<D>>,
        targets: &[usize],
        body: Body<'_>,
        deadline: &mut Duration,
    ) -> Result<Vec<R>, Stop> {
        let servers = targets.iter().map(|target| grant.pools[*target].server()).collect();
        let mut job =
            Plain { targets, servers, body, replies: targets.iter().map(|_| None).collect() };
        let used = self.run(grant, &mut job, deadline).await?;
        if job.is_one_view() && !Arc::ptr_eq(&used, grant) {
            return Err(Stop::Replan);
        }
        Ok(job.replies.into_iter().flatten().collect())
    }
}

/// What an attempt has left over.
struct Left {
    pending: Vec<usize>,
    gravest: Option<Remedy>,
    /// The daemons of those.
    daemons: BTreeMap<usize, LeftDaemon>,
}

/// A daemon that is to be asked again.
#[derive(Default)]
struct LeftDaemon {
    /// It has answered some of what it was asked.
    answered: bool,
    /// For how long it was silent in the end.
    silent: Duration,
    /// How long it was not asked before.
    unasked: Duration,
}

fn take_outcomes<J: Job>(
    job: &mut J,
    pending: &[usize],
    outcomes: Vec<Result<Answer, Remedy>>,
) -> Result<Left> {
    let mut left = Left { pending: Vec::new(), gravest: None, daemons: BTreeMap::new() };
    let mut answered = BTreeSet::new();
    for (index, outcome) in pending.iter().zip(outcomes) {
        match outcome {
            Ok(answer) => {
                job.accept(*index, answer)?;
                answered.insert(job.target(*index));
            }
            Err(remedy) => {
                left.pending.push(*index);
                let daemon = left.daemons.entry(job.target(*index)).or_default();
                let (silent, unasked) = remedy.silent();
                (daemon.silent, daemon.unasked) =
                    (daemon.silent.max(silent), daemon.unasked.max(unasked));
                left.gravest = Some(remedy.graver(left.gravest.take()));
            }
        }
    }
    left.daemons
        .iter_mut()
        .for_each(|(target, daemon)| daemon.answered = answered.contains(target));
    Ok(left)
}

/// What the attempts of one transfer share.
struct Tries {
    backoff: Backoff,
    started: Duration,
    remedies_left: u32,
    presents_left: u32,
}

impl Tries {
    fn new<D: Driver>(file: &OpenFile<D>, deadline: Duration) -> Self {
        Self {
            backoff: Backoff::new(deadline),
            started: file.engine().driver().now(),
            remedies_left: REMEDIES_MAX,
            presents_left: PRESENTS_MAX,
        }
    }

    /// Until when there is time after an attempt in which something moved for so long at least; see the module.
    fn go_on<D: Driver>(
        &mut self,
        file: &OpenFile<D>,
        left: &Left,
        moved: Duration,
        deadline: Duration,
    ) -> Duration {
        let (now, timeout) = (file.engine().driver().now(), file.engine().timeout());
        let until = left.daemons.values().map(|daemon| match daemon {
            LeftDaemon { answered: true, silent, .. } => {
                now.saturating_sub(*silent).saturating_add(timeout)
            }
            LeftDaemon { silent: Duration::ZERO, .. } => deadline.saturating_add(moved),
            LeftDaemon { unasked, .. } => deadline.saturating_add(*unasked),
        });
        let until = until.min().unwrap_or(deadline).max(deadline);
        if until > deadline {
            file.engine().driver().extend_bound(until);
        }
        if left.daemons.values().all(|daemon| daemon.answered) {
            (self.started, self.backoff) = (until.saturating_sub(timeout), Backoff::new(until));
        } else {
            self.backoff.until(until);
        }
        until
    }

    /// Makes ready for the next attempt, or says why there is none.
    async fn mend<D: Driver>(
        &mut self,
        file: &OpenFile<D>,
        grant: Arc<Grant<D>>,
        remedy: Remedy,
        deadline: Duration,
    ) -> Result<Arc<Grant<D>>, Stop> {
        match remedy {
            Remedy::Present => {
                let forgets =
                    || Error::new(Status::UnknownHandle, "a daemon forgets the capability at once");
                self.presents_left = self.presents_left.checked_sub(1).ok_or_else(forgets)?;
                Ok(grant)
            }
            Remedy::Wait(error) => {
                self.wait(file, error, deadline).await?;
                Ok(grant)
            }
            Remedy::Renew(error) => {
                self.remedies_left = self.remedies_left.checked_sub(1).ok_or(error)?;
                self.whole(file, file.renew(&grant, deadline).await)
            }
            Remedy::Reclaim(error) => {
                self.remedies_left =
                    self.remedies_left.checked_sub(1).ok_or_else(|| error.clone())?;
                self.wait(file, error, deadline).await?;
                self.whole(file, file.engine().relink(deadline).await.map_err(Stop::Failed))?;
                self.whole(file, file.renew(&grant, deadline).await)
            }
            Remedy::Fail(error) => {
                if error.status() == Status::Fenced {
                    file.mark_fenced();
                }
                Err(error.into())
            }
        }
    }

    /// The outcome of a step, its time being that of the call so far.
    fn whole<D: Driver, T>(&self, file: &OpenFile<D>, step: Result<T, Stop>) -> Result<T, Stop> {
        let time = file.engine().driver().now().saturating_sub(self.started);
        step.map_err(|stop| match stop {
            Stop::Failed(error) => Stop::Failed(error.tried_for(time)),
            Stop::Replan => Stop::Replan,
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
            // The daemon may have moved; if the map is not to be had, the old address is tried again.
            let _ = engine.refresh_map(deadline.min(driver.now().saturating_add(MAP_WAIT))).await;
        }
        Ok(())
    }
}

/// Calls without payload.
struct Plain<'a, R> {
    targets: &'a [usize],
    servers: Vec<String>,
    body: Body<'a>,
    replies: Vec<Option<R>>,
}

impl<R: Wire + Send> Job for Plain<'_, R> {
    fn len(&self) -> usize {
        self.targets.len()
    }

    fn target(&self, index: usize) -> usize {
        self.targets[index]
    }

    fn calls<'s>(&'s mut self, pending: &[usize]) -> Result<Vec<IodCall<'s>>> {
        Ok(pending.iter().map(|index| IodCall::plain(self.targets[*index], self.body)).collect())
    }

    fn accept(&mut self, index: usize, answer: Answer) -> Result<()> {
        self.replies[index] = Some(reply(|| self.servers[index].clone(), &answer)?);
        Ok(())
    }

    fn extends_to(&self) -> u64 {
        self.body.extends_to()
    }

    fn is_one_view(&self) -> bool {
        self.body.looks()
    }
}

/// The reply in an answer that is a success.
pub(crate) fn reply<R: Wire>(server: impl Fn() -> String, answer: &Answer) -> Result<R> {
    let outcome =
        decode_outcome::<R>(&answer.body).map_err(|error| Error::broken(server(), error))?;
    outcome.map_err(|failure| Error::refused(server(), failure))
}
