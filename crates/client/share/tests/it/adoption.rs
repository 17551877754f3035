//! The next start of a gateway continues the sessions of the earlier one. ADR 0040.

use std::time::{Duration, Instant};

use braid_share::{
    AdoptedClient, ClientRecord, Deny, FileIndex, Lock, OpenMode, OpenTarget, Rights, Share,
    ShareClient, ShareFile, Status, cluster::ClusterShare,
};

use crate::support::{Cluster, ROOT, create_target, read, refused, root, write};

const EXCLUSIVE: OpenMode = OpenMode { rights: Rights::READ_WRITE, deny: Deny::WRITE };

fn on_a_cluster<F: Future<Output = ()>>(test: impl FnOnce(Cluster) -> F) {
    let cluster = Cluster::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(test(cluster));
}

/// Runs the earlier start of a gateway in a runtime of its own, whose end closes its connections
/// as the end of a process does, without an end of its sessions.
fn earlier_start<T: Send + 'static, F: Future<Output = T> + Send>(
    cluster: &Cluster,
    name: &str,
    work: impl FnOnce(ClusterShare) -> F + Send + 'static,
) -> T {
    let config = cluster.config.clone();
    let name = name.to_owned();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let done = runtime.block_on(async {
            let share = ClusterShare::connect_as(config, &name).await.expect("a gateway");
            work(share).await
        });
        runtime.shutdown_background();
        done
    });
    thread.join().expect("the earlier start")
}

fn record(bytes: &[u8]) -> ClientRecord {
    ClientRecord { name: "client".into(), record: bytes.to_vec() }
}

/// A client with an open that denies writing, and a lock. Nothing of it is dropped, so that nothing
/// is closed.
async fn client_with_state(share: ClusterShare) -> FileIndex {
    let client = share.begin_client(record(b"one")).await.expect("a session");
    let opened = client.open(&root(), create_target(ROOT, "f"), EXCLUSIVE).await;
    let file = opened.expect("a new file").file;
    write(&file, 0, b"bytes").await;
    file.commit().await.expect("a commit");
    let lock = Lock { owner: 77, start: 10, last: 19, exclusive: true };
    assert_eq!(client.lock(file.index(), lock).await.expect("a lock"), None);
    let index = file.index();
    std::mem::forget((file, client, share));
    index
}

async fn one_adopted<S: Share>(share: &S) -> AdoptedClient<S::Client> {
    let mut adopted = share.adopt_clients().await.expect("the clients of the earlier start");
    assert_eq!(adopted.len(), 1, "{} sessions", adopted.len());
    adopted.pop().expect("one")
}

#[test]
fn what_is_adopted_is_reclaimed_from_a_restarted_metadata_server() {
    on_a_cluster(async |mut cluster| {
        let index = earlier_start(&cluster, "g", client_with_state);
        let next = ClusterShare::connect_as(cluster.config.clone(), "g").await.expect("a gateway");
        let AdoptedClient { client, opens, .. } = one_adopted(&next).await;
        let file = client.reclaim_open(&root(), opens[0]).await.expect("the open");
        cluster.restart_mds();
        // The channel of recalls is the first to notice it.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let wanted = Lock { owner: 1, start: 0, last: 99, exclusive: true };
        let held = client.test_lock(index, wanted).await.expect("a test of a lock");
        assert_eq!(held.map(|held| held.owner), Some(77));
        assert_eq!(read(&file, 0, 10).await.0, b"bytes");
    });
}

