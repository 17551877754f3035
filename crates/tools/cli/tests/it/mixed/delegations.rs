//! Delegations of an NFS client against calls on a mount.

use std::{
    fs::{self, OpenOptions, Permissions},
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt},
    path::Path,
    time::SystemTime,
};

use braid_nfs_wire::nfs4::{NfsStatus, StateId, callback::CallbackArgOp};
use braid_testbed::{
    nfs::{NfsCallbacks, NfsFile},
    wait::wait_for,
};

use super::{Mixed, Nfs, open_both, refused, waits_for};

const OLD: &[u8] = b"as it was before";
const NEW: &[u8] = b"what the client has cached for longer";

/// An NFS client with its callbacks.
struct Holder {
    nfs: Nfs,
    callbacks: NfsCallbacks,
}

/// A file that an NFS client has delegated. Its open is closed.
struct Delegated {
    file: NfsFile,
    id: StateId,
}

impl Holder {
    fn new(nfs: Nfs) -> Self {
        let callbacks = NfsCallbacks::of(&nfs.mount).unwrap();
        Self { nfs, callbacks }
    }

    /// Creates a file that the mount has cached, and gets a delegation for it.
    fn delegated(&mut self, path: &Path, write: bool) -> Delegated {
        let name = path.file_name().unwrap().to_str().unwrap();
        self.nfs.create(name, OLD);
        assert_eq!(fs::read(path).unwrap(), OLD);
        let mut delegated = None;
        // The mount reports its close a moment after it.
        wait_for("a delegation", || {
            let opened = self.nfs.mount.open_delegated(&self.nfs.dir, name, write).unwrap();
            self.nfs.mount.close(&opened.0).unwrap();
            delegated = opened.1.map(|id| (opened.0, id));
            delegated.is_some()
        });
        let (file, id) = delegated.expect("waited for");
        Delegated { file: NfsFile { open: id, ..file }, id }
    }

    /// Waits for the recall of a delegation.
    fn is_recalled(&self, delegated: &Delegated) {
        let CallbackArgOp::Recall(recall) = self.callbacks.next().unwrap() else {
            panic!("another callback");
        };
        assert_eq!((recall.state_id, &recall.handle), (delegated.id, &delegated.file.handle));
    }

    fn gives_back(&mut self, delegated: &Delegated) {
        self.nfs.mount.return_delegation(&delegated.file, delegated.id).unwrap();
    }
}

