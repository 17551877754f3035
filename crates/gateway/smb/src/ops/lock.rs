//! LOCK. MS-SMB2 3.3.5.14, MS-FSA 2.1.5.8, 2.1.5.9.
//!
//! SMB keeps each lock as it was made: a range is unlocked as it was locked. The metadata server
//! keeps locks as POSIX does: a range that an owner locks replaces what the owner had there. So the
//! open has the exact list, and the metadata server has for each byte the strongest lock of the
//! list, with the number of the open as its owner. A lock of no bytes is in the list only.
//!
//! Only what changes is sent. So a request takes at most two calls for each byte where a lock of
//! the open begins or ends, however many ranges it has.
//!
//! A lock that conflicts with one of another owner waits at the metadata server, unless the client
//! does not want that. Meanwhile the open may lock and unlock other ranges. One that conflicts with
//! a lock of the same open fails, where Windows waits: nobody else could end that wait.
//!
//! READ and WRITE respect the locks of the opens of this gateway ([`crate::range_locks`]). Locks of
//! a named stream are there only: for the metadata server they would be locks of the file.

use std::sync::Arc;

use braid_share::{FileIndex, Lock, LockCancelHandle, Share, ShareClient, Status};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::smb2::lock::{LockElement, LockFlags, LockRequest};
use braid_smb_wire::smb2::{Dialect, Empty};

use super::lock_sequence::{LockSequence, LockSequences};
use crate::context::{Context, OpResult, Reply};
use crate::open::{FileOpen, Open};
use crate::pending::{Cancelled, Outcome};
use crate::range_locks::{RangeLock, RangeLocks};
use crate::server::SmbServer;
use crate::status::failed;

/// Most locks of an open.
pub const LOCKS_MAX: usize = 4096;
/// Most ranges of a request: MS-SMB2 leaves the number to the server. Windows sends one.
const ELEMENTS_MAX: usize = 64;

impl RangeLock {
    fn of(element: &LockElement, exclusive: bool) -> Result<Self, NtStatus> {
        // MS-FSA 2.1.5.8.
        match element.length.checked_sub(1).map(|more| element.offset.checked_add(more)) {
            Some(None) => Err(NtStatus::INVALID_LOCK_RANGE),
            _ => Ok(Self { offset: element.offset, length: element.length, exclusive }),
        }
    }

    /// Whether a new lock conflicts with one that the same open has. It may lock shared what it has
    /// exclusively, as in Windows.
    fn conflicts(&self, held: &Self) -> bool {
        self.exclusive && self.overlaps(held)
    }
}

/// The locks of an open.
#[derive(Debug, Default)]
pub struct OpenLocks {
    held: Vec<RangeLock>,
    /// Requests that wait for a lock.
    waits: Vec<Wait>,
    /// Whether the metadata server may have other locks of the open, after a call that failed.
    is_uncertain: bool,
    /// Requests that may be repeated.
    sequences: LockSequences,
}

/// A request that waits for a lock.
#[derive(Debug)]
struct Wait {
    /// The connection, and the number of the request there.
    request: (u64, u64),
    /// What ends it at the metadata server.
    cancel: LockCancelHandle,
}

/// A request, after its flags were read.
pub(super) enum Wanted {
    Lock(Vec<RangeLock>),
    /// One after the other, until one fails (MS-SMB2 3.3.5.14.1).
    Unlock(Vec<Result<RangeLock, NtStatus>>),
}

