//! Each operation once, and its effects.

use braid_types::{SessionId, Status};

use super::*;
use crate::{AttributeChanges, Batch, DistributionKind, NodeArgs, Parts, SetTime, XattrMode, key};

#[test]
fn a_created_file_is_found_with_its_attributes_after_a_restart() {
    let (store, ns) = memory();
    let who = Identity { uid: 5, gid: 6, ..Identity::root() };
    let root = Identity::root();
    let home = ns.mkdir(&call(&root), ROOT, b"home", 0o777).unwrap();
    let made = create(&ns, &call(&who), home.file, b"notes").unwrap();
    assert!(made.created);
    assert_eq!(made.inode.file.shard(), home.file.shard(), "files follow their directory");
    let found = open(Arc::new(store.kill())).lookup(&who, home.file, b"notes").unwrap();
    assert_eq!(found, made.inode);
    assert_eq!((found.owner.id, found.group.id, found.mode, found.nlink), (5, 6, 0o644, 1));
}

#[test]
fn directories_spread_over_the_shards() {
    let (_, ns) = memory();
    let root = Identity::root();
    let made = |n: u8| ns.mkdir(&call(&root), ROOT, &[b'd', n], 0o755).unwrap().file.shard().0;
    let mut shards: Vec<_> = (1..=SHARDS as u8).map(made).collect();
    shards.sort();
    assert_eq!(shards, (0..SHARDS).collect::<Vec<_>>());
}

#[test]
fn a_file_index_is_never_used_twice_also_over_restarts() {
    let (store, mut ns) = memory();
    let root = Identity::root();
    let mut seen = std::collections::HashSet::new();
    let mut store = store;
    for round in 0..5u8 {
        for n in 0..20u8 {
            let made =
                create(&ns, &call(&root), ROOT, &[b'f', round, n + 1].map(|b| b.max(1))).unwrap();
            assert!(seen.insert(made.inode.file));
            ns.unlink(&call(&root), ROOT, &[b'f', round, n + 1].map(|b| b.max(1))).unwrap();
        }
        store = Arc::new(store.kill());
        ns = open(store.clone());
    }
}

#[test]
fn a_file_index_is_not_reused_after_power_took_the_create() {
    let (store, ns) = memory();
    let root = Identity::root();
    let first_index = create(&ns, &call(&root), ROOT, b"a").unwrap().inode.file;
    let ns = open(Arc::new(store.lose_power(0)));
    assert_eq!(status(ns.lookup(&root, ROOT, b"a")), Status::NotFound);
    assert_ne!(create(&ns, &call(&root), ROOT, b"b").unwrap().inode.file, first_index);
}

#[test]
fn link_counts_follow_the_names() {
    let (_, ns) = memory();
    let root = Identity::root();
    let file = create(&ns, &call(&root), ROOT, b"a").unwrap().inode.file;
    assert_eq!(ns.link(&call(&root), file, ROOT, b"b").unwrap().nlink, 2);
    ns.unlink(&call(&root), ROOT, b"a").unwrap();
    assert_eq!(ns.getattr(file).unwrap().nlink, 1);
    let dir = ns.mkdir(&call(&root), ROOT, b"d", 0o755).unwrap().file;
    assert_eq!(ns.getattr(ROOT).unwrap().nlink, 3);
    assert_eq!(status(ns.link(&call(&root), dir, ROOT, b"e")), Status::NotPermitted);
    ns.mkdir(&call(&root), dir, b"x", 0o755).unwrap();
    assert_eq!(status(ns.rmdir(&call(&root), ROOT, b"d")), Status::NotEmpty);
    assert_eq!(status(ns.unlink(&call(&root), ROOT, b"d")), Status::IsDirectory);
    assert_eq!(status(ns.rmdir(&call(&root), ROOT, b"b")), Status::NotDirectory);
    ns.rmdir(&call(&root), dir, b"x").unwrap();
    ns.rmdir(&call(&root), ROOT, b"d").unwrap();
    assert_eq!(ns.getattr(ROOT).unwrap().nlink, 2);
    assert_eq!(status(ns.getattr(dir)), Status::StaleHandle);
}

