//! Reservations on a daemon with a small disk: which writes are refused and which admitted, and
//! what the daemon reports to a session (ADR 0014).

use std::{sync::Arc, time::Duration};

use braid_iod::IodCore;
use braid_store::MemStore;
use braid_types::{
    ByteCount, FileOffset, IodId, SessionId, Status, limits::RESERVATION_EXPIRES_MS,
};
use braid_wire::{
    Capability, Credential, Role,
    message::iod::{
        Allocate, CopyRange, DiskSpace, Fence, Reservation, ReservationAccount, ReturnReservation,
        WriteWithReservation, WriteWithReservationReply,
    },
};

use super::harness::*;

const MIB: u64 = 1 << 20;
/// The disk: its margin is 1 MiB, and at most an eighth of the rest is reserved.
const DISK: u64 = 17 * MIB;
const KEPT_MAX: u64 = 2 * MIB;
const OTHER: SessionId = SessionId(6);
const NOTHING: ReservationAccount = ReservationAccount { term: 0, released: ByteCount(0) };

fn small() -> IodCore<MemStore> {
    let core = daemon(1);
    core.store().limit_space(DISK);
    core
}

fn of(session: SessionId) -> Capability {
    Capability { session, ..capability(striped([1])) }
}

fn account(reservation: &Reservation, released: u64) -> ReservationAccount {
    ReservationAccount { term: reservation.term, released: ByteCount(released) }
}

impl Client<'_> {
    fn write_with_reservation(
        &mut self,
        reservation: &ReservationAccount,
        wanted: u64,
        uses: u64,
        offset: u64,
        bytes: u64,
    ) -> Result<WriteWithReservationReply, Status> {
        let (handle, present) = self.present(&of(SESSION));
        let (request, reservation) = (contiguous(offset, bytes), reservation.clone());
        let (wanted, uses) = (ByteCount(wanted), ByteCount(uses));
        let write = WriteWithReservation {
            handle,
            present,
            request,
            account: reservation,
            wanted,
            reserved_bytes: uses,
            modified: None,
        };
        let outcome = self.call_with(&write, &pattern(bytes as usize, offset));
        outcome.map(|reply| reply.reply).map_err(|failure| failure.status)
    }

    /// The largest possible reservation.
    fn reservation(&mut self) -> Reservation {
        self.write_with_reservation(&NOTHING, u64::MAX, 0, 0, 1).unwrap().reservation.unwrap()
    }

    /// Fills the disk with ordinary writes from here on. Returns where they ended.
    fn fill(&mut self, mut offset: u64) -> u64 {
        for bytes in [64 << 10, 4096] {
            while self.ordinary(offset, bytes).is_ok() {
                offset += bytes;
            }
        }
        offset
    }

    fn ordinary(&mut self, offset: u64, bytes: u64) -> Result<(), Status> {
        let data = pattern(bytes as usize, offset);
        let written = self.write(&of(OTHER), contiguous(offset, bytes), &data);
        written.map(drop).map_err(|failure| failure.status)
    }
}

fn clients(core: &IodCore<MemStore>) -> (Client<'_>, Client<'_>) {
    (Client::of_session(core, SESSION), Client::of_session(core, OTHER))
}

#[test]
fn a_reserved_write_is_accepted_on_a_disk_that_others_have_filled() {
    let core = small();
    let (mut gathers, mut other) = clients(&core);
    let reservation = gathers.reservation();
    assert!(
        (KEPT_MAX - MIB..=KEPT_MAX).contains(&reservation.granted.0),
        "{} bytes",
        reservation.granted
    );
    let filled = other.fill(MIB);
    assert_eq!(other.ordinary(filled, 64 << 10), Err(Status::NoSpace));
    let (mut offset, mut released, step) = (1 << 30, 0, (64 << 10) + 4096 * 6);
    while released + step <= reservation.granted.0 {
        gathers
            .write_with_reservation(&account(&reservation, released), 0, step, offset, 64 << 10)
            .unwrap();
        (offset, released) = (offset + (64 << 10), released + step);
    }
    assert!(offset > (1 << 30) + MIB, "more than a MiB was written");
    let back = gathers.read(&of(SESSION), contiguous(1 << 30, 64 << 10)).unwrap();
    assert!(back.payload == pattern(64 << 10, 1 << 30));
}

