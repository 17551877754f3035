//! Collective calls: all tasks of a program read or write one file together
//! (`docs/adr/0015-collective-requests.md`).
//!
//! ```text
//!   begin ── task request ──> all_gather ──> step ── outcome ──> all_gather ──> step ── Done
//!                                             │                                  └ or: fallback,
//!      this task's part: by a collective      ┘                                    next slot
//!      request, or by itself
//! ```
//!
//! Invariants:
//! 1. A step decides only from what all tasks have gathered, so that all tasks decide the same
//!    (`decide.rs`).
//! 2. Every task calls `all_gather` equally often, whatever the outcome of its part.
//! 3. All tasks end with success, or all with the same failure: that of the lowest rank, after the
//!    first slot with a failure that has no fallback.
//!
//! No assertion can check these, since a task sees only its own state. `decide` and `evaluate_slot`
//! get nothing but the gathered bytes (1, 3), and each `step` returns one request to gather, or the
//! end (2). The tests compare the outcomes of all tasks.

mod decide;
mod outcome;
mod overlap;
mod refusal;
mod task_request;
mod through_daemons;

use std::{
    io::{IoSlice, IoSliceMut},
    time::Duration,
};

use braid_layout::Request;
use braid_net::{Driver, random_bytes};
use braid_types::{Status, limits::FILE_BYTES_MAX};
use braid_wire::Rights;

use self::{
    decide::{Plan, TransferMethod},
    outcome::Outcome,
    task_request::TaskRequest,
};
use super::{FileView, OpenFile, transfer::TransferEnd};
use crate::error::{Error, Result};

pub(crate) use overlap::{announce_part, parts_overlap};
pub(crate) use refusal::{announce_refusal, first_refusal};

/// How long tasks wait for each other, as a multiple of a call's timeout: each task may first use
/// up its own.
const RENDEZVOUS_TIMEOUTS: u32 = 2;
/// Additional time for the bytes of all tasks, at this rate: slower than the disks and networks of
/// parallel programs. A part takes as long as its bytes move, and a task that has finished must not
/// abandon the others.
const RENDEZVOUS_BYTES_PER_SECOND: u64 = 16 << 20;

/// How a collective call is executed. The same for all tasks of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CollectiveOptions {
    /// Which mode is used.
    pub mode: CollectiveMode,
    /// How overlapping writes are treated.
    pub overlap: Overlap,
}

/// How the data of a collective call is transferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum CollectiveMode {
    /// By the I/O daemons if tasks access interleaved short pieces, or write overlapping ranges;
    /// otherwise by each task itself. Short means on average less than 256 bytes for reads and 16
    /// KiB for writes, and 4 KiB for both over TLS.
    #[default]
    Auto,
    /// By the I/O daemons, if at least two tasks have bytes.
    Server,
    /// By each task itself.
    Independent,
}

/// The result for bytes that several tasks write in one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Overlap {
    /// The bytes of the highest rank are stored.
    #[default]
    HighestRank,
    /// The call is refused before a byte is written.
    Refuse,
}

/// What a task must do next.
#[derive(Debug)]
pub enum Next {
    /// Gather: pass these bytes to all tasks, and the bytes of all tasks to [`Collective::step`].
    Gather(Vec<u8>),
    /// The call has ended: the number of bytes that this task has read or written, or the failure
    /// of all tasks.
    Done(Result<usize>),
}

/// The memory of a collective call.
pub(crate) enum Buffers<'a, 'b> {
    Read(&'a mut [IoSliceMut<'b>]),
    Write(&'a [IoSlice<'b>]),
}

/// One task's part in a collective call.
pub struct Collective<'a, 'b, D: Driver> {
    file: &'a OpenFile<D>,
    view: FileView,
    request: Request,
    /// The capacity of the buffers.
    buffer_bytes: u64,
    buffers: Buffers<'a, 'b>,
    rank: usize,
    stage: CallStage,
}

enum CallStage {
    Announced,
    Running(Box<RunningCall>),
    Over,
}

/// The tasks execute their parts, in one slot or in several.
struct RunningCall {
    all: Vec<TaskRequest>,
    plan: Plan,
    /// The current slot.
    slot: usize,
    /// The outcome of this task's part.
    outcome: Outcome,
    /// Whether a collective request failed before.
    fell_back: bool,
}

