//! The directory: its paths, the names that are not durable yet, and the write verifier. The store
//! and its open objects share it.

use super::{platform, private};
use crate::fault::{DiskOp, Fault, FaultPlan};
use crate::verifier::{self, VERIFIER_FILE};
use crate::{DeviceId, Result, StoreError};
use braid_types::{FileIndex, ObjectGeneration, ObjectId, PartIndex, WriteVerifier, limits};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

pub(super) const OBJECTS: &str = "objects";
/// Approximately how much longer an object's path is than the store's.
const OBJECT_NAME_BYTES_MAX: usize = 64;
pub(super) const TEMPORARY: &str = "tmp";
pub(super) const LOST_AND_FOUND: &str = "braid-lost+found";
pub(super) const LOCK_FILE: &str = "lock";

/// What a write verifier depends on, besides failures (I6).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Changes with each boot of the host.
    pub boot: String,
    /// Changes when the directory is on another device or is mounted again.
    pub mount: String,
}

impl Host {
    /// This host, and the mount that `file` is on.
    pub(super) fn probe(file: &File) -> io::Result<Self> {
        Ok(Self { boot: platform::boot_id()?, mount: platform::mount_id(file)? })
    }

    fn line(&self) -> String {
        format!("{} {}", self.boot, self.mount)
    }
}

/// An open object directory.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) root: PathBuf,
    /// Held open for the lock, and for calls about the file system.
    pub(super) lock: File,
    host: Host,
    pub(super) device: DeviceId,
    /// The longest possible file.
    pub(super) object_bytes_max: u64,
    faults: Option<Arc<FaultPlan>>,
    verifier: Mutex<WriteVerifier>,
    names: Vec<NameChanges>,
    closed: ClosedDirty,
    mapped: Arc<AtomicU64>,
}

/// Objects that were closed with unflushed changes since the file system was last asked for
/// write-back errors.
#[derive(Debug)]
struct ClosedDirty {
    /// Locked while a thread asks.
    checking: Mutex<()>,
    unchecked: Mutex<UncheckedObjects>,
}

/// The objects since then.
#[derive(Debug, Default)]
struct UncheckedObjects {
    /// Whether every object may be one of them: those of the process before are unknown, and more
    /// than [`UNCHECKED_MAX`] are not remembered.
    any: bool,
    objects: HashSet<ObjectId>,
}

/// Objects that are remembered one by one, at most (I9).
const UNCHECKED_MAX: usize = 65_536;

/// For one object directory: how often its names changed, and up to which change they are durable.
#[derive(Debug)]
struct NameChanges {
    changes: AtomicU64,
    synced: Mutex<u64>,
}

/// What a sync of the whole file system covers, taken before it begins.
pub(super) struct NamesSnapshot(Vec<u64>);

impl Directory {
    /// Takes the last daemon's verifier, or makes a new one.
    pub(super) fn open(
        root: PathBuf,
        lock: File,
        (host, device): (Host, DeviceId),
        object_bytes_max: u64,
        faults: Option<Arc<FaultPlan>>,
    ) -> Self {
        let stored = std::fs::read_to_string(root.join(VERIFIER_FILE)).ok();
        let stored = stored.and_then(|text| verifier::from_text(&text, &host.line()));
        // After a restart the last daemon's unsynced names are unknown, so all count as unsynced
        // (invariant 2).
        let unknown = |_| NameChanges { changes: AtomicU64::new(1), synced: Mutex::new(0) };
        let names = (0..limits::OBJECT_DIRECTORIES).map(unknown).collect();
        let unasked = Mutex::new(UncheckedObjects { any: true, objects: HashSet::new() });
        let closed = ClosedDirty { checking: Mutex::default(), unchecked: unasked };
        let current = stored.unwrap_or_else(verifier::fresh);
        let directory = Self {
            root,
            lock,
            host,
            device,
            object_bytes_max,
            faults,
            verifier: Mutex::new(current),
            names,
            closed,
            mapped: Arc::default(),
        };
        // Written also when it has not changed: on a disk that accepts no writes, the last daemon
        // may have failed to record that its number is no longer valid.
        if directory.save_verifier(current).is_err() {
            *super::directory::lock(&directory.verifier) = verifier::fresh();
        }
        directory
    }

    /// Address space of the objects' mappings, in bytes.
    pub(super) fn mapped(&self) -> &Arc<AtomicU64> {
        &self.mapped
    }

    /// The number of the directory that has a file's objects.
    pub(super) fn number_of(file: FileIndex) -> u64 {
        file.0 % limits::OBJECT_DIRECTORIES
    }

    pub(super) fn object_directory(&self, file: FileIndex) -> PathBuf {
        let mut path = OsString::from(&self.root);
        // Writing to it cannot fail.
        let _ = write!(path, "/{OBJECTS}/{:03x}", Self::number_of(file));
        path.into()
    }

