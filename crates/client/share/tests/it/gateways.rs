//! Gateways: their identity, their clients, and what mounts see of them.

use std::collections::BTreeSet;

use braid_client::{Config, OpenOptions};
use braid_share::{
    CLIENT_RECORD_BYTES_MAX, ClientRecord, Deny, FileIndex, OpenMode, OpenTarget, Rights, Share,
    ShareClient, ShareFile, Status,
};

use crate::support::{BOTH, Cluster, ROOT, client, create, on_both, read, refused, root, write};

on_both! {
    every_client_has_a_session_of_its_own,
    a_record_that_is_too_long_is_refused,
}

async fn every_client_has_a_session_of_its_own<S: Share>(share: S, _: FileIndex) {
    let mut sessions = BTreeSet::from([share.own_client().session()]);
    for _ in 0..3 {
        assert!(sessions.insert(client(&share).await.session()));
    }
    assert_ne!(share.gateway_id(), 0);
    share.own_client().attributes(&root(), ROOT).await.expect("the root");
}

async fn a_record_that_is_too_long_is_refused<S: Share>(share: S, _: FileIndex) {
    let record = |bytes| ClientRecord { name: "c".into(), record: vec![0; bytes] };
    let long = share.begin_client(record(CLIENT_RECORD_BYTES_MAX + 1)).await;
    assert_eq!(refused(long), Status::LimitExceeded);
    share.begin_client(record(CLIENT_RECORD_BYTES_MAX)).await.expect("the longest one");
}

fn on_two_gateways<F: Future<Output = ()>>(
    test: impl FnOnce(braid_share::cluster::ClusterShare, braid_share::cluster::ClusterShare) -> F,
) {
    let cluster = Cluster::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        test(cluster.gateway().await, cluster.gateway().await).await;
    });
}

#[test]
fn clients_of_two_gateways_of_a_cluster_conflict_as_those_of_one() {
    on_two_gateways(async |here, there| {
        assert_eq!(here.file_system(), there.file_system());
        assert_ne!(here.gateway_id(), there.gateway_id());
        let (one, other) = (client(&here).await, client(&there).await);
        let file = create(&one, ROOT, "f").await;
        write(&file, 0, b"bytes").await;
        let target = OpenTarget::File(file.index());
        let exclusive = OpenMode { rights: Rights::READ, deny: Deny::WRITE };
        let excluded = other.open(&root(), target.clone(), exclusive).await;
        assert_eq!(refused(excluded), Status::SharingViolation);
        file.close().await.expect("a close");
        let held = other.open(&root(), target.clone(), exclusive).await.expect("it was closed");
        assert_eq!(read(&held.file, 0, 9).await.0, b"bytes");
        assert_eq!(refused(one.open(&root(), target, BOTH).await), Status::SharingViolation);
    });
}

#[test]
fn a_client_of_the_library_and_a_protocol_client_see_each_other() {
    let cluster = Cluster::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let share = cluster.gateway().await;
        let client = client(&share).await;
        let file = create(&client, ROOT, "f").await;
        write(&file, 0, b"from the gateway").await;
        let native = cluster.admin().open("/f", &OpenOptions::new().read(true).write(true));
        let native = native.expect("an open");
        let mut bytes = [0; 32];
        let count = native.read_at(&mut bytes, 0).expect("a read");
        assert_eq!(&bytes[..count], b"from the gateway");
        native.write_at(b"FROM", 0).expect("a write");
        assert_eq!(read(&file, 0, 4).await.0, b"FROM");
        let denied = OpenMode { rights: Rights::READ, deny: Deny::WRITE };
        assert_eq!(refused(file.set_mode(denied).await), Status::SharingViolation);
    });
}

#[test]
fn a_configuration_without_the_cluster_is_refused() {
    let config = Config::new(["127.0.0.1:1"], braid_client::Credential::Agent("/none".into()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let refused = runtime
        .expect("a runtime")
        .block_on(braid_share::cluster::ClusterShare::connect(config))
        .expect_err("no cluster is named");
    assert_eq!(refused.status(), Status::Invalid);
    assert!(refused.to_string().contains("cluster.uuid"), "{refused}");
}
