//! The store: how it is opened, its objects, and flushes of all of them.

use super::cache::Cache;
use super::directory::TEMPORARY;
use super::directory::{Directory, Host, lock, replace_file};
use super::object::{LocalObject, temporary_path};
use super::{init, list, measure, platform, private};
use crate::fault::{DiskOp, FaultPlan};
use crate::identity::{IDENTITY_FILE, Identity};
use crate::{
    DiskLoad, DiskRates, NewObject, Object, ObjectPage, ObjectRecord, ObjectStat, ObjectStore,
    Result, StoreError, StoreSpace,
};
use braid_types::{ClusterUuid, FileIndex, IodId, ObjectId, WriteVerifier};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

/// Objects kept open by default: a quarter of the 4096 descriptors that a service commonly may
/// have.
pub const OPEN_FILES_DEFAULT: usize = 1024;
/// Creations of one object run one after the other. Those of different objects seldom share a lock.
const CREATION_LOCKS: usize = 64;
/// Objects in one step where the file system cannot be synced as a whole.
const FLUSH_PAGE: usize = 1024;

/// Up to this many objects are flushed one by one; more are flushed by a sync of the whole file
/// system. That costs about as much as one new object, which is synced with its directory (ADR
/// 0008), but it also waits for all other writes.
const FLUSH_EACH_MAX: usize = 4;

/// How to open a [`LocalStore`].
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// Objects kept open, at most; objects in use may exceed it.
    pub open_files_max: usize,
    /// Faults to inject, in tests.
    pub faults: Option<Arc<FaultPlan>>,
    /// Replaces the host's own identity, in tests of the write verifier.
    pub host: Option<Host>,
    /// Replaces the file system's own limit, in tests.
    pub object_bytes_max: Option<u64>,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            open_files_max: OPEN_FILES_DEFAULT,
            faults: None,
            host: None,
            object_bytes_max: None,
        }
    }
}

/// Objects in a local directory.
#[derive(Debug)]
pub struct LocalStore {
    directory: Arc<Directory>,
    identity: Mutex<Identity>,
    cache: Cache,
    creation: Vec<Mutex<()>>,
    temporary: AtomicU64,
    /// Locked by the thread that measures the disk.
    measuring: Mutex<()>,
}

/// The result of creating an object.
enum MakeResult {
    New(File),
    /// It exists.
    Taken,
    /// The file system does not support this way.
    Unsupported,
}

impl LocalStore {
    /// Makes an empty or missing directory an object directory. Refuses a directory that is not
    /// empty, and a file system that cannot store object records.
    pub fn init(root: impl AsRef<Path>, cluster: ClusterUuid, iod: Option<IodId>) -> Result<()> {
        init::init(root.as_ref(), Identity { cluster, iod })
    }

    /// Opens the object directory of this cluster, for this process alone.
    ///
    /// # Errors
    /// `DirectoryMissing`, `NoIdentity` (an unmounted disk), `ForeignCluster`, `UnknownFormat`,
    /// `Corrupted`, `Locked`. A full or read-only disk is opened for reading.
    pub fn open(
        root: impl Into<PathBuf>,
        cluster: ClusterUuid,
        options: LocalOptions,
    ) -> Result<Self> {
        let root = root.into();
        init::identify(&root, cluster)?;
        let lock = init::take_lock(&root)?;
        // Again, now that no other process can change it.
        let identity = Mutex::new(init::identify(&root, cluster)?);
        if let Some(plan) = &options.faults {
            plan.revive();
        }
        init::tighten(&root);
        init::clean_temporary(&root)?;
        let host = match options.host {
            Some(host) => host,
            None => Host::probe(&lock)
                .map_err(|error| StoreError::from_io("identify the mount of", &root, error))?,
        };
        let device = platform::device(&lock)
            .map_err(|error| StoreError::from_io("identify the device of", &root, error))?;
        let longest = || platform::longest_file(&root.join(TEMPORARY));
        let object_bytes_max = options.object_bytes_max.unwrap_or_else(longest);
        Ok(Self {
            directory: Arc::new(Directory::open(
                root,
                lock,
                (host, device),
                object_bytes_max,
                options.faults,
            )),
            identity,
            cache: Cache::new(options.open_files_max),
            creation: (0..CREATION_LOCKS).map(|_| Mutex::default()).collect(),
            temporary: AtomicU64::new(0),
            measuring: Mutex::default(),
        })
    }

