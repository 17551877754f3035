//! Permissions of users and their groups.

use braid_share::{
    AttributeChanges, FileIndex, Identity, OpenMode, OpenTarget, RenameMode, Rights, SetTime,
    Share, ShareClient, ShareFile, Status,
};
use braid_types::ByteCount;

use crate::support::{BOTH, client, create, create_target, mkdir, on_both, refused, root, user};

on_both! {
    a_user_needs_search_permission_of_each_directory,
    only_a_writer_of_a_directory_changes_its_entries,
    a_sticky_directory_protects_entries_of_others,
    the_first_class_that_matches_decides,
    access_returns_what_the_user_has_of_the_wanted,
    a_creator_may_open_its_file_whatever_the_mode,
    new_files_belong_to_the_user_and_inherit_a_setgid_group,
    only_the_owner_changes_the_mode_and_only_root_the_owner,
    times_and_sizes_need_ownership_or_the_right_to_write,
    a_write_open_by_a_user_clears_set_ids,
    only_root_makes_devices,
}

const READ: OpenMode = OpenMode { rights: Rights::READ, ..BOTH };
const WRITE: OpenMode = OpenMode { rights: Rights::WRITE, ..BOTH };

fn mode(mode: u32) -> AttributeChanges {
    AttributeChanges { mode: Some(mode), ..AttributeChanges::none() }
}

fn owner(uid: Option<u64>, gid: Option<u64>) -> AttributeChanges {
    AttributeChanges { uid, gid, ..AttributeChanges::none() }
}

async fn a_user_needs_search_permission_of_each_directory<S: Share>(share: S, top: FileIndex) {
    let (client, someone) = (client(&share).await, user(1000));
    let dir = mkdir(&client, top, "d", 0o744).await;
    create(&client, dir, "f").await;
    let name = OpenTarget::Name { dir, name: b"f".to_vec() };
    let statuses = [
        refused(client.look_up(&someone, dir, b"f").await),
        refused(client.look_up(&someone, dir, b"missing").await),
        refused(client.open(&someone, name, READ).await),
        refused(client.parent(&someone, dir).await),
    ];
    assert_eq!(statuses, [Status::PermissionDenied; 4]);
    let listing = client.list(&someone, dir, 0, 4096, true).await.expect("it may be read");
    assert_eq!(listing.entries.len(), 1);
    assert!(listing.entries[0].attributes.is_none(), "attributes need search permission");
    client.set_attributes(&root(), dir, mode(0o711)).await.expect("a chmod");
    client.look_up(&someone, dir, b"f").await.expect("it may be searched");
    let listing = client.list(&someone, dir, 0, 4096, false).await;
    assert_eq!(refused(listing), Status::PermissionDenied);
}

async fn only_a_writer_of_a_directory_changes_its_entries<S: Share>(share: S, top: FileIndex) {
    let (client, someone) = (client(&share).await, user(1000));
    let dir = mkdir(&client, top, "d", 0o755).await;
    let file = create(&client, dir, "f").await.index();
    let replace = RenameMode::Replace;
    let statuses = [
        refused(client.make_directory(&someone, dir, b"x", 0o755).await),
        refused(client.make_symlink(&someone, dir, b"x", b"t").await),
        refused(client.open(&someone, create_target(dir, "x"), BOTH).await),
        refused(client.link(&someone, file, dir, b"x").await),
        refused(client.remove(&someone, dir, b"f").await),
        refused(client.rename(&someone, (dir, b"f"), (dir, b"x"), replace).await),
    ];
    assert_eq!(statuses, [Status::PermissionDenied; 6]);
    let exists = client.make_directory(&someone, dir, b"f", 0o755).await;
    assert_eq!(refused(exists), Status::Exists, "as on Linux");
    client.open(&someone, create_target(dir, "f"), READ).await.expect("it exists");
}

