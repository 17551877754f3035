//! Permissions, as in POSIX and Linux.

use super::*;
use crate::{
    Access, AttributeChanges, CAPABILITY_XATTR, IntentKind, OpenArgs, Parts, Principal, SetTime,
    Want, XattrMode,
};

/// A directory with this owner and mode below the root.
fn directory(ns: &Namespace, owner: u64, mode: u16) -> FileIndex {
    let root = Identity::root();
    let name = format!("d-{owner}-{mode:o}");
    let file = ns.mkdir(&call(&root), ROOT, name.as_bytes(), 0o755).unwrap().file;
    let ids = (Some(Principal::posix(owner)), Some(Principal::posix(owner)));
    let changes = AttributeChanges {
        mode: Some(mode),
        owner: ids.0,
        group: ids.1,
        ..AttributeChanges::default()
    };
    ns.setattr(&call(&root), file, &changes).unwrap();
    file
}

#[test]
fn the_first_class_that_fits_decides() {
    let mut inode = sample_inode(ROOT);
    (inode.owner, inode.group) = (Principal::posix(5), Principal::posix(50));
    let in_group = Identity { uid: 6, gid: 7, groups: vec![50], permissions_checked: false };
    inode.mode = 0o077;
    assert!(crate::permit(&user(5), &inode, Want::READ).is_err(), "the owner, though others may");
    inode.mode = 0o707;
    assert!(crate::permit(&in_group, &inode, Want::READ).is_err(), "the group, though others may");
    inode.mode = 0o040;
    assert!(crate::permit(&in_group, &inode, Want::READ).is_ok(), "by a supplementary group");
    assert!(crate::permit(&user(9), &inode, Want::READ).is_err());
    inode.mode = 0o000;
    assert!(crate::permit(&Identity::root(), &inode, Want(6)).is_ok());
    assert!(
        crate::permit(&Identity::root(), &inode, Want::EXECUTE).is_err(),
        "nobody may execute it"
    );
}

#[test]
fn every_directory_on_a_path_must_be_searchable() {
    let (_, ns) = memory();
    let (root, user) = (Identity::root(), user(5));
    let outer = directory(&ns, 7, 0o766);
    let inner = ns.mkdir(&call(&root), outer, b"in", 0o777).unwrap().file;
    create(&ns, &call(&root), inner, b"f").unwrap();
    assert_eq!(status(ns.resolve(&user, outer, b"in/f", true)), Status::PermissionDenied);
    assert_eq!(status(ns.lookup(&user, outer, b"in")), Status::PermissionDenied);
    assert_eq!(status(ns.lookup(&user, outer, b"missing")), Status::PermissionDenied);
    assert!(ns.readdir(&user, outer, 0, 1000, false).is_ok(), "read permission alone lists");
    assert!(ns.resolve(&root, outer, b"in/f", true).is_ok());
}

#[test]
fn a_directory_that_may_be_listed_and_not_searched_tells_names_alone() {
    let (_, ns) = memory();
    let root = Identity::root();
    let directory = ns.mkdir(&call(&root), ROOT, b"d", 0o755).unwrap().file;
    create(&ns, &call(&root), directory, b"f").unwrap();
    for (mode, has_inode) in [(0o704, false), (0o705, true)] {
        ns.setattr(
            &call(&root),
            directory,
            &AttributeChanges { mode: Some(mode), ..AttributeChanges::default() },
        )
        .unwrap();
        let page = ns.readdir(&user(7), directory, 0, 4096, true).unwrap();
        assert_eq!(
            (page.entries.len(), page.entries[0].inode.is_some()),
            (1, has_inode),
            "{mode:o}"
        );
    }
}

#[test]
fn names_change_only_with_write_and_search_permission() {
    let (_, ns) = memory();
    let (root, user) = (Identity::root(), user(5));
    for mode in [0o755, 0o776, 0o773] {
        let dir = directory(&ns, 7, mode);
        create(&ns, &call(&root), dir, b"f").unwrap();
        let allowed = mode == 0o773;
        assert_eq!(create(&ns, &call(&user), dir, b"new").is_ok(), allowed, "{mode:o}");
        assert_eq!(ns.mkdir(&call(&user), dir, b"dir", 0o755).is_ok(), allowed);
        assert_eq!(
            ns.unlink(&call(&user), dir, b"f").is_ok(),
            allowed,
            "also a file of another user"
        );
    }
    let dir = directory(&ns, 7, 0o311);
    assert_eq!(status(ns.readdir(&user, dir, 0, 1000, false)), Status::PermissionDenied);
    assert_eq!(status(create(&ns, &call(&user), ROOT, b"d-7-311")), Status::Exists);
}

