//! OPEN, OPEN_DOWNGRADE, CLOSE. RFC 8881 18.16 to 18.18 and 18.2.

use braid_nfs_wire::nfs4::args::{
    CloseArgs, CreateHow, OpenArgs, OpenClaim, OpenDowngradeArgs, OpenHow,
};
use braid_nfs_wire::nfs4::results::{OpenDelegation, OpenResult, StateIdResult};
use braid_nfs_wire::nfs4::{
    Bitmap, ChangeInfo, NfsResult, NfsStatus, OpenResultFlags, ShareAccess, ShareDeny, StateId,
    StateOwner, Verifier, attribute,
};
use braid_share::{
    AttributeChanges, Attributes, Deny, FileKind, Lock, OpenMode, OpenTarget, Opened, Rights,
    SetTime, Share, ShareClient, ShareFile, Status, Timestamp,
};

use crate::attributes::WantedAttributes;
use crate::compound::CompoundState;
use crate::export::{ExportedFile, Node};
use crate::ops::names::{change_info, check_name};
use crate::ops::reclaim;
use crate::ops::stateid::FileOf;
use crate::ops::{courtesy, delegation, lock_wait};
use crate::state::opens::{DelegationState, InsertedOpen};
use crate::status::nfs_status;

/// Mode of a new file whose mode the client does not give.
const MODE_DEFAULT: u32 = 0o600;
/// What a directory's change is where none was made.
const NO_CHANGE: ChangeInfo = ChangeInfo { atomic: false, before: 0, after: 0 };

/// A file that was opened at the share.
struct Done<F> {
    opened: Opened<F>,
    change: ChangeInfo,
    attributes_set: Bitmap,
}

fn failed(error: braid_share::Error) -> NfsStatus {
    nfs_status(error.status())
}

/// Access and denial of OPEN's arguments.
fn open_mode(access: ShareAccess, deny: ShareDeny) -> NfsResult<OpenMode> {
    // RFC 8881 18.16.3.
    let rights = match access.access() {
        ShareAccess::READ => Rights::READ,
        ShareAccess::WRITE => Rights::WRITE,
        ShareAccess::BOTH => Rights::READ_WRITE,
        _ => return Err(NfsStatus::Inval),
    };
    if access.has_undefined() || access.wanted_delegation().is_none() || deny.0 > 3 {
        return Err(NfsStatus::Inval);
    }
    Ok(OpenMode { rights, deny: Deny(deny.0 as u8) })
}

/// OPEN. RFC 8881 18.16.
pub async fn open<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: OpenArgs,
) -> NfsResult<OpenResult> {
    let mode = open_mode(args.share_access, args.share_deny)?;
    let states_full = state.client_state()?.states.check_space();
    states_full?;
    if mode.rights.allow(Rights::WRITE) || matches!(args.how, OpenHow::Create(_)) {
        state.writable_file()?;
    }
    if matches!(args.claim, OpenClaim::Null(_) | OpenClaim::Fh) {
        state.check_reclaimed()?;
    }
    let done = match &args.claim {
        OpenClaim::Null(name) => open_name(state, name, &args.how, mode).await?,
        OpenClaim::Fh => {
            if matches!(args.how, OpenHow::Create(_)) {
                return Err(NfsStatus::Inval);
            }
            open_file(state, mode).await?
        }
        OpenClaim::Previous(_) => return reclaim::open_previous(state, &args, mode).await,
        OpenClaim::DelegateCurrent(named) => {
            let delegation = delegation::of_state_id(state, named.state_id)?;
            open_delegated_name(state, &delegation, &named.name, &args.how, mode).await?
        }
        OpenClaim::DelegateCurrentFh(id) => {
            let delegation = delegation::of_state_id(state, *id)?;
            if delegation.file.file != state.file(NfsStatus::IsDir)?.file {
                return Err(NfsStatus::BadStateId);
            }
            if matches!(args.how, OpenHow::Create(_)) {
                return Err(NfsStatus::Inval);
            }
            open_file(state, mode).await?
        }
        // RFC 8881 10.2.1 and 18.5: delegations of an earlier instance of a client end with it.
        _ => return Err(NfsStatus::NotSupp),
    };
    let Done { opened, change, attributes_set } = done;
    let export = match state.current()? {
        Node::File(dir) => dir.export.clone(),
        Node::Pseudo(_) => return Err(NfsStatus::IsDir),
    };
    let file = ExportedFile { export, file: opened.attributes.file };
    let (id, is_new) = note_open(state, &args.owner, &file, opened.file, mode).await?;
    let created = opened.created;
    let delegation = match args.claim {
        OpenClaim::Null(_) | OpenClaim::Fh => {
            let wish = delegation::Wish { access: args.share_access, mode, created };
            delegation::grant(state, &file, wish).await?
        }
        // The client has it already.
        _ => OpenDelegation::None,
    };
    // The upgrade of an earlier open may have changed attributes. Others may have changed them
    // before a delegation was granted: a client that has one trusts what it gets now.
    if is_new && matches!(delegation, OpenDelegation::None | OpenDelegation::NoneExt(_)) {
        state.note_attributes(opened.attributes);
    }
    state.set_current(Node::File(file));
    state.set_state_id(id);
    Ok(OpenResult {
        state_id: id,
        change,
        flags: OpenResultFlags::LOCKTYPE_POSIX
            | OpenResultFlags::PRESERVE_UNLINKED
            | lock_wait::open_flags(state),
        attributes_set,
        delegation,
    })
}

