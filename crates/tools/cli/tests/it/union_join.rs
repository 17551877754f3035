//! `braid union join` from a user's view: the tree of a union is the tree of a cluster, and no byte
//! was copied.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeMap,
    fs::{self, File, Permissions},
    io::Read,
    os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use braid_client::{Client, Config, Credential, OpenOptions, RenameMode};
use braid_wire::message::FileKind;
use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use serde_json::Value;

use crate::harness::{Processes, braid, text};

/// What a user sees of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    kind: FileKind,
    mode: u32,
    owner: (u64, u64),
    links: u32,
    bytes: u64,
    mtime: (i64, u32),
    device: u64,
    content: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A union of two disks, and a cluster with an I/O daemon on each.
struct World {
    cluster: Processes,
}

impl World {
    fn new() -> Self {
        let world = Self { cluster: Processes::start() };
        fs::create_dir(world.at("a")).unwrap();
        fs::create_dir(world.at("b")).unwrap();
        let made = braid()
            .args(["union", "create", "media", "--min-free", "0", "--meta"])
            .args([world.at("meta"), world.at("a"), world.at("b")])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", text(&made));
        world
    }

    fn at(&self, path: &str) -> PathBuf {
        self.cluster.dir.path().join(path)
    }

    fn add_daemons(&mut self) {
        for disk in ["a", "b"] {
            let objects = self.at(disk).join(".braid-objects");
            self.cluster.add_iod(&objects);
        }
    }

    fn join(&self, options: &[&str]) -> Output {
        let meta = self.at("meta");
        let all = ["--json", "union", "join", meta.to_str().unwrap()];
        self.cluster.run(&[&all, options].concat())
    }

    fn client(&self) -> Client {
        let settings: Value =
            serde_json::from_str(&self.cluster.ok(&["--json", "config", "explain"])).unwrap();
        let mut settings = settings.as_array().unwrap().iter();
        let mds = settings.find(|setting| setting["setting"] == "cluster.mds").unwrap();
        let key = Credential::from_key_file(self.at("c/keys/client.key")).unwrap();
        Client::connect(Config::new([mds["value"].as_str().unwrap()], key)).unwrap()
    }
}

/// A tree with everything that a file system has.
fn make_tree(world: &World) {
    for directory in ["a/d/deep/er/still", "b/d/deep", "b/only"] {
        fs::create_dir_all(world.at(directory)).unwrap();
    }
    fs::set_permissions(world.at("a/d"), Permissions::from_mode(0o2750)).unwrap();
    for (path, bytes) in [
        ("a/empty", &b""[..]),
        ("a/d/deep/er/still/one", b"one"),
        ("b/d/deep/two", &[7; 3_000_000]),
        ("b/only/odd \n\"name\u{fc}", b"odd"),
        ("b/linked", b"linked"),
    ] {
        fs::write(world.at(path), bytes).unwrap();
    }
    fs::hard_link(world.at("b/linked"), world.at("b/only/again")).unwrap();
    symlink("d/deep", world.at("a/link")).unwrap();
    let sparse = File::create(world.at("a/d/sparse")).unwrap();
    sparse.set_len(1 << 26).unwrap();
    sparse.write_all_at(b"end", (1 << 26) - 3).unwrap();
    let fifo = Mode::from_raw_mode(0o640);
    rustix::fs::mknodat(CWD, world.at("a/pipe"), FileType::Fifo, fifo, 0).unwrap();
    let set = |path: &str, name: &str, value: &[u8]| {
        rustix::fs::setxattr(world.at(path), name, value, XattrFlags::empty()).unwrap();
    };
    set("b/d/deep/two", "user.colour", b"blue");
    set("a/d", "user.kind", b"directory");
    // user::rw-, user:7:r--, group::r--, mask::r--, other::---
    let list = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\x07\0\0\0\x04\0\x04\0\
                 \xff\xff\xff\xff\x10\0\x04\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
    set("a/d/deep/er/still/one", "system.posix_acl_access", list);
    fs::set_permissions(world.at("b/linked"), Permissions::from_mode(0o4711)).unwrap();
    if rustix::process::getuid().is_root() {
        chown(world.at("b/d/deep/two"), Some(1234), Some(4321)).unwrap();
        chown(world.at("a/d/deep"), Some(12), Some(34)).unwrap();
    }
    let old = rustix::fs::Timespec { tv_sec: 1_000_000_000, tv_nsec: 123_456_789 };
    let times = rustix::fs::Timestamps { last_access: old, last_modification: old };
    for path in ["b/d/deep/two", "a/d/deep", "a/empty"] {
        rustix::fs::utimensat(CWD, world.at(path), &times, rustix::fs::AtFlags::empty()).unwrap();
    }
}

