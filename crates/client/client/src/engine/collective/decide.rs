//! Decides which tasks work together, and how. All tasks decide the same, from the requests of all.

use braid_layout::Request;
use braid_types::{
    SessionId, Status,
    limits::{COLLECTIVE_TASKS_MAX, FRAME_BODY_BYTES_MAX},
};
use braid_wire::{Wire, message::collective::StridedRequests};

use super::{
    CollectiveMode, Overlap, outcome::Outcome, overlap::overlap, task_request::TaskRequest,
};
use crate::{
    engine::FileView,
    error::{Error, Result},
    plan::FileMap,
};

/// Requests whose pieces have at least this average length use independent calls: the daemon's work
/// for each piece is small compared with the cost of coordination
/// (`docs/adr/0015-collective-requests.md`, Numbers).
const PIECE_BYTES_MIN: u64 = 4096;
/// The same for reads over unencrypted connections, for which daemons send from a mapping
/// (`docs/adr/0025-sending-from-a-mapping.md`).
const READ_PIECE_BYTES_MIN: u64 = 256;
/// The same for writes over unencrypted connections: one thread of a daemon receives them, without
/// decryption.
const WRITTEN_PIECE_BYTES_MIN: u64 = 16 * 1024;
/// How many pieces of a request are sampled for their length.
const PIECES_SAMPLED: usize = 64;
/// The largest size of a collective request without its task families and sessions: the capability
/// of a wide layout.
const REQUEST_REST_BYTES: usize = 128 * 1024;

/// How the tasks of a subgroup transfer their parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TransferMethod {
    /// By a collective request.
    Server,
    /// Each by itself, all at the same time.
    Independent,
    /// Each by itself, one after the other: their writes overlap.
    OneAfterAnother,
    /// They have finished.
    Done,
}

/// Tasks whose file ranges overlap, directly or through other tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Subgroup {
    /// Their ranks, ascending.
    pub(super) members: Vec<usize>,
    pub(super) method: TransferMethod,
}

/// The slots and methods of all tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    subgroups: Vec<Subgroup>,
}

/// The slot and method of one task.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskTurn<'p> {
    pub(super) slot: usize,
    pub(super) method: TransferMethod,
    pub(super) subgroup: &'p Subgroup,
}

/// The average length of a request's pieces on a daemon, in bytes; 0 for an empty request.
pub(super) fn piece_bytes(map: &FileMap, request: &Request) -> Result<u64> {
    for target in 0..map.targets().len() {
        let mut accesses = map
            .accesses(target, request)?
            .take(PIECES_SAMPLED)
            .map(|access| access.bytes)
            .peekable();
        if accesses.peek().is_some() {
            let (bytes, count) = accesses
                .fold((0u64, 0), |(sum, count), bytes| (sum.saturating_add(bytes), count + 1));
            return Ok(bytes / count);
        }
    }
    Ok(0)
}

/// The plan for these tasks.
///
/// # Errors
/// [`Status::Invalid`]: they make different calls, or overlap although the options refuse that.
pub(super) fn plan(all: &[TaskRequest]) -> Result<Plan> {
    let first = &all[0];
    let alike = |task: &TaskRequest| {
        (task.file, task.is_write, task.options) == (first.file, first.is_write, first.options)
    };
    if let Some(rank) = all.iter().position(|task| !alike(task)) {
        let why = format!(
            "task {rank} makes another collective call than task 0: \
             another file, direction or option"
        );
        return Err(Error::new(Status::Invalid, why)
            .with_hint("the same calls in the same order in every task"));
    }
    if first.is_write && first.options.overlap == Overlap::Refuse && overlap(all.iter())? {
        let why = "the tasks' requests overlap, and the options refuse that";
        return Err(Error::new(Status::Invalid, why)
            .with_hint("Overlap::HighestRank, or views that do not overlap"));
    }
    let mut all_subgroups = subgroups(all)?;
    for subgroup in &mut all_subgroups {
        subgroup.method = method_of(subgroup, all)?;
    }
    Ok(Plan { subgroups: all_subgroups })
}

