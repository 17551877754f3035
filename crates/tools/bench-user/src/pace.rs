//! The time limit of a run, with set-up and clean-up.
//!
//! ```text
//!   began                                now    + this call  + removal of its files         until
//!     |-------------------------------------|-----------|----------------------------|           |
//!                                                  as the slowest   as many calls as remove them,
//!                                                  of its kind      each as long as the others
//! ```
//!
//! Invariants of a run with a time limit:
//!
//! 1. Every call of the file system goes through [`Paced`]. A call that creates, reads or writes
//!    runs only while it and the removal of all files fit before the end, by the times of earlier
//!    calls; else it is refused ([`BenchError::OutOfTime`]).
//! 2. Removals and closes are never refused. Nor are collective calls, since other tasks would
//!    wait: tasks check before ([`Pacer::check`]), and agree.
//!
//! No assertion checks these: [`Paced`] is the only subject that a run gets (1), and its other
//! calls do not ask the pacer (2).
//!
//! So the run ends in time whatever the file system does, unless a call takes much longer than any
//! earlier call of its kind. `run/slow.rs` tests that with a clock of its own.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use braid_client::{
    IodId, OpenOptions, Status, ThreadGroup, View,
    message::iod::{DiskRates, MeasureDisk},
};

use crate::{
    error::{BenchError, Result},
    iods::Iod,
    subject::{OpenedFile, Subject},
};

/// The time, from any starting point on.
pub(crate) trait Clock: Send + Sync {
    fn now(&self) -> Duration;
}

/// This machine's clock.
#[derive(Debug)]
pub(crate) struct SystemClock(Instant);

impl SystemClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Calls that take about the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CallKind {
    /// Creates a file.
    Make,
    MakeDirectory,
    Look,
    Read,
    Write,
    Sync,
    /// A daemon measures its disk.
    Disk,
    /// Removes a file.
    Remove,
    RemoveDirectory,
    /// Closes a file, or lists a directory before its removal.
    End,
    /// A collective call of all tasks.
    Together,
}

const KINDS: usize = 11;

impl CallKind {
    /// Number of calls that remove the result of one call of this kind: a directory is listed
    /// before.
    fn removal_calls(self) -> u32 {
        match self {
            Self::Make | Self::Remove => 1,
            Self::MakeDirectory | Self::RemoveDirectory => 2,
            _ => 0,
        }
    }

    fn makes(self) -> bool {
        matches!(self, Self::Make | Self::MakeDirectory)
    }

    fn removes(self) -> bool {
        matches!(self, Self::Remove | Self::RemoveDirectory)
    }
}

/// Enforces the time limit of a run.
pub(crate) struct Pacer {
    clock: Arc<dyn Clock>,
    /// `None`: no time limit.
    spent: Option<Mutex<CallCosts>>,
}

struct CallCosts {
    until: Duration,
    /// The longest call of each kind.
    slowest: [Duration; KINDS],
    /// Number of calls that would remove all files of the run.
    there: u32,
    made: CallCost,
    removed: CallCost,
}

/// Number of calls, and their total time.
#[derive(Clone, Copy, Default)]
struct CallCost {
    calls: u32,
    time: Duration,
}

impl CallCost {
    fn mean(self) -> Option<Duration> {
        self.time.checked_div(self.calls)
    }
}

