//! The object directory: its identity, its one process, and what the real file system adds.

use braid_store::{
    DiskOp, Fault, FaultPlan, Host, IDENTITY_FILE, LocalOptions, LocalStore, NewObject, Object,
    ObjectStore, SizeChange, StoreError,
};
use braid_types::{
    ClusterUuid, FileIndex, IodId, ObjectGeneration, ObjectId, ObjectOffset, PartIndex,
};
use braid_types::{SizeGeneration, Status, WriteVerifier};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const CLUSTER: ClusterUuid = ClusterUuid([1; 16]);
const GENERATION: SizeGeneration = SizeGeneration(1);

fn scratch() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    LocalStore::init(dir.path(), CLUSTER, Some(IodId(3))).unwrap();
    dir
}

fn open(dir: &Path) -> Result<LocalStore, StoreError> {
    LocalStore::open(dir, CLUSTER, LocalOptions::default())
}

fn new(file: u64) -> NewObject {
    let id =
        ObjectId { file: FileIndex(file), part: PartIndex(0), generation: ObjectGeneration(0) };
    NewObject { id, size_generation: GENERATION, uid: 0, gid: 0, layout: Arc::from([]) }
}

fn written(store: &LocalStore, file: u64, data: &[u8]) -> Arc<dyn Object> {
    let object = store.create(&new(file)).unwrap();
    object.write_at(data, ObjectOffset(0), GENERATION).unwrap();
    object
}

fn path_of(dir: &Path, file: u64) -> std::path::PathBuf {
    dir.join(format!("objects/{:03x}/{file:x}.0.0", file % 1024))
}

fn read(object: &dyn Object) -> Vec<u8> {
    let mut buf = vec![0; object.stat().unwrap().size as usize];
    object.read_at(&mut buf, ObjectOffset(0)).unwrap();
    buf
}

#[test]
fn objects_lie_where_the_format_says() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    assert_eq!(store.identity().iod, Some(IodId(3)));
    written(&store, 0x1_0000_07ff, b"data");
    assert_eq!(fs::read(dir.path().join("objects/3ff/1000007ff.0.0")).unwrap(), b"data");
}

#[cfg(target_os = "linux")]
#[test]
fn nobody_else_may_look_into_the_directory_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    fn modes(path: &Path, loose: &mut Vec<String>) {
        let mode = fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            loose.push(format!("{} {mode:o}", path.display()));
        }
        for entry in fs::read_dir(path).into_iter().flatten() {
            modes(&entry.unwrap().path(), loose);
        }
    }
    let loose = |path: &Path| {
        let mut found = Vec::new();
        modes(path, &mut found);
        found
    };
    let chmod =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    // For the whole process: what other tests create now has more rights than they ask for, which
    // no test checks.
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("iod");
    LocalStore::init(&root, CLUSTER, Some(IodId(3))).unwrap();
    let store = open(&root).unwrap();
    written(&store, 1, b"secret").flush().unwrap();
    assert_eq!(loose(&root), [""; 0]);
    drop(store);
    // As an older version left it.
    for path in [".", "objects", "objects/001", "tmp", "braid-lost+found"] {
        chmod(&root.join(path), 0o755);
    }
    for path in ["braid-iod.toml", "verifier", "lock"] {
        chmod(&root.join(path), 0o644);
    }
    chmod(&path_of(&root, 1), 0o664);
    let store = open(&root).unwrap();
    let objects = loose(&root);
    assert_eq!(
        objects,
        [format!("{} 664", path_of(&root, 1).display())],
        "behind directories that are closed"
    );
    assert_eq!(read(&*store.open(new(1).id).unwrap()), b"secret");
    assert_eq!(loose(&root), [""; 0], "and tightened when it is opened");
    rustix::process::umask(before);
}

