//! Creates object directories, and verifies that a directory is one.

use super::directory::{LOCK_FILE, LOST_AND_FOUND, OBJECTS, TEMPORARY, replace_file};
use super::{platform, private};
use crate::identity::{IDENTITY_FILE, Identity};
use crate::verifier::VERIFIER_FILE;
use crate::{Result, StoreError};
use braid_types::{ClusterUuid, limits};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

/// What `mkfs` creates in the root of a new file system.
const MKFS_LEAVES: &str = "lost+found";

/// Makes an empty directory an object directory. The identity is written last: without it nothing
/// is served.
pub(super) fn init(root: &Path, identity: Identity) -> Result<()> {
    private::make_directory(root, true)
        .map_err(|error| StoreError::from_io("make", root, error))?;
    if root.join(IDENTITY_FILE).exists() {
        return Err(StoreError::AlreadyInitialised { path: root.display().to_string() });
    }
    expect_empty(root)?;
    private::tighten(root);
    for name in [TEMPORARY, LOST_AND_FOUND, OBJECTS] {
        make(&root.join(name))?;
    }
    prove_xattrs(root)?;
    for directory in 0..limits::OBJECT_DIRECTORIES {
        make(&root.join(OBJECTS).join(format!("{directory:03x}")))?;
    }
    for path in [&root.join(OBJECTS), root] {
        platform::sync_directory(path)
            .map_err(|error| StoreError::from_io("make durable", path, error))?;
    }
    replace_file(root, IDENTITY_FILE, &identity.to_text())
}

/// An interrupted `init` left some of its directories and no identity: it may be repeated.
fn expect_empty(root: &Path) -> Result<()> {
    let ours = [MKFS_LEAVES, TEMPORARY, LOST_AND_FOUND, OBJECTS, "braid-iod.toml.new"];
    let failed = |error| StoreError::from_io("list", root, error);
    for entry in fs::read_dir(root).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !ours.iter().any(|name| entry.file_name() == *name) {
            return Err(StoreError::NotEmpty { path: root.display().to_string() });
        }
    }
    let objects = root.join(OBJECTS);
    if holds_objects(&objects) {
        Err(StoreError::NotEmpty { path: objects.display().to_string() })
    } else {
        Ok(())
    }
}

fn holds_objects(objects: &Path) -> bool {
    let holds_any =
        |path: &Path| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    fs::read_dir(objects).is_ok_and(|mut entries| {
        entries.any(|entry| entry.is_ok_and(|entry| holds_any(&entry.path())))
    })
}

fn make(path: &Path) -> Result<()> {
    match private::make_directory(path, false) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(StoreError::from_io("make", path, error))
        }
        _ => Ok(()),
    }
}

fn prove_xattrs(root: &Path) -> Result<()> {
    let path = root.join(TEMPORARY).join("probe");
    let file = private::options().write(true).create(true).truncate(true).open(&path);
    let file = file.map_err(|error| StoreError::from_io("make", &path, error))?;
    let outcome = platform::write_record(&file, &path, b"probe");
    drop(file);
    platform::remove_with_record(&path)
        .map_err(|error| StoreError::from_io("remove", &path, error))?;
    outcome.map_err(|error| match error.kind() {
        io::ErrorKind::Unsupported => StoreError::NoXattrs { path: root.display().to_string() },
        _ => StoreError::from_io("write the object record of", &path, error),
    })
}

/// Reads the identity and verifies that the directory belongs to this cluster.
pub(super) fn identify(root: &Path, cluster: ClusterUuid) -> Result<Identity> {
    let name = || root.display().to_string();
    if !root.is_dir() {
        return Err(StoreError::DirectoryMissing { path: name() });
    }
    let path = root.join(IDENTITY_FILE);
    let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => StoreError::NoIdentity { path: name() },
        _ => StoreError::from_io("read", &path, error),
    })?;
    let identity = Identity::from_text(&text, &path)?;
    if identity.cluster != cluster {
        let (found, wanted) = (identity.cluster.to_string(), cluster.to_string());
        return Err(StoreError::ForeignCluster { path: name(), found, wanted });
    }
    match root.join(OBJECTS).is_dir() {
        true => Ok(identity),
        false => {
            Err(StoreError::DirectoryMissing { path: root.join(OBJECTS).display().to_string() })
        }
    }
}

/// Removes the rights of group and others, which an older version or a person gave, from the
/// directories and the files beside the objects. Objects lose them when they are opened; others
/// cannot reach them then.
pub(super) fn tighten(root: &Path) {
    private::tighten(root);
    let named = [TEMPORARY, LOST_AND_FOUND, OBJECTS, IDENTITY_FILE, LOCK_FILE, VERIFIER_FILE];
    named
        .iter()
        .map(|name| root.join(name))
        .filter(|path| path.exists())
        .for_each(|path| private::tighten(&path));
    for directory in 0..limits::OBJECT_DIRECTORIES {
        let path = root.join(OBJECTS).join(format!("{directory:03x}"));
        if path.exists() {
            private::tighten(&path);
        }
    }
}

/// Locks the directory for this process.
pub(super) fn take_lock(root: &Path) -> Result<File> {
    let path = root.join(LOCK_FILE);
    let failed = |error| StoreError::from_io("lock", &path, error);
    let file = match private::options().create(true).truncate(false).write(true).open(&path) {
        // A read-only disk can still be read.
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => File::open(&path),
        outcome => outcome,
    };
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(StoreError::Locked { path: root.display().to_string() })
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Removes the unfinished objects of the last daemon. None of them had a name yet.
pub(super) fn clean_temporary(root: &Path) -> Result<()> {
    let path = root.join(TEMPORARY);
    make(&path)?;
    let failed = |error| StoreError::from_io("clean", &path, error);
    for entry in fs::read_dir(&path).map_err(failed)? {
        fs::remove_file(entry.map_err(failed)?.path()).map_err(failed)?;
    }
    Ok(())
}
