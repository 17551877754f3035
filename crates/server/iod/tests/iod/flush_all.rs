//! Flushes of the whole store, for a client that may have closed what it wrote (I6).

use braid_store::{DiskOp, Fault};
use braid_types::{FileIndex, SessionId, Status};
use braid_wire::{
    Capability, Credential, Role,
    message::iod::{Flush, FlushAll},
};

use super::harness::*;

const FILES: u64 = 32;
const BYTES: usize = 3 * STRIPE as usize;

fn file(number: u64) -> Capability {
    Capability { file: FileIndex(FILE.0 + number), ..capability(striped([1])) }
}

/// How many files, written and never flushed one by one, are complete after a loss of power.
fn whole_after(flush: bool) -> u64 {
    let core = daemon(1);
    for number in 0..FILES {
        // One connection each: none of them is open any more at the flush.
        let mut client = Client::of_session(&core, SESSION);
        client.write(&file(number), contiguous(0, BYTES as u64), &pattern(BYTES, number)).unwrap();
    }
    if flush {
        Client::of_session(&core, SESSION).call(&FlushAll {}).unwrap();
    }
    core.store().crash();
    let is_whole = |number: &u64| {
        let found =
            Client::of_session(&core, SESSION).read(&file(*number), contiguous(0, BYTES as u64));
        found.is_ok_and(|found| found.payload == pattern(BYTES, *number))
    };
    (0..FILES).filter(is_whole).count() as u64
}

#[test]
fn only_a_flush_of_everything_makes_closed_files_survive_a_power_loss() {
    assert_eq!(whole_after(true), FILES);
    assert!(whole_after(false) < FILES, "the loss of power takes nothing: the test shows nothing");
}

#[test]
fn it_tells_the_verifier_which_another_one_after_a_loss_is() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let wrote = client.write(&file(0), contiguous(0, 10), &[1; 10]).unwrap();
    assert_eq!(client.call(&FlushAll {}).unwrap().verifier, wrote.verifier);
    core.store().restart();
    assert_eq!(
        Client::of_session(&core, SESSION).call(&FlushAll {}).unwrap().verifier,
        wrote.verifier,
        "only killed"
    );
    core.store().crash();
    assert_ne!(
        Client::of_session(&core, SESSION).call(&FlushAll {}).unwrap().verifier,
        wrote.verifier
    );
}

#[test]
fn a_failing_disk_is_reported_and_the_next_flush_has_another_verifier() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let wrote = client.write(&file(0), contiguous(0, 10), &[1; 10]).unwrap();
    core.store().faults().fail_nth(DiskOp::Sync, 1, Fault::Eio);
    assert_eq!(refusal(client.call(&FlushAll {})), Status::DiskError);
    assert_ne!(client.call(&FlushAll {}).unwrap().verifier, wrote.verifier);
}

#[test]
fn any_client_may_ask_and_after_it_a_flush_of_one_file_costs_no_disk() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let (handle, present) = client.present(&file(0));
    client.write(&file(0), contiguous(0, 10), &[1; 10]).unwrap();
    Client::of_session(&core, SessionId(99)).call(&FlushAll {}).unwrap();
    core.store().faults().fail_nth(DiskOp::Sync, 1, Fault::Eio);
    client.call(&Flush { handle, present }).unwrap();
    Client::mds(&core).call(&FlushAll {}).unwrap_err();
    let stranger = Client::new(&core, Role::Iod, Credential::Server).call(&FlushAll {});
    assert_eq!(refusal(stranger), Status::WrongRole);
}
