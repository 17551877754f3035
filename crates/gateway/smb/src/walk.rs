//! From the root of a share along a path to a file, by one look-up for each name.
//!
//! A name of the client counts without regard to case, as in Windows: if there is none with exactly
//! this name, the directory's index of folded names is asked ([`ShareClient::look_up_folded`]). The
//! names in a symbolic link are those of another client, and count as they are.
//!
//! Symbolic links are followed here if they are relative and stay inside the share. So a client
//! without links of its own sees what is behind them. (Answering STOPPED_ON_SYMLINK, MS-SMB2
//! 2.2.2.2.1, comes with reparse points.)
//!
//! Invariant: the walk never leaves the share. Its directories are those that it has come through
//! from the root, and `..` in a link goes back to one of them.

use std::collections::VecDeque;

use braid_share::{Attributes, FileIndex, FileKind, Identity, ShareClient, Status};
use braid_smb_wire::NtStatus;

use crate::path::{PATH_BYTES_MAX, PATH_NAMES_MAX, SharePath};
use crate::status::failed;

/// Most symbolic links that a path leads through, as in Linux.
pub const LINKS_MAX: usize = 40;

/// Where a path leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// The directory that has the last name; for the root of the share the root itself.
    pub dir: FileIndex,
    /// The last name as it is stored, whose case may differ from that in the path; if there is no
    /// file, as it is in the path. Empty for the root of the share. For a link that was followed it
    /// is that of the link, so that a rename or removal is one of the link.
    pub name: Vec<u8>,
    /// The file; `None` if there is none with this name.
    pub found: Option<Attributes>,
    /// The path from the root of the share with the names as they are stored, with backslashes. It
    /// has the names of links, not those of what they lead to.
    pub path: String,
}

/// The stored name and the attributes of a name in a directory: of exactly this name, else of the
/// first one that differs only in case.
///
/// # Errors
/// As [`ShareClient::look_up`].
pub async fn look_up<C: ShareClient>(
    client: &C,
    who: &Identity,
    dir: FileIndex,
    name: &[u8],
) -> braid_share::Result<(Vec<u8>, Attributes)> {
    match client.look_up(who, dir, name).await {
        Err(error) if error.status() == Status::NotFound => {
            client.look_up_folded(who, dir, name).await
        }
        found => found.map(|found| (name.to_vec(), found)),
    }
}

/// The directories of a walk, the last one being the current one.
struct Walk<'a, C> {
    client: &'a C,
    who: &'a Identity,
    /// From the root on.
    dirs: Vec<FileIndex>,
    /// Names that are left.
    names: VecDeque<Vec<u8>>,
    /// How many of them, at the front, come from links.
    link_names: usize,
    links: usize,
    /// The names of the path that were found, as they are stored.
    stored: Vec<String>,
}

/// Follows a path. With `follow_last`, a symbolic link at its end is followed, too.
///
/// # Errors
/// `OBJECT_PATH_NOT_FOUND` if a directory of the path is missing, or a link leads out of the share;
/// and those of the share.
pub async fn walk<C: ShareClient>(
    client: &C,
    who: &Identity,
    root: FileIndex,
    path: &SharePath,
    follow_last: bool,
) -> Result<Target, NtStatus> {
    let names = path.names().iter().map(|name| name.clone().into_bytes()).collect();
    let mut walk =
        Walk { client, who, dirs: vec![root], names, link_names: 0, links: 0, stored: Vec::new() };
    // The first link at the end of the path.
    let mut link: Option<(FileIndex, Vec<u8>)> = None;
    loop {
        let Some(name) = walk.names.pop_front() else {
            // The root itself, or a link that ended at a directory that the walk came through.
            let found = client.attributes(who, walk.dir()).await.map_err(failed)?;
            let (dir, name) = link.unwrap_or((walk.dir(), Vec::new()));
            return Ok(Target { dir, name, found: Some(found), path: walk.path() });
        };
        let is_exact = walk.link_names > 0;
        walk.link_names = walk.link_names.saturating_sub(1);
        if name == b".." {
            walk.up()?;
            continue;
        }
        let is_last = walk.names.is_empty();
        let looked_up = walk.look_up(&name, is_exact, is_last).await?;
        let Some((name, found)) = looked_up else {
            if !is_exact {
                walk.note(&name);
            }
            return Ok(Target { dir: walk.dir(), name, found: None, path: walk.path() });
        };
        if !is_exact {
            walk.note(&name);
        }
        if found.kind == FileKind::Symlink && (follow_last || !is_last) {
            if is_last && link.is_none() {
                link = Some((walk.dir(), name));
            }
            walk.follow(found.file).await?;
            continue;
        }
        if is_last {
            let (dir, name) = link.unwrap_or((walk.dir(), name));
            return Ok(Target { dir, name, found: Some(found), path: walk.path() });
        }
        if found.kind != FileKind::Directory {
            return Err(NtStatus::OBJECT_PATH_NOT_FOUND);
        }
        walk.dirs.push(found.file);
    }
}

impl<C: ShareClient> Walk<'_, C> {
    fn dir(&self) -> FileIndex {
        *self.dirs.last().expect("the root is never removed")
    }

    /// Notes a name of the path. One that is no UTF-8 was not found by a client's name.
    fn note(&mut self, name: &[u8]) {
        self.stored.push(String::from_utf8_lossy(name).into_owned());
    }

    fn path(&self) -> String {
        self.stored.join("\\")
    }

    fn up(&mut self) -> Result<(), NtStatus> {
        if self.dirs.len() == 1 {
            return Err(NtStatus::OBJECT_PATH_NOT_FOUND);
        }
        self.dirs.pop();
        Ok(())
    }

    /// Name and attributes of what has this name; unless it `is_exact`, also in another case.
    async fn look_up(
        &self,
        name: &[u8],
        is_exact: bool,
        is_last: bool,
    ) -> Result<Option<(Vec<u8>, Attributes)>, NtStatus> {
        let (client, who, dir) = (self.client, self.who, self.dir());
        let found = match is_exact {
            true => client.look_up(who, dir, name).await.map(|found| (name.to_vec(), found)),
            false => look_up(client, who, dir, name).await,
        };
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) => match error.status() {
                Status::NotFound if is_last => Ok(None),
                // A directory of the path that was removed meanwhile counts as missing.
                Status::NotFound | Status::NotDirectory | Status::StaleHandle => {
                    Err(NtStatus::OBJECT_PATH_NOT_FOUND)
                }
                Status::Invalid | Status::NameTooLong => Err(NtStatus::OBJECT_NAME_INVALID),
                _ => Err(failed(error)),
            },
        }
    }

    /// Puts the names of a link in front of those that are left.
    async fn follow(&mut self, link: FileIndex) -> Result<(), NtStatus> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(NtStatus::OBJECT_PATH_NOT_FOUND);
        }
        let target = self.client.read_link(self.who, link).await.map_err(failed)?;
        if target.first() == Some(&b'/') || target.len() > PATH_BYTES_MAX {
            return Err(NtStatus::OBJECT_PATH_NOT_FOUND);
        }
        let names = target.split(|byte| *byte == b'/');
        for name in names.filter(|name| !name.is_empty() && *name != b".").rev() {
            self.names.push_front(name.to_vec());
            self.link_names += 1;
        }
        // Links that lead to each other must not collect names.
        if self.names.len() > 2 * PATH_NAMES_MAX {
            return Err(NtStatus::OBJECT_PATH_NOT_FOUND);
        }
        Ok(())
    }
}
