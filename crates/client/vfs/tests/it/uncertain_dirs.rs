//! A change that a mount has given up and that the server makes later is seen by the mount,
//! although it recalls nothing from it.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::support::{Cluster, ROOT, Stuck, USER, new_file};
use braid_client::Config;
use braid_vfs::{FileIndex, LookupResult, Vfs};

/// The names that a mount lists, and whether any of them is cacheable.
fn listed(vfs: &Vfs, directory: FileIndex) -> (Vec<Vec<u8>>, bool) {
    let handle = vfs.open_directory(directory).unwrap();
    let batch = vfs.read_directory(handle, 0, 100, true).unwrap();
    // As programs that want only names: this listing may be cached.
    let plain = vfs.read_directory(handle, 0, 100, false).unwrap();
    vfs.release_directory(handle).unwrap();
    let names = |entries: &[braid_vfs::DirectoryEntry]| -> Vec<Vec<u8>> {
        entries.iter().map(|entry| entry.name.clone()).collect()
    };
    assert_eq!(names(&batch.entries), names(&plain.entries));
    (
        names(&plain.entries),
        batch.cacheable.iter().any(|cacheable| cacheable.name || cacheable.attributes),
    )
}

fn is_there(vfs: &Vfs, directory: FileIndex, name: &[u8]) -> bool {
    matches!(vfs.look_up(directory, name).unwrap(), LookupResult::Found(_))
}

/// Lets `change` of a name in its own directory fail while another client delays it. Whether the
/// server made the change afterwards.
fn is_created_late(
    cluster: &Cluster,
    vfs: &Vfs,
    (name, is_made): (&str, bool),
    change: impl FnOnce(&Vfs, FileIndex) -> bool,
) -> bool {
    let directory =
        vfs.make_directory(USER, ROOT, name.as_bytes(), 0o777, 0).unwrap().attributes.file;
    if !is_made {
        let (opened, _) = vfs.create(USER, directory, b"f", &new_file(0o666)).unwrap();
        vfs.release(opened.handle, None).unwrap();
    }
    assert_eq!(listed(vfs, directory).0.len(), usize::from(!is_made));
    let stuck = cluster.client();
    let (_holder, let_go) = Stuck::serve(&stuck);
    stuck.leases().ask_names(directory).unwrap().expect("there is no conflict");
    if change(vfs, directory) {
        return false;
    }
    let before = (listed(vfs, directory), is_there(vfs, directory, b"f"));
    drop(let_go);
    let (began, plain) = (Instant::now(), cluster.client());
    // No call waits for it any more after that.
    while plain.lstat(&*format!("/{name}/f")).is_ok() != is_made {
        if began.elapsed() > Duration::from_secs(15) {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(listed(vfs, directory).0.len(), usize::from(is_made), "before: {before:?}");
    assert_eq!(is_there(vfs, directory, b"f"), is_made, "before: {before:?}");
    assert!(!before.0.1, "names were cacheable");
    assert!(
        !vfs.reply_cacheable(&vfs.lease_for_renamed(directory), |cacheable| cacheable.name),
        "a name that is moved here would be cacheable"
    );
    true
}

#[test]
fn a_change_made_after_it_was_given_up_is_seen_by_its_own_mount() {
    let cluster = Cluster::start(1);
    let vfs =
        cluster.serving_mount_of(Config { timeout: Duration::from_secs(6), ..cluster.config() });
    let removes = |vfs: &Vfs, directory| vfs.unlink(directory, b"f").is_ok();
    let makes = |vfs: &Vfs, directory| vfs.create(USER, directory, b"f", &new_file(0o666)).is_ok();
    // On a machine that stalls at the wrong moment the test shows nothing.
    assert!((0..10).any(|round| is_created_late(
        &cluster,
        &vfs,
        (&format!("removed{round}"), false),
        removes
    )));
    assert!((0..10).any(|round| is_created_late(
        &cluster,
        &vfs,
        (&format!("made{round}"), true),
        makes
    )));
}
