//! Transactions like a mail server's, as in PostMark (Direct-pNFS 2007, 6.4.2): each creates or
//! deletes a file of 1 to 500 KB among about 100 in 10 directories, then reads or appends 512 bytes
//! of another file. Written files are synced before they are closed.

use braid_client::{IodId, OpenOptions};

use super::{Measured, Random, RowKind, RowSpec};
use crate::{
    bench::Bench,
    bottleneck::{Calls, Limits},
    content::{BLOCK_BYTES_MAX, Content},
    error::{BenchError, Result},
    report::{LimitKind, Unit},
    sample::{Task, rate},
};

/// Approximate number of files of a task, where the space allows; the paper's 100.
const POOL: u64 = 100;
/// Minimum number of files of a task.
const POOL_MIN: u64 = 4;
/// Number of directories of a task; the paper's 10.
const DIRECTORIES: u64 = 10;
const APPEND_BYTES: usize = 512;

/// The sizes of the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sizes {
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) stripe: Option<u64>,
}

/// The paper's sizes, with the directory's own stripe size.
pub(crate) const PAPER: Sizes = Sizes { least: 1000, most: 500_000, stripe: None };

pub(crate) fn row() -> RowSpec {
    RowSpec {
        name: "postmark".into(),
        what: "transactions on about 100 files of 1 to 500 KB in 10 directories a task: \
               create or delete one, read or append 512 \
               bytes of one, synced before it is closed"
            .into(),
        kind: RowKind::Postmark(PAPER),
        quick: false,
    }
}

pub(super) fn measure(bench: &Bench<'_>, limits: &Limits, sizes: Sizes) -> Result<Measured> {
    let task = |rank: u32| -> Result<PostmarkTask<'_>> {
        let top = bench.scratch.subdirectory(format!("postmark-{rank}"))?;
        for number in 0..DIRECTORIES {
            bench.scratch.subdirectory(format!("postmark-{rank}/{number}"))?;
        }
        let content = Content::new(rank.into(), BLOCK_BYTES_MAX);
        let buffer = content.buffer(sizes.most as usize);
        // At most twice the pool exists at a time.
        let room = bench.bytes / u64::from(bench.options.tasks()) / (2 * sizes.most);
        let pool = POOL.min(room).max(POOL_MIN) as usize;
        Ok(PostmarkTask {
            bench,
            top,
            sizes,
            pool,
            buffer,
            files: Vec::new(),
            random: Random::new(rank.into()),
            made: 0,
        })
    };
    let mut tasks: Vec<_> = (0..bench.options.tasks()).map(task).collect::<Result<_>>()?;
    let sample = rate(bench, bench.sample, &mut tasks)?;
    tasks.iter_mut().try_for_each(PostmarkTask::remove_all)?;
    let iods: Vec<IodId> = bench.iods.iter().map(|iod| iod.id).collect();
    let count = bench.options.tasks();
    // Half of the transactions create a file, and half append: on average one sync in each.
    let mut ceilings = limits.disks(LimitKind::DiskSync, &iods);
    ceilings.extend(limits.sync_limits(LimitKind::Force, count, &iods));
    ceilings.extend(limits.calls(count, Calls { looks: 1, changes: 1, iod: 1 }, &iods));
    // Each opens one existing file.
    let parts =
        [(LimitKind::MdsCreates, 0.5), (LimitKind::IodObjects, 0.5), (LimitKind::MdsOpens, 1.0)];
    ceilings.extend(limits.files(&parts));
    Ok(Measured { unit: Unit::PerSecond, tasks: count, sample, ceilings })
}

struct PostmarkTask<'b> {
    bench: &'b Bench<'b>,
    top: String,
    sizes: Sizes,
    pool: usize,
    buffer: Vec<u8>,
    /// Names and lengths.
    files: Vec<(String, u64)>,
    random: Random,
    made: u64,
}

impl PostmarkTask<'_> {
    fn create(&mut self) -> Result<()> {
        let path = format!("{}/{}/{}", self.top, self.made % DIRECTORIES, self.made);
        self.made += 1;
        let bytes = self.sizes.least + self.random.below(self.sizes.most - self.sizes.least + 1);
        let mut options = OpenOptions::new().write(true).create_new(true);
        if let Some(stripe) = self.sizes.stripe {
            options = options.stripe_size(stripe);
        }
        let file = self.bench.client.create(&path, &options)?;
        self.files.push((path, bytes));
        file.write_at(&self.buffer[..bytes as usize], 0)?;
        file.sync()?;
        file.close()
    }

    fn delete(&mut self) -> Result<()> {
        let at = self.random.below(self.files.len() as u64) as usize;
        let (path, _) = self.files.swap_remove(at);
        self.bench.client.unlink(&path)
    }

    fn append(&mut self) -> Result<()> {
        let at = self.random.below(self.files.len() as u64) as usize;
        let (path, bytes) = &mut self.files[at];
        let file = self.bench.client.open(path, &OpenOptions::new().write(true))?;
        file.write_at(&self.buffer[..APPEND_BYTES], *bytes)?;
        *bytes += APPEND_BYTES as u64;
        file.sync()?;
        file.close()
    }

    fn read(&mut self) -> Result<()> {
        let at = self.random.below(self.files.len() as u64) as usize;
        let (path, bytes) = &self.files[at];
        let file = self.bench.client.open(path, &OpenOptions::new().read(true))?;
        let mut found = [0; APPEND_BYTES];
        let got = file.read_at(&mut found, 0)?;
        if got as u64 != (*bytes).min(APPEND_BYTES as u64) || found[..got] != self.buffer[..got] {
            return Err(BenchError::WrongData { file: path.clone(), offset: 0 });
        }
        file.close()
    }

    fn remove_all(&mut self) -> Result<()> {
        while !self.files.is_empty() {
            self.bench.check_stop()?;
            self.delete()?;
        }
        Ok(())
    }
}

impl Task for PostmarkTask<'_> {
    fn prepare(&mut self) -> Result<()> {
        while self.files.len() < self.pool {
            self.bench.check_stop()?;
            self.create()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<u64> {
        // Keeps the number of files near the pool's size: the pool never becomes empty and does not
        // grow without bound.
        let grows = self.files.len() <= self.pool / 2
            || self.files.len() < self.pool * 2 && self.random.below(2) == 0;
        if grows {
            self.create()?
        } else {
            self.delete()?
        }
        if self.random.below(2) == 0 {
            self.append()?
        } else {
            self.read()?
        }
        Ok(1)
    }
}