/// The tree on the disks, as the union shows it.
fn tree_on_disks(world: &World) -> BTreeMap<String, Seen> {
    let mut tree = BTreeMap::new();
    for disk in ["a", "b"] {
        see_disk(&world.at(disk), Path::new(""), &mut tree);
    }
    tree
}

fn see_disk(disk: &Path, path: &Path, tree: &mut BTreeMap<String, Seen>) {
    for entry in fs::read_dir(disk.join(path)).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_str().unwrap().starts_with(".braid-") {
            continue;
        }
        let path = path.join(entry.file_name());
        let name = path.to_str().unwrap().to_owned();
        let is_directory = entry.file_type().unwrap().is_dir();
        tree.entry(name).or_insert_with(|| see(&entry.path()));
        if is_directory {
            see_disk(disk, &path, tree);
        }
    }
}

fn see(path: &Path) -> Seen {
    let found = fs::symlink_metadata(path).unwrap();
    let kind = match found.file_type() {
        kind if kind.is_dir() => FileKind::Directory,
        kind if kind.is_symlink() => FileKind::Symlink,
        kind if kind.is_fifo() => FileKind::Fifo,
        _ => FileKind::File,
    };
    let is_file = kind == FileKind::File;
    let mut xattrs = BTreeMap::new();
    if matches!(kind, FileKind::File | FileKind::Directory) {
        let mut names = vec![0; 4096];
        let bytes = rustix::fs::listxattr(path, &mut names[..]).unwrap();
        for name in names[..bytes].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let mut value = vec![0; 4096];
            let bytes = rustix::fs::getxattr(path, name, &mut value[..]).unwrap();
            if name != b"security.selinux" {
                xattrs.insert(name.to_vec(), value[..bytes].to_vec());
            }
        }
    }
    Seen {
        kind,
        mode: found.mode() & 0o7777,
        owner: (found.uid().into(), found.gid().into()),
        // Directories count the directories of all disks.
        links: if kind == FileKind::Directory { 0 } else { found.nlink() as u32 },
        bytes: if is_file { found.len() } else { 0 },
        mtime: (found.mtime(), found.mtime_nsec() as u32),
        device: if is_file || kind == FileKind::Directory { 0 } else { found.rdev() },
        content: match kind {
            FileKind::File => fs::read(path).unwrap(),
            FileKind::Symlink => fs::read_link(path).unwrap().into_os_string().into_encoded_bytes(),
            _ => Vec::new(),
        },
        xattrs,
    }
}

