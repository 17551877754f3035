//! Reservations as a state machine: a disk, its writers, sessions with buffered writes, and time.

use std::cell::Cell;

use braid_types::{
    ByteCount,
    limits::{
        RESERVATION_FREE_SPACE_DIVISOR, RESERVATION_SESSION_BYTES_MAX, RESERVATION_SESSIONS_MAX,
        RESERVATION_VALID_MS,
    },
};
use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;
const NOW: Duration = Duration::from_secs(1000);
const SESSION: SessionId = SessionId(7);
const NOTHING: ReservationAccount = ReservationAccount { term: 0, released: ByteCount(0) };

fn space(total: u64, free: u64) -> Option<StoreSpace> {
    let (device, total_objects) = (DeviceId::default(), 1 << 20);
    Some(StoreSpace {
        device,
        total_bytes: total,
        free_bytes: free,
        available_bytes: free,
        total_objects,
        free_objects: total_objects,
    })
}

/// A disk of 256 MiB, all of it free: its margin is 1 MiB.
fn disk() -> Option<StoreSpace> {
    space(256 * MIB, 256 * MIB)
}

fn asked(
    reservations: &Reservations,
    session: SessionId,
    account: &ReservationAccount,
    wanted: u64,
    now: Duration,
) -> Option<Reservation> {
    reservations.update(session, account, wanted, 0, now, disk).0
}

fn account(reservation: &Reservation, released: u64) -> ReservationAccount {
    ReservationAccount { term: reservation.term, released: ByteCount(released) }
}

#[test]
fn ordinary_writes_are_taken_up_to_what_is_kept_and_the_margin() {
    let (reservations, free) = (Reservations::of_one_daemon(), Cell::new(16 * MIB));
    let measure = || space(256 * MIB, free.get());
    let (reservation, _) = reservations.update(SESSION, &NOTHING, 16 * MIB, 0, NOW, measure);
    assert_eq!(
        reservation.unwrap().granted.0,
        15 * MIB / RESERVATION_FREE_SPACE_DIVISOR,
        "of what is free beyond the margin"
    );
    let write = |bytes, uses_reservation| {
        drop(reservations.charge(WriteCost(bytes), uses_reservation, NOW, measure, || false)?);
        free.set(free.get() - bytes);
        Ok::<_, Failure>(())
    };
    while write(4096, false).is_ok() {}
    assert!(
        (reservations.reserved_bytes() + MIB..reservations.reserved_bytes() + MIB + 4096)
            .contains(&free.get()),
        "{} are free",
        free.get()
    );
    assert_eq!(write(4096, false).unwrap_err().status, Status::NoSpace);
    write(reservations.reserved_bytes(), true).unwrap();
    reservations.end_sessions(&[SESSION]);
    while free.get() >= 4096 {
        write(4096, false).unwrap();
    }
}

#[test]
fn a_write_in_place_goes_on_where_a_new_one_is_refused() {
    let (reservations, free) = (Reservations::of_one_daemon(), Cell::new(16 * MIB));
    let measure = || space(256 * MIB, free.get());
    reservations.update(SESSION, &NOTHING, MIB, 0, NOW, measure);
    free.set(reservations.reserved_bytes() + MIB);
    let later = NOW + Duration::from_secs(1);
    let write = |in_place, now| {
        reservations.charge(WriteCost(4096), false, now, measure, || in_place).map(drop)
    };
    assert!(write(false, later).is_err() && write(true, later).is_ok());
    free.set(reservations.reserved_bytes());
    assert!(write(true, later + Duration::from_secs(1)).is_ok(), "it takes no block");
}

#[test]
fn free_space_is_measured_seldom_and_never_without_reservations() {
    let (reservations, asked) = (Reservations::of_one_daemon(), Cell::new(0));
    let measure = || {
        asked.set(asked.get() + 1);
        disk()
    };
    let write =
        || drop(reservations.charge(WriteCost(4096), false, NOW, measure, || false).unwrap());
    (0..10_000).for_each(|_| write());
    assert_eq!(asked.get(), 0);
    reservations.update(SESSION, &NOTHING, MIB, 0, NOW, measure);
    // 2.5 GiB of overwriting on a disk with 256 MiB free.
    (0..655_360).for_each(|_| write());
    assert!((10..=12).contains(&asked.get()), "asked {} times", asked.get());
}

