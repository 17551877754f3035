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
//! Locks are not checked by READ and WRITE yet, and nothing waits for a lock: both come with step 6
//! of ADR 0052.

use braid_share::{FileIndex, Lock, Share, ShareClient};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::smb2::Empty;
use braid_smb_wire::smb2::lock::{LockElement, LockFlags, LockRequest};

use crate::context::{Context, OpResult, Reply};
use crate::open::FileOpen;
use crate::status::failed;

/// Most locks of an open.
pub const LOCKS_MAX: usize = 4096;
/// Most ranges of a request: MS-SMB2 leaves the number to the server. Windows sends one.
const ELEMENTS_MAX: usize = 64;

/// A byte-range lock of an open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeLock {
    /// The first byte.
    pub offset: u64,
    /// The number of bytes, maybe none.
    pub length: u64,
    /// Exclusive, or shared with other shared locks.
    pub exclusive: bool,
}

impl RangeLock {
    fn of(element: &LockElement, exclusive: bool) -> Result<Self, NtStatus> {
        // MS-FSA 2.1.5.8.
        match element.length.checked_sub(1).map(|more| element.offset.checked_add(more)) {
            Some(None) => Err(NtStatus::INVALID_LOCK_RANGE),
            _ => Ok(Self { offset: element.offset, length: element.length, exclusive }),
        }
    }

    /// The last byte; none for a lock of no bytes.
    fn last(&self) -> Option<u64> {
        Some(self.offset + self.length.checked_sub(1)?)
    }