    pub(super) fn object_path(&self, id: ObjectId) -> PathBuf {
        let mut path = OsString::with_capacity(self.root.as_os_str().len() + OBJECT_NAME_BYTES_MAX);
        path.push(&self.root);
        let _ = write!(path, "/{OBJECTS}/{:03x}/{id}", Self::number_of(id.file));
        path.into()
    }

    /// The error for a failed system call on an object. "Not found" means the object only if its
    /// directory exists: an unmounted disk must not look like lost objects.
    pub(super) fn object_error(
        &self,
        action: &'static str,
        id: ObjectId,
        error: io::Error,
    ) -> StoreError {
        if error.kind() != io::ErrorKind::NotFound {
            return StoreError::from_io(action, self.object_path(id), error);
        }
        match self.expect_directory(id.file) {
            Ok(()) => StoreError::NoObject { object: id, path: self.root.display().to_string() },
            Err(missing) => missing,
        }
    }

    /// Moves a file with an object's name but no record to lost+found, and returns the error of an
    /// absent object. No flush of it was acknowledged, since a flush makes the record durable
    /// before it ends. So the host lost power before its first flush, after another object's flush
    /// had made the name durable (I6). The file is moved, not deleted: a file that a person copied
    /// here looks the same.
    pub(super) fn set_aside(&self, id: ObjectId) -> StoreError {
        let (from, to) = (self.object_path(id), self.lost_and_found_path(id));
        // Without its record: it has none.
        let moved = self.check(DiskOp::Rename).and_then(|()| std::fs::rename(&from, &to));
        if let Err(error) = moved {
            return self.object_error("move to lost+found", id, error);
        }
        self.name_changed(id.file);
        tracing::warn!(
            object = %id,
            to = %to.display(),
            "moved a file without an object record to lost+found"
        );
        StoreError::NoObject { object: id, path: self.root.display().to_string() }
    }

    /// A free name for the object in lost+found.
    pub(super) fn lost_and_found_path(&self, id: ObjectId) -> PathBuf {
        let lost = self.root.join(LOST_AND_FOUND);
        let plain = lost.join(id.to_string());
        let numbered = (1u64..).map(|n| lost.join(format!("{id}.{n}")));
        std::iter::once(plain.clone()).chain(numbered).find(|path| !path.exists()).unwrap_or(plain)
    }

    /// Fails if the directory of this file's objects does not exist.
    pub(super) fn expect_directory(&self, file: FileIndex) -> Result<()> {
        let path = self.object_directory(file);
        if path.is_dir() {
            Ok(())
        } else {
            Err(StoreError::DirectoryMissing { path: path.display().to_string() })
        }
    }

    pub(super) fn check(&self, op: DiskOp) -> io::Result<()> {
        self.faults.as_ref().map_or(Ok(()), |plan| plan.check(op))
    }

    /// For reads and writes, which may be short: how many of `bytes` they may move.
    pub(super) fn allowed(&self, op: DiskOp, bytes: usize) -> io::Result<usize> {
        match self.faults.as_ref().and_then(|plan| plan.next_fault(op)) {
            None => Ok(bytes),
            Some(Fault::Short) => Ok(bytes.div_ceil(2)),
            Some(fault) => fault.error().map_or(Ok(bytes), Err),
        }
    }

    /// An object was closed with unflushed changes.
    pub(super) fn closed_dirty(&self, object: ObjectId) {
        let mut unasked = lock(&self.closed.unchecked);
        if unasked.objects.len() == UNCHECKED_MAX {
            *unasked = UncheckedObjects { any: true, objects: HashSet::new() };
        }
        if !unasked.any {
            unasked.objects.insert(object);
        }
    }

    /// Before a flush of a reopened object (I6). A file's own descriptor reports write-back errors
    /// from before its open only while the system still has the file in memory. The file system's
    /// descriptor reports every one (`syncfs`, Linux 5.8). This costs nothing unless the object was
    /// closed with unflushed changes since the last time.
    pub(super) fn check_closed_objects(&self, object: ObjectId) -> Result<()> {
        let one = lock(&self.closed.checking);
        let unasked = lock(&self.closed.unchecked);
        let must_ask = unasked.any || unasked.objects.contains(&object);
        drop(unasked);
        if must_ask { self.sync_file_system_as(&one).map(drop) } else { Ok(()) }
    }

    /// Syncs the whole file system; `false` where there is no such call.
    pub(super) fn sync_file_system(&self) -> Result<bool> {
        self.sync_file_system_as(&lock(&self.closed.checking))
    }

    /// One at a time: the system reports a failed write-back once, and a second caller must see the
    /// new verifier.
    fn sync_file_system_as(&self, _one: &MutexGuard<'_, ()>) -> Result<bool> {
        // Objects that are closed from now on are for the next call.
        *lock(&self.closed.unchecked) = UncheckedObjects::default();
        let sync = || {
            self.check(DiskOp::Sync)?;
            platform::sync_file_system(&self.lock)
        };
        sync().map_err(|error| {
            lock(&self.closed.unchecked).any = true;
            self.sync_failed(&self.root, error)
        })
    }