#[test]
fn an_object_is_as_long_as_the_file_system_allows_and_no_longer() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let longest = store.object_bytes_max();
    let object = written(&store, 1, b"data");
    object
        .write_at(b"x", ObjectOffset(longest - 1), GENERATION)
        .expect("the last byte of the longest file");
    let past = object.write_at(b"xx", ObjectOffset(longest - 1), GENERATION).unwrap_err();
    assert_eq!(past.status(), Status::TooLarge, "{past}");
    object.change_size(SizeChange::Truncate { length: 4 }, SizeGeneration(2)).unwrap();
    object.change_size(SizeChange::Truncate { length: longest }, SizeGeneration(3)).unwrap();
    // The limit comes from the file system itself, by a store that does not know it.
    drop((object, store));
    let unlimited = Some(braid_types::limits::FILE_BYTES_MAX);
    let options = LocalOptions { object_bytes_max: unlimited, ..LocalOptions::default() };
    let store = LocalStore::open(dir.path(), CLUSTER, options).unwrap();
    if Some(longest) == unlimited {
        return println!("skipped: this file system has no limit below the largest file's");
    }
    let object = store.open(new(1).id).unwrap();
    let truncate = SizeChange::Truncate { length: longest + 1 };
    let past = SizeGeneration(4);
    let outcomes = [
        object.write_at(b"x", ObjectOffset(longest), SizeGeneration(3)),
        object.allocate(ObjectOffset(longest), 1, SizeGeneration(3)),
        object.change_size(truncate, past),
        object.change_size(truncate, past),
    ];
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert!(error.status() == Status::TooLarge && error.is_refusal(), "{error}");
    }
    object
        .change_size(SizeChange::Punch { offset: ObjectOffset(longest), length: 9 }, past)
        .unwrap();
    object.change_size(SizeChange::Truncate { length: 4 }, SizeGeneration(5)).unwrap();
    assert_eq!(read(&*object), b"data");
}

#[test]
fn an_unmounted_disk_does_not_look_like_an_empty_one() {
    let mount_point = tempfile::tempdir().unwrap();
    let error = open(mount_point.path()).unwrap_err();
    assert!(matches!(error, StoreError::NoIdentity { .. }), "{error}");
    assert_eq!(error.status(), Status::NotServing);
    assert!(
        error.to_string().contains(mount_point.path().to_str().unwrap()),
        "names the path: {error}"
    );
    assert_eq!(fs::read_dir(mount_point.path()).unwrap().count(), 0, "and nothing was put there");
    let absent = open(&mount_point.path().join("absent")).unwrap_err();
    assert!(matches!(absent, StoreError::DirectoryMissing { .. }), "{absent}");
}

#[test]
fn a_foreign_directory_is_refused() {
    let dir = scratch();
    let other = ClusterUuid([2; 16]);
    let error = LocalStore::open(dir.path(), other, LocalOptions::default()).unwrap_err();
    assert!(matches!(&error, StoreError::ForeignCluster { .. }), "{error}");
    assert!(
        error.to_string().contains(&CLUSTER.to_string())
            && error.to_string().contains(&other.to_string())
    );
}

#[test]
fn a_damaged_or_newer_identity_is_refused() {
    let dir = scratch();
    let path = dir.path().join(IDENTITY_FILE);
    let good = fs::read_to_string(&path).unwrap();
    for (bad, newer) in [
        (good.replace("iod = 3", "iod = 4"), false),
        (good.replace("format = 1", "format = 9"), true),
    ] {
        fs::write(&path, bad).unwrap();
        match open(dir.path()).unwrap_err() {
            StoreError::UnknownFormat { found: 9, .. } => assert!(newer),
            StoreError::Corrupted { .. } => assert!(!newer),
            error => panic!("{error}"),
        }
    }
    fs::write(&path, good).unwrap();
    open(dir.path()).unwrap();
}

