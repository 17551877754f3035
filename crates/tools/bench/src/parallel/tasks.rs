//! Tasks of a parallel program: threads, each with its own client, which start at the same time.

use std::{sync::Barrier, thread};

use anyhow::Result;
use braid_client::{Client, File, OpenOptions, TlsPolicy};

use crate::bench::{Bench, WorkCost};

/// Number of tasks.
pub const TASKS: usize = 4;

/// The tasks and their handles of one file.
pub struct Tasks {
    files: Vec<File>,
    // Dropped after the files.
    _clients: Vec<Client>,
}

impl Tasks {
    /// Opens a file in every task; the first one creates it.
    pub fn open(bench: &Bench, path: &str, options: &OpenOptions) -> Result<Self> {
        let cluster = bench.cluster()?;
        let clients: Vec<Client> =
            (0..TASKS).map(|_| cluster.client(TlsPolicy::default())).collect::<Result<_>>()?;
        let files =
            clients.iter().map(|client| Ok(client.open(path, options)?)).collect::<Result<_>>()?;
        Ok(Self { files, _clients: clients })
    }

    /// The handles, by rank.
    pub fn files(&self) -> &[File] {
        &self.files
    }
}

/// The time of `work` by all ranks, each with its own state: from when all are ready to when the
/// last is done.
pub fn together<S: Send>(
    bench: &Bench,
    states: &mut [S],
    work: impl Fn(usize, &mut S) -> Result<()> + Sync,
) -> Result<WorkCost> {
    let ready = Barrier::new(states.len() + 1);
    thread::scope(|scope| {
        let (ready, work) = (&ready, &work);
        let start = |(rank, state)| {
            scope.spawn(move || {
                ready.wait();
                work(rank, state)
            })
        };
        let threads: Vec<_> = states.iter_mut().enumerate().map(start).collect();
        bench.take(|| {
            ready.wait();
            threads.into_iter().try_for_each(|thread| thread.join().expect("a task does not panic"))
        })
    })
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;
    use crate::args::CoreArgs;

    #[test]
    fn every_task_works_and_one_that_fails_fails_all() {
        let bench = Bench::new(&CoreArgs { quick: true, ..CoreArgs::default() }).unwrap();
        let mut counts = [0; TASKS];
        together(&bench, &mut counts, |rank, count| {
            *count += rank + 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(counts, [1, 2, 3, 4]);
        let failed =
            together(
                &bench,
                &mut counts,
                |rank, _| if rank == 2 { bail!("task 2") } else { Ok(()) },
            );
        assert_eq!(failed.unwrap_err().to_string(), "task 2");
    }
}
