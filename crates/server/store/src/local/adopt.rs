//! Plain files that become objects without a copy (ADR 0050): the file gets its record, and one
//! more name among the objects. This happens beside the daemon that has the directory open, which
//! finds the object at its next call.
//!
//! Invariants:
//! 1. A name among the objects is only added for an index that nothing else has, and replaces
//!    nothing: `linkat` refuses a name that exists.
//! 2. A file has its record before it has the name (invariant 1 of the store).
//!
//! No assertion checks these: they are the order of the system calls.

use super::directory::OBJECTS;
use super::{init, platform};
use crate::{Identity, ObjectRecord, Result, StoreError};
use braid_types::{ClusterUuid, ObjectId, limits};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// An object directory to which plain files of the same file system are added.
#[derive(Debug)]
pub struct AdoptingDirectory {
    root: PathBuf,
    identity: Identity,
    device: u64,
    /// The daemon's user and group.
    owner: (u32, u32),
}

impl AdoptingDirectory {
    /// Opens the object directory in `root`, also while its daemon runs.
    ///
    /// # Errors
    /// It is no object directory, or one of another cluster.
    pub fn open(root: &Path, cluster: ClusterUuid) -> Result<Self> {
        let identity = init::identify(root, cluster)?;
        let found = fs::metadata(root).map_err(|error| StoreError::from_io("stat", root, error))?;
        let owner = (found.uid(), found.gid());
        Ok(Self { root: root.to_owned(), identity, device: found.dev(), owner })
    }

    /// The cluster, and the daemon if it has registered.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The device of its file system: only files of the same one can become objects.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// The record of a file; `None` if it has none, or a damaged one.
    ///
    /// # Errors
    /// Those of fgetxattr(2).
    pub fn record_of(file: &File) -> io::Result<Option<ObjectRecord>> {
        let bytes = platform::read_record(file, Path::new(""))?;
        Ok(bytes.and_then(|bytes| ObjectRecord::decode(&bytes, Path::new("")).ok()))
    }

    /// Whether the file has the object's name here.
    ///
    /// # Errors
    /// Those of stat(2).
    pub fn has(&self, id: ObjectId, file: &File) -> io::Result<bool> {
        let plain = file.metadata()?;
        match fs::symlink_metadata(self.path(id)) {
            Ok(object) => Ok((object.dev(), object.ino()) == (plain.dev(), plain.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes a file's record.
    ///
    /// # Errors
    /// Those of fsetxattr(2): `ENOSPC` if its other attributes leave no space for the record.
    pub fn write_record(file: &File, record: &ObjectRecord) -> io::Result<()> {
        platform::write_record(file, Path::new(""), &record.encode())
    }

    /// Adds the file as the object of its record.
    ///
    /// # Errors
    /// Those of fsetxattr(2) and linkat(2). Then the file is as before, without a record.
    pub fn add(&self, file: &File, record: &ObjectRecord) -> io::Result<()> {
        let added = Self::write_record(file, record)
            .and_then(|()| platform::link_name(file, &self.path(record.id)));
        if added.is_err() {
            let _ = platform::remove_record(file);
        }
        added
    }

    /// Takes an added file back: it is no object any more.
    ///
    /// # Errors
    /// Those of unlink(2).
    pub fn take_back(&self, file: &File, id: ObjectId) -> io::Result<()> {
        if self.has(id, file)? {
            fs::remove_file(self.path(id))?;
        }
        platform::remove_record(file)
    }

    /// Gives an object's file to the daemon's user alone, and removes its other extended
    /// attributes: the metadata server has them. What cannot be removed (a security label) stays.
    ///
    /// # Errors
    /// Those of fchown(2) and fchmod(2).
    pub fn seal(&self, file: &File) -> io::Result<()> {
        platform::remove_other_xattrs(file)?;
        fchown(file, Some(self.owner.0), Some(self.owner.1))?;
        file.set_permissions(Permissions::from_mode(0o600))
    }

    fn path(&self, id: ObjectId) -> PathBuf {
        let number = id.file.0 % limits::OBJECT_DIRECTORIES;
        self.root.join(OBJECTS).join(format!("{number:03x}")).join(id.to_string())
    }
}
