//! Measurements of a daemon's disk: which callers may ask for one, and how large it may be.

use std::time::Duration;

use braid_types::{ByteCount, SessionId, Status};
use braid_wire::{
    Credential, Role,
    message::iod::{DiskSpace, MeasureDisk},
};

use super::harness::*;

const LOAD: MeasureDisk = MeasureDisk { bytes: ByteCount(1 << 20), part_ms: 1, threads: 2 };

#[test]
fn the_holder_of_a_client_key_and_nobody_else_may_ask_a_bounded_amount() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let (many, few) = (ByteCount((256 << 20) + 1), ByteCount((1 << 20) - 1));
    for wrong in [
        MeasureDisk { bytes: many, ..LOAD },
        MeasureDisk { bytes: few, ..LOAD },
        MeasureDisk { part_ms: 0, ..LOAD },
        MeasureDisk { part_ms: 2001, ..LOAD },
        MeasureDisk { threads: 0, ..LOAD },
        MeasureDisk { threads: 65, ..LOAD },
    ] {
        assert_eq!(refusal(client.call(&wrong)), Status::Invalid, "{wrong:?}");
    }
    assert_eq!(refusal(client.call(&LOAD)), Status::Unsupported, "a store in memory has no disk");
    let mut user = Client::of_user(&core, 1000, SessionId(6));
    assert_eq!(refusal(user.call(&LOAD)), Status::NotPermitted, "a user with a ticket");
    for role in [Role::Iod, Role::Mds, Role::Admin] {
        assert_eq!(
            refusal(Client::new(&core, role, Credential::Server).call(&LOAD)),
            Status::WrongRole,
            "{role:?}"
        );
    }
}

#[test]
fn a_disk_is_not_measured_all_the_time() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    assert_eq!(refusal(client.call(&MeasureDisk { part_ms: 200, ..LOAD })), Status::Unsupported);
    let mut other = Client::of_session(&core, SessionId(6));
    for (after_ms, status) in [(0, Status::Busy), (1499, Status::Busy), (1500, Status::Unsupported)]
    {
        other.now = NOW + Duration::from_millis(after_ms);
        assert_eq!(refusal(other.call(&LOAD)), status, "{after_ms} ms after one of a second began");
    }
}

#[test]
fn its_file_is_at_most_a_tenth_of_what_is_free() {
    let core = daemon(1);
    core.store().limit_space(100 << 20);
    let free = Client::mds(&core).call(&DiskSpace {}).unwrap().available.0;
    let mut client = Client::of_session(&core, SESSION);
    let (fits, over) = (ByteCount(free / 10), ByteCount(free / 10 + 1));
    assert!((LOAD.bytes.0..256 << 20).contains(&over.0), "{free} free bytes show nothing");
    assert_eq!(refusal(client.call(&MeasureDisk { bytes: over, ..LOAD })), Status::NoSpace);
    assert_eq!(refusal(client.call(&MeasureDisk { bytes: fits, ..LOAD })), Status::Unsupported);
}