/// Locks ranges, all or none, or unlocks ranges. A lock of one range may wait.
///
/// # Errors
/// `LOCK_NOT_GRANTED`, `RANGE_NOT_LOCKED`, `INVALID_LOCK_RANGE`, and those of the share.
pub async fn lock<S: Share>(
    context: &Context<S>,
    request: LockRequest,
) -> Result<Outcome, NtStatus> {
    let open = context.open(request.file_id)?;
    let file = open.file()?;
    if file.is_directory {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    }
    let wanted = wanted(&request.locks)?;
    // MS-FSA 2.1.5.8.
    let access = AccessMask::READ_DATA.with(AccessMask::WRITE_DATA);
    if !AccessMask(file.granted).has_any(access) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let sequence = sequence_of(context, file, &request);
    if let Some(sequence) = sequence
        && let Some(locks) = &mut *file.locks.lock().await
        && locks.sequences.is_repeated(sequence)
    {
        return Ok(Outcome::Done(Ok(Reply::new(&Empty).with_file(open.id()))));
    }
    // MS-FSA 2.1.5.8.
    if matches!(wanted, Wanted::Lock(_)) {
        file.begin_change(&context.server.leases);
    }
    // 3.3.5.14.2: a lock alone may wait.
    let waiting = match (&wanted, &request.locks[..]) {
        (Wanted::Lock(ranges), [element]) => {
            let may_wait = !element.flags.has(LockFlags::FAIL_IMMEDIATELY);
            ranges.first().copied().filter(|_| may_wait)
        }
        _ => None,
    };
    let (client, all) = (file.machine.client(), &context.server.range_locks);
    let done = match (change(client, all, file, wanted).await, waiting) {
        (Err(Refusal::Others), Some(range)) => {
            let wait = LockWait {
                server: Arc::clone(&context.server),
                client: client.clone(),
                open: Arc::clone(&open),
                range,
                request: (context.connection.number(), context.header.message_id),
                sequence,
            };
            return Ok(Outcome::Waits(Box::new(move |cancelled| Box::pin(wait.run(cancelled)))));
        }
        (done, _) => done,
    };
    done.map_err(NtStatus::from)?;
    if let Some(sequence) = sequence
        && let Some(locks) = &mut *file.locks.lock().await
    {
        locks.sequences.done(sequence);
    }
    Ok(Outcome::Done(Ok(Reply::new(&Empty).with_file(open.id()))))
}

/// What a request says of its repetitions. 3.3.5.14: for durable opens, and not in 2.0.2.
fn sequence_of<S: Share>(
    context: &Context<S>,
    file: &FileOpen<S>,
    request: &LockRequest,
) -> Option<LockSequence> {
    let dialect = context.connection.negotiated()?.dialect;
    let is_used = file.durable.is_some() && dialect != Dialect::Smb202;
    LockSequence::of(request.sequence).filter(|_| is_used)
}

/// Why locks are not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// Another owner has a lock that conflicts.
    Others,
    /// Another reason.
    Status(NtStatus),
}

impl From<Refusal> for NtStatus {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Others => Self::LOCK_NOT_GRANTED,
            Refusal::Status(status) => status,
        }
    }
}

impl From<NtStatus> for Refusal {
    fn from(status: NtStatus) -> Self {
        Self::Status(status)
    }
}

/// A request for a lock that another owner's excludes.
struct LockWait<S: Share> {
    server: Arc<SmbServer<S>>,
    client: S::Client,
    open: Arc<Open<S>>,
    range: RangeLock,
    request: (u64, u64),
    sequence: Option<LockSequence>,
}

