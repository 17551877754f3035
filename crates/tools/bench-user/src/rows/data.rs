//! Rows that read and write files: by one task or several, one file or many, in order or not,
//! through views, collectively or each task alone.

mod task;

use braid_client::ThreadGroup;
use task::DataTask;

use super::{Measured, RowKind, RowSpec, files::Files, files::Shape, files::iods_of};
use crate::{
    bench::Bench,
    bottleneck::{Calls, Limits, TransferDirection},
    content::BLOCK_BYTES_MAX,
    error::Result,
    report::{LimitKind, Unit},
    sample::rate,
};

/// Smaller requests are counted as operations, larger ones in bytes.
const COUNTED_BYTES_MAX: usize = 32 << 10;

const MIB: usize = 1 << 20;
const KIB: usize = 1 << 10;

/// The parameters of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Data {
    pub(crate) write: bool,
    /// Whether written bytes are flushed before they are overwritten, and at the end of each
    /// sample; the flush is measured too.
    pub(crate) flush: bool,
    pub(crate) tasks: u32,
    /// One file for all tasks, or one for each.
    pub(crate) shared: bool,
    /// Bytes of one request.
    pub(crate) request: usize,
    /// Random offsets, or in order.
    pub(crate) random: bool,
    /// Size of the interleaved groups through which tasks see the file; `None`: each task has its
    /// own extent.
    pub(crate) piece: Option<usize>,
    /// Whether all tasks make each request together.
    pub(crate) collective: bool,
    /// Number of daemons of each file.
    pub(crate) iods: Option<u16>,
    pub(crate) stripe: Option<u64>,
}

/// 1 MiB requests of one task, in order.
pub(crate) const PLAIN: Data = Data {
    write: false,
    flush: false,
    tasks: 1,
    shared: true,
    request: MIB,
    random: false,
    piece: None,
    collective: false,
    iods: None,
    stripe: None,
};

pub(super) fn default_rows(tasks: u32) -> Vec<RowSpec> {
    let row = |name: &str, what: &str, data: Data| RowSpec {
        name: name.into(),
        what: what.into(),
        kind: RowKind::Data(data),
        quick: true,
    };
    let write = |data: Data| Data { write: true, ..data };
    let several = Data { tasks, ..PLAIN };
    let own = Data { shared: false, ..several };
    let small = Data { request: 4 * KIB, random: true, ..several };
    // Groups smaller than a page, which daemons read for all tasks together (ADR 0015).
    let strided = Data { piece: Some(KIB), ..several };
    let together = Data { collective: true, ..strided };
    vec![
        row("sequential-write", "1 MiB requests, one task, to the daemons' memory", write(PLAIN)),
        row(
            "sequential-write-flushed",
            "the same, flushed before a byte is written again and at the end of each sample",
            Data { flush: true, ..write(PLAIN) },
        ),
        row("sequential-read", "1 MiB requests, one task, of what was just written", PLAIN),
        row("random-write-4k", "4 KiB requests at random offsets of one file", write(small)),
        row("random-read-4k", "4 KiB requests at random offsets of one file", small),
        row(
            "shared-write",
            "1 MiB requests, each task its own stretch of one file",
            write(several),
        ),
        row("shared-read", "1 MiB requests, each task its own stretch of one file", several),
        row("separate-write", "1 MiB requests, each task its own file", write(own)),
        row("separate-read", "1 MiB requests, each task its own file", own),
        row(
            "strided-write",
            "1 MiB requests of views: the tasks' KiB of one file alternate",
            write(strided),
        ),
        row(
            "strided-read",
            "1 MiB requests of views: the tasks' KiB of one file alternate",
            strided,
        ),
        row("collective-write", "the same, all tasks together", write(together)),
        row("collective-read", "the same, all tasks together", together),
    ]
}

/// Rows like those of IOR and IOzone.
pub(super) fn patterns(tasks: u32) -> Vec<RowSpec> {
    let row = |name: &str, what: &str, data: Data| RowSpec {
        name: name.into(),
        what: what.into(),
        kind: RowKind::Data(data),
        quick: false,
    };
    let ior = Data { tasks, piece: Some(MIB), request: 256 * KIB, ..PLAIN };
    let iozone = Data { tasks, shared: false, request: 64 * KIB, ..PLAIN };
    let ior_what =
        "as IOR: one file of segments, in each a block of 1 MiB of each task, transfers of 256 KiB";
    vec![
        row("ior-write", ior_what, Data { write: true, ..ior }),
        row("ior-read", ior_what, ior),
        row(
            "iozone-rewrite",
            "as IOzone: records of 64 KiB, a file of its own each, in order",
            Data { write: true, ..iozone },
        ),
        row(
            "iozone-read",
            "as IOzone: records of 64 KiB, a file of its own each, in order",
            iozone,
        ),
        row(
            "iozone-random-write",
            "as IOzone: records of 64 KiB at random offsets",
            Data { write: true, random: true, ..iozone },
        ),
        row(
            "iozone-random-read",
            "as IOzone: records of 64 KiB at random offsets",
            Data { random: true, ..iozone },
        ),
    ]
}