/// CLAIM_DELEGATE_CUR: the name of a file that the client has delegated.
async fn open_delegated_name<S: Share>(
    state: &CompoundState<'_, S>,
    delegation: &DelegationState<FileOf<S>>,
    name: &[u8],
    how: &OpenHow,
    mode: OpenMode,
) -> NfsResult<Done<FileOf<S>>> {
    if matches!(how, OpenHow::Create(_)) {
        return Err(NfsStatus::Inval);
    }
    let done = open_name(state, name, how, mode).await?;
    // RFC 8881 18.16.3: the delegation is that of the named file.
    if done.opened.attributes.file == delegation.file.file {
        return Ok(done);
    }
    done.opened.file.close().await.map_err(failed)?;
    Err(NfsStatus::BadStateId)
}

/// Adds an open to the client's state: the state id, and whether the open is one of its own.
async fn note_open<S: Share>(
    state: &CompoundState<'_, S>,
    owner: &StateOwner,
    file: &ExportedFile,
    share_file: FileOf<S>,
    mode: OpenMode,
) -> NfsResult<(StateId, bool)> {
    let states = &state.client_state()?.states;
    let mut share_file = share_file;
    loop {
        let inserted = states.insert_open(owner.owner.clone(), file.clone(), share_file, mode);
        let (known, new_file) = match inserted {
            InsertedOpen::Added(id) => return Ok((id, true)),
            InsertedOpen::Known(known, new_file) => (known, new_file),
        };
        // Another open of the same owner and file: its open file gets the union of both modes.
        let _one = known.change.lock().await;
        if known.is_closed() {
            share_file = new_file;
            continue;
        }
        // The new open must not exclude the old one. Its bytes are none yet.
        new_file.close().await.map_err(failed)?;
        let union = known.union(mode);
        if union != known.mode() {
            known.share_file.set_mode(union).await.map_err(failed)?;
        }
        return Ok((known.upgraded(union, mode), false));
    }
}

/// CLAIM_FH: the current file handle is the file.
async fn open_file<S: Share>(
    state: &CompoundState<'_, S>,
    mode: OpenMode,
) -> NfsResult<Done<FileOf<S>>> {
    let file = state.file(NfsStatus::IsDir)?;
    let opened = courtesy::open(state, OpenTarget::File(file.file), mode).await?;
    match opened {
        Ok(opened) => Ok(Done { opened, change: NO_CHANGE, attributes_set: Bitmap::new() }),
        Err(error) => Err(kind_error(state, file.file, failed(error)).await),
    }
}

/// RFC 8881 18.16.3: what is no regular file has a status of its own.
async fn kind_error<S: Share>(
    state: &CompoundState<'_, S>,
    file: braid_share::FileIndex,
    status: NfsStatus,
) -> NfsStatus {
    let Ok(client) = state.share_client() else { return status };
    match client.attributes(state.who(), file).await.map(|known| known.kind) {
        Ok(FileKind::Directory) => NfsStatus::IsDir,
        Ok(FileKind::Symlink) => NfsStatus::SymLink,
        Ok(FileKind::File) | Err(_) => status,
        Ok(_) => NfsStatus::WrongType,
    }
}