/// The tree of the cluster below a directory.
fn tree_of_cluster(client: &Client, top: &str) -> BTreeMap<String, Seen> {
    let mut tree = BTreeMap::new();
    let mut left = vec![String::new()];
    while let Some(directory) = left.pop() {
        for entry in client.read_dir(format!("{top}/{directory}").as_str(), true).unwrap() {
            let entry = entry.unwrap();
            let name = String::from_utf8(entry.name).unwrap();
            let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            let at = format!("{top}/{path}");
            let found = client.lstat(at.as_str()).unwrap();
            let is_file = found.kind == FileKind::File;
            let mut content = Vec::new();
            match found.kind {
                FileKind::File => {
                    let mut file =
                        client.open(at.as_str(), &OpenOptions::new().read(true)).unwrap();
                    file.read_to_end(&mut content).unwrap();
                }
                FileKind::Symlink => content = client.read_link(at.as_str()).unwrap(),
                FileKind::Directory => left.push(path.clone()),
                _ => {}
            }
            let mut xattrs = BTreeMap::new();
            if is_file || found.kind == FileKind::Directory {
                for name in client.xattrs(at.as_str()).unwrap() {
                    let value = client.xattr(at.as_str(), &name).unwrap();
                    xattrs.insert(name, value);
                }
            }
            let seen = Seen {
                kind: found.kind,
                mode: found.mode,
                owner: (found.uid, found.gid),
                links: if found.kind == FileKind::Directory { 0 } else { found.links },
                bytes: if is_file { found.bytes.0 } else { 0 },
                mtime: (found.mtime.seconds, found.mtime.nanos),
                device: found.device,
                content,
                xattrs,
            };
            tree.insert(path, seen);
        }
    }
    tree
}

/// Inode and bytes of each regular file on the disks, sorted; objects too.
fn inodes(world: &World) -> Vec<(u64, u64)> {
    fn walk(path: &Path, found: &mut Vec<(u64, u64)>) {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let stat = fs::symlink_metadata(&path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_own = [".braid-branch", "lock", "verifier", "directory-id", "braid-iod.toml"];
            if stat.is_dir() {
                walk(&path, found);
            } else if stat.is_file() && !is_own.contains(&name) {
                found.push((stat.ino(), stat.len()));
            }
        }
    }
    let mut found = Vec::new();
    walk(&world.at("a"), &mut found);
    walk(&world.at("b"), &mut found);
    found.sort_unstable();
    found.dedup();
    found
}

fn expect_clean(world: &World) {
    let key = world.at("c/keys/server.key");
    let checked = world.cluster.run(&["--key", key.to_str().unwrap(), "fsck"]);
    assert!(checked.status.success(), "{}", text(&checked));
}

#[test]
fn the_tree_of_a_union_is_the_tree_of_the_cluster_and_no_byte_was_copied() {
    let mut world = World::new();
    make_tree(&world);
    let refused = world.join(&[]);
    let says = text(&refused);
    assert!(says.contains("have no I/O daemon yet") && says.contains("--init"), "{says}");
    world.add_daemons();
    let (before, files) = (tree_on_disks(&world), inodes(&world));
    let root = fs::metadata(world.at("a")).unwrap();
    let dry = world.join(&["--dry-run"]);
    assert!(dry.status.success(), "{}", text(&dry));
    assert_eq!(tree_on_disks(&world), before);
    let joined = world.join(&[]);
    assert!(joined.status.success(), "{}", text(&joined));
    let report: Value = serde_json::from_slice(&joined.stdout).unwrap();
    assert_eq!((&report["files"], &report["finished"]), (&6.into(), &true.into()));
    let client = world.client();
    let after = tree_of_cluster(&client, "");
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (path, seen) in &before {
        assert_eq!(after[path], *seen, "{path}");
    }
    assert_eq!(inodes(&world), files, "each file has its inode and its length");
    assert_eq!(client.stat("/").unwrap().mode, root.mode() & 0o7777);
    expect_clean(&world);
    // It is a file of the cluster like any other.
    let options = OpenOptions::new().read(true).write(true);
    let file = client.open("/d/deep/two", &options).unwrap();
    file.write_at(b"changed", 2_999_999).unwrap();
    file.sync().unwrap();
    file.close().unwrap();
    client.truncate("/linked", 3).unwrap();
    client.unlink("/only/again").unwrap();
    client.rename("/empty", "/d/moved", RenameMode::Replace).unwrap();
    assert_eq!(client.stat("/d/deep/two").unwrap().bytes.0, 3_000_006);
    expect_clean(&world);
    let up = braid().args(["union", "up"]).arg(world.at("meta")).arg(world.at("x")).output();
    assert!(text(&up.unwrap()).contains("have joined the cluster"));
    let status = braid().args(["union", "status"]).arg(world.at("meta")).output().unwrap();
    assert!(text(&status).contains("have joined the cluster"), "{}", text(&status));
}

