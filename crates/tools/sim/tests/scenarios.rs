//! Single faults by name: each test name reads as a sentence.

use std::time::Duration;

use braid_client::{Error, OpenOptions, Status, message::mds::RenameMode, message::mds::XattrMode};
use braid_sim::{
    cluster::{Cluster, ClusterSize, Node},
    driver::SimDriver,
    network::LinkConditions,
};
use braid_wire::{Call, message::mds};

type File = braid_client::asynchronous::File<SimDriver>;

const SECOND: Duration = Duration::from_secs(1);

fn cluster(seed: u64) -> Cluster {
    Cluster::start(seed, ClusterSize { iods: 3, clients: 2 }, true)
}

/// Client 0 creates a file with these bytes in stripes of 4 KiB over three daemons, unsynced.
fn written(cluster: &Cluster, bytes: usize) -> File {
    cluster.client(0, move |client| async move {
        let options =
            OpenOptions::new().read(true).write(true).create(true).stripe_size(4096).iod_count(3);
        let file = client.open("/f", &options).await.unwrap();
        file.write_at(&vec![7; bytes], 0).await.unwrap();
        file
    })
}

fn write(cluster: &Cluster, file: &File, bytes: Vec<u8>, offset: u64) -> Result<usize, Error> {
    let file = file.clone();
    cluster.client(0, move |_| async move { file.write_at(&bytes, offset).await })
}

fn sync(cluster: &Cluster, file: &File) -> Result<(), Error> {
    let file = file.clone();
    cluster.client(0, move |_| async move { file.sync().await.map(drop) })
}

fn read(cluster: &Cluster, client: usize) -> Result<Vec<u8>, Error> {
    cluster.client(client, |client| async move {
        let file = client.open("/f", &OpenOptions::new().read(true)).await?;
        let mut buffer = vec![0xee; 200_000];
        let got = file.read_at(&mut buffer, 0).await?;
        buffer.truncate(got);
        Ok(buffer)
    })
}

fn size(cluster: &Cluster, client: usize) -> u64 {
    cluster.client(client, |client| async move { client.stat("/f").await.unwrap().bytes.0 })
}

#[test]
fn fsync_does_not_acknowledge_a_write_that_a_power_loss_removed() {
    let cluster = cluster(1);
    let file = written(&cluster, 100_000);
    cluster.power_loss(Node::Iod(1));
    cluster.advance(SECOND);
    cluster.restart(Node::Iod(1));
    assert_eq!(sync(&cluster, &file).unwrap_err().status(), Status::UnsyncedDataLost);
    assert_eq!(
        write(&cluster, &file, vec![8; 100_000], 0).unwrap_or(0),
        100_000,
        "written again from its source"
    );
    sync(&cluster, &file).unwrap();
    cluster.power_loss(Node::Iod(1));
    cluster.restart(Node::Iod(1));
    assert_eq!(read(&cluster, 1).unwrap(), vec![8; 100_000]);
}

#[test]
fn what_fsync_acknowledged_survives_the_loss_of_power_everywhere() {
    let cluster = cluster(2);
    let file = written(&cluster, 100_000);
    sync(&cluster, &file).unwrap();
    let all = [Node::Mds, Node::Iod(0), Node::Iod(1), Node::Iod(2)];
    all.iter().for_each(|node| cluster.power_loss(*node));
    cluster.advance(SECOND);
    all.iter().for_each(|node| cluster.restart(*node));
    assert_eq!(read(&cluster, 1).unwrap(), vec![7; 100_000]);
}

#[test]
fn what_was_acknowledged_survives_the_kill_of_every_process() {
    let cluster = cluster(3);
    drop(written(&cluster, 100_000));
    let all = [Node::Client(0), Node::Mds, Node::Iod(0), Node::Iod(1), Node::Iod(2)];
    all.iter().for_each(|node| cluster.kill(*node));
    all.iter().for_each(|node| cluster.restart(*node));
    assert_eq!((size(&cluster, 1), read(&cluster, 1).unwrap()), (100_000, vec![7; 100_000]));
}