#[test]
fn init_refuses_what_is_not_empty_and_what_is_one_already() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "years of work").unwrap();
    let error = LocalStore::init(dir.path(), CLUSTER, None).unwrap_err();
    assert!(matches!(error, StoreError::NotEmpty { .. }), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was added");
    let again = LocalStore::init(scratch().path(), CLUSTER, None).unwrap_err();
    assert!(matches!(again, StoreError::AlreadyInitialised { .. }), "{again}");
}

#[test]
fn init_does_not_take_objects_without_an_identity_for_empty() {
    let dir = scratch();
    written(&open(dir.path()).unwrap(), 1, b"data");
    for name in [IDENTITY_FILE, "lock", "verifier"] {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    let error = LocalStore::init(dir.path(), CLUSTER, None).unwrap_err();
    assert!(matches!(error, StoreError::NotEmpty { .. }), "{error}");
}

#[test]
fn an_interrupted_init_can_be_done_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("objects/000")).unwrap();
    fs::create_dir(dir.path().join("lost+found")).unwrap();
    LocalStore::init(dir.path(), CLUSTER, None).unwrap();
    open(dir.path()).unwrap();
}

#[test]
fn a_second_daemon_is_refused_until_the_first_is_gone() {
    let dir = scratch();
    let first = open(dir.path()).unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    assert_eq!(error.status(), Status::Busy);
    drop(first);
    open(dir.path()).unwrap();
}

#[test]
fn a_directory_that_vanished_is_not_a_lost_object() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    fs::rename(dir.path().join("objects"), dir.path().join("elsewhere")).unwrap();
    for error in [
        store.open(new(1).id).unwrap_err(),
        store.create(&new(1)).unwrap_err(),
        store.list(None, 1).unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::DirectoryMissing { .. }), "{error}");
        assert_eq!(error.status(), Status::NotServing);
    }
    assert!(matches!(store.delete(new(1).id).unwrap_err(), StoreError::DirectoryMissing { .. }));
    fs::rename(dir.path().join("elsewhere"), dir.path().join("objects")).unwrap();
    store.create(&new(1)).expect("and the store lives on");
}

fn verifier(dir: &Path, boot: &str, mount: &str) -> WriteVerifier {
    let host = Host { boot: boot.to_owned(), mount: mount.to_owned() };
    LocalStore::open(dir, CLUSTER, LocalOptions { host: Some(host), ..LocalOptions::default() })
        .unwrap()
        .write_verifier()
}

#[test]
fn the_verifier_changes_with_boot_and_mount_and_not_with_a_restart() {
    let dir = scratch();
    let first = verifier(dir.path(), "boot", "mount");
    assert_eq!(verifier(dir.path(), "boot", "mount"), first, "restart");
    let rebooted = verifier(dir.path(), "another boot", "mount");
    assert_ne!(rebooted, first, "boot");
    let remounted = verifier(dir.path(), "another boot", "another mount");
    assert_ne!(remounted, rebooted, "remount");
    assert_ne!(verifier(dir.path(), "boot", "mount"), first, "an old one never comes back");
}

#[test]
fn a_damaged_verifier_file_counts_as_a_boot() {
    let dir = scratch();
    let first = open(dir.path()).unwrap().write_verifier();
    if cfg!(target_os = "linux") {
        assert_eq!(open(dir.path()).unwrap().write_verifier(), first);
    }
    fs::write(dir.path().join("verifier"), "scrambled").unwrap();
    assert_ne!(open(dir.path()).unwrap().write_verifier(), first);
}

#[test]
fn what_a_killed_daemon_was_making_is_cleaned_up() {
    let dir = scratch();
    fs::write(dir.path().join("tmp/17"), "half an object").unwrap();
    let store = open(dir.path()).unwrap();
    assert_eq!(fs::read_dir(dir.path().join("tmp")).unwrap().count(), 0);
    assert_eq!(store.list(None, 10).unwrap().objects, []);
}