    /// Whether ranges overlap. One of no bytes overlaps with what it is inside of, but not with
    /// what begins there.
    fn overlaps(&self, other: &Self) -> bool {
        match (self.last(), other.last()) {
            (Some(last), Some(others)) => self.offset <= others && other.offset <= last,
            (None, Some(last)) => other.offset < self.offset && self.offset <= last,
            (Some(last), None) => self.offset < other.offset && other.offset <= last,
            (None, None) => false,
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
    /// Whether the metadata server may have other locks of the open, after a call that failed.
    is_uncertain: bool,
}

/// A request, after its flags were read.
pub(super) enum Wanted {
    Lock(Vec<RangeLock>),
    Unlock(Vec<RangeLock>),
}

/// Locks ranges, all or none, or unlocks ranges.
pub async fn lock<S: Share>(context: &Context<S>, request: LockRequest) -> OpResult {
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
    change(context.client()?, file, wanted).await?;
    Ok(Reply::new(&Empty).with_file(open.id()))
}

/// Changes the locks of an open.
pub(super) async fn change<S: Share>(
    client: &S::Client,
    file: &FileOpen<S>,
    wanted: Wanted,
) -> Result<(), NtStatus> {
    let mut locks = file.locks.lock().await;
    // Closed meanwhile: nobody would unlock what is locked now.
    let locks = locks.as_mut().ok_or(NtStatus::FILE_CLOSED)?;
    let owner = Owner { client, file: file.file, number: file.id.volatile };
    match wanted {
        Wanted::Lock(ranges) => owner.lock_all(locks, ranges).await,
        Wanted::Unlock(ranges) => {
            for range in ranges {
                owner.unlock_one(locks, range).await?;
            }
            Ok(())
        }
    }
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
        return elements.iter().map(unlock).collect::<Result<_, _>>().map(Wanted::Unlock);
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

/// An open as the owner of locks at the metadata server.
struct Owner<'a, C> {
    client: &'a C,
    file: FileIndex,
    number: u64,
}

impl<C: ShareClient> Owner<'_, C> {
    /// Locks all ranges, or none of them.
    async fn lock_all(
        &self,
        locks: &mut OpenLocks,
        ranges: Vec<RangeLock>,
    ) -> Result<(), NtStatus> {
        let before = locks.held.len();
        for range in ranges {
            if let Err(status) = self.lock_one(&mut locks.held, range).await {
                // MS-SMB2 3.3.5.14.2: what this request has locked is unlocked.
                let undone = locks.held.split_off(before);
                self.undo(locks, &undone).await;
                return Err(status);
            }
        }
        Ok(())
    }

    /// Locks a range. After an error, the list may have it.
    async fn lock_one(&self, held: &mut Vec<RangeLock>, range: RangeLock) -> Result<(), NtStatus> {
        if held.iter().any(|other| range.conflicts(other)) {
            return Err(NtStatus::LOCK_NOT_GRANTED);
        }
        let added = added(held, &range);
        if held.len() >= LOCKS_MAX {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        held.push(range);
        self.send(&added).await
    }

    /// Gives the metadata server the locks that are left where others were made.
    async fn undo(&self, locks: &mut OpenLocks, undone: &[RangeLock]) {
        for range in joined(undone) {
            if let Err(status) = self.send(&segments(&locks.held, &range)).await {
                // One that stays is removed with the open.
                tracing::warn!(%status, "a lock was not undone");
                locks.is_uncertain = true;
            }
        }
    }

    /// Unlocks a range that was locked as it is.
    async fn unlock_one(&self, locks: &mut OpenLocks, range: RangeLock) -> Result<(), NtStatus> {
        let held = &mut locks.held;
        let same = |lock: &RangeLock| (lock.offset, lock.length) == (range.offset, range.length);
        // Of locks of one range, the shared ones were made last, and go first.
        let at = held.iter().rposition(same).ok_or(NtStatus::RANGE_NOT_LOCKED)?;
        let lock = held.remove(at);
        let sent = self.send(&removed(held, &lock)).await;
        locks.is_uncertain |= sent.is_err();
        sent
    }

    /// Gives the metadata server what it is to have.
    async fn send(&self, segments: &[Segment]) -> Result<(), NtStatus> {
        for (start, last, strength) in segments.iter().copied() {
            let exclusive = strength == Some(true);
            let lock = Lock { owner: self.number, start, last, exclusive };
            match strength {
                None => self.client.unlock(self.file, lock).await.map_err(failed)?,
                Some(_) => {
                    if self.client.lock(self.file, lock).await.map_err(failed)?.is_some() {
                        return Err(NtStatus::LOCK_NOT_GRANTED);
                    }
                }
            }
        }
        Ok(())
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

/// Unlocks everything before the close; no lock is added afterwards. A failure is in the log: the
/// end of the session unlocks.
pub async fn unlock_all<S: Share>(client: &S::Client, open: &FileOpen<S>) {
    let Some(locks) = open.locks.lock().await.take() else { return };
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
    fn flags_of_lock_elements_are_checked() {
        let element = |flags| LockElement { offset: 0, length: 1, flags };
        let now = LockFlags::FAIL_IMMEDIATELY;
        let lock = element(LockFlags::SHARED);
        assert!(matches!(wanted(&[lock]), Ok(Wanted::Lock(_))));
        let unlock = element(LockFlags::UNLOCK);
        let cases: [&[LockElement]; 6] = [
            &[],
            &[lock, lock],
            &[element(now)],
            &[element(LockFlags::SHARED.with(LockFlags::EXCLUSIVE))],
            &[unlock, element(now.with(LockFlags::SHARED))],
            &[element(now.with(LockFlags::SHARED)), unlock],
        ];
        for case in cases {
            assert!(matches!(wanted(case), Err(NtStatus::INVALID_PARAMETER)), "{case:?}");
        }
        assert!(wanted(&[unlock; ELEMENTS_MAX]).is_ok());
        assert!(wanted(&[unlock; ELEMENTS_MAX + 1]).is_err());
        let beyond = LockElement { offset: u64::MAX, length: 2, flags: LockFlags::UNLOCK };
        assert!(matches!(wanted(&[beyond]), Err(NtStatus::INVALID_LOCK_RANGE)));
    }
}
