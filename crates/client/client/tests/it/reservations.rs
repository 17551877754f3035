//! Reservations for buffered bytes, on an in-memory cluster: what is requested, when, and what is
//! released.

use std::{io::IoSlice, time::Duration};

use crate::fake::{Fake, Fault};
use braid_client::{
    Config, Credential, OpenOptions, PathRef, Reservation, Status,
    asynchronous::{Client, File},
    engine::{Engine, FileView},
};
use braid_net::block_on;
use braid_types::{IodId, SessionId};
use braid_wire::{
    Call,
    message::{iod, mds},
};

const MIB: u64 = 1 << 20;
const ALL: [IodId; 3] = [IodId(1), IodId(2), IodId(3)];

/// A cluster of three daemons that reserve this much for each session, and an open file.
fn opened(reservation: u64) -> (Fake, Client<Fake>, File<Fake>) {
    let fake = Fake::striped();
    fake.cluster().reservation_bytes_max = reservation;
    let client = fake.client();
    let file = open(&client, "/f");
    (fake, client, file)
}

fn open(client: &Client<Fake>, path: &str) -> File<Fake> {
    let options = OpenOptions::new().read(true).write(true).create(true);
    block_on(client.open(path, &options)).unwrap()
}

/// The same, after the first writes have brought reservations.
fn with_space(reservation: u64) -> (Fake, Client<Fake>, File<Fake>) {
    let (fake, client, file) = opened(reservation);
    assert!(
        !file.reserve_space(0, 1, &mut Reservation::default()),
        "nothing is there before it is asked for"
    );
    // Each of the three daemons lacks space in its turn.
    for _ in ALL {
        block_on(file.write_at(&[0; 3 * 4096], 0)).unwrap();
        file.reserve_space(0, 1, &mut Reservation::default());
    }
    (fake, client, file)
}

/// What the daemons have reserved: granted less released, in the order of their ids.
fn reserved(fake: &Fake) -> Vec<u64> {
    let cluster = fake.cluster();
    let of = |iod| {
        cluster
            .reservations
            .iter()
            .find(|((at, _), _)| *at == iod)
            .map_or(0, |(_, reservation)| reservation.1 - reservation.2)
    };
    ALL.into_iter().map(of).collect()
}

/// What was reported to the first daemon as released.
fn released_at_first(fake: &Fake) -> u64 {
    fake.cluster()
        .reservations
        .iter()
        .find(|((at, _), _)| *at == IodId(1))
        .map_or(0, |(_, reservation)| reservation.2)
}

#[test]
fn space_is_reserved_without_a_call_used_by_the_write_and_then_released() {
    let (fake, _client, file) = with_space(16 * MIB);
    let before = fake.cluster().exchanges.len();
    let mut held = Reservation::default();
    for at in 0..1000 {
        assert!(file.reserve_space(at * 100, 100, &mut held), "at {at}");
    }
    assert_eq!(fake.cluster().exchanges.len(), before, "nobody was asked");
    let data: Vec<u8> = (0..100_000).map(|at| at as u8 | 1).collect();
    assert_eq!(block_on(file.write_reserved(&mut held, &data, 0)).unwrap(), data.len());
    assert!(!held.covers(0, 1), "the reservation is released");
    let sent = fake.cluster().exchanges.len() - before;
    let used = fake.cluster().reserved_bytes_used.clone();
    assert_eq!((sent, used.len()), (3, 3), "one call for each daemon, each within its reservation");
    let mut read = vec![0; data.len()];
    assert_eq!(block_on(file.read_at(&mut read, 0)).unwrap(), data.len());
    assert!(read == data);
    let before = reserved(&fake);
    block_on(file.write_at(&[1; 3 * 4096], 0)).unwrap();
    let reported: Vec<u64> =
        before.iter().zip(reserved(&fake)).map(|(before, after)| before - after).collect();
    assert_eq!(
        reported,
        used.iter().map(|(_, _, uses)| *uses).collect::<Vec<_>>(),
        "the next call reports it"
    );
}

#[test]
fn a_client_that_does_not_buffer_requests_nothing() {
    let (fake, _client, file) = opened(16 * MIB);
    block_on(file.write_at(&[1; 50_000], 0)).unwrap();
    assert_eq!(
        ALL.map(|iod| fake.cluster().requests_to(iod, iod::WriteWithReservation::OP)),
        [0; 3]
    );
}

#[test]
fn without_space_nothing_is_reserved_and_writes_go_through() {
    let (fake, _client, file) = with_space(0);
    let mut held = Reservation::default();
    assert!(!file.reserve_space(0, 100, &mut held));
    assert_eq!(
        block_on(file.write_reserved(&mut held, &[1; 100], 0)).unwrap(),
        100,
        "an empty hold is an ordinary write"
    );
    assert_eq!(fake.cluster().reserved_bytes_used, []);
}

#[test]
fn a_reservation_is_exclusive_and_free_again_when_dropped() {
    let (_fake, client, file) = with_space(2 * MIB);
    let other = open(&client, "/g");
    let mut held = Reservation::default();
    assert!(file.reserve_space(0, 4 * MIB, &mut held));
    assert!(!other.reserve_space(0, 4 * MIB, &mut Reservation::default()));
    assert!(
        !file.reserve_space(4 * MIB, 4 * MIB, &mut held) && held.covers(0, 4 * MIB),
        "what it held, it holds"
    );
    drop(held);
    assert!(other.reserve_space(0, 4 * MIB, &mut Reservation::default()));
}

