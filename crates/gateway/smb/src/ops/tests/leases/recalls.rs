//! Delegations at the metadata server, and their recalls by other machines.

use super::*;

/// Another client of the file system: a mount, or a client of another gateway.
pub(super) async fn another(server: &SmbServer<MemoryShare>) -> MemoryClient {
    let record = braid_share::ClientRecord { name: "mount".to_owned(), record: Vec::new() };
    server.share.another_gateway().begin_client(record).await.unwrap()
}

pub(super) async fn find(client: &MemoryClient) -> FileIndex {
    client.look_up(&Identity::root(), FileIndex::ROOT, b"file").await.unwrap().file
}

async fn open_to(
    client: &MemoryClient,
    file: FileIndex,
    rights: Rights,
) -> <MemoryClient as ShareClient>::File {
    let mode = OpenMode { rights, deny: Deny::NONE };
    let opened = client.open(&Identity::root(), OpenTarget::File(file), mode).await;
    opened.unwrap().file
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_bounded_by_a_delegation() {
    let server = server().await;
    let mount = another(&server).await;
    let file = find(&mount).await;
    let (one, _) = client_of(&server, 1).await;
    let reader = open_to(&mount, file, Rights::READ).await;
    let (first, granted) = one.lease(BOTH, KEY, ALL).await;
    assert_eq!(granted, RH, "somebody else has it open");
    assert_eq!(server.share.delegation_count(), 1);
    one.close(first).await.unwrap();
    one.assert_none_delegated().await;
    reader.close().await.unwrap();
    let writer = open_to(&mount, file, Rights::WRITE).await;
    let (first, granted) = one.lease(BOTH, KEY, ALL).await;
    assert_eq!(granted, NONE, "somebody else writes it");
    one.close(first).await.unwrap();
    writer.close().await.unwrap();
    let (first, granted) = one.lease(READ, KEY, ALL).await;
    assert_eq!(granted, RH, "the session cannot write it");
    one.close(first).await.unwrap();
    one.assert_nothing_leased().await;
}

impl Client {
    async fn assert_none_delegated(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(self.share().delegation_count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_by_another_machine_breaks_writing_only() {
    let server = server().await;
    let mount = another(&server).await;
    let (one, mut notices) = client_of(&server, 1).await;
    let (first, _) = one.lease(BOTH, KEY, ALL).await;
    let looking = tokio::spawn({
        let mount = mount.clone();
        async move { find(&mount).await }
    });
    assert_eq!(notices.lease().await, (KEY, ALL, RH, true));
    super::super::data::write(&one, first, 0, b"buffered bytes").await.unwrap();
    assert!(!looking.is_finished(), "the client has not acknowledged");
    one.keep(RH);
    let file = looking.await.unwrap();
    let known = mount.attributes(&Identity::root(), file).await.unwrap();
    assert_eq!(known.bytes.0, 14);
    assert_eq!(server.share.delegation_count(), 1, "it caches what it reads");
    notices.assert_none().await;
}

#[tokio::test(start_paused = true)]
async fn a_writer_on_another_machine_breaks_everything() {
    let server = server().await;
    let mount = another(&server).await;
    let file = find(&mount).await;
    let (one, mut notices) = client_of(&server, 1).await;
    let (first, granted) = one.lease(READ, KEY, RH).await;
    assert_eq!(granted, RH);
    let opening = tokio::spawn(async move { open_to(&mount, file, Rights::WRITE).await });
    assert_eq!(notices.lease().await, (KEY, RH, NONE, true));
    assert!(!opening.is_finished());
    one.keep(NONE);
    opening.await.unwrap();
    one.close(first).await.unwrap();
    let (_, granted) = one.lease(READ, KEY, RH).await;
    assert_eq!(granted, NONE, "it would be recalled again");
}

#[tokio::test(start_paused = true)]
async fn an_open_by_a_client_of_another_machine_waits_as_well() {
    let server = server().await;
    let (one, mut notices) = client_of(&server, 1).await;
    let (two, _) = client_of(&server, 2).await;
    one.lease(BOTH, KEY, ALL).await;
    let opening = tokio::spawn(async move { two.open("file", READ).await });
    assert_eq!(notices.lease().await, (KEY, ALL, RH, true));
    assert!(!opening.is_finished());
    one.keep(RH);
    opening.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_metadata_server_waits_for_a_silent_client_20_s_at_most() {
    let server = server().await;
    let mount = another(&server).await;
    let (one, mut notices) = client_of(&server, 1).await;
    one.lease(BOTH, KEY, ALL).await;
    let begun = tokio::time::Instant::now();
    let looking = tokio::spawn(async move { find(&mount).await });
    notices.lease().await;
    looking.await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 20);
    assert_eq!(one.lease(BOTH, KEY, NONE).await.1, NONE);
}

#[tokio::test(start_paused = true)]
async fn a_recall_during_a_break_leaves_nothing_afterwards() {
    let server = server().await;
    let mount = another(&server).await;
    let file = find(&mount).await;
    let (one, mut notices) = client_of(&server, 1).await;
    one.lease(BOTH, KEY, ALL).await;
    let looking = tokio::spawn({
        let mount = mount.clone();
        async move { find(&mount).await }
    });
    assert_eq!(notices.lease().await, (KEY, ALL, RH, true));
    let opening = tokio::spawn(async move { open_to(&mount, file, Rights::WRITE).await });
    notices.assert_none().await;
    one.keep(RH);
    assert_eq!(notices.lease().await, (KEY, RH, R, true));
    one.keep(R);
    assert_eq!(notices.lease().await, (KEY, R, NONE, false));
    looking.await.unwrap();
    opening.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lost_delegations_void_all_leases() {
    let server = server().await;
    let (one, mut notices) = client_of(&server, 1).await;
    one.lease(BOTH, KEY, ALL).await;
    server.share.lose_delegations(one.session.client().session());
    let (_, _, left, _) = notices.lease().await;
    assert_eq!(left, NONE);
    assert_eq!(one.lease(BOTH, KEY, NONE).await.1, NONE);
    one.assert_none_delegated().await;
}