#[test]
fn strangers_among_the_objects_are_shown_and_left_alone() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    written(&store, 1, b"data");
    let stranger = dir.path().join("objects/001/notes.txt");
    let misplaced = dir.path().join("objects/001/2.0.0");
    fs::write(&stranger, "?").unwrap();
    fs::write(&misplaced, "?").unwrap();
    let page = store.list(None, 10).unwrap();
    assert_eq!(page.objects, [new(1).id]);
    assert_eq!(
        page.foreign_files,
        [misplaced.display().to_string(), stranger.display().to_string()]
    );
    assert!(stranger.exists() && misplaced.exists());
}

#[test]
fn a_file_without_a_record_is_no_object_and_is_kept_in_lost_and_found() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    for round in ["first", "second"] {
        fs::write(path_of(dir.path(), 1), round).unwrap();
        let error = store.open(new(1).id).unwrap_err();
        assert!(error.is_no_object(), "{error}");
        assert!(!path_of(dir.path(), 1).exists());
    }
    let lost = dir.path().join("braid-lost+found");
    let kept = |name: &str| fs::read_to_string(lost.join(name)).unwrap();
    assert_eq!([kept("1.0.0"), kept("1.0.0.1")], ["first", "second"], "nothing is deleted");

    fs::write(path_of(dir.path(), 1), "third").unwrap();
    written(&store, 1, b"data");
    assert_eq!(
        (read(&*store.open(new(1).id).unwrap()), kept("1.0.0.2")),
        (b"data".to_vec(), "third".to_owned())
    );
}

#[test]
fn an_object_with_another_objects_record_is_corrupted() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    written(&store, 2, b"data");
    fs::rename(path_of(dir.path(), 2), path_of(dir.path(), 4)).unwrap();
    let error = store.open(new(4).id).unwrap_err();
    assert_eq!(error.status(), Status::Corrupted);
    assert!(error.to_string().contains("another object's"), "{error}");
}

#[test]
fn the_cache_of_open_files_is_bounded() {
    let dir = scratch();
    let options = LocalOptions { open_files_max: 32, ..LocalOptions::default() };
    let store = LocalStore::open(dir.path(), CLUSTER, options).unwrap();
    for file in 1..=200 {
        written(&store, file, &file.to_le_bytes());
    }
    assert!(store.open_files() <= 32, "{} are open", store.open_files());
    for file in 1..=200u64 {
        assert_eq!(read(&*store.open(new(file).id).unwrap()), file.to_le_bytes());
    }
    assert!(store.open_files() <= 32);
}

#[cfg(target_os = "linux")]
#[test]
fn a_flush_reports_a_write_back_error_from_before_the_objects_open() {
    let dir = scratch();
    let faults = Arc::new(FaultPlan::default());
    let options =
        LocalOptions { open_files_max: 1, faults: Some(faults.clone()), ..LocalOptions::default() };
    let store = LocalStore::open(dir.path(), CLUSTER, options).unwrap();
    // Enough objects that the first are closed again, whatever their cache shard is.
    for file in 1..=1000 {
        written(&store, file, b"acknowledged");
    }
    let (first, second) = (store.open(new(1).id).unwrap(), store.open(new(2).id).unwrap());
    let before = store.write_verifier();
    faults.fail_nth(DiskOp::Sync, 1, Fault::Eio);
    assert_eq!(first.flush().unwrap_err().status(), Status::DiskError);
    assert_ne!(store.write_verifier(), before, "I6: its writer sends it again");
    let operations = |object: &dyn Object| {
        let before = faults.operations();
        object.flush().unwrap();
        faults.operations() - before
    };
    assert_eq!(operations(&*first), 3, "the file system, its data, its name");
    assert_eq!(operations(&*second), 2, "the file system was asked for all that were closed");
    second.write_at(b"more", ObjectOffset(0), GENERATION).unwrap();
    assert_eq!(operations(&*second), 1, "its data");
    drop((first, second));
    // Other objects that are closed dirty do not affect one that was flushed before it was closed.
    for file in 1001..=2000 {
        written(&store, file, b"acknowledged");
    }
    assert_eq!(
        operations(&*store.open(new(1).id).unwrap()),
        2,
        "its data, of which nothing is known, and the names beside its own"
    );
    assert_eq!(
        operations(&*store.open(new(1001).id).unwrap()),
        3,
        "the file system, its data, its name"
    );
}

