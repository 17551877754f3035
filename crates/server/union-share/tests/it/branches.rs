//! What only a union has: several branches, direct changes, POSIX lists.

use std::{fs, os::unix::fs::PermissionsExt};

use braid_share::{
    FileKind, OpenTarget, RenameMode, ShareClient, ShareFile, Status, XattrMode, nfs4_acl::Who,
};

use crate::support::{
    BOTH, Fixture, ROOT, change_of, create, create_target, look_up, mkdir, read, refused, root,
    run, user, write,
};

#[test]
fn the_first_branch_shows_a_name_and_a_removal_removes_both() {
    let prepared = Fixture::over(2, "first", |branches| {
        branches.iter().for_each(|branch| fs::create_dir(branch.join("d")).unwrap());
        fs::write(branches[0].join("d/f"), b"first").unwrap();
        fs::write(branches[1].join("d/f"), b"second").unwrap();
        fs::write(branches[1].join("d/only"), b"only").unwrap();
    });
    let Some(fixture) = prepared else { return };
    run(async {
        let own = fixture.own();
        let dir = look_up(&own, ROOT, "d").await.file;
        let listing = own.list(&root(), dir, 0, 4096, true).await.expect("a listing");
        let mut names: Vec<_> = listing.entries.iter().map(|entry| &entry.name[..]).collect();
        names.sort();
        assert_eq!(names, [&b"f"[..], b"only"]);
        let target = OpenTarget::Name { dir, name: b"f".to_vec() };
        let file = own.open(&root(), target, BOTH).await.expect("an open").file;
        assert_eq!(read(&file, 0, 9).await.0, b"first");
        file.close().await.unwrap();
        own.remove(&root(), dir, b"f").await.expect("a removal");
        assert!(fixture.branches.iter().all(|branch| !branch.join("d/f").exists()));
        let ends = ((dir, &b"only"[..]), (ROOT, &b"up"[..]));
        own.rename(&root(), ends.0, ends.1, RenameMode::Replace).await.expect("a rename");
        assert_eq!(fs::read(fixture.branches[1].join("up")).unwrap(), b"only");
        own.remove(&root(), ROOT, b"d").await.expect("it is empty on both");
        assert!(fixture.branches.iter().all(|branch| !branch.join("d").exists()));
    });
}

#[test]
fn a_directory_keeps_its_number_when_another_branch_gets_it() {
    let Some(fixture) = Fixture::new(2, "round-robin") else { return };
    run(async {
        let own = fixture.own();
        let dir = mkdir(&own, ROOT, "d", 0o750).await;
        for name in ["a", "b", "c", "e"] {
            create(&own, dir, name).await.close().await.unwrap();
        }
        assert!(fixture.branches.iter().all(|branch| branch.join("d").is_dir()));
        assert_eq!(look_up(&own, ROOT, "d").await.file, dir);
        let listing = own.list(&root(), dir, 0, 1 << 16, true).await.expect("a listing");
        assert_eq!(listing.entries.len(), 4);
    });
}

#[test]
fn a_change_on_the_disk_is_seen_and_raises_the_counter() {
    let Some(fixture) = Fixture::new(1, "first") else { return };
    let disk = &fixture.branches[0];
    run(async {
        let own = fixture.own();
        let file = create(&own, ROOT, "f").await;
        write(&file, 0, b"through the share").await;
        let (before, of_root) = (change_of(&own, file.index()).await, change_of(&own, ROOT).await);
        // More than a tick of the clock, which kernels before 6.13 need.
        std::thread::sleep(std::time::Duration::from_millis(10));
        fs::write(disk.join("f"), b"directly").unwrap();
        fs::write(disk.join("g"), b"").unwrap();
        assert!(change_of(&own, file.index()).await > before);
        assert!(change_of(&own, ROOT).await > of_root);
        assert_eq!(read(&file, 0, 99).await.0, b"directly");
        look_up(&own, ROOT, "g").await;
    });
}

