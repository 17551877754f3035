//! A pool of two disks, and a metadata server in memory.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs::{self, File},
    ops::ControlFlow,
    os::unix::fs::{FileExt, MetadataExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use braid_store::LocalStore;
use braid_types::{ClusterUuid, FileIndex, IodId, ObjectGeneration, ObjectId, PartIndex, Status};
use braid_union::{BranchMode, Pool};
use braid_union_join::{
    Cluster, Disk, JoinError, JoinOptions, JoinReport, OBJECTS_DIRECTORY, join,
};
use braid_wire::message::{
    FileKind,
    import::{ImportEntry, ImportFailure, ImportedEntry},
};

pub const CLUSTER: ClusterUuid = ClusterUuid(*b"0123456789abcdef");
pub const TOP: FileIndex = FileIndex(1);

/// A metadata server: what it was asked to import.
#[derive(Default)]
pub struct FakeCluster {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    names: BTreeMap<(u64, Vec<u8>), u64>,
    files: BTreeMap<u64, ImportEntry>,
    root: Option<ImportEntry>,
    imports: u64,
}

impl FakeCluster {
    /// The file with a path.
    pub fn find(&self, path: &str) -> Option<(FileIndex, ImportEntry)> {
        let state = self.state.borrow();
        let mut file = TOP.0;
        for name in path.split('/') {
            file = *state.names.get(&(file, name.as_bytes().to_vec()))?;
        }
        Some((FileIndex(file), state.files[&file].clone()))
    }

    /// A name that somebody else made.
    pub fn take_name(&self, name: &str) {
        self.state.borrow_mut().names.insert((TOP.0, name.into()), u64::MAX);
    }

    pub fn root(&self) -> Option<ImportEntry> {
        self.state.borrow().root.clone()
    }

    pub fn imports(&self) -> u64 {
        self.state.borrow().imports
    }
}

impl Cluster for FakeCluster {
    fn reserve_files(&self, count: u32) -> Result<FileIndex, String> {
        let mut state = self.state.borrow_mut();
        let first = state.next.max(1000);
        state.next = first + u64::from(count);
        Ok(FileIndex(first))
    }

    fn import(&self, entries: Vec<ImportEntry>) -> Result<Vec<ImportedEntry>, String> {
        let mut state = self.state.borrow_mut();
        state.imports += 1;
        Ok(entries.into_iter().map(|entry| state.import(entry)).collect())
    }

    fn exists(&self, file: FileIndex) -> Result<bool, String> {
        Ok(self.state.borrow().files.contains_key(&file.0))
    }

    fn set_attributes(&self, _: FileIndex, like: &ImportEntry) -> Result<(), String> {
        self.state.borrow_mut().root = Some(like.clone());
        Ok(())
    }
}

impl State {
    fn import(&mut self, entry: ImportEntry) -> ImportedEntry {
        let key = (entry.dir.0, entry.name.clone());
        let is_file = entry.kind == FileKind::File;
        if let Some(found) = self.names.get(&key) {
            let same = match is_file {
                true => *found == entry.file.0,
                false => self.files.get(found).is_some_and(|file| file.kind == entry.kind),
            };
            let failure =
                (!same).then(|| ImportFailure { status: Status::Exists, detail: String::new() });
            return ImportedEntry { file: FileIndex(*found), created: false, failure };
        }
        let file = match is_file {
            true => entry.file.0,
            false => {
                let file = self.next.max(1000);
                self.next = file + 1;
                file
            }
        };
        self.names.insert(key, file);
        self.files.entry(file).or_insert(entry);
        ImportedEntry { file: FileIndex(file), created: true, failure: None }
    }
}

/// A pool with two disks.
pub struct World {
    pub dir: tempfile::TempDir,
    pub cluster: FakeCluster,
}

impl World {
    pub fn new() -> Self {
        let dir = scratch();
        let world = Self { dir, cluster: FakeCluster::default() };
        for (disk, id) in [("a", 1), ("b", 2)] {
            let path = world.at(disk);
            fs::create_dir(&path).unwrap();
            copy(&template(id), &path.join(OBJECTS_DIRECTORY));
        }
        let disks = [(world.at("a"), BranchMode::Rw), (world.at("b"), BranchMode::Rw)];
        Pool::create(&world.at("meta"), "pool", &disks, Some(0)).unwrap();
        world
    }

    /// A tree with every kind of thing on both disks. Names of the files, with their bytes.
    pub fn with_tree() -> (Self, Vec<(&'static str, Vec<u8>)>) {
        let world = Self::new();
        for directory in ["a/d/deep/er", "b/d/deep", "b/only"] {
            fs::create_dir_all(world.at(directory)).unwrap();
        }
        let files: Vec<(&str, Vec<u8>)> = vec![
            ("a/empty", Vec::new()),
            ("a/d/deep/er/one", b"one".to_vec()),
            ("b/d/deep/two", vec![2; 100_000]),
            ("b/only/odd \n\"name\u{fc}", b"odd".to_vec()),
            ("b/linked", b"linked".to_vec()),
        ];
        for (path, bytes) in &files {
            fs::write(world.at(path), bytes).unwrap();
        }
        fs::hard_link(world.at("b/linked"), world.at("b/only/again")).unwrap();
        symlink("d/deep", world.at("a/link")).unwrap();
        let sparse = File::create(world.at("a/d/sparse")).unwrap();
        sparse.set_len(1 << 20).unwrap();
        sparse.write_all_at(b"end", (1 << 20) - 3).unwrap();
        (world, files)
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub fn pool(&self) -> Pool {
        Pool::open(&self.at("meta")).unwrap()
    }

    pub fn disks(&self) -> Vec<Disk> {
        let open = |branch| Disk::open(branch, CLUSTER).unwrap();
        self.pool().config.branches.iter().map(open).collect()
    }

    pub fn options() -> JoinOptions {
        let cluster = CLUSTER.to_string();
        JoinOptions { cluster, to: "/".into(), directory: TOP, dry_run: false, leave: false }
    }

    pub fn join(&self) -> Result<JoinReport, JoinError> {
        self.join_as(Self::options())
    }

    pub fn join_as(&self, options: JoinOptions) -> Result<JoinReport, JoinError> {
        self.join_until(options, &mut || false)
    }

    /// Stops where `stop` returns true, as a kill does.
    pub fn join_until(
        &self,
        options: JoinOptions,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<JoinReport, JoinError> {
        let mut step = |_: &JoinReport| match stop() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        join(&self.pool(), &self.disks(), &self.cluster, options, &mut step)
    }

    /// The object of a file that has joined.
    pub fn object(&self, path: &str) -> Option<PathBuf> {
        let (file, entry) = self.cluster.find(path)?;
        let disk = if entry.iod == IodId(1) { "a" } else { "b" };
        let id = ObjectId { file, part: PartIndex(0), generation: ObjectGeneration(1) };
        let directory = format!("{OBJECTS_DIRECTORY}/objects/{:03x}", file.0 % 1024);
        Some(self.at(disk).join(directory).join(id.to_string()))
    }

    /// All bytes of a file, on its disk or in the cluster.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let inside = path.split_once('/').unwrap().1;
        let plain = fs::read(self.at(path)).ok();
        let object = self.object(inside).map(|object| fs::read(object).unwrap());
        if plain.is_some() && object.is_some() {
            let object = self.object(inside).unwrap();
            assert_eq!(inode(&self.at(path)), inode(&object), "{path} is twice");
        }
        object.or(plain)
    }
}

/// An empty object directory, made once: to make one takes a second.
fn template(id: u32) -> PathBuf {
    static MADE: OnceLock<[tempfile::TempDir; 2]> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        [1, 2].map(|id| {
            let dir = tempfile::tempdir().unwrap();
            LocalStore::init(dir.path(), CLUSTER, Some(IodId(id))).unwrap();
            dir
        })
    });
    made[id as usize - 1].path().to_owned()
}

/// In memory where that has extended attributes: each join syncs its disks.
fn scratch() -> tempfile::TempDir {
    let memory = tempfile::tempdir_in("/dev/shm").ok();
    let has_xattrs = |dir: &tempfile::TempDir| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(dir.path(), "user.probe", b"1", flags).is_ok()
            && rustix::fs::removexattr(dir.path(), "user.probe").is_ok()
    };
    memory.filter(has_xattrs).unwrap_or_else(|| tempfile::tempdir().unwrap())
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

pub fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

/// Names below a directory that are not of BraidFS.
pub fn names(directory: &Path) -> Vec<String> {
    let mut found: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != OBJECTS_DIRECTORY)
        .collect();
    found.sort_unstable();
    found
}