#[test]
fn a_write_in_flight_when_the_disk_is_measured_counts_as_not_written() {
    let (reservations, free) = (Reservations::of_one_daemon(), 17 * MIB);
    let measure = || space(256 * MIB, free);
    let in_flight = reservations.charge(WriteCost(8 * MIB), false, NOW, measure, || false).unwrap();
    let (reservation, _) = reservations.update(SESSION, &NOTHING, 16 * MIB, 0, NOW, measure);
    assert_eq!(reservation.unwrap().granted.0, MIB, "an eighth of 17 - 8 - 1 MiB");
    drop(in_flight);
}

#[test]
fn a_session_is_bounded_and_all_of_them_together_are() {
    let reservations = Reservations::of_one_daemon();
    let disk = || space(1 << 50, 1 << 50);
    let ask =
        |session, wanted| reservations.update(SessionId(session), &NOTHING, wanted, 0, NOW, disk).0;
    assert_eq!(ask(0, u64::MAX).unwrap().granted.0, RESERVATION_SESSION_BYTES_MAX);
    assert_eq!(ask(0, 1).unwrap().granted.0, RESERVATION_SESSION_BYTES_MAX, "not a byte more");
    assert!((1..RESERVATION_SESSIONS_MAX as u64).all(|session| ask(session, 1).is_some()));
    assert_eq!(ask(RESERVATION_SESSIONS_MAX as u64, 1), None);
    reservations.end_sessions(&[SessionId(1)]);
    assert!(ask(RESERVATION_SESSIONS_MAX as u64, 1).is_some());
}

#[test]
fn releases_are_reported_in_any_order_and_again() {
    let reservations = Reservations::of_one_daemon();
    let reservation = asked(&reservations, SESSION, &NOTHING, 100, NOW).unwrap();
    for released in [30, 10, 30, 20] {
        asked(&reservations, SESSION, &account(&reservation, released), 0, NOW);
    }
    assert_eq!(reservations.reserved_bytes(), 70);
    asked(&reservations, SESSION, &account(&reservation, 1000), 0, NOW);
    assert_eq!(reservations.reserved_bytes(), 0, "no more than there was");
    reservations.release(SESSION, &account(&reservation, 100), NOW);
    let anew = asked(&reservations, SESSION, &account(&reservation, 100), 100, NOW).unwrap();
    assert!(
        anew.term > reservation.term && anew.granted.0 == 100,
        "a release in the other term does not count here"
    );
    reservations.release(SESSION, &account(&reservation, 100), NOW);
    assert_eq!(reservations.reserved_bytes(), 100);
}

#[test]
fn a_reservation_is_used_in_its_term_alone_and_no_further() {
    let uses = |reservations: &Reservations, account: &ReservationAccount, uses| {
        reservations.update(SESSION, account, 0, uses, NOW, disk).1
    };
    let reservations = Reservations::of_one_daemon();
    let reservation = asked(&reservations, SESSION, &NOTHING, 100, NOW).unwrap();
    assert!(
        uses(&reservations, &account(&reservation, 0), 100)
            && !uses(&reservations, &account(&reservation, 0), 101)
    );
    assert!(!uses(&reservations, &NOTHING, 1), "without a term it has no reservation");
    let restarted = Reservations::of_one_daemon();
    assert!(!uses(&restarted, &account(&reservation, 0), 1));
    let anew =
        asked(&restarted, SESSION, &account(&reservation, 0), 100, NOW + Duration::from_nanos(1))
            .unwrap();
    assert_ne!(anew.term, reservation.term, "and the session sees it");
}

#[test]
fn a_term_without_messages_ends_and_not_before() {
    let reservations = Reservations::of_one_daemon();
    let reservation = asked(&reservations, SESSION, &NOTHING, 100, NOW).unwrap();
    let other = |now| {
        asked(&reservations, SessionId(8), &NOTHING, 1, now).map(|_| reservations.reserved_bytes())
    };
    assert_eq!(other(NOW + free_space::TERM_LIFETIME - Duration::from_millis(1)), Some(101));
    let again = asked(
        &reservations,
        SESSION,
        &account(&reservation, 0),
        0,
        NOW + free_space::TERM_LIFETIME - Duration::from_millis(1),
    );
    assert_eq!(again.unwrap().term, reservation.term);
    assert_eq!(other(NOW + 2 * free_space::TERM_LIFETIME - Duration::from_millis(2)), Some(102));
    assert_eq!(other(NOW + 2 * free_space::TERM_LIFETIME + Duration::from_secs(1)), Some(3));
}

