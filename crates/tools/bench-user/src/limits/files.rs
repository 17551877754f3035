//! The servers' parts in the creation and reading of a small file, measured one at a time: the
//! metadata server creates and opens files without data transfer, and the I/O daemons receive the
//! first bytes of open files.
//!
//! ```text
//!   all tasks:  create ──► first write ──► close ──► open ──► first read ──► close, unlink
//!   timed:      MdsCreates IodObjects      -         MdsOpens IodFirstReads  -
//! ```
//!
//! A row that creates or reads small files does at least this, so it cannot exceed any of these
//! limits.

use braid_client::OpenOptions;

use super::limit;
use crate::{
    bench::Bench,
    error::{BenchError, Result},
    pace::PacedFile,
    report::{Limit, LimitKind},
    sample::{Task, once},
};

/// Number of these limits.
pub(super) const COUNT: usize = 4;

/// Size of a small file, as in the rows.
const FILE_BYTES: usize = 4096;
/// Maximum number of files of one task.
const FILES_MAX: usize = 2_000;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Limit>> {
    let task = |rank: u32| -> Result<FilesTask<'_>> {
        let directory = bench.scratch.subdirectory(format!("limits-{rank}"))?;
        Ok(FilesTask {
            bench,
            directory,
            part: Part::Create,
            open: Vec::new(),
            made: 0,
            written: 0,
            done: 0,
        })
    };
    let count = bench.options.tasks();
    let mut tasks: Vec<_> = (0..count).map(task).collect::<Result<_>>()?;
    let mut rate_of = |part| -> Result<f64> {
        tasks.iter_mut().try_for_each(|task| task.begin(part))?;
        once(bench, bench.limit_sample, &mut tasks)
    };
    let (creates, objects) = (rate_of(Part::Create)?, rate_of(Part::Write)?);
    let (opens, reads) = (rate_of(Part::Open)?, rate_of(Part::Read)?);
    tasks.iter_mut().try_for_each(FilesTask::remove_all)?;
    Ok(vec![
        limit(
            LimitKind::MdsCreates,
            None,
            format!("the files that the metadata server creates for {count} tasks"),
            "created and opened, no byte written; not forced to disk",
            creates,
        ),
        limit(
            LimitKind::IodObjects,
            None,
            format!("the new objects that the I/O daemons create for {count} tasks"),
            "the first 4 KiB of open files without data; not forced to disk",
            objects,
        ),
        limit(
            LimitKind::MdsOpens,
            None,
            format!("the files that the metadata server opens for {count} tasks"),
            "opened for reading, no byte read",
            opens,
        ),
        limit(
            LimitKind::IodFirstReads,
            None,
            format!("the first reads of open files that the I/O daemons serve for {count} tasks"),
            "4 KiB that were just written, from the daemons' memory",
            reads,
        ),
    ])
}

/// The measured operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Create,
    Write,
    Open,
    Read,
}

struct FilesTask<'b> {
    bench: &'b Bench<'b>,
    directory: String,
    part: Part,
    /// Files with numbers from 0 on.
    open: Vec<PacedFile>,
    made: usize,
    /// How many of them have bytes.
    written: usize,
    /// Steps done in this part.
    done: usize,
}

impl FilesTask<'_> {
    /// Prepares a part, untimed. Before the opens are timed, every file is closed, and opened and
    /// closed once: the first open after a write waits until the metadata server has collected the
    /// size, which rows that read do not wait for.
    fn begin(&mut self, part: Part) -> Result<()> {
        (self.part, self.done) = (part, 0);
        if part != Part::Open {
            return Ok(());
        }
        self.close_all()?;
        for number in 0..self.written {
            self.bench.check_stop()?;
            let options = OpenOptions::new().read(true);
            self.bench.client.open(&self.path(number), &options)?.close()?;
        }
        Ok(())
    }

    fn close_all(&mut self) -> Result<()> {
        self.open.drain(..).try_for_each(PacedFile::close)
    }

    fn path(&self, number: usize) -> String {
        format!("{}/{number}", self.directory)
    }

    fn remove_all(&mut self) -> Result<()> {
        self.close_all()?;
        while self.made > 0 {
            self.bench.check_stop()?;
            self.made -= 1;
            self.bench.client.unlink(&self.path(self.made))?;
        }
        Ok(())
    }

    /// Maximum number of steps of this part.
    fn steps(&self) -> usize {
        match self.part {
            Part::Create => FILES_MAX,
            Part::Write => self.made,
            Part::Open => self.written,
            Part::Read => self.open.len(),
        }
    }
}

impl Task for FilesTask<'_> {
    fn step(&mut self) -> Result<u64> {
        let path = self.path(self.done);
        match self.part {
            Part::Create => {
                let options = OpenOptions::new().write(true).create_new(true);
                self.open.push(self.bench.client.create(&path, &options)?);
                self.made += 1;
            }
            Part::Write => {
                self.open[self.done].write_at(&[3; FILE_BYTES], 0)?;
                self.written += 1;
            }
            Part::Open => {
                self.open.push(self.bench.client.open(&path, &OpenOptions::new().read(true))?)
            }
            Part::Read => {
                let mut found = [0; FILE_BYTES];
                let bytes = self.open[self.done].read_at(&mut found, 0)?;
                if bytes < FILE_BYTES || found.iter().any(|byte| *byte != 3) {
                    return Err(BenchError::WrongData { file: path, offset: 0 });
                }
            }
        }
        self.done += 1;
        Ok(1)
    }

    fn go_on(&mut self, late: bool) -> Result<bool> {
        Ok(!late && self.done < self.steps())
    }
}