/// CLAIM_NULL: a name in the directory of the current file handle.
async fn open_name<S: Share>(
    state: &CompoundState<'_, S>,
    name: &[u8],
    how: &OpenHow,
    mode: OpenMode,
) -> NfsResult<Done<FileOf<S>>> {
    let dir = match state.current()? {
        Node::File(dir) => dir.clone(),
        // RFC 8881 7.3: there are no files among the directories above exports.
        Node::Pseudo(node) => {
            check_name(name)?;
            let child = state.server.exports.pseudo(*node).child(name);
            return Err(if child.is_some() { NfsStatus::IsDir } else { NfsStatus::NoEnt });
        }
    };
    check_name(name)?;
    let names = &state.server.names;
    let (wanted, exclusive, verifier) = match how {
        OpenHow::NoCreate => {
            let target = OpenTarget::Name { dir: dir.file, name: name.to_vec() };
            let opened = courtesy::open(state, target, mode).await?;
            return match opened {
                Ok(opened) => {
                    let now = opened.directory.map_or(NO_CHANGE, change_info);
                    Ok(Done { opened, change: now, attributes_set: Bitmap::new() })
                }
                Err(error) => Err(name_error(state, &dir, name, failed(error)).await),
            };
        }
        OpenHow::Create(CreateHow::Unchecked(set)) => {
            (WantedAttributes::read(names, set).await?, false, None)
        }
        OpenHow::Create(CreateHow::Guarded(set)) => {
            (WantedAttributes::read(names, set).await?, true, None)
        }
        OpenHow::Create(CreateHow::Exclusive(verifier)) => {
            (WantedAttributes::read(names, &Default::default()).await?, true, Some(*verifier))
        }
        OpenHow::Create(CreateHow::Exclusive41(both)) => {
            let wanted = WantedAttributes::read(names, &both.attributes).await?;
            // RFC 8881 18.16.3: the times hold the verifier (suppattr_exclcreat).
            if wanted.changes.atime.is_some() || wanted.changes.mtime.is_some() {
                return Err(NfsStatus::Inval);
            }
            (wanted, true, Some(both.verifier))
        }
    };
    let truncate = !exclusive && wanted.changes.bytes.is_some_and(|bytes| bytes.0 == 0);
    // A new file has the mode from its first moment; it is as open as the client asked, whatever
    // the mode.
    let target = OpenTarget::Create {
        dir: dir.file,
        name: name.to_vec(),
        exclusive,
        truncate,
        mode: wanted.initial_mode(MODE_DEFAULT),
    };
    let opened = match courtesy::open(state, target, mode).await? {
        Ok(opened) => opened,
        Err(error) if error.status() == Status::Exists && verifier.is_some() => {
            return retried_create(state, &dir, name, verifier, mode, &wanted).await;
        }
        Err(error) => return Err(name_error(state, &dir, name, failed(error)).await),
    };
    let change = opened.directory.map_or(NO_CHANGE, change_info);
    if !opened.created {
        // RFC 8881 18.16.3: of the attributes, only the size 0 has a meaning for an existing file.
        let mut set = Bitmap::new();
        if truncate {
            set.set(attribute::SIZE);
        }
        return Ok(Done { opened, change, attributes_set: set });
    }
    let mut opened = opened;
    let mut set = wanted.mask;
    let mut changes = AttributeChanges { mode: None, ..wanted.changes.clone() };
    if let Some(bytes) = changes.bytes.take()
        && bytes.0 > 0
    {
        opened.attributes = opened.file.set_len(bytes.0).await.map_err(failed)?;
    }
    if let Some(verifier) = verifier {
        let [atime, mtime] = verifier_times(verifier);
        (changes.atime, changes.mtime) =
            (Some(SetTime { time: Some(atime) }), Some(SetTime { time: Some(mtime) }));
        // RFC 8881 18.16.3: the client sees that the times were used, and sets them.
        set.set(attribute::TIME_ACCESS);
        set.set(attribute::TIME_MODIFY);
    }
    if let Some(set) = wanted.set_rest(state, opened.attributes.file, changes).await? {
        opened.attributes = set;
    }
    Ok(Done { opened, change, attributes_set: set })
}

/// An exclusive creation of a name that exists: the retry of a creation that was done finds its
/// verifier.
async fn retried_create<S: Share>(
    state: &CompoundState<'_, S>,
    dir: &ExportedFile,
    name: &[u8],
    verifier: Option<Verifier>,
    mode: OpenMode,
    wanted: &WantedAttributes,
) -> NfsResult<Done<FileOf<S>>> {
    let (client, who) = (state.share_client()?, state.who());
    let known = client.look_up(who, dir.file, name).await.map_err(failed)?;
    if known.kind != FileKind::File || verifier.is_none_or(|given| !has_verifier(&known, given)) {
        return Err(NfsStatus::Exist);
    }
    let opened = courtesy::open(state, OpenTarget::File(known.file), mode).await?;
    let opened = opened.map_err(failed)?;
    let mut set = wanted.mask;
    set.set(attribute::TIME_ACCESS);
    set.set(attribute::TIME_MODIFY);
    Ok(Done { opened, change: NO_CHANGE, attributes_set: set })
}

