//! Attributes and extended attributes.

use braid_share::dos_attributes as dos;
use braid_share::nfs4_acl::{Ace, Nfs4Acl, Who, ace_flag, ace_mask::READ_DATA};
use braid_share::{
    AttributeChanges, FileIndex, FileKind, SetTime, Share, ShareClient, ShareFile, Status,
    Timestamp, XattrMode,
};
use braid_types::ByteCount;

use crate::support::{change_of, client, create, mkdir, on_both, refused, root, user, write};

on_both! {
    attributes_are_changed_together_or_not_at_all,
    a_list_and_attributes_are_set_together_or_not_at_all,
    dos_attributes_and_the_time_of_creation_are_kept,
    a_size_belongs_to_regular_files_only,
    a_symbolic_link_itself_is_changed,
    extended_attributes_are_set_listed_and_removed,
    extended_attributes_follow_the_rules_of_their_prefix,
    every_change_of_a_file_raises_its_counter,
    free_space_is_reported,
}

async fn attributes_are_changed_together_or_not_at_all<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let file = create(&client, top, "f").await.index();
    let time = Timestamp { seconds: -5, nanos: 999_999_999 };
    let changes = AttributeChanges {
        mode: Some(0o600),
        uid: Some(1000),
        gid: Some(100),
        bytes: Some(ByteCount(1 << 40)),
        atime: Some(SetTime { time: Some(time) }),
        mtime: Some(SetTime { time: Some(time) }),
        ..AttributeChanges::none()
    };
    client.set_attributes(&root(), file, changes).await.expect("a change");
    let now = client.attributes(&root(), file).await.expect("attributes");
    assert_eq!((now.mode, now.uid, now.gid, now.bytes.0), (0o600, 1000, 100, 1 << 40));
    assert_eq!((now.atime, now.mtime), (time, time));
    let refused_part =
        AttributeChanges { mode: Some(0o640), uid: Some(1001), ..AttributeChanges::none() };
    let changed = client.set_attributes(&user(1000), file, refused_part).await;
    assert_eq!(refused(changed), Status::NotPermitted);
    let nanos = Timestamp { seconds: 0, nanos: 1_000_000_000 };
    let wrong = AttributeChanges {
        mode: Some(0o640),
        atime: Some(SetTime { time: Some(nanos) }),
        ..AttributeChanges::none()
    };
    assert_eq!(refused(client.set_attributes(&root(), file, wrong).await), Status::Invalid);
    assert_eq!(client.attributes(&root(), file).await.expect("attributes").mode, 0o600);
}

async fn a_list_and_attributes_are_set_together_or_not_at_all<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let file = create(&client, top, "f").await.index();
    let inherited = Ace { flags: ace_flag::FILE_INHERIT, ..Ace::allow(Who::Everyone, READ_DATA) };
    let aces =
        vec![Ace::allow(Who::Owner, READ_DATA), Ace::deny(Who::User(7), READ_DATA), inherited];
    let list = Nfs4Acl::new(aces.clone(), true).expect("a list");
    let changes = AttributeChanges { mode: Some(0o1777), uid: Some(1000), ..Default::default() };
    let set = client.set_attributes_and_acl(&root(), file, changes.clone(), &list).await;
    let now = set.expect("a change");
    // RFC 8881 6.4.1.3: the list decides the permission bits.
    assert_eq!((now.mode, now.uid, now.has_xattrs), (0o1444, 1000, true));
    let shown = client.nfs4_acl(&root(), &now).await.expect("the list");
    let of_file = Nfs4Acl::new(aces, false).expect("a list without inheritance");
    assert_eq!(shown, of_file);
    let may = async |uid| client.access(&user(uid), file, 4).await.expect("an answer");
    assert_eq!((may(1000).await, may(7).await, may(8).await), (4, 0, 4));
    let away = AttributeChanges { uid: Some(1001), ..Default::default() };
    for (uid, changes) in [(1000, away), (7, AttributeChanges::none())] {
        let all = Nfs4Acl::new(vec![Ace::allow(Who::Everyone, READ_DATA)], false).expect("a list");
        let changed = client.set_attributes_and_acl(&user(uid), file, changes, &all).await;
        assert_eq!(refused(changed), Status::NotPermitted);
    }
    let now = client.attributes(&root(), file).await.expect("attributes");
    assert_eq!(client.nfs4_acl(&root(), &now).await.expect("the list"), of_file);
    let (link, _) = client.make_symlink(&root(), top, b"l", b"f").await.expect("a link");
    let changed = client.set_attributes_and_acl(&root(), link.file, changes, &list).await;
    assert_eq!(refused(changed), Status::Unsupported);
    assert_eq!(refused(client.nfs4_acl(&root(), &link).await), Status::Unsupported);
}