impl Plan {
    /// The number of slots, at least 1.
    pub(super) fn slots(&self) -> usize {
        let slots = self.subgroups.iter().map(|subgroup| {
            if subgroup.method == TransferMethod::OneAfterAnother {
                subgroup.members.len()
            } else {
                1
            }
        });
        slots.max().unwrap_or(1)
    }

    /// The slot of a task; `None` for a task without bytes.
    pub(super) fn step_of(&self, rank: usize) -> Option<TaskTurn<'_>> {
        let subgroup = self.subgroups.iter().find(|subgroup| subgroup.members.contains(&rank))?;
        let index = subgroup.members.iter().position(|member| *member == rank)?;
        let slot = if subgroup.method == TransferMethod::OneAfterAnother { index } else { 0 };
        Some(TaskTurn { slot, method: subgroup.method, subgroup })
    }

    pub(super) fn is_through_daemons(&self, rank: usize) -> bool {
        self.step_of(rank).is_some_and(|step| step.method == TransferMethod::Server)
    }

    /// The plan after a failure that allows a fallback: the tasks of failed subgroups transfer
    /// their parts by themselves.
    pub(super) fn fall_back(&self, all: &[TaskRequest], outcomes: &[Outcome]) -> Result<Self> {
        let mut all_subgroups = self.subgroups.clone();
        for subgroup in &mut all_subgroups {
            let is_done = |rank: &usize| outcomes.get(*rank).is_none_or(Outcome::is_done);
            subgroup.method = if subgroup.members.iter().all(is_done) {
                TransferMethod::Done
            } else {
                independent_method(subgroup, all)?
            };
        }
        Ok(Self { subgroups: all_subgroups })
    }
}

/// The subgroups of tasks with overlapping file ranges.
fn subgroups(all: &[TaskRequest]) -> Result<Vec<Subgroup>> {
    let mut ranges = Vec::new();
    for (rank, task) in all.iter().enumerate() {
        if task.request.bytes > 0 {
            let view = FileView::new(task.request.view.clone())?;
            ranges.push((view.file_start(&task.request)?, view.file_end(&task.request)?, rank));
        }
    }
    ranges.sort_unstable();
    let mut all_subgroups: Vec<Subgroup> = Vec::new();
    let mut reaches = 0;
    for (start, end, rank) in ranges {
        match all_subgroups.last_mut() {
            Some(subgroup) if start < reaches => subgroup.members.push(rank),
            _ => all_subgroups
                .push(Subgroup { members: vec![rank], method: TransferMethod::Independent }),
        }
        reaches = end.max(reaches);
    }
    all_subgroups.iter_mut().for_each(|subgroup| subgroup.members.sort_unstable());
    Ok(all_subgroups)
}

fn method_of(subgroup: &Subgroup, all: &[TaskRequest]) -> Result<TransferMethod> {
    let options = &all[subgroup.members[0]].options;
    let is_short = |rank: &usize| {
        let task = &all[*rank];
        let pieces_min = match (task.is_plain, task.is_write) {
            (true, true) => WRITTEN_PIECE_BYTES_MIN,
            (true, false) => READ_PIECE_BYTES_MIN,
            (false, _) => PIECE_BYTES_MIN,
        };
        task.pieces() < pieces_min
    };
    let is_worth_it = match options.mode {
        CollectiveMode::Auto => subgroup.members.iter().any(is_short),
        CollectiveMode::Server => true,
        CollectiveMode::Independent => false,
    };
    if subgroup.members.len() > 1 && is_worth_it && fits(subgroup, all) {
        return Ok(TransferMethod::Server);
    }
    match independent_method(subgroup, all)? {
        // The daemons keep the order without slots.
        TransferMethod::OneAfterAnother
            if options.mode == CollectiveMode::Auto && fits(subgroup, all) =>
        {
            Ok(TransferMethod::Server)
        }
        method => Ok(method),
    }
}

