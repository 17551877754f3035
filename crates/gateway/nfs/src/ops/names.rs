//! LOOKUP, LOOKUPP, READLINK, CREATE, LINK, REMOVE and RENAME.

use braid_nfs_wire::nfs4::args::{
    CreateArgs, CreateObject, LinkArgs, LookupArgs, RemoveArgs, RenameArgs,
};
use braid_nfs_wire::nfs4::results::{ChangeResult, CreateResult, ReadLinkResult, RenameResult};
use braid_nfs_wire::nfs4::{ChangeInfo, NfsFtype, NfsResult, NfsStatus, SpecData, attribute};
use braid_share::{Attributes, DirectoryChange, FileKind, RenameMode, Share, ShareClient, Status};

use crate::attributes::{NAME_BYTES_MAX, WantedAttributes};
use crate::compound::CompoundState;
use crate::export::{ExportedFile, Node};
use crate::ops::walk;
use crate::status::nfs_status;

/// Bytes of the target of a symbolic link: PATH_MAX of Linux.
const LINK_BYTES_MAX: usize = 4096;
/// Mode of a new object whose mode the client does not give.
const MODE_DEFAULT: u32 = 0o600;
const DIRECTORY_MODE_DEFAULT: u32 = 0o700;

/// Checks a name that a client gives. Names are any bytes (RFC 8881 14.4).
///
/// # Errors
/// `INVAL` for an empty name, `NAMETOOLONG`, `BADNAME` for `.`, `..` and `/`, `BADCHAR` for NUL.
pub fn check_name(name: &[u8]) -> NfsResult<()> {
    match name {
        // RFC 8881 18.13.3: a zero-length name.
        b"" => Err(NfsStatus::Inval),
        _ if name.len() > NAME_BYTES_MAX as usize => Err(NfsStatus::NameTooLong),
        b"." | b".." => Err(NfsStatus::BadName),
        _ if name.contains(&0) => Err(NfsStatus::BadChar),
        _ if name.contains(&b'/') => Err(NfsStatus::BadChar),
        _ => Ok(()),
    }
}

/// The change of a directory in a result.
pub fn change_info(change: DirectoryChange) -> ChangeInfo {
    ChangeInfo { atomic: change.atomic, before: change.before, after: change.after }
}

fn failed(error: braid_share::Error) -> NfsStatus {
    nfs_status(error.status())
}

/// LOOKUP. RFC 8881 18.13.
pub async fn lookup<S: Share>(state: &mut CompoundState<'_, S>, args: LookupArgs) -> NfsResult<()> {
    let node = find(state, &args.name).await?;
    state.set_current(node);
    Ok(())
}

/// What a name in the current directory is.
async fn find<S: Share>(state: &CompoundState<'_, S>, name: &[u8]) -> NfsResult<Node> {
    check_name(name)?;
    match walk::child(state, name).await {
        Err(NfsStatus::NotDir) => Err(not_a_directory(state).await),
        found => found,
    }
}

/// The status of an operation on a directory whose current file handle is none.
async fn not_a_directory<S: Share>(state: &CompoundState<'_, S>) -> NfsStatus {
    match state.file(NfsStatus::NotDir) {
        Ok(file) => no_directory(state, file).await,
        Err(status) => status,
    }
}

/// RFC 8881 18.13.3: a symbolic link in place of a directory has a status of its own.
async fn no_directory<S: Share>(state: &CompoundState<'_, S>, file: &ExportedFile) -> NfsStatus {
    let Ok(client) = state.share_client() else { return NfsStatus::NotDir };
    match client.attributes(state.who(), file.file).await {
        Ok(known) if known.kind == FileKind::Symlink => NfsStatus::SymLink,
        _ => NfsStatus::NotDir,
    }
}

/// LOOKUPP. RFC 8881 18.14.
pub async fn lookup_parent<S: Share>(state: &mut CompoundState<'_, S>) -> NfsResult<()> {
    let node = match walk::parent(state).await {
        Err(NfsStatus::NotDir) => return Err(not_a_directory(state).await),
        found => found?,
    };
    state.set_current(node);
    Ok(())
}

