//! One deadline for all calls that belong to one call of a program (I8), on an in-memory cluster
//! with a test clock.

use std::time::Duration;

use crate::fake::Fake;
use braid_client::{
    Error, OpenOptions, Status,
    asynchronous::{Client, File},
};
use braid_net::block_on;
use braid_types::IodId;

const TIMEOUT: Duration = Duration::from_secs(30);
/// The time for a query to an unresponsive server.
const PROBE: Duration = Duration::from_millis(500);
/// How long a server counts as unresponsive.
const REMEMBERED: Duration = Duration::from_secs(3);

/// The duration of the call on the cluster's clock, and its result.
fn timed<T>(
    fake: &Fake,
    call: impl Future<Output = Result<T, Error>>,
) -> (Duration, Result<T, Error>) {
    let begun = fake.cluster().now;
    let outcome = block_on(call);
    (fake.cluster().now - begun, outcome)
}

/// A client, and a file that it has written.
fn written(fake: &Fake) -> (Client<Fake>, File<Fake>) {
    let client = fake.client();
    let options = OpenOptions::new().read(true).write(true).create(true);
    let file = block_on(client.open("/f", &options)).unwrap();
    block_on(file.write_at(&[7; 12_288], 0)).unwrap();
    (client, file)
}

/// A read of a strip at the lost daemon.
fn read(file: &File<Fake>) -> impl Future<Output = Result<usize, Error>> {
    let mut buffer = [0; 4096];
    async move { file.read_at(&mut buffer, 0).await }
}

#[test]
fn the_steps_of_one_call_share_one_deadline_and_the_last_names_the_server() {
    let fake = Fake::striped();
    let client = fake.client();
    fake.cluster().mds_down = true;
    fake.bound_by(Some(TIMEOUT));
    let (first, failed) = timed(&fake, client.lstat("/f"));
    assert!(first > TIMEOUT - PROBE && first <= TIMEOUT, "{first:?}");
    assert_eq!(failed.unwrap_err().status(), Status::Unreachable);
    let (second, failed) = timed(&fake, client.lstat("/g"));
    assert!(first + second <= TIMEOUT, "{second:?}");
    let failed = failed.unwrap_err();
    assert!(failed.to_string().contains("mds:1") && failed.was_given_up(), "{failed}");
    // A step that changes something has no time of its own either.
    let (third, failed) = timed(&fake, client.mkdir("/d", 0o755));
    assert!(first + second + third <= TIMEOUT && failed.is_err(), "{third:?}");
}

#[test]
fn outside_of_a_bound_each_call_has_its_own_time() {
    let fake = Fake::striped();
    let client = fake.client();
    fake.cluster().mds_down = true;
    for _ in 0..2 {
        let (time, failed) = timed(&fake, client.lstat("/f"));
        assert!(time > TIMEOUT - PROBE && failed.is_err(), "{time:?}");
    }
}

#[test]
fn a_question_to_a_metadata_server_that_was_just_waited_for_fails_at_once() {
    let fake = Fake::striped();
    let client = fake.client();
    fake.cluster().mds_down = true;
    fake.bound_by(Some(TIMEOUT));
    assert!(block_on(client.lstat("/f")).is_err());
    fake.bound_by(Some(TIMEOUT));
    let (time, failed) = timed(&fake, client.lstat("/f"));
    assert!(time <= PROBE && failed.is_err(), "{time:?}");
    // The state ends, although another query failed meanwhile.
    fake.cluster().now += REMEMBERED;
    fake.bound_by(Some(TIMEOUT));
    let (time, failed) = timed(&fake, client.lstat("/f"));
    assert!(time > TIMEOUT - PROBE && failed.is_err(), "{time:?}");
}

#[test]
fn a_change_waits_for_its_whole_time_whatever_was_waited_for_before() {
    let fake = Fake::striped();
    let client = fake.client();
    fake.cluster().mds_down = true;
    fake.bound_by(Some(TIMEOUT));
    assert!(block_on(client.lstat("/f")).is_err());
    fake.bound_by(Some(TIMEOUT));
    let (time, failed) = timed(&fake, client.mkdir("/d", 0o755));
    assert!(time > TIMEOUT - PROBE && failed.is_err(), "{time:?}");
}

#[test]
fn a_metadata_server_that_is_back_is_called_as_usual() {
    let fake = Fake::striped();
    let client = fake.client();
    fake.cluster().mds_down = true;
    fake.bound_by(Some(TIMEOUT));
    assert!(block_on(client.mkdir("/d", 0o755)).is_err());
    fake.cluster().mds_down = false;
    fake.bound_by(Some(TIMEOUT));
    block_on(client.mkdir("/d", 0o755)).unwrap();
    block_on(client.lstat("/d")).unwrap();
}

#[test]
fn a_shorter_bound_of_the_client_itself_is_no_word_about_the_server() {
    let fake = Fake::striped();
    let client = fake.client();
    fake.cluster().mds_down = true;
    fake.bound_by(Some(TIMEOUT / 5));
    let (time, failed) = timed(&fake, client.lstat("/f"));
    assert!(time <= TIMEOUT / 5 && failed.is_err(), "{time:?}");
    fake.bound_by(Some(TIMEOUT));
    let (time, failed) = timed(&fake, client.lstat("/f"));
    assert!(time > TIMEOUT - PROBE && failed.is_err(), "{time:?}");
}

#[test]
fn a_second_read_of_a_lost_daemon_fails_quickly_unless_it_is_back() {
    let fake = Fake::striped();
    let (_client, file) = written(&fake);
    fake.cluster().answers_max = Some(0);
    fake.cluster().down.insert(IodId(1));
    fake.bound_by(Some(TIMEOUT));
    let (first, failed) = timed(&fake, read(&file));
    assert!(first > TIMEOUT - PROBE && first <= TIMEOUT, "{first:?}");
    assert!(failed.unwrap_err().to_string().contains("I/O daemon 1"));
    fake.bound_by(Some(TIMEOUT));
    let (second, failed) = timed(&fake, read(&file));
    assert!(second <= PROBE, "{second:?}");
    assert!(failed.unwrap_err().to_string().contains("I/O daemon 1"));
    fake.cluster().answers_max = None;
    fake.cluster().down.clear();
    fake.bound_by(Some(TIMEOUT));
    assert_eq!(block_on(read(&file)).unwrap(), 4096);
    // The next time it is waited for as usual.
    fake.cluster().answers_max = Some(0);
    fake.cluster().down.insert(IodId(1));
    fake.bound_by(Some(TIMEOUT));
    let (third, failed) = timed(&fake, read(&file));
    assert!(third > TIMEOUT - PROBE && failed.is_err(), "{third:?}");
}

#[test]
fn moving_bytes_extend_the_deadline_also_for_later_steps() {
    let fake = Fake::new(braid_client::Layout::one(
        braid_client::Distribution::SimpleStripe { stripe_size: 1 << 20 },
        (1..=3).map(IodId),
    ));
    let (client, file) = written(&fake);
    fake.cluster().answer_time = Duration::from_secs(3);
    fake.bound_by(Some(TIMEOUT));
    let (time, moved) = timed(&fake, async { file.write_at(&vec![7; 66 << 20], 0).await });
    assert_eq!(moved.unwrap(), 66 << 20);
    assert!(time > TIMEOUT, "{time:?}");
    block_on(client.lstat("/f")).unwrap();
}