fn independent_method(subgroup: &Subgroup, all: &[TaskRequest]) -> Result<TransferMethod> {
    let members = subgroup.members.iter().map(|rank| &all[*rank]);
    let is_write = all[subgroup.members[0]].is_write;
    Ok(if is_write && subgroup.members.len() > 1 && overlap(members)? {
        TransferMethod::OneAfterAnother
    } else {
        TransferMethod::Independent
    })
}

/// Whether a subgroup's requests fit one message, and the limits of a daemon.
fn fits(subgroup: &Subgroup, all: &[TaskRequest]) -> bool {
    let families = families(subgroup, all);
    families.to_bytes().len() + sessions(subgroup, all).to_bytes().len() + REQUEST_REST_BYTES
        <= FRAME_BODY_BYTES_MAX
        && StridedRequests::expand(&families, COLLECTIVE_TASKS_MAX).is_some()
}

/// The subgroup's requests, by the position of the task in it.
pub(super) fn families(subgroup: &Subgroup, all: &[TaskRequest]) -> Vec<StridedRequests> {
    let requests: Vec<Request> =
        subgroup.members.iter().map(|rank| all[*rank].request.clone()).collect();
    StridedRequests::from_requests(&requests)
}

/// The subgroup's sessions, by the position of the task in it.
pub(super) fn sessions(subgroup: &Subgroup, all: &[TaskRequest]) -> Vec<(SessionId, u32)> {
    let mut sessions: Vec<(SessionId, u32)> = Vec::new();
    for rank in &subgroup.members {
        match sessions.last_mut() {
            Some((session, count)) if session.0 == all[*rank].session => *count += 1,
            _ => sessions.push((SessionId(all[*rank].session), 1)),
        }
    }
    sessions
}

#[cfg(test)]
mod tests {
    use braid_layout::View;
    use braid_types::{FileIndex, FileOffset};

    use super::{super::CollectiveOptions, *};

    fn task(
        request: Request,
        pieces: u64,
        is_write: bool,
        options: CollectiveOptions,
    ) -> TaskRequest {
        let (verdict, id, file) = (Outcome::done(pieces), [0; 16], FileIndex(1));
        TaskRequest {
            readiness: verdict,
            id,
            file,
            session: 1,
            is_write,
            is_plain: false,
            options,
            request,
        }
    }

    fn ways(
        requests: &[Request],
        pieces: u64,
        is_write: bool,
        options: CollectiveOptions,
    ) -> Vec<(Vec<usize>, TransferMethod)> {
        let all: Vec<_> = requests
            .iter()
            .map(|request| task(request.clone(), pieces, is_write, options))
            .collect();
        plan(&all)
            .unwrap()
            .subgroups
            .into_iter()
            .map(|subgroup| (subgroup.members, subgroup.method))
            .collect()
    }

    fn interleaved(tasks: u64, group: u64) -> Vec<Request> {
        let task = |n| Request {
            view: View::strided(n * group, group, tasks * group),
            start: 0,
            bytes: 100 * group,
        };
        (0..tasks).map(task).collect()
    }

    #[test]
    fn short_interleaved_pieces_go_through_the_daemons_and_long_ones_do_not() {
        let auto = CollectiveOptions::default();
        assert_eq!(
            ways(&interleaved(4, 4095), 4095, false, auto),
            [(vec![0, 1, 2, 3], TransferMethod::Server)]
        );
        assert_eq!(
            ways(&interleaved(4, 4096), 4096, false, auto),
            [(vec![0, 1, 2, 3], TransferMethod::Independent)]
        );
        let server = CollectiveOptions { mode: CollectiveMode::Server, ..auto };
        assert_eq!(
            ways(&interleaved(2, 65536), 65536, true, server),
            [(vec![0, 1], TransferMethod::Server)]
        );
        let independent = CollectiveOptions { mode: CollectiveMode::Independent, ..auto };
        assert_eq!(
            ways(&interleaved(2, 4096), 4096, true, independent),
            [(vec![0, 1], TransferMethod::Independent)]
        );
    }

