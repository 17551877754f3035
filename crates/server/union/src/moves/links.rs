//! Walks over the files of one branch, and all names of a file that has several.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
};

use rustix::fs::{Dir, FileType, Statx};
use rustix::io::Errno;

use super::NotMoved;
use crate::{
    Result, Union, attributes::stat_at, lookup::is_directory, node::lock, place::open_directory,
    remove::RESERVED_PREFIX,
};

/// Names by inode.
type NamesOfInodes = HashMap<u64, Vec<Vec<u8>>>;

/// The names of files that have several. Read once for a walk, when it meets the first
/// such file.
#[derive(Debug, Default)]
pub(super) struct Links {
    names: Mutex<Option<Arc<NamesOfInodes>>>,
}

impl Union {
    /// All names of a file on a branch, one of which is `name`.
    pub(super) fn all_names(
        &self,
        branch: usize,
        name: Vec<u8>,
        stat: &Statx,
        links: &Links,
    ) -> std::result::Result<Vec<Vec<u8>>, NotMoved> {
        if stat.stx_nlink <= 1 {
            return Ok(vec![name]);
        }
        let mut known = lock(&links.names);
        let names = match &*known {
            Some(names) => Arc::clone(names),
            None => {
                let names = Arc::new(self.read_links(branch)?);
                *known = Some(Arc::clone(&names));
                names
            }
        };
        let names = names.get(&stat.stx_ino).cloned().unwrap_or_default();
        if names.len() == stat.stx_nlink as usize {
            return Ok(names);
        }
        // Links were made or removed since, or one is outside of the branch.
        *known = None;
        Err(NotMoved::Links)
    }

    fn read_links(&self, branch: usize) -> Result<NamesOfInodes> {
        let mut names = NamesOfInodes::new();
        let _ = self.walk_branch(branch, b"", &mut |path, stat| {
            if !is_directory(stat) && stat.stx_nlink > 1 {
                names.entry(stat.stx_ino).or_default().push(path.to_vec());
            }
            ControlFlow::Continue(())
        })?;
        Ok(names)
    }

    /// Calls `each` for every name below a directory of a branch, a directory before what is in it.
    ///
    /// # Errors
    /// Something could not be read. The rest was read nevertheless.
    pub(crate) fn walk_branch(
        &self,
        branch: usize,
        top: &[u8],
        each: &mut dyn FnMut(&[u8], &Statx) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let root = self.branches[branch].root()?;
        let mut left = vec![top.to_vec()];
        let mut unread = Ok(());
        while let Some(directory) = left.pop() {
            let mut failed = |path: &[u8], error: Errno| {
                // It was removed, or replaced by a symbolic link.
                let gone = matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP);
                if !gone || path == top {
                    let path = String::from_utf8_lossy(path);
                    tracing::warn!(%path, %error, "reading a directory of a branch failed");
                    unread = Err(error);
                }
            };
            let (fd, entries) = match read_in_order(&root, &directory) {
                Ok(read) => read,
                Err(error) => {
                    failed(&directory, error);
                    continue;
                }
            };
            for (_, name) in entries {
                let path = join(&directory, &name);
                let stat = match stat_at(&fd, &name) {
                    Ok(stat) => stat,
                    Err(error) => {
                        failed(&path, error);
                        continue;
                    }
                };
                if each(&path, &stat).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                if is_directory(&stat) {
                    left.push(path);
                }
            }
        }
        unread.map(|()| ControlFlow::Continue(()))
    }
}

/// Inodes and names.
type Entries = Vec<(u64, Vec<u8>)>;

/// The names in a directory, in the order of their inodes, which is about that of the disk.
fn read_in_order(root: &OwnedFd, directory: &[u8]) -> Result<(OwnedFd, Entries)> {
    let fd = open_directory(root, directory)?;
    let mut entries = Entries::new();
    for entry in Dir::read_from(&fd)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let skipped = name == b"."
            || name == b".."
            || directory.is_empty() && name.starts_with(RESERVED_PREFIX)
            || directory.is_empty()
                && name == b"lost+found"
                && entry.file_type() == FileType::Directory;
        if !skipped {
            entries.push((entry.ino(), name.to_vec()));
        }
    }
    entries.sort_unstable();
    Ok((fd, entries))
}

/// A path and a name in it.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = directory.to_vec();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}
