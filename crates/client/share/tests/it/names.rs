//! Names: made, found, listed, linked and removed.

use std::collections::BTreeMap;

use braid_share::{
    FileIndex, FileKind, OpenTarget, RenameMode, Share, ShareClient, ShareFile, Status,
};

use crate::support::{
    BOTH, change_of, client, create, create_target, look_up, mkdir, on_both, refused, root, user,
};

on_both! {
    names_of_all_kinds_are_made_found_and_removed,
    names_that_no_entry_can_have_are_refused,
    names_are_found_in_another_case,
    names_in_another_case_follow_every_change,
    a_free_name_is_required_and_an_existing_one_to_remove,
    a_directory_with_entries_is_not_removed,
    a_file_exists_until_its_last_name_is_removed,
    a_directory_gets_no_second_name,
    the_parent_of_a_directory_follows_its_moves,
    a_removed_file_is_stale,
    a_listing_in_pages_shows_every_name_once,
    a_listing_under_changes_shows_every_lasting_name_once,
    listed_attributes_are_those_of_the_files,
    every_change_of_a_directory_raises_its_counter,
    changes_of_a_directory_by_many_clients_form_one_chain,
    a_file_cannot_be_used_as_a_directory,
}

async fn names_of_all_kinds_are_made_found_and_removed<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let (who, mode) = (root(), 0o640);
    create(&client, top, "file").await.close().await.expect("a close");
    mkdir(&client, top, "directory", mode).await;
    client.make_symlink(&who, top, b"symlink", b"../else/where").await.expect("a link");
    for (name, kind) in [
        ("fifo", FileKind::Fifo),
        ("socket", FileKind::Socket),
        ("char", FileKind::CharDevice),
        ("block", FileKind::BlockDevice),
    ] {
        let device = 7 << 32 | 3;
        let made = client.make_node(&who, top, name.as_bytes(), kind, mode, device).await;
        let (attributes, _) = made.expect("a new node");
        let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
        assert_eq!((attributes.kind, attributes.mode), (kind, mode));
        assert_eq!(attributes.device, if is_device { device } else { 0 });
    }
    let link = look_up(&client, top, "symlink").await;
    assert_eq!((link.kind, link.bytes.0), (FileKind::Symlink, 13));
    assert_eq!(client.read_link(&who, link.file).await.expect("a target"), b"../else/where");
    let kind = client.make_node(&who, top, b"x", FileKind::File, mode, 0).await;
    assert_eq!(refused(kind), Status::Invalid);
    for name in ["file", "directory", "symlink", "fifo", "socket", "char", "block"] {
        client.remove(&who, top, name.as_bytes()).await.expect("a removal");
        assert_eq!(refused(client.look_up(&who, top, name.as_bytes()).await), Status::NotFound);
    }
    let file = create(&client, top, "file").await;
    assert_eq!(refused(client.read_link(&who, file.index()).await), Status::Invalid);
}

async fn names_are_found_in_another_case<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let who = root();
    for name in ["Name", "Äpfel.TXT", "twice", "TWICE"] {
        create(&client, top, name).await.close().await.expect("a close");
    }
    let dir = mkdir(&client, top, "closed", 0o700).await;
    create(&client, dir, "inside").await.close().await.expect("a close");
    for (asked, stored) in [
        ("NAME", "Name"),
        ("Name", "Name"),
        ("äPFEL.txt", "Äpfel.TXT"),
        ("twice", "twice"),
        ("TWICE", "TWICE"),
        ("CLOSED", "closed"),
    ] {
        let found = client.look_up_folded(&who, top, asked.as_bytes()).await.expect("a name");
        assert_eq!(found.0, stored.as_bytes(), "{asked}");
        assert_eq!(found.1.file, look_up(&client, top, stored).await.file, "{asked}");
    }
    for (who, dir, name, wanted) in [
        (root(), top, "names", Status::NotFound),
        (root(), top, "..", Status::Invalid),
        (root(), top, "a/b", Status::Invalid),
        (user(7), dir, "INSIDE", Status::PermissionDenied),
        (root(), look_up(&client, top, "Name").await.file, "x", Status::NotDirectory),
    ] {
        let found = client.look_up_folded(&who, dir, name.as_bytes()).await;
        assert_eq!(refused(found), wanted, "{name}");
    }
}