/// Truncates to `to` bytes while a write is in flight, and kills `victim` after `after`
/// microseconds.
fn truncate_with_a_write_in_flight(to: u64, victim: Node, after: u64) {
    let cluster = cluster(4);
    let file = written(&cluster, 60_000);
    let (life, ..) = cluster.clients[0].start();
    let (writer, cutter) = (file.clone(), file.clone());
    cluster.world.spawn(&life, async move { drop(writer.write_at(&[9; 30_000], 20_000).await) });
    cluster.world.spawn(&life, async move { drop(cutter.set_len(to).await) });
    cluster.advance(Duration::from_micros(after));
    cluster.kill(victim);
    cluster.advance(2 * SECOND);
    cluster.restart(victim);
    cluster.advance(60 * SECOND);
    let (seen, bytes) = (size(&cluster, 1), read(&cluster, 1).unwrap());
    assert_eq!(seen, bytes.len() as u64, "stat and read agree (I5)");
    assert!(
        seen == to || seen == to.max(50_000) || seen == 60_000,
        "truncated to {to}: the size is {seen}"
    );
    let old_or_new = |(at, byte): (usize, &u8)| match *byte {
        7 => (at as u64) < 60_000.min(seen),
        9 => (20_000..50_000).contains(&at),
        byte => byte == 0 && at as u64 >= to.min(60_000),
    };
    assert!(
        bytes.iter().enumerate().all(old_or_new),
        "every byte is an old one, a new one, or a truncated zero"
    );
}

#[test]
fn truncate_beside_a_write_in_flight_survives_a_kill_at_any_step() {
    for to in [0, 8192, 10_000, 35_000, 90_000] {
        for victim in [Node::Mds, Node::Iod(0), Node::Iod(2)] {
            (0..24).for_each(|step| truncate_with_a_write_in_flight(to, victim, step * 150));
        }
    }
}

/// The server executes the call and dies before it replies; the client's retry must get the same
/// reply.
fn died_before_answering<
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
>(
    op: u16,
    call: impl FnOnce(braid_client::asynchronous::Client<SimDriver>) -> F,
) {
    let cluster = cluster(5);
    drop(written(&cluster, 10_000));
    cluster.client(0, |client| async move {
        client.mkdir("/d", 0o755).await.unwrap();
        client.set_xattr("/f", b"user.x", b"1", XattrMode::Either).await.unwrap();
    });
    cluster.mds.die_before_answering(op);
    let (mds, world) = (std::sync::Arc::clone(&cluster.mds), cluster.world.clone());
    cluster.world.spawn(&braid_sim::world::ProcessLife::new(), async move {
        while mds.is_running() {
            world.sleep(Duration::from_millis(1)).await;
        }
        mds.start().unwrap();
    });
    let outcome = cluster.client(0, call);
    assert!(outcome.is_ok(), "message {op:#06x}: {}", outcome.err().unwrap());
    assert!(
        cluster.world.trace().to_string().contains("dies before the answer"),
        "message {op:#06x} was not met"
    );
}

#[test]
fn the_mds_killed_between_commit_and_answer_does_every_call_once() {
    died_before_answering(mds::Create::OP, |c| async move {
        c.touch("/n", 0o644, true, Default::default()).await
    });
    died_before_answering(mds::MakeDirectory::OP, |c| async move { c.mkdir("/n", 0o755).await });
    died_before_answering(mds::MakeSymlink::OP, |c| async move { c.symlink("/n", b"f").await });
    died_before_answering(mds::MakeLink::OP, |c| async move { c.hard_link("/f", "/n").await });
    died_before_answering(mds::Unlink::OP, |c| async move { c.unlink("/f").await });
    died_before_answering(mds::RemoveDirectory::OP, |c| async move { c.rmdir("/d").await });
    died_before_answering(mds::Rename::OP, |c| async move {
        c.rename("/f", "/n", RenameMode::NoReplace).await
    });
    died_before_answering(mds::SetAttributes::OP, |c| async move { c.truncate("/f", 5000).await });
    died_before_answering(mds::SetXattr::OP, |c| async move {
        c.set_xattr("/f", b"user.n", b"2", XattrMode::Create).await
    });
    died_before_answering(mds::RemoveXattr::OP, |c| async move {
        c.remove_xattr("/f", b"user.x").await
    });
    died_before_answering(mds::LayoutSet::OP, |c| async move {
        c.set_layout("/d", Default::default()).await
    });
    died_before_answering(mds::Open::OP, |c| async move {
        c.open("/f", &OpenOptions::new().write(true)).await
    });
}

