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
    keeper: &Reservations,
    session: SessionId,
    account: &ReservationAccount,
    wanted: u64,
    now: Duration,
) -> Option<Reservation> {
    keeper.update(session, account, wanted, 0, now, disk).0
}

fn account(room: &Reservation, released: u64) -> ReservationAccount {
    ReservationAccount { term: room.term, released: ByteCount(released) }
}

#[test]
fn ordinary_writes_are_taken_up_to_what_is_kept_and_the_margin() {
    let (keeper, free) = (Reservations::of_one_daemon(), Cell::new(16 * MIB));
    let measure = || space(256 * MIB, free.get());
    let (room, _) = keeper.update(SESSION, &NOTHING, 16 * MIB, 0, NOW, measure);
    assert_eq!(
        room.unwrap().granted.0,
        15 * MIB / RESERVATION_FREE_SPACE_DIVISOR,
        "of what is free beyond the margin"
    );
    let write = |bytes, in_room| {
        drop(keeper.charge(WriteCost(bytes), in_room, NOW, measure, || false)?);
        free.set(free.get() - bytes);
        Ok::<_, Failure>(())
    };
    while write(4096, false).is_ok() {}
    assert!(
        (keeper.reserved_bytes() + MIB..keeper.reserved_bytes() + MIB + 4096).contains(&free.get()),
        "{} are free",
        free.get()
    );
    assert_eq!(write(4096, false).unwrap_err().status, Status::NoSpace);
    write(keeper.reserved_bytes(), true).unwrap();
    keeper.end_sessions(&[SESSION]);
    while free.get() >= 4096 {
        write(4096, false).unwrap();
    }
}

#[test]
fn a_write_in_place_goes_on_where_a_new_one_is_refused() {
    let (keeper, free) = (Reservations::of_one_daemon(), Cell::new(16 * MIB));
    let measure = || space(256 * MIB, free.get());
    keeper.update(SESSION, &NOTHING, MIB, 0, NOW, measure);
    free.set(keeper.reserved_bytes() + MIB);
    let later = NOW + Duration::from_secs(1);
    let write =
        |in_place, now| keeper.charge(WriteCost(4096), false, now, measure, || in_place).map(drop);
    assert!(write(false, later).is_err() && write(true, later).is_ok());
    free.set(keeper.reserved_bytes());
    assert!(write(true, later + Duration::from_secs(1)).is_ok(), "it takes no block");
}

#[test]
fn the_disk_is_asked_for_its_space_seldom_and_never_where_nobody_has_room() {
    let (keeper, asked) = (Reservations::of_one_daemon(), Cell::new(0));
    let measure = || {
        asked.set(asked.get() + 1);
        disk()
    };
    let write = || drop(keeper.charge(WriteCost(4096), false, NOW, measure, || false).unwrap());
    (0..10_000).for_each(|_| write());
    assert_eq!(asked.get(), 0);
    keeper.update(SESSION, &NOTHING, MIB, 0, NOW, measure);
    // 2.5 GiB of overwriting on a disk with 256 MiB free.
    (0..655_360).for_each(|_| write());
    assert!((10..=12).contains(&asked.get()), "asked {} times", asked.get());
}

#[test]
fn a_write_in_flight_when_the_disk_is_measured_counts_as_not_written() {
    let (keeper, free) = (Reservations::of_one_daemon(), 17 * MIB);
    let measure = || space(256 * MIB, free);
    let in_flight = keeper.charge(WriteCost(8 * MIB), false, NOW, measure, || false).unwrap();
    let (room, _) = keeper.update(SESSION, &NOTHING, 16 * MIB, 0, NOW, measure);
    assert_eq!(room.unwrap().granted.0, MIB, "an eighth of 17 - 8 - 1 MiB");
    drop(in_flight);
}

#[test]
fn a_session_is_bounded_and_all_of_them_together_are() {
    let keeper = Reservations::of_one_daemon();
    let disk = || space(1 << 50, 1 << 50);
    let ask = |session, wanted| keeper.update(SessionId(session), &NOTHING, wanted, 0, NOW, disk).0;
    assert_eq!(ask(0, u64::MAX).unwrap().granted.0, RESERVATION_SESSION_BYTES_MAX);
    assert_eq!(ask(0, 1).unwrap().granted.0, RESERVATION_SESSION_BYTES_MAX, "not a byte more");
    assert!((1..RESERVATION_SESSIONS_MAX as u64).all(|session| ask(session, 1).is_some()));
    assert_eq!(ask(RESERVATION_SESSIONS_MAX as u64, 1), None);
    keeper.end_sessions(&[SessionId(1)]);
    assert!(ask(RESERVATION_SESSIONS_MAX as u64, 1).is_some());
}

#[test]
fn what_was_let_go_is_told_in_any_order_and_again() {
    let keeper = Reservations::of_one_daemon();
    let room = asked(&keeper, SESSION, &NOTHING, 100, NOW).unwrap();
    for released in [30, 10, 30, 20] {
        asked(&keeper, SESSION, &account(&room, released), 0, NOW);
    }
    assert_eq!(keeper.reserved_bytes(), 70);
    asked(&keeper, SESSION, &account(&room, 1000), 0, NOW);
    assert_eq!(keeper.reserved_bytes(), 0, "no more than there was");
    keeper.release(SESSION, &account(&room, 100), NOW);
    let anew = asked(&keeper, SESSION, &account(&room, 100), 100, NOW).unwrap();
    assert!(
        anew.term > room.term && anew.granted.0 == 100,
        "a release in the other term does not count here"
    );
    keeper.release(SESSION, &account(&room, 100), NOW);
    assert_eq!(keeper.reserved_bytes(), 100);
}