#[test]
fn a_reserved_write_is_repeated_as_any_other_and_releases_once() {
    for fault in [Fault::RequestLost, Fault::ReplyLost, Fault::RequestLate, Fault::ReplyLate] {
        let (fake, _client, file) = with_space(16 * MIB);
        let (mut held, before) = (Reservation::default(), released_at_first(&fake));
        assert!(file.reserve_space(0, 1000, &mut held));
        fake.fault(iod::WriteWithReservation::OP, fault);
        block_on(file.write_reserved(&mut held, &[7; 1000], 0)).unwrap();
        let uses = fake.cluster().reserved_bytes_used.last().unwrap().2;
        block_on(file.write_at(&[8; 4096 * 3], 4096)).unwrap();
        assert_eq!(released_at_first(&fake), before + uses, "{fault:?}");
        assert_eq!(fake.cluster().arrive_late(), 0, "{fault:?}");
        let mut read = [0; 1000];
        block_on(file.read_at(&mut read, 0)).unwrap();
        assert_eq!(read, [7; 1000], "{fault:?}");
    }
}

#[test]
fn a_write_that_fails_for_good_releases_its_reservation() {
    let (fake, _client, file) = with_space(16 * MIB);
    let mut held = Reservation::default();
    assert!(file.reserve_space(0, 1000, &mut held));
    let before = reserved(&fake);
    fake.fault(iod::WriteWithReservation::OP, Fault::Refused(Status::DiskError));
    let error = block_on(file.write_reserved(&mut held, &[7; 1000], 0)).unwrap_err();
    assert_eq!(error.status(), Status::DiskError);
    block_on(file.write_at(&[1; 3 * 4096], 0)).unwrap();
    assert!(reserved(&fake)[0] < before[0], "part of it may be written");
}

#[test]
fn a_reserved_write_continues_after_a_truncate_by_another_client() {
    let (fake, _client, file) = with_space(16 * MIB);
    let mut held = Reservation::default();
    assert!(file.reserve_space(0, 1000, &mut held));
    fake.fault(iod::WriteWithReservation::OP, Fault::Refused(Status::StaleGeneration));
    let renewals = |fake: &Fake| {
        fake.cluster().mds_calls.iter().filter(|op| **op == mds::RenewCapability::OP).count()
    };
    let before = renewals(&fake);
    block_on(file.write_reserved(&mut held, &[7; 1000], 0)).unwrap();
    assert_eq!(renewals(&fake), before + 1);
    assert_eq!(fake.cluster().reserved_bytes_used.len(), 1, "in its room");
}

#[test]
fn a_restarted_daemon_reserves_again_what_is_held() {
    let (fake, client, file) = with_space(16 * MIB);
    let other = open(&client, "/g");
    let (mut held, mut more) = (Reservation::default(), Reservation::default());
    assert!(
        file.reserve_space(0, 3 * MIB, &mut held) && other.reserve_space(0, 3 * MIB, &mut more)
    );
    fake.cluster().reservations.clear();
    fake.cluster().now += Duration::from_secs(1);
    block_on(file.write_reserved(&mut held, &vec![7; 3 << 20], 0)).unwrap();
    let old = fake.cluster().reserved_bytes_used.clone();
    block_on(other.write_reserved(&mut more, &vec![8; 3 << 20], 0)).unwrap();
    let new = fake.cluster().reserved_bytes_used[old.len()..].to_vec();
    let reservations = fake.cluster().reservations.clone();
    let term = |iod| {
        reservations.iter().find(|((at, _), _)| *at == iod).map(|(_, reservation)| reservation.0)
    };
    assert!(old.iter().all(|(iod, named, _)| term(*iod) != Some(*named)), "it did not know yet");
    assert!(
        new.iter().all(|(iod, named, _)| term(*iod) == Some(*named)),
        "and then it did: {new:?}"
    );
}

#[test]
fn idle_reservations_are_returned_after_a_while_and_at_the_end() {
    let fake = Fake::striped();
    fake.cluster().reservation_bytes_max = 16 * MIB;
    let secret = fake.cluster().server_key.clone();
    let engine = Engine::new(fake.clone(), Config::new(["mds:1"], Credential::ServerKey(secret)));
    let options = OpenOptions::new().write(true).create(true);
    let file = block_on(engine.caller().open(&PathRef::root(b"f"), &options)).unwrap();
    let write = || {
        block_on(file.write_at(&FileView::whole().unwrap(), 0, &[IoSlice::new(&[1; 3 * 4096])]))
            .unwrap()
    };
    let mut held = Reservation::default();
    while !file.reserve_space(0, 1000, &mut held) {
        write();
    }
    fake.cluster().now += Duration::from_secs(5);
    block_on(engine.tick()).unwrap();
    assert!(reserved(&fake).iter().all(|reserved| *reserved > 0), "what is held stays");
    drop(held);
    block_on(engine.tick()).unwrap();
    assert_eq!(reserved(&fake), [0, 0, 0]);
    assert!(!file.reserve_space(0, 1000, &mut Reservation::default()), "and is not used any more");
    write();
    assert!(reserved(&fake)[0] > 0);
    block_on(engine.shut_down());
    assert_eq!(reserved(&fake), [0, 0, 0]);
}

#[test]
fn an_answer_holds_for_ten_seconds_from_when_it_was_asked_for() {
    let (fake, _client, file) = with_space(16 * MIB);
    fake.cluster().now += Duration::from_millis(9_999);
    assert!(file.reserve_space(0, 1000, &mut Reservation::default()));
    fake.cluster().now += Duration::from_millis(1);
    assert!(!file.reserve_space(0, 1000, &mut Reservation::default()));
    assert!(fake.cluster().reservations.keys().all(|(_, session)| *session != SessionId(0)));
}
