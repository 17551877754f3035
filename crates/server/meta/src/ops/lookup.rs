//! Look up one name in one directory.

use std::sync::Arc;

use braid_types::{Failure, FileIndex, Status};

use super::name;
use crate::identity::{Identity, Want, permit};
use crate::key;
use crate::namespace::Namespace;
use crate::record::{FileKind, Inode, decode_entry};
use crate::store::Snapshot;

impl Namespace {
    /// The file that a name in a directory leads to; also for `.` and `..`. A symbolic link is not
    /// followed.
    pub fn lookup(
        &self,
        who: &Identity,
        directory: FileIndex,
        name: &[u8],
    ) -> Result<Arc<Inode>, Failure> {
        let directory = self.directory(directory)?;
        permit(who, &directory, Want::EXECUTE)?;
        self.step(&*self.store.snapshot()?, &directory, name)?
            .ok_or_else(|| Status::NotFound.into())
    }

    /// One step down (or up) from a directory whose search permission was checked.
    pub(super) fn step(
        &self,
        view: &dyn Snapshot,
        directory: &Arc<Inode>,
        name: &[u8],
    ) -> Result<Option<Arc<Inode>>, Failure> {
        match name {
            b"" => return Ok(None),
            b"." => return Ok(Some(directory.clone())),
            b".." => return self.find_inode_in(view, directory.parent),
            _ => name::check_bytes(name)?,
        }
        let missed = match self.directory_names.find(directory.file, name) {
            Ok(known) => return self.find_inode_in(view, known),
            Err(missed) => missed,
        };
        let Some(bytes) = view.get(&key::entry(directory.file, name))? else { return Ok(None) };
        let entry = decode_entry(&bytes)?;
        if entry.kind == FileKind::Directory {
            self.directory_names.add(directory.file, name, entry.file, missed);
        }
        self.find_inode_in(view, entry.file)
    }

    /// The attributes of a file that a caller named by its index.
    pub fn getattr(&self, file: FileIndex) -> Result<Arc<Inode>, Failure> {
        self.inode(file)
    }

    /// Whether a caller may access a file as `want` says.
    pub fn access(&self, who: &Identity, file: FileIndex, want: Want) -> Result<(), Failure> {
        permit(who, &*self.inode(file)?, want)
    }
}
