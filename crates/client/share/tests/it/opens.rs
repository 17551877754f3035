//! Opens: what is created, what opens exclude, and files without a name.

use braid_share::{
    Deny, FileIndex, FileKind, OpenMode, OpenTarget, RenameMode, Rights, Share, ShareClient,
    ShareFile, Status,
};

use crate::support::{
    BOTH, client, create, create_target, look_up, mkdir, on_both, read, refused, root, write,
};

on_both! {
    opens_exclude_each_other_by_what_they_deny,
    a_closed_open_excludes_nothing_any_more,
    the_end_of_a_client_closes_its_opens,
    a_changed_mode_excludes_and_allows_what_it_says,
    a_file_whose_deletion_is_denied_keeps_its_name,
    a_truncate_is_refused_while_writing_is_denied,
    an_exclusive_create_needs_a_free_name,
    a_create_that_truncates_empties_an_existing_file,
    only_regular_files_are_opened_and_links_are_not_followed,
    an_unlinked_file_keeps_its_bytes_until_its_last_close,
    an_open_is_used_only_for_its_rights,
    a_closed_file_is_stale_for_its_clones,
}

fn mode(rights: Rights, deny: Deny) -> OpenMode {
    OpenMode { rights, deny }
}

async fn opens_exclude_each_other_by_what_they_deny<S: Share>(share: S, top: FileIndex) {
    let (one, other) = (client(&share).await, client(&share).await);
    let file = create(&one, top, "f").await;
    let target = OpenTarget::File(file.index());
    file.close().await.expect("a close");
    let all_rights = [Rights::READ, Rights::WRITE, Rights::READ_WRITE];
    let all_denials = [Deny::NONE, Deny::READ, Deny::WRITE, Deny::READ | Deny::WRITE];
    for first in all_rights.map(|rights| all_denials.map(|deny| mode(rights, deny))).concat() {
        let held = one.open(&root(), target.clone(), first).await.expect("nothing else is open");
        for second in all_rights.map(|rights| all_denials.map(|deny| mode(rights, deny))).concat() {
            // Reading and writing have the same bits in rights and denials.
            let excluded =
                first.deny.0 & second.rights.0 != 0 || second.deny.0 & first.rights.0 != 0;
            let opened = other.open(&root(), target.clone(), second).await;
            assert_eq!(opened.is_err(), excluded, "{first:?}, then {second:?}");
            match opened {
                Ok(opened) => opened.file.close().await.expect("a close"),
                Err(error) => assert_eq!(error.status(), Status::SharingViolation),
            }
        }
        held.file.close().await.expect("a close");
    }
}

async fn a_closed_open_excludes_nothing_any_more<S: Share>(share: S, top: FileIndex) {
    let (one, other) = (client(&share).await, client(&share).await);
    let file = create(&one, top, "f").await;
    let target = OpenTarget::File(file.index());
    let exclusive = mode(Rights::READ, Deny::READ | Deny::WRITE);
    let excluded = other.open(&root(), target.clone(), exclusive).await;
    assert_eq!(refused(excluded), Status::SharingViolation);
    file.close().await.expect("a close");
    let held = other.open(&root(), target.clone(), exclusive).await.expect("it was closed");
    assert_eq!(refused(one.open(&root(), target.clone(), BOTH).await), Status::SharingViolation);
    held.file.close().await.expect("a close");
    one.open(&root(), target, BOTH).await.expect("it was closed");
}

async fn the_end_of_a_client_closes_its_opens<S: Share>(share: S, top: FileIndex) {
    let (one, other) = (client(&share).await, client(&share).await);
    let file = create(&one, top, "f").await;
    let target = OpenTarget::File(file.index());
    let session = one.session();
    one.clone().end().await;
    let exclusive = mode(Rights::READ, Deny::READ | Deny::WRITE);
    other.open(&root(), target, exclusive).await.expect("the other client has ended");
    assert_eq!(refused(file.read(0, 1).await), Status::NoSession);
    assert_eq!(refused(one.attributes(&root(), top).await), Status::NoSession);
    assert_ne!(client(&share).await.session(), session, "a session is never used again");
}

