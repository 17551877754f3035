//! Collect: the leader task's message creates the collective request.

use std::{
    sync::{Arc, Condvar, Mutex, atomic::AtomicU64, atomic::Ordering::Relaxed},
    time::Duration,
};

use braid_layout::{RequestUnion, Unfold};
use braid_store::ObjectStore;
use braid_types::{
    Failure, SessionId, Status,
    limits::{COLLECTIVE_TASKS_MAX, FILE_BYTES_MAX, JOB_SLICE_ACCESSES_MAX},
};
use braid_wire::{
    Rights, Wire,
    message::{
        collective::{CollectiveKind, StridedRequests},
        iod::BeginCollective,
    },
};

use super::{
    Collective,
    chunk::{read_bytes_for, write_bytes_for},
    cursor::Cursor,
    limits::CollectivePermit,
    progress::CollectiveProgress,
};
use crate::{
    connection::ConnectionState,
    iod_core::IodCore,
    ops::{OpenedObjects, invalid},
    verified_capability::VerifiedCapability,
};

/// Slices that may be spent to find each task's first byte, or a task's next one. Views that take
/// longer to search are left to independent calls.
pub(super) const VIEW_SEARCH_SLICES_MAX: usize = 1024;

/// How much more memory a view takes than its formula, at most: a vector in a vector, 14 deep, has
/// as many patterns, and a search pattern for each level below.
const VIEW_GROWTH: usize = 12;

pub(crate) fn create<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    collect: &BeginCollective,
) -> Result<(), Failure> {
    let made = make(core, connection, now, collect);
    let added = made.and_then(|collective| core.collectives().add(Arc::new(collective)));
    match &added {
        Ok(()) => _ = core.counters().collectives.fetch_add(1, Relaxed),
        Err(failure) => core.collectives().refuse(collect.collective, failure, now),
    }
    added
}

fn make<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    collect: &BeginCollective,
) -> Result<Collective, Failure> {
    let (capability, _) = core.admission().admitted_capability(
        connection,
        now,
        collect.handle,
        &collect.present,
        rights(collect.kind),
    )?;
    let sessions = sessions(&capability, collect)?;
    let leader = (capability.session, connection.user());
    let permit =
        core.collectives().reserve(leader, sessions.len(), view_bytes_max(&collect.tasks), now)?;
    let verifier = core.store().write_verifier();
    let (objects, ends, file_end) = match collect.kind {
        CollectiveKind::Read => {
            let OpenedObjects { objects, ends, file_end, lost } =
                OpenedObjects::open(core, &capability)?;
            // It fails for all tasks or for none: an independent read gets what is left.
            let first = lost.iter().zip(&ends).zip(&capability.local_parts).find_map(
                |((from, end), local_part)| {
                    from.map(|from| {
                        OpenedObjects::lost_range_error(local_part.object, from, end.bytes.0)
                    })
                },
            );
            first.map_or(Ok(()), Err)?;
            (objects, ends, file_end)
        }
        _ => (vec![None; capability.local_parts.len()], Vec::new(), FILE_BYTES_MAX),
    };
    let unfolds = unfolds(&capability, &collect.tasks, &permit)?;
    let union = with_first_bytes(RequestUnion::from_unfolds(unfolds.iter().cloned(), file_end))?;
    let cursor = |(at, unfold)| union.has_more(at).then(|| Box::new(Cursor::new(unfold, file_end)));
    let cursors: Vec<_> = unfolds.into_iter().enumerate().map(cursor).collect();
    let (writes, with_bytes) =
        (collect.kind == CollectiveKind::Write, cursors.iter().flatten().count());
    let chunk_bytes = if writes { write_bytes_for(with_bytes) } else { read_bytes_for(with_bytes) };
    let progress = CollectiveProgress::new(union, cursors, writes);
    Ok(Collective {
        id: collect.collective,
        permit,
        kind: collect.kind,
        capability,
        sessions,
        ends,
        chunk_bytes,
        verifier,
        objects: Mutex::new(objects),
        progress: Mutex::new(progress),
        changed: Condvar::new(),
        touched: AtomicU64::new(now.as_nanos() as u64),
    })
}

pub(super) fn rights(kind: CollectiveKind) -> Rights {
    if kind == CollectiveKind::Read { Rights::READ } else { Rights::WRITE }
}

/// The tasks' sessions, by rank.
fn sessions(
    capability: &VerifiedCapability,
    collect: &BeginCollective,
) -> Result<Vec<SessionId>, Failure> {
    let tasks =
        StridedRequests::task_count(&collect.tasks, COLLECTIVE_TASKS_MAX).ok_or_else(|| {
            let detail =
                format!("more than {COLLECTIVE_TASKS_MAX} tasks, or their requests are too long");
            Failure::new(Status::LimitExceeded, detail)
        })?;
    let counts: u64 = collect.sessions.iter().map(|(_, count)| u64::from(*count)).sum();
    if counts != tasks as u64 {
        let detail = format!("there are {tasks} tasks, and sessions for {counts}");
        return Err(Failure::new(Status::Malformed, detail));
    }
    if !collect.sessions.iter().any(|(session, _)| *session == capability.session) {
        return Err(Failure::new(Status::BadCapability, "the leader task is none of the tasks"));
    }
    let each = |(session, count): &(SessionId, u32)| std::iter::repeat_n(*session, *count as usize);
    Ok(collect.sessions.iter().flat_map(each).collect())
}

/// The most memory that the views of these formulas may take, in bytes.
fn view_bytes_max(families: &[StridedRequests]) -> usize {
    families.iter().map(|family| family.first.to_bytes().len() * VIEW_GROWTH).sum()
}

/// The tasks' unfolded requests, by rank. Requests of one formula share its view.
fn unfolds(
    capability: &VerifiedCapability,
    families: &[StridedRequests],
    permit: &CollectivePermit,
) -> Result<Vec<Unfold>, Failure> {
    let (mut unfolds, mut view_bytes) = (Vec::new(), 0);
    for family in families {
        let view = family.first.view.map().map_err(invalid)?;
        view_bytes += view.size_bytes();
        for (displacement, start) in family.offsets() {
            let view = view.moved_to(displacement);
            unfolds.push(
                capability
                    .map
                    .unfold_view(view, start, family.first.bytes, &capability.parts)
                    .map_err(invalid)?,
            );
        }
    }
    permit.reduce_view_bytes(view_bytes);
    Ok(unfolds)
}

/// The union of the requests, after it has found every task's first byte.
fn with_first_bytes(mut union: RequestUnion) -> Result<RequestUnion, Failure> {
    for _ in 0..VIEW_SEARCH_SLICES_MAX {
        if union.find_next_accesses(&mut JOB_SLICE_ACCESSES_MAX.clone()) {
            return Ok(union);
        }
    }
    Err(Failure::new(Status::LimitExceeded, "the tasks' views take too long to search"))
}