    /// A name was created or removed in the directory of this file's objects.
    pub(super) fn name_changed(&self, file: FileIndex) {
        self.names_of(file).changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes the names in the directory of this file's objects durable, unless they are.
    pub(super) fn sync_names(&self, file: FileIndex) -> Result<()> {
        let names = self.names_of(file);
        // Locked during the sync: a second flush must not succeed before the first one has.
        let mut synced = lock(&names.synced);
        let seen = names.changes.load(Ordering::SeqCst);
        if *synced != seen {
            let path = self.object_directory(file);
            self.check(DiskOp::SyncDirectory)
                .and_then(|()| platform::sync_directory(&path))
                .map_err(|error| self.sync_failed(&path, error))?;
            *synced = seen;
        }
        Ok(())
    }

    /// Whether a name in the directory of this file's objects may be unsynced.
    pub(super) fn names_are_dirty(&self, file: FileIndex) -> bool {
        let names = self.names_of(file);
        // A thread that holds the lock is syncing, and may fail.
        names
            .synced
            .try_lock()
            .map_or(true, |synced| *synced != names.changes.load(Ordering::SeqCst))
    }

    /// Before a sync of the whole file system.
    pub(super) fn names_snapshot(&self) -> NamesSnapshot {
        NamesSnapshot(self.names.iter().map(|names| names.changes.load(Ordering::SeqCst)).collect())
    }

    /// A sync of the whole file system has succeeded that began when `seen` was taken.
    pub(super) fn names_synced(&self, seen: &NamesSnapshot) {
        for (names, seen) in self.names.iter().zip(&seen.0) {
            let mut synced = lock(&names.synced);
            *synced = (*synced).max(*seen);
        }
    }

    fn names_of(&self, file: FileIndex) -> &NameChanges {
        &self.names[Self::number_of(file) as usize]
    }

    pub(super) fn verifier(&self) -> WriteVerifier {
        *lock(&self.verifier)
    }

    /// Unflushed data may be lost: makes a new verifier (I6), and returns the error to report.
    pub(super) fn sync_failed(&self, path: &Path, error: io::Error) -> StoreError {
        let mut current = lock(&self.verifier);
        *current = verifier::fresh();
        if self.save_verifier(*current).is_err() {
            // Without the file the next daemon makes a new verifier too. It also does if the file
            // cannot be removed, because then it cannot write the file either (see `open`).
            let _ = std::fs::remove_file(self.root.join(VERIFIER_FILE));
        }
        StoreError::from_io("make durable", path, error)
    }

    fn save_verifier(&self, verifier: WriteVerifier) -> Result<()> {
        replace_file(&self.root, VERIFIER_FILE, &verifier::to_text(&self.host.line(), verifier))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Closing is not enough: a child that this process is forking holds the descriptor until
        // its exec. If unlocking fails, closing remains.
        let _ = self.lock.unlock();
    }
}

/// Replaces a small file durably and atomically.
pub(super) fn replace_file(root: &Path, name: &str, text: &str) -> Result<()> {
    let (path, new) = (root.join(name), root.join(format!("{name}.new")));
    let write = || {
        let mut file = private::options().write(true).create(true).truncate(true).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        drop(file);
        std::fs::rename(&new, &path)?;
        platform::sync_directory(root)
    };
    write().map_err(|error| StoreError::from_io("write", &path, error))
}

/// The object of a file name; only in the spelling that the store writes.
pub(crate) fn parse_name(name: &str) -> Option<ObjectId> {
    let mut words = name.split('.');
    let file = FileIndex(u64::from_str_radix(words.next()?, 16).ok()?);
    let part = PartIndex(words.next()?.parse().ok()?);
    let generation = ObjectGeneration(words.next()?.parse().ok()?);
    let id = ObjectId { file, part, generation };
    (id.to_string() == name).then_some(id)
}

/// Locks a mutex. Ends the process if a thread panicked while it held it (ADR 0035).
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(braid_types::poisoned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_is_parsed_back(
            file in any::<u64>(),
            part in any::<u16>(),
            generation in any::<u32>(),
        ) {
            let (file, part) = (FileIndex(file), PartIndex(part));
            let id = ObjectId { file, part, generation: ObjectGeneration(generation) };
            prop_assert_eq!(parse_name(&id.to_string()), Some(id));
        }
    }

    #[test]
    fn other_spellings_are_strangers() {
        for name in [
            "",
            "2a",
            "2a.0",
            "2A.0.0",
            "2a.00.0",
            "2a.0.0.0",
            "+2a.0.0",
            "2a.0.0.record",
            "02a.0.0",
        ] {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }
}