/// Calls on a mount, of a file with a delegation.
type Calls = [(&'static str, fn(&Path))];

/// Those that any delegation excludes.
const CHANGES: &Calls = &[
    ("write", |path| open_both(path).write_all_at(b"AS", 0).unwrap()),
    ("truncate", |path| open_both(path).set_len(5).unwrap()),
    ("truncating_open", |path| drop(fs::File::create(path).unwrap())),
    ("chmod", |path| fs::set_permissions(path, Permissions::from_mode(0o640)).unwrap()),
    ("utimens", |path| open_both(path).set_modified(SystemTime::UNIX_EPOCH).unwrap()),
    ("rename", |path| fs::rename(path, path.with_extension("new")).unwrap()),
    ("link", |path| fs::hard_link(path, path.with_extension("new")).unwrap()),
    ("unlink", |path| fs::remove_file(path).unwrap()),
    ("replacement", |path| {
        fs::write(path.with_extension("other"), "other").unwrap();
        fs::rename(path.with_extension("other"), path).unwrap();
    }),
];

/// Those that only a delegation to write excludes.
const LOOKS: &Calls = &[
    ("stat", |path| assert_eq!(fs::metadata(path).unwrap().len(), NEW.len() as u64)),
    ("read", |path| assert_eq!(fs::read(path).unwrap(), NEW)),
];

/// What the file of each call has become, where that has another name or content.
fn outcome(call: &str, path: &Path, content: &[u8]) -> Option<(std::path::PathBuf, Vec<u8>)> {
    let here = |content: &[u8]| Some((path.to_owned(), content.to_owned()));
    match call {
        "write" => here(&[b"AS", &content[2..]].concat()),
        "truncate" => here(&content[..5]),
        "truncating_open" => here(b""),
        "rename" => Some((path.with_extension("new"), content.to_owned())),
        "unlink" => None,
        "replacement" => here(b"other"),
        _ => here(content),
    }
}

#[track_caller]
fn check(call: &str, path: &Path, nfs: &mut Nfs, content: &[u8]) {
    let Some((path, content)) = outcome(call, path, content) else {
        return assert!(fs::metadata(path).is_err(), "{call}");
    };
    assert_eq!(fs::read(&path).unwrap(), content, "{call}, on the mount");
    assert_eq!(fs::metadata(&path).unwrap().len(), content.len() as u64, "{call}");
    let name = path.file_name().unwrap().to_str().unwrap();
    assert_eq!(nfs.read(name), content, "{call}, by NFS");
}

#[test]
fn calls_on_a_mount_wait_until_a_write_delegation_is_returned() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, nfs) = mixed.dir("write-delegation");
    let mut other = mixed.nfs("write-delegation", "other");
    let mut holder = Holder::new(nfs);
    for (name, call) in CHANGES.iter().chain(LOOKS) {
        let path = dir.join(name);
        let delegated = holder.delegated(&path, true);
        waits_for(
            name,
            || call(&path),
            |last_step| {
                holder.is_recalled(&delegated);
                // What the client has cached is written under the delegation.
                holder.nfs.write(&delegated.file, 0, NEW);
                last_step();
                holder.gives_back(&delegated);
            },
        );
        check(name, &path, &mut other, NEW);
        let late = holder.nfs.mount.read(&delegated.file, 0, 1);
        assert_eq!(refused(late), Some(NfsStatus::BadStateId), "{name}");
    }
    assert_eq!(fs::metadata(dir.join("chmod")).unwrap().mode() & 0o777, 0o640);
}

#[test]
fn calls_on_a_mount_wait_until_a_read_delegation_is_returned() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, nfs) = mixed.dir("read-delegation");
    let mut other = mixed.nfs("read-delegation", "other");
    let mut holder = Holder::new(nfs);
    for (name, call) in CHANGES {
        let path = dir.join(name);
        let delegated = holder.delegated(&path, false);
        // Reads go on beside it.
        assert_eq!(fs::read(&path).unwrap(), OLD, "{name}");
        assert_eq!(fs::metadata(&path).unwrap().len(), OLD.len() as u64, "{name}");
        assert!(holder.callbacks.received().is_none(), "a read recalled it: {name}");
        assert_eq!(holder.nfs.content(&delegated.file), OLD, "{name}");
        waits_for(
            name,
            || call(&path),
            |last_step| {
                holder.is_recalled(&delegated);
                last_step();
                holder.gives_back(&delegated);
            },
        );
        check(name, &path, &mut other, OLD);
    }
}

#[test]
fn a_file_that_a_mount_has_open_to_write_gets_no_delegation() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("no-delegation");
    let _callbacks = NfsCallbacks::of(&nfs.mount).unwrap();
    nfs.create("f", OLD);
    let open = open_both(&dir.join("f"));
    open.write_all_at(b"AS", 0).unwrap();
    for write in [false, true] {
        let (file, delegation) = nfs.mount.open_delegated(&nfs.dir, "f", write).unwrap();
        assert_eq!(delegation, None, "to write: {write}");
        nfs.mount.close(&file).unwrap();
    }
    let open_to_read = OpenOptions::new().read(true).open(dir.join("f")).unwrap();
    drop(open);
    // A mount may report the close later. It still has the file open to read.
    wait_for("a read delegation", || {
        let (file, delegation) = nfs.mount.open_delegated(&nfs.dir, "f", false).unwrap();
        nfs.mount.close(&file).unwrap();
        delegation.is_some()
    });
    drop(open_to_read);
}
