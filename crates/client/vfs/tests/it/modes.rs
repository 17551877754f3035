//! Opens that deny modes, and mounts, which deny nothing: also their lazy opens.

use std::thread;

use crate::support::{self, Cluster, ROOT, Stuck, create};
use braid_client::{Client, Deny, OpenOptions, Rights, Status};
use braid_vfs::{Access, FileIndex, LookupResult, OpenAs, Opened, Vfs, WriteAs};

fn open(vfs: &Vfs, file: FileIndex, access: Access) -> braid_vfs::Result<Opened> {
    vfs.open(file, OpenAs::from(access))
}

fn denying(
    client: &Client,
    file: FileIndex,
    deny: Deny,
) -> braid_client::Result<braid_client::File> {
    client.open(file, &OpenOptions::new().read(true).deny(deny))
}

fn excluded(opened: braid_vfs::Result<Opened>) {
    let refused = opened.unwrap_err();
    assert_eq!(refused.status(), Some(Status::SharingViolation), "{refused}");
}

fn violates<T>(outcome: Result<T, braid_client::Error>) -> bool {
    matches!(outcome, Err(error) if error.status() == Status::SharingViolation)
}

/// A file that its writer has closed, and whether the mount opens it lazily now.
fn known(cluster: &Cluster, creator: &Vfs, reader: &Vfs) -> FileIndex {
    let (file, handle) = create(creator, b"f");
    creator.write(handle, 0, b"what it was", WriteAs::default()).unwrap();
    creator.release(handle, None).unwrap();
    opens_without_a_word(cluster, reader, file);
    file
}

fn opens_without_a_word(cluster: &Cluster, reader: &Vfs, file: FileIndex) {
    support::wait_for(|| {
        let opened = open(reader, file, Access::READ).unwrap();
        reader.release(opened.handle, None).unwrap();
        let LookupResult::Found(found) = reader.look_up(ROOT, b"f").unwrap() else {
            panic!("it is there")
        };
        opened.may_cache_pages
            && reader.reply_cacheable(&found.leases, |cacheable| cacheable.attributes)
    });
    let before = cluster.calls();
    for _ in 0..500 {
        let opened = open(reader, file, Access::READ).unwrap();
        reader.release(opened.handle, None).unwrap();
    }
    assert!(cluster.calls() - before < 100, "{} calls", cluster.calls() - before);
}

#[test]
fn a_lazy_open_conflicts_with_an_open_that_denies_reading() {
    let cluster = Cluster::start(1);
    let (one, two) = (cluster.serving_mount(), cluster.serving_mount());
    let client = cluster.client();
    let file = known(&cluster, &one, &two);
    let opened = open(&two, file, Access::READ).unwrap();
    assert!(violates(denying(&client, file, Deny::READ)));
    two.release(opened.handle, None).unwrap();
    // The close is sent within about a second.
    let mut held = None;
    support::wait_for(|| {
        held = denying(&client, file, Deny::READ).ok();
        held.is_some()
    });
    for _ in 0..3 {
        // Each lookup may ask for the names lease again, and cache the reply.
        let LookupResult::Found(found) = two.look_up(ROOT, b"f").unwrap() else {
            panic!("it is there")
        };
        assert!(
            !two.reply_cacheable(&found.leases, |cacheable| cacheable.attributes),
            "with cached attributes it would be opened lazily"
        );
        excluded(open(&two, file, Access::READ));
    }
    held.unwrap().close().unwrap();
    opens_without_a_word(&cluster, &two, file);
}

#[test]
fn a_mount_writes_and_truncates_nothing_while_writing_is_denied() {
    let cluster = Cluster::start(1);
    let (mount, client) = (cluster.serving_mount(), cluster.client());
    let (file, handle) = create(&mount, b"f");
    mount.write(handle, 0, b"what it was", WriteAs::default()).unwrap();
    assert!(violates(denying(&client, file, Deny::WRITE)), "it has it open");
    mount.release(handle, None).unwrap();
    let mut held = None;
    support::wait_for(|| {
        held = denying(&client, file, Deny::WRITE).ok();
        held.is_some()
    });
    let cut = OpenAs { truncate: true, ..OpenAs::from(Access::WRITE) };
    excluded(mount.open(file, cut));
    excluded(mount.open(file, OpenAs { access: Access::READ, ..cut }));
    excluded(open(&mount, file, Access::WRITE));
    let reads = open(&mount, file, Access::READ).unwrap();
    assert_eq!(support::read(&mount, reads.handle, 0, 64), b"what it was");
    held.unwrap().close().unwrap();
    open(&mount, file, Access::WRITE).unwrap();
}

#[test]
fn a_denial_of_an_unresponsive_client_ends_with_its_fence() {
    let cluster = Cluster::start(1);
    let (stuck, client) = (cluster.client(), cluster.client());
    let (_holder, let_go) = Stuck::serve(&stuck);
    let options = OpenOptions::new().write(true).create(true).deny(Deny::ALL);
    let denies = stuck.open("/f", &options).unwrap();
    denies.write_at(b"what it was", 0).unwrap();
    stuck.leases().ask_names(FileIndex::ROOT).unwrap().expect("there is no conflict");
    let reads = OpenOptions::new().read(true);
    assert!(violates(client.open("/f", &reads)));
    // It recalls the names lease. A client that does not return it is fenced.
    let wants = thread::spawn({
        let client = cluster.client();
        move || client.mkdir("/d", 0o755).map(drop)
    });
    wants.join().unwrap().unwrap();
    let mut opened = None;
    support::wait_for(|| {
        opened = client.open("/f", &reads).ok();
        opened.is_some()
    });
    // Either the daemons or the metadata server report it first.
    let gone =
        |error: braid_client::Error| matches!(error.status(), Status::Fenced | Status::StaleHandle);
    assert!(gone(denies.write_at(b"W", 0).unwrap_err()));
    assert!(gone(denies.set_modes(Rights::WRITE, Deny::ALL).unwrap_err()));
    let mut bytes = [0; 11];
    assert_eq!(opened.unwrap().read_at(&mut bytes, 0).unwrap(), 11);
    assert_eq!(&bytes, b"what it was");
    drop(let_go);
}
