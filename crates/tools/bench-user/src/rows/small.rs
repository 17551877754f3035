//! Small files, one phase a row: created, looked up, read, removed. Each task has its own
//! directory.

use braid_client::{IodId, OpenOptions};

use super::{Measured, Random, RowKind, RowSpec};
use crate::{
    bench::Bench,
    bottleneck::{Calls, Limits},
    content::Content,
    error::{BenchError, Result},
    report::{LimitKind, Unit},
    sample::{Task, rate},
};

/// Bytes of a small file.
const FILE_BYTES: usize = 4096;
/// Number of files for lookups and reads in each task's directory.
const STANDING: u64 = 100;
/// Maximum number of files of one task: longer directories would take long to remove.
const FILES_MAX: u64 = 20_000;

/// The operation on the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Create,
    Stat,
    Read,
    Unlink,
}

pub(super) fn rows() -> Vec<RowSpec> {
    let row = |name: &str, what: &str, phase| RowSpec {
        name: name.into(),
        what: what.into(),
        kind: RowKind::Small(phase),
        quick: true,
    };
    vec![
        row("small-create", "files of 4 KiB: create, write, close", Phase::Create),
        row("small-stat", "attributes of small files", Phase::Stat),
        row("small-read", "small files: open, read, close", Phase::Read),
        row("small-unlink", "small files removed", Phase::Unlink),
    ]
}

pub(super) fn measure(bench: &Bench<'_>, limits: &Limits, phase: Phase) -> Result<Measured> {
    let task = |rank: u32| -> Result<SmallTask<'_>> {
        let directory =
            bench.scratch.subdirectory(format!("small-{phase:?}-{rank}").to_lowercase())?;
        let content = Content::new(u64::from(rank), FILE_BYTES);
        Ok(SmallTask {
            bench,
            phase,
            directory,
            content,
            first: 0,
            next: 0,
            random: Random::new(rank.into()),
        })
    };
    let mut tasks: Vec<_> = (0..bench.options.tasks()).map(task).collect::<Result<_>>()?;
    let sample = rate(bench, bench.sample, &mut tasks)?;
    tasks.iter_mut().try_for_each(SmallTask::remove_all)?;
    let calls = match phase {
        Phase::Create => Calls { changes: 1, iod: 1, ..Calls::default() },
        Phase::Read => Calls { looks: 1, iod: 1, ..Calls::default() },
        Phase::Stat => Calls { looks: 1, ..Calls::default() },
        Phase::Unlink => Calls { changes: 1, ..Calls::default() },
    };
    let iods: Vec<IodId> = bench.iods.iter().map(|iod| iod.id).collect();
    let parts: &[(LimitKind, f64)] = match phase {
        Phase::Create => &[(LimitKind::MdsCreates, 1.0), (LimitKind::IodObjects, 1.0)],
        Phase::Read => &[(LimitKind::MdsOpens, 1.0), (LimitKind::IodFirstReads, 1.0)],
        Phase::Stat | Phase::Unlink => &[],
    };
    let mut ceilings = limits.calls(bench.options.tasks(), calls, &iods);
    ceilings.extend(limits.files(parts));
    Ok(Measured { unit: Unit::PerSecond, tasks: bench.options.tasks(), sample, ceilings })
}

struct SmallTask<'b> {
    bench: &'b Bench<'b>,
    phase: Phase,
    directory: String,
    content: Content,
    /// The existing files: `first..next`.
    first: u64,
    next: u64,
    random: Random,
}

impl SmallTask<'_> {
    fn path(&self, number: u64) -> String {
        format!("{}/{number}", self.directory)
    }

    fn create(&mut self) -> Result<()> {
        let path = self.path(self.next);
        let options = OpenOptions::new().write(true).create_new(true);
        let file = self.bench.client.create(&path, &options)?;
        let mut buffer = self.content.buffer(FILE_BYTES);
        self.content.stamp(&mut buffer, |_| self.next * FILE_BYTES as u64);
        self.next += 1;
        file.write_at(&buffer, 0)?;
        file.close()
    }

    fn any(&mut self) -> u64 {
        self.first + self.random.below(self.next - self.first)
    }

    fn stat(&mut self) -> Result<()> {
        let number = self.any();
        let path = self.path(number);
        let found = self.bench.client.lstat(&path)?;
        if found == FILE_BYTES as u64 {
            Ok(())
        } else {
            Err(BenchError::WrongData { file: path, offset: found })
        }
    }

    fn read(&mut self) -> Result<()> {
        let number = self.any();
        let path = self.path(number);
        let file = self.bench.client.open(&path, &OpenOptions::new().read(true))?;
        let mut buffer = vec![0; FILE_BYTES];
        let bytes = file.read_at(&mut buffer, 0)?;
        let wrong = self.content.find_wrong_block(&buffer, |_| number * FILE_BYTES as u64);
        if bytes < FILE_BYTES || wrong.is_some() {
            return Err(BenchError::WrongData { file: path, offset: 0 });
        }
        file.close()
    }

    fn unlink(&mut self) -> Result<()> {
        let path = self.path(self.first);
        self.first += 1;
        self.bench.client.unlink(&path)
    }

    fn remove_all(&mut self) -> Result<()> {
        while self.first < self.next {
            self.bench.check_stop()?;
            self.unlink()?;
        }
        Ok(())
    }
}

impl Task for SmallTask<'_> {
    /// Creates the files that the phase needs.
    fn prepare(&mut self) -> Result<()> {
        let wanted = if self.phase == Phase::Create { 0 } else { STANDING };
        while self.next - self.first < wanted {
            self.bench.check_stop()?;
            self.create()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<u64> {
        match self.phase {
            Phase::Create => self.create(),
            Phase::Stat => self.stat(),
            Phase::Read => self.read(),
            Phase::Unlink => self.unlink(),
        }?;
        Ok(1)
    }

    fn go_on(&mut self, late: bool) -> Result<bool> {
        let left = match self.phase {
            Phase::Create => {
                self.next
                    < FILES_MAX.min(
                        self.bench.bytes
                            / u64::from(self.bench.options.tasks())
                            / FILE_BYTES as u64,
                    )
            }
            Phase::Stat | Phase::Read => true,
            Phase::Unlink => self.first < self.next,
        };
        Ok(left && !late)
    }
}
