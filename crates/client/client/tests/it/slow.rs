//! Slow and lost servers, on an in-memory cluster with a test clock. A call waits as long as bytes
//! move, and gives up after the time of a call, 30 s, when they do not (I8).

use std::time::Duration;

use crate::fake::{Fake, Fault};
use braid_client::{Distribution, Error, Layout, OpenOptions, Status, asynchronous::File};
use braid_net::block_on;
use braid_types::{IodId, limits::WINDOW_BYTES};

const TIMEOUT: Duration = Duration::from_secs(30);
/// More than one round.
const LARGE: usize = 66 << 20;

fn fake(iods: u32) -> Fake {
    Fake::new(Layout::one(
        Distribution::SimpleStripe { stripe_size: 1 << 20 },
        (1..=iods).map(IodId),
    ))
}

fn open(fake: &Fake) -> File<Fake> {
    block_on(fake.client().open("/f", &OpenOptions::new().read(true).write(true).create(true)))
        .unwrap()
}

fn pattern(bytes: usize) -> Vec<u8> {
    let one: Vec<u8> = (0..65_537u32).map(|at| (at * 7 + at / 256) as u8 | 1).collect();
    one.iter().copied().cycle().take(bytes).collect()
}

/// The duration of the call on the cluster's clock, and its result.
fn timed<T>(
    fake: &Fake,
    call: impl Future<Output = Result<T, Error>>,
) -> (Duration, Result<T, Error>) {
    let begun = fake.cluster().now;
    let outcome = block_on(call);
    (fake.cluster().now - begun, outcome)
}

#[test]
fn a_call_of_several_rounds_may_take_longer_than_a_calls_time() {
    let fake = fake(3);
    let (file, data) = (open(&fake), pattern(LARGE));
    fake.cluster().answer_time = Duration::from_secs(3);
    let (time, written) = timed(&fake, file.write_at(&data, 0));
    assert_eq!(written.unwrap(), LARGE);
    assert!(time > TIMEOUT, "{time:?}");
    let mut buffer = vec![0; LARGE];
    let (time, read) = timed(&fake, file.read_at(&mut buffer, 0));
    assert_eq!(read.unwrap(), LARGE);
    assert!(time > TIMEOUT, "{time:?}");
    assert!(buffer == data);
}

#[test]
fn connections_that_end_again_and_again_do_not_fail_a_call_that_moves() {
    let fake = fake(1);
    let (file, data) = (open(&fake), pattern(10 * WINDOW_BYTES as usize));
    fake.cluster().answer_time = Duration::from_secs(8);
    fake.cluster().answers_max = Some(3);
    let (time, written) = timed(&fake, file.write_at(&data, 0));
    assert_eq!(written.unwrap(), data.len());
    assert!(time > 2 * TIMEOUT, "{time:?}");
    let mut buffer = vec![0; data.len()];
    let (time, read) = timed(&fake, file.read_at(&mut buffer, 0));
    assert_eq!(read.unwrap(), data.len());
    assert!(time > 2 * TIMEOUT, "{time:?}");
    assert!(buffer == data);
}

#[test]
fn a_daemon_that_becomes_silent_is_named_in_the_time_of_a_call() {
    let fake = fake(1);
    let (file, data) = (open(&fake), pattern(LARGE));
    fake.cluster().answer_time = Duration::from_secs(3);
    for from in
        [Duration::ZERO, Duration::from_secs(20), Duration::from_secs(40), Duration::from_secs(48)]
    {
        let begun = fake.cluster().now;
        fake.cluster().silent_from.insert(IodId(1), begun + from);
        let (time, written) = timed(&fake, file.write_at(&data, 0));
        let error = written.unwrap_err();
        assert_eq!(error.status(), Status::Unreachable, "{error}");
        assert!(error.server().unwrap().starts_with("I/O daemon 1"), "{error}");
        let last = fake.cluster().last_answer.max(begun);
        let silent = begun + time - last;
        assert!(silent <= TIMEOUT, "{silent:?} of {time:?}: I8");
        assert!(silent > TIMEOUT / 2, "{silent:?} of {time:?}: it was waited for");
        fake.cluster().silent_from.clear();
        assert_eq!(block_on(file.write_at(&data, 0)).unwrap(), LARGE, "it is back");
    }
}

