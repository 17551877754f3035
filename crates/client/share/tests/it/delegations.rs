//! Delegations: leases of a protocol client's session, which every change by others recalls.

use std::future::Future;

use braid_client::OpenOptions;
use braid_share::{
    AttributeChanges, ByteCount, DelegationRecall, Deny, FileIndex, OpenMode, OpenTarget,
    RenameMode, Result, Rights, Share, ShareClient, ShareFile, Status, XattrMode,
};

use crate::support::{
    BOTH, Cluster, ROOT, client, create, look_up, on_both, read, refused, root, write,
};

const READ: OpenMode = OpenMode { rights: Rights::READ, deny: Deny::NONE };

on_both! {
    every_change_by_another_client_recalls_a_read_delegation,
    a_look_at_the_file_recalls_only_a_write_delegation,
    an_open_that_denies_recalls_a_read_delegation,
    own_calls_recall_nothing,
    no_delegation_is_granted_beside_conflicting_opens,
    two_clients_have_read_delegations_and_neither_gets_to_write,
    a_file_whose_delegation_was_recalled_gets_none_for_a_while,
    only_open_files_are_delegated,
    the_end_of_a_session_frees_its_delegations,
    a_look_reduces_a_delegation_to_write_and_a_change_ends_it,
    what_its_own_opens_deny_does_not_keep_a_session_from_a_delegation,
}

/// A file that `holder` has open and delegated.
async fn delegated<C: ShareClient>(holder: &C, dir: FileIndex, name: &str, write: bool) -> C::File {
    create(holder, dir, name).await.close().await.expect("a close");
    let file = look_up(holder, dir, name).await.file;
    let mode = if write { BOTH } else { READ };
    let opened = holder.open(&root(), OpenTarget::File(file), mode).await.expect("an open");
    assert!(holder.delegate(file, write).await.expect("an answer"), "nothing conflicts");
    opened.file
}

/// Makes a call that must wait until the holder has returned the delegation.
async fn recalls<C: ShareClient, T>(
    holder: &C,
    file: C::File,
    call: impl Future<Output = Result<T>>,
) -> T {
    let mut call = std::pin::pin!(call);
    tokio::select! {
        biased;
        recall = holder.next_recall() => {
            let (all, writing) =
                (DelegationRecall::File(file.index()), DelegationRecall::Reduce(file.index()));
            assert!(recall == Some(all) || recall == Some(writing), "{recall:?}");
        }
        _ = &mut call => panic!("the call did not wait for the delegation"),
    }
    let index = file.index();
    file.close().await.expect("a close");
    holder.return_delegation(index).await.expect("a return");
    call.await.expect("the call succeeds when the delegation is returned")
}

async fn every_change_by_another_client_recalls_a_read_delegation<S: Share>(
    share: S,
    dir: FileIndex,
) {
    let (holder, other, who) = (client(&share).await, client(&share).await, root());
    let open = |index| OpenTarget::File(index);

    let file = delegated(&holder, dir, "written", false).await;
    recalls(&holder, file.clone(), other.open(&who, open(file.index()), BOTH)).await;

    let file = delegated(&holder, dir, "mode", false).await;
    let changes = AttributeChanges { mode: Some(0o600), ..AttributeChanges::none() };
    recalls(&holder, file.clone(), other.set_attributes(&who, file.index(), changes)).await;

    let file = delegated(&holder, dir, "owner", false).await;
    let changes = AttributeChanges { uid: Some(3), ..AttributeChanges::none() };
    recalls(&holder, file.clone(), other.set_attributes(&who, file.index(), changes)).await;

    let file = delegated(&holder, dir, "size", false).await;
    let changes = AttributeChanges { bytes: Some(ByteCount(7)), ..AttributeChanges::none() };
    recalls(&holder, file.clone(), other.set_attributes(&who, file.index(), changes)).await;

    let file = delegated(&holder, dir, "xattr", false).await;
    let set = other.set_xattr(&who, file.index(), b"user.a", b"1", XattrMode::Either);
    recalls(&holder, file.clone(), set).await;

    let file = delegated(&holder, dir, "linked", false).await;
    recalls(&holder, file.clone(), other.link(&who, file.index(), dir, b"second")).await;

    let file = delegated(&holder, dir, "removed", false).await;
    recalls(&holder, file.clone(), other.remove(&who, dir, b"removed")).await;

    let file = delegated(&holder, dir, "renamed", false).await;
    let rename = other.rename(&who, (dir, b"renamed"), (dir, b"new"), RenameMode::Replace);
    recalls(&holder, file.clone(), rename).await;

    let file = delegated(&holder, dir, "replaced", false).await;
    let rename = other.rename(&who, (dir, b"new"), (dir, b"replaced"), RenameMode::Replace);
    recalls(&holder, file.clone(), rename).await;
}