#[test]
fn daemons_of_one_device_count_together_and_one_that_stops_leaves_nothing() {
    let device = DeviceId([42; 16]);
    let (one, two, elsewhere) = (
        Reservations::of_device(device),
        Reservations::of_device(device),
        Reservations::of_device(DeviceId([43; 16])),
    );
    asked(&one, SESSION, &NOTHING, 100, NOW);
    asked(&two, SESSION, &NOTHING, 10, NOW);
    assert_eq!(
        (one.reserved_bytes(), two.reserved_bytes(), elsewhere.reserved_bytes()),
        (110, 110, 0)
    );
    one.end_sessions(&[SESSION]);
    assert_eq!(two.reserved_bytes(), 10, "a fence is each daemon's own");
    drop(two);
    assert_eq!(one.reserved_bytes(), 0);
}

/// What a session knows, as the client library keeps it.
#[derive(Default)]
struct Knows {
    term: u64,
    granted: u64,
    released: u64,
    sent: Duration,
    /// Buffered bytes, since when, and whether they are on the disk already.
    holds: Vec<(u64, Duration, bool)>,
}

impl Knows {
    fn held(&self) -> u64 {
        self.holds.iter().map(|(bytes, ..)| bytes).sum()
    }
    fn spare(&self) -> u64 {
        (self.granted - self.released).saturating_sub(self.held())
    }
    fn account(&self) -> ReservationAccount {
        ReservationAccount { term: self.term, released: ByteCount(self.released) }
    }
    fn answered(&mut self, reservation: Option<Reservation>, sent: Duration) {
        let Some(reservation) = reservation else {
            return *self = Self { holds: std::mem::take(&mut self.holds), ..Self::default() };
        };
        if reservation.term != self.term {
            (self.term, self.granted, self.released) = (reservation.term, 0, 0);
        }
        self.granted = self.granted.max(reservation.granted.0);
        self.sent = sent;
    }
    fn let_go(&mut self, bytes: u64) {
        self.released = (self.released + bytes).min(self.granted);
    }
}

/// A client sends buffered bytes within 10 s, and retries for 30 s.
const HELD_FOR: Duration = Duration::from_secs(40);