#[test]
fn a_fenced_client_that_goes_on_writing_is_refused() {
    let cluster = cluster(6);
    let file = written(&cluster, 10_000);
    cluster.partition(Node::Client(0), Node::Mds);
    cluster.advance(120 * SECOND);
    let refused = write(&cluster, &file, vec![9; 10_000], 0).unwrap_err();
    assert_eq!(refused.status(), Status::Fenced);
    assert_eq!(read(&cluster, 1).unwrap(), vec![7; 10_000], "nothing of it is there");
}

#[test]
fn a_client_cut_off_from_the_mds_reads_and_writes_on_and_is_told_in_time() {
    let cluster = cluster(7);
    let file = written(&cluster, 10_000);
    cluster.partition(Node::Client(0), Node::Mds);
    assert_eq!(write(&cluster, &file, vec![8; 10_000], 0).unwrap_or(0), 10_000, "I1");
    let before = cluster.world.now();
    let refused = cluster.client(0, |client| async move { client.stat("/f").await }).unwrap_err();
    assert_eq!(refused.status(), Status::Unreachable);
    assert!(refused.server().is_some_and(|server| server.contains("metadata server")), "{refused}");
    assert!(cluster.world.now() - before <= 31 * SECOND, "I8");
    cluster.heal(Node::Client(0), Node::Mds);
    assert_eq!(size(&cluster, 0), 10_000);
}

#[test]
fn an_iod_that_is_down_gets_no_new_files_and_is_named_in_errors_in_time() {
    let cluster = cluster(8);
    let file = written(&cluster, 100_000);
    let down = cluster.iods[1].id();
    cluster.kill(Node::Iod(1));
    cluster.advance(10 * SECOND);
    let layout = cluster.client(0, |client| async move {
        let file = client.open("/new", &OpenOptions::new().write(true).create(true)).await.unwrap();
        file.write_at(&[1; 10_000], 0).await.unwrap();
        file.layout()
    });
    assert!(layout.parts_on(down).is_empty(), "new files avoid it");
    let before = cluster.world.now();
    let failed = write(&cluster, &file, vec![9; 100_000], 0).unwrap_err();
    assert!(
        failed.server().is_some_and(|server| server.contains(&format!("I/O daemon {down}"))),
        "{failed}"
    );
    assert!(cluster.world.now() - before <= 31 * SECOND, "I8");
}

#[test]
fn a_stat_and_an_open_that_wait_for_an_iod_name_it_and_not_the_mds() {
    let names_it = |daemon: &str, what: &str, error: Error| {
        assert!(error.server().is_some_and(|server| server.starts_with(daemon)), "{what}: {error}");
        assert_eq!(error.status(), Status::Unreachable, "{what}: {error}");
        assert!(!error.to_string().contains("metadata server"), "{what}: {error}");
    };
    for killed in [false, true] {
        let cluster = cluster(8);
        let _written = written(&cluster, 100_000);
        let daemon = format!("I/O daemon {} at", cluster.iods[1].id());
        if killed {
            cluster.kill(Node::Iod(1))
        } else {
            cluster.partition(Node::Iod(1), Node::Mds)
        }
        // Immediately, before the server knows that it is down, and then when the server knows.
        for what in ["cut just now", "known as down"] {
            let before = cluster.world.now();
            let error =
                cluster.client(1, |client| async move { client.stat("/f").await }).unwrap_err();
            names_it(&daemon, what, error);
            let read = OpenOptions::new().read(true);
            names_it(
                &daemon,
                what,
                cluster
                    .client(1, |client| async move { client.open("/f", &read).await })
                    .unwrap_err(),
            );
            assert!(cluster.world.now() - before <= 62 * SECOND, "I8");
        }
    }
}

