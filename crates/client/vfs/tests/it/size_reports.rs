//! A file's sole writer reports its size, so no I/O daemon is asked for it (ADR 0020).

use crate::support::{self, Cluster, create};
use braid_client::{AttributeChanges, Attributes, SetTime};
use braid_vfs::{Access, FileIndex, Vfs, WriteAs};

const FILES: u64 = 300;

fn attributes(vfs: &Vfs, file: FileIndex) -> Attributes {
    vfs.attributes(file, None).unwrap().attributes
}

fn now() -> AttributeChanges {
    AttributeChanges { mtime: Some(SetTime { time: None }), ..AttributeChanges::none() }
}

fn chmod() -> AttributeChanges {
    AttributeChanges { mode: Some(0o600), ..AttributeChanges::none() }
}

/// Creates files of 100 bytes as programs do, with `changes` of their attributes before the close.
/// Returns how many calls the daemons got, and the attributes of each file after its close.
fn make(cluster: &Cluster, vfs: &Vfs, changes: &AttributeChanges) -> (u64, Vec<Attributes>) {
    let (_, before) = cluster.written();
    let made = (0..FILES).map(|number| {
        let (file, handle) = create(vfs, format!("f{number}").as_bytes());
        vfs.write(handle, 0, &[7; 100], WriteAs::default()).unwrap();
        vfs.set_attributes(file, Some(handle), changes.clone(), false).unwrap();
        vfs.release(handle, None).unwrap();
        attributes(vfs, file)
    });
    let made = made.collect();
    (cluster.written().1 - before, made)
}

#[test]
fn creating_writing_and_stating_a_file_costs_one_daemon_call() {
    for changes in [chmod(), now()] {
        let cluster = Cluster::start(4);
        let vfs = cluster.serving_mount();
        let (calls, made) = make(&cluster, &vfs, &changes);
        // One call to write each. A question for the size would be a call to each of four daemons.
        assert!(calls < 2 * FILES, "{calls} calls of I/O daemons for {FILES} files");
        assert!(made.iter().all(|one| one.bytes.0 == 100 && !one.uncacheable));
    }
}

#[test]
fn an_open_before_the_close_is_sent_carries_the_size_report() {
    let cluster = Cluster::start(4);
    let vfs = cluster.serving_mount();
    let (_, before) = cluster.written();
    for number in 0..FILES {
        let (file, handle) = create(&vfs, format!("f{number}").as_bytes());
        vfs.write(handle, 0, &[7; 100], WriteAs::default()).unwrap();
        vfs.release(handle, None).unwrap();
        let again = vfs.open(file, Access::READ).unwrap();
        assert_eq!(again.known.attributes.bytes.0, 100);
        vfs.release(again.handle, None).unwrap();
    }
    let calls = cluster.written().1 - before;
    assert!(calls < 2 * FILES, "{calls} calls of I/O daemons for {FILES} files");
}

#[test]
fn what_the_maker_is_told_all_others_are() {
    let cluster = Cluster::start(4);
    let (creator, other) = (cluster.serving_mount(), cluster.mount());
    let (_, made) = make(&cluster, &creator, &chmod());
    let of_others = |one: &Attributes| {
        let Attributes { bytes, bytes_used, mtime, ctime, .. } = attributes(&other, one.file);
        (bytes, bytes_used, mtime, ctime)
    };
    let as_told = |one: &Attributes| (one.bytes, one.bytes_used, one.mtime, one.ctime);
    assert_eq!(
        made.iter().map(of_others).collect::<Vec<_>>(),
        made.iter().map(as_told).collect::<Vec<_>>()
    );
}

#[test]
fn touched_files_cost_the_daemons_no_size_query() {
    let cluster = Cluster::start(4);
    let (vfs, other) = (cluster.serving_mount(), cluster.mount());
    let (_, made) = make(&cluster, &vfs, &chmod());
    support::wait_for(|| cluster.sizes_in_objects() == 0);
    let (_, before) = cluster.written();
    let touch = |one: &Attributes| {
        let handle = vfs.open(one.file, Access::WRITE).unwrap().handle;
        let touched = vfs.set_attributes(one.file, Some(handle), now(), false).unwrap().attributes;
        vfs.release(handle, None).unwrap();
        assert_eq!(touched.bytes, one.bytes);
        assert!(touched.mtime >= one.mtime);
        touched
    };
    let touched: Vec<Attributes> = made.iter().map(touch).collect();
    let calls = cluster.written().1 - before;
    // A question for the size would be a call to each of four daemons.
    assert!(calls < 2 * FILES, "{calls} calls of I/O daemons for {FILES} files");
    for one in &touched {
        let seen = attributes(&other, one.file);
        assert_eq!((seen.bytes, seen.mtime), (one.bytes, one.mtime));
    }
}