async fn names_in_another_case_follow_every_change<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let who = root();
    let is_found = async |name: &str| {
        client.look_up_folded(&who, top, name.as_bytes()).await.ok().map(|(name, _)| name)
    };
    // The directory has an index from here on, if it ever gets one.
    assert_eq!(is_found("FIRST").await, None);
    let file = create(&client, top, "first").await;
    assert_eq!(is_found("FIRST").await.as_deref(), Some(&b"first"[..]));
    client.link(&who, file.index(), top, b"Second").await.expect("a link");
    assert_eq!(is_found("second").await.as_deref(), Some(&b"Second"[..]));
    let (old, new) = ((top, &b"first"[..]), (top, &b"Third"[..]));
    client.rename(&who, old, new, RenameMode::NoReplace).await.expect("a rename");
    assert_eq!(is_found("FIRST").await, None);
    assert_eq!(is_found("THIRD").await.as_deref(), Some(&b"Third"[..]));
    let dir = mkdir(&client, top, "dir", 0o755).await;
    let old = (dir, &b"Moved"[..]);
    create(&client, dir, "Moved").await.close().await.expect("a close");
    client.rename(&who, old, (top, b"third"), RenameMode::Replace).await.expect("a rename");
    // Which of the two a listing shows first differs between file systems.
    let first = is_found("THIRD").await.expect("one of two names");
    client.remove(&who, top, &first).await.expect("a removal");
    let second = is_found("THIRD").await.expect("the other name");
    assert_ne!(first, second);
    client.remove(&who, top, &second).await.expect("a removal");
    assert_eq!(is_found("THIRD").await, None);
}

async fn names_that_no_entry_can_have_are_refused<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let who = root();
    mkdir(&client, top, "d", 0o755).await;
    for name in [&b""[..], b".", b"..", b"d/x", b"a\0b"] {
        let name_of = String::from_utf8_lossy(name).into_owned();
        let target = create_target(top, &name_of);
        let statuses = [
            refused(client.look_up(&who, top, name).await),
            refused(client.make_directory(&who, top, name, 0o755).await),
            refused(client.make_symlink(&who, top, name, b"t").await),
            refused(client.remove(&who, top, name).await),
            refused(client.open(&who, target, BOTH).await),
            refused(
                client
                    .rename(&who, (top, b"d"), (top, name), braid_share::RenameMode::Replace)
                    .await,
            ),
        ];
        assert_eq!(statuses, [Status::Invalid; 6], "{name:?}");
    }
    let long = [b'x'; 256];
    assert_eq!(refused(client.look_up(&who, top, &long).await), Status::NameTooLong);
    client.make_directory(&who, top, &long[1..], 0o755).await.expect("255 bytes are allowed");
    let targets = [(&b""[..], Status::NotFound), (&[b'x'; 4096], Status::NameTooLong)];
    for (target, status) in targets {
        assert_eq!(refused(client.make_symlink(&who, top, b"l", target).await), status);
    }
}

async fn a_free_name_is_required_and_an_existing_one_to_remove<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let who = root();
    let file = create(&client, top, "taken").await.index();
    let statuses = [
        refused(client.make_directory(&who, top, b"taken", 0o755).await),
        refused(client.make_symlink(&who, top, b"taken", b"t").await),
        refused(client.make_node(&who, top, b"taken", FileKind::Fifo, 0o600, 0).await),
        refused(client.link(&who, file, top, b"taken").await),
    ];
    assert_eq!(statuses, [Status::Exists; 4]);
    assert_eq!(refused(client.remove(&who, top, b"free").await), Status::NotFound);
    let free = OpenTarget::Name { dir: top, name: b"free".to_vec() };
    assert_eq!(refused(client.open(&who, free, BOTH).await), Status::NotFound);
}

async fn a_directory_with_entries_is_not_removed<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let dir = mkdir(&client, top, "d", 0o755).await;
    assert_eq!(look_up(&client, top, "d").await.links, 2);
    mkdir(&client, dir, "below", 0o755).await;
    assert_eq!(look_up(&client, top, "d").await.links, 3);
    assert_eq!(refused(client.remove(&root(), top, b"d").await), Status::NotEmpty);
    client.remove(&root(), dir, b"below").await.expect("an empty directory");
    assert_eq!(look_up(&client, top, "d").await.links, 2);
    client.remove(&root(), top, b"d").await.expect("it is empty now");
}

async fn a_file_exists_until_its_last_name_is_removed<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let dir = mkdir(&client, top, "d", 0o755).await;
    let file = create(&client, top, "one").await;
    let index = file.index();
    file.close().await.expect("a close");
    let (linked, _) = client.link(&root(), index, dir, b"two").await.expect("a link");
    assert_eq!((linked.file, linked.links), (index, 2));
    client.remove(&root(), top, b"one").await.expect("a removal");
    assert_eq!(look_up(&client, dir, "two").await.links, 1);
    client.remove(&root(), dir, b"two").await.expect("a removal");
    assert_eq!(refused(client.attributes(&root(), index).await), Status::StaleHandle);
}