/// READLINK. RFC 8881 18.24.
pub async fn read_link<S: Share>(state: &mut CompoundState<'_, S>) -> NfsResult<ReadLinkResult> {
    let file = state.file(NfsStatus::WrongType)?;
    let client = state.share_client()?;
    match client.read_link(state.who(), file.file).await {
        Ok(target) => Ok(ReadLinkResult { target: target.into() }),
        // RFC 8881 18.24.3: not a symbolic link.
        Err(error) if error.status() == Status::Invalid => Err(NfsStatus::WrongType),
        Err(error) => Err(failed(error)),
    }
}

/// CREATE. RFC 8881 18.4.
pub async fn create<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: CreateArgs,
) -> NfsResult<CreateResult> {
    let dir = state.writable_file()?.clone();
    check_name(&args.name)?;
    let mut wanted = WantedAttributes::read(&state.server.names, &args.attributes).await?;
    if wanted.changes.bytes.take().is_some() {
        return Err(NfsStatus::Inval);
    }
    let client = state.share_client()?;
    let (who, name) = (state.who(), &args.name[..]);
    let mode = wanted.initial_mode(MODE_DEFAULT);
    let node = |kind, device: u64| client.make_node(who, dir.file, name, kind, mode, device);
    let made = match &args.object {
        CreateObject::Link(target) => {
            if target.is_empty() || target.contains(&0) {
                return Err(NfsStatus::Inval);
            }
            if target.len() >= LINK_BYTES_MAX {
                return Err(NfsStatus::NameTooLong);
            }
            if wanted.acl.is_some() {
                return Err(NfsStatus::AttrNotSupp);
            }
            client.make_symlink(who, dir.file, name, target).await
        }
        CreateObject::Block(number) => node(FileKind::BlockDevice, device(number)).await,
        CreateObject::Character(number) => node(FileKind::CharDevice, device(number)).await,
        CreateObject::Other(NfsFtype::Directory) => {
            let mode = wanted.initial_mode(DIRECTORY_MODE_DEFAULT);
            client.make_directory(who, dir.file, name, mode).await
        }
        CreateObject::Other(NfsFtype::Fifo) => node(FileKind::Fifo, 0).await,
        CreateObject::Other(NfsFtype::Socket) => node(FileKind::Socket, 0).await,
        // RFC 8881 18.4.3: a regular file is made by OPEN.
        CreateObject::Other(_) => return Err(NfsStatus::BadType),
    };
    let (made, change): (Attributes, DirectoryChange) = match made {
        Err(error) if error.status() == Status::NotDirectory => {
            return Err(no_directory(state, &dir).await);
        }
        made => made.map_err(failed)?,
    };
    let mut set = wanted.mask;
    let mut made = made;
    wanted.changes.mode = None;
    match wanted.set_rest(state, made.file, wanted.changes.clone()).await {
        Ok(changed) => made = changed.unwrap_or(made),
        Err(_) => {
            // RFC 8881 18.4.3: the client sees what was set, and sets the rest itself.
            set = braid_nfs_wire::nfs4::Bitmap::new();
            if wanted.mask.has(attribute::MODE) && wanted.acl.is_none() {
                set.set(attribute::MODE);
            }
        }
    }
    let file = made.file;
    state.note_attributes(made);
    let made = ExportedFile { export: dir.export, file };
    state.set_current(Node::File(made));
    Ok(CreateResult { change: change_info(change), attributes_set: set })
}

fn device(number: &SpecData) -> u64 {
    u64::from(number.major) << 32 | u64::from(number.minor)
}