    /// The path of the directory.
    pub fn root(&self) -> &Path {
        &self.directory.root
    }

    /// Objects that the cache keeps open now.
    pub fn open_files(&self) -> usize {
        self.cache.len()
    }

    fn open_local(&self, id: ObjectId) -> Result<Arc<LocalObject>> {
        if let Some(object) = self.cache.find(id) {
            return Ok(object);
        }
        // Under the creation lock, so that each open object has one `LocalObject` and one record in
        // memory.
        let _opening = lock(self.creation_lock(id));
        match self.cache.find(id) {
            Some(object) => Ok(object),
            None => Ok(self.cache_object(LocalObject::open(&self.directory, id)?)),
        }
    }

    fn cache_object(&self, object: LocalObject) -> Arc<LocalObject> {
        let object = Arc::new(object);
        if object.is_writable() { self.cache.insert(object) } else { object }
    }

    fn creation_lock(&self, id: ObjectId) -> &Mutex<()> {
        &self.creation[(id.file.0 ^ u64::from(id.part.0)) as usize % CREATION_LOCKS]
    }

    /// Creates an object; `None` when it exists. The caller holds its creation lock.
    fn make_new(&self, new: &NewObject) -> Result<Option<Arc<LocalObject>>> {
        let record = ObjectRecord::new(new)?;
        let path = self.directory.object_path(new.id);
        let made = match self.make_nameless(&record, &path) {
            Ok(MakeResult::Unsupported) => self.make_in_temporary(&record)?,
            made => made,
        };
        let file = match made {
            Ok(MakeResult::New(file)) => file,
            Ok(_) => return Ok(None),
            Err(error) => {
                if error.kind() == io::ErrorKind::NotFound {
                    self.directory.expect_directory(new.id.file)?;
                }
                return Err(StoreError::from_io("make", path, error));
            }
        };
        self.directory.name_changed(new.id.file);
        Ok(Some(self.cache.insert(Arc::new(LocalObject::new(&self.directory, record, file, path)))))
    }

    /// Creates the file without a name, then writes the record, then links the name (invariant 1).
    /// The file is created in its final directory. A file system that keeps a directory's files
    /// together then spreads objects as it spreads directories, and need not search one place for
    /// all that are created and deleted (ext4: 0.7 ms each after 9,000 deletions).
    fn make_nameless(&self, record: &ObjectRecord, path: &Path) -> io::Result<MakeResult> {
        self.directory.check(DiskOp::Create)?;
        let directory = path.parent().unwrap_or(&self.directory.root);
        let Some(file) = platform::create_unnamed(directory)? else {
            return Ok(MakeResult::Unsupported);
        };
        self.directory.check(DiskOp::SetRecord)?;
        platform::write_record(&file, path, &record.encode())?;
        self.directory.check(DiskOp::Rename)?;
        match platform::link_name(&file, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(MakeResult::Taken),
            // Without /proc it cannot be linked. If the directory is missing, the other way finds
            // that out.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(MakeResult::Unsupported),
            named => named.map(|()| MakeResult::New(file)),
        }
    }

    /// Where a file system has no unnamed files: creates it under another name first.
    fn make_in_temporary(&self, record: &ObjectRecord) -> Result<io::Result<MakeResult>> {
        match LocalObject::open(&self.directory, record.id) {
            Ok(_) => return Ok(Ok(MakeResult::Taken)),
            Err(error) if error.is_no_object() => {}
            Err(error) => return Err(error),
        }
        let temporary =
            temporary_path(&self.directory.root, self.temporary.fetch_add(1, Ordering::Relaxed));
        let make = || {
            self.directory.check(DiskOp::Create)?;
            let file =
                private::options().read(true).write(true).create_new(true).open(&temporary)?;
            self.directory.check(DiskOp::SetRecord)?;
            platform::write_record(&file, &temporary, &record.encode())?;
            self.directory.check(DiskOp::Rename)?;
            platform::rename_with_record(&temporary, &self.directory.object_path(record.id))?;
            Ok(MakeResult::New(file))
        };
        Ok(make().inspect_err(|_| {
            // If this fails too, the next open of the store removes it.
            let _ = platform::remove_with_record(&temporary);
        }))
    }

