//! Opens: one call of the metadata server each, by `OpenEntry` for a name, which follows no
//! symbolic link (ADR 0041), and by `Open` for a file.

use std::sync::Arc;

use braid_client::{OpenOptions, message::entry::CreateMode};
use braid_types::{FileIndex, Status};

use super::{
    ClusterFile,
    names::{NAME_CHANGES_MAX, atomic, changes_too_often, check},
    session::{Client, Session},
};
use crate::{Attributes, Error, FileKind, Identity, OpenMode, OpenTarget, Opened, Result, Rights};

pub(super) async fn open(
    session: &Arc<Session>,
    who: &Identity,
    target: &OpenTarget,
    mode: OpenMode,
) -> Result<Opened<ClusterFile>> {
    let options = options(mode)?;
    session
        .run_as(who, async |user: Client| match target {
            OpenTarget::File(file) => open_index(session, &user, *file, &options).await,
            OpenTarget::Name { dir, name } => {
                check(name)?;
                open_entry(session, &user, (*dir, name), CreateMode::Never, &options).await
            }
            OpenTarget::Create { dir, name, exclusive, truncate, mode: bits } => {
                check(name)?;
                if *truncate && !mode.rights.allow(Rights::WRITE) {
                    return Err(Error::new(Status::Invalid, "truncating needs the right to write"));
                }
                let how = if *exclusive { CreateMode::Exclusive } else { CreateMode::IfMissing };
                let options = options.truncate(*truncate).mode(*bits);
                open_entry(session, &user, (*dir, name), how, &options).await
            }
        })
        .await
}

fn options(mode: OpenMode) -> Result<OpenOptions> {
    let OpenMode { rights, deny } = mode;
    if !(1..=Rights::READ_WRITE.0).contains(&rights.0) || deny.0 > crate::Deny::ALL.0 {
        return Err(Error::new(Status::Invalid, "neither reading nor writing is requested"));
    }
    let (read, write) = (rights.allow(Rights::READ), rights.allow(Rights::WRITE));
    Ok(OpenOptions::new().read(read).write(write).deny(deny))
}

/// Opens a file by index.
async fn open_index(
    session: &Arc<Session>,
    user: &Client,
    file: FileIndex,
    options: &OpenOptions,
) -> Result<Opened<ClusterFile>> {
    match user.open(file, options).await {
        Ok(file) => {
            let (attributes, file) = (file.opened_attributes(), ClusterFile::new(session, file));
            Ok(Opened { file, attributes, created: false, directory: None })
        }
        // The server has one status for all files without bytes.
        Err(error) if error.status() == Status::NoDevice => {
            check_kind(&session.client().lstat(file).await?)?;
            Err(error)
        }
        Err(error) => Err(error),
    }
}

/// Opens or creates a file by its name, in one call unless the name changes meanwhile.
async fn open_entry(
    session: &Arc<Session>,
    user: &Client,
    at: (FileIndex, &[u8]),
    create: CreateMode,
    options: &OpenOptions,
) -> Result<Opened<ClusterFile>> {
    for _ in 0..NAME_CHANGES_MAX {
        match user.open_entry(at, create, options).await {
            Ok((file, created, change)) => {
                let (attributes, file) =
                    (file.opened_attributes(), ClusterFile::new(session, file));
                return Ok(Opened { file, attributes, created, directory: change.map(atomic) });
            }
            // The file was removed while it was opened, or the directory is no more.
            Err(error) if may_be_replaced(error.status(), create) => {
                if session.client().lstat(at.0).await?.links == 0 {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(changes_too_often())
}

/// Whether an open may fail so because its name was removed or replaced meanwhile.
fn may_be_replaced(status: Status, create: CreateMode) -> bool {
    status == Status::StaleHandle || create == CreateMode::IfMissing && status == Status::NotFound
}

/// Refuses everything but regular files.
fn check_kind(attributes: &Attributes) -> Result<()> {
    let status = match attributes.kind {
        FileKind::File => return Ok(()),
        FileKind::Directory => Status::IsDirectory,
        // open(2) with O_NOFOLLOW: ELOOP.
        FileKind::Symlink => Status::TooManyLinks,
        _ => Status::NoDevice,
    };
    Err(Error::new(status, format!("file {}: {}", attributes.file, status.text())))
}