    #[test]
    fn plain_connections_use_daemons_for_shorter_reads_and_longer_writes() {
        let of = |is_write, pieces, is_plain: [bool; 2]| {
            let tasks =
                interleaved(2, pieces).into_iter().zip(is_plain).map(|(request, is_plain)| {
                    TaskRequest {
                        is_plain,
                        ..task(request, pieces, is_write, CollectiveOptions::default())
                    }
                });
            plan(&tasks.collect::<Vec<_>>()).unwrap().subgroups[0].method
        };
        assert_eq!(of(false, 255, [true; 2]), TransferMethod::Server);
        assert_eq!(of(false, 256, [true; 2]), TransferMethod::Independent);
        assert_eq!(
            of(false, 256, [true, false]),
            TransferMethod::Server,
            "one of them is sent what was read into a buffer"
        );
        assert_eq!(of(true, 16383, [true; 2]), TransferMethod::Server);
        assert_eq!(of(true, 16384, [true; 2]), TransferMethod::Independent);
        assert_eq!(of(true, 4096, [false; 2]), TransferMethod::Independent);
    }

    #[test]
    fn contiguous_blocks_and_a_single_task_are_ordinary_requests() {
        let block = |n: u64| Request::contiguous(FileOffset(n * 1000), 1000);
        let auto = CollectiveOptions::default();
        let blocks = ways(&[block(2), block(0), block(1)], 1000, false, auto);
        assert_eq!(
            blocks,
            [
                (vec![1], TransferMethod::Independent),
                (vec![2], TransferMethod::Independent),
                (vec![0], TransferMethod::Independent)
            ]
        );
        let nothing = Request::contiguous(FileOffset(0), 0);
        assert_eq!(
            ways(&[nothing.clone(), block(0), nothing], 10, false, auto),
            [(vec![1], TransferMethod::Independent)]
        );
    }

    #[test]
    fn rows_of_tiles_are_circles_of_their_own() {
        let tile = |row: u64, column: u64| {
            let view =
                View::subarray(0, &[64, 64], &[32, 32], &[row * 32, column * 32], 8).unwrap();
            Request { view, start: 0, bytes: 32 * 32 * 8 }
        };
        let tiles = [tile(0, 0), tile(0, 1), tile(1, 0), tile(1, 1)];
        let found = ways(&tiles, 256, true, CollectiveOptions::default());
        assert_eq!(
            found,
            [(vec![0, 1], TransferMethod::Server), (vec![2, 3], TransferMethod::Server)]
        );
    }

    #[test]
    fn overlapping_writes_keep_their_order_or_are_refused() {
        let same = vec![Request::contiguous(FileOffset(0), 1 << 20); 3];
        let auto = CollectiveOptions::default();
        assert_eq!(
            ways(&same, 1 << 20, false, auto),
            [(vec![0, 1, 2], TransferMethod::Independent)]
        );
        assert_eq!(ways(&same, 1 << 20, true, auto), [(vec![0, 1, 2], TransferMethod::Server)]);
        let independent = CollectiveOptions { mode: CollectiveMode::Independent, ..auto };
        assert_eq!(
            ways(&same, 1 << 20, true, independent),
            [(vec![0, 1, 2], TransferMethod::OneAfterAnother)]
        );
        let refuse = CollectiveOptions { overlap: Overlap::Refuse, ..auto };
        let all: Vec<_> =
            same.iter().map(|request| task(request.clone(), 1 << 20, true, refuse)).collect();
        assert_eq!(plan(&all).unwrap_err().status(), Status::Invalid);
        assert_eq!(
            ways(&interleaved(3, 100), 100, true, refuse),
            [(vec![0, 1, 2], TransferMethod::Server)]
        );
    }

    #[test]
    fn tasks_that_make_different_calls_get_an_error() {
        let of = |is_write| {
            task(Request::contiguous(FileOffset(0), 1), 1, is_write, CollectiveOptions::default())
        };
        assert_eq!(plan(&[of(true), of(true), of(false)]).unwrap_err().status(), Status::Invalid);
    }
}