#[test]
fn special_files_keep_their_device_and_only_root_makes_devices() {
    let (_, ns) = memory();
    let (root, user) = (Identity::root(), user(5));
    let dir = ns.mkdir(&call(&root), ROOT, b"dev", 0o777).unwrap().file;
    let node = |kind, rdev| NodeArgs { kind, mode: 0o600.into(), rdev };
    let made = ns.mknod(&call(&root), dir, b"null", node(FileKind::CharDevice, 0x103)).unwrap();
    assert_eq!((made.kind, made.rdev), (FileKind::CharDevice, 0x103));
    assert_eq!(
        status(ns.mknod(&call(&user), dir, b"sda", node(FileKind::BlockDevice, 1))),
        Status::NotPermitted
    );
    assert_eq!(ns.mknod(&call(&user), dir, b"pipe", node(FileKind::Fifo, 7)).unwrap().rdev, 0);
    assert_eq!(
        status(ns.mknod(&call(&root), dir, b"x", node(FileKind::Directory, 0))),
        Status::Invalid
    );
}

#[test]
fn paths_are_resolved_through_symbolic_links() {
    let (_, ns) = memory();
    let root = Identity::root();
    let a = ns.mkdir(&call(&root), ROOT, b"a", 0o755).unwrap().file;
    let b = ns.mkdir(&call(&root), a, b"b", 0o755).unwrap().file;
    let file = create(&ns, &call(&root), b, b"file").unwrap().inode.file;
    ns.symlink(&call(&root), ROOT, b"abs", b"/a/b/").unwrap();
    ns.symlink(&call(&root), b, b"up", b"../b/./file").unwrap();
    let at = |path: &[u8], follow| ns.resolve(&root, ROOT, path, follow).map(|inode| inode.file);
    assert_eq!(at(b"/a/b/file", true), Ok(file));
    assert_eq!(at(b"abs//up", true), Ok(file));
    assert_ne!(at(b"abs/up", false), Ok(file));
    assert_eq!(at(b"abs/", false), Ok(b));
    assert_eq!(ns.resolve(&root, b, b"../../a", true).unwrap().file, a);
    assert_eq!(status(at(b"a/b/file/", true)), Status::NotDirectory);
    assert_eq!(status(at(b"a/b/file/x", true)), Status::NotDirectory);
    assert_eq!(status(at(b"a/c/file", true)), Status::NotFound);
    assert_eq!(
        ns.readlink(ns.resolve(&root, b, b"up", false).unwrap().file).unwrap(),
        b"../b/./file"
    );
}

#[test]
fn a_chain_of_links_is_followed_up_to_the_limit() {
    let (_, ns) = memory();
    let root = Identity::root();
    let file = create(&ns, &call(&root), ROOT, b"l0").unwrap().inode.file;
    for n in 1..=41 {
        ns.symlink(
            &call(&root),
            ROOT,
            format!("l{n}").as_bytes(),
            format!("l{}", n - 1).as_bytes(),
        )
        .unwrap();
    }
    assert_eq!(ns.resolve(&root, ROOT, b"l40", true).unwrap().file, file);
    assert_eq!(status(ns.resolve(&root, ROOT, b"l41", true)), Status::TooManyLinks);
    ns.symlink(&call(&root), ROOT, b"loop", b"loop").unwrap();
    assert_eq!(status(ns.resolve(&root, ROOT, b"loop", true)), Status::TooManyLinks);
}

#[test]
fn a_slot_is_found_for_a_name_that_is_not_there_yet() {
    let (_, ns) = memory();
    let root = Identity::root();
    let a = ns.mkdir(&call(&root), ROOT, b"a", 0o755).unwrap().file;
    ns.symlink(&call(&root), ROOT, b"dangling", b"a/new").unwrap();
    let slot = ns.resolve_slot(&root, ROOT, b"a/new/", false).unwrap();
    assert_eq!((slot.directory, &slot.name[..], slot.wants_directory), (a, &b"new"[..], true));
    let slot = ns.resolve_slot(&root, ROOT, b"dangling", true).unwrap();
    assert_eq!((slot.directory, &slot.name[..]), (a, &b"new"[..]));
    let slot = ns.resolve_slot(&root, ROOT, b"dangling", false).unwrap();
    assert_eq!((slot.directory, &slot.name[..]), (ROOT, &b"dangling"[..]));
    assert_eq!(status(ns.resolve_slot(&root, ROOT, b"b/new", false)), Status::NotFound);
}

