//! LOCK. MS-SMB2 3.3.5.14, MS-FSA 2.1.5.8, 2.1.5.9.
//!
//! SMB keeps each lock as it was made: a range is unlocked as it was locked. The metadata server
//! keeps locks as POSIX does: a range that an owner locks replaces what the owner had there. So the
//! open has the exact list, and the metadata server has for each byte the strongest lock of the
//! list, with the number of the open as its owner. A lock of no bytes is in the list only.
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

    fn has(&self, byte: u64) -> bool {
        self.last().is_some_and(|last| (self.offset..=last).contains(&byte))
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

/// A request, after its flags were read.
enum Wanted {
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
    let client = context.client()?;
    let mut held = file.locks.lock().await;
    let owner = Owner { client, file: file.file, number: file.id.volatile };
    match wanted {
        Wanted::Lock(locks) => lock_all(&owner, &mut held, locks).await?,
        Wanted::Unlock(locks) => {
            for lock in locks {
                unlock_one(&owner, &mut held, lock).await?;
            }
        }
    }
    Ok(Reply::new(&Empty).with_file(open.id()))
}

/// Reads the elements: the first one decides what all of them do. MS-SMB2 3.3.5.14.
fn wanted(elements: &[LockElement]) -> Result<Wanted, NtStatus> {
    let first = elements.first().ok_or(NtStatus::INVALID_PARAMETER)?;
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
    /// Gives the metadata server what it is to have for each byte of a range: the strongest lock of
    /// the list.
    async fn apply(&self, held: &[RangeLock], range: &RangeLock) -> Result<(), NtStatus> {
        for (start, last, strength) in segments(held, range) {
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

/// The parts of a range in which all bytes have the same strongest lock: the first and the last
/// byte, and whether it is exclusive; none for bytes without a lock.
fn segments(held: &[RangeLock], range: &RangeLock) -> Vec<(u64, u64, Option<bool>)> {
    let Some(last) = range.last() else { return Vec::new() };
    let near: Vec<_> = held.iter().filter(|lock| lock.overlaps(range)).collect();
    let mut starts = vec![range.offset];
    for lock in &near {
        starts.push(lock.offset.max(range.offset));
        starts.extend(lock.last().and_then(|end| end.checked_add(1)).filter(|next| *next <= last));
    }
    starts.sort_unstable();
    starts.dedup();
    let mut segments: Vec<(u64, u64, Option<bool>)> = Vec::new();
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(last, |next| next - 1);
        let strength = near.iter().filter(|lock| lock.has(*start)).map(|lock| lock.exclusive).max();
        match segments.last_mut() {
            Some((_, before, same)) if *same == strength => *before = end,
            _ => segments.push((*start, end, strength)),
        }
    }
    segments
}

/// Locks all ranges, or none of them.
async fn lock_all<C: ShareClient>(
    owner: &Owner<'_, C>,
    held: &mut Vec<RangeLock>,
    locks: Vec<RangeLock>,
) -> Result<(), NtStatus> {
    let before = held.len();
    for lock in locks {
        let result = if held.iter().any(|other| lock.conflicts(other)) {
            Err(NtStatus::LOCK_NOT_GRANTED)
        } else if held.len() >= LOCKS_MAX {
            Err(NtStatus::INSUFFICIENT_RESOURCES)
        } else {
            held.push(lock);
            owner.apply(held, &lock).await
        };
        if let Err(status) = result {
            // MS-SMB2 3.3.5.14.2: what this request has locked is unlocked.
            let undone = held.split_off(before);
            for lock in undone {
                // One that stays is removed with the session.
                if let Err(status) = owner.apply(held, &lock).await {
                    tracing::warn!(%status, "a lock was not undone");
                }
            }
            return Err(status);
        }
    }
    Ok(())
}

/// Unlocks a range that was locked as it is.
async fn unlock_one<C: ShareClient>(
    owner: &Owner<'_, C>,
    held: &mut Vec<RangeLock>,
    range: RangeLock,
) -> Result<(), NtStatus> {
    let same = |lock: &RangeLock| (lock.offset, lock.length) == (range.offset, range.length);
    // Of locks of one range, the shared ones were made last, and go first.
    let at = held.iter().rposition(same).ok_or(NtStatus::RANGE_NOT_LOCKED)?;
    held.remove(at);
    owner.apply(held, &range).await
}

/// Unlocks everything before the close. A failure is in the log: the end of the session unlocks.
pub async fn unlock_all<S: Share>(client: &S::Client, open: &FileOpen<S>) {
    let mut held = open.locks.lock().await;
    if held.iter().all(|lock| lock.length == 0) {
        return;
    }
    held.clear();
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
        let end = [range(u64::MAX, 1, true)];
        let wanted = [(0, u64::MAX - 1, None), (u64::MAX, u64::MAX, Some(true))];
        assert_eq!(segments(&end, &range(0, u64::MAX, false))[0], (0, u64::MAX - 1, None));
        assert_eq!(
            segments(&end, &range(1, u64::MAX, false)),
            [(1, u64::MAX - 1, None), wanted[1]]
        );
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
        let beyond = LockElement { offset: u64::MAX, length: 2, flags: LockFlags::UNLOCK };
        assert!(matches!(wanted(&[beyond]), Err(NtStatus::INVALID_LOCK_RANGE)));
    }
}