#[test]
fn an_object_in_use_is_never_opened_beside_itself() {
    let dir = scratch();
    let options = LocalOptions { open_files_max: 1, ..LocalOptions::default() };
    let store = LocalStore::open(dir.path(), CLUSTER, options).unwrap();
    let held = written(&store, 1, b"data");
    for file in 2..300 {
        written(&store, file, b"other");
    }
    let change = SizeChange::Truncate { length: 0 };
    store.open(new(1).id).unwrap().change_size(change, SizeGeneration(2)).unwrap();
    let late = held.write_at(b"late", ObjectOffset(0), GENERATION).unwrap_err();
    assert_eq!(late.status(), Status::StaleGeneration, "I5, through a handle from before");
    let late =
        store.open(new(1).id).unwrap().write_at(b"late", ObjectOffset(0), GENERATION).unwrap_err();
    assert_eq!(late.status(), Status::StaleGeneration);
}

#[test]
fn writers_and_a_truncate_at_once_leave_nothing_of_the_older_generation() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let object = written(&store, 1, &[1; 4096]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(
                || while object.write_at(&[1; 4096], ObjectOffset(0), GENERATION).is_ok() {},
            );
        }
        object.change_size(SizeChange::Truncate { length: 0 }, SizeGeneration(2)).unwrap();
    });
    assert_eq!(read(&*object), b"");
}

