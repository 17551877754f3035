//! What each server does of a small file's making and reading, one part at a time: the metadata server makes and opens files of
//! which no byte is written or read, the I/O daemons get the first bytes of files that are open.
//!
//! ```text
//!   all tasks:  create ──► first write ──► close ──► open ──► first read ──► close, unlink
//!   timed:      MdsCreates IodObjects      -         MdsOpens IodFirstReads  -
//! ```
//!
//! A row that makes or reads small files does at least this, so it cannot come above any of these limits.

use braid_client::OpenOptions;

use super::limit;
use crate::{
    bench::Bench,
    error::{BenchError, Result},
    pace::PacedFile,
    report::{Limit, LimitKind},
    sample::{Task, once},
};

/// How many limits these are.
pub(super) const COUNT: usize = 4;

/// Bytes of a small file, as the rows have them.
const FILE_BYTES: usize = 4096;
/// Files of one task at most.
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
            format!("the files that the metadata server makes for {count} tasks"),
            "created and opened, no byte written; not forced to disk",
            creates,
        ),
        limit(
            LimitKind::IodObjects,
            None,
            format!("the new objects that the I/O daemons make for {count} tasks"),
            "the first 4 KiB of files that are open and were never written; not forced to disk",
            objects,
        ),
        limit(
            LimitKind::MdsOpens,
            None,
            format!("the files that the metadata server opens for {count} tasks"),
            "opened to be read, no byte read",
            opens,
        ),
        limit(
            LimitKind::IodFirstReads,
            None,
            format!("the first reads of open files that the I/O daemons answer to {count} tasks"),
            "4 KiB that were just written, from the daemons' memory",
            reads,
        ),
    ])
}

/// What is measured.
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
    /// Files with the numbers from 0 on.
    open: Vec<PacedFile>,
    made: usize,
    /// Of them, those that have bytes.
    written: usize,
    /// Steps of this part.
    done: usize,
}

impl FilesTask<'_> {
    /// Prepares a part, untimed. Before the opens are timed, every file is closed, and opened and closed once: the first
    /// open after a write waits until the metadata server has collected the size, which rows that read do not wait for.
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

    /// How many steps this part has at most.
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