impl<D: Driver> OpenFile<D> {
    /// Begins a collective read, as the task of this rank: [`OpenFile::read_at`] of all tasks
    /// together. Returns also the first bytes to gather.
    pub async fn read_all_at<'a, 'b>(
        &'a self,
        rank: u32,
        view: &FileView,
        start: u64,
        buffers: &'a mut [IoSliceMut<'b>],
        options: &CollectiveOptions,
    ) -> (Collective<'a, 'b, D>, Vec<u8>) {
        let buffer_bytes = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        self.begin_collective(rank, view, start, buffer_bytes, Buffers::Read(buffers), options)
            .await
    }

    /// Begins a collective write, as the task of this rank: [`OpenFile::write_at`] of all tasks
    /// together. Returns also the first bytes to gather.
    pub async fn write_all_at<'a, 'b>(
        &'a self,
        rank: u32,
        view: &FileView,
        start: u64,
        buffers: &'a [IoSlice<'b>],
        options: &CollectiveOptions,
    ) -> (Collective<'a, 'b, D>, Vec<u8>) {
        let buffer_bytes = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        self.begin_collective(rank, view, start, buffer_bytes, Buffers::Write(buffers), options)
            .await
    }

    async fn begin_collective<'a, 'b>(
        &'a self,
        rank: u32,
        view: &FileView,
        start: u64,
        buffer_bytes: u64,
        buffers: Buffers<'a, 'b>,
        options: &CollectiveOptions,
    ) -> (Collective<'a, 'b, D>, Vec<u8>) {
        let (view, request) = (view.clone(), view.request(start, buffer_bytes));
        let stage = CallStage::Announced;
        let collective = Collective {
            file: self,
            view,
            request,
            buffer_bytes,
            buffers,
            rank: rank as usize,
            stage,
        };
        let ready = collective.check_ready().await;
        let announcement = TaskRequest {
            readiness: Outcome::of(ready.as_ref().map(|ready| ready.pieces)),
            id: random_bytes(),
            file: self.file(),
            session: ready.as_ref().map_or(0, |ready| ready.session),
            is_write: collective.is_write(),
            is_plain: ready.as_ref().is_ok_and(|ready| ready.is_plain),
            options: *options,
            request: collective.request.clone(),
        };
        let bytes = announcement.to_bytes();
        (collective, bytes)
    }
}

/// The properties of a task's own part.
struct TaskReadiness {
    session: u64,
    /// The average length of its pieces, in bytes.
    pieces: u64,
    is_plain: bool,
}

impl<D: Driver> Collective<'_, '_, D> {
    fn is_write(&self) -> bool {
        matches!(self.buffers, Buffers::Write(_))
    }