#[test]
fn an_unresponsive_daemon_is_waited_for_once_until_it_is_back() {
    let cluster = cluster(8);
    let _written = written(&cluster, 100_000);
    let stat = || {
        let before = cluster.world.now();
        let found = cluster.client(1, |client| async move { client.stat("/f").await });
        (found.map(|attributes| attributes.bytes.0), cluster.world.now() - before)
    };
    for outage in ["first", "second"] {
        cluster.kill(Node::Iod(1));
        let (found, took) = stat();
        assert!(
            found.is_err() && took > 20 * SECOND,
            "{outage}: it may come back: {took:?} {found:?}"
        );
        for _ in 0..3 {
            let (found, took) = stat();
            let error = found.unwrap_err();
            assert!(
                error.server().is_some_and(|server| server.starts_with("I/O daemon 2 at")),
                "{outage}: {error}"
            );
            assert_eq!(error.status(), Status::Unreachable, "{outage}: {error}");
            assert!(took < SECOND, "{outage}: {took:?}");
        }
        cluster.restart(Node::Iod(1));
        cluster.advance(5 * SECOND);
        assert_eq!(stat().0.unwrap(), 100_000, "{outage}");
    }
}

#[test]
fn an_iod_cut_off_from_the_mds_stops_serving_by_itself() {
    let cluster = cluster(9);
    let file = written(&cluster, 10_000);
    (0..3).for_each(|iod| cluster.partition(Node::Iod(iod), Node::Mds));
    cluster.advance(15 * SECOND);
    let refused = write(&cluster, &file, vec![9; 10_000], 0).unwrap_err();
    assert_eq!(refused.status(), Status::NotServing);
    (0..3).for_each(|iod| cluster.heal(Node::Iod(iod), Node::Mds));
    cluster.advance(5 * SECOND);
    assert_eq!(write(&cluster, &file, vec![9; 10_000], 0).unwrap_or(0), 10_000);
}

/// A write is given up and repeated over another connection, the program writes again, and then the
/// first attempt arrives. Returns the final content of the file.
fn a_first_write_that_comes_late(ignored: bool) -> Vec<u8> {
    let cluster = cluster(10);
    let file = written(&cluster, 4096);
    if ignored {
        cluster.iods.iter().for_each(|iod| iod.ignore_abandon());
    }
    let calm = cluster.network.link_conditions();
    let slow = LinkConditions { delay_min: 20 * SECOND, delay_max: 21 * SECOND, ..calm.clone() };
    let (life, ..) = cluster.clients[0].start();
    let writer = file.clone();
    cluster.network.set_link_conditions(slow);
    cluster.world.spawn(&life, async move {
        assert_eq!(writer.write_at(&[8; 4096], 0).await.unwrap(), 4096)
    });
    cluster.advance(Duration::from_micros(1));
    cluster.network.set_link_conditions(calm);
    cluster.advance(15 * SECOND);
    assert_eq!(read(&cluster, 1).unwrap(), vec![8; 4096], "repeated by now");
    assert_eq!(write(&cluster, &file, vec![9; 4096], 0).unwrap_or(0), 4096);
    cluster.advance(15 * SECOND);
    read(&cluster, 1).unwrap()
}

#[test]
fn a_repeated_write_does_not_overwrite_later_writes() {
    assert_eq!(a_first_write_that_comes_late(false), vec![9; 4096]);
    assert_eq!(
        a_first_write_that_comes_late(true),
        vec![8; 4096],
        "and would, if connections were not abandoned"
    );
}

