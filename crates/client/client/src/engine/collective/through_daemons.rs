//! A task's part by a collective request: the leader task sends `Collect` to each daemon, and every
//! task joins.

use std::{
    io::{IoSlice, IoSliceMut},
    sync::Arc,
    time::Duration,
};

use braid_layout::Request;
use braid_net::{Answer, Driver};
use braid_types::{ByteCount, Status};
use braid_wire::message::collective::CollectiveKind;

use super::{
    Buffers, Collective,
    decide::{Subgroup, families, sessions},
    task_request::TaskRequest,
};
use crate::{
    engine::{
        FileView, OpenFile,
        iod_batch::IodCall,
        iod_body::{Body, CollectiveSpec, JoinSpec},
        iod_error::RetryAction,
        list::{advanced, advanced_mut},
        open_file::FileState,
        read::{FileEnd, ReadRound, zero_missing},
        transfer::{Transfer, TransferEnd},
        write::WriteRound,
    },
    error::{Error, Result},
    plan::{Planned, Planner, ROUND_BYTES_MAX},
};

/// The fraction of an exchange's time that a daemon may wait for other tasks, so that its reply
/// still arrives in time.
const WAIT_PART: (u32, u32) = (4, 5);

/// One round of a task's part.
struct CollectiveRound {
    request: Request,
    /// Its start in the buffers.
    position: u64,
    windows: Vec<Planned>,
    joins: Vec<JoinSpec>,
}

impl<D: Driver> Collective<'_, '_, D> {
    /// Returns the number of bytes that this task has read or written.
    pub(super) async fn through_daemons(
        &mut self,
        subgroup: &Subgroup,
        all: &[TaskRequest],
    ) -> Result<u64> {
        let file = self.file;
        let mut deadline = file.engine().deadline();
        let grant = file.state();
        let master = subgroup.members[0];
        let ask = (master == self.rank).then(|| CollectiveSpec {
            collective: all[master].id,
            kind: if self.is_write() { CollectiveKind::Write } else { CollectiveKind::Read },
            tasks: families(subgroup, all),
            sessions: sessions(subgroup, all),
        });
        let index =
            subgroup.members.iter().position(|rank| *rank == self.rank).unwrap_or_default() as u32;
        let mut collects = match &ask {
            Some(ask) => {
                involved(&grant, subgroup, all)?.into_iter().map(|target| (target, ask)).collect()
            }
            None => Vec::new(),
        };
        let cuts = cuts(subgroup, all)?;
        let mut skips = vec![0; grant.map.targets().len()];
        let (mut done, mut end) = (0, FileEnd::new(&grant.map));
        for request in pieces(&self.request, &self.view, &cuts) {
            let name = (all[master].id, index);
            let round = CollectiveRound::new(
                file,
                &grant,
                &self.request,
                request,
                name,
                &mut skips,
                self.is_write(),
                deadline,
            )?;
            let wanted = round.request.bytes;
            let moved = match &mut self.buffers {
                Buffers::Read(buffers) => {
                    let mut buffers = advanced_mut(buffers, round.position as usize, wanted);
                    let collects = std::mem::take(&mut collects);
                    file.read_round(
                        &grant,
                        &self.view,
                        &round,
                        collects,
                        &mut buffers,
                        &mut end,
                        deadline,
                    )
                    .await?
                }
                Buffers::Write(buffers) => {
                    let buffers = advanced(buffers, round.position as usize, wanted);
                    let end = self.view.file_end(&self.request)?;
                    file.write_round(
                        &grant,
                        &round,
                        std::mem::take(&mut collects),
                        &buffers,
                        end,
                        deadline,
                    )
                    .await?;
                    wanted
                }
            };
            deadline = file.engine().deadline(); // every server has answered
            done += moved;
            if moved < wanted {
                break;
            }
        }
        Ok(done)
    }
}

impl CollectiveRound {
    #[allow(clippy::too_many_arguments, reason = "one caller, each of them a part of the message")]
    fn new<D: Driver>(
        file: &OpenFile<D>,
        grant: &Arc<FileState<D>>,
        whole: &Request,
        request: Request,
        (collective, rank): ([u8; 16], u32),
        skips: &mut [u64],
        writes: bool,
        deadline: Duration,
    ) -> Result<Self> {
        let mut windows = Vec::new();
        let mut planner = Planner::new(&grant.map, request.clone())?;
        while let Some(mut more) = planner.next_round() {
            windows.append(&mut more);
        }
        let wait_ms = (file.engine().attempt_timeout(deadline) * WAIT_PART.0 / WAIT_PART.1)
            .as_millis() as u32;
        let join = |planned: &Planned| {
            let skip = ByteCount(skips[planned.target]);
            skips[planned.target] += planned.payload;
            JoinSpec { writes, collective, rank, skip, bytes: ByteCount(planned.payload), wait_ms }
        };
        let joins = windows.iter().map(join).collect();
        Ok(Self { position: request.start - whole.start, request, windows, joins })
    }
}