async fn a_directory_gets_no_second_name<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let dir = mkdir(&client, top, "d", 0o755).await;
    assert_eq!(refused(client.link(&root(), dir, top, b"e").await), Status::NotPermitted);
}

async fn the_parent_of_a_directory_follows_its_moves<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let (one, two) =
        (mkdir(&client, top, "one", 0o755).await, mkdir(&client, top, "two", 0o755).await);
    let moved = mkdir(&client, one, "moved", 0o755).await;
    let parent = async |dir| client.parent(&root(), dir).await.expect("a parent").file;
    assert_eq!((parent(moved).await, parent(one).await), (one, top));
    assert_eq!(
        (parent(top).await, parent(FileIndex::ROOT).await),
        (FileIndex::ROOT, FileIndex::ROOT)
    );
    let mode = braid_share::RenameMode::Replace;
    client.rename(&root(), (one, b"moved"), (two, b"m"), mode).await.expect("a rename");
    assert_eq!(parent(moved).await, two);
}

async fn a_removed_file_is_stale<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let who = root();
    let dir = mkdir(&client, top, "d", 0o755).await;
    client.remove(&who, top, b"d").await.expect("a removal");
    let statuses = [
        refused(client.attributes(&who, dir).await),
        refused(client.look_up(&who, dir, b"x").await),
        refused(client.list(&who, dir, 0, 4096, false).await),
        refused(client.make_directory(&who, dir, b"x", 0o755).await),
        refused(client.open(&who, create_target(dir, "x"), BOTH).await),
        refused(client.open(&who, OpenTarget::File(dir), BOTH).await),
        refused(client.xattr(&who, dir, b"user.x").await),
    ];
    assert_eq!(statuses, [Status::StaleHandle; 7]);
}

/// Lists a directory in small pages. Returns each name with how often it was listed.
async fn list_all<C: ShareClient>(
    client: &C,
    dir: braid_share::FileIndex,
    mut between: impl AsyncFnMut(usize),
) -> BTreeMap<Vec<u8>, usize> {
    let (mut found, mut cookie) = (BTreeMap::new(), 0);
    for page in 0.. {
        let listing = client.list(&root(), dir, cookie, 300, false).await.expect("a listing");
        assert!(listing.end || !listing.entries.is_empty());
        for entry in listing.entries {
            assert!(entry.cookie > cookie && entry.cookie > 2);
            cookie = entry.cookie;
            *found.entry(entry.name).or_insert(0) += 1;
        }
        if listing.end {
            break;
        }
        between(page).await;
    }
    found
}

async fn a_listing_in_pages_shows_every_name_once<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let dir = mkdir(&client, top, "d", 0o755).await;
    for number in 0..20 {
        mkdir(&client, dir, &format!("name{number}"), 0o755).await;
    }
    let mut pages = 1;
    let found = list_all(&client, dir, async |_| pages += 1).await;
    assert_eq!((found.len(), found.values().sum::<usize>()), (20, 20));
    assert!(pages > 1, "the test needs several pages");
}

async fn a_listing_under_changes_shows_every_lasting_name_once<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let dir = mkdir(&client, top, "d", 0o755).await;
    for number in 0..20 {
        mkdir(&client, dir, &format!("stays{number}"), 0o755).await;
        mkdir(&client, dir, &format!("goes{number}"), 0o755).await;
    }
    let found = list_all(&client, dir, async |page| {
        let goes = format!("goes{}", 19 - page);
        client.remove(&root(), dir, goes.as_bytes()).await.expect("a removal");
        if page < 3 {
            mkdir(&client, dir, &format!("comes{page}"), 0o755).await;
        }
    })
    .await;
    let lasting = found.iter().filter(|(name, _)| name.starts_with(b"stays"));
    assert!(lasting.clone().all(|(_, count)| *count == 1));
    assert_eq!(lasting.count(), 20);
}

async fn listed_attributes_are_those_of_the_files<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let dir = mkdir(&client, top, "d", 0o755).await;
    let file = create(&client, dir, "written").await;
    crate::support::write(&file, 0, b"12345").await;
    mkdir(&client, dir, "below", 0o700).await;
    let listing = client.list(&root(), dir, 0, 1 << 16, true).await.expect("a listing");
    assert!(listing.end);
    for entry in &listing.entries {
        let attributes = entry.attributes.as_ref().expect("attributes were requested");
        assert_eq!((attributes.file, attributes.kind), (entry.file, entry.kind));
    }
    let written = listing.entries.iter().find(|entry| entry.name == b"written");
    let size = written.and_then(|entry| entry.attributes.as_ref()).expect("the file").bytes;
    assert_eq!(size.0, 5, "also while it is open for writing");
    let without = client.list(&root(), dir, 0, 1 << 16, false).await.expect("a listing");
    assert!(without.entries.iter().all(|entry| entry.attributes.is_none()));
}

