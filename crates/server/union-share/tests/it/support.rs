//! A union that is shared, and helpers of the tests of `braid-share`.

use std::{
    fs,
    future::Future,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use braid_share::{
    Attributes, ClientRecord, Deny, FileIndex, Identity, OpenMode, OpenTarget, Result, Rights,
    Share, ShareClient, ShareFile, Status,
};
use braid_union::{BranchMode, Placement, Pool, Union};
use braid_union_share::{UnionClient, UnionShare};
use bytes::Bytes;
use tempfile::TempDir;

pub const ROOT: FileIndex = FileIndex::ROOT;
pub const BOTH: OpenMode = OpenMode { rights: Rights::READ_WRITE, deny: Deny::NONE };

/// Tests of `braid-share` that a union does not pass, and why.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "a_list_and_attributes_are_set_together_or_not_at_all",
        "local file systems have POSIX lists, which are set on the mount",
    ),
    (
        "dos_attributes_and_the_time_of_creation_are_kept",
        "local file systems keep neither (docs/smb.md)",
    ),
    (
        "extended_attributes_are_set_listed_and_removed",
        "ext4 has no value of 64 KiB; see branches::extended_attributes_of_the_disk_are_shown",
    ),
];

/// Makes a test of each function, on a union.
macro_rules! on_both {
    ($($test:ident,)*) => {
        mod union {
            $(
                #[test]
                fn $test() { crate::support::on_union(stringify!($test), super::$test) }
            )*
        }
    };
}
pub(crate) use on_both;

pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(test)
}

/// Runs a test in a new directory of a union of two branches.
pub fn on_union<F: Future<Output = ()>>(name: &str, test: impl FnOnce(UnionShare, FileIndex) -> F) {
    if let Some((_, why)) = DIFFERENCES.iter().find(|(other, _)| *other == name) {
        eprintln!("not run: {why}");
        return;
    }
    let Some(fixture) = Fixture::new(2, "first") else { return };
    run(async {
        let share = fixture.share.clone();
        let top = mkdir(&share.own_client(), ROOT, "top", 0o755).await;
        test(share, top).await;
    });
}

/// A union of temporary directories.
pub struct Fixture {
    pub dir: TempDir,
    pub branches: Vec<PathBuf>,
    pub union: Arc<Union>,
    pub share: UnionShare,
}

impl Fixture {
    /// `None`, with a message: the tests need root.
    pub fn new(count: usize, placement: &str) -> Option<Self> {
        Self::over(count, placement, |_| {})
    }

    /// `prepare` fills the branches before they are adopted.
    pub fn over(count: usize, placement: &str, prepare: impl FnOnce(&[PathBuf])) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not run: it needs root");
            return None;
        }
        // As `braid union up` does.
        rustix::process::umask(rustix::fs::Mode::empty());
        let dir = tempfile::tempdir().expect("a directory");
        let branches: Vec<PathBuf> =
            (0..count).map(|number| dir.path().join(format!("disk{number}"))).collect();
        for branch in &branches {
            fs::create_dir(branch).expect("a branch");
            fs::set_permissions(branch, fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        prepare(&branches);
        let disks: Vec<_> = branches.iter().map(|path| (path.clone(), BranchMode::Rw)).collect();
        let mut pool = Pool::create(&dir.path().join("meta"), "test", &disks, Some(0)).unwrap();
        pool.set_placement(placement.parse::<Placement>().unwrap()).unwrap();
        let (union, share) = open(dir.path());
        Some(Self { dir, branches, union, share })
    }

    /// Ends the share, lets `between` change the files of the metadata directory and the branches,
    /// and starts it again.
    pub fn restarted(self, between: impl FnOnce(&Path)) -> Self {
        let Self { dir, branches, union, share } = self;
        drop((union, share));
        between(&dir.path().join("meta"));
        let (union, share) = open(dir.path());
        Self { dir, branches, union, share }
    }

    pub fn own(&self) -> UnionClient {
        self.share.own_client()
    }
}

fn open(dir: &Path) -> (Arc<Union>, UnionShare) {
    let pool = Pool::open(&dir.join("meta")).unwrap();
    let union = Arc::new(Union::open(&pool).unwrap());
    let share = UnionShare::open(Arc::clone(&union), pool.meta()).unwrap();
    (union, share)
}

pub fn root() -> Identity {
    Identity::root()
}

/// A user with a group of the same number.
pub fn user(uid: u64) -> Identity {
    Identity { uid, gid: uid, groups: Vec::new(), checked: false }
}

/// A new protocol client.
pub async fn client<S: Share>(share: &S) -> S::Client {
    let record = ClientRecord { name: "client of a test".into(), record: b"record".to_vec() };
    share.begin_client(record).await.expect("a session")
}

/// The status of a refusal.
pub fn refused<T>(result: Result<T>) -> Status {
    match result {
        Ok(_) => panic!("the call was not refused"),
        Err(error) => error.status(),
    }
}

/// What creates a file with mode 0644, or finds it.
pub fn create_target(dir: FileIndex, name: &str) -> OpenTarget {
    let name = name.into();
    OpenTarget::Create { dir, name, exclusive: false, truncate: false, mode: 0o644 }
}

/// Creates a file as root.
pub async fn create<C: ShareClient>(client: &C, dir: FileIndex, name: &str) -> C::File {
    let opened = client.open(&root(), create_target(dir, name), BOTH).await.expect("a new file");
    assert!(opened.created);
    opened.file
}

/// Makes a directory as root.
pub async fn mkdir<C: ShareClient>(client: &C, dir: FileIndex, name: &str, mode: u32) -> FileIndex {
    let made = client.make_directory(&root(), dir, name.as_bytes(), mode).await;
    made.expect("a new directory").0.file
}

pub async fn look_up<C: ShareClient>(client: &C, dir: FileIndex, name: &str) -> Attributes {
    client.look_up(&root(), dir, name.as_bytes()).await.expect("an existing name")
}

pub async fn change_of<C: ShareClient>(client: &C, file: FileIndex) -> u64 {
    client.attributes(&root(), file).await.expect("attributes").change
}

pub async fn write<F: ShareFile>(file: &F, offset: u64, data: &[u8]) {
    let written = file.write(offset, Bytes::copy_from_slice(data), false).await.expect("a write");
    assert_eq!(written.bytes, data.len() as u64);
}

pub async fn read<F: ShareFile>(file: &F, offset: u64, bytes: u32) -> (Vec<u8>, bool) {
    let read = file.read(offset, bytes).await.expect("a read");
    (read.data.to_vec(), read.end)
}
