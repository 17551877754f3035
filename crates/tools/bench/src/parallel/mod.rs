//! `bench parallel`: tasks that share a file, like those of a parallel program. A task is a thread
//! with its own client, connections and handle, or a rank of an MPI; the daemons are processes.

mod collective;
mod lists;
mod mounted;
pub mod mpi;
mod partition;
mod python;
mod strided;
mod tasks;

use braid_testbed::stats::Summary;

use crate::{bench::WorkCost, measure::Measure, rows::Row};

/// In the order of a whole run.
pub const ROWS: &[Row] = &[
    Row {
        name: "strided",
        about: "4 tasks, each 4 KiB of every 16 KiB: through a view, and one call for each block",
        run: strided::run,
    },
    Row {
        name: "partition",
        about: "4 tasks, 2 MiB at a time of their partitions: partition and stripe matched, and \
            not (1996 paper, figure 11)",
        run: partition::run,
    },
    Row {
        name: "collective",
        about: "one call of 4 tasks: each for itself, through the daemons, and as the library \
            decides, by the shape of what they want",
        run: collective::run,
    },
    Row {
        name: "lists",
        about: "10,000 ranges of 4 KiB in one call, and one read for each",
        run: lists::run,
    },
    Row {
        name: "python",
        about: "10,000 ranges of 4 KiB by Python: fsspec's cat_ranges, and one read for each",
        run: python::run,
    },
    Row {
        name: "mpi_contiguous",
        about: "4 ranks, 64 MiB of each in one call: MPI-IO by the shim, and the library",
        run: mpi::contiguous,
    },
    Row {
        name: "mpi_strided",
        about: "4 ranks, each 4 KiB of every 16 KiB by itself: the shim, and ROMIO's data \
            sieving on the mount",
        run: mpi::strided,
    },
    Row {
        name: "mpi_collective",
        about: "collective calls of 4 ranks by shapes: the shim, and ROMIO's and OMPIO's two \
            phases on the mount",
        run: mpi::collectives,
    },
];

/// A rate of some samples, in millions of bytes a second.
fn rate(name: impl Into<String>, taken: &[WorkCost], bytes: u64) -> Measure {
    let rates = taken.iter().map(|one| one.mb_per_second(bytes));
    Measure::new(name, "MB/s", Summary::of(rates).expect("there is a sample"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_all_bytes_in_the_time_of_the_slowest_task() {
        let taken = |seconds| WorkCost {
            time: std::time::Duration::from_secs(seconds),
            cpu: std::time::Duration::ZERO,
        };
        let measure = rate("row.what", &[taken(1), taken(4), taken(2)], 8_000_000);
        assert_eq!((measure.plain.summary.median, measure.plain.summary.min), (4.0, 2.0));
    }

    #[test]
    fn rows_have_names_of_their_own() {
        let mut names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
    }
}