#[test]
fn a_client_that_outlives_the_power_of_the_metadata_server_loses_no_size() {
    let cluster = cluster(11);
    let file = written(&cluster, 10_000);
    sync(&cluster, &file).unwrap();
    // Opened again, so that the size mark and the record of the open are younger than what was
    // forced.
    cluster.client(0, move |_| async move { file.close().await.unwrap() });
    cluster.client(0, |client| async move { client.flush_closes().await.unwrap() });
    cluster.advance(10 * SECOND);
    let status = cluster.client(1, |client| async move { client.mds_status().await.unwrap() });
    assert_eq!(
        status.sizes_in_objects, 0,
        "no size mark is left that could be mistaken for the one that is lost"
    );
    cluster.client(0, |client| async move { client.sync_directory("/").await.unwrap() });
    let file = written(&cluster, 20_000);
    cluster.power_loss(Node::Mds);
    cluster.advance(SECOND);
    write(&cluster, &file, vec![8; 10_000], 20_000).unwrap();
    cluster.restart(Node::Mds);
    cluster.advance(SECOND);
    assert_eq!(
        size(&cluster, 1),
        30_000,
        "collected from the daemons while its writer may not have reclaimed yet"
    );
    cluster.advance(20 * SECOND);
    assert_eq!(
        size(&cluster, 1),
        30_000,
        "its writer has reclaimed without a call of its own: the size mark is set"
    );
    write(&cluster, &file, vec![9; 10_000], 30_000).unwrap();
    assert_eq!(size(&cluster, 1), 40_000);
    cluster.client(0, move |_| async move { file.close().await.unwrap() });
    cluster.client(0, |client| async move { client.flush_closes().await.unwrap() });
    cluster.advance(10 * SECOND);
    let status = cluster.client(1, |client| async move { client.mds_status().await.unwrap() });
    assert_eq!(
        (status.open_files, status.sizes_in_objects),
        (0, 0),
        "a close after the restart closes"
    );
    assert_eq!(size(&cluster, 1), 40_000);
}

#[test]
fn an_idle_reader_keeps_its_unlinked_file_over_an_mds_restart() {
    let cluster = cluster(12);
    let file = written(&cluster, 10_000);
    cluster.client(0, move |_| async move { file.close().await.unwrap() });
    let reader = cluster.client(1, |client| async move {
        client.open("/f", &OpenOptions::new().read(true)).await.unwrap()
    });
    cluster.client(0, |client| async move { client.unlink("/f").await.unwrap() });
    cluster.kill(Node::Mds);
    cluster.restart(Node::Mds);
    cluster.advance(60 * SECOND);
    let bytes = cluster.client(1, move |_| async move {
        let mut buffer = vec![0; 20_000];
        let got = reader.read_at(&mut buffer, 0).await.unwrap();
        buffer.truncate(got);
        buffer
    });
    assert_eq!(bytes, vec![7; 10_000]);
}

#[test]
fn an_unsynced_file_after_an_iod_power_loss_has_a_readable_size() {
    // Closed, collected, being recorded, recorded: the moment of the power loss decides what is
    // left.
    for (seed, millis) in (10..40).zip([20, 400, 4900, 5000, 5100, 5250, 6500].into_iter().cycle())
    {
        let cluster = cluster(seed);
        let file = written(&cluster, 100_000);
        cluster.client(0, move |_| async move { file.close().await.unwrap() });
        cluster.advance(Duration::from_millis(millis));
        cluster.power_loss(Node::Iod(1));
        cluster.advance(SECOND);
        cluster.restart(Node::Iod(1));
        cluster.advance(2 * SECOND);
        let seen = size(&cluster, 1);
        assert_eq!(read(&cluster, 1).unwrap().len() as u64, seen, "seed {seed}, after {millis} ms");
        cluster.advance(10 * SECOND);
        assert_eq!((size(&cluster, 0), read(&cluster, 0).unwrap().len() as u64), (seen, seen));
        let status = cluster.client(0, |client| async move { client.mds_status().await.unwrap() });
        assert_eq!(status.sizes_in_objects, 0, "and its size is recorded in the end");
    }
}
