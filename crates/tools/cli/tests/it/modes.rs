//! Open modes on a real cluster: what the open of one client denies to another.
#![cfg(unix)]

use crate::harness::Cluster;
use braid_client::{Client, Deny, File, OpenOptions, Rights, Status};

fn reading() -> OpenOptions {
    OpenOptions::new().read(true)
}

fn writing() -> OpenOptions {
    OpenOptions::new().write(true)
}

/// A cluster, two clients, and the file `/f` that the first has written and closed.
fn scene() -> (Cluster, Client, Client) {
    let cluster = Cluster::up(2);
    let (one, two) = (cluster.client(), cluster.client());
    let file = one.open("/f", &writing().create(true)).unwrap();
    file.write_at(b"what it was", 0).unwrap();
    file.close().unwrap();
    (cluster, one, two)
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let got = file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(got);
    bytes
}

fn refused<T: std::fmt::Debug>(outcome: Result<T, braid_client::Error>) -> String {
    let error = outcome.unwrap_err();
    assert_eq!(error.status(), Status::SharingViolation, "{error}");
    error.to_string()
}

#[test]
fn what_one_client_denies_another_does_not_get_until_it_closes() {
    let (_cluster, one, two) = scene();
    // Its own open for writing, whose close is still pending here, is no conflict.
    let held = one.open("/f", &reading().deny(Deny::WRITE | Deny::DELETE)).unwrap();
    let why = refused(two.open("/f", &writing()));
    assert!(
        why.starts_with("open /f: another open of the file excludes it: session ")
            && why.contains("; try: "),
        "{why}"
    );
    refused(two.open("/f", &writing().truncate(true)));
    refused(two.truncate("/f", 1));
    refused(two.unlink("/f"));
    let reads = two.open("/f", &reading()).unwrap();
    assert_eq!(content(&reads), b"what it was");
    held.close().unwrap();
    // Immediately: a close that ends a denial is not delayed.
    two.open("/f", &writing()).unwrap().write_at(b"W", 0).unwrap();
    refused(one.open("/f", &reading().deny(Deny::READ)));
    drop(reads);
    two.flush_closes().unwrap();
    one.open("/f", &reading().deny(Deny::ALL)).unwrap();
    refused(two.open("/f", &reading()));
    two.unlink("/f").unwrap_err();
}

#[test]
fn what_a_client_has_dropped_without_closing_is_not_in_its_own_way() {
    let (_cluster, one, _two) = scene();
    drop(one.open("/f", &reading().deny(Deny::ALL)).unwrap());
    drop(one.open("/f", &writing()).unwrap());
    drop(one.open("/f", &writing().read(true).deny(Deny::ALL)).unwrap());
}

#[test]
fn modes_are_changed_while_the_file_is_open() {
    let (_cluster, one, two) = scene();
    let file = one.open("/f", &reading()).unwrap();
    let other = two.open("/f", &reading()).unwrap();
    refused(file.set_modes(Rights::READ_WRITE, Deny::ALL));
    assert_eq!(
        file.write_at(b"W", 0).unwrap_err().status(),
        Status::NotPermitted,
        "nothing has changed"
    );
    file.set_modes(Rights::READ_WRITE, Deny::WRITE).unwrap();
    file.write_at(b"What it is now", 0).unwrap();
    refused(two.open("/f", &writing()));
    refused(other.set_modes(Rights::READ_WRITE, Deny::NONE));
    file.set_modes(Rights::READ, Deny::NONE).unwrap();
    assert_eq!(file.write_at(b"W", 0).unwrap_err().status(), Status::NotPermitted);
    other.set_modes(Rights::READ_WRITE, Deny::NONE).unwrap();
    assert_eq!(other.size().unwrap(), 14);
    other.write_at(b"w", 0).unwrap();
    assert_eq!(content(&file), b"what it is now");
}

#[test]
fn after_a_restart_of_the_metadata_server_the_same_is_denied() {
    let (cluster, one, two) = scene();
    let held = one.open("/f", &reading().deny(Deny::WRITE)).unwrap();
    let changed = one.open("/g", &writing().read(true).create(true).deny(Deny::ALL)).unwrap();
    changed.set_modes(Rights::READ, Deny::READ).unwrap();
    cluster.restart_after(|| {});
    refused(two.open("/f", &writing()));
    refused(two.open("/g", &reading()));
    two.open("/g", &writing()).unwrap().write_at(b"g", 0).unwrap();
    assert_eq!(content(&held), b"what it was");
    held.close().unwrap();
    two.open("/f", &writing()).unwrap().write_at(b"W", 0).unwrap();
    // A denial from before the restart holds after it: the client has reclaimed it.
    refused(two.open("/g", &reading()));
    changed.close().unwrap();
    two.open("/g", &reading()).unwrap();
}