    /// Syncs the whole file system; `false` where there is no such call.
    fn flush_file_system(&self) -> Result<bool> {
        let directory = &self.directory;
        let (names, objects) = (directory.names_snapshot(), self.cache.dirty_snapshot());
        let synced = directory.sync_file_system()?;
        if synced {
            directory.names_synced(&names);
            objects.iter().for_each(|(dirt, seen)| dirt.mark_flushed(*seen));
        }
        Ok(synced)
    }

    /// Whether it may have unflushed changes. Nothing is known about an object that is not open.
    fn is_dirty(&self, id: ObjectId) -> bool {
        self.cache.find(id).is_none_or(|object| object.is_dirty())
    }

    fn flush_one(&self, id: ObjectId) -> Result<()> {
        match self.open_local(id).and_then(|object| object.flush()) {
            Err(error) if !error.is_no_object() => Err(error),
            _ => Ok(()),
        }
    }

    /// Flushes object by object, where the file system cannot be synced as a whole.
    fn flush_each(&self) -> Result<()> {
        let mut cursor = None;
        loop {
            let page = self.list(cursor, FLUSH_PAGE)?;
            page.objects.into_iter().try_for_each(|id| self.flush_one(id))?;
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }
}

impl ObjectStore for LocalStore {
    fn identity(&self) -> Identity {
        *lock(&self.identity)
    }

    fn assign_iod(&self, iod: IodId) -> Result<()> {
        let mut identity = lock(&self.identity);
        match identity.iod {
            Some(found) if found == iod => Ok(()),
            Some(found) => {
                let path = self.directory.root.display().to_string();
                Err(StoreError::ForeignIod { path, found: found.0, wanted: iod.0 })
            }
            None => {
                let named = Identity { iod: Some(iod), ..*identity };
                replace_file(&self.directory.root, IDENTITY_FILE, &named.to_text())?;
                *identity = named;
                Ok(())
            }
        }
    }

    fn write_verifier(&self) -> WriteVerifier {
        self.directory.verifier()
    }

    fn object_bytes_max(&self) -> u64 {
        self.directory.object_bytes_max
    }

    fn open(&self, id: ObjectId) -> Result<Arc<dyn Object>> {
        Ok(self.open_local(id)?)
    }

    fn create(&self, new: &NewObject) -> Result<Arc<dyn Object>> {
        if let Some(object) = self.cache.find(new.id) {
            return Ok(object);
        }
        let _creating = lock(self.creation_lock(new.id));
        if let Some(object) = self.cache.find(new.id) {
            return Ok(object);
        }
        loop {
            if let Some(object) = self.make_new(new)? {
                return Ok(object);
            }
            match LocalObject::open(&self.directory, new.id) {
                // The file with its name was no object, and is moved away now.
                Err(error) if error.is_no_object() => {}
                opened => return Ok(self.cache_object(opened?)),
            }
        }
    }

    fn create_if_absent(&self, new: &NewObject) -> Result<Option<Arc<dyn Object>>> {
        if self.cache.find(new.id).is_some() {
            return Ok(None);
        }
        let _creating = lock(self.creation_lock(new.id));
        // If it was opened or created in between, it has its name, so nothing is created.
        Ok(self.make_new(new)?.map(|object| object as Arc<dyn Object>))
    }

    fn flush_all(&self) -> Result<WriteVerifier> {
        if !self.flush_file_system()? {
            self.flush_each()?;
        }
        Ok(self.directory.verifier())
    }

    fn flush_objects(&self, ids: &[ObjectId]) -> Result<WriteVerifier> {
        let dirty: Vec<ObjectId> = ids.iter().copied().filter(|id| self.is_dirty(*id)).collect();
        if dirty.len() <= FLUSH_EACH_MAX || !self.flush_file_system()? {
            dirty.into_iter().try_for_each(|id| self.flush_one(id))?;
        }
        Ok(self.directory.verifier())
    }

    fn remember_lengths(&self, seen: &[(ObjectId, ObjectStat)]) {
        for (id, stat) in seen {
            if let Ok(object) = self.open_local(*id) {
                object.remember_length(stat.size, stat.size_generation);
            }
        }
    }