impl Pacer {
    /// A run that takes at most this long from now on.
    pub(crate) fn new(clock: Arc<dyn Clock>, most: Option<Duration>) -> Self {
        let spent = |most| {
            let (until, slowest) = (clock.now() + most, [Duration::ZERO; KINDS]);
            Mutex::new(CallCosts {
                until,
                slowest,
                there: 0,
                made: CallCost::default(),
                removed: CallCost::default(),
            })
        };
        let spent = most.map(spent);
        Self { clock, spent }
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// An error when no time is left: tasks end then.
    pub(crate) fn check(&self) -> Result<()> {
        let now = self.now();
        self.spent().map_or(Ok(()), |spent| spent.has_time(CallKind::Together, spent.there, now))
    }

    /// Runs a part of the run that may use half of the remaining time.
    pub(crate) fn with_half_the_time<T>(&self, part: impl FnOnce() -> T) -> T {
        let Some(whole) = self.spent().map(|spent| spent.until) else { return part() };
        let now = self.now();
        self.end_at(now + whole.saturating_sub(now) / 2);
        let done = part();
        self.end_at(whole);
        done
    }

    fn end_at(&self, until: Duration) {
        if let Some(mut spent) = self.spent() {
            spent.until = until;
        }
    }

    fn spent(&self) -> Option<MutexGuard<'_, CallCosts>> {
        self.spent.as_ref().map(|spent| spent.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn call<T>(&self, kind: CallKind, call: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.spent.is_none() {
            return call();
        }
        let began = self.now();
        if let Some(mut spent) = self.spent() {
            spent.admit(kind, began)?;
        }
        let done = call();
        let took = self.now().saturating_sub(began);
        if let Some(mut spent) = self.spent() {
            spent.account(kind, took);
            // It existed before, and is counted.
            if matches!(&done, Err(BenchError::Call(error)) if error.status() == Status::Exists) {
                spent.there =
                    spent.there.saturating_sub(if kind.makes() { kind.removal_calls() } else { 0 });
            }
        }
        done
    }
}

impl CallCosts {
    fn admit(&mut self, kind: CallKind, now: Duration) -> Result<()> {
        if kind.removes() || matches!(kind, CallKind::End | CallKind::Together) {
            return Ok(());
        }
        let there = self.there + kind.removal_calls();
        self.has_time(kind, there, now)?;
        self.there = there;
        Ok(())
    }

    /// Whether a call fits before the end, together with this many removals.
    fn has_time(&self, kind: CallKind, there: u32, now: Duration) -> Result<()> {
        let one = self.removed.mean().or(self.made.mean()).unwrap_or_default();
        // One call of each kind may be as slow as the slowest.
        let slowest = [CallKind::Remove, CallKind::RemoveDirectory, CallKind::End]
            .map(|kind| self.slowest[kind as usize].max(one));
        let clean_up = one * there + slowest.iter().sum::<Duration>();
        let ends = now + self.slowest[kind as usize] + clean_up;
        if ends > self.until { Err(BenchError::OutOfTime) } else { Ok(()) }
    }

    fn account(&mut self, kind: CallKind, took: Duration) {
        let slowest = &mut self.slowest[kind as usize];
        *slowest = took.max(*slowest);
        let cost = match kind {
            kind if kind.makes() => &mut self.made,
            kind if kind.removes() => &mut self.removed,
            _ => return,
        };
        *cost = CallCost { calls: cost.calls + 1, time: cost.time + took };
        if kind.removes() {
            self.there = self.there.saturating_sub(kind.removal_calls());
        }
    }
}

/// The file system, with the time limit of the run.
pub(crate) struct Paced<'a> {
    subject: &'a dyn Subject,
    pacer: Arc<Pacer>,
}

impl<'a> Paced<'a> {
    pub(crate) fn new(subject: &'a dyn Subject, pacer: Pacer) -> Self {
        Self { subject, pacer: Arc::new(pacer) }
    }

    pub(crate) fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    fn call<T>(&self, kind: CallKind, call: impl FnOnce(&dyn Subject) -> Result<T>) -> Result<T> {
        self.pacer.call(kind, || call(self.subject))
    }

    fn opened(&self, kind: CallKind, path: &str, options: &OpenOptions) -> Result<PacedFile> {
        let file = self.call(kind, |subject| subject.open(path, options))?;
        Ok(PacedFile { file, pacer: Arc::clone(&self.pacer) })
    }

    pub(crate) fn iods(&self) -> Result<Vec<Iod>> {
        self.call(CallKind::Look, |subject| subject.iods())
    }

    pub(crate) fn available(&self) -> Result<u64> {
        self.call(CallKind::Look, |subject| subject.available())
    }