/// A verifier as two times, as other servers store it: the client sets them afterwards.
fn verifier_times(Verifier(verifier): Verifier) -> [Timestamp; 2] {
    let half = |bytes: &[u8]| {
        // 31 bits, so that every system can represent the time.
        let number = u32::from_be_bytes([bytes[0] & 0x7f, bytes[1], bytes[2], bytes[3]]);
        Timestamp { seconds: i64::from(number), nanos: 0 }
    };
    [half(&verifier[..4]), half(&verifier[4..])]
}

fn has_verifier(known: &Attributes, verifier: Verifier) -> bool {
    [known.atime, known.mtime] == verifier_times(verifier) && known.bytes.0 == 0
}

async fn name_error<S: Share>(
    state: &CompoundState<'_, S>,
    dir: &ExportedFile,
    name: &[u8],
    status: NfsStatus,
) -> NfsStatus {
    let Ok(client) = state.share_client() else { return status };
    match status {
        NfsStatus::NotDir => match client.attributes(state.who(), dir.file).await {
            Ok(known) if known.kind == FileKind::Symlink => NfsStatus::SymLink,
            _ => NfsStatus::NotDir,
        },
        NfsStatus::IsDir | NfsStatus::NxIo | NfsStatus::Inval | NfsStatus::SymLink => {
            match client.look_up(state.who(), dir.file, name).await.map(|known| known.kind) {
                Ok(FileKind::Directory) => NfsStatus::IsDir,
                Ok(FileKind::Symlink) => NfsStatus::SymLink,
                Ok(FileKind::File) | Err(_) => status,
                Ok(_) => NfsStatus::WrongType,
            }
        }
        other => other,
    }
}

/// OPEN_DOWNGRADE. RFC 8881 18.18.
pub async fn open_downgrade<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: OpenDowngradeArgs,
) -> NfsResult<StateIdResult> {
    let file = state.file(NfsStatus::IsDir)?.file;
    let id = state.resolve_state_id(args.state_id)?;
    let to = open_mode(args.share_access, args.share_deny)?;
    let open = state.client_state()?.states.open(&id)?;
    if open.file.file != file {
        return Err(NfsStatus::BadStateId);
    }
    let id = {
        let _one = open.change.lock().await;
        if open.is_closed() {
            return Err(NfsStatus::BadStateId);
        }
        if !open.may_downgrade(to) {
            return Err(NfsStatus::Inval);
        }
        if to != open.mode() {
            open.share_file.set_mode(to).await.map_err(failed)?;
        }
        open.downgraded(to)
    };
    state.set_state_id(id);
    Ok(StateIdResult { state_id: id })
}

/// CLOSE. RFC 8881 18.2. Locks of the file by this open's lock owners end.
pub async fn close<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: CloseArgs,
) -> NfsResult<StateIdResult> {
    let file = state.file(NfsStatus::IsDir)?.file;
    let id = state.resolve_state_id(args.state_id)?;
    let client_state = state.client_state()?;
    let open = client_state.states.open(&id)?;
    if open.file.file != file {
        return Err(NfsStatus::BadStateId);
    }
    let client = client_state.share.clone();
    {
        let _one = open.change.lock().await;
        if open.is_closed() {
            return Err(NfsStatus::BadStateId);
        }
        for lock in client_state.states.remove_open(&open) {
            // A LOCK that runs is noted before this, and a later one finds the open closed.
            let _change = lock.change.lock().await;
            lock_wait::end_all(client_state, &lock).await;
            let all = Lock { owner: lock.number, start: 0, last: u64::MAX, exclusive: true };
            if lock.holds() {
                client.unlock(file, all).await.map_err(failed)?;
            }
        }
        if client_state.states.opens_of_file(file).is_empty() {
            // Layouts are returned on close.
            client_state.states.remove_layout(file);
        }
    }
    let closed = open.share_file.clone().close().await;
    if let Err(error) = closed {
        tracing::debug!(%error, "an open file was closed with an error");
    }
    // RFC 8881 18.2.4: the state id cannot be used any more.
    Ok(StateIdResult { state_id: StateId::INVALID })
}
