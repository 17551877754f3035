//! Collect: the master's message makes the job.

use std::{
    sync::{Arc, Condvar, Mutex, atomic::AtomicU64, atomic::Ordering::Relaxed},
    time::Duration,
};

use braid_layout::{Request, Sweep};
use braid_store::ObjectStore;
use braid_types::{
    Failure, SessionId, Status,
    limits::{COLLECTIVE_TASKS_MAX, FILE_BYTES_MAX, JOB_SLICE_ACCESSES_MAX},
};
use braid_wire::{
    Rights,
    message::{
        collective::{CollectiveKind, TaskFamily},
        iod::Collect,
    },
};

use super::{
    Collective,
    chunk::{read_bytes_for, write_bytes_for},
    cursor::Cursor,
    progress::Progress,
};
use crate::{
    connection::ConnectionState,
    grant::Grant,
    iod_core::IodCore,
    ops::{Readable, invalid},
};

/// Slices that finding each task's first byte may take, and that a task may search for its next one: views that are longer to search
/// are left to independent calls.
pub(super) const LOOK_SLICES_MAX: usize = 1024;

pub(crate) fn collect<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    collect: &Collect,
) -> Result<(), Failure> {
    let made = make(core, connection, now, collect);
    let added = made.and_then(|collective| core.collectives().add(Arc::new(collective), now));
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
    collect: &Collect,
) -> Result<Collective, Failure> {
    let (grant, _) = core.grant(connection, now, collect.handle, &collect.present, rights(collect.kind))?;
    let (requests, sessions) = tasks(&grant, collect)?;
    let verifier = core.store().write_verifier();
    let (objects, ends, file_end) = match collect.kind {
        CollectiveKind::Read => {
            let Readable { objects, ends, file_end } = Readable::open(core, &grant)?;
            (objects, ends, file_end)
        }
        _ => (vec![None; grant.places.len()], Vec::new(), FILE_BYTES_MAX),
    };
    let sweep = grant.map.sweep(&requests, &grant.parts, file_end).map_err(invalid)?;
    let sweep = looked(sweep)?;
    let cursor = |(at, request): (usize, &Request)| {
        let unfold = grant.map.unfold(request, &grant.parts).map_err(invalid)?;
        Ok(sweep.wants(at).then(|| Box::new(Cursor::new(unfold, file_end))))
    };
    let cursors = requests.iter().enumerate().map(cursor).collect::<Result<Vec<_>, Failure>>()?;
    let (writes, with_bytes) = (collect.kind == CollectiveKind::Write, cursors.iter().flatten().count());
    let chunk_bytes = if writes { write_bytes_for(with_bytes) } else { read_bytes_for(with_bytes) };
    let progress = Progress::new(sweep, cursors, writes);
    Ok(Collective {
        id: collect.collective,
        kind: collect.kind,
        grant,
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

/// The tasks' requests and sessions, by rank.
fn tasks(grant: &Grant, collect: &Collect) -> Result<(Vec<Request>, Vec<SessionId>), Failure> {
    let requests = TaskFamily::requests(&collect.tasks, COLLECTIVE_TASKS_MAX).ok_or_else(|| {
        let detail = format!("more than {COLLECTIVE_TASKS_MAX} tasks, or their requests are too long");
        Failure::new(Status::LimitExceeded, detail)
    })?;
    let counts: u64 = collect.sessions.iter().map(|(_, count)| u64::from(*count)).sum();
    if counts != requests.len() as u64 {
        let detail = format!("{} tasks and sessions for {counts}", requests.len());
        return Err(Failure::new(Status::Malformed, detail));
    }
    if !collect.sessions.iter().any(|(session, _)| *session == grant.session) {
        return Err(Failure::new(Status::BadCapability, "the master is none of the tasks"));
    }
    let each = |(session, count): &(SessionId, u32)| std::iter::repeat_n(*session, *count as usize);
    Ok((requests, collect.sessions.iter().flat_map(each).collect()))
}

/// The sweep after it has found every task's first byte.
fn looked(mut sweep: Sweep) -> Result<Sweep, Failure> {
    for _ in 0..LOOK_SLICES_MAX {
        if sweep.look(&mut JOB_SLICE_ACCESSES_MAX.clone()) {
            return Ok(sweep);
        }
    }
    Err(Failure::new(Status::LimitExceeded, "the tasks' views take too long to search"))
}