impl<D: Driver> OpenFile<D> {
    /// Reads the windows of a round. Returns the number of its bytes that the file has.
    #[allow(clippy::too_many_arguments, reason = "one caller")]
    async fn read_round(
        &self,
        grant: &Arc<FileState<D>>,
        view: &FileView,
        round: &CollectiveRound,
        collects: Vec<(usize, &CollectiveSpec)>,
        buffers: &mut [IoSliceMut<'_>],
        end: &mut FileEnd,
        deadline: Duration,
    ) -> Result<u64> {
        let windows = &round.windows;
        let mut job = ReadRound::joining(grant, windows, &round.joins, buffers, end);
        self.exchange_all(grant, &mut job, collects, deadline).await?;
        let mut deadline = self.engine().deadline(); // every server has answered
        let got = job.got();
        let mut wanted = round.request.bytes;
        let is_short = windows.iter().zip(&got).any(|(planned, got)| *got < planned.payload);
        if is_short || !end.reaches(view.file_end(&round.request)?) {
            let found = self.find_end(grant, view, &round.request, end, &mut deadline).await;
            wanted = found.map_err(|stop| match stop {
                TransferEnd::Failed(error) => error,
                TransferEnd::Replan => {
                    Error::new(Status::StaleGeneration, "the file was truncated meanwhile")
                }
            })?;
        }
        if is_short {
            zero_missing(windows, &got, wanted, buffers);
        }
        Ok(wanted)
    }

    async fn write_round(
        &self,
        grant: &Arc<FileState<D>>,
        round: &CollectiveRound,
        collects: Vec<(usize, &CollectiveSpec)>,
        buffers: &[IoSlice<'_>],
        end: u64,
        deadline: Duration,
    ) -> Result<()> {
        let mut job = WriteRound::joining(self, grant, &round.windows, &round.joins, buffers, end);
        self.exchange_all(grant, &mut job, collects, deadline).await
    }

    /// Makes all exchanges of a job once. On each connection, `Collect` comes before the joins.
    async fn exchange_all<J: Transfer>(
        &self,
        grant: &Arc<FileState<D>>,
        job: &mut J,
        collects: Vec<(usize, &CollectiveSpec)>,
        deadline: Duration,
    ) -> Result<()> {
        let pending: Vec<usize> = (0..job.len()).collect();
        let skipped = collects.len();
        let outcomes = {
            let mut calls: Vec<IodCall<'_>> = collects
                .into_iter()
                .map(|(target, ask)| IodCall::without_payload(target, Body::BeginCollective(ask)))
                .collect();
            calls.extend(job.calls(&pending)?);
            if calls.is_empty() {
                return Ok(());
            }
            self.batch(grant, calls, deadline).await.map_err(RetryAction::into_error)?.0
        };
        let mut worst: Option<RetryAction> = None;
        for (at, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok(answer) => accept(job, at.checked_sub(skipped), answer)?,
                Err(action) => worst = Some(action.more_severe(worst)),
            }
        }
        worst.map_or(Ok(()), |action| Err(action.into_error()))
    }
}

fn accept<J: Transfer>(job: &mut J, index: Option<usize>, answer: Answer) -> Result<()> {
    index.map_or(Ok(()), |index| job.accept(index, answer))
}

/// The daemons that store a byte of any of the subgroup's requests.
fn involved<D: Driver>(
    grant: &FileState<D>,
    subgroup: &Subgroup,
    all: &[TaskRequest],
) -> Result<Vec<usize>> {
    let mut involved = Vec::new();
    for target in 0..grant.map.targets().len() {
        for rank in &subgroup.members {
            if grant.map.accesses(target, &all[*rank].request)?.next().is_some() {
                involved.push(target);
                break;
            }
        }
    }
    Ok(involved)
}

/// File offsets that divide the call into rounds of at most [`ROUND_BYTES_MAX`] for each task. They
/// are the same for all tasks, so that no two tasks wait for each other at different daemons.
fn cuts(subgroup: &Subgroup, all: &[TaskRequest]) -> Result<Vec<u64>> {
    let requests: Vec<&Request> = subgroup.members.iter().map(|rank| &all[*rank].request).collect();
    if requests.iter().all(|request| request.bytes <= ROUND_BYTES_MAX) {
        return Ok(Vec::new());
    }
    let views = requests
        .iter()
        .map(|request| FileView::new(request.view.clone()))
        .collect::<Result<Vec<_>>>()?;
    let mut had = vec![0; requests.len()];
    let mut cuts = Vec::new();
    loop {
        let mut cut: Option<u64> = None;
        for ((request, view), had) in requests.iter().zip(&views).zip(&had) {
            if request.bytes - had > ROUND_BYTES_MAX {
                let round = Request {
                    start: request.start + had,
                    bytes: ROUND_BYTES_MAX,
                    view: request.view.clone(),
                };
                let end = view.file_end(&round)?;
                cut = Some(cut.map_or(end, |cut| cut.min(end)));
            }
        }
        let Some(cut) = cut else { return Ok(cuts) };
        for ((request, view), had) in requests.iter().zip(&views).zip(&mut had) {
            *had = view.bytes_below(cut).saturating_sub(request.start).min(request.bytes);
        }
        cuts.push(cut);
    }
}

/// A task's request, divided.
fn pieces(request: &Request, view: &FileView, cuts: &[u64]) -> Vec<Request> {
    let mut pieces = Vec::with_capacity(cuts.len() + 1);
    let (mut start, end) = (request.start, request.start + request.bytes);
    let positions = cuts.iter().map(|cut| view.bytes_below(*cut).clamp(start, end));
    for until in positions.chain([end]).collect::<Vec<_>>() {
        if until > start {
            pieces.push(Request { view: request.view.clone(), start, bytes: until - start });
            start = until;
        }
    }
    if pieces.is_empty() {
        pieces.push(Request { bytes: 0, ..request.clone() });
    }
    pieces
}

#[cfg(test)]
mod tests {
    use braid_layout::View;
    use braid_types::{FileIndex, SessionId};
    use braid_wire::{
        Wire,
        message::{
            collective::StridedRequests,
            iod::{BeginCollective, JoinRead, JoinWrite},
        },
    };

