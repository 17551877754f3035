//! A disk that fails, and a daemon that lives on.

use braid_store::{DiskOp, Fault};
use braid_types::Status;

use super::harness::*;

#[test]
fn a_full_disk_is_told_to_the_writer_and_the_daemon_lives_on() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 3), b"abc").unwrap();
    core.store().faults().fail_always(DiskOp::Write, Fault::NoSpace);
    let failure = client.write(&capability, contiguous(3, 1 << 20), &pattern(1 << 20, 1)).unwrap_err();
    assert_eq!(failure.status, Status::NoSpace);
    assert!(!failure.detail.is_empty(), "it says where");
    assert_eq!(client.read(&capability, contiguous(0, 3)).unwrap().payload, b"abc");
    core.store().faults().clear();
    client.write(&capability, contiguous(0, 3), b"xyz").unwrap();
}

#[test]
fn a_read_error_half_way_is_an_error_and_not_a_dead_connection() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 1 << 20), &pattern(1 << 20, 1)).unwrap();
    core.store().faults().fail_nth(DiskOp::Read, 3, Fault::Eio);
    assert_eq!(refusal(client.read(&capability, contiguous(0, 1 << 20))), Status::DiskError);
    assert_eq!(client.read(&capability, contiguous(0, 1 << 20)).unwrap().payload, pattern(1 << 20, 1));
}

#[test]
fn a_read_error_in_the_final_frame_is_not_reported_as_success() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 100), &[1; 100]).unwrap();
    core.store().faults().fail_nth(DiskOp::Read, 1, Fault::Eio);
    assert_eq!(refusal(client.read(&capability, contiguous(0, 100))), Status::DiskError);
}

#[test]
fn a_read_only_disk_still_reads() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 3), b"abc").unwrap();
    core.store().faults().fail_always(DiskOp::Write, Fault::ReadOnly);
    assert_eq!(refusal(client.write(&capability, contiguous(0, 1), b"x")), Status::ReadOnly);
    assert_eq!(client.read(&capability, contiguous(0, 3)).unwrap().payload, b"abc");
}