#[test]
fn in_a_sticky_directory_only_owners_remove_and_rename() {
    let (_, ns) = memory();
    let (owner, creator, other) = (user(7), user(5), user(6));
    let dir = directory(&ns, 7, 0o1777);
    for name in [b"a", b"b", b"c"] {
        create(&ns, &call(&creator), dir, name).unwrap();
    }
    create(&ns, &call(&other), dir, b"mine").unwrap();
    assert_eq!(status(ns.unlink(&call(&other), dir, b"a")), Status::NotPermitted);
    let rename = |who, from: &[u8], to: &[u8]| {
        ns.rename(&call(who), (dir, from), (dir, to), crate::RenameMode::Replace)
    };
    assert_eq!(status(rename(&other, b"a", b"z")), Status::NotPermitted);
    assert_eq!(
        status(rename(&other, b"mine", b"a")),
        Status::NotPermitted,
        "over a file of another user"
    );
    ns.unlink(&call(&creator), dir, b"a").unwrap();
    ns.unlink(&call(&owner), dir, b"b").unwrap();
    ns.unlink(&call(&Identity::root()), dir, b"c").unwrap();
}

#[test]
fn a_setgid_directory_hands_its_group_on() {
    let (_, ns) = memory();
    let user = user(5);
    let dir = directory(&ns, 7, 0o2777);
    let file = create(&ns, &call(&user), dir, b"f").unwrap().inode;
    assert_eq!((file.owner.id, file.group.id), (5, 7));
    let sub = ns.mkdir(&call(&user), dir, b"sub", 0o755).unwrap();
    assert_eq!((sub.group.id, sub.mode), (7, 0o2755));
    let args = CreateArgs { mode: 0o2775.into(), exclusive: true, open: None, place };
    let tool = ns.create(&call(&user), dir, b"tool", args).unwrap().inode;
    assert_eq!(tool.mode, 0o775, "no setgid executable of a group that its creator is not in");
}

#[test]
fn chmod_is_the_owners_and_drops_setgid_of_a_foreign_group() {
    let (_, ns) = memory();
    let (root, owner) = (Identity::root(), user(5));
    let dir = directory(&ns, 7, 0o777);
    let file = create(&ns, &call(&owner), dir, b"f").unwrap().inode.file;
    let mode = |who: &Identity, mode| {
        ns.setattr(
            &call(who),
            file,
            &AttributeChanges { mode: Some(mode), ..AttributeChanges::default() },
        )
    };
    assert_eq!(status(mode(&user(6), 0o777)), Status::NotPermitted);
    assert_eq!(status(mode(&owner, 0o10000)), Status::Invalid);
    assert_eq!(mode(&owner, 0o6755).unwrap().mode, 0o6755);
    let foreign =
        AttributeChanges { group: Some(Principal::posix(99)), ..AttributeChanges::default() };
    ns.setattr(&call(&root), file, &foreign).unwrap();
    assert_eq!(mode(&owner, 0o6755).unwrap().mode, 0o4755);
    assert_eq!(mode(&root, 0o6755).unwrap().mode, 0o6755);
}

#[test]
fn set_ids_are_cleared_by_writers_only_and_only_if_there_are_any() {
    let (_, ns) = memory();
    let (owner, other) = (user(5), user(6));
    let dir = directory(&ns, 7, 0o777);
    let file = create(&ns, &call(&owner), dir, b"f").unwrap().inode.file;
    let mode = |mode| {
        ns.setattr(
            &call(&owner),
            file,
            &AttributeChanges { mode: Some(mode), ..AttributeChanges::default() },
        )
        .unwrap()
    };
    let drop = |who: &Identity| {
        ns.setattr(
            &call(who),
            file,
            &AttributeChanges { drop_set_ids: true, ..AttributeChanges::default() },
        )
    };
    mode(0o4700);
    assert_eq!(status(drop(&other)), Status::PermissionDenied);
    assert_eq!(drop(&owner).unwrap().mode, 0o700);
    mode(0o6722);
    assert_eq!(
        drop(&other).unwrap().mode,
        0o2722,
        "setgid without group execute marks mandatory locking"
    );
    let before = mode(0o2640);
    assert_eq!(drop(&other).unwrap(), before, "times and all");
}

