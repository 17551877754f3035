//! Paths: resolved component by component, with search permission on each directory; symbolic links
//! are followed.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use braid_types::limits::{PATH_BYTES_MAX, SYMLINK_DEPTH_MAX};
use braid_types::{Failure, FileIndex, Status};

use super::name;
use crate::identity::{Identity, Want, permit};
use crate::key;
use crate::namespace::Namespace;
use crate::record::{FileKind, Inode};
use crate::store::Snapshot;

/// Where a name is or may be created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameSlot {
    /// The directory.
    pub directory: FileIndex,
    /// The name in it; `.` or `..` if the path ends so.
    pub name: Vec<u8>,
    /// Whether the path ends in `/`: then only a directory will do.
    pub wants_directory: bool,
}

/// A walk along a path.
struct Walk<'n, 'p> {
    namespace: &'n Namespace,
    /// One snapshot for the whole walk: it never sees a half-done rename, and is not taken again at
    /// each step.
    view: Box<dyn Snapshot + 'n>,
    at: Arc<Inode>,
    /// The path, or the path after the last symbolic link was replaced.
    path: Cow<'p, [u8]>,
    /// The part of it that remains.
    rest: Range<usize>,
    links: usize,
}

impl Namespace {
    /// The file that a path leads to, starting at `from` if it is relative. An empty path is `from`
    /// itself. With `follow`, a symbolic link at the end is followed; one in the middle, or before
    /// a final `/`, always is.
    pub fn resolve(
        &self,
        who: &Identity,
        from: FileIndex,
        path: &[u8],
        follow: bool,
    ) -> Result<Arc<Inode>, Failure> {
        if path.is_empty() {
            return self.inode(from);
        }
        let wants_directory = path.ends_with(b"/");
        let mut walk = Walk::new(self, from, path)?;
        while let Some((component, last)) = walk.next() {
            let next = walk.find(who, component)?.ok_or(Status::NotFound)?;
            if next.kind == FileKind::Symlink && (!last || follow || wants_directory) {
                walk.follow(&next)?;
            } else {
                walk.at = next;
            }
        }
        if wants_directory && !walk.at.is_directory() {
            return Err(Status::NotDirectory.into());
        }
        Ok(walk.at)
    }

    /// The directory and name that a path ends in, whether the name exists or not. With `follow`, a
    /// symbolic link there is followed, as `open` with `O_CREAT` needs it.
    pub fn resolve_slot(
        &self,
        who: &Identity,
        from: FileIndex,
        path: &[u8],
        follow: bool,
    ) -> Result<NameSlot, Failure> {
        let wants_directory = path.ends_with(b"/");
        let mut walk = Walk::new(self, from, path)?;
        loop {
            let (component, last) = walk.next().ok_or(Status::Exists)?;
            if last && !follow {
                return walk.slot(who, component, wants_directory);
            }
            match walk.find(who, component.clone())? {
                Some(next) if next.kind == FileKind::Symlink => walk.follow(&next)?,
                Some(next) if !last => walk.at = next,
                None if !last => return Err(Status::NotFound.into()),
                _ => return walk.slot(who, component, wants_directory),
            }
        }
    }

    /// The target of a symbolic link.
    pub fn readlink(&self, file: FileIndex) -> Result<Vec<u8>, Failure> {
        let inode = self.inode(file)?;
        if inode.kind != FileKind::Symlink {
            return Err(Status::Invalid.into());
        }
        self.store.get(&key::symlink(file))?.ok_or_else(|| Status::StaleHandle.into())
    }
}

impl<'n, 'p> Walk<'n, 'p> {
    fn new(namespace: &'n Namespace, from: FileIndex, path: &'p [u8]) -> Result<Self, Failure> {
        if path.is_empty() {
            return Err(Status::NotFound.into());
        }
        let start = if path.starts_with(b"/") { FileIndex::ROOT } else { from };
        let view = namespace.store.snapshot()?;
        let at = namespace.find_inode_in(&*view, start)?.ok_or(Status::StaleHandle)?;
        if path.len() > PATH_BYTES_MAX {
            return Err(Status::NameTooLong.into());
        }
        Ok(Self { namespace, view, at, path: Cow::Borrowed(path), rest: 0..path.len(), links: 0 })
    }

    /// The position of the next component in the path, and whether it is the last.
    fn next(&mut self) -> Option<(Range<usize>, bool)> {
        let Range { start, end } = self.rest;
        let rest = &self.path[start..end];
        let from = rest.iter().position(|byte| *byte != b'/')?;
        let until = rest[from..]
            .iter()
            .position(|byte| *byte == b'/')
            .map_or(rest.len(), |slash| from + slash);
        self.rest.start = start + until;
        let last = rest[until..].iter().all(|byte| *byte == b'/');
        Some((start + from..start + until, last))
    }

    /// What a component leads to. Checks search permission of the directory.
    fn find(&self, who: &Identity, component: Range<usize>) -> Result<Option<Arc<Inode>>, Failure> {
        self.search(who)?;
        self.namespace.step(&*self.view, &self.at, &self.path[component])
    }

    fn search(&self, who: &Identity) -> Result<(), Failure> {
        if !self.at.is_directory() {
            return Err(Status::NotDirectory.into());
        }
        permit(who, &self.at, Want::EXECUTE)
    }

    /// Puts a link's target before the rest of the path.
    fn follow(&mut self, link: &Inode) -> Result<(), Failure> {
        self.links += 1;
        if self.links > SYMLINK_DEPTH_MAX {
            return Err(Status::TooManyLinks.into());
        }
        let target = self.view.get(&key::symlink(link.file))?.ok_or(Status::NotFound)?;
        if target.starts_with(b"/") {
            self.at = self
                .namespace
                .find_inode_in(&*self.view, FileIndex::ROOT)?
                .ok_or(Status::StaleHandle)?;
        }
        let rest = &self.path[self.rest.clone()];
        if target.len() + rest.len() > PATH_BYTES_MAX {
            return Err(Status::NameTooLong.into());
        }
        self.path = Cow::Owned([&target, &b"/"[..], rest].concat());
        self.rest = 0..self.path.len();
        Ok(())
    }

    fn slot(
        &self,
        who: &Identity,
        component: Range<usize>,
        wants_directory: bool,
    ) -> Result<NameSlot, Failure> {
        self.search(who)?;
        let name = &self.path[component];
        name::check_bytes(name)?;
        Ok(NameSlot { directory: self.at.file, name: name.to_vec(), wants_directory })
    }
}
