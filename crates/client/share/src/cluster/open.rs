//! Opens. A symbolic link is not followed, which the native protocol would do at the end of a path:
//! so a name is looked up first, and its file is opened by index.
//!
//! What would be needed for one round trip: a flag of `Open` and `Create` that a symbolic link at
//! the end of the path is refused, and the directory's counters in the reply (`names.rs`).

use std::sync::Arc;

use braid_client::OpenOptions;
use braid_types::{FileIndex, Status};

use super::{
    ClusterFile,
    names::{NAME_CHANGES_MAX, changes_too_often, check},
    session::{Client, Session},
};
use crate::{
    Attributes, DirectoryChange, Error, FileKind, Identity, OpenMode, OpenTarget, Opened, Result,
    Rights,
};

/// A name to create.
#[derive(Clone, Copy)]
struct NewName<'a> {
    dir: FileIndex,
    name: &'a [u8],
    exclusive: bool,
    truncate: bool,
    mode: u32,
}

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
                open_name(session, &user, (*dir, name), &options).await
            }
            OpenTarget::Create { dir, name, exclusive, truncate, mode: bits } => {
                check(name)?;
                if *truncate && !mode.rights.allow(Rights::WRITE) {
                    return Err(Error::new(Status::Invalid, "truncating needs the right to write"));
                }
                let (exclusive, truncate, mode) = (*exclusive, *truncate, *bits);
                let new = NewName { dir: *dir, name, exclusive, truncate, mode };
                create(session, &user, new, &options).await
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

/// Opens the file that has a name.
async fn open_name(
    session: &Arc<Session>,
    user: &Client,
    at: (FileIndex, &[u8]),
    options: &OpenOptions,
) -> Result<Opened<ClusterFile>> {
    for _ in 0..NAME_CHANGES_MAX {
        let found = user.lstat(at).await?;
        check_kind(&found)?;
        match open_index(session, user, found.file, options).await {
            // The file was removed in the meantime; another one may have the name.
            Err(error) if error.status() == Status::StaleHandle => {}
            opened => return opened,
        }
    }
    Err(changes_too_often())
}

/// Makes and opens a file, or opens the one that has the name.
async fn create(
    session: &Arc<Session>,
    user: &Client,
    new: NewName<'_>,
    options: &OpenOptions,
) -> Result<Opened<ClusterFile>> {
    let NewName { dir, name, exclusive, truncate, mode } = new;
    let make = options.clone().create_new(true).mode(mode);
    let reopen = options.clone().truncate(truncate);
    let before = session.counter(dir).await?;
    for _ in 0..NAME_CHANGES_MAX {
        match user.create((dir, name), &make).await {
            Ok((file, created)) => {
                let (attributes, file) =
                    (file.opened_attributes(), ClusterFile::new(session, file));
                let directory = Some(session.change_since(dir, before).await);
                return Ok(Opened { file, attributes, created, directory });
            }
            Err(error) if error.status() == Status::Exists && !exclusive => {}
            Err(error) => return Err(error),
        }
        match open_name(session, user, (dir, name), &reopen).await {
            // The file was removed in the meantime.
            Err(error) if error.status() == Status::NotFound => {}
            opened => {
                let unchanged = DirectoryChange { atomic: false, before, after: before };
                return Ok(Opened { directory: Some(unchanged), ..opened? });
            }
        }
    }
    Err(changes_too_often())
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