async fn dos_attributes_and_the_time_of_creation_are_kept<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let opened = create(&client, top, "f").await;
    let file = opened.index();
    let flags = |flags| AttributeChanges { flags: Some(flags), ..AttributeChanges::none() };
    let mode = AttributeChanges { mode: Some(0o666), ..AttributeChanges::none() };
    client.set_attributes(&root(), file, mode).await.expect("a mode");
    let btime = Timestamp { seconds: 1_000_000_000, nanos: 100 };
    let hidden = dos::STORED | dos::HIDDEN;
    let set = client.set_attributes_and_birth(&root(), file, flags(hidden), btime).await;
    let now = set.expect("a change");
    assert_eq!((now.flags, now.btime), (hidden, btime));
    // Nothing is changed by what is refused.
    for unknown in [dos::HIDDEN, dos::STORED | 0x10, u32::MAX] {
        let changed = client.set_attributes(&root(), file, flags(unknown)).await;
        assert_eq!(refused(changed), Status::Unsupported, "{unknown:#x}");
    }
    let nanos = Timestamp { seconds: 0, nanos: 1_000_000_000 };
    let wrong = client.set_attributes_and_birth(&root(), file, flags(dos::STORED), nanos).await;
    assert_eq!(refused(wrong), Status::Invalid);
    let others = client.set_attributes_and_birth(&user(7), file, flags(dos::STORED), btime).await;
    assert_eq!(refused(others), Status::NotPermitted, "a time is the owner's");
    let now = client.attributes(&root(), file).await.expect("attributes");
    assert_eq!((now.flags, now.btime), (hidden, btime));
    // A user that may write sets attributes, and a write has the file saved again.
    client.set_attributes(&user(7), file, flags(hidden)).await.expect("a writer's change");
    write(&opened, 0, b"bytes").await;
    opened.commit().await.expect("a commit");
    opened.close().await.expect("a close");
    let now = client.attributes(&root(), file).await.expect("attributes");
    assert_eq!((now.flags, now.btime), (hidden | dos::ARCHIVE, btime));
    let read_only = AttributeChanges { mode: Some(0o444), ..AttributeChanges::none() };
    client.set_attributes(&root(), file, read_only).await.expect("a mode");
    let changed = client.set_attributes(&user(7), file, flags(dos::STORED)).await;
    assert_eq!(refused(changed), Status::PermissionDenied);
}

async fn a_size_belongs_to_regular_files_only<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let dir = mkdir(&client, top, "d", 0o755).await;
    let fifo = client.make_node(&root(), top, b"fifo", FileKind::Fifo, 0o644, 0).await;
    let size = |bytes| AttributeChanges { bytes: Some(ByteCount(bytes)), ..Default::default() };
    let of_dir = client.set_attributes(&root(), dir, size(0)).await;
    assert_eq!(refused(of_dir), Status::IsDirectory);
    let fifo = fifo.expect("a fifo").0.file;
    assert_eq!(refused(client.set_attributes(&root(), fifo, size(0)).await), Status::Invalid);
    let file = create(&client, top, "f").await.index();
    let too_large = client.set_attributes(&root(), file, size(1 << 63)).await;
    assert_eq!(refused(too_large), Status::TooLarge);
}

async fn a_symbolic_link_itself_is_changed<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    create(&client, top, "f").await;
    let (link, _) = client.make_symlink(&root(), top, b"l", b"f").await.expect("a link");
    let owner = AttributeChanges { uid: Some(1000), ..AttributeChanges::none() };
    client.set_attributes(&root(), link.file, owner).await.expect("a chown");
    assert_eq!(client.attributes(&root(), link.file).await.expect("attributes").uid, 1000);
    assert_eq!(client.look_up(&root(), top, b"f").await.expect("the target").uid, 0);
}