async fn a_changed_mode_excludes_and_allows_what_it_says<S: Share>(share: S, top: FileIndex) {
    let (one, other) = (client(&share).await, client(&share).await);
    let file = create(&one, top, "f").await;
    write(&file, 0, b"bytes").await;
    file.set_mode(mode(Rights::READ, Deny::WRITE)).await.expect("a downgrade");
    assert_eq!(refused(file.write(0, "x".into(), false).await), Status::NotPermitted);
    let target = OpenTarget::File(file.index());
    let writer = other.open(&root(), target.clone(), BOTH).await;
    assert_eq!(refused(writer), Status::SharingViolation);
    let reader = mode(Rights::READ, Deny::NONE);
    let reader = other.open(&root(), target, reader).await.expect("readers are allowed").file;
    assert_eq!(refused(reader.set_mode(BOTH).await), Status::SharingViolation);
    file.set_mode(mode(Rights::READ, Deny::NONE)).await.expect("it denies less");
    reader.set_mode(BOTH).await.expect("an upgrade");
    write(&reader, 0, b"BYTES").await;
    assert_eq!(read(&file, 0, 9).await, (b"BYTES".to_vec(), true));
    assert_eq!(refused(file.set_mode(mode(Rights(0), Deny::NONE)).await), Status::Invalid);
}

async fn a_file_whose_deletion_is_denied_keeps_its_name<S: Share>(share: S, top: FileIndex) {
    let (one, other) = (client(&share).await, client(&share).await);
    let file = create(&one, top, "f").await;
    create(&one, top, "other").await;
    file.set_mode(mode(Rights::READ, Deny::DELETE)).await.expect("a change");
    let replace = RenameMode::Replace;
    let statuses = [
        refused(other.remove(&root(), top, b"f").await),
        refused(other.rename(&root(), (top, b"f"), (top, b"g"), replace).await),
        refused(other.rename(&root(), (top, b"other"), (top, b"f"), replace).await),
    ];
    assert_eq!(statuses, [Status::SharingViolation; 3]);
    file.close().await.expect("a close");
    other.remove(&root(), top, b"f").await.expect("it was closed");
}

async fn a_truncate_is_refused_while_writing_is_denied<S: Share>(share: S, top: FileIndex) {
    let (one, other) = (client(&share).await, client(&share).await);
    let file = create(&one, top, "f").await;
    write(&file, 0, b"bytes").await;
    file.set_mode(mode(Rights::READ, Deny::WRITE)).await.expect("a change");
    let empty = braid_share::AttributeChanges {
        bytes: Some(braid_types::ByteCount(0)),
        ..braid_share::AttributeChanges::none()
    };
    let truncated = other.set_attributes(&root(), file.index(), empty.clone()).await;
    assert_eq!(refused(truncated), Status::SharingViolation);
    file.set_mode(BOTH).await.expect("a change");
    let truncated = other.set_attributes(&root(), file.index(), empty).await;
    assert_eq!(truncated.expect("it is allowed").bytes.0, 0);
}

async fn an_exclusive_create_needs_a_free_name<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let exclusive = || OpenTarget::Create {
        dir: top,
        name: b"f".to_vec(),
        exclusive: true,
        truncate: false,
        mode: 0o600,
    };
    let made = client.open(&root(), exclusive(), BOTH).await.expect("a new file");
    assert!(made.created);
    assert_eq!(refused(client.open(&root(), exclusive(), BOTH).await), Status::Exists);
    let found = client.open(&root(), create_target(top, "f"), BOTH).await.expect("an open");
    assert!(!found.created);
    assert_eq!(found.file.index(), made.file.index());
    assert_eq!(found.attributes.mode, 0o600, "an existing file keeps its mode");
}

