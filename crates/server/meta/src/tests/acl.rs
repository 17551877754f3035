//! Access control lists: IEEE 1003.1e draft 17, as in Linux's acl(5).

use proptest::prelude::*;

use super::*;
use crate::{Acl, AttributeChanges, NewMode, NodeArgs, Principal, Want, XattrMode, permit};

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// `u::7 u:5:6 g::5 g:50:1 m::7 o::0`, each a tag, an id and bits.
type Entries<'a> = &'a [(&'a str, u32, u16)];

fn bytes(entries: Entries<'_>) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0];
    for (tag, id, bits) in entries {
        let tag: u16 = match *tag {
            "u:" => 1,
            "u" => 2,
            "g:" => 4,
            "g" => 8,
            "m" => 16,
            "o" => 32,
            other => panic!("{other}"),
        };
        let id = if matches!(tag, 2 | 8) { *id } else { u32::MAX };
        out.extend(tag.to_le_bytes());
        out.extend(bits.to_le_bytes());
        out.extend(id.to_le_bytes());
    }
    out
}

fn set(
    ns: &Namespace,
    who: &Identity,
    file: FileIndex,
    name: &[u8],
    entries: Entries<'_>,
) -> Result<(), Failure> {
    ns.set_xattr(&call(who), file, name, &bytes(entries), XattrMode::Either, false)
}

fn get(ns: &Namespace, file: FileIndex, name: &[u8]) -> Option<Vec<u8>> {
    ns.xattr(&user(1), file, name).ok()
}

/// A file of user 7 and group 70.
fn file(ns: &Namespace, mode: u16) -> FileIndex {
    let root = Identity::root();
    let file = create(ns, &call(&root), ROOT, b"f").unwrap().inode.file;
    give(ns, file, mode);
    file
}

fn give(ns: &Namespace, file: FileIndex, mode: u16) {
    let (owner, group) = (Some(Principal::posix(7)), Some(Principal::posix(70)));
    let changes =
        AttributeChanges { mode: Some(mode), owner, group, ..AttributeChanges::default() };
    ns.setattr(&call(&Identity::root()), file, &changes).unwrap();
}

fn member(uid: u64, groups: &[u64]) -> Identity {
    Identity { uid, gid: 999, groups: groups.to_vec(), permissions_checked: false }
}

const FULL: Entries<'static> =
    &[("u:", 0, 6), ("u", 5, 7), ("u", 6, 0), ("g:", 0, 4), ("g", 50, 6), ("m", 0, 6), ("o", 0, 4)];

#[test]
fn the_first_matching_entry_decides_within_the_mask() {
    let (_, ns) = memory();
    let file = file(&ns, 0o600);
    set(&ns, &user(7), file, ACCESS, FULL).unwrap();
    let inode = ns.getattr(file).unwrap();
    assert_eq!(inode.mode, 0o664, "owner, mask, others");
    let may = |who: &Identity| {
        (0..8).filter(|want| permit(who, &inode, Want(*want)).is_ok()).max().unwrap()
    };
    assert_eq!(may(&user(7)), 6, "the owner, whatever the mask");
    assert_eq!(may(&user(5)), 6, "rwx within the mask");
    assert_eq!(may(&member(6, &[50])), 0, "a named user gets nothing from its groups");
    assert_eq!(may(&member(1, &[70])), 4, "the file's group");
    assert_eq!(may(&member(1, &[70, 50])), 6, "any of its groups that grants everything");
    assert_eq!(may(&member(1, &[])), 4, "everybody else");
    assert_eq!(may(&Identity::root()), 6);
}

#[test]
fn a_group_that_denies_is_not_overridden_by_the_others_bits() {
    let (_, ns) = memory();
    let file = file(&ns, 0o600);
    let entries: Entries<'_> =
        &[("u:", 0, 6), ("g:", 0, 0), ("g", 50, 2), ("m", 0, 7), ("o", 0, 7)];
    set(&ns, &user(7), file, ACCESS, entries).unwrap();
    let inode = ns.getattr(file).unwrap();
    assert!(permit(&member(1, &[50]), &inode, Want::READ).is_err());
    assert!(permit(&member(1, &[50]), &inode, Want(6)).is_err(), "no single entry grants both");
    assert!(permit(&member(1, &[51]), &inode, Want(7)).is_ok());
}

#[test]
fn chmod_changes_the_mask_and_a_list_changes_the_mode() {
    let (_, ns) = memory();
    let file = file(&ns, 0o4755);
    set(&ns, &user(7), file, ACCESS, FULL).unwrap();
    assert_eq!(ns.getattr(file).unwrap().mode, 0o4664, "the list does not cover suid");
    let chmod = AttributeChanges { mode: Some(0o640), ..AttributeChanges::default() };
    ns.setattr(&call(&user(7)), file, &chmod).unwrap();
    let expected = &[
        ("u:", 0, 6),
        ("u", 5, 7),
        ("u", 6, 0),
        ("g:", 0, 4),
        ("g", 50, 6),
        ("m", 0, 4),
        ("o", 0, 0),
    ];
    assert_eq!(get(&ns, file, ACCESS), Some(bytes(expected)));
    set(&ns, &user(7), file, ACCESS, &[("u:", 0, 7), ("g:", 0, 5), ("o", 0, 1)]).unwrap();
    let inode = ns.getattr(file).unwrap();
    assert_eq!(
        (inode.mode, &inode.acl, get(&ns, file, ACCESS)),
        (0o751, &None, None),
        "the mode says everything"
    );
}

#[test]
fn a_list_is_shown_listed_and_removed_as_an_extended_attribute() {
    let (store, ns) = memory();
    let root = Identity::root();
    let dir = ns.mkdir(&call(&root), ROOT, b"d", 0o750).unwrap().file;
    let before = ns.getattr(dir).unwrap().change;
    set(&ns, &root, dir, ACCESS, FULL).unwrap();
    set(&ns, &root, dir, DEFAULT, FULL).unwrap();
    assert!(ns.getattr(dir).unwrap().change > before);
    let ns = open(Arc::new(store.kill()));
    assert_eq!(ns.list_xattrs(&user(1), dir).unwrap(), [ACCESS, DEFAULT]);
    assert_eq!(
        (get(&ns, dir, ACCESS), get(&ns, dir, DEFAULT)),
        (Some(bytes(FULL)), Some(bytes(FULL)))
    );
    ns.remove_xattr(&call(&root), dir, ACCESS).unwrap();
    assert_eq!(ns.list_xattrs(&user(1), dir).unwrap(), [DEFAULT]);
    set(&ns, &root, dir, DEFAULT, &[]).unwrap();
    assert_eq!(
        (ns.getattr(dir).unwrap().acl.clone(), ns.getattr(dir).unwrap().mode),
        (None, 0o664)
    );
}

#[test]
fn only_the_owner_sets_a_list_and_only_a_directory_has_a_default() {
    let (_, ns) = memory();
    let file = file(&ns, 0o666);
    assert_eq!(status(set(&ns, &user(5), file, ACCESS, FULL)), Status::NotPermitted);
    assert_eq!(status(set(&ns, &user(7), file, DEFAULT, FULL)), Status::PermissionDenied);
    let root = Identity::root();
    let link = ns.symlink(&call(&root), ROOT, b"l", b"f").unwrap().file;
    assert_eq!(status(set(&ns, &root, link, ACCESS, FULL)), Status::Unsupported);
    let odd = ns.set_xattr(&call(&root), file, b"system.richacl", b"x", XattrMode::Either, false);
    assert_eq!(status(odd), Status::Unsupported);
}

#[test]
fn a_user_outside_the_group_drops_setgid_with_a_list() {
    let (_, ns) = memory();
    let (file, checked) = (file(&ns, 0o2755), Identity { permissions_checked: true, ..user(7) });
    let sgid = |who: &Identity, drop_setgid| {
        give(&ns, file, 0o2755);
        ns.set_xattr(&call(who), file, ACCESS, &bytes(FULL), XattrMode::Either, drop_setgid)
            .unwrap();
        ns.getattr(file).unwrap().mode & 0o2000 != 0
    };
    assert!(!sgid(&user(7), false));
    assert!(sgid(&member(7, &[70]), false) && sgid(&checked, false) && !sgid(&checked, true));
}

#[test]
fn invalid_lists_are_refused() {
    let (_, ns) = memory();
    let (file, root) = (file(&ns, 0o600), Identity::root());
    let bad: [Entries<'_>; 8] = [
        &[("u:", 0, 6), ("g:", 0, 4)],
        &[("u:", 0, 6), ("u:", 0, 6), ("g:", 0, 4), ("o", 0, 0)],
        &[("u:", 0, 6), ("u", 5, 4), ("g:", 0, 4), ("o", 0, 0)],
        &[("u:", 0, 6), ("u", 5, 4), ("u", 5, 6), ("g:", 0, 4), ("m", 0, 7), ("o", 0, 0)],
        &[("u:", 0, 6), ("u", u32::MAX, 4), ("g:", 0, 4), ("m", 0, 7), ("o", 0, 0)],
        &[("u:", 0, 8), ("g:", 0, 4), ("o", 0, 0)],
        &[("g:", 0, 4), ("u:", 0, 6), ("o", 0, 0)],
        &[("u:", 0, 6), ("g:", 0, 4), ("m", 0, 4), ("m", 0, 4), ("o", 0, 0)],
    ];
    for entries in bad {
        assert_eq!(status(set(&ns, &root, file, ACCESS, entries)), Status::Invalid, "{entries:?}");
    }
    let raw = |value: &[u8]| {
        status(ns.set_xattr(&call(&root), file, ACCESS, value, XattrMode::Either, false))
    };
    assert_eq!(raw(b""), Status::Invalid);
    assert_eq!(raw(&bytes(FULL)[..11]), Status::Invalid);
    assert_eq!(raw(&[3, 0, 0, 0]), Status::Unsupported);
    let many: Vec<_> = (0..crate::ACL_ENTRIES_MAX as u32).map(|id| ("u", id, 4)).collect();
    let many = [&[("u:", 0, 6)][..], &many, &[("g:", 0, 4), ("m", 0, 7), ("o", 0, 0)]].concat();
    assert_eq!(status(set(&ns, &root, file, ACCESS, &many)), Status::NoSpace);
    assert_eq!(ns.getattr(file).unwrap().mode, 0o600);
}

#[test]
fn a_default_list_is_inherited_and_replaces_the_umask() {
    let (_, ns) = memory();
    let root = Identity::root();
    let dir = ns.mkdir(&call(&root), ROOT, b"d", 0o755).unwrap().file;
    let mode = |bits| NewMode { bits, umask: 0o077 };
    let plain = ns.mkdir(&call(&root), dir, b"plain", mode(0o777)).unwrap();
    assert_eq!((plain.mode, &plain.acl), (0o700, &None), "without a list the umask applies");
    set(
        &ns,
        &root,
        dir,
        DEFAULT,
        &[("u:", 0, 7), ("u", 5, 7), ("g:", 0, 5), ("m", 0, 7), ("o", 0, 5)],
    )
    .unwrap();

    let args = CreateArgs { mode: mode(0o640), exclusive: true, open: None, place };
    let file = ns.create(&call(&root), dir, b"f", args).unwrap().inode;
    assert_eq!(file.mode, 0o640);
    let expected = &[("u:", 0, 6), ("u", 5, 7), ("g:", 0, 5), ("m", 0, 4), ("o", 0, 0)];
    assert_eq!(get(&ns, file.file, ACCESS), Some(bytes(expected)));
    assert_eq!(get(&ns, file.file, DEFAULT), None);

    let sub = ns.mkdir(&call(&root), dir, b"sub", mode(0o777)).unwrap();
    assert_eq!(
        (sub.mode, get(&ns, sub.file, DEFAULT)),
        (0o775, get(&ns, dir, DEFAULT)),
        "handed on"
    );
    let node = NodeArgs { kind: FileKind::Fifo, mode: mode(0o666), rdev: 0 };
    assert_eq!(ns.mknod(&call(&root), sub.file, b"p", node).unwrap().mode, 0o664);
    let open = crate::OpenArgs::plain(SessionId(9), crate::Access::BOTH);
    let unnamed = ns.create_unnamed(&call(&root), sub.file, mode(0o666), open, place).unwrap();
    assert_eq!(unnamed.mode, 0o664);
    assert_eq!(ns.symlink(&call(&root), dir, b"l", b"x").unwrap().acl, None);

    set(&ns, &root, dir, DEFAULT, &[("u:", 0, 7), ("g:", 0, 5), ("o", 0, 4)]).unwrap();
    let three = ns.mkdir(&call(&root), dir, b"three", mode(0o777)).unwrap();
    assert_eq!(
        (three.mode, get(&ns, three.file, ACCESS)),
        (0o754, None),
        "three entries are the mode"
    );
}

#[test]
fn every_access_to_a_file_checks_its_list() {
    let (_, ns) = memory();
    let root = Identity::root();
    let dir = ns.mkdir(&call(&root), ROOT, b"d", 0o700).unwrap().file;
    create(&ns, &call(&root), dir, b"f").unwrap();
    set(
        &ns,
        &root,
        dir,
        ACCESS,
        &[("u:", 0, 7), ("u", 5, 1), ("g:", 0, 0), ("m", 0, 7), ("o", 0, 0)],
    )
    .unwrap();
    assert!(ns.lookup(&user(5), dir, b"f").is_ok());
    assert_eq!(status(ns.lookup(&user(6), dir, b"f")), Status::PermissionDenied);
    assert_eq!(status(ns.readdir(&user(5), dir, 0, 1000, false)), Status::PermissionDenied);
    assert_eq!(status(create(&ns, &call(&user(5)), dir, b"g")), Status::PermissionDenied);
    set(
        &ns,
        &root,
        dir,
        ACCESS,
        &[("u:", 0, 7), ("u", 5, 7), ("g:", 0, 0), ("m", 0, 7), ("o", 0, 0)],
    )
    .unwrap();
    assert!(create(&ns, &call(&user(5)), dir, b"g").is_ok());
}

/// Draft 17, 23.1.5, word by word over a complete list.
fn model(list: &crate::AclList, owner: bool, who: &Identity, want: u8) -> bool {
    let all = |bits: u8| want & !bits == 0;
    if owner {
        return all(list.user);
    }
    let mask = list.mask.unwrap_or(7);
    for named in &list.users {
        if named.id == who.uid {
            return all(named.bits & mask);
        }
    }
    let mut matched = false;
    let own = [crate::NamedEntry { id: 70, bits: list.group }];
    for named in own.iter().chain(&list.groups) {
        if who.in_group(Principal::posix(named.id)) {
            matched = true;
            if all(named.bits & mask) {
                return true;
            }
        }
    }
    !matched && all(list.other)
}

fn named() -> impl Strategy<Value = Vec<crate::NamedEntry>> {
    prop::collection::btree_map(1..4_u64, 0..8_u8, 0..3)
        .prop_map(|all| all.into_iter().map(|(id, bits)| crate::NamedEntry { id, bits }).collect())
}

proptest! {
    #[test]
    fn the_mode_and_the_rest_decide_as_the_whole_list_does(
        bits in (0..8_u8, 0..8_u8, 0..8_u8, 0..8_u8),
        users in named(),
        groups in named(),
        uid in prop::sample::select(vec![1_u64, 2, 7]),
        member_of in prop::collection::vec(prop::sample::select(vec![1_u64, 2, 3, 70]), 0..3),
        want in 0..8_u8,
    ) {
                    let (user, group, other, mask) = (bits.0, bits.1, bits.2, Some(bits.3));
            let list = crate::AclList { user, group, other, mask, users, groups };
        let mut inode = sample_inode(ROOT);
        (inode.owner, inode.group) = (Principal::posix(7), Principal::posix(70));
        let (mode, access) = list.clone().split();
        inode.mode = mode;
        inode.acl = Acl { access, default: Some(list.clone()) }.non_empty();
        let bytes = inode.encode();
        prop_assert_eq!(&Inode::decode(ROOT, &bytes).unwrap(), &inode);
        let shown = crate::acl_xattr::encode(&list);
        prop_assert_eq!(crate::acl_xattr::decode(&shown).unwrap(), Some(list.clone()));
        let who = member(uid, &member_of);
        let permitted = permit(&who, &inode, Want(want)).is_ok();
        prop_assert_eq!(permitted, model(&list, uid == 7, &who, want));
    }
}