async fn every_change_of_a_directory_raises_its_counter<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let who = root();
    let (dir, other) =
        (mkdir(&client, top, "d", 0o755).await, mkdir(&client, top, "e", 0o755).await);
    let mut last = change_of(&client, dir).await;
    let mut check = |name: &str, change: braid_share::DirectoryChange| {
        assert_eq!(change.before, last, "{name}: nothing else has changed the directory");
        assert!(change.after > change.before, "{name}");
        last = change.after;
    };
    check("mkdir", client.make_directory(&who, dir, b"a", 0o755).await.expect("mkdir").1);
    check("symlink", client.make_symlink(&who, dir, b"b", b"t").await.expect("symlink").1);
    let node = client.make_node(&who, dir, b"c", FileKind::Fifo, 0o600, 0).await;
    check("mknod", node.expect("mknod").1);
    let opened = client.open(&who, create_target(dir, "f"), BOTH).await.expect("create");
    check("create", opened.directory.expect("a change"));
    let file = opened.file.index();
    check("link", client.link(&who, file, dir, b"g").await.expect("link").1);
    check("remove", client.remove(&who, dir, b"g").await.expect("remove"));
    let mode = braid_share::RenameMode::Replace;
    let within = client.rename(&who, (dir, b"f"), (dir, b"h"), mode).await.expect("rename");
    assert_eq!(within.0, within.1);
    check("rename within", within.0);
    let before = change_of(&client, other).await;
    let moved = client.rename(&who, (dir, b"h"), (other, b"h"), mode).await.expect("rename");
    check("rename away", moved.0);
    assert!(moved.1.before == before && moved.1.after > before);
    let found = client.open(&who, create_target(other, "h"), BOTH).await.expect("an open");
    assert!(!found.created);
    let unchanged = found.directory.expect("a change");
    assert_eq!(unchanged.before, unchanged.after, "the name existed");
}

async fn a_file_cannot_be_used_as_a_directory<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let who = root();
    let file = create(&client, top, "f").await.index();
    let statuses = [
        refused(client.look_up(&who, file, b"x").await),
        refused(client.list(&who, file, 0, 4096, false).await),
        refused(client.make_directory(&who, file, b"x", 0o755).await),
        refused(client.remove(&who, file, b"x").await),
        refused(client.parent(&who, file).await),
    ];
    assert_eq!(statuses, [Status::NotDirectory; 5]);
    client.sync_directory(top).await.expect("a directory");
}

/// If the two counters of a change were not read in the transaction of the change, changes by other
/// clients would be between them, and two changes would overlap.
async fn changes_of_a_directory_by_many_clients_form_one_chain<S: Share>(share: S, top: FileIndex) {
    const CLIENTS: usize = 4;
    const FILES: usize = 25;
    let own = client(&share).await;
    let dir = mkdir(&own, top, "d", 0o777).await;
    let started = change_of(&own, dir).await;
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let client = client(&share).await;
        tasks.push(tokio::spawn(async move {
            let mut changes = Vec::new();
            for file in 0..FILES {
                let name = format!("{number}-{file}");
                let opened = client.open(&root(), create_target(dir, &name), BOTH).await;
                let opened = opened.expect("a new file");
                changes.push(opened.directory.expect("a change"));
                opened.file.close().await.expect("a close");
                let moved = format!("{name}-moved");
                let ends = ((dir, name.as_bytes()), (dir, moved.as_bytes()));
                let mode = braid_share::RenameMode::Replace;
                let renamed = client.rename(&root(), ends.0, ends.1, mode).await;
                changes.push(renamed.expect("a rename").0);
                changes.push(client.remove(&root(), dir, moved.as_bytes()).await.expect("removal"));
            }
            changes
        }));
    }
    let mut changes = Vec::new();
    for task in tasks {
        changes.extend(task.await.expect("a client"));
    }
    changes.sort_by_key(|change| change.after);
    assert_eq!(changes.len(), CLIENTS * FILES * 3);
    let mut last = started;
    for change in changes {
        assert!(change.atomic);
        assert_eq!(change.before, last, "a change between the two counters, or overlapping ones");
        assert!(change.after > change.before);
        last = change.after;
    }
    assert_eq!(last, change_of(&own, dir).await);
}
