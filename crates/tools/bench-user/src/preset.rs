//! The workloads of the five papers, with their parameters (`docs/bench.md` has the sections). A
//! machine of a paper is a task here. Files are as large as `--size` and the free space allow. Rows
//! for more daemons than the cluster has are left out.

use crate::{
    error::{BenchError, Result},
    rows::{Data, PLAIN, RowKind, RowSpec, mixed, oltp, postmark},
};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Name, number of tasks, and description.
pub const PRESETS: &[(&str, u32, &str)] = &[
    (
        "pvfs-1996",
        4,
        "reads by request size, stripe size and partition (section 3, figures 8 to 11)",
    ),
    (
        "cifs-2007",
        4,
        "streams of 1 MiB records, one file each (remote I/O tests, one and four processes)",
    ),
    (
        "united-fs-2007",
        4,
        "N-user IOzone, one file each, on one disk or striped (section 4, figures 2 and 3)",
    ),
    ("direct-pnfs-2007", 8, "IOR, ATLAS, BTIO, OLTP, PostMark (section 6, figures 6 to 8)"),
    (
        "wpvfs-2008",
        1,
        "one client by daemons, 64 KiB stripes; MPI-IO's views (section 4, figures 4 to 6)",
    ),
];

/// Names for `--preset`.
#[must_use]
pub fn preset_names() -> Vec<&'static str> {
    PRESETS.iter().map(|(name, ..)| *name).collect()
}

/// The paper's number of tasks.
pub(crate) fn tasks(name: &str) -> Option<u32> {
    PRESETS.iter().find(|(known, ..)| *known == name).map(|(_, tasks, _)| *tasks)
}

/// The rows of a preset.
pub(crate) fn rows(name: &str, tasks: u32, iods: usize) -> Result<Vec<RowSpec>> {
    let rows = match name {
        "pvfs-1996" => pvfs(tasks),
        "cifs-2007" => cifs(tasks),
        "united-fs-2007" => united_fs(tasks),
        "direct-pnfs-2007" => direct_pnfs(tasks),
        "wpvfs-2008" => wpvfs(),
        other => {
            let names = preset_names().join(", ");
            return Err(BenchError::Usage(format!(
                "there is no preset '{other}'; the presets are {names}"
            )));
        }
    };
    let fits = |spec: &RowSpec| match spec.kind {
        RowKind::Data(Data { iods: Some(wanted), .. }) => usize::from(wanted) <= iods,
        _ => true,
    };
    Ok(rows.into_iter().filter(fits).collect())
}

/// A row that reads or writes, named after its subject.
fn row(about: impl Into<String>, what: &str, data: Data) -> RowSpec {
    let way = if data.write { "write" } else { "read" };
    RowSpec {
        name: format!("{}-{way}", about.into()),
        what: what.into(),
        kind: RowKind::Data(data),
        quick: true,
    }
}

/// The row for writing, then for reading.
fn both(about: &str, what: &str, data: Data) -> [RowSpec; 2] {
    [row(about, what, Data { write: true, ..data }), row(about, what, data)]
}

fn size(bytes: usize) -> String {
    if bytes >= MIB { format!("{}m", bytes / MIB) } else { format!("{}k", bytes / KIB) }
}

/// 1996, 3: figure 8 (one I/O node by request size), 9 (16 KiB stripes, by I/O nodes and request
/// size), 10 (stripe size, 4 nodes), 11 (four tasks, 2 MiB requests, group size against stripe
/// size).
fn pvfs(tasks: u32) -> Vec<RowSpec> {
    let mut rows = Vec::new();
    let striped = Data { stripe: Some(16 * 1024), ..PLAIN };
    for request in [16 * KIB, 64 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB] {
        for iods in [1, 2, 3, 4, 8] {
            let what =
                "one task, 16 KiB stripes, by request size and I/O daemons (figures 8 and 9)";
            rows.push(row(
                format!("{}-of-{iods}", size(request)),
                what,
                Data { request, iods: Some(iods), ..striped },
            ));
        }
    }
    for stripe in [4, 16, 64, 256] {
        let data = Data { request: 2 * MIB, iods: Some(4), stripe: Some(stripe * 1024), ..PLAIN };
        rows.push(row(
            format!("stripe-{stripe}k"),
            "2 MiB requests on 4 I/O daemons, by stripe size (figure 10)",
            data,
        ));
    }
    for group in [4 * KIB, 16 * KIB, 64 * KIB] {
        let what = "2 MiB requests of each task's own partition, 16 KiB stripes on 4 I/O daemons, \
                    by group size (figure 11)";
        let data = Data { tasks, request: 2 * MIB, iods: Some(4), piece: Some(group), ..striped };
        rows.push(row(format!("partition-{}", size(group)), what, data));
    }
    rows
}

