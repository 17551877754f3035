//! A mount of a union: how often it asks its branches, and files without names.

use crate::harness::{LONG, mount_on_temporary_dir, transport};
use braid_fuse::kernel::mount::Mounted;
use braid_fuse::kernel::{
    Call, Forget, Handler, KernelFeatures, Notifier, Operation, PoolOptions, Reply, Request, Wanted,
};
use braid_fuse::union::UnionFileSystem;
use braid_union::{BranchMode, NoticeKeeper, Pool, Union};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub const BRANCHES: u64 = 4;
/// For less than this the kernel uses an answer without asking again.
const VALID: Duration = Duration::from_secs(1);

pub struct UnionMount {
    // Unmounted before the branches are removed.
    _mounted: Mounted,
    pub point: tempfile::TempDir,
    pub union: Arc<Union>,
    counted: Arc<CountedRequests>,
    /// Ends before the branches are removed.
    pub notices: Option<NoticeKeeper>,
    disks: tempfile::TempDir,
}

/// Counts what the kernel asks for.
struct CountedRequests {
    union: Arc<UnionFileSystem>,
    requests: AtomicU64,
    lookups: AtomicU64,
    directory_reads: AtomicU64,
}

impl Handler for CountedRequests {
    fn init(&self, kernel: &KernelFeatures) -> Wanted {
        self.union.init(kernel)
    }

    fn started(&self, notifier: Notifier) {
        self.union.started(notifier);
    }

