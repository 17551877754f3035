//! State ids of READ, WRITE, SETATTR and others; TEST_STATEID and FREE_STATEID.

use std::sync::Arc;

use braid_nfs_wire::nfs4::args::{FreeStateIdArgs, TestStateIdArgs};
use braid_nfs_wire::nfs4::results::TestStateIdResult;
use braid_nfs_wire::nfs4::{NfsResult, NfsStatus, StateId};
use braid_share::{Deny, FileKind, OpenMode, OpenTarget, Rights, Share, ShareClient};

use crate::compound::CompoundState;
use crate::export::ExportedFile;
use crate::ops::{courtesy, delegation, lock_wait};
use crate::state::opens::{Known, OpenState};
use crate::status::nfs_status;

/// The open file of a client's session.
pub type FileOf<S> = <<S as Share>::Client as ShareClient>::File;

/// The open file by which an operation accesses data.
pub enum FileAccess<F> {
    /// That of the client's open.
    Open(F),
    /// One that was opened for this call, since the client named no open.
    ForThisCall(F),
}

/// The open file for an operation with this state id. RFC 8881 9.1.2.
///
/// # Errors
/// `BAD_STATEID`, `OLD_STATEID`; `OPENMODE` if the open does not allow `wanted`.
pub async fn access<S: Share>(
    state: &CompoundState<'_, S>,
    id: StateId,
    file: &ExportedFile,
    wanted: Rights,
) -> NfsResult<FileAccess<FileOf<S>>> {
    let id = state.resolve_state_id(id)?;
    if id == StateId::ANONYMOUS || id == StateId::READ_BYPASS {
        // RFC 8881 8.2.3: the READ bypass state id is the anonymous one for other operations.
        let mode = OpenMode { rights: wanted, deny: Deny::NONE };
        let opened = courtesy::open(state, OpenTarget::File(file.file), mode).await?;
        return match opened {
            Ok(opened) => Ok(FileAccess::ForThisCall(opened.file)),
            // RFC 8881 9.1.2: another open denies it.
            Err(error) if error.status() == braid_share::Status::SharingViolation => {
                Err(NfsStatus::Locked)
            }
            Err(error) => Err(wrong_type(state, file, nfs_status(error.status())).await),
        };
    }
    let open = match state.client_state()?.states.find(&id)? {
        Known::Delegation(known) => return delegation::access(state, &known, file, wanted).await,
        _ => open_of(state, &id)?,
    };
    if open.file.file != file.file {
        return Err(NfsStatus::BadStateId);
    }
    // RFC 8881 9.1.2: a server may allow READ with an open for writing only; the share does not.
    if !open.mode().rights.allow(wanted) {
        return Err(NfsStatus::OpenMode);
    }
    Ok(FileAccess::Open(open.share_file.clone()))
}

/// RFC 8881 18.22.3: a directory is ISDIR, a symbolic link SYMLINK, and any other object that has
/// no data is WRONG_TYPE.
pub async fn wrong_type<S: Share>(
    state: &CompoundState<'_, S>,
    file: &ExportedFile,
    status: NfsStatus,
) -> NfsStatus {
    let Ok(client) = state.share_client() else { return status };
    match client.attributes(state.who(), file.file).await.map(|known| known.kind) {
        Ok(FileKind::Directory) => NfsStatus::IsDir,
        Ok(FileKind::Symlink) => NfsStatus::SymLink,
        Ok(FileKind::File) | Err(_) => status,
        Ok(_) => NfsStatus::WrongType,
    }
}

/// The open behind the state id of an open or of locks.
///
/// # Errors
/// `BAD_STATEID`, `OLD_STATEID`.
pub fn open_of<S: Share>(
    state: &CompoundState<'_, S>,
    id: &StateId,
) -> NfsResult<Arc<OpenState<FileOf<S>>>> {
    match state.client_state()?.states.find(id)? {
        Known::Open(open) => Ok(open),
        Known::Lock(lock) => Ok(lock.open.clone()),
        Known::Layout(_) | Known::Delegation(_) => Err(NfsStatus::BadStateId),
    }
}

/// TEST_STATEID. RFC 8881 18.48.
pub fn test_state_id<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: &TestStateIdArgs,
) -> NfsResult<TestStateIdResult> {
    let states = &state.client_state()?.states;
    let test = |id: &StateId| match id.is_special() {
        true => NfsStatus::BadStateId,
        false => states.find(id).err().unwrap_or(NfsStatus::Ok),
    };
    Ok(TestStateIdResult { statuses: args.state_ids.iter().map(test).collect() })
}

/// FREE_STATEID. RFC 8881 18.38.
pub async fn free_state_id<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: &FreeStateIdArgs,
) -> NfsResult<()> {
    let id = state.resolve_state_id(args.state_id)?;
    let client = state.client_state()?;
    if client.states.free_revoked(&id) {
        return Ok(());
    }
    match client.states.find(&id)? {
        Known::Lock(lock) => {
            // A LOCK or LOCKU that runs uses it.
            let _change = lock.change.try_lock().map_err(|_| NfsStatus::LocksHeld)?;
            if !lock.holds() {
                lock_wait::end_all(client, &lock).await;
            }
            client.states.free_lock(&lock)
        }
        // RFC 8881 18.38.3: state that is still in use.
        Known::Open(_) | Known::Layout(_) | Known::Delegation(_) => Err(NfsStatus::LocksHeld),
    }
}