    pub(crate) fn measure_disk(&self, iod: IodId, load: &MeasureDisk) -> Result<DiskRates> {
        self.call(CallKind::Disk, |subject| subject.measure_disk(iod, load))
    }

    /// Opens an existing file.
    pub(crate) fn open(&self, path: &str, options: &OpenOptions) -> Result<PacedFile> {
        self.opened(CallKind::Look, path, options)
    }

    /// Creates and opens a file.
    pub(crate) fn create(&self, path: &str, options: &OpenOptions) -> Result<PacedFile> {
        self.opened(CallKind::Make, path, options)
    }

    pub(crate) fn mkdir(&self, path: &str) -> Result<()> {
        self.call(CallKind::MakeDirectory, |subject| subject.mkdir(path))
    }

    pub(crate) fn touch(&self, path: &str) -> Result<()> {
        self.call(CallKind::Make, |subject| subject.touch(path))
    }

    pub(crate) fn lstat(&self, path: &str) -> Result<u64> {
        self.call(CallKind::Look, |subject| subject.lstat(path))
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.call(CallKind::Look, |subject| subject.rename(from, to))
    }

    pub(crate) fn chmod(&self, path: &str, mode: u32) -> Result<()> {
        self.call(CallKind::Look, |subject| subject.chmod(path, mode))
    }

    pub(crate) fn sync_directory(&self, path: &str) -> Result<()> {
        self.call(CallKind::Sync, |subject| subject.sync_directory(path))
    }

    pub(crate) fn unlink(&self, path: &str) -> Result<()> {
        self.call(CallKind::Remove, |subject| subject.unlink(path))
    }

    pub(crate) fn rmdir(&self, path: &str) -> Result<()> {
        self.call(CallKind::RemoveDirectory, |subject| subject.rmdir(path))
    }

    pub(crate) fn list(&self, path: &str) -> Result<Vec<(String, bool)>> {
        self.call(CallKind::End, |subject| subject.list(path))
    }
}

/// An open file, with the time limit of the run.
pub(crate) struct PacedFile {
    file: Box<dyn OpenedFile>,
    pacer: Arc<Pacer>,
}

impl PacedFile {
    fn call<T>(
        &self,
        kind: CallKind,
        call: impl FnOnce(&dyn OpenedFile) -> Result<T>,
    ) -> Result<T> {
        self.pacer.call(kind, || call(&*self.file))
    }

    pub(crate) fn write_at(&self, bytes: &[u8], at: u64) -> Result<usize> {
        self.call(CallKind::Write, |file| file.write_at(bytes, at))
    }

    pub(crate) fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<usize> {
        self.call(CallKind::Read, |file| file.read_at(bytes, at))
    }

    /// Writes together with all tasks of the group.
    pub(crate) fn write_all_at(&self, group: &ThreadGroup, bytes: &[u8], at: u64) -> Result<usize> {
        self.call(CallKind::Together, |file| file.write_all_at(group, bytes, at))
    }

    /// Reads together with all tasks of the group.
    pub(crate) fn read_all_at(
        &self,
        group: &ThreadGroup,
        bytes: &mut [u8],
        at: u64,
    ) -> Result<usize> {
        self.call(CallKind::Together, |file| file.read_all_at(group, bytes, at))
    }

    pub(crate) fn sync(&self) -> Result<()> {
        self.call(CallKind::Sync, |file| file.sync())
    }

    pub(crate) fn size(&self) -> Result<u64> {
        self.call(CallKind::Look, |file| file.size())
    }

    pub(crate) fn with_view(&self, view: View) -> Result<Self> {
        Ok(Self { file: self.file.with_view(view)?, pacer: Arc::clone(&self.pacer) })
    }

    /// The daemons that hold its bytes.
    pub(crate) fn iods(&self) -> Vec<IodId> {
        self.file.iods()
    }

    pub(crate) fn close(self) -> Result<()> {
        self.pacer.call(CallKind::End, || self.file.close())
    }
}
