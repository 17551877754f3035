//! Paths: component by component, with search permission on each, symbolic links followed.

use std::sync::Arc;

use braid_types::limits::{PATH_BYTES_MAX, SYMLINK_DEPTH_MAX};
use braid_types::{Failure, FileIndex, Status};

use super::name;
use crate::identity::{Identity, Want, permit};
use crate::key;
use crate::namespace::Namespace;
use crate::record::{FileKind, Inode};
use crate::store::View;

/// A place where a name is or may be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameSlot {
    /// The directory.
    pub directory: FileIndex,
    /// The name in it; `.` or `..` when the path ended so.
    pub name: Vec<u8>,
    /// Whether the path ended in `/`: then only a directory will do.
    pub wants_directory: bool,
}

/// A walk along a path: where it stands, and what is still to go, the next component last.
struct Walk<'n> {
    namespace: &'n Namespace,
    /// One view for the whole walk: it sees no rename half, and is not begun anew at each step.
    view: Box<dyn View + 'n>,
    at: Arc<Inode>,
    /// Components to go, last first.
    rest: Vec<Vec<u8>>,
    links: usize,
}

impl Namespace {
    /// The file that a path leads to, from `from` when it is relative. An empty path is `from` itself. With `follow`
    /// a symbolic link at the end is followed; one in the middle, or before a closing `/`, always is.
    pub fn resolve(&self, who: &Identity, from: FileIndex, path: &[u8], follow: bool) -> Result<Arc<Inode>, Failure> {
        if path.is_empty() {
            return self.inode(from);
        }
        let wants_directory = path.ends_with(b"/");
        let mut walk = Walk::new(self, from, path)?;
        while let Some(component) = walk.rest.pop() {
            let last = walk.rest.is_empty();
            let next = walk.look(who, &component)?.ok_or(Status::NotFound)?;
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

    /// The directory and name that a path ends in, whether the name is there or not. With `follow`, a symbolic link
    /// there leads on to where it points, as `open` with `O_CREAT` wants.
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
            let component = walk.rest.pop().ok_or(Status::Exists)?;
            let last = walk.rest.is_empty();
            if last && !follow {
                return walk.slot(who, component, wants_directory);
            }
            match walk.look(who, &component)? {
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

impl<'n> Walk<'n> {
    fn new(namespace: &'n Namespace, from: FileIndex, path: &[u8]) -> Result<Self, Failure> {
        if path.is_empty() {
            return Err(Status::NotFound.into());
        }
        let start = if path.starts_with(b"/") { FileIndex::ROOT } else { from };
        let view = namespace.store.view()?;
        let at = namespace.find_inode_in(&*view, start)?.ok_or(Status::StaleHandle)?;
        let mut walk = Self { namespace, view, at, rest: Vec::new(), links: 0 };
        walk.push(path)?;
        Ok(walk)
    }

    fn push(&mut self, path: &[u8]) -> Result<(), Failure> {
        let waiting: usize = self.rest.iter().map(|component| component.len() + 1).sum();
        if path.len() + waiting > PATH_BYTES_MAX {
            return Err(Status::NameTooLong.into());
        }
        let components = path.split(|byte| *byte == b'/').filter(|component| !component.is_empty());
        self.rest.extend(components.rev().map(<[u8]>::to_vec));
        Ok(())
    }

    /// What a component leads to. Search permission is asked of every directory on the way.
    fn look(&self, who: &Identity, component: &[u8]) -> Result<Option<Arc<Inode>>, Failure> {
        self.search(who)?;
        self.namespace.step(&*self.view, &self.at, component)
    }

    fn search(&self, who: &Identity) -> Result<(), Failure> {
        if !self.at.is_directory() {
            return Err(Status::NotDirectory.into());
        }
        permit(who, &self.at, Want::EXECUTE)
    }

    /// Puts a link's target before what is still to go.
    fn follow(&mut self, link: &Inode) -> Result<(), Failure> {
        self.links += 1;
        if self.links > SYMLINK_DEPTH_MAX {
            return Err(Status::TooManyLinks.into());
        }
        let target = self.view.get(&key::symlink(link.file))?.ok_or(Status::NotFound)?;
        if target.starts_with(b"/") {
            self.at = self.namespace.find_inode_in(&*self.view, FileIndex::ROOT)?.ok_or(Status::StaleHandle)?;
        }
        self.push(&target)
    }

    fn slot(&self, who: &Identity, component: Vec<u8>, wants_directory: bool) -> Result<NameSlot, Failure> {
        self.search(who)?;
        name::check_bytes(&component)?;
        Ok(NameSlot { directory: self.at.file, name: component, wants_directory })
    }
}