async fn extended_attributes_are_set_listed_and_removed<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let (who, file) = (root(), create(&client, top, "f").await.index());
    let set = async |name: &[u8], value: &[u8], mode| {
        client.set_xattr(&root(), file, name, value, mode).await
    };
    assert_eq!(refused(client.xattr(&who, file, b"user.a").await), Status::NoAttribute);
    assert_eq!(refused(set(b"user.a", b"1", XattrMode::Replace).await), Status::NoAttribute);
    set(b"user.a", b"1", XattrMode::Create).await.expect("a new attribute");
    assert_eq!(refused(set(b"user.a", b"2", XattrMode::Create).await), Status::Exists);
    set(b"user.a", b"", XattrMode::Replace).await.expect("an existing attribute");
    set(b"user.b", &[7; 65_536], XattrMode::Either).await.expect("the largest value");
    let too_large = set(b"user.c", &[7; 65_537], XattrMode::Either).await;
    assert_eq!(refused(too_large), Status::LimitExceeded);
    assert_eq!(client.xattr(&who, file, b"user.a").await.expect("a value"), b"");
    assert_eq!(client.xattr(&who, file, b"user.b").await.expect("a value"), [7; 65_536]);
    let names = client.xattrs(&who, file).await.expect("the names");
    assert_eq!(names, [b"user.a".to_vec(), b"user.b".to_vec()]);
    client.remove_xattr(&who, file, b"user.a").await.expect("a removal");
    assert_eq!(refused(client.remove_xattr(&who, file, b"user.a").await), Status::NoAttribute);
    assert_eq!(client.xattrs(&who, file).await.expect("the names").len(), 1);
}

async fn extended_attributes_follow_the_rules_of_their_prefix<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let (someone, either) = (user(1000), XattrMode::Either);
    let file = create(&client, top, "f").await.index();
    client.set_xattr(&root(), file, b"user.a", b"1", either).await.expect("root");
    client.set_xattr(&root(), file, b"trusted.a", b"1", either).await.expect("root");
    client.set_xattr(&root(), file, b"security.a", b"1", either).await.expect("root");
    client.xattr(&someone, file, b"user.a").await.expect("the file may be read");
    client.xattr(&someone, file, b"security.a").await.expect("everyone reads it");
    let hidden = client.xattr(&someone, file, b"trusted.a").await;
    assert_eq!(refused(hidden), Status::NoAttribute);
    assert_eq!(client.xattrs(&someone, file).await.expect("the names").len(), 2);
    for (name, status) in [
        (&b"user.a"[..], Status::PermissionDenied),
        (b"trusted.a", Status::NotPermitted),
        (b"security.a", Status::NotPermitted),
        (b"unknown.a", Status::Unsupported),
        (b"", Status::Range),
    ] {
        assert_eq!(refused(client.set_xattr(&someone, file, name, b"2", either).await), status);
    }
    let (link, _) = client.make_symlink(&root(), top, b"l", b"f").await.expect("a link");
    let on_link = client.set_xattr(&root(), link.file, b"user.a", b"1", either).await;
    assert_eq!(refused(on_link), Status::NotPermitted);
}

async fn every_change_of_a_file_raises_its_counter<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let (who, file) = (root(), create(&client, top, "f").await.index());
    let mut last = change_of(&client, file).await;
    for step in 0..5 {
        match step {
            0 => {
                let mode = AttributeChanges { mode: Some(0o600), ..AttributeChanges::none() };
                client.set_attributes(&who, file, mode).await.map(drop).expect("a chmod");
            }
            1 => {
                let set = client.set_xattr(&who, file, b"user.a", b"1", XattrMode::Either).await;
                set.expect("an attribute");
            }
            2 => client.remove_xattr(&who, file, b"user.a").await.expect("a removal"),
            3 => client.link(&who, file, top, b"g").await.map(drop).expect("a link"),
            _ => client.remove(&who, top, b"f").await.map(drop).expect("a removal"),
        }
        let change = change_of(&client, file).await;
        assert!(change > last, "step {step}");
        last = change;
    }
}

async fn free_space_is_reported<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let file = create(&client, top, "f").await;
    let space = client.statfs(&root(), file.index()).await.expect("the space");
    assert!(space.total >= space.free && space.free >= space.available);
    assert!(space.available.0 > 0 && space.files > 0);
}