#[derive(Clone, Debug)]
enum Step {
    Write { bytes: u64, in_place: bool },
    Fill { bytes: u64 },
    Done { which: usize },
    Delete { bytes: u64 },
    Ask { session: usize, wanted: u64, answered: bool },
    Hold { session: usize, bytes: u64 },
    Send { session: usize, answered: bool },
    Return { session: usize, arrives: bool },
    Late { which: usize },
    End { session: usize },
    Pass { ms: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    use Step::*;
    let (session, bytes) = (0..3usize, (1..300u64).prop_map(|kib| kib << 10));
    let step = prop_oneof![
        8 => (bytes.clone(), any::<bool>()).prop_map(|(bytes, in_place)| Write { bytes, in_place }),
        3 => (4..300u64).prop_map(|kib| Fill { bytes: kib << 10 }),
        6 => (0..8usize).prop_map(|which| Done { which }),
        2 => (1..16u64).prop_map(|mib| Delete { bytes: mib * MIB }),
        6 => (session.clone(), 0..8 * MIB, any::<bool>())
            .prop_map(|(session, wanted, answered)| Ask { session, wanted, answered }),
        6 => (session.clone(), bytes).prop_map(|(session, bytes)| Hold { session, bytes }),
        6 => (session.clone(), any::<bool>())
            .prop_map(|(session, answered)| Send { session, answered }),
        1 => (session.clone(), any::<bool>())
            .prop_map(|(session, arrives)| Return { session, arrives }),
        1 => (0..8usize).prop_map(|which| Late { which }),
        1 => session.prop_map(|session| End { session }),
        2 => prop_oneof![4 => 1..50u64, 1 => 1..70_000u64].prop_map(|ms| Pass { ms }),
    ];
    prop::collection::vec(step, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// In any order of grants, writes, lost replies, late messages, expiries and session ends,
    /// buffered bytes are written. The only other writers go through the daemon, and a write in
    /// place takes no block.
    #[test]
    fn a_write_within_its_reservation_never_meets_a_full_disk(steps in steps(), mib in 1..48u64) {
        let (reservations, mut now) = (Reservations::of_one_daemon(), NOW);
        let free = Cell::new(mib * MIB);
        let measure = || space(64 * MIB, free.get());
        let mut sessions = [SessionId(1), SessionId(2), SessionId(3)];
        let mut know: [Knows; 3] = Default::default();
        let (mut flying, mut late) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Write { bytes, in_place } => {
                    let takes = if in_place { 0 } else { bytes };
                    let cost = WriteCost::of(0, bytes, true);
                    let begun = reservations.charge(cost, false, now, measure, || in_place);
                    flying.extend(begun.ok().map(|charge| (charge, takes)));
                }
                Step::Fill { bytes } => {
                    let cost = WriteCost::of(0, bytes, true);
                    let charge = || reservations.charge(cost, false, now, measure, || false);
                    while let Ok(charge) = charge() {
                        if bytes > free.get() {
                            break;
                        }
                        free.set(free.get() - bytes);
                        drop(charge);
                    }
                }
                Step::Done { which } if !flying.is_empty() => {
                    let (charge, takes) = flying.swap_remove(which % flying.len());
                    // With nothing reserved, writers fill the disk to its end, as before.
                    free.set(free.get() - if takes <= free.get() { takes } else { 0 });
                    drop(charge);
                }
                Step::Delete { bytes } => free.set((free.get() + bytes).min(64 * MIB)),
                Step::Ask { session, wanted, answered } => {
                    let account = know[session].account();
                    let (reservation, _) =
                        reservations.update(sessions[session], &account, wanted, 0, now, measure);
                    late.push((sessions[session], know[session].account()));
                    if answered {
                        know[session].answered(reservation, now);
                    }
                }
                Step::Hold { session, bytes } => {
                    let knows = &mut know[session];
                    let valid = Duration::from_millis(u64::from(RESERVATION_VALID_MS));
                    let holds = now < knows.sent + valid;
                    if holds && WriteCost::of(0, bytes, true).0 <= knows.spare() {
                        knows.holds.push((WriteCost::of(0, bytes, true).0, now, false));
                    }
                }
                Step::Send { session, answered } if !know[session].holds.is_empty() => {
                    let knows = &mut know[session];
                    let (cost, since, written) = knows.holds[0];
                    if now > since + HELD_FOR {
                        knows.holds.remove(0);
                        knows.let_go(cost);
                        continue;
                    }
                    let account = knows.account();
                    let (reservation, covered) =
                        reservations.update(sessions[session], &account, 0, cost, now, measure);
                    prop_assert!(covered, "{cost} bytes were held");
                    let charge = reservations.charge(WriteCost(cost), true, now, measure, || false);
                    prop_assert!(charge.is_ok());
                    let takes = if written { 0 } else { cost };
                    let is_free = takes <= free.get();
                    prop_assert!(is_free, "{takes} bytes were held, {} are free", free.get());
                    free.set(free.get() - takes);
                    drop(charge);
                    if answered {
                        knows.holds.remove(0);
                        knows.let_go(cost);
                        knows.answered(reservation, now);
                    } else {
                        knows.holds[0].2 = true;
                    }
                }
                Step::Return { session, arrives } => {
                    let spare = know[session].spare();
                    know[session].let_go(spare);
                    if arrives {
                        reservations.release(sessions[session], &know[session].account(), now);
                    }
                }
                Step::Late { which } if !late.is_empty() => {
                    let (session, account) = &late[which % late.len()];
                    reservations.release(*session, account, now);
                }
                Step::End { session } => {
                    reservations.end_sessions(&[sessions[session]]);
                    know[session] = Knows::default();
                    sessions[session] = SessionId(sessions[session].0 + 3);
                }
                Step::Pass { ms } => now += Duration::from_millis(ms),
                _ => {}
            }
        }
    }
}