#[test]
fn times_and_the_change_counter_follow_changes() {
    let (_, ns) = memory();
    let root = Identity::root();
    let file = create(&ns, &call(&root), ROOT, b"f").unwrap().inode;
    let later = Call { who: &root, now: at(200), replay: None };
    let times = AttributeChanges {
        mtime: Some(SetTime::To(at(-7))),
        atime: Some(SetTime::Now),
        ..AttributeChanges::default()
    };
    let new = ns.setattr(&later, file.file, &times).unwrap();
    assert_eq!((new.mtime, new.atime, new.ctime, new.btime), (at(-7), at(200), at(200), at(100)));
    assert!(new.change > file.change);
    let directory = ns.getattr(ROOT).unwrap();
    create(&ns, &later, ROOT, b"g").unwrap();
    let changed = ns.getattr(ROOT).unwrap();
    assert_eq!(changed.mtime, at(200));
    assert!(changed.change > directory.change);
}

#[test]
fn extended_attributes_are_set_listed_replaced_and_go_with_the_file() {
    let (store, ns) = memory();
    let root = Identity::root();
    let before = store.dump().len();
    let file = create(&ns, &call(&root), ROOT, b"f").unwrap().inode.file;
    let set = |name: &[u8], mode| ns.set_xattr(&call(&root), file, name, b"v", mode, false);
    set(b"user.b", XattrMode::Create).unwrap();
    set(b"user.a", XattrMode::Either).unwrap();
    assert_eq!(status(set(b"user.a", XattrMode::Create)), Status::Exists);
    assert_eq!(status(set(b"user.c", XattrMode::Replace)), Status::NoAttribute);
    assert_eq!(status(set(b"odd.c", XattrMode::Either)), Status::Unsupported);
    assert_eq!(ns.list_xattrs(&root, file).unwrap(), [b"user.a", b"user.b"]);
    assert_eq!(ns.xattr(&root, file, b"user.a").unwrap(), b"v");
    ns.remove_xattr(&call(&root), file, b"user.a").unwrap();
    assert_eq!(status(ns.xattr(&root, file, b"user.a")), Status::NoAttribute);
    ns.unlink(&call(&root), ROOT, b"f").unwrap();
    // Only the counter of the shard stays.
    assert_eq!(store.dump().len(), before + 1);
}

#[test]
fn children_inherit_layout_and_placement_of_their_directory() {
    let (_, ns) = memory();
    let root = Identity::root();
    let dir = ns.mkdir(&call(&root), ROOT, b"d", 0o755).unwrap().file;
    let default = DirectoryDefault {
        distribution: Some(DistributionKind::Single),
        stripe_bytes: Some(1 << 16),
        labels: vec!["disk=ssd".into()],
        ..DirectoryDefault::default()
    };
    ns.set_directory_default(&call(&root), dir, Some(&default)).unwrap();
    let sub = ns.mkdir(&call(&root), dir, b"sub", 0o755).unwrap().file;
    assert_eq!(ns.directory_default(sub).unwrap().as_ref(), Some(&default));
    let mut seen = None;
    let place = |default: Option<&DirectoryDefault>, _| {
        seen = default.cloned();
        Ok(layout(1))
    };
    ns.create(
        &call(&root),
        sub,
        b"f",
        CreateArgs { mode: 0o644.into(), exclusive: true, open: None, place },
    )
    .unwrap();
    assert_eq!(seen, Some(default));
    ns.set_directory_default(&call(&root), dir, None).unwrap();
    assert_eq!(ns.directory_default(dir).unwrap(), None);
    assert!(ns.directory_default(sub).unwrap().is_some(), "existing directories keep theirs");
}

#[test]
fn the_layout_of_a_file_changes_only_while_it_is_empty() {
    let (_, ns) = memory();
    let root = Identity::root();
    let file = create(&ns, &call(&root), ROOT, b"f").unwrap().inode.file;
    let new = ns.set_layout(&call(&root), file, layout(2)).unwrap();
    assert_eq!(new.layout.as_ref().unwrap().version.0, 2);
    ns.mend(&call(&root), file, Some(9), Some(Parts::first(2))).unwrap();
    assert_eq!(status(ns.set_layout(&call(&root), file, layout(3))), Status::Busy);
}

