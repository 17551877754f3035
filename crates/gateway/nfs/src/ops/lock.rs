//! LOCK, LOCKT and LOCKU. RFC 8881 18.10 to 18.12. The metadata server has the locks, so they hold
//! against those of mounts and of other gateways.

use braid_nfs_wire::nfs4::args::{LockArgs, LockTestArgs, LockUnlockArgs, Locker};
use braid_nfs_wire::nfs4::results::{LockDenied, LockFailure, LockTestFailure, StateIdResult};
use braid_nfs_wire::nfs4::{ClientId, LENGTH_TO_END, LockType, NfsResult, NfsStatus, StateOwner};
use braid_share::{FileKind, Lock, LockConflict, Rights, Share, ShareClient};
use bytes::Bytes;

use crate::compound::CompoundState;
use crate::ops::reclaim::check_may_reclaim;
use crate::ops::stateid::FileOf;
use crate::ops::{courtesy, lock_wait};
use crate::state::opens::{Known, LockState, States};
use crate::status::nfs_status;

fn failed(error: braid_share::Error) -> NfsStatus {
    nfs_status(error.status())
}

/// First and last byte. RFC 8881 18.10.3.
fn range(offset: u64, length: u64) -> NfsResult<(u64, u64)> {
    match length {
        0 => Err(NfsStatus::Inval),
        LENGTH_TO_END => Ok((offset, u64::MAX)),
        _ => offset.checked_add(length).map(|end| (offset, end - 1)).ok_or(NfsStatus::Inval),
    }
}

fn is_exclusive(lock_type: LockType) -> bool {
    matches!(lock_type, LockType::Write | LockType::WriteWaiting)
}

/// LOCK.
pub async fn lock<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: LockArgs,
) -> Result<StateIdResult, LockFailure> {
    let (start, last) = range(args.offset, args.length)?;
    let file = lockable(state).await?;
    if args.reclaim {
        check_may_reclaim(state)?;
    } else {
        state.check_reclaimed()?;
    }
    let client = state.client_state()?;
    let exclusive = is_exclusive(args.lock_type);
    let held = match &args.locker {
        Locker::New(new) => {
            let id = state.resolve_state_id(new.open_state_id)?;
            let open = client.states.open(&id)?;
            if open.file.file != file {
                return Err(NfsStatus::BadStateId.into());
            }
            client.states.check_space()?;
            client.states.lock_state(&new.owner.owner, &open)
        }
        Locker::Existing(existing) => {
            let id = state.resolve_state_id(existing.state_id)?;
            match client.states.find(&id)? {
                Known::Lock(lock) if lock.open.file.file == file => client.states.use_lock(lock)?,
                _ => return Err(NfsStatus::BadStateId.into()),
            }
        }
    };
    held.check_ranges()?;
    let lock = Lock { owner: held.number, start, last, exclusive };
    let reclaiming =
        if args.reclaim { Some(client.check_reclaim(file, &lock).await?) } else { None };
    let change = held.change.lock().await;
    if held.open.is_closed() {
        return Err(NfsStatus::BadStateId.into());
    }
    lock_wait::displace(client, file, &lock, Some(&lock)).await;
    if let Err(failure) = request(state, &held, lock).await {
        if matches!(failure, LockFailure::Denied(_)) {
            lock_wait::denied(state, &args, &held, lock).await?;
        }
        return Err(failure);
    }
    lock_wait::claim(client, file, &lock).await;
    let id = held.locked(start, last);
    drop(change);
    drop(held);
    drop(reclaiming);
    state.set_state_id(id);
    Ok(StateIdResult { state_id: id })
}

/// Requests a lock at the metadata server.
async fn request<S: Share>(
    state: &CompoundState<'_, S>,
    held: &LockState<FileOf<S>>,
    lock: Lock,
) -> Result<(), LockFailure> {
    // RFC 8881 18.10.3: the open must allow what the lock protects.
    let wanted = if lock.exclusive { Rights::WRITE } else { Rights::READ };
    if !held.open.mode().rights.allow(wanted) {
        return Err(NfsStatus::OpenMode.into());
    }
    match courtesy::lock(state, held.open.file.file, lock).await?.map_err(failed)? {
        None => Ok(()),
        Some(conflict) => Err(LockFailure::Denied(denied(state, &conflict)?)),
    }
}

/// The file of the current file handle, if it can have locks.
async fn lockable<S: Share>(state: &CompoundState<'_, S>) -> NfsResult<braid_share::FileIndex> {
    let file = state.file(NfsStatus::IsDir)?.file;
    let known = state.share_client()?.attributes(state.who(), file).await.map_err(failed)?;
    match known.kind {
        FileKind::File => Ok(file),
        FileKind::Directory => Err(NfsStatus::IsDir),
        FileKind::Symlink => Err(NfsStatus::SymLink),
        _ => Err(NfsStatus::WrongType),
    }
}

/// A conflicting lock as the client sees it. RFC 8881 18.10.3: the owner is known if it is one of
/// this client.
fn denied<S: Share>(
    state: &CompoundState<'_, S>,
    conflict: &LockConflict,
) -> NfsResult<LockDenied> {
    let client = state.client_state()?;
    let is_mine = conflict.session == client.share.session();
    let mine = is_mine.then(|| client.states.owner_of_number(conflict.owner)).flatten();
    let owner = match mine {
        Some(owner) => StateOwner { client_id: state.client()?.id(), owner },
        None => {
            let name = format!("{}:{}", conflict.session, conflict.owner);
            StateOwner { client_id: ClientId(0), owner: Bytes::from(name) }
        }
    };
    let length = match conflict.last {
        u64::MAX => LENGTH_TO_END,
        last => last - conflict.start + 1,
    };
    let lock_type = if conflict.exclusive { LockType::Write } else { LockType::Read };
    Ok(LockDenied { offset: conflict.start, length, lock_type, owner })
}

/// LOCKT.
pub async fn lock_test<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: LockTestArgs,
) -> Result<(), LockTestFailure> {
    let (start, last) = range(args.offset, args.length)?;
    let file = lockable(state).await?;
    let owner = &args.owner.owner;
    let number = States::<FileOf<S>>::owner_number(owner);
    let lock = Lock { owner: number, start, last, exclusive: is_exclusive(args.lock_type) };
    match courtesy::test_lock(state, file, lock).await?.map_err(failed)? {
        None => Ok(()),
        Some(conflict) => Err(LockTestFailure::Denied(denied(state, &conflict)?)),
    }
}

/// LOCKU.
pub async fn lock_unlock<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: LockUnlockArgs,
) -> NfsResult<StateIdResult> {
    let (start, last) = range(args.offset, args.length)?;
    let file = state.file(NfsStatus::IsDir)?.file;
    let id = state.resolve_state_id(args.state_id)?;
    let client = state.client_state()?;
    let held = match client.states.find(&id)? {
        Known::Lock(lock) if lock.open.file.file == file => client.states.use_lock(lock)?,
        _ => return Err(NfsStatus::BadStateId),
    };
    let lock = Lock { owner: held.number, start, last, exclusive: true };
    let change = held.change.lock().await;
    lock_wait::displace(client, file, &lock, None).await;
    client.share.unlock(file, lock).await.map_err(failed)?;
    let id = held.unlocked(start, last);
    drop(change);
    drop(held);
    state.set_state_id(id);
    Ok(StateIdResult { state_id: id })
}