/// LINK. RFC 8881 18.9.
pub async fn link<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: LinkArgs,
) -> NfsResult<ChangeResult> {
    let file = state.saved_file(NfsStatus::IsDir)?.clone();
    let dir = match state.current()? {
        Node::Pseudo(_) => return Err(NfsStatus::RoFs),
        Node::File(dir) => dir.clone(),
    };
    same_export(&file, &dir)?;
    state.writable_file()?;
    check_name(&args.new_name)?;
    let client = state.share_client()?;
    let linked = client.link(state.who(), file.file, dir.file, &args.new_name).await;
    match linked {
        Ok((linked, change)) => {
            state.note_attributes(linked);
            Ok(ChangeResult { change: change_info(change) })
        }
        // RFC 8881 18.9.3: a directory.
        Err(error) if error.status() == Status::NotPermitted => {
            match state.attributes_of(file.file).await {
                Ok(known) if known.kind == FileKind::Directory => Err(NfsStatus::IsDir),
                _ => Err(failed(error)),
            }
        }
        Err(error) if error.status() == Status::NotDirectory => {
            Err(no_directory(state, &dir).await)
        }
        Err(error) => Err(failed(error)),
    }
}

/// REMOVE. RFC 8881 18.25.
pub async fn remove<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: RemoveArgs,
) -> NfsResult<ChangeResult> {
    let dir = state.writable_file()?.clone();
    check_name(&args.name)?;
    let client = state.share_client()?;
    match client.remove(state.who(), dir.file, &args.name).await {
        Ok(change) => Ok(ChangeResult { change: change_info(change) }),
        Err(error) if error.status() == Status::NotDirectory => {
            Err(no_directory(state, &dir).await)
        }
        // RFC 8881 18.25.3: an open that denies deletion.
        Err(error) if error.status() == Status::SharingViolation => Err(NfsStatus::FileOpen),
        Err(error) => Err(failed(error)),
    }
}

/// RENAME. RFC 8881 18.26.
pub async fn rename<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: RenameArgs,
) -> NfsResult<RenameResult> {
    let from = state.saved_file(NfsStatus::RoFs)?.clone();
    let to = state.writable_file()?.clone();
    same_export(&from, &to)?;
    check_name(&args.old_name)?;
    check_name(&args.new_name)?;
    let client = state.share_client()?;
    let renamed = client
        .rename(
            state.who(),
            (from.file, &args.old_name),
            (to.file, &args.new_name),
            RenameMode::Replace,
        )
        .await;
    match renamed {
        Ok((source, target)) => {
            Ok(RenameResult { source: change_info(source), target: change_info(target) })
        }
        // RFC 8881 18.26.3: what cannot be replaced exists.
        Err(error) => Err(match error.status() {
            Status::IsDirectory | Status::NotDirectory | Status::NotEmpty => {
                rename_conflict(state, &from, &to, &args, error.status()).await
            }
            Status::SharingViolation => NfsStatus::FileOpen,
            _ => failed(error),
        }),
    }
}

/// Whether a rename failed since its target is of another kind or not empty (EXIST), or since a
/// directory is none.
async fn rename_conflict<S: Share>(
    state: &CompoundState<'_, S>,
    from: &ExportedFile,
    to: &ExportedFile,
    args: &RenameArgs,
    status: Status,
) -> NfsStatus {
    let Ok(client) = state.share_client() else { return nfs_status(status) };
    for dir in [from, to] {
        match client.attributes(state.who(), dir.file).await {
            Ok(known) if known.kind == FileKind::Symlink => return NfsStatus::SymLink,
            Ok(known) if known.kind != FileKind::Directory => return NfsStatus::NotDir,
            _ => {}
        }
    }
    match client.look_up(state.who(), to.file, &args.new_name).await {
        Ok(_) => NfsStatus::Exist,
        Err(_) => nfs_status(status),
    }
}

pub(super) fn same_export(one: &ExportedFile, other: &ExportedFile) -> NfsResult<()> {
    // RFC 8881 18.26.3: both directories must be on the same file system.
    if one.export.number() == other.export.number() { Ok(()) } else { Err(NfsStatus::XDev) }
}