#[test]
fn mending_removes_no_part_and_skips_files_that_are_written() {
    let (_, ns) = memory();
    let root = Identity::root();
    let file = create(&ns, &call(&root), ROOT, b"f").unwrap().inode.file;
    ns.mend(&call(&root), file, Some(9), Some(Parts::first(2))).unwrap();
    ns.mend(&call(&root), file, None, Some(Parts::first(1))).unwrap();
    let mended = ns.getattr(file).unwrap();
    assert_eq!((mended.size, &mended.parts), (9, &Parts::first(2)));
    let args = crate::OpenArgs::plain(SessionId(9), crate::Access::WRITE);
    ns.open_file(&call(&root), file, args).unwrap();
    assert_eq!(status(ns.mend(&call(&root), file, Some(1), None)), Status::Busy);
    ns.end_session(SessionId(9), at(1)).unwrap();
    let generation = ns.getattr(file).unwrap().size_generation;
    let found =
        crate::ObjectSummary { generation, size: 9, parts: Parts::none(), mtime: None, change: 0 };
    ns.record_size(&call(&root), file, &found).unwrap();
    ns.begin_intent(&call(&root), file, crate::IntentKind::Truncate { size: 3 }, false).unwrap();
    assert_eq!(status(ns.mend(&call(&root), file, Some(1), None)), Status::Busy);
    assert_eq!(ns.getattr(file).unwrap().size, 9);
}

#[test]
fn keys_daemons_and_sessions_outlive_a_restart_and_ids_are_never_reused() {
    let (store, ns) = memory();
    let key = ns.add_client_key("laptop", b"secret", crate::KeyRights::default(), at(1)).unwrap();
    let iod = ns.register_iod([1; 16], &["a:1".into()], &[]).unwrap();
    let epoch = ns.cluster().map_epoch;
    assert_eq!(ns.register_iod([1; 16], &["a:1".into()], &[]).unwrap(), iod);
    assert_eq!(ns.cluster().map_epoch, epoch, "nothing new, no new epoch");
    let moved = ns.register_iod([1; 16], &["b:1".into()], &[]).unwrap();
    assert_eq!(moved.id, iod.id);
    assert!(ns.cluster().map_epoch > epoch);
    let session = ns.begin_session(key.id, None, "host").unwrap();
    ns.revoke_client_key(key.id).unwrap();
    let old = ns.epoch();
    let ns = open(Arc::new(store.kill()));
    assert!(ns.epoch() > old);
    assert!(ns.client_key(key.id).unwrap().unwrap().revoked);
    assert_eq!(ns.iods().unwrap(), [moved]);
    assert_eq!(ns.sessions().unwrap(), std::slice::from_ref(&session));
    ns.end_session(session.session, at(1)).unwrap();
    assert!(ns.begin_session(key.id, None, "host").unwrap().session > session.session);
    assert_eq!(ns.session(session.session).unwrap(), None);
}

#[test]
fn an_older_server_cannot_commit_after_a_newer_one_started() {
    let (store, old) = memory();
    let root = Identity::root();
    let _new = open(store);
    assert_eq!(status(create(&old, &call(&root), ROOT, b"late")), Status::NotServing);
}

/// Removes a name and leaves the file, as in a damaged store.
fn lose_name(store: &MemoryStore, ns: &Namespace, directory: FileIndex, name: &[u8]) {
    let page = ns.readdir(&Identity::root(), directory, 0, 4096, false).unwrap();
    let entry = page.entries.into_iter().find(|listed| listed.name == name).unwrap().entry;
    let mut batch = Batch::new();
    batch.remove(key::entry(directory, name));
    batch.remove(key::cookie(directory, entry.cookie));
    store.commit(batch, store.fence()).unwrap();
}

#[test]
fn a_file_without_a_name_is_adopted_by_lost_and_found() {
    let (store, ns) = memory();
    let root = Identity::root();
    let lost = ns.mkdir(&call(&root), ROOT, b"lost+found", 0o700).unwrap().file;
    let file = create(&ns, &call(&root), ROOT, b"f").unwrap().inode.file;
    ns.link(&call(&root), file, ROOT, b"g").unwrap();
    [b"f", b"g"].iter().for_each(|name| lose_name(&store, &ns, ROOT, *name));
    let change = ns.getattr(file).unwrap().change;
    assert_eq!(status(ns.adopt(&call(&user(5)), file, lost, b"x", change)), Status::NotPermitted);
    ns.adopt(&call(&root), file, lost, b"x", change).unwrap();
    let found = ns.lookup(&root, lost, b"x").unwrap();
    assert_eq!((found.file, found.nlink, found.parent), (file, 1, lost));
}