    fn handle(&self, request: Request<'_>, reply: Reply, call: &mut Call<'_>) {
        if !matches!(
            request.operation,
            Operation::OpenDirectory { .. } | Operation::ReleaseDirectory { .. }
        ) {
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
        match request.operation {
            Operation::Lookup { .. } => _ = self.lookups.fetch_add(1, Ordering::Relaxed),
            Operation::ReadDirectory { .. } => {
                self.directory_reads.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        self.union.handle(request, reply, call);
    }

    fn forget(&self, forgotten: &[Forget]) {
        self.union.forget(forgotten);
    }
}

impl UnionMount {
    /// With files `0` to `9`. `None`: this machine cannot mount.
    fn new() -> Option<Self> {
        Self::over(|branches| {
            for number in 0..10 {
                let branch = &branches[number % branches.len()];
                File::create(branch.join(number.to_string())).unwrap();
            }
        })
    }

    /// `prepare` fills the branches. `None`: this machine cannot mount.
    pub fn over(prepare: impl FnOnce(&[PathBuf])) -> Option<Self> {
        let disks = tempfile::tempdir().unwrap();
        let paths: Vec<_> =
            (0..BRANCHES).map(|number| disks.path().join(number.to_string())).collect();
        paths.iter().for_each(|branch| fs::create_dir(branch).unwrap());
        prepare(&paths);
        let branches: Vec<_> = paths.into_iter().map(|path| (path, BranchMode::Rw)).collect();
        let meta = disks.path().join("meta");
        let pool = Pool::create(&meta, "test", &branches, Some(0)).unwrap();
        let union = Arc::new(Union::open(&pool).unwrap());
        let counted = Arc::new(CountedRequests {
            union: Arc::new(UnionFileSystem::new(Arc::clone(&union), true)),
            requests: AtomicU64::new(0),
            lookups: AtomicU64::new(0),
            directory_reads: AtomicU64::new(0),
        });
        let handler = Arc::clone(&counted) as _;
        let (mounted, point) =
            mount_on_temporary_dir(transport(), PoolOptions::default(), handler)?;
        Some(Self { _mounted: mounted, point, union, counted, notices: None, disks })
    }

    /// As `over`, and direct changes on the branches are noticed. `None`: this machine cannot.
    pub fn noticing(prepare: impl FnOnce(&[PathBuf])) -> Option<Self> {
        let mut mount = Self::over(prepare)?;
        mount.notice()?;
        Some(mount)
    }

    /// Notices direct changes from now on. `None`: this machine cannot.
    pub fn notice(&mut self) -> Option<()> {
        self.notices = Some(NoticeKeeper::start(Arc::clone(&self.union)).unwrap());
        if let Some(why) = self.union.branches().remove(0).not_noticed {
            println!("skipped: direct changes are not noticed on this machine: {why}");
            return None;
        }
        self.counted.union.take_notices();
        Some(())
    }

    /// The file system behind the mount.
    pub fn served(&self) -> &Arc<UnionFileSystem> {
        &self.counted.union
    }

    /// The requests of `call`, but for opens of directories, which ask no branch.
    pub fn all_requests(&self, call: impl FnOnce()) -> u64 {
        let before = self.counted.requests.load(Ordering::Relaxed);
        call();
        self.counted.requests.load(Ordering::Relaxed) - before
    }

    /// The directory of a branch.
    pub fn branch(&self, number: u64) -> PathBuf {
        self.disks.path().join(number.to_string())
    }

    pub fn root(&self) -> &Path {
        self.point.path()
    }

    /// The kernel's lookups and reads of directories in `call`.
    pub fn requests(&self, call: impl FnOnce()) -> (u64, u64) {
        let now = || {
            let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
            (of(&self.counted.lookups), of(&self.counted.directory_reads))
        };
        let before = now();
        call();
        let after = now();
        (after.0 - before.0, after.1 - before.1)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.point.path().join(name)
    }

    /// How many times a branch is asked for a name.
    pub fn asked(&self, call: impl FnOnce()) -> u64 {
        let before = self.union.names_asked();
        call();
        self.union.names_asked() - before
    }
}

#[test]
fn a_directory_of_a_union_is_listed_at_the_first_read_and_after_a_rewind() {
    let Some(mount) = UnionMount::new() else { return };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let fd = rustix::fs::open(mount.point.path(), flags, Mode::empty()).unwrap();
    assert_eq!(mount.union.listings_read(), 0, "opened");
    let mut dir = Dir::new(fd).unwrap();
    let read = |dir: &mut Dir| dir.filter(|entry| entry.is_ok()).count();
    assert_eq!((read(&mut dir), mount.union.listings_read()), (12, 1));
    File::create_new(mount.path("new")).unwrap();
    dir.rewind();
    assert_eq!((read(&mut dir), mount.union.listings_read()), (13, 2));
}

#[test]
fn a_create_on_a_mount_of_a_union_asks_each_branch_once() {
    let Some(mount) = UnionMount::new() else { return };
    let create = |name: &str| drop(File::create_new(mount.path(name)).unwrap());
    assert_eq!(mount.asked(|| create("new")), BRANCHES);
    assert_eq!(mount.asked(|| fs::create_dir(mount.path("dir")).unwrap()), BRANCHES);
}

#[test]
fn an_absent_name_of_a_union_is_not_asked_for_twice_in_a_second() {
    let Some(mount) = UnionMount::new() else { return };
    // On a machine that stops for a second between the two calls, again.
    for _ in 0..20 {
        let start = Instant::now();
        assert!(!mount.path("absent").exists());
        let asked = mount.asked(|| assert!(!mount.path("absent").exists()));
        if start.elapsed() < VALID {
            return assert_eq!(asked, 0);
        }
    }
    panic!("two calls of stat(2) never took less than {VALID:?}");
}

/// How many of the branches have a name.
fn on_branches(mount: &UnionMount, name: &str) -> usize {
    let branch = |number: &u64| mount.disks.path().join(number.to_string()).join(name).exists();
    (0..BRANCHES).filter(branch).count()
}

#[test]
fn a_file_without_a_name_on_a_union_gets_one_by_a_link() {
    let Some(mount) = UnionMount::new() else { return };
    fs::create_dir(mount.path("dir")).unwrap();
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let open = || rustix::fs::open(mount.path("dir"), flags, Mode::from_raw_mode(0o640)).unwrap();
    let file = File::from(open());
    (&file).write_all(b"bytes").unwrap();
    let before = file.metadata().unwrap();
    assert_eq!((before.nlink(), before.len(), before.mode()), (0, 5, 0o100_640));
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link = |name: &str| {
        let to = mount.path(name);
        rustix::fs::linkat(CWD, &path, CWD, to, AtFlags::SYMLINK_FOLLOW)
    };
    link("dir/x").unwrap();
    link("dir/y").unwrap();
    let named = fs::metadata(mount.path("dir/x")).unwrap();
    assert_eq!((named.ino(), named.nlink()), (before.ino(), 2));
    assert_eq!(fs::read(mount.path("dir/y")).unwrap(), b"bytes");
    (&file).write_all(b" and more").unwrap();
    assert_eq!(fs::read(mount.path("dir/x")).unwrap(), b"bytes and more");
    assert_eq!(on_branches(&mount, "dir/x"), 1);
}

#[test]
fn a_file_without_a_name_on_a_union_leaves_nothing_when_it_is_closed() {
    let Some(mount) = UnionMount::new() else { return };
    let known = mount.union.nodes();
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL;
    let file = rustix::fs::open(mount.point.path(), flags, Mode::RUSR).unwrap();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let linked = rustix::fs::linkat(CWD, path, CWD, mount.path("x"), AtFlags::SYMLINK_FOLLOW);
    assert_eq!(linked, Err(Errno::NOENT), "with O_EXCL it never gets a name");
    drop(file);
    assert_eq!(on_branches(&mount, "x"), 0);
    // The kernel forgets it a moment later.
    let start = Instant::now();
    while mount.union.nodes() > known {
        assert!(start.elapsed() < LONG, "the file is still known");
        std::thread::yield_now();
    }
}