impl Data {
    fn shape(&self) -> Shape {
        Shape {
            shared: self.shared,
            tasks: self.tasks,
            block: self.piece.map_or(BLOCK_BYTES_MAX, |piece| common(piece, BLOCK_BYTES_MAX)),
            iods: self.iods,
            stripe: self.stripe,
        }
    }

    /// Minimum size of the row's files, all together, for one request of each task.
    pub(super) fn bytes_min(&self) -> u64 {
        // Whole groups; an unaligned request touches one more group.
        let one = self.request + self.piece.unwrap_or(0);
        (one as u64).next_multiple_of(BLOCK_BYTES_MAX as u64) * u64::from(self.tasks)
    }

    fn is_counted(&self) -> bool {
        self.request <= COUNTED_BYTES_MAX
    }

    /// The bytes of each task in its file: whole requests.
    fn stream_bytes(&self, file_bytes: u64) -> u64 {
        let request = self.request as u64;
        let share = if self.shared { file_bytes / u64::from(self.tasks) } else { file_bytes };
        let whole = self.piece.map_or(share, |piece| share / piece as u64 * piece as u64);
        whole / request * request
    }
}

pub(super) fn measure(
    bench: &Bench<'_>,
    limits: &Limits,
    files: &mut Files<'_>,
    data: Data,
) -> Result<Measured> {
    let opened = files.of(data.shape())?;
    let iods = iods_of(&opened);
    let groups: Vec<Option<ThreadGroup>> = match data.collective {
        true => ThreadGroup::of(data.tasks).into_iter().map(Some).collect(),
        false => (0..data.tasks).map(|_| None).collect(),
    };
    let mut tasks = Vec::new();
    for (rank, (file, group)) in (0..).zip(opened.into_iter().zip(groups)) {
        tasks.push(DataTask::new(data, rank, file, group)?);
    }
    let sample = rate(bench, bench.sample, &mut tasks)?;
    if data.write {
        tasks.iter().try_for_each(|task| task.file.check())?;
    }
    let (way, unit) = (
        if data.write { TransferDirection::Send } else { TransferDirection::Receive },
        unit_of(data),
    );
    let mut ceilings = limits.network(way, &iods);
    if data.flush {
        ceilings.extend(limits.disks(LimitKind::DiskWrite, &iods));
    }
    if data.is_counted() {
        ceilings.iter_mut().for_each(|ceiling| ceiling.rate /= data.request as f64);
        ceilings.extend(limits.calls(data.tasks, Calls { iod: 1, ..Calls::default() }, &iods));
        let read = (!data.write)
            .then(|| limits.sync_limits(LimitKind::SmallRead, data.tasks, &iods))
            .flatten();
        ceilings.extend(read);
    }
    Ok(Measured { unit, tasks: data.tasks, sample, ceilings })
}

/// The greatest common divisor: blocks of this size fill groups and requests.
fn common(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common(b, a % b) }
}

fn unit_of(data: Data) -> Unit {
    if data.is_counted() { Unit::PerSecond } else { Unit::BytesPerSecond }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_least_length_have_a_request_for_each_task() {
        let rows = [default_rows(3), patterns(3)].concat();
        let presets = crate::preset::PRESETS
            .iter()
            .flat_map(|(name, tasks, _)| crate::preset::rows(name, *tasks, 64).unwrap());
        for spec in rows.into_iter().chain(presets) {
            let RowKind::Data(data) = spec.kind else { continue };
            let files = if data.shared { 1 } else { u64::from(data.tasks) };
            let each = data.bytes_min() / files / BLOCK_BYTES_MAX as u64 * BLOCK_BYTES_MAX as u64;
            assert!(data.stream_bytes(each) >= data.request as u64, "{}", spec.name);
            let block = data.shape().block;
            assert!(
                data.request % block == 0 && data.piece.is_none_or(|piece| piece % block == 0),
                "{}",
                spec.name
            );
            assert!(block >= 16, "{}", spec.name);
        }
    }
}
