//! Tasks on hosts of a lab: threads there, each with its own client, which start at the same time.

use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use braid_client::{File, OpenOptions, View};
use braid_netlab::Lab;

use super::{Papers, Sample, sampling::Sampling};

/// Stripes of the papers.
pub const STRIPE_BYTES: u64 = 64 << 10;
/// Bytes of a call.
pub const CALL_BYTES: u64 = 4 << 20;
/// The library's default.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The bytes that one task reads or writes.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its host.
    pub client: usize,
    /// Its file, which other tasks may share.
    pub path: String,
    /// The start of its part.
    pub start: u64,
    /// Bytes of its part, in whole calls.
    pub bytes: u64,
    /// Bytes of a call.
    pub call: u64,
    /// Its view of the file, in which `start` is then a position; `None`: the whole file.
    pub view: Option<View>,
}

impl Task {
    /// With calls of 4 MiB, without a view.
    pub fn new(client: usize, path: impl Into<String>, start: u64, bytes: u64) -> Self {
        Self { client, path: path.into(), start, bytes, call: CALL_BYTES, view: None }
    }

    /// The same with calls of this size.
    pub fn in_calls_of(&self, call: u64) -> Self {
        Self { call, ..self.clone() }
    }
}

/// The direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To the daemons.
    Write,
    /// From the daemons.
    Read,
}

impl Direction {
    /// `write`, `read`.
    pub fn word(self) -> &'static str {
        if self == Self::Write { "write" } else { "read" }
    }
}

/// Both directions.
pub const DIRECTIONS: [Direction; 2] = [Direction::Write, Direction::Read];

/// Creates the files, on all daemons or on the first `on`: measured writes are overwrites.
pub fn fill(papers: &Papers, lab: &Lab, tasks: &[Task], on: Option<u16>) -> Result<()> {
    fill_striped(papers, lab, tasks, STRIPE_BYTES, on)
}

/// The same with stripes of this size.
pub fn fill_striped(
    papers: &Papers,
    lab: &Lab,
    tasks: &[Task],
    stripe: u64,
    on: Option<u16>,
) -> Result<()> {
    lab.client_host(0)?.inside(|| {
        let client = lab.connect(TIMEOUT)?;
        for task in tasks {
            let mut options = options().create(true).stripe_size(stripe);
            if let Some(count) = on {
                options = options.first_iod(0).iod_count(count);
            }
            client.open(&task.path, &options)?.close()?;
        }
        Ok(())
    })?;
    together(papers, lab, tasks, Direction::Write).map(drop)
}

/// The total rate of all tasks, from when all are ready to when the last is done.
pub fn together(papers: &Papers, lab: &Lab, tasks: &[Task], way: Direction) -> Result<Sample> {
    thread::scope(|scope| {
        let (tell, told) = channel();
        let started: Vec<(Sender<()>, _)> = tasks
            .iter()
            .map(|task| {
                let ((go, wait), tell) = (channel(), tell.clone());
                (go, scope.spawn(move || one(lab, task, way, &wait, &tell)))
            })
            .collect();
        drop(tell);
        let (go, threads): (Vec<_>, Vec<_>) = started.into_iter().unzip();
        // The thread of a task that cannot start returns its error below, and the others end when
        // the channel closes.
        let ready = told.iter().take(tasks.len()).count() == tasks.len();
        let taking = ready.then(|| Sampling::start(papers, lab)).transpose()?;
        if ready {
            go.iter().try_for_each(|go| go.send(())).context("a task ended")?;
        }
        drop(go);
        let done = told.iter().take(tasks.len()).count();
        let bytes = tasks.iter().map(|task| task.bytes).sum();
        let sample = taking.map(|taking| taking.end(papers, lab, bytes));
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a task panicked"))??;
        }
        ensure!(done == tasks.len(), "a task ended early");
        sample.context("no task was ready")?
    })
}

fn options() -> OpenOptions {
    OpenOptions::new().read(true).write(true)
}

/// Reports that it is ready, waits, works, reports that it is done.
fn one(lab: &Lab, task: &Task, way: Direction, go: &Receiver<()>, tell: &Sender<()>) -> Result<()> {
    lab.client_host(task.client)?.enter()?;
    let client = lab.connect(TIMEOUT)?;
    let whole = client.open(&task.path, &options())?;
    let seen = task.view.clone().map(|view| whole.with_view(view)).transpose()?;
    let file = seen.as_ref().unwrap_or(&whole);
    let call = usize::try_from(task.call.min(task.bytes))?;
    let mut buffer = vec![0xa5; call];
    // Opens connections before the time measurement, so that they know the link too.
    if way == Direction::Read {
        ensure!(file.read_at(&mut buffer, task.start)? == call, "a file is short");
    } else {
        file.write_at(&buffer, task.start)?;
    }
    tell.send(()).context("the receiver has ended")?;
    if go.recv().is_err() {
        return Ok(());
    }
    work(file, task, way, &mut buffer)?;
    tell.send(()).context("the receiver has ended")?;
    drop(seen);
    Ok(whole.close()?)
}

fn work(file: &File, task: &Task, way: Direction, buffer: &mut [u8]) -> Result<()> {
    for at in (task.start..task.start + task.bytes).step_by(buffer.len()) {
        match way {
            Direction::Write => drop(file.write_at(buffer, at)?),
            Direction::Read => {
                ensure!(file.read_at(buffer, at)? == buffer.len(), "at {at} a read is short")
            }
        }
    }
    Ok(())
}
