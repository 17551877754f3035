//! Collective calls: all tasks of a program read or write one file together (`docs/adr/0015-collective-requests.md`).
//!
//! ```text
//!   begin ── announcement ──> all_gather ──> step ── outcome ──> all_gather ──> step ── Done
//!                                             |                                  '- or further: fall-back, turns
//!                                             '- this task's part: through the daemons' collective request, or by itself
//! ```
//!
//! Invariants:
//! 1. What a step decides follows from what all tasks gave alone, so that all decide the same (`decide.rs`).
//! 2. Every task gives as often as every other, whatever becomes of its part.
//! 3. All tasks end with success, or all with the same failure, after the first turn that has one which does not pass: that of the
//!    lowest rank.

mod announcement;
mod decide;
mod outcome;
mod overlap;
mod refusal;
mod run;

use std::{
    io::{IoSlice, IoSliceMut},
    time::Duration,
};

use braid_layout::Request;
use braid_net::{Driver, random_bytes};
use braid_types::{Status, limits::FILE_BYTES_MAX};
use braid_wire::Rights;

use self::{
    announcement::Announcement,
    decide::{Plan, Way},
    outcome::Outcome,
};
use super::{FileView, OpenFile, transfer::Stop};
use crate::error::{Error, Result};

pub(crate) use overlap::{announce_part, parts_overlap};
pub(crate) use refusal::{announce_refusal, refused_by};

/// What the tasks wait for each other, in a call's times: each of them may first use its own up.
const RENDEZVOUS_TIMES: u32 = 2;
/// And besides for the bytes of all, as if they moved so fast: slower than the disks and networks that parallel programs have. Parts
/// take as long as they move, and a task that has done its own must not give the others up.
const RENDEZVOUS_BYTES_PER_SECOND: u64 = 16 << 20;

/// How a collective call goes about it. The same for all tasks of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CollectiveOptions {
    /// Who does the work.
    pub mode: CollectiveMode,
    /// What becomes of bytes that several tasks write.
    pub overlap: Overlap,
}

/// Who carries a collective call out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum CollectiveMode {
    /// The I/O daemons where tasks want interleaved short pieces, or write what overlaps; else each task by itself. Short is less
    /// than 256 bytes to read and 16 KiB to write, and 4 KiB for both over TLS, on average.
    #[default]
    Auto,
    /// The I/O daemons, wherever two tasks or more want bytes.
    Server,
    /// Each task by itself.
    Independent,
}

/// What becomes of bytes that several tasks write in one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Overlap {
    /// Those of the highest rank are there after it.
    #[default]
    HighestRank,
    /// The call is refused before a byte is written.
    Refuse,
}

/// What a task does next.
#[derive(Debug)]
pub enum Next {
    /// Gives these bytes to all tasks, and what all gave to [`Collective::step`].
    Gather(Vec<u8>),
    /// The call is over: how many bytes this task has read or written, or why all have failed.
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
    /// How much the buffers hold.
    room: u64,
    buffers: Buffers<'a, 'b>,
    rank: usize,
    stage: Stage,
}

enum Stage {
    Announced,
    Running(Box<Running>),
    Over,
}

/// The tasks do their parts, in one slot or one after the other.
struct Running {
    all: Vec<Announcement>,
    plan: Plan,
    /// Which is the current one.
    slot: usize,
    /// This task's.
    outcome: Outcome,
    /// Whether the daemons were tried before.
    fell_back: bool,
}