#[test]
fn a_write_a_truncate_and_a_chown_alone_clear_capabilities() {
    let (_, ns) = memory();
    let root = Identity::root();
    let other = user(6);
    let file = create(&ns, &call(&root), ROOT, b"f").unwrap().inode.file;
    ns.setattr(
        &call(&root),
        file,
        &AttributeChanges { mode: Some(0o4622), ..AttributeChanges::default() },
    )
    .unwrap();
    ns.set_xattr(&call(&root), file, b"user.a", b"1", XattrMode::Either, false).unwrap();
    let give = || {
        ns.set_xattr(&call(&root), file, CAPABILITY_XATTR, b"cap", XattrMode::Create, false)
            .unwrap()
    };
    let has = || ns.xattr(&root, file, CAPABILITY_XATTR).is_ok();
    let none = AttributeChanges::default;
    let set = |who: &Identity, changes: AttributeChanges| ns.setattr(&call(who), file, &changes);

    give();
    assert!(ns.has_privileges(&ns.getattr(file).unwrap()));
    set(&root, AttributeChanges { mode: Some(0o4622), mtime: Some(SetTime::Now), ..none() })
        .unwrap();
    assert!(has());
    assert_eq!(
        set(&root, AttributeChanges { drop_capabilities: true, ..none() }).unwrap().mode,
        0o4622
    );
    assert!(!has());
    let before = ns.getattr(file).unwrap();
    assert_eq!(
        set(&root, AttributeChanges { drop_capabilities: true, ..none() }).unwrap(),
        before,
        "there is nothing to clear"
    );
    give();
    assert_eq!(set(&other, AttributeChanges { drop_set_ids: true, ..none() }).unwrap().mode, 0o622);
    assert!(!has() && !ns.has_privileges(&ns.getattr(file).unwrap()));
    give();
    set(&root, AttributeChanges { mode: Some(0o600), ..none() }).unwrap();
    assert_eq!(
        status(set(&other, AttributeChanges { drop_capabilities: true, ..none() })),
        Status::PermissionDenied
    );
    set(&root, AttributeChanges { owner: Some(Principal::posix(7)), ..none() }).unwrap();
    assert!(!has());
    give();
    let cut = ns.begin_intent(&call(&root), file, IntentKind::Truncate { size: 5 }, true).unwrap();
    assert!(!has());
    ns.finish_intent(&call(&root), &cut, &Parts::none()).unwrap();
    assert_eq!(ns.list_xattrs(&root, file).unwrap(), [b"user.a"], "others stay");
}

#[test]
fn chown_is_roots_but_for_the_owners_own_groups_and_clears_suid() {
    let (_, ns) = memory();
    let root = Identity::root();
    let dir = directory(&ns, 7, 0o777);
    let owner = Identity { uid: 5, gid: 5, groups: vec![50], permissions_checked: false };
    let file = create(&ns, &call(&owner), dir, b"f").unwrap().inode.file;
    let mode = AttributeChanges { mode: Some(0o6755), ..AttributeChanges::default() };
    ns.setattr(&call(&owner), file, &mode).unwrap();
    let to = |owner: Option<u64>, group: Option<u64>| AttributeChanges {
        owner: owner.map(Principal::posix),
        group: group.map(Principal::posix),
        ..AttributeChanges::default()
    };
    assert_eq!(status(ns.setattr(&call(&owner), file, &to(Some(6), None))), Status::NotPermitted);
    assert_eq!(status(ns.setattr(&call(&owner), file, &to(None, Some(51)))), Status::NotPermitted);
    assert_eq!(status(ns.setattr(&call(&user(6)), file, &to(None, Some(6)))), Status::NotPermitted);
    let new = ns.setattr(&call(&owner), file, &to(Some(5), Some(50))).unwrap();
    assert_eq!((new.group.id, new.mode), (50, 0o755));
    assert_eq!(ns.setattr(&call(&root), file, &to(Some(6), Some(6))).unwrap().owner.id, 6);
}

#[test]
fn times_now_need_write_permission_and_others_ownership() {
    let (_, ns) = memory();
    let (owner, writer, reader) = (
        user(5),
        Identity { uid: 6, gid: 6, groups: vec![5], permissions_checked: false },
        user(8),
    );
    let dir = directory(&ns, 7, 0o777);
    let args = CreateArgs { mode: 0o664.into(), exclusive: true, open: None, place };
    let file = ns.create(&call(&owner), dir, b"f", args).unwrap().inode.file;
    let now = AttributeChanges {
        atime: Some(crate::SetTime::Now),
        mtime: Some(crate::SetTime::Now),
        ..AttributeChanges::default()
    };
    let then =
        AttributeChanges { mtime: Some(crate::SetTime::To(at(1))), ..AttributeChanges::default() };
    ns.setattr(&call(&writer), file, &now).unwrap();
    let one = AttributeChanges { atime: Some(crate::SetTime::Now), ..AttributeChanges::default() };
    assert_eq!(
        status(ns.setattr(&call(&writer), file, &one)),
        Status::NotPermitted,
        "only the owner sets one of them to now"
    );
    assert_eq!(status(ns.setattr(&call(&reader), file, &now)), Status::PermissionDenied);
    assert_eq!(status(ns.setattr(&call(&writer), file, &then)), Status::NotPermitted);
    ns.setattr(&call(&owner), file, &then).unwrap();
}