/// CIFS 2007: records of 1 MiB; one and several processes, each its own stream.
fn cifs(tasks: u32) -> Vec<RowSpec> {
    let stream = Data { shared: false, ..PLAIN };
    let what = "1 MiB records in order, each process its own file";
    let mut rows = both("1-process", what, stream).to_vec();
    rows.extend(both(&format!("{tasks}-processes"), what, Data { tasks, ..stream }));
    rows
}

/// United-FS 2007, 4: each user writes, then reads, its own file in order; a whole file on one disk
/// (the single policy), and striped.
fn united_fs(tasks: u32) -> Vec<RowSpec> {
    let user = Data { tasks, shared: false, request: 64 * KIB, ..PLAIN };
    let single = both(
        "single",
        "N-user IOzone: 64 KiB records, each user's file on one I/O daemon",
        Data { iods: Some(1), ..user },
    );
    let stripe = both("stripe", "N-user IOzone: 64 KiB records, each user's file striped", user);
    [single, stripe].concat()
}

/// Direct-pNFS 2007, 6.2 to 6.4.
fn direct_pnfs(tasks: u32) -> Vec<RowSpec> {
    let mut rows = Vec::new();
    for request in [2 * MIB, 8 * KIB] {
        let own = Data { tasks, shared: false, request, ..PLAIN };
        let what = "IOR: each client its own file, in order (6.2, figures 6 and 7)";
        rows.extend(both(&format!("separate-{}", size(request)), what, own));
        let what = "IOR: each client its own part of one file, in order (6.2, figures 6 and 7)";
        rows.extend(both(
            &format!("one-file-{}", size(request)),
            what,
            Data { shared: true, ..own },
        ));
    }
    rows.push(RowSpec { name: "atlas".into(), ..mixed::row() });
    // Class A: 64 x 64 x 64 cells of 40 bytes; a task of four has rows of 32 cells.
    let btio = Data { tasks, piece: Some(32 * 40), collective: true, ..PLAIN };
    rows.extend(both(
        "btio",
        "BTIO class A: rows of 32 cells of 40 bytes, 1 MiB a task and collective call (6.3.2)",
        btio,
    ));
    rows.push(oltp::row());
    let sizes = postmark::Sizes { stripe: Some(64 << 10), ..postmark::PAPER };
    rows.push(RowSpec { kind: RowKind::Postmark(sizes), ..postmark::row() });
    rows
}

/// 2008, 4.2 to 4.4: 64 KiB stripes over 1 to 4 I/O daemons; a buffer of one stripe on each, 1 MiB
/// through the driver, and MPI-IO's views of one stripe in each row.
fn wpvfs() -> Vec<RowSpec> {
    let mut rows = Vec::new();
    for iods in 1..=4_u16 {
        let data = Data { iods: Some(iods), stripe: Some(64 << 10), ..PLAIN };
        let buffer = usize::from(iods) * 64 * KIB;
        let what = "64 KiB stripes, a buffer of one stripe on each I/O daemon (4.2, figure 4)";
        rows.extend(both(&format!("library-{iods}"), what, Data { request: buffer, ..data }));
        let what = "64 KiB stripes, a buffer of 1 MiB (4.3, figure 5)";
        rows.extend(both(&format!("buffer-1m-{iods}"), what, data));
        let what =
            "as many tasks as I/O daemons, views of 64 KiB in each row of stripes (4.4, figure 6)";
        let view = Data { tasks: iods.into(), piece: Some(64 * KIB), request: buffer, ..data };
        rows.extend(both(&format!("mpi-io-{iods}"), what, view));
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_preset_has_rows_with_names_of_their_own() {
        for (name, tasks, _) in PRESETS {
            let rows = rows(name, *tasks, 64).unwrap();
            let names: HashSet<_> = rows.iter().map(|row| &row.name).collect();
            assert!(names.len() == rows.len() && !rows.is_empty(), "{name}");
        }
        assert!(rows("pvfs-1997", 1, 64).is_err());
    }

    #[test]
    fn rows_for_more_daemons_than_there_are_are_left_out() {
        let names = |iods| rows("wpvfs-2008", 1, iods).unwrap().len();
        assert_eq!((names(4), names(1)), (24, 6));
    }
}