async fn a_look_at_the_file_recalls_only_a_write_delegation<S: Share>(share: S, dir: FileIndex) {
    let (holder, other, who) = (client(&share).await, client(&share).await, root());
    let file = delegated(&holder, dir, "r", false).await;
    other.attributes(&who, file.index()).await.expect("attributes");
    other.open(&who, OpenTarget::File(file.index()), READ).await.expect("an open to read");

    let file = delegated(&holder, dir, "attributes", true).await;
    write(&file, 0, b"12345").await;
    let known = recalls(&holder, file.clone(), other.attributes(&who, file.index())).await;
    assert_eq!(known.bytes, ByteCount(5));

    let file = delegated(&holder, dir, "name", true).await;
    recalls(&holder, file.clone(), other.look_up(&who, dir, b"name")).await;

    let file = delegated(&holder, dir, "open", true).await;
    write(&file, 0, b"bytes").await;
    let open = other.open(&who, OpenTarget::File(file.index()), READ);
    let opened = recalls(&holder, file.clone(), open).await;
    assert_eq!(read(&opened.file, 0, 9).await.0, b"bytes");
}

async fn an_open_that_denies_recalls_a_read_delegation<S: Share>(share: S, dir: FileIndex) {
    let (holder, other, who) = (client(&share).await, client(&share).await, root());
    let file = delegated(&holder, dir, "f", false).await;
    let denies = OpenMode { rights: Rights::READ, deny: Deny::READ };
    // The holder closes its open when it returns the delegation: then nothing is excluded.
    let open = other.open(&who, OpenTarget::File(file.index()), denies);
    recalls(&holder, file.clone(), open).await;
}

async fn own_calls_recall_nothing<S: Share>(share: S, dir: FileIndex) {
    let (holder, who) = (client(&share).await, root());
    let file = delegated(&holder, dir, "f", true).await;
    holder.open(&who, OpenTarget::File(file.index()), BOTH).await.expect("an open");
    let changes = AttributeChanges { mode: Some(0o600), ..AttributeChanges::none() };
    holder.set_attributes(&who, file.index(), changes).await.expect("a change");
    holder.rename(&who, (dir, b"f"), (dir, b"g"), RenameMode::Replace).await.expect("a rename");
    holder.remove(&who, dir, b"g").await.expect("a removal");
}

async fn no_delegation_is_granted_beside_conflicting_opens<S: Share>(share: S, dir: FileIndex) {
    let (holder, other, who) = (client(&share).await, client(&share).await, root());
    let file = create(&holder, dir, "f").await;
    let target = OpenTarget::File(file.index());
    let writer = other.open(&who, target.clone(), BOTH).await.expect("an open").file;
    for write in [false, true] {
        assert!(!holder.delegate(file.index(), write).await.expect("an answer"), "it is written");
    }
    writer.set_mode(READ).await.expect("a downgrade");
    assert!(!holder.delegate(file.index(), true).await.expect("an answer"), "it is being read");
    assert!(holder.delegate(file.index(), false).await.expect("an answer"));
}

async fn two_clients_have_read_delegations_and_neither_gets_to_write<S: Share>(
    share: S,
    dir: FileIndex,
) {
    let (one, other, third) = (client(&share).await, client(&share).await, client(&share).await);
    let file = delegated(&one, dir, "f", false).await;
    let index = file.index();
    let second = other.open(&root(), OpenTarget::File(index), READ).await.expect("an open").file;
    assert!(other.delegate(index, false).await.expect("an answer"), "both may read");
    let who = root();
    let open = third.open(&who, OpenTarget::File(index), BOTH);
    let mut open = std::pin::pin!(open);
    tokio::select! {
        _ = &mut open => panic!("neither has returned"),
        recall = one.next_recall() => assert_eq!(recall, Some(DelegationRecall::File(index))),
    }
    one.return_delegation(index).await.expect("a return");
    tokio::select! {
        _ = &mut open => panic!("the other has not returned"),
        recall = other.next_recall() => assert_eq!(recall, Some(DelegationRecall::File(index))),
    }
    other.return_delegation(index).await.expect("a return");
    open.await.expect("an open");
    drop((file, second));
}