#[test]
fn active_daemons_do_not_extend_the_time_of_a_silent_one() {
    let fake = fake(3);
    let (file, data) = (open(&fake), pattern(LARGE));
    fake.cluster().answer_time = Duration::from_secs(1);
    fake.cluster().silent_from.insert(IodId(2), Duration::ZERO);
    let (time, written) = timed(&fake, file.write_at(&data, 0));
    let error = written.unwrap_err();
    assert!(error.server().unwrap().starts_with("I/O daemon 2"), "{error}");
    assert!(time <= TIMEOUT, "{time:?}: I8");
}

const MOVES: IodId = IodId(1);
const REFUSES: IodId = IodId(2);
/// Five windows of the first daemon, one of the second.
const UNEVEN: usize = 6 * WINDOW_BYTES as usize;

/// A daemon that needs more than a call's time for its exchanges, and one with a single exchange.
fn uneven() -> (Fake, File<Fake>, Vec<u8>) {
    let stripe_size = 5 * WINDOW_BYTES;
    let fake = Fake::new(Layout::one(Distribution::SimpleStripe { stripe_size }, [MOVES, REFUSES]));
    let (file, data) = (open(&fake), pattern(UNEVEN));
    block_on(file.write_at(&data, 0)).unwrap();
    fake.cluster().answer_time = Duration::from_secs(8);
    (fake, file, data)
}

#[test]
fn a_daemon_lost_early_in_a_long_attempt_is_asked_again() {
    let (fake, file, data) = uneven();
    let refused =
        [Status::UnknownHandle, Status::TryAgain, Status::StaleEpoch, Status::BadCapability];
    for fault in
        refused.map(Fault::Refused).into_iter().chain([Fault::RequestLost, Fault::ReplyLost])
    {
        fake.cluster().faults_at.push((REFUSES, fault));
        let (time, written) = timed(&fake, file.write_at(&data, 0));
        assert_eq!(written.unwrap_or_else(|error| panic!("{fault:?}: {error}")), UNEVEN);
        assert!(time > TIMEOUT && fake.cluster().faults_at.is_empty(), "{time:?}");
    }
}

#[test]
fn a_daemon_that_always_refuses_is_named_in_the_time_of_a_call() {
    for fault in [Fault::Refused(Status::TryAgain), Fault::RequestLost] {
        let (fake, file, data) = uneven();
        fake.cluster().faults_at = vec![(REFUSES, fault); 1000];
        let (time, written) = timed(&fake, file.write_at(&data, 0));
        let error = written.unwrap_err();
        assert!(error.server().unwrap().starts_with("I/O daemon 2"), "{error}");
        assert!(time <= 5 * fake.cluster().answer_time + TIMEOUT, "{fault:?}: {time:?}: I8");
    }
}

#[test]
fn a_file_truncated_during_a_long_read_is_read_again() {
    let (fake, file, data) = uneven();
    fake.cluster().faults_at.push((REFUSES, Fault::Refused(Status::StaleGeneration)));
    let mut buffer = vec![0; UNEVEN];
    let (time, read) = timed(&fake, file.read_at(&mut buffer, 0));
    assert_eq!(read.unwrap(), UNEVEN);
    assert!(time > 2 * TIMEOUT, "{time:?}: it was read twice");
    assert!(buffer == data);
}

#[test]
fn a_wait_for_a_permit_costs_no_time_and_blames_no_daemon() {
    const TURN: Duration = Duration::from_secs(100);
    let (fake, file, data) = uneven();
    for bytes in [1, WINDOW_BYTES as usize, UNEVEN] {
        for fault in [Fault::SilentAfterTurn(TURN), Fault::NotAsked(TURN)] {
            let connects = fake.cluster().connects;
            fake.cluster().faults_at.push((MOVES, fault));
            let mut buffer = vec![0; bytes];
            let (time, read) = timed(&fake, file.read_at(&mut buffer, 0));
            assert_eq!(read.unwrap_or_else(|error| panic!("{fault:?}: {error}")), bytes);
            assert!(time > TURN && buffer == data[..bytes]);
            let again = usize::from(matches!(fault, Fault::SilentAfterTurn(_)));
            assert_eq!(fake.cluster().connects, connects + again, "{fault:?}");
        }
    }
    fake.cluster().faults_at = vec![(MOVES, Fault::NotAsked(Duration::ZERO)); 1000];
    let (time, read) = timed(&fake, file.read_at(&mut vec![0; UNEVEN], 0));
    let error = read.unwrap_err();
    assert_eq!(error.server(), Some("this host's network"), "{error}");
    assert!(time <= 2 * TIMEOUT, "{time:?}: I8");
}