    use super::*;
    use crate::engine::collective::{CollectiveOptions, decide::TransferMethod, outcome::Outcome};

    #[test]
    fn borrowed_bodies_encode_like_the_messages() {
        let request = Request { view: View::strided(1, 2, 3), start: 4, bytes: 5 };
        let tasks = StridedRequests::from_requests(&[request]);
        let sessions = vec![(SessionId(3), 1)];
        let ask = CollectiveSpec {
            collective: [5; 16],
            kind: CollectiveKind::Write,
            tasks: tasks.clone(),
            sessions: sessions.clone(),
        };
        let (handle, present) = (9, vec![1, 2]);
        let collect = BeginCollective {
            handle,
            present: present.clone(),
            collective: [5; 16],
            kind: CollectiveKind::Write,
            tasks,
            sessions,
        };
        assert_eq!(Body::BeginCollective(&ask).encode(9, &present), collect.to_bytes());
        let (skip, bytes) = (ByteCount(7), ByteCount(8));
        let ask =
            |writes| JoinSpec { writes, collective: [6; 16], rank: 2, skip, bytes, wait_ms: 11 };
        let read = JoinRead {
            handle,
            present: present.clone(),
            collective: [6; 16],
            rank: 2,
            skip,
            bytes,
            wait_ms: 11,
        };
        assert_eq!(Body::Join(ask(false)).encode(9, &present), read.to_bytes());
        let write = JoinWrite {
            handle,
            present: present.clone(),
            collective: [6; 16],
            rank: 2,
            skip,
            wait_ms: 11,
        };
        assert_eq!(Body::Join(ask(true)).encode(9, &present), write.to_bytes());
    }

    #[test]
    fn all_tasks_are_cut_at_the_same_offsets_into_rounds_of_a_bounded_size() {
        let task = |displacement, group, bytes| TaskRequest {
            readiness: Outcome::done(1),
            id: [0; 16],
            file: FileIndex(1),
            session: 1,
            is_write: false,
            is_plain: false,
            options: CollectiveOptions::default(),
            request: Request { view: View::strided(displacement, group, 1 << 20), start: 3, bytes },
        };
        let all = [
            task(0, 700_000, 900 << 20),
            task(700_000, 1000, 1 << 20),
            task(701_000, 300_000, 200 << 20),
        ];
        let subgroup = Subgroup { members: vec![0, 1, 2], method: TransferMethod::Server };
        let cuts = cuts(&subgroup, &all).unwrap();
        assert!(cuts.is_sorted_by(|a, b| a < b) && cuts.len() >= 14, "{}", cuts.len());
        for task in &all {
            let view = FileView::new(task.request.view.clone()).unwrap();
            let pieces = pieces(&task.request, &view, &cuts);
            assert!(pieces.iter().all(|piece| piece.bytes <= ROUND_BYTES_MAX));
            assert_eq!(pieces.iter().map(|piece| piece.bytes).sum::<u64>(), task.request.bytes);
            assert!(pieces.windows(2).all(|two| two[0].start + two[0].bytes == two[1].start));
        }
    }
}