#[test]
fn a_reserved_write_without_a_reservation_is_an_ordinary_one() {
    let core = small();
    let (mut gathers, mut other) = clients(&core);
    let reservation = gathers.reservation();
    other.fill(MIB);
    let uses = |account: &ReservationAccount, uses, bytes| {
        Client::of_session(&core, SESSION)
            .write_with_reservation(account, 0, uses, 1 << 30, bytes)
            .map(drop)
    };
    assert_eq!(uses(&NOTHING, 4096, 4096), Err(Status::NoSpace), "it names no term");
    assert_eq!(
        uses(&account(&reservation, 0), reservation.granted.0 + 1, 4096),
        Err(Status::NoSpace),
        "more than it has"
    );
    assert_eq!(
        uses(&account(&reservation, 0), 4096, 4097),
        Err(Status::NoSpace),
        "the bytes are more than that"
    );
    assert_eq!(uses(&account(&reservation, 0), 4097, 4097), Ok(()));
}

#[test]
fn returned_fenced_and_expired_reservations_are_free_for_others() {
    let ended: [fn(&IodCore<MemStore>, &mut Client<'_>, &Reservation); 3] = [
        |_, gathers, reservation| {
            gathers
                .call(&ReturnReservation { account: account(reservation, reservation.granted.0) })
                .unwrap()
        },
        |core, _, _| {
            let fence = Fence { sessions: vec![SESSION], fence: 1, epoch_min: EPOCH };
            Client::mds(core).call(&fence).unwrap();
        },
        |core, _, _| {
            core.serve_until(Some(NOW + Duration::from_millis(2 * RESERVATION_EXPIRES_MS)))
        },
    ];
    for (which, end) in ended.iter().enumerate() {
        let core = small();
        let (mut gathers, mut other) = clients(&core);
        let reservation = gathers.reservation();
        let filled = other.fill(MIB);
        end(&core, &mut gathers, &reservation);
        other.now +=
            if which == 2 { Duration::from_millis(RESERVATION_EXPIRES_MS) } else { Duration::ZERO };
        let more = other.fill(filled) - filled;
        assert!(
            more > MIB + reservation.granted.0 - (128 << 10),
            "{which}: {more} bytes more, the margin among them"
        );
    }
}

#[test]
fn a_program_that_overwrites_in_place_goes_on_on_a_full_disk() {
    let core = small();
    let (mut gathers, mut other) = clients(&core);
    gathers.reservation();
    let filled = other.fill(MIB);
    assert_eq!(other.ordinary(filled, 4096), other.ordinary(filled, 4096));
    assert_eq!(other.ordinary(MIB, 4096), Ok(()));
}

#[test]
fn reservations_are_left_alone_by_allocations_and_copies_and_statfs() {
    let core = small();
    let (mut gathers, mut other) = clients(&core);
    let left = |core| Client::mds(core).call(&DiskSpace {}).unwrap().available.0;
    let before = left(&core);
    let reservation = gathers.reservation();
    assert_eq!(left(&core), before - reservation.granted.0 - 1, "a byte was written");
    let (handle, present) = other.present(&of(OTHER));
    let bytes = ByteCount(DISK - MIB - reservation.granted.0);
    let allocate = Allocate { handle, present, offset: FileOffset(0), bytes, keep_size: false };
    assert_eq!(refusal(other.call(&allocate)), Status::NoSpace);
    other.ordinary(MIB, 8 * MIB).unwrap();
    let (handle, present) = other.present(&of(OTHER));
    let (source, from, to) = (present.clone(), FileOffset(MIB), FileOffset(16 * MIB));
    let copy = CopyRange { handle, present, source, from, to, bytes: ByteCount(8 * MIB) };
    assert_eq!(refusal(other.call(&copy)), Status::NoSpace);
    assert!(left(&core) > 0);
}

#[test]
fn a_restarted_daemon_says_that_what_was_granted_is_void() {
    let core = small();
    let reservation = Client::of_session(&core, SESSION).reservation();
    let later = NOW + Duration::from_secs(1);
    let again = IodCore::new(Arc::clone(core.store()), server_key(), later);
    again.serve_until(Some(later + SERVES_FOR));
    let mut gathers = Client::of_session(&again, SESSION);
    gathers.now = later;
    let reply = gathers.write_with_reservation(&account(&reservation, 0), 0, 4096, 0, 1).unwrap();
    assert_eq!(reply.reservation, None);
    let anew = gathers
        .write_with_reservation(&account(&reservation, 0), MIB, 0, 0, 1)
        .unwrap()
        .reservation
        .unwrap();
    assert_ne!(anew.term, reservation.term);
}

#[test]
fn reservations_are_for_sessions_alone() {
    let core = small();
    let mut admin = Client::new(&core, Role::Admin, Credential::Server);
    for client in [&mut Client::mds(&core), &mut admin] {
        assert_eq!(
            client.write_with_reservation(&NOTHING, MIB, 0, 0, 1).unwrap_err(),
            Status::WrongRole
        );
        assert_eq!(
            refusal(client.call(&ReturnReservation { account: NOTHING })),
            Status::WrongRole
        );
    }
    assert_eq!(core.iod(), IodId(1));
}