async fn a_file_whose_delegation_was_recalled_gets_none_for_a_while<S: Share>(
    share: S,
    dir: FileIndex,
) {
    let (holder, other) = (client(&share).await, client(&share).await);
    let file = delegated(&holder, dir, "f", false).await;
    let index = file.index();
    let opened = recalls(&holder, file, other.open(&root(), OpenTarget::File(index), BOTH)).await;
    opened.file.close().await.expect("a close");
    let _open = holder.open(&root(), OpenTarget::File(index), READ).await.expect("an open");
    assert!(!holder.delegate(index, false).await.expect("an answer"));
}

async fn only_open_files_are_delegated<S: Share>(share: S, dir: FileIndex) {
    let (holder, other) = (client(&share).await, client(&share).await);
    let file = create(&other, dir, "f").await;
    assert_eq!(refused(holder.delegate(file.index(), false).await), Status::Invalid);
    let open = holder.open(&root(), OpenTarget::File(file.index()), READ).await.expect("an open");
    assert_eq!(refused(holder.delegate(file.index(), true).await), Status::Invalid);
    drop(open);
}

async fn the_end_of_a_session_frees_its_delegations<S: Share>(share: S, dir: FileIndex) {
    let (holder, other) = (client(&share).await, client(&share).await);
    let file = delegated(&holder, dir, "f", false).await;
    let index = file.index();
    let who = root();
    let open = other.open(&who, OpenTarget::File(index), BOTH);
    let mut open = std::pin::pin!(open);
    tokio::select! {
        _ = &mut open => panic!("the delegation is held"),
        recall = holder.next_recall() => assert_eq!(recall, Some(DelegationRecall::File(index))),
    }
    drop(file);
    holder.end().await;
    open.await.expect("an open");
}

async fn a_look_reduces_a_delegation_to_write_and_a_change_ends_it<S: Share>(
    share: S,
    dir: FileIndex,
) {
    let (holder, other, who) = (client(&share).await, client(&share).await, root());
    let file = delegated(&holder, dir, "f", true).await;
    let index = file.index();
    let mut look = std::pin::pin!(other.attributes(&who, index));
    tokio::select! {
        _ = &mut look => panic!("it may be changed without a call"),
        recall = holder.next_recall() => {
            assert_eq!(recall, Some(DelegationRecall::Reduce(index)));
        }
    }
    assert!(holder.reduce_delegation(index).await.expect("an answer"), "reading goes on");
    look.await.expect("attributes");
    let mut open = std::pin::pin!(other.open(&who, OpenTarget::File(index), BOTH));
    tokio::select! {
        _ = &mut open => panic!("it is being cached"),
        recall = holder.next_recall() => assert_eq!(recall, Some(DelegationRecall::File(index))),
    }
    assert!(!holder.reduce_delegation(index).await.expect("an answer"), "nothing is left");
    open.await.expect("an open");
}

async fn what_its_own_opens_deny_does_not_keep_a_session_from_a_delegation<S: Share>(
    share: S,
    dir: FileIndex,
) {
    let (holder, other) = (client(&share).await, client(&share).await);
    create(&other, dir, "f").await.close().await.expect("a close");
    let target = OpenTarget::File(look_up(&other, dir, "f").await.file);
    let alone = OpenMode { rights: Rights::READ_WRITE, deny: Deny::ALL };
    let file = holder.open(&root(), target, alone).await.expect("an open").file;
    assert!(holder.delegate(file.index(), true).await.expect("an answer"));
}

#[test]
fn a_client_of_the_library_waits_for_a_delegation() {
    let cluster = Cluster::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let share = cluster.gateway().await;
        let holder = client(&share).await;
        for (name, is_write) in [("/r", false), ("/w", true)] {
            let file = delegated(&holder, ROOT, &name[1..], is_write).await;
            let admin = cluster.admin().clone();
            let written = tokio::task::spawn_blocking(move || {
                let file = admin.open(name, &OpenOptions::new().read(true).write(true))?;
                file.write_at(b"by the library", 0)
            });
            let index = file.index();
            let recall = holder.next_recall().await;
            let (all, writing) = (DelegationRecall::File(index), DelegationRecall::Reduce(index));
            assert!(recall == Some(all) || is_write && recall == Some(writing), "{recall:?}");
            assert!(!written.is_finished(), "it waits");
            assert_eq!(read(&file, 0, 32).await.0, b"", "nothing was written yet");
            holder.return_delegation(index).await.expect("a return");
            written.await.expect("no panic").expect("a write");
            assert_eq!(read(&file, 0, 32).await.0, b"by the library");
        }
    });
}