async fn a_create_that_truncates_empties_an_existing_file<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let file = create(&client, top, "f").await;
    write(&file, 0, b"bytes").await;
    let truncating = || OpenTarget::Create {
        dir: top,
        name: b"f".to_vec(),
        exclusive: false,
        truncate: true,
        mode: 0o644,
    };
    let reader = client.open(&root(), truncating(), mode(Rights::READ, Deny::NONE)).await;
    assert_eq!(refused(reader), Status::Invalid);
    let opened = client.open(&root(), truncating(), BOTH).await.expect("an open");
    assert_eq!((opened.attributes.bytes.0, opened.created), (0, false));
    assert_eq!(read(&file, 0, 9).await, (Vec::new(), true));
}

async fn only_regular_files_are_opened_and_links_are_not_followed<S: Share>(
    share: S,
    top: FileIndex,
) {
    let client = client(&share).await;
    create(&client, top, "file").await;
    mkdir(&client, top, "dir", 0o755).await;
    client.make_symlink(&root(), top, b"link", b"file").await.expect("a link");
    client.make_symlink(&root(), top, b"dangling", b"missing").await.expect("a link");
    let fifo = client.make_node(&root(), top, b"fifo", FileKind::Fifo, 0o644, 0).await;
    fifo.expect("a fifo");
    for (name, status) in [
        ("dir", Status::IsDirectory),
        ("link", Status::TooManyLinks),
        ("dangling", Status::TooManyLinks),
        ("fifo", Status::NoDevice),
    ] {
        let index = look_up(&client, top, name).await.file;
        let by_name = OpenTarget::Name { dir: top, name: name.into() };
        for target in [OpenTarget::File(index), by_name, create_target(top, name)] {
            let case = format!("{target:?}");
            assert_eq!(refused(client.open(&root(), target, BOTH).await), status, "{case}");
        }
    }
    assert_eq!(refused(client.look_up(&root(), top, b"missing").await), Status::NotFound);
}

async fn an_unlinked_file_keeps_its_bytes_until_its_last_close<S: Share>(share: S, top: FileIndex) {
    let (one, other) = (client(&share).await, client(&share).await);
    let file = create(&one, top, "f").await;
    write(&file, 0, b"bytes").await;
    let target = OpenTarget::File(file.index());
    other.remove(&root(), top, b"f").await.expect("a removal");
    assert_eq!(one.attributes(&root(), file.index()).await.expect("it is open").links, 0);
    assert_eq!(read(&file, 0, 9).await.0, b"bytes");
    write(&file, 5, b"!").await;
    assert_eq!(refused(one.link(&root(), file.index(), top, b"f").await), Status::NotFound);
    let again = one.open(&root(), target.clone(), BOTH).await.expect("it is open").file;
    file.close().await.expect("a close");
    assert_eq!(read(&again, 0, 9).await.0, b"bytes!");
    again.close().await.expect("the last close");
    assert_eq!(refused(one.open(&root(), target, BOTH).await), Status::StaleHandle);
}

async fn an_open_is_used_only_for_its_rights<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let file = create(&client, top, "f").await;
    let target = OpenTarget::File(file.index());
    let open = async |rights| {
        client.open(&root(), target.clone(), mode(rights, Deny::NONE)).await.expect("an open").file
    };
    let (reader, writer) = (open(Rights::READ).await, open(Rights::WRITE).await);
    let statuses = [
        refused(writer.read(0, 1).await),
        refused(reader.write(0, "x".into(), false).await),
        refused(reader.set_len(0).await),
        refused(reader.punch(0, 1).await),
        refused(reader.allocate(0, 1).await),
        refused(reader.copy_from(&reader, 0, 9, 1).await),
    ];
    assert_eq!(statuses, [Status::NotPermitted; 6]);
    reader.commit().await.expect("it has nothing to commit");
    let none = client.open(&root(), target.clone(), mode(Rights(0), Deny::NONE)).await;
    assert_eq!(refused(none), Status::Invalid);
}

async fn a_closed_file_is_stale_for_its_clones<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let file = create(&client, top, "f").await;
    let clone = file.clone();
    file.close().await.expect("a close");
    assert_eq!(refused(clone.read(0, 1).await), Status::StaleHandle);
    assert_eq!(refused(clone.write(0, "x".into(), false).await), Status::StaleHandle);
}