impl<D: Driver> OpenFile<D> {
    /// Begins a collective read, as the task of this rank: [`OpenFile::read_at`] of all tasks together. What it returns first is to
    /// be given to all.
    pub async fn read_all_at<'a, 'b>(
        &'a self,
        rank: u32,
        view: &FileView,
        start: u64,
        buffers: &'a mut [IoSliceMut<'b>],
        options: &CollectiveOptions,
    ) -> (Collective<'a, 'b, D>, Vec<u8>) {
        let room = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        self.begin_collective(rank, view, start, room, Buffers::Read(buffers), options).await
    }

    /// Begins a collective write, as the task of this rank: [`OpenFile::write_at`] of all tasks together. What it returns first is
    /// to be given to all.
    pub async fn write_all_at<'a, 'b>(
        &'a self,
        rank: u32,
        view: &FileView,
        start: u64,
        buffers: &'a [IoSlice<'b>],
        options: &CollectiveOptions,
    ) -> (Collective<'a, 'b, D>, Vec<u8>) {
        let room = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        self.begin_collective(rank, view, start, room, Buffers::Write(buffers), options).await
    }

    async fn begin_collective<'a, 'b>(
        &'a self,
        rank: u32,
        view: &FileView,
        start: u64,
        room: u64,
        buffers: Buffers<'a, 'b>,
        options: &CollectiveOptions,
    ) -> (Collective<'a, 'b, D>, Vec<u8>) {
        let (view, request) = (view.clone(), view.request(start, room));
        let stage = Stage::Announced;
        let collective =
            Collective { file: self, view, request, room, buffers, rank: rank as usize, stage };
        let ready = collective.make_ready().await;
        let announcement = Announcement {
            verdict: Outcome::of(ready.as_ref().map(|ready| ready.pieces)),
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

/// What a task has found out about its own part.
struct Ready {
    session: u64,
    /// How long its pieces are on average, in bytes.
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

    /// Everything that can fail before the others are met.
    async fn make_ready(&self) -> Result<Ready> {
        let file = self.file;
        file.allow(if self.is_write() { Rights::WRITE } else { Rights::READ })?;
        if self.is_write() && self.request.bytes < self.room {
            let why =
                format!("{} bytes go past the end of the view or byte {FILE_BYTES_MAX}", self.room);
            return Err(Error::new(Status::TooLarge, why).with_hint("a smaller offset"));
        }
        let deadline = file.engine().deadline();
        if file.is_stale() {
            // A new layout is as good as the old one here.
            match file.renew(&file.grant(), deadline).await {
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Replan) | Ok(_) => {}
            }
        }
        let grant = file.grant();
        if self.is_write() {
            file.reach(&grant, self.view.file_end(&self.request)?, deadline).await?;
        }
        let session = file.engine().session(deadline).await?.id.0;
        let is_plain = grant.pools.iter().all(|pool| pool.is_plain(file.engine().config.tls));
        Ok(Ready { session, pieces: decide::piece_bytes(&grant.map, &self.request)?, is_plain })
    }

    /// How long this task may wait for what the others give next: not for ever for one that hangs, and long enough for those that do
    /// their parts. The same in every task.
    pub fn time_max(&self) -> Duration {
        let bytes = match &self.stage {
            Stage::Running(running) => {
                running.all.iter().fold(0u64, |sum, task| sum.saturating_add(task.request.bytes))
            }
            Stage::Announced | Stage::Over => 0,
        };
        time_max(self.file.engine().timeout(), bytes)
    }

    /// The next step, with what all tasks gave, by rank.
    pub async fn step(&mut self, all: &[Vec<u8>]) -> Next {
        let next = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Announced => self.decide(all),
            Stage::Running(running) => self.settle(running, all),
            Stage::Over => Err(Error::new(Status::Invalid, "the collective call is over")),
        };
        match next {
            Ok(Ok(running)) => self.do_slot(running).await,
            Ok(Err(bytes)) => Next::Done(Ok(bytes)),
            Err(error) => Next::Done(Err(error.during(self.what(), self.file.path()))),
        }
    }

    fn decide(&self, all: &[Vec<u8>]) -> Result<Result<Box<Running>, usize>> {
        let all =
            all.iter().map(|bytes| Announcement::from_bytes(bytes)).collect::<Result<Vec<_>>>()?;
        if self.rank >= all.len() {
            return Err(Error::new(
                Status::Invalid,
                format!("task {} in a group of {}", self.rank, all.len()),
            ));
        }
        outcome::first_failure(all.iter().map(|task| &task.verdict))?;
        let plan = decide::plan(&all)?;
        let nothing = Outcome::done(0);
        Ok(Ok(Box::new(Running { all, plan, slot: 0, outcome: nothing, fell_back: false })))
    }

    /// Does this task's part, if it is its turn, and gives what became of it.
    async fn do_slot(&mut self, mut running: Box<Running>) -> Next {
        let Running { plan, slot, all, .. } = &*running;
        let turn =
            plan.turn_of(self.rank).filter(|turn| turn.slot == *slot && self.request.bytes > 0);
        if let Some(turn) = turn {
            let done = match turn.way {
                Way::Server => self.through_daemons(turn.circle, all).await,
                Way::Independent | Way::InTurn => self.by_itself().await,
                Way::Done => Ok(running.outcome.bytes()),
            };
            running.outcome = Outcome::of(done.as_ref().copied());
        }
        let outcome = running.outcome.to_bytes();
        running.slot += 1;
        self.stage = Stage::Running(running);
        Next::Gather(outcome)
    }

    async fn by_itself(&mut self) -> Result<u64> {
        let (file, view, start) = (self.file, &self.view, self.request.start);
        let bytes = match &mut self.buffers {
            Buffers::Read(buffers) => file.read_at(view, start, buffers).await,
            Buffers::Write(buffers) => file.write_at(view, start, buffers).await,
        };
        bytes.map(|bytes| bytes as u64)
    }

    /// After a slot: the next one, the end, or the fall-back.
    fn settle(
        &self,
        mut running: Box<Running>,
        all: &[Vec<u8>],
    ) -> Result<Result<Box<Running>, usize>> {
        let outcomes =
            all.iter().map(|bytes| Outcome::from_bytes(bytes)).collect::<Result<Vec<_>>>()?;
        let is_final = |(rank, outcome): (usize, &Outcome)| {
            running.fell_back || !outcome.passes() || !running.plan.is_through_daemons(rank)
        };
        let mut failed = outcomes.iter().enumerate().filter(|(_, outcome)| !outcome.is_done());
        // Whose turn is still to come would meet the same server that is gone, each for a call's time.
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
        if running.plan.turn_of(self.rank).is_some_and(|turn| turn.way != Way::Done) {
            // What it gives until its turn comes is of this plan.
            running.outcome = Outcome::done(0);
        }
        (running.slot, running.fell_back) = (0, true);
        Ok(Ok(running))
    }
}

/// For calls of `timeout` each, and so many bytes of all tasks.
fn time_max(timeout: Duration, bytes: u64) -> Duration {
    let moving = Duration::from_secs(bytes.div_ceil(RENDEZVOUS_BYTES_PER_SECOND));
    timeout.saturating_mul(RENDEZVOUS_TIMES).saturating_add(moving)
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