impl<S: Share> LockWait<S> {
    /// Waits until the lock is granted.
    async fn run(self, cancelled: Cancelled) -> OpResult {
        let Self { server, client, open, range, request, sequence } = self;
        let file = open.file()?;
        let cancel = LockCancelHandle::new();
        {
            let mut locks = file.locks.lock().await;
            let locks = locks.as_mut().ok_or(NtStatus::RANGE_NOT_LOCKED)?;
            locks.waits.push(Wait { request, cancel: cancel.clone() });
        }
        let owner = Owner { client: &client, file: file.file, number: file.id.volatile };
        let granted = owner.wait(range, &cancel, cancelled).await;
        let mut locks = file.locks.lock().await;
        let Some(locks) = locks.as_mut() else {
            // The open was closed meanwhile. What came too late is unlocked again.
            if granted.is_ok() {
                let mut none = OpenLocks::default();
                owner.undo(&mut none, &[range]).await;
            }
            return Err(NtStatus::RANGE_NOT_LOCKED);
        };
        let is_wanted = locks.waits.iter().any(|wait| wait.request == request);
        locks.waits.retain(|wait| wait.request != request);
        granted?;
        if !is_wanted {
            // Its client is disconnected, and would not learn of it.
            owner.undo(locks, &[range]).await;
            return Err(NtStatus::CANCELLED);
        }
        if locks.held.len() >= LOCKS_MAX || locks.held.iter().any(|other| range.conflicts(other)) {
            // The open has locked something there while this request waited.
            owner.undo(locks, &[range]).await;
            return Err(NtStatus::LOCK_NOT_GRANTED);
        }
        locks.held.push(range);
        server.range_locks.add(file.key(), owner.number, range);
        sequence.into_iter().for_each(|sequence| locks.sequences.done(sequence));
        // The lock that was granted has replaced others of the open.
        let sent = owner.send(&segments(&locks.held, &range)).await;
        locks.is_uncertain |= sent.is_err();
        sent.map_err(NtStatus::from)?;
        Ok(Reply::new(&Empty).with_file(open.id()))
    }
}

/// Changes the locks of an open.
pub(super) async fn change<S: Share>(
    client: &S::Client,
    all: &RangeLocks,
    file: &FileOpen<S>,
    wanted: Wanted,
) -> Result<(), Refusal> {
    let mut locks = file.locks.lock().await;
    // Closed meanwhile: nobody would unlock what is locked now.
    let locks = locks.as_mut().ok_or(NtStatus::FILE_CLOSED)?;
    if file.stream.is_some() {
        return change_of_stream(all, file, locks, wanted).map_err(Refusal::from);
    }
    let owner = Owner { client, file: file.file, number: file.id.volatile };
    match wanted {
        Wanted::Lock(ranges) => {
            if ranges.iter().any(|range| all.is_excluded(file.key(), owner.number, range)) {
                return Err(Refusal::Others);
            }
            owner.lock_all(locks, &ranges).await?;
            ranges.into_iter().for_each(|range| all.add(file.key(), owner.number, range));
            Ok(())
        }
        Wanted::Unlock(ranges) => {
            for range in ranges {
                let lock = take(&mut locks.held, &range?)?;
                all.remove(file.key(), owner.number, lock);
                owner.unlock(locks, &lock).await?;
            }
            Ok(())
        }
    }
}

/// Changes the locks of an open of a stream. They are in the table of this gateway only, and a lock
/// that conflicts does not wait.
fn change_of_stream<S: Share>(
    all: &RangeLocks,
    file: &FileOpen<S>,
    locks: &mut OpenLocks,
    wanted: Wanted,
) -> Result<(), NtStatus> {
    let (key, number) = (file.key(), file.id.volatile);
    match wanted {
        Wanted::Lock(ranges) => {
            let mut held = locks.held.clone();
            for range in &ranges {
                if held.iter().any(|other| range.conflicts(other)) {
                    return Err(NtStatus::LOCK_NOT_GRANTED);
                }
                held.push(*range);
            }
            if held.len() > LOCKS_MAX {
                return Err(NtStatus::INSUFFICIENT_RESOURCES);
            }
            all.add_all(key, number, &ranges)?;
            locks.held = held;
        }
        Wanted::Unlock(ranges) => {
            for range in ranges {
                let lock = take(&mut locks.held, &range?)?;
                all.remove(key, number, lock);
            }
        }
    }
    Ok(())
}