#[test]
fn room_is_used_in_its_term_alone_and_no_more_than_there_is() {
    let uses = |keeper: &Reservations, account: &ReservationAccount, uses| {
        keeper.update(SESSION, account, 0, uses, NOW, disk).1
    };
    let keeper = Reservations::of_one_daemon();
    let room = asked(&keeper, SESSION, &NOTHING, 100, NOW).unwrap();
    assert!(uses(&keeper, &account(&room, 0), 100) && !uses(&keeper, &account(&room, 0), 101));
    assert!(!uses(&keeper, &NOTHING, 1), "without a term it has no reservation");
    let restarted = Reservations::of_one_daemon();
    assert!(!uses(&restarted, &account(&room, 0), 1));
    let anew =
        asked(&restarted, SESSION, &account(&room, 0), 100, NOW + Duration::from_nanos(1)).unwrap();
    assert_ne!(anew.term, room.term, "and the session sees it");
}

#[test]
fn a_term_of_which_nothing_is_heard_ends_and_not_before() {
    let keeper = Reservations::of_one_daemon();
    let room = asked(&keeper, SESSION, &NOTHING, 100, NOW).unwrap();
    let other =
        |now| asked(&keeper, SessionId(8), &NOTHING, 1, now).map(|_| keeper.reserved_bytes());
    assert_eq!(other(NOW + free_space::TERM_LIFETIME - Duration::from_millis(1)), Some(101));
    let again = asked(
        &keeper,
        SESSION,
        &account(&room, 0),
        0,
        NOW + free_space::TERM_LIFETIME - Duration::from_millis(1),
    );
    assert_eq!(again.unwrap().term, room.term);
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
    fn heard(&mut self, room: Option<Reservation>, sent: Duration) {
        let Some(room) = room else {
            return *self = Self { holds: std::mem::take(&mut self.holds), ..Self::default() };
        };
        if room.term != self.term {
            (self.term, self.granted, self.released) = (room.term, 0, 0);
        }
        self.granted = self.granted.max(room.granted.0);
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
    Ask { session: usize, wanted: u64, heard: bool },
    Hold { session: usize, bytes: u64 },
    Send { session: usize, heard: bool },
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
            .prop_map(|(session, wanted, heard)| Ask { session, wanted, heard }),
        6 => (session.clone(), bytes).prop_map(|(session, bytes)| Hold { session, bytes }),
        6 => (session.clone(), any::<bool>()).prop_map(|(session, heard)| Send { session, heard }),
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
    fn a_write_within_its_room_never_meets_a_full_disk(steps in steps(), mib in 1..48u64) {
        let (keeper, free, mut now) = (Reservations::of_one_daemon(), Cell::new(mib * MIB), NOW);
        let measure = || space(64 * MIB, free.get());
        let mut sessions = [SessionId(1), SessionId(2), SessionId(3)];
        let mut know: [Knows; 3] = Default::default();
        let (mut flying, mut late) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Write { bytes, in_place } => {
                    let takes = if in_place { 0 } else { bytes };
                    let cost = WriteCost::of(0, bytes, true);
                    let begun = keeper.charge(cost, false, now, measure, || in_place);
                    flying.extend(begun.ok().map(|charge| (charge, takes)));
                }
                Step::Fill { bytes } => {
                    let cost = WriteCost::of(0, bytes, true);
                    while let Ok(charge) = keeper.charge(cost, false, now, measure, || false) {
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
                Step::Ask { session, wanted, heard } => {
                    let account = know[session].account();
                    let (room, _) =
                        keeper.update(sessions[session], &account, wanted, 0, now, measure);
                    late.push((sessions[session], know[session].account()));
                    if heard {
                        know[session].heard(room, now);
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
                Step::Send { session, heard } if !know[session].holds.is_empty() => {
                    let knows = &mut know[session];
                    let (cost, since, written) = knows.holds[0];
                    if now > since + HELD_FOR {
                        knows.holds.remove(0);
                        knows.let_go(cost);
                        continue;
                    }
                    let account = knows.account();
                    let (room, covered) =
                        keeper.update(sessions[session], &account, 0, cost, now, measure);
                    prop_assert!(covered, "{cost} bytes were held");
                    let charge = keeper.charge(WriteCost(cost), true, now, measure, || false);
                    prop_assert!(charge.is_ok());
                    let takes = if written { 0 } else { cost };
                    let is_free = takes <= free.get();
                    prop_assert!(is_free, "{takes} bytes were held, {} are free", free.get());
                    free.set(free.get() - takes);
                    drop(charge);
                    if heard {
                        knows.holds.remove(0);
                        knows.let_go(cost);
                        knows.heard(room, now);
                    } else {
                        knows.holds[0].2 = true;
                    }
                }
                Step::Return { session, arrives } => {
                    let spare = know[session].spare();
                    know[session].let_go(spare);
                    if arrives {
                        keeper.release(sessions[session], &know[session].account(), now);
                    }
                }
                Step::Late { which } if !late.is_empty() => {
                    let (session, account) = &late[which % late.len()];
                    keeper.release(*session, account, now);
                }
                Step::End { session } => {
                    keeper.end_sessions(&[sessions[session]]);
                    know[session] = Knows::default();
                    sessions[session] = SessionId(sessions[session].0 + 3);
                }
                Step::Pass { ms } => now += Duration::from_millis(ms),
                _ => {}
            }
        }
    }
}