#[test]
fn what_stays_is_named_and_the_command_can_be_repeated() {
    let mut world = World::new();
    make_tree(&world);
    fs::write(world.at("b/empty"), "hidden").unwrap();
    world.add_daemons();
    let joined = world.join(&["--to", "/media"]);
    assert_eq!(joined.status.code(), Some(1), "{}", text(&joined));
    let report: Value = serde_json::from_slice(&joined.stdout).unwrap();
    assert_eq!(report["left"][0]["path"], world.at("b/empty").to_str().unwrap());
    let status = braid().args(["union", "status"]).arg(world.at("meta")).output().unwrap();
    assert!(text(&status).contains("is joining the cluster"), "{}", text(&status));
    let add = braid().args(["union", "add"]).args([world.at("meta"), world.at("c")]).output();
    assert!(text(&add.unwrap()).contains("is joining the cluster"));
    let elsewhere = text(&world.join(&["--to", "/other"]));
    assert!(elsewhere.contains("--to /media"), "{elsewhere}");
    assert_eq!(fs::read(world.at("b/empty")).unwrap(), b"hidden");
    fs::rename(world.at("b/empty"), world.at("b/late")).unwrap();
    let joined = world.join(&["--to", "/media"]);
    assert!(joined.status.success(), "{}", text(&joined));
    assert_eq!(world.cluster.ok(&["cat", "/media/late"]), "hidden");
    expect_clean(&world);
}

#[test]
fn a_target_with_files_and_a_daemon_that_is_down_are_refused() {
    let mut world = World::new();
    fs::write(world.at("a/f"), "bytes").unwrap();
    world.add_daemons();
    world.cluster.ok(&["mkdir", "/taken"]);
    let refused = text(&world.join(&[]));
    assert!(refused.contains("not an empty directory"), "{refused}");
    assert!(world.cluster.run(&["rm", "-r", "/taken"]).status.success());
    world.cluster.iods.pop();
    let refused = loop {
        let output = world.join(&["--dry-run"]);
        if !output.status.success() {
            break text(&output);
        }
    };
    assert!(refused.contains("is not up"), "{refused}");
    assert_eq!(fs::read(world.at("a/f")).unwrap(), b"bytes");
}

#[test]
fn a_join_that_is_killed_several_times_ends_with_the_whole_tree() {
    let mut world = World::new();
    make_tree(&world);
    for directory in 0..6 {
        fs::create_dir(world.at(&format!("a/many{directory}"))).unwrap();
        for file in 0..200 {
            let bytes = format!("{directory}.{file}");
            fs::write(world.at(&format!("a/many{directory}/{file}")), bytes).unwrap();
        }
    }
    world.add_daemons();
    let before = tree_on_disks(&world);
    let meta = world.at("meta");
    for directory in 0..6 {
        let mut command = braid();
        command.args(["--json", "--config", &world.cluster.config, "union", "join"]).arg(&meta);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Killed when it has removed the first name of this directory, if not before.
        let first = world.at(&format!("a/many{directory}/0"));
        while first.exists() && child.try_wait().unwrap().is_none() {}
        let _ = child.kill();
        child.wait().unwrap();
    }
    let joined = world.join(&[]);
    assert!(joined.status.success(), "{}", text(&joined));
    let after = tree_of_cluster(&world.client(), "");
    assert_eq!(before.len(), after.len());
    for (path, seen) in &before {
        // The times and modes of directories are those before the first run.
        assert_eq!(after[path], *seen, "{path}");
    }
    expect_clean(&world);
}