#[test]
fn opens_denials_and_locks_survive_a_restart_of_the_gateway() {
    on_a_cluster(async |cluster| {
        let index = earlier_start(&cluster, "g", client_with_state);
        let other = cluster.gateway().await;
        let other = crate::support::client(&other).await;
        let target = OpenTarget::File(index);
        let writes = OpenMode { rights: Rights::WRITE, deny: Deny::NONE };
        let wanted = Lock { owner: 1, start: 0, last: 99, exclusive: true };
        let conflicts = async || {
            let refusal = refused(other.open(&root(), target.clone(), writes).await);
            assert_eq!(refusal, Status::SharingViolation);
            let holder = other.test_lock(index, wanted).await.expect("a test of a lock");
            assert_eq!(holder.map(|holder| (holder.start, holder.last)), Some((10, 19)));
        };
        conflicts().await;

        let share = ClusterShare::connect_as(cluster.config.clone(), "g").await.expect("a name");
        let adopted = one_adopted(&share).await;
        conflicts().await;
        assert_eq!(adopted.record, b"one");
        let modes: Vec<_> = adopted.opens.iter().map(|open| (open.file, open.mode)).collect();
        assert_eq!(modes, [(index, EXCLUSIVE)]);
        let lock = Lock { owner: 77, start: 10, last: 19, exclusive: true };
        assert_eq!(adopted.locks, [(index, lock)]);

        let client = adopted.client;
        let file = client.reclaim_open(&root(), adopted.opens[0]).await.expect("the open");
        assert_eq!(read(&file, 0, 9).await, (b"bytes".to_vec(), true));
        write(&file, 5, b" and more").await;
        assert_eq!(client.lock(index, lock).await.expect("the same lock"), None);
        conflicts().await;
        client.unlock(index, lock).await.expect("an unlock");
        assert_eq!(other.test_lock(index, wanted).await.expect("a test of a lock"), None);
        file.close().await.expect("a close");
        let opened = other.open(&root(), target.clone(), EXCLUSIVE).await.expect("it was closed");
        assert_eq!(read(&opened.file, 0, 99).await.0, b"bytes and more");
    });
}

/// A client with a delegation to write. Nothing of it is dropped.
async fn client_with_delegation(share: ClusterShare) -> FileIndex {
    let client = share.begin_client(record(b"one")).await.expect("a session");
    let both = OpenMode { rights: Rights::READ_WRITE, deny: Deny::NONE };
    let opened = client.open(&root(), create_target(ROOT, "f"), both).await;
    let file = opened.expect("a new file").file;
    assert!(client.delegate(file.index(), true).await.expect("an answer"), "no delegation");
    let index = file.index();
    std::mem::forget((file, client, share));
    index
}

#[test]
fn delegations_of_the_earlier_start_give_way_to_others() {
    on_a_cluster(async |cluster| {
        let index = earlier_start(&cluster, "g", client_with_delegation);
        let share = ClusterShare::connect_as(cluster.config.clone(), "g").await.expect("a name");
        let adopted = one_adopted(&share).await;
        let other = cluster.gateway().await;
        let other = crate::support::client(&other).await;
        let begun = Instant::now();
        other.attributes(&root(), index).await.expect("the attributes");
        assert!(begun.elapsed() < Duration::from_secs(4), "it waited for the delegation");
        assert_eq!(adopted.opens.len(), 1);
        adopted.client.release_open(adopted.opens[0]).await.expect("its open is there still");
    });
}

#[test]
fn an_open_that_is_not_reclaimed_is_released() {
    on_a_cluster(async |cluster| {
        let index = earlier_start(&cluster, "g", client_with_state);
        let share = ClusterShare::connect_as(cluster.config.clone(), "g").await.expect("a name");
        let adopted = one_adopted(&share).await;
        adopted.client.release_open(adopted.opens[0]).await.expect("a close");
        let other = crate::support::client(&share).await;
        other.open(&root(), OpenTarget::File(index), EXCLUSIVE).await.expect("it was closed");
    });
}

#[test]
fn the_next_start_may_end_too_and_the_one_after_it_continues() {
    on_a_cluster(async |cluster| {
        let index = earlier_start(&cluster, "g", client_with_state);
        earlier_start(&cluster, "g", async |share: ClusterShare| {
            let adopted = one_adopted(&share).await;
            let file = adopted.client.reclaim_open(&root(), adopted.opens[0]).await;
            std::mem::forget((file, adopted, share));
        });
        let share = ClusterShare::connect_as(cluster.config.clone(), "g").await.expect("a name");
        let adopted = one_adopted(&share).await;
        assert_eq!(adopted.opens.len(), 1);
        let file = adopted.client.reclaim_open(&root(), adopted.opens[0]).await.expect("the open");
        write(&file, 0, b"BYTES").await;
        assert_eq!(file.index(), index);
    });
}

#[test]
fn sessions_of_other_names_are_left_alone() {
    on_a_cluster(async |cluster| {
        let index = earlier_start(&cluster, "g", client_with_state);
        let other = ClusterShare::connect_as(cluster.config.clone(), "h").await.expect("a name");
        assert!(other.adopt_clients().await.expect("none").is_empty());
        let unnamed = cluster.gateway().await;
        assert!(unnamed.adopt_clients().await.expect("none").is_empty());
        let other = crate::support::client(&other).await;
        let refusal = refused(other.open(&root(), OpenTarget::File(index), EXCLUSIVE).await);
        assert_eq!(refusal, Status::SharingViolation);
    });
}