    fn what(&self) -> &'static str {
        if self.is_write() { "write together" } else { "read together" }
    }

    /// Executes everything that can fail before the other tasks are involved.
    async fn check_ready(&self) -> Result<TaskReadiness> {
        let file = self.file;
        file.check_rights(if self.is_write() { Rights::WRITE } else { Rights::READ })?;
        if self.is_write() && self.request.bytes < self.buffer_bytes {
            let why = format!(
                "{} bytes go past the end of the view or byte {FILE_BYTES_MAX}",
                self.buffer_bytes
            );
            return Err(Error::new(Status::TooLarge, why).with_hint("a smaller offset"));
        }
        let deadline = file.engine().deadline();
        if file.is_stale() {
            // A new layout does no harm here.
            match file.renew_capability(&file.state(), deadline).await {
                Err(TransferEnd::Failed(error)) => return Err(error),
                Err(TransferEnd::Replan) | Ok(_) => {}
            }
        }
        let grant = file.state();
        if self.is_write() {
            file.extend_growth_grant(&grant, self.view.file_end(&self.request)?, deadline).await?;
        }
        let session = file.engine().session(deadline).await?.id.0;
        let is_plain = grant.pools.iter().all(|pool| pool.is_unencrypted(file.engine().config.tls));
        Ok(TaskReadiness {
            session,
            pieces: decide::piece_bytes(&grant.map, &self.request)?,
            is_plain,
        })
    }

    /// How long this task may wait in the next gather: bounded if a task hangs, and long enough for
    /// tasks that execute their parts. The same in every task.
    pub fn time_max(&self) -> Duration {
        let bytes = match &self.stage {
            CallStage::Running(running) => {
                running.all.iter().fold(0u64, |sum, task| sum.saturating_add(task.request.bytes))
            }
            CallStage::Announced | CallStage::Over => 0,
        };
        time_max(self.file.engine().timeout(), bytes)
    }

    /// Executes the next step. `all` contains what all tasks gathered, by rank.
    pub async fn step(&mut self, all: &[Vec<u8>]) -> Next {
        let next = match std::mem::replace(&mut self.stage, CallStage::Over) {
            CallStage::Announced => self.decide(all),
            CallStage::Running(running) => self.evaluate_slot(running, all),
            CallStage::Over => Err(Error::new(Status::Invalid, "the collective call has ended")),
        };
        match next {
            Ok(Ok(running)) => self.do_slot(running).await,
            Ok(Err(bytes)) => Next::Done(Ok(bytes)),
            Err(error) => Next::Done(Err(error.during(self.what(), self.file.path()))),
        }
    }

    fn decide(&self, all: &[Vec<u8>]) -> Result<Result<Box<RunningCall>, usize>> {
        let all =
            all.iter().map(|bytes| TaskRequest::from_bytes(bytes)).collect::<Result<Vec<_>>>()?;
        if self.rank >= all.len() {
            return Err(Error::new(
                Status::Invalid,
                format!("task {} in a group of {}", self.rank, all.len()),
            ));
        }
        outcome::first_failure(all.iter().map(|task| &task.readiness))?;
        let plan = decide::plan(&all)?;
        let nothing = Outcome::done(0);
        Ok(Ok(Box::new(RunningCall { all, plan, slot: 0, outcome: nothing, fell_back: false })))
    }

    /// Executes this task's part if its slot is the current one. Returns the outcome to gather.
    async fn do_slot(&mut self, mut running: Box<RunningCall>) -> Next {
        let RunningCall { plan, slot, all, .. } = &*running;
        let step =
            plan.step_of(self.rank).filter(|step| step.slot == *slot && self.request.bytes > 0);
        if let Some(step) = step {
            let done = match step.method {
                TransferMethod::Server => self.through_daemons(step.subgroup, all).await,
                TransferMethod::Independent | TransferMethod::OneAfterAnother => {
                    self.transfer_independently().await
                }
                TransferMethod::Done => Ok(running.outcome.bytes()),
            };
            running.outcome = Outcome::of(done.as_ref().copied());
        }
        let outcome = running.outcome.to_bytes();
        running.slot += 1;
        self.stage = CallStage::Running(running);
        Next::Gather(outcome)
    }

    async fn transfer_independently(&mut self) -> Result<u64> {
        let (file, view, start) = (self.file, &self.view, self.request.start);
        let bytes = match &mut self.buffers {
            Buffers::Read(buffers) => file.read_at(view, start, buffers).await,
            Buffers::Write(buffers) => file.write_at(view, start, buffers).await,
        };
        bytes.map(|bytes| bytes as u64)
    }

    /// After a slot: begins the next one, ends, or falls back.
    fn evaluate_slot(
        &self,
        mut running: Box<RunningCall>,
        all: &[Vec<u8>],
    ) -> Result<Result<Box<RunningCall>, usize>> {
        let outcomes =
            all.iter().map(|bytes| Outcome::from_bytes(bytes)).collect::<Result<Vec<_>>>()?;
        let is_final = |(rank, outcome): (usize, &Outcome)| {
            running.fell_back || !outcome.passes() || !running.plan.is_through_daemons(rank)
        };
        let mut failed = outcomes.iter().enumerate().filter(|(_, outcome)| !outcome.is_done());
        // Later slots would wait for the same failed server, each for the time of a call.
        if let Some((rank, outcome)) = failed.find(|failed| is_final(*failed)) {
            return Err(outcome.error(rank));
        }
        if running.slot < running.plan.slots() {
            return Ok(Ok(running));
        }
        if outcomes.iter().all(Outcome::is_done) {
            return Ok(Err(running.outcome.bytes() as usize));
        }
        running.plan = running.plan.fall_back(&running.all, &outcomes)?;
        if running.plan.step_of(self.rank).is_some_and(|step| step.method != TransferMethod::Done) {
            // Until its slot comes, the outcome belongs to the new plan.
            running.outcome = Outcome::done(0);
        }
        (running.slot, running.fell_back) = (0, true);
        Ok(Ok(running))
    }
}

/// For calls with this `timeout`, and this number of bytes of all tasks.
fn time_max(timeout: Duration, bytes: u64) -> Duration {
    let moving = Duration::from_secs(bytes.div_ceil(RENDEZVOUS_BYTES_PER_SECOND));
    timeout.saturating_mul(RENDEZVOUS_TIMEOUTS).saturating_add(moving)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_wait_for_each_other_as_long_as_the_bytes_of_all_may_take() {
        let timeout = Duration::from_secs(30);
        assert_eq!(time_max(timeout, 0), Duration::from_secs(60));
        assert_eq!(time_max(timeout, 64 << 30), Duration::from_secs(60 + 4096));
        assert_eq!(time_max(Duration::MAX, u64::MAX), Duration::MAX);
    }
}