#[test]
fn users_have_the_rights_that_modes_and_posix_lists_give() {
    let Some(fixture) = Fixture::new(2, "first") else { return };
    run(async {
        let own = fixture.own();
        let (alice, bob) = (user(1000), user(1001));
        let home = mkdir(&own, ROOT, "home", 0o777).await;
        let opened = own.open(&alice, create_target(home, "f"), BOTH).await.expect("a new file");
        let index = opened.file.index();
        write(&opened.file, 0, b"secret").await;
        let path = fixture.branches[0].join("home/f");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let open = OpenTarget::File(index);
        let denied = own.open(&bob, open.clone(), BOTH).await;
        assert_eq!(refused(denied), Status::PermissionDenied);
        assert_eq!(own.access(&bob, index, 7).await.expect("an answer"), 0);
        // user::rw-, user:1001:r--, group::---, mask::r--, other::---
        let entries = [(1_u16, 6_u16, u32::MAX), (2, 4, 1001), (4, 0, u32::MAX)];
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, bits, id) in entries.into_iter().chain([(16, 4, u32::MAX), (32, 0, u32::MAX)]) {
            list.extend(tag.to_le_bytes());
            list.extend(bits.to_le_bytes());
            list.extend(id.to_le_bytes());
        }
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&path, "system.posix_acl_access", &list, flags).unwrap();
        assert_eq!(own.access(&bob, index, 7).await.expect("an answer"), 4);
        assert_eq!(own.access(&user(1002), index, 7).await.expect("an answer"), 0);
        let known = own.attributes(&root(), index).await.expect("attributes");
        let shown = own.nfs4_acl(&root(), &known).await.expect("a list");
        assert!(shown.aces().iter().any(|ace| ace.who == Who::User(1001)));
        // The thread that served the users is root again.
        own.open(&root(), open, BOTH).await.expect("root");
        assert_eq!(fs::read(&path).unwrap(), b"secret");
    });
}

#[test]
fn extended_attributes_of_the_disk_are_shown() {
    let Some(fixture) = Fixture::new(1, "first") else { return };
    run(async {
        let (own, who) = (fixture.own(), root());
        let file = create(&own, ROOT, "f").await.index();
        own.set_xattr(&who, file, b"user.a", b"1", XattrMode::Create).await.expect("a new one");
        let twice = own.set_xattr(&who, file, b"user.a", b"2", XattrMode::Create).await;
        assert_eq!(refused(twice), Status::Exists);
        let missing = own.set_xattr(&who, file, b"user.b", b"2", XattrMode::Replace).await;
        assert_eq!(refused(missing), Status::NoAttribute);
        assert_eq!(own.xattrs(&who, file).await.expect("the names"), [b"user.a".to_vec()]);
        let mut value = [0; 4];
        let path = fixture.branches[0].join("f");
        assert_eq!(rustix::fs::getxattr(&path, "user.a", &mut value[..]), Ok(1));
        own.remove_xattr(&who, file, b"user.a").await.expect("a removal");
        assert_eq!(refused(own.xattr(&who, file, b"user.a").await), Status::NoAttribute);
    });
}

#[test]
fn files_of_the_union_itself_are_not_shown() {
    let Some(fixture) = Fixture::new(1, "first") else { return };
    run(async {
        let own = fixture.own();
        assert!(fixture.branches[0].join(".braid-branch").exists());
        let listing = own.list(&root(), ROOT, 0, 4096, false).await.expect("a listing");
        assert!(listing.entries.is_empty());
        let found = own.look_up(&root(), ROOT, b".braid-branch").await;
        assert_eq!(refused(found), Status::NotFound);
    });
}

#[test]
fn a_listing_without_attributes_has_the_numbers_of_the_files() {
    let Some(fixture) = Fixture::new(2, "round-robin") else { return };
    run(async {
        let own = fixture.own();
        for name in ["a", "b", "c"] {
            fs::write(fixture.branches[0].join(name), b"").unwrap();
            mkdir(&own, ROOT, &format!("dir-{name}"), 0o755).await;
        }
        for _ in 0..2 {
            let listing = own.list(&root(), ROOT, 0, 4096, false).await.expect("a listing");
            assert_eq!(listing.entries.len(), 6);
            for entry in listing.entries {
                let name = String::from_utf8(entry.name).unwrap();
                assert_eq!(look_up(&own, ROOT, &name).await.file, entry.file, "{name}");
                assert_eq!(entry.kind == FileKind::Directory, name.starts_with("dir-"));
            }
        }
    });
}