async fn a_sticky_directory_protects_entries_of_others<S: Share>(share: S, top: FileIndex) {
    let (client, one, other) = (client(&share).await, user(1000), user(1001));
    let dir = mkdir(&client, top, "tmp", 0o1777).await;
    client.make_directory(&one, dir, b"of one", 0o777).await.expect("mkdir");
    let mine = client.make_directory(&other, dir, b"of other", 0o777).await;
    mine.expect("mkdir");
    assert_eq!(refused(client.remove(&other, dir, b"of one").await), Status::NotPermitted);
    let replace = RenameMode::Replace;
    let moved = client.rename(&other, (dir, b"of one"), (dir, b"x"), replace).await;
    assert_eq!(refused(moved), Status::NotPermitted);
    let over = client.rename(&other, (dir, b"of other"), (dir, b"of one"), replace).await;
    assert_eq!(refused(over), Status::NotPermitted);
    client.remove(&one, dir, b"of one").await.expect("its owner");
    client.remove(&root(), dir, b"of other").await.expect("root");
}

async fn the_first_class_that_matches_decides<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let file = create(&client, top, "f").await.index();
    client.set_attributes(&root(), file, owner(Some(1000), Some(50))).await.expect("a chown");
    client.set_attributes(&root(), file, mode(0o074)).await.expect("a chmod");
    let members = Identity { groups: vec![7, 50], ..user(1001) };
    let has = async |who| client.access(&who, file, 7).await.expect("an answer");
    assert_eq!(has(user(1000)).await, 0, "the owner's bits, though others have more");
    assert_eq!(has(members).await, 7, "a supplementary group");
    assert_eq!(has(user(1002)).await, 4);
    assert_eq!(has(root()).await, 7);
}

async fn access_returns_what_the_user_has_of_the_wanted<S: Share>(share: S, top: FileIndex) {
    let (client, someone) = (client(&share).await, user(1000));
    let file = create(&client, top, "f").await.index();
    for bits in 0..8 {
        client.set_attributes(&root(), file, mode(0o600 | bits)).await.expect("a chmod");
        for wanted in 0..8 {
            let has = client.access(&someone, file, wanted).await.expect("an answer");
            assert_eq!(u32::from(has), u32::from(wanted) & bits, "{wanted} of {bits}");
        }
    }
    client.set_attributes(&root(), file, mode(0o666)).await.expect("a chmod");
    let has = client.access(&root(), file, 7).await.expect("an answer");
    assert_eq!(has, 6, "root executes what somebody may execute");
}

async fn a_creator_may_open_its_file_whatever_the_mode<S: Share>(share: S, top: FileIndex) {
    let (client, someone) = (client(&share).await, user(1000));
    let dir = mkdir(&client, top, "d", 0o777).await;
    let target = OpenTarget::Create {
        dir,
        name: b"f".to_vec(),
        exclusive: true,
        truncate: false,
        mode: 0o400,
    };
    let opened = client.open(&someone, target.clone(), BOTH).await.expect("a new file");
    crate::support::write(&opened.file, 0, b"written").await;
    assert_eq!(refused(client.open(&someone, target, BOTH).await), Status::Exists);
    let again = OpenTarget::File(opened.file.index());
    assert_eq!(
        refused(client.open(&someone, again.clone(), WRITE).await),
        Status::PermissionDenied
    );
    client.open(&someone, again, READ).await.expect("it may be read");
}

async fn new_files_belong_to_the_user_and_inherit_a_setgid_group<S: Share>(
    share: S,
    top: FileIndex,
) {
    let (client, someone) = (client(&share).await, user(1000));
    let dir = mkdir(&client, top, "d", 0o777).await;
    let made = client.open(&someone, create_target(dir, "f"), BOTH).await.expect("a new file");
    assert_eq!((made.attributes.uid, made.attributes.gid), (1000, 1000));
    assert_eq!(made.attributes.mode, 0o644);
    let shared = mkdir(&client, top, "shared", 0o777).await;
    client.set_attributes(&root(), shared, owner(None, Some(50))).await.expect("a chown");
    client.set_attributes(&root(), shared, mode(0o2777)).await.expect("a chmod");
    let made = client.open(&someone, create_target(shared, "f"), BOTH).await.expect("a new file");
    assert_eq!((made.attributes.uid, made.attributes.gid), (1000, 50));
    let (below, _) =
        client.make_directory(&someone, shared, b"below", 0o755).await.expect("a directory");
    assert_eq!((below.gid, below.mode), (50, 0o2755));
}