    fn delete(&self, id: ObjectId) -> Result<bool> {
        let _deleting = lock(self.creation_lock(id));
        let object = self.cache.find(id);
        self.cache.remove(id);
        let remove = || {
            self.directory.check(DiskOp::Remove)?;
            platform::remove_with_record(&self.directory.object_path(id))
        };
        match remove().map_err(|error| self.directory.object_error("delete", id, error)) {
            Ok(()) => {
                self.directory.name_changed(id.file);
                // Nobody needs the unflushed changes.
                object.inspect(|object| {
                    object.dirty_state().mark_flushed(object.dirty_state().change_count())
                });
                Ok(true)
            }
            Err(error) if error.is_no_object() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn flush_names(&self, ids: &[ObjectId]) -> Result<()> {
        let dirty =
            ids.iter().map(|id| id.file).filter(|file| self.directory.names_are_dirty(*file));
        // One file for each object directory.
        let files: BTreeMap<u64, FileIndex> =
            dirty.map(|file| (Directory::number_of(file), file)).collect();
        if files.len() > FLUSH_EACH_MAX && self.flush_file_system()? {
            return Ok(());
        }
        files.into_values().try_for_each(|file| self.directory.sync_names(file))
    }

    fn list(&self, cursor: Option<ObjectId>, limit: usize) -> Result<ObjectPage> {
        list::page(&self.directory, cursor, limit)
    }

    fn move_to_lost_and_found(&self, id: ObjectId) -> Result<String> {
        let _moving = lock(self.creation_lock(id));
        self.cache.remove(id);
        let to = self.directory.lost_and_found_path(id);
        let rename = || {
            self.directory.check(DiskOp::Rename)?;
            platform::rename_with_record(&self.directory.object_path(id), &to)
        };
        rename().map_err(|error| self.directory.object_error("move to lost+found", id, error))?;
        self.directory.name_changed(id.file);
        Ok(to.display().to_string())
    }

    fn space(&self) -> Result<StoreSpace> {
        platform::space(&self.directory.lock, self.directory.device).map_err(|error| {
            StoreError::from_io("ask for the space of", &self.directory.root, error)
        })
    }

    fn measure_disk(&self, load: DiskLoad) -> Result<DiskRates> {
        let root = &self.directory.root;
        let _measuring = match self.measuring.try_lock() {
            Ok(alone) => alone,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Measuring { path: root.display().to_string() });
            }
        };
        let path = temporary_path(root, self.temporary.fetch_add(1, Ordering::Relaxed));
        let scratch = measure::Scratch::new(&root.join(TEMPORARY), path);
        scratch
            .and_then(|mut scratch| scratch.measure(load))
            .map_err(|error| StoreError::from_io("measure the disk of", root, error))
    }
}

#[cfg(test)]
mod tests {
    use braid_types::{FileIndex, ObjectGeneration, PartIndex, SizeGeneration};

    use super::*;

    #[test]
    fn without_unnamed_files_objects_are_created_in_tmp() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = ClusterUuid([7; 16]);
        LocalStore::init(dir.path(), cluster, None).unwrap();
        let store = LocalStore::open(dir.path(), cluster, LocalOptions::default()).unwrap();
        let id =
            ObjectId { file: FileIndex(5), part: PartIndex(0), generation: ObjectGeneration(0) };
        let new =
            NewObject { id, size_generation: SizeGeneration(0), uid: 1, gid: 2, layout: [].into() };
        let record = ObjectRecord::new(&new).unwrap();
        assert!(matches!(store.make_in_temporary(&record), Ok(Ok(MakeResult::New(_)))));
        assert!(matches!(store.make_in_temporary(&record), Ok(Ok(MakeResult::Taken))));
        assert_eq!(std::fs::read_dir(dir.path().join("tmp")).unwrap().count(), 0);
        assert_eq!(store.create(&new).unwrap().record(), record);
    }

    #[test]
    fn one_measurement_of_the_disk_runs_at_a_time_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = ClusterUuid([7; 16]);
        LocalStore::init(dir.path(), cluster, None).unwrap();
        let store = LocalStore::open(dir.path(), cluster, LocalOptions::default()).unwrap();
        let load =
            DiskLoad { bytes: 1 << 20, part: std::time::Duration::from_millis(1), threads: 2 };
        let measuring = lock(&store.measuring);
        let busy = store.measure_disk(load).unwrap_err();
        assert_eq!(busy.status(), braid_types::Status::Busy, "{busy}");
        drop(measuring);
        assert!(store.measure_disk(load).unwrap().written.amount > 0);
        assert_eq!(std::fs::read_dir(dir.path().join("tmp")).unwrap().count(), 0);
        assert_eq!(store.list(None, 10).unwrap(), ObjectPage::default());
    }
}