#[test]
fn opening_asks_for_what_it_is_opened_for() {
    let (_, ns) = memory();
    let (root, owner, other) = (Identity::root(), user(5), user(6));
    let dir = directory(&ns, 7, 0o777);
    let file = create(&ns, &call(&owner), dir, b"f").unwrap().inode.file;
    let open = |who, access| ns.open_file(&call(who), file, OpenArgs::plain(SessionId(1), access));
    open(&other, Access::READ).unwrap();
    assert_eq!(status(open(&other, Access::BOTH)), Status::PermissionDenied);
    open(&owner, Access::BOTH).unwrap();
    open(&root, Access::WRITE).unwrap();
    let dir_open = ns.open_file(&call(&root), dir, OpenArgs::plain(SessionId(1), Access::READ));
    assert_eq!(status(dir_open), Status::IsDirectory);
}

#[test]
fn trusted_attributes_are_seen_by_root_alone() {
    let (_, ns) = memory();
    let (root, owner) = (Identity::root(), user(5));
    let dir = directory(&ns, 7, 0o777);
    let file = create(&ns, &call(&owner), dir, b"f").unwrap().inode.file;
    let set =
        |who, name: &[u8]| ns.set_xattr(&call(who), file, name, b"v", XattrMode::Either, false);
    set(&root, b"trusted.t").unwrap();
    set(&owner, b"user.u").unwrap();
    assert_eq!(status(set(&owner, b"trusted.t")), Status::NotPermitted);
    assert_eq!(status(set(&user(6), b"user.u")), Status::PermissionDenied);
    assert_eq!(ns.list_xattrs(&owner, file).unwrap(), [b"user.u"]);
    assert_eq!(status(ns.xattr(&owner, file, b"trusted.t")), Status::NoAttribute);
    assert_eq!(ns.list_xattrs(&root, file).unwrap().len(), 2);
}

fn checked(uid: u64) -> Identity {
    Identity { permissions_checked: true, ..user(uid) }
}

#[test]
fn a_user_checked_by_its_kernel_is_refused_nothing() {
    let (_, ns) = memory();
    let who = checked(5);
    let dir = directory(&ns, 7, 0o000);
    let made = create(&ns, &call(&who), dir, b"f").unwrap().inode;
    assert_eq!((made.owner, made.group), (Principal::posix(5), Principal::posix(5)));
    assert_eq!(ns.mkdir(&call(&who), dir, b"d", 0o700).unwrap().owner, Principal::posix(5));
    let other = create(&ns, &call(&Identity::root()), dir, b"of root").unwrap().inode;
    let chown = AttributeChanges {
        owner: Some(Principal::posix(8)),
        mode: Some(0o4755),
        ..AttributeChanges::default()
    };
    let changed = ns.setattr(&call(&who), other.file, &chown).unwrap();
    assert_eq!(
        (changed.owner, changed.mode),
        (Principal::posix(8), 0o4755),
        "the kernel has checked it"
    );
    let open = OpenArgs::plain(SessionId(1), Access::BOTH);
    assert_eq!(
        ns.open_file(&call(&who), other.file, open).unwrap().mode,
        0o4755,
        "the kernel clears set-ids at write"
    );
    assert_eq!(
        status(ns.setattr(&call(&user(5)), other.file, &chown)),
        Status::NotPermitted,
        "not checked: refused"
    );
}

#[test]
fn a_user_checked_by_its_kernel_inherits_a_setgid_group() {
    let (_, ns) = memory();
    let dir = directory(&ns, 7, 0o2755);
    let who = checked(5);
    let file = create(&ns, &call(&who), dir, b"f").unwrap().inode;
    let inner = ns.mkdir(&call(&who), dir, b"d", 0o755).unwrap();
    assert_eq!(
        (file.owner, file.group, file.mode),
        (Principal::posix(5), Principal::posix(7), 0o644)
    );
    assert_eq!((inner.group, inner.mode), (Principal::posix(7), 0o2755), "and a directory the bit");
}

#[test]
fn a_user_checked_by_its_kernel_lists_trusted_only_as_root() {
    let (_, ns) = memory();
    let file = create(&ns, &call(&Identity::root()), ROOT, b"f").unwrap().inode.file;
    ns.set_xattr(&call(&checked(5)), file, b"trusted.a", b"1", XattrMode::Either, false).unwrap();
    assert_eq!(ns.list_xattrs(&checked(5), file).unwrap(), Vec::<Vec<u8>>::new());
    assert_eq!(ns.list_xattrs(&checked(0), file).unwrap(), [b"trusted.a"]);
}