#[test]
fn threads_that_create_one_object_get_the_same() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let records: Vec<_> = std::thread::scope(|scope| {
        let create = |uid| store.create(&NewObject { uid, ..new(1) }).unwrap().record();
        let threads: Vec<_> = (0..8).map(|uid| scope.spawn(move || create(uid))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(records.iter().all(|record| *record == records[0]), "{records:?}");
}

#[cfg(target_os = "linux")]
mod mounted {
    //! Tests on their own file systems, which only root can mount.
    use super::*;
    use std::process::Command;

    struct Mount(tempfile::TempDir);

    impl Mount {
        /// `None`, with a message, where nothing can be mounted.
        fn new(kind: &str, options: &str) -> Option<Self> {
            let dir = tempfile::tempdir().unwrap();
            let mount = |c: &mut Command| {
                c.args(["-t", kind, "-o", options, kind]).arg(dir.path()).output()
            };
            match mount(&mut Command::new("mount")) {
                Ok(output) if output.status.success() => Some(Self(dir)),
                Ok(output) => {
                    println!(
                        "skipped: mount {kind}: {}",
                        String::from_utf8_lossy(&output.stderr).trim()
                    );
                    None
                }
                Err(error) => {
                    println!("skipped: mount: {error}");
                    None
                }
            }
        }

        fn path(&self) -> &Path {
            self.0.path()
        }

        fn remount(&self, options: &str) {
            let options = format!("remount,{options}");
            assert!(
                Command::new("mount")
                    .args(["-o", &options])
                    .arg(self.path())
                    .status()
                    .unwrap()
                    .success()
            );
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            // A failure shows as a directory that cannot be removed; a drop can do nothing more.
            let _ = Command::new("umount").arg(self.path()).status();
        }
    }

    #[test]
    fn a_disk_that_fills_up_says_so_and_lives_on() {
        let Some(mount) = Mount::new("tmpfs", "size=8m") else { return };
        LocalStore::init(mount.path(), CLUSTER, None).unwrap();
        let store = open(mount.path()).unwrap();
        let first = written(&store, 1, b"before");
        let object = store.create(&new(2)).unwrap();
        let mut offset = 0;
        let error = loop {
            match object.write_at(&[7; 65_536], ObjectOffset(offset), GENERATION) {
                Ok(()) => offset += 65_536,
                Err(error) => break error,
            }
            assert!(offset < 16 << 20, "the disk of 8 MiB took 16");
        };
        assert!(matches!(error, StoreError::NoSpace { .. }), "{error}");
        assert!(error.to_string().contains("2.0.0"), "{error}");
        assert_eq!(read(&*first), b"before");
        assert_eq!(&read(&*object)[..offset as usize], vec![7; offset as usize]);
        drop((first, object, store));
        let store = open(mount.path()).expect("a daemon starts on a full disk");
        store.delete(new(2).id).unwrap();
        written(&store, 3, &[1; 65_536]);
    }

    #[test]
    fn a_disk_that_became_read_only_is_still_read() {
        let Some(mount) = Mount::new("tmpfs", "size=8m") else { return };
        LocalStore::init(mount.path(), CLUSTER, None).unwrap();
        let store = open(mount.path()).unwrap();
        let verifier = store.write_verifier();
        written(&store, 1, b"before");
        drop(store);
        mount.remount("ro");
        let store = open(mount.path()).expect("a daemon starts on a read-only disk");
        assert_ne!(
            store.write_verifier(),
            verifier,
            "whose last daemon may have failed to keep a new one"
        );
        let object = store.open(new(1).id).unwrap();
        assert_eq!(read(&*object), b"before");
        for error in [
            object.write_at(b"x", ObjectOffset(0), GENERATION).unwrap_err(),
            object.change_size(SizeChange::Truncate { length: 0 }, SizeGeneration(2)).unwrap_err(),
            store.create(&new(2)).unwrap_err(),
            store.delete(new(1).id).unwrap_err(),
        ] {
            assert_eq!(error.status(), Status::ReadOnly, "{error}");
        }
        mount.remount("rw");
        drop(object);
        written(&store, 1, b"after!");
        assert_eq!(
            read(&*store.open(new(1).id).unwrap()),
            b"after!",
            "writable again, without a restart"
        );
    }

    #[test]
    fn a_remount_changes_the_verifier_of_the_real_host() {
        let Some(mount) = Mount::new("tmpfs", "size=8m") else { return };
        let keep = tempfile::tempdir().unwrap();
        LocalStore::init(keep.path(), CLUSTER, None).unwrap();
        let first = open(keep.path()).unwrap().write_verifier();
        assert_eq!(open(keep.path()).unwrap().write_verifier(), first);
        let bind = |from: &Path| {
            Command::new("mount").arg("--bind").args([from, mount.path()]).status().unwrap()
        };
        assert!(bind(keep.path()).success());
        assert_ne!(
            open(mount.path()).unwrap().write_verifier(),
            first,
            "another mount of the same directory"
        );
        assert!(Command::new("umount").arg(mount.path()).status().unwrap().success());
    }

    #[test]
    fn a_file_system_without_xattrs_is_refused_at_init() {
        let Some(mount) = Mount::new("ramfs", "mode=700") else { return };
        let error = LocalStore::init(mount.path(), CLUSTER, None).unwrap_err();
        assert!(matches!(error, StoreError::NoXattrs { .. }), "{error}");
        assert!(
            matches!(open(mount.path()).unwrap_err(), StoreError::NoIdentity { .. }),
            "and is no object directory"
        );
    }

    #[test]
    fn two_directories_of_one_disk_are_one_device() {
        let (a, b) = (scratch(), scratch());
        let device = |dir: &Path| open(dir).unwrap().space().unwrap().device;
        assert_eq!(device(a.path()), device(b.path()));
        let Some(mount) = Mount::new("tmpfs", "size=8m") else { return };
        LocalStore::init(mount.path(), CLUSTER, None).unwrap();
        assert_ne!(device(a.path()), device(mount.path()));
        let space = open(mount.path()).unwrap().space().unwrap();
        assert_eq!(space.total_bytes, 8 << 20);
    }
}
