//! Sessions, and what the share and the kernel hold of the union's nodes.

use std::collections::BTreeSet;

use braid_share::{CLIENT_RECORD_BYTES_MAX, ClientRecord, Share, ShareClient, ShareFile, Status};
use braid_union::NodeId;

use crate::support::{Fixture, ROOT, client, create, look_up, mkdir, refused, root, run};

#[test]
fn every_client_has_a_session_of_its_own_also_after_a_restart() {
    let Some(fixture) = Fixture::new(1, "first") else { return };
    let mut sessions = BTreeSet::new();
    let mut gateways = BTreeSet::new();
    let mut fixture = fixture;
    for _ in 0..3 {
        let share = fixture.share.clone();
        assert!(gateways.insert(share.gateway_id()));
        assert!(sessions.insert(share.own_client().session()));
        run(async { assert!(sessions.insert(client(&share).await.session())) });
        let long = ClientRecord { name: "c".into(), record: vec![0; CLIENT_RECORD_BYTES_MAX + 1] };
        run(async {
            assert_eq!(refused(share.begin_client(long).await), Status::LimitExceeded);
        });
        drop(share);
        fixture = fixture.restarted(|_| {});
    }
}

#[test]
fn nobody_waits_for_a_recall_after_the_end_of_a_session() {
    let Some(fixture) = Fixture::new(1, "first") else { return };
    run(async {
        let one = client(&fixture.share).await;
        let index = create(&one, ROOT, "f").await.index();
        assert!(!one.delegate(index, false).await.expect("an answer"));
        let (recall, ()) = tokio::join!(one.next_recall(), one.clone().end());
        assert_eq!(recall, None);
    });
}

#[test]
fn the_share_and_the_kernel_count_their_lookups_apart() {
    let Some(fixture) = Fixture::new(1, "first") else { return };
    let union = std::sync::Arc::clone(&fixture.union);
    // As the kernel does for a program on the mount.
    let (of_kernel, index) = run(async {
        let own = fixture.own();
        let dir = mkdir(&own, ROOT, "d", 0o755).await;
        create(&own, dir, "f").await.close().await.unwrap();
        let dir_node = union.look_up(NodeId::ROOT, b"d").unwrap().node;
        let node = union.look_up(dir_node, b"f").unwrap().node;
        let index = look_up(&own, dir, "f").await.file;
        // The kernel forgets: the share's lookups remain.
        union.forget(node, 1);
        union.forget(dir_node, 1);
        own.attributes(&root(), index).await.expect("the share still has the file");
        look_up(&own, dir, "f").await;
        let dir_node = union.look_up(NodeId::ROOT, b"d").unwrap().node;
        ((dir_node, union.look_up(dir_node, b"f").unwrap().node), index)
    });
    let Fixture { share, union: other, dir: _dir, .. } = fixture;
    drop((share, other));
    // The share has forgotten: the kernel's lookups remain.
    union.attributes(of_kernel.1).expect("the kernel still has the file");
    assert_eq!(union.nodes(), 3, "the root, the directory and the file");
    union.forget(of_kernel.1, 1);
    union.forget(of_kernel.0, 1);
    assert_eq!(union.nodes(), 1, "index {}", index.0);
}