async fn only_the_owner_changes_the_mode_and_only_root_the_owner<S: Share>(
    share: S,
    top: FileIndex,
) {
    let (client, someone) = (client(&share).await, user(1000));
    let file = create(&client, top, "f").await.index();
    let chmod = client.set_attributes(&someone, file, mode(0o777)).await;
    assert_eq!(refused(chmod), Status::NotPermitted);
    client.set_attributes(&root(), file, owner(Some(1000), None)).await.expect("root");
    let changed = client.set_attributes(&someone, file, mode(0o2705)).await.expect("the owner");
    assert_eq!(changed.mode, 0o705, "setgid needs membership in the group");
    for change in [owner(Some(1001), None), owner(None, Some(51))] {
        let chown = client.set_attributes(&someone, file, change).await;
        assert_eq!(refused(chown), Status::NotPermitted);
    }
    let member = Identity { groups: vec![51], ..someone };
    let changed = client.set_attributes(&member, file, owner(None, Some(51))).await;
    assert_eq!(changed.expect("a group of the owner").gid, 51);
    let wrong = client.set_attributes(&root(), file, mode(0o10000)).await;
    assert_eq!(refused(wrong), Status::Invalid);
}

async fn times_and_sizes_need_ownership_or_the_right_to_write<S: Share>(share: S, top: FileIndex) {
    let (client, someone) = (client(&share).await, user(1000));
    // Open for writing by another user of the same client, which changes nothing.
    let opened = create(&client, top, "f").await;
    let file = opened.index();
    let (time, now) = (braid_share::Timestamp { seconds: 5, nanos: 6 }, SetTime { time: None });
    let given = || AttributeChanges {
        mtime: Some(SetTime { time: Some(time) }),
        ..AttributeChanges::none()
    };
    let both_now = || AttributeChanges {
        atime: Some(now.clone()),
        mtime: Some(now.clone()),
        ..AttributeChanges::none()
    };
    let size = || AttributeChanges { bytes: Some(ByteCount(9)), ..AttributeChanges::none() };
    let set = async |changes| client.set_attributes(&someone, file, changes).await;
    assert_eq!(refused(set(given()).await), Status::NotPermitted);
    assert_eq!(refused(set(both_now()).await), Status::PermissionDenied);
    assert_eq!(refused(set(size()).await), Status::PermissionDenied);
    client.set_attributes(&root(), file, mode(0o666)).await.expect("a chmod");
    assert_eq!(refused(set(given()).await), Status::NotPermitted);
    set(both_now()).await.expect("the right to write is enough");
    assert_eq!(set(size()).await.expect("the right to write is enough").bytes.0, 9);
    let changed = client.set_attributes(&root(), file, given()).await.expect("root");
    assert_eq!(changed.mtime, time);
}

async fn a_write_open_by_a_user_clears_set_ids<S: Share>(share: S, top: FileIndex) {
    let (client, someone) = (client(&share).await, user(1000));
    let file = create(&client, top, "f").await;
    let index = file.index();
    file.close().await.expect("a close");
    client.set_attributes(&root(), index, mode(0o6777)).await.expect("a chmod");
    let opened = client.open(&someone, OpenTarget::File(index), READ).await.expect("an open");
    assert_eq!(opened.attributes.mode, 0o6777);
    let opened = client.open(&someone, OpenTarget::File(index), BOTH).await.expect("an open");
    crate::support::write(&opened.file, 0, b"x").await;
    let now = client.attributes(&root(), index).await.expect("attributes");
    assert_eq!(now.mode, 0o777);
}

async fn only_root_makes_devices<S: Share>(share: S, top: FileIndex) {
    let (client, someone) = (client(&share).await, user(1000));
    let dir = mkdir(&client, top, "d", 0o777).await;
    let kind = braid_share::FileKind::CharDevice;
    let made = client.make_node(&someone, dir, b"c", kind, 0o600, 1).await;
    assert_eq!(refused(made), Status::NotPermitted);
    let kind = braid_share::FileKind::Fifo;
    client.make_node(&someone, dir, b"f", kind, 0o600, 1).await.expect("a fifo");
}
