//! Moves of many files: they are copied, switched in batches, and tried again if they are in use.

use std::{ops::ControlFlow, time::Duration};

use rustix::fs::Statx;
use serde::{Deserialize, Serialize};

use super::{
    NotMoved,
    links::Links,
    switch::{Prepared, Source},
};
use crate::{Result, Union, place::stat_path};

/// Files that are moved together cost one sync of the disk: at most this many, and this many bytes.
const BATCH_FILES: usize = 64;
const BATCH_BYTES: u64 = 32 << 20;
/// Reasons that a report has.
pub(super) const REASONS_MAX: usize = 100;
/// After this time a file that was changed a moment ago is tried again.
const AGAIN: Duration = Duration::from_millis(50);
const TRIES: usize = 3;

/// What was moved so far.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MoveReport {
    /// Files that were moved.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that stay.
    pub stayed: u64,
    /// The first of them, with the reasons.
    pub reasons: Vec<(String, String)>,
}

/// Is called after each group of files; the moves end early if it breaks.
pub type Progress<'p> = &'p mut dyn FnMut(&MoveReport) -> ControlFlow<()>;

/// Moves that are in progress.
pub(super) struct Mover<'u, 'p> {
    union: &'u Union,
    report: MoveReport,
    progress: Progress<'p>,
    pub(super) links: Links,
    batch: Vec<Prepared>,
    target: usize,
    /// Files that were in use or had just changed, with the reason.
    again: Vec<(usize, Vec<u8>, NotMoved)>,
}

/// Which branches take the file: best first.
pub(super) type Targets<'t> = &'t dyn Fn(&Union, &[u8], &Statx) -> Vec<usize>;

impl<'u, 'p> Mover<'u, 'p> {
    pub(super) fn new(union: &'u Union, progress: Progress<'p>) -> Self {
        Self {
            union,
            report: MoveReport::default(),
            progress,
            links: Links::default(),
            batch: Vec::new(),
            target: 0,
            again: Vec::new(),
        }
    }

    /// Copies a file to the first branch that can take it; the batch is switched when it is full.
    pub(super) fn add(
        &mut self,
        branch: usize,
        path: &[u8],
        stat: &Statx,
        targets: Targets<'_>,
    ) -> ControlFlow<()> {
        if stat.stx_nlink > 1 && self.batch.iter().any(|one| one.is_inode(branch, stat.stx_ino)) {
            // Another name of a file of the batch.
            return ControlFlow::Continue(());
        }
        let names = match self.union.all_names(branch, path.to_vec(), stat, &self.links) {
            Ok(names) => names,
            Err(why) => return self.stays(branch, path, &why),
        };
        let mut why = NotMoved::NoSpace;
        for target in targets(self.union, path, stat) {
            let names = names.clone();
            let source = Source { branch, stat: *stat, names, with_open: false };
            if target != self.target {
                self.flush()?;
                self.target = target;
            }
            match self.union.prepare(source, target) {
                Ok(prepared) => {
                    self.batch.push(prepared);
                    let bytes: u64 = self.batch.iter().map(Prepared::bytes).sum();
                    if self.batch.len() >= BATCH_FILES || bytes >= BATCH_BYTES {
                        return self.flush();
                    }
                    return ControlFlow::Continue(());
                }
                Err(error) => why = error,
            }
            if matches!(why, NotMoved::Open | NotMoved::Changed | NotMoved::Striped) {
                break;
            }
        }
        self.stays(branch, path, &why)
    }

    pub(super) fn flush(&mut self) -> ControlFlow<()> {
        if self.batch.is_empty() {
            return ControlFlow::Continue(());
        }
        for (prepared, done) in self.union.switch(std::mem::take(&mut self.batch)) {
            match done {
                Ok(()) => {
                    self.report.files += 1;
                    self.report.bytes += prepared.bytes();
                }
                Err(why) => {
                    let (branch, name) = (prepared.branch(), prepared.name().to_vec());
                    self.stays(branch, &name, &why)?;
                }
            }
        }
        (self.progress)(&self.report)
    }

    pub(super) fn stays(&mut self, branch: usize, path: &[u8], why: &NotMoved) -> ControlFlow<()> {
        if matches!(why, NotMoved::Open | NotMoved::Changed) && self.again.len() < 1 << 20 {
            self.again.push((branch, path.to_vec(), why.clone()));
            return ControlFlow::Continue(());
        }
        self.report.stayed += 1;
        if self.report.reasons.len() < REASONS_MAX {
            let path = String::from_utf8_lossy(path).into_owned();
            self.report.reasons.push((path, why.to_string()));
        }
        ControlFlow::Continue(())
    }

    /// What a walk over a branch could not read stays.
    pub(super) fn walked(
        &mut self,
        branch: usize,
        walked: Result<ControlFlow<()>>,
    ) -> ControlFlow<()> {
        let Err(error) = walked else { return walked.unwrap_or(ControlFlow::Continue(())) };
        self.report.stayed += 1;
        if self.report.reasons.len() < REASONS_MAX {
            let disk = self.union.branches[branch].path.display();
            let why = format!("some of it cannot be read: {error}");
            self.report.reasons.push((disk.to_string(), why));
        }
        ControlFlow::Continue(())
    }

    /// Tries again what was in use, and returns the report.
    pub(super) fn finish(mut self, targets: Targets<'_>) -> MoveReport {
        let _ = self.flush();
        for attempt in 1..=TRIES {
            if self.again.is_empty() {
                break;
            }
            std::thread::sleep(AGAIN);
            for (branch, path, _) in std::mem::take(&mut self.again) {
                let found =
                    self.union.branches[branch].root().and_then(|root| stat_path(&root, &path));
                // It may have been removed meanwhile.
                let Ok(stat) = found else { continue };
                if self.add(branch, &path, &stat, targets).is_break() {
                    return self.report;
                }
            }
            if self.flush().is_break() {
                break;
            }
            if attempt == TRIES {
                for (_, path, why) in std::mem::take(&mut self.again) {
                    self.report.stayed += 1;
                    let path = String::from_utf8_lossy(&path).into_owned();
                    if self.report.reasons.len() < REASONS_MAX {
                        self.report.reasons.push((path, why.to_string()));
                    }
                }
            }
        }
        self.report
    }
}

impl MoveReport {
    /// Adds what other moves did.
    pub fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.stayed += other.stayed;
        let room = REASONS_MAX.saturating_sub(self.reasons.len());
        self.reasons.extend(other.reasons.iter().take(room).cloned());
    }
}