#[test]
fn a_directory_without_a_name_is_adopted_with_all_that_is_in_it() {
    let (store, ns) = memory();
    let root = Identity::root();
    let lost = ns.mkdir(&call(&root), ROOT, b"lost+found", 0o700).unwrap().file;
    let dir = ns.mkdir(&call(&root), ROOT, b"d", 0o755).unwrap().file;
    let sub = ns.mkdir(&call(&root), dir, b"sub", 0o755).unwrap().file;
    lose_name(&store, &ns, ROOT, b"d");
    let change = ns.getattr(dir).unwrap().change;
    ns.adopt(&call(&root), dir, lost, b"x", change).unwrap();
    let found = ns.lookup(&root, lost, b"x").unwrap();
    assert_eq!((found.file, found.nlink, found.parent), (dir, 3, lost));
    assert_eq!(ns.lookup(&root, dir, b"sub").unwrap().file, sub);
    assert_eq!(ns.getattr(lost).unwrap().nlink, 3, "it has a directory in it now");
}

#[test]
fn a_link_count_from_before_a_change_is_not_recorded() {
    let (_, ns) = memory();
    let root = Identity::root();
    let file = create(&ns, &call(&root), ROOT, b"f").unwrap().inode.file;
    let counted = ns.getattr(file).unwrap().change;
    ns.link(&call(&root), file, ROOT, b"g").unwrap();
    assert_eq!(status(ns.mend_links(&call(&root), file, 1, counted)), Status::TryAgain);
    assert_eq!(status(ns.adopt(&call(&root), file, ROOT, b"h", counted)), Status::TryAgain);
    assert_eq!(ns.getattr(file).unwrap().nlink, 2);
    let now = ns.getattr(file).unwrap().change;
    assert_eq!(status(ns.mend_links(&call(&user(5)), file, 7, now)), Status::NotPermitted);
    ns.mend_links(&call(&root), file, 7, now).unwrap();
    assert_eq!(ns.getattr(file).unwrap().nlink, 7);
}

#[test]
fn a_link_count_that_is_too_low_does_not_wrap_around() {
    let (_, ns) = memory();
    let root = Identity::root();
    let file = create(&ns, &call(&root), ROOT, b"f").unwrap().inode.file;
    ns.mend_links(&call(&root), file, 0, ns.getattr(file).unwrap().change).unwrap();
    ns.unlink(&call(&root), ROOT, b"f").unwrap();
    assert_eq!(status(ns.getattr(file)), Status::StaleHandle);
}

#[test]
fn threads_that_change_the_same_directories_lose_nothing() {
    let (_, ns) = memory();
    let root = Identity::root();
    let dirs: Vec<_> = (0..4)
        .map(|n| ns.mkdir(&call(&root), ROOT, &[b'd', b'0' + n], 0o755).unwrap().file)
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let (ns, dirs) = (&ns, &dirs);
            scope.spawn(move || {
                let root = Identity::root();
                for n in 0..100u32 {
                    let name = format!("t{thread}-{n}").into_bytes();
                    let dir = dirs[(n % 4) as usize];
                    create(ns, &replayed(&root, thread, u64::from(n) + 1), dir, &name).unwrap();
                    assert!(
                        ns.lookup(&root, dir, &name).is_ok(),
                        "an acknowledged change is visible"
                    );
                    let listed = names(ns, dir);
                    assert!(listed.contains(&name));
                }
            });
        }
    });
    for dir in dirs {
        assert_eq!(ns.getattr(dir).unwrap().size, 200);
        assert_eq!(names(&ns, dir).len(), 200);
    }
}

#[test]
fn indexes_that_were_reserved_ahead_are_never_given_twice() {
    let (store, ns) = memory();
    let root = Identity::root();
    let make = |ns: &Namespace, name: String| {
        create(ns, &call(&root), ROOT, name.as_bytes()).unwrap().inode.file
    };
    let first = make(&ns, "f".into());
    assert!(ns.is_created_in_this_epoch(first) && !ns.is_low_on_indexes());
    let mut made = 0;
    while !ns.is_low_on_indexes() {
        make(&ns, format!("f{made}"));
        made += 1;
    }
    ns.reserve_ahead().unwrap();
    assert!(!ns.is_low_on_indexes());
    // An index that only the second reservation allows.
    while !ns.is_low_on_indexes() {
        make(&ns, format!("f{made}"));
        made += 1;
    }
    let last = make(&ns, "last".into());
    // The loss of power takes the create, not its reservation.
    let after = open(Arc::new(store.lose_power(0)));
    let next = make(&after, "next".into());
    assert!(next > last, "{next} after {last}");
    assert!(
        after.is_created_in_this_epoch(next)
            && !after.is_created_in_this_epoch(last)
            && !after.is_created_in_this_epoch(first)
    );
}