/// Reads the elements: the first one decides what all of them do. MS-SMB2 3.3.5.14.
pub(super) fn wanted(elements: &[LockElement]) -> Result<Wanted, NtStatus> {
    let first = elements.first().ok_or(NtStatus::INVALID_PARAMETER)?;
    if elements.len() > ELEMENTS_MAX {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if first.flags.has(LockFlags::UNLOCK) {
        let unlock = |element: &LockElement| match element.flags {
            LockFlags::UNLOCK => RangeLock::of(element, false),
            _ => Err(NtStatus::INVALID_PARAMETER),
        };
        return Ok(Wanted::Unlock(elements.iter().map(unlock).collect()));
    }
    let lock = |element: &LockElement| {
        let fails_immediately = element.flags.has(LockFlags::FAIL_IMMEDIATELY);
        // 3.3.5.14.2: only a lock alone may wait.
        if !fails_immediately && elements.len() > 1 {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        match element.flags.without(LockFlags::FAIL_IMMEDIATELY) {
            LockFlags::SHARED => RangeLock::of(element, false),
            LockFlags::EXCLUSIVE => RangeLock::of(element, true),
            _ => Err(NtStatus::INVALID_PARAMETER),
        }
    };
    elements.iter().map(lock).collect::<Result<_, _>>().map(Wanted::Lock)
}

/// Takes a lock of exactly this range out of the list.
fn take(held: &mut Vec<RangeLock>, range: &RangeLock) -> Result<RangeLock, NtStatus> {
    let same = |lock: &RangeLock| (lock.offset, lock.length) == (range.offset, range.length);
    // Of locks of one range, the exclusive one is removed first, as on Windows.
    let exclusive = held.iter().position(|lock| lock.exclusive && same(lock));
    let at = exclusive.or_else(|| held.iter().rposition(same));
    let at = at.ok_or(NtStatus::RANGE_NOT_LOCKED)?;
    Ok(held.remove(at))
}

/// An open as the owner of locks at the metadata server.
struct Owner<'a, C> {
    client: &'a C,
    file: FileIndex,
    number: u64,
}

impl<C: ShareClient> Owner<'_, C> {
    /// Locks all ranges, or none of them.
    async fn lock_all(&self, locks: &mut OpenLocks, ranges: &[RangeLock]) -> Result<(), Refusal> {
        let before = locks.held.len();
        for range in ranges {
            if let Err(refusal) = self.lock_one(&mut locks.held, *range).await {
                // MS-SMB2 3.3.5.14.2: what this request has locked is unlocked.
                let undone = locks.held.split_off(before);
                self.undo(locks, &undone).await;
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Locks a range. After an error, the list may have it.
    async fn lock_one(&self, held: &mut Vec<RangeLock>, range: RangeLock) -> Result<(), Refusal> {
        if held.iter().any(|other| range.conflicts(other)) {
            return Err(NtStatus::LOCK_NOT_GRANTED.into());
        }
        let added = added(held, &range);
        if held.len() >= LOCKS_MAX {
            return Err(NtStatus::INSUFFICIENT_RESOURCES.into());
        }
        held.push(range);
        self.send(&added).await
    }

    /// Gives the metadata server the locks that are left where others were made.
    async fn undo(&self, locks: &mut OpenLocks, undone: &[RangeLock]) {
        for range in joined(undone) {
            if let Err(refusal) = self.send(&segments(&locks.held, &range)).await {
                let status = NtStatus::from(refusal);
                // One that stays is removed with the open.
                tracing::warn!(%status, "a lock was not undone");
                locks.is_uncertain = true;
            }
        }
    }

    /// Unlocks what the open no longer has.
    async fn unlock(&self, locks: &mut OpenLocks, lock: &RangeLock) -> Result<(), Refusal> {
        let sent = self.send(&removed(&locks.held, lock)).await;
        locks.is_uncertain |= sent.is_err();
        sent
    }

    /// Gives the metadata server what it is to have.
    async fn send(&self, segments: &[Segment]) -> Result<(), Refusal> {
        for (start, last, strength) in segments.iter().copied() {
            let exclusive = strength == Some(true);
            let lock = Lock { owner: self.number, start, last, exclusive };
            match strength {
                None => {
                    self.client.unlock(self.file, lock).await.map_err(failed)?;
                }
                Some(_) => {
                    if self.client.lock(self.file, lock).await.map_err(failed)?.is_some() {
                        return Err(Refusal::Others);
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits until the metadata server grants a range.
    async fn wait(
        &self,
        range: RangeLock,
        cancel: &LockCancelHandle,
        cancelled: Cancelled,
    ) -> Result<(), NtStatus> {
        // A lock of no bytes never conflicts with another owner's.
        let last = range.last().ok_or(NtStatus::LOCK_NOT_GRANTED)?;
        let (start, exclusive) = (range.offset, range.exclusive);
        let lock = Lock { owner: self.number, start, last, exclusive };
        let mut granted = std::pin::pin!(self.client.lock_wait(self.file, lock, cancel));
        let granted = tokio::select! {
            granted = &mut granted => granted,
            _ = cancelled => {
                // The wait is over when its own call ends: the lock may just have been granted.
                if let Err(error) = self.client.cancel_lock(cancel).await {
                    tracing::debug!(%error, "a wait for a lock is not cancelled");
                }
                granted.await
            }
        };
        granted.map_err(|error| match error.status() {
            Status::Interrupted => NtStatus::CANCELLED,
            _ => failed(error),
        })
    }
}

/// Bytes with one strongest lock: the first and the last one, and whether the lock is exclusive;
/// none for bytes without a lock.
type Segment = (u64, u64, Option<bool>);

/// The segments of a range, in their order.
fn segments(held: &[RangeLock], range: &RangeLock) -> Vec<Segment> {
    let Some(last) = range.last() else { return Vec::new() };
    // Where locks begin and end.
    let mut edges = Vec::new();
    for lock in held.iter().filter(|lock| lock.length > 0 && lock.overlaps(range)) {
        edges.push((lock.offset.max(range.offset), lock.exclusive, 1));
        let next = lock.last().and_then(|end| end.checked_add(1)).filter(|next| *next <= last);
        edges.extend(next.map(|next| (next, lock.exclusive, -1)));
    }
    edges.sort_unstable_by_key(|(at, ..)| *at);
    let mut edges = edges.into_iter().peekable();
    let mut counts = [0_i32; 2];
    let mut segments: Vec<Segment> = Vec::new();
    let mut start = range.offset;
    loop {
        while let Some((_, exclusive, change)) = edges.next_if(|(at, ..)| *at == start) {
            counts[usize::from(exclusive)] += change;
        }
        let strength = match counts {
            [0, 0] => None,
            [_, exclusive] => Some(exclusive > 0),
        };
        let next = edges.peek().map(|(at, ..)| *at);
        let end = next.map_or(last, |next| next - 1);
        match segments.last_mut() {
            Some((_, before, same)) if *same == strength => *before = end,
            _ => segments.push((start, end, strength)),
        }
        match next {
            Some(next) => start = next,
            None => return segments,
        }
    }
}

/// What changes when `lock` is added to others: all of its range but what is locked more strongly,
/// in as few segments as possible.
fn added(others: &[RangeLock], lock: &RangeLock) -> Vec<Segment> {
    let wanted = Some(lock.exclusive);
    let segments = segments(others, lock);
    let runs = segments.chunk_by(|one, other| one.2.max(other.2) <= wanted);
    let run = |run: &[Segment]| {
        let changes = run.iter().any(|(.., strength)| *strength < wanted);
        changes.then_some((run.first()?.0, run.last()?.1, wanted))
    };
    runs.filter_map(run).collect()
}

/// What changes when `lock` is removed, and others stay.
fn removed(others: &[RangeLock], lock: &RangeLock) -> Vec<Segment> {
    let mut segments = segments(others, lock);
    segments.retain(|(.., strength)| *strength < Some(lock.exclusive));
    segments
}

/// Ranges that overlap or touch as one.
fn joined(ranges: &[RangeLock]) -> Vec<RangeLock> {
    let mut ends: Vec<_> =
        ranges.iter().filter_map(|range| Some((range.offset, range.last()?))).collect();
    ends.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (first, last) in ends {
        match joined.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => joined.push((first, last)),
        }
    }
    let range = |(first, last): (u64, u64)| RangeLock {
        offset: first,
        length: (last - first).saturating_add(1),
        exclusive: false,
    };
    joined.into_iter().map(range).collect()
}

/// Cancels the requests of an open that wait for a lock: its client is disconnected.
pub async fn cancel_waits<S: Share>(open: &FileOpen<S>) {
    let waits = match &mut *open.locks.lock().await {
        Some(locks) => std::mem::take(&mut locks.waits),
        None => return,
    };
    cancel(open.machine.client(), &waits).await;
}

async fn cancel<C: ShareClient>(client: &C, waits: &[Wait]) {
    for wait in waits {
        if let Err(error) = client.cancel_lock(&wait.cancel).await {
            tracing::debug!(%error, "a wait for a lock of a closed file goes on");
        }
    }
}

/// Unlocks everything before the close; no lock is added afterwards. A failure is in the log: the
/// end of the session unlocks.
pub async fn unlock_all<S: Share>(all: &RangeLocks, open: &FileOpen<S>) {
    let Some(locks) = open.locks.lock().await.take() else { return };
    all.remove_all(open.key(), open.id.volatile);
    // The metadata server has no locks of a stream.
    if open.stream.is_some() {
        return;
    }
    let client = open.machine.client();
    cancel(client, &locks.waits).await;
    if !locks.is_uncertain && locks.held.iter().all(|lock| lock.length == 0) {
        return;
    }
    let all = Lock { owner: open.id.volatile, start: 0, last: u64::MAX, exclusive: false };
    if let Err(error) = client.unlock(open.file, all).await {
        tracing::debug!(%error, "locks of a closed file are left");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(offset: u64, length: u64, exclusive: bool) -> RangeLock {
        RangeLock { offset, length, exclusive }
    }

    #[test]
    fn each_byte_has_the_strongest_lock_of_the_list() {
        let held = [range(0, 10, false), range(5, 10, true), range(5, 5, false)];
        let wanted = [(0, 4, Some(false)), (5, 14, Some(true)), (15, 19, None)];
        assert_eq!(segments(&held, &range(0, 20, false)), wanted);
        assert_eq!(segments(&held, &range(7, 1, false)), [(7, 7, Some(true))]);
        assert_eq!(segments(&held, &range(7, 0, false)), []);
        let nested = [range(0, 20, false), range(5, 0, true), range(5, 3, false)];
        assert_eq!(segments(&nested, &range(2, 10, false)), [(2, 11, Some(false))]);
        let end = [range(u64::MAX, 1, true)];
        let wanted = [(0, u64::MAX - 1, None), (u64::MAX, u64::MAX, Some(true))];
        assert_eq!(segments(&end, &range(0, u64::MAX, false))[0], (0, u64::MAX - 1, None));
        assert_eq!(
            segments(&end, &range(1, u64::MAX, false)),
            [(1, u64::MAX - 1, None), wanted[1]]
        );
    }

    #[test]
    fn only_what_changes_is_sent() {
        // 4096 locks of a byte, with a byte between them.
        let shared: Vec<_> = (0..4096).map(|number| range(2 * number, 1, false)).collect();
        assert_eq!(added(&shared, &range(0, 8192, false)), [(0, 8191, Some(false))]);
        assert_eq!(added(&shared, &range(2, 1, false)), []);
        assert_eq!(removed(&shared, &range(2, 1, false)), []);
        assert_eq!(removed(&shared, &range(2, 2, false)), [(3, 3, None)]);
        assert_eq!(removed(&shared, &range(2, 3, true)).len(), 3);
        let exclusive = [range(4, 2, true)];
        let wanted = [(0, 3, Some(false)), (6, 9, Some(false))];
        assert_eq!(added(&exclusive, &range(0, 10, false)), wanted);
        assert_eq!(removed(&exclusive, &range(0, 10, false)), [(0, 3, None), (6, 9, None)]);
        assert_eq!(added(&[], &range(3, 4, true)), [(3, 6, Some(true))]);
        assert_eq!(removed(&[], &range(u64::MAX, 1, true)), [(u64::MAX, u64::MAX, None)]);
    }

    #[test]
    fn ranges_to_undo_are_joined() {
        let ranges =
            [range(10, 5, true), range(0, 4, false), range(4, 2, false), range(12, 9, true)];
        let wanted = [range(0, 6, false), range(10, 11, false)];
        assert_eq!(joined(&ranges), wanted);
        assert_eq!(joined(&[range(3, 0, true)]), []);
        assert_eq!(joined(&[range(u64::MAX, 1, true)]), [range(u64::MAX, 1, false)]);
    }

    #[test]
    fn an_open_excludes_itself_from_exclusive_locks_only() {
        let shared = range(0, 10, false);
        let exclusive = range(0, 10, true);
        assert!(exclusive.conflicts(&shared) && exclusive.conflicts(&exclusive));
        assert!(!shared.conflicts(&exclusive) && !shared.conflicts(&shared));
        assert!(!range(10, 1, true).conflicts(&shared));
        assert!(range(5, 0, true).conflicts(&shared) && !range(0, 0, true).conflicts(&shared));
    }

    #[test]
    fn of_locks_of_one_range_the_exclusive_one_is_removed_first() {
        for length in [0, 10] {
            let (exclusive, shared) = (range(5, length, true), range(5, length, false));
            for mut held in [vec![exclusive, shared], vec![shared, exclusive]] {
                assert_eq!(take(&mut held, &shared), Ok(exclusive));
                assert_eq!(take(&mut held, &shared), Ok(shared));
                assert_eq!(take(&mut held, &shared), Err(NtStatus::RANGE_NOT_LOCKED));
            }
        }
    }

    #[test]
    fn flags_of_lock_elements_are_checked() {
        let element = |flags| LockElement { offset: 0, length: 1, flags };
        let now = LockFlags::FAIL_IMMEDIATELY;
        let lock = element(LockFlags::SHARED);
        assert!(matches!(wanted(&[lock]), Ok(Wanted::Lock(_))));
        let unlock = element(LockFlags::UNLOCK);
        let cases: [&[LockElement]; 5] = [
            &[],
            &[lock, lock],
            &[element(now)],
            &[element(LockFlags::SHARED.with(LockFlags::EXCLUSIVE))],
            &[element(now.with(LockFlags::SHARED)), unlock],
        ];
        for case in cases {
            assert!(matches!(wanted(case), Err(NtStatus::INVALID_PARAMETER)), "{case:?}");
        }
        assert!(wanted(&[unlock; ELEMENTS_MAX]).is_ok());
        assert!(wanted(&[unlock; ELEMENTS_MAX + 1]).is_err());
        let beyond = LockElement { offset: u64::MAX, length: 2, flags: LockFlags::UNLOCK };
        // What comes before a wrong element is unlocked.
        let Ok(Wanted::Unlock(ranges)) = wanted(&[unlock, lock, beyond]) else { panic!("a lock") };
        let statuses: Vec<_> = ranges.into_iter().map(Result::err).collect();
        let wanted = [None, Some(NtStatus::INVALID_PARAMETER), Some(NtStatus::INVALID_LOCK_RANGE)];
        assert_eq!(statuses, wanted);
    }
}
