//! NFSv4 access control lists: RFC 8881 6.

use braid_types::nfs4_acl::{Ace, AceKind, Nfs4Acl, Who, ace_flag, ace_mask};
use proptest::prelude::*;

use super::*;
use crate::{
    Access, AttributeChanges, NewMode, OpenArgs, Principal, RenameMode, SetTime, Want, XattrMode,
};

const NFS4: &[u8] = b"system.nfs4_acl";
const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";
const READ: u32 = ace_mask::READ_DATA;
const WRITE: u32 = ace_mask::WRITE_DATA | ace_mask::APPEND_DATA;

fn member(uid: u64, groups: &[u64]) -> Identity {
    Identity { uid, gid: 999, groups: groups.to_vec(), permissions_checked: false }
}

fn set(ns: &Namespace, who: &Identity, file: FileIndex, aces: &[Ace]) -> Result<(), Failure> {
    let value = Nfs4Acl::new(aces.to_vec(), true).unwrap().to_xdr();
    ns.set_xattr(&call(who), file, NFS4, &value, XattrMode::Either, false)
}

fn get(ns: &Namespace, file: FileIndex) -> Vec<Ace> {
    let value = ns.xattr(&user(1), file, NFS4).unwrap();
    Nfs4Acl::from_xdr(&value, true).unwrap().aces().to_vec()
}

/// Makes user 7 and group 70 the owner and group.
fn give(ns: &Namespace, file: FileIndex, mode: u16) {
    let (owner, group) = (Some(Principal::posix(7)), Some(Principal::posix(70)));
    let changes =
        AttributeChanges { mode: Some(mode), owner, group, ..AttributeChanges::default() };
    ns.setattr(&call(&Identity::root()), file, &changes).unwrap();
}

fn file(ns: &Namespace, mode: u16) -> FileIndex {
    let file = create(ns, &call(&Identity::root()), ROOT, b"f").unwrap().inode.file;
    give(ns, file, mode);
    file
}

fn chmod(ns: &Namespace, who: &Identity, file: FileIndex, mode: u16) -> Result<(), Failure> {
    let changes = AttributeChanges { mode: Some(mode), ..AttributeChanges::default() };
    ns.setattr(&call(who), file, &changes).map(drop)
}

#[test]
fn a_list_is_stored_shown_and_removed_as_an_extended_attribute() {
    let (store, ns) = memory();
    let dir = ns.mkdir(&call(&Identity::root()), ROOT, b"d", 0o750).unwrap().file;
    give(&ns, dir, 0o3750);
    let before = ns.getattr(dir).unwrap();
    let inherit = ace_flag::FILE_INHERIT | ace_flag::INHERIT_ONLY;
    let aces = [
        Ace::deny(Who::User(5), WRITE),
        Ace::allow(Who::Owner, READ | ace_mask::EXECUTE),
        Ace::allow(Who::Group(50), READ),
        Ace { flags: inherit, ..Ace::allow(Who::Everyone, READ) },
    ];
    set(&ns, &user(7), dir, &aces).unwrap();
    let ns = {
        drop(ns);
        open(Arc::new(store.kill()))
    };
    let after = ns.getattr(dir).unwrap();
    assert_eq!(get(&ns, dir), aces);
    assert_eq!(after.mode, 0o1540, "setgid is dropped as with a POSIX list");
    assert!(after.change > before.change && after.ctime >= before.ctime);
    assert_eq!(ns.list_xattrs(&user(1), dir).unwrap(), [ACCESS, NFS4]);
    ns.remove_xattr(&call(&user(7)), dir, NFS4).unwrap();
    let plain = ns.getattr(dir).unwrap();
    assert_eq!((plain.mode, plain.acl.clone()), (0o1500, None), "the group gets no more");
    assert_eq!(status(ns.remove_xattr(&call(&user(7)), dir, NFS4)), Status::NoAttribute);
}

#[test]
fn a_file_without_an_nfsv4_list_shows_what_its_mode_or_posix_list_means() {
    let (_, ns) = memory();
    let file = file(&ns, 0o640);
    let is_rwx = |ace: &Ace| ace.mask & (READ | WRITE);
    let shown: Vec<_> = get(&ns, file).iter().map(|ace| (ace.who, ace.kind, is_rwx(ace))).collect();
    use AceKind::Allow;
    let expected = [
        (Who::Owner, Allow, READ | WRITE),
        (Who::OwningGroup, Allow, READ),
        (Who::Everyone, Allow, 0),
    ];
    assert_eq!(shown, expected);
    set(&ns, &user(7), file, &get(&ns, file)).unwrap();
    assert_eq!(ns.getattr(file).unwrap().acl, None, "a list that equals the mode is not stored");

    // u::rw u:5:rw g::r m::rw o::-
    let posix = [(1, 6, u32::MAX), (2, 6, 5), (4, 4, u32::MAX), (16, 6, u32::MAX), (32, 0, !0)];
    let mut value = vec![2, 0, 0, 0];
    for (tag, bits, id) in posix {
        value.extend([tag, 0, bits, 0]);
        value.extend(u32::to_le_bytes(id));
    }
    ns.set_xattr(&call(&user(7)), file, ACCESS, &value, XattrMode::Either, false).unwrap();
    let named = get(&ns, file).into_iter().find(|ace| ace.who == Who::User(5)).unwrap();
    assert_eq!((named.kind, is_rwx(&named)), (Allow, READ | WRITE));
    assert!(ns.getattr(file).unwrap().posix_acl().is_some(), "to show it changes nothing");

    // A POSIX list replaces an NFSv4 one, and the other way round.
    set(&ns, &user(7), file, &[Ace::allow(Who::User(6), READ)]).unwrap();
    assert!(ns.getattr(file).unwrap().nfs4_acl().is_some());
    ns.set_xattr(&call(&user(7)), file, ACCESS, &value, XattrMode::Either, false).unwrap();
    let inode = ns.getattr(file).unwrap();
    assert!(inode.nfs4_acl().is_none() && inode.mode == 0o660);
    assert_eq!(ns.xattr(&user(1), file, ACCESS).unwrap(), value);
}

#[test]
fn only_the_owner_and_write_acl_change_a_list() {
    let (_, ns) = memory();
    let file = file(&ns, 0o666);
    let open = [Ace::allow(Who::Everyone, ace_mask::ALL & !ace_mask::WRITE_ACL)];
    assert_eq!(status(set(&ns, &user(5), file, &open)), Status::NotPermitted);
    set(&ns, &user(7), file, &open).unwrap();
    assert_eq!(status(set(&ns, &user(5), file, &open)), Status::NotPermitted);
    let acl = [Ace::allow(Who::User(5), ace_mask::WRITE_ACL)];
    set(&ns, &user(7), file, &acl).unwrap();
    set(&ns, &user(5), file, &acl).unwrap();
    // No kernel checks who sets this attribute, so a mount's caller is checked here. Which groups
    // it is in, the server does not know, and root may stand for any user of an older mount.
    let mount = |uid| Identity { permissions_checked: true, ..user(uid) };
    for uid in [0, 5, 6] {
        assert_eq!(status(set(&ns, &mount(uid), file, &acl)), Status::NotPermitted);
        let removed = ns.remove_xattr(&call(&mount(uid)), file, NFS4);
        assert_eq!(status(removed), Status::NotPermitted);
    }
    set(&ns, &mount(7), file, &acl).unwrap();
    set(&ns, &Identity::root(), file, &acl).unwrap();
    // WRITE_ACL does not make a program run as its owner.
    chmod(&ns, &user(5), file, 0o6777).unwrap();
    assert_eq!(ns.getattr(file).unwrap().mode, 0o777);
}

#[test]
fn invalid_nfsv4_lists_are_refused() {
    let (_, ns) = memory();
    let root = Identity::root();
    let file = file(&ns, 0o600);
    let raw = |file, value: &[u8]| {
        status(ns.set_xattr(&call(&root), file, NFS4, value, XattrMode::Either, false))
    };
    let one = |kind: u8, mask: u32, who: &[u8; 4]| {
        let mask = mask.to_be_bytes();
        [&[0, 0, 0, 1, 0, 0, 0, kind, 0, 0, 0, 0][..], &mask, &[0, 0, 0, 4], who].concat()
    };
    assert_eq!(raw(file, b""), Status::Invalid);
    assert_eq!(raw(file, &one(2, 1, b"1000")), Status::Unsupported);
    assert_eq!(raw(file, &one(0, 1, b"anna")), Status::Invalid);
    assert_eq!(raw(file, &one(0, 1 << 31, b"1000")), Status::Invalid);
    assert_eq!(raw(file, &u32::MAX.to_be_bytes()), Status::NoSpace);
    let link = ns.symlink(&call(&root), ROOT, b"l", b"f").unwrap().file;
    assert_eq!(raw(link, &one(0, 1, b"1000")), Status::Unsupported);
    assert_eq!(status(ns.xattr(&root, link, NFS4)), Status::NoAttribute);
    assert_eq!(ns.getattr(file).unwrap().acl, None);
}

#[test]
fn chmod_changes_the_list_and_chown_whom_it_names() {
    let (_, ns) = memory();
    let file = file(&ns, 0o600);
    let aces = [
        Ace::allow(Who::Owner, READ | WRITE),
        Ace::allow(Who::User(5), READ | WRITE),
        Ace::allow(Who::OwningGroup, READ),
    ];
    set(&ns, &user(7), file, &aces).unwrap();
    assert_eq!(ns.getattr(file).unwrap().mode, 0o660);
    chmod(&ns, &user(7), file, 0o4444).unwrap();
    let inode = ns.getattr(file).unwrap();
    assert_eq!(inode.mode, 0o4444);
    assert!(crate::permit(&user(5), &inode, Want::READ).is_ok());
    assert!(crate::permit(&user(5), &inode, Want::WRITE).is_err());
    assert!(crate::permit(&user(7), &inode, Want::WRITE).is_err());
    // The mode follows the new owner, whom the list names twice.
    set(&ns, &user(7), file, &[Ace::deny(Who::User(5), READ), aces[0]]).unwrap();
    assert_eq!(ns.getattr(file).unwrap().mode & 0o777, 0o600);
    let owner = Some(Principal::posix(5));
    let changes = AttributeChanges { owner, ..AttributeChanges::default() };
    ns.setattr(&call(&Identity::root()), file, &changes).unwrap();
    let inode = ns.getattr(file).unwrap();
    assert_eq!(inode.mode & 0o777, 0o200);
    assert!(crate::permit(&user(5), &inode, Want::READ).is_err());
    assert!(crate::permit(&user(7), &inode, Want::WRITE).is_err(), "no longer the owner");
}

#[test]
fn new_files_inherit_within_their_mode() {
    let (_, ns) = memory();
    let root = Identity::root();
    let dir = ns.mkdir(&call(&root), ROOT, b"d", 0o777).unwrap().file;
    let all = ace_flag::INHERITS;
    let full = READ | WRITE | ace_mask::EXECUTE;
    let inherited = [
        Ace { flags: all, ..Ace::allow(Who::Owner, full) },
        Ace { flags: all, ..Ace::allow(Who::User(5), full) },
    ];
    set(&ns, &root, dir, &inherited).unwrap();
    let mode = |bits| NewMode { bits, umask: 0o077 };
    let args = CreateArgs { mode: mode(0o640), exclusive: true, open: None, place };
    let file = ns.create(&call(&root), dir, b"f", args).unwrap().inode;
    assert_eq!(file.mode, 0o640, "the list replaces the umask");
    assert!(crate::permit(&user(5), &file, Want::READ).is_ok());
    assert!(crate::permit(&user(5), &file, Want::WRITE).is_err());
    assert!(crate::permit(&user(6), &file, Want::READ).is_err(), "not more than the list");
    let sub = ns.mkdir(&call(&root), dir, b"sub", mode(0o777)).unwrap();
    assert_eq!(get(&ns, sub.file), inherited);
    assert_eq!(ns.xattr(&root, sub.file, DEFAULT).ok(), None);
    let open = OpenArgs::plain(SessionId(9), Access::BOTH);
    let unnamed = ns.create_unnamed(&call(&root), dir, mode(0o600), open, place).unwrap();
    assert!(unnamed.nfs4_acl().is_some());
    assert_eq!(ns.symlink(&call(&root), dir, b"l", b"x").unwrap().acl, None);
}

/// What an operation needs: bits of the directory, and of the file; or ownership of the file.
struct Need {
    directory: u32,
    file: u32,
    is_owners: bool,
}

const SEARCH: u32 = ace_mask::EXECUTE;

type Attempt = fn(&Namespace, &Identity, FileIndex, FileIndex) -> Result<(), Failure>;

/// Every operation with its needs, each of which is enough: RFC 8881 6.2.1.3.1.
fn operations() -> Vec<(&'static str, Vec<Need>, Attempt)> {
    let needs = |all: &[(u32, u32, bool)]| {
        let need = |(directory, file, is_owners): &(u32, u32, bool)| Need {
            directory: *directory,
            file: *file,
            is_owners: *is_owners,
        };
        all.iter().map(need).collect::<Vec<_>>()
    };
    let add_file = SEARCH | ace_mask::WRITE_DATA;
    vec![
        ("list", needs(&[(READ, 0, false)]), |ns, who, dir, _| {
            ns.readdir(who, dir, 0, 1000, false).map(drop)
        }),
        ("look up", needs(&[(SEARCH, 0, false)]), |ns, who, dir, _| {
            ns.lookup(who, dir, b"f").map(drop)
        }),
        ("read", needs(&[(0, READ, false)]), |ns, who, _, file| {
            let args = OpenArgs::plain(SessionId(9), Access::READ);
            ns.open_file(&call(who), file, args).map(drop)
        }),
        ("write", needs(&[(0, WRITE, false)]), |ns, who, _, file| {
            let args = OpenArgs::plain(SessionId(9), Access::WRITE);
            ns.open_file(&call(who), file, args).map(drop)
        }),
        ("create", needs(&[(add_file, 0, false)]), |ns, who, dir, _| {
            create(ns, &call(who), dir, b"new").map(drop)
        }),
        ("link", needs(&[(add_file, 0, false)]), |ns, who, dir, file| {
            ns.link(&call(who), file, dir, b"new").map(drop)
        }),
        ("symlink", needs(&[(add_file, 0, false)]), |ns, who, dir, _| {
            ns.symlink(&call(who), dir, b"new", b"x").map(drop)
        }),
        ("mkdir", needs(&[(SEARCH | ace_mask::APPEND_DATA, 0, false)]), |ns, who, dir, _| {
            ns.mkdir(&call(who), dir, b"new", 0o755).map(drop)
        }),
        (
            "unlink",
            needs(&[
                (SEARCH | ace_mask::DELETE_CHILD, 0, false),
                (SEARCH, ace_mask::DELETE, false),
            ]),
            |ns, who, dir, _| ns.unlink(&call(who), dir, b"f"),
        ),
        (
            "remove",
            needs(&[
                (SEARCH | ace_mask::DELETE_CHILD, 0, false),
                (SEARCH, ace_mask::DELETE, false),
            ]),
            |ns, who, dir, _| ns.remove(&call(who), dir, b"f").map(drop),
        ),
        (
            "rename",
            needs(&[
                (add_file | ace_mask::DELETE_CHILD, 0, false),
                (add_file, ace_mask::DELETE, false),
            ]),
            |ns, who, dir, _| {
                ns.rename(&call(who), (dir, b"f"), (dir, b"new"), RenameMode::Replace)
            },
        ),
        ("chmod", needs(&[(0, ace_mask::WRITE_ACL, false), (0, 0, true)]), |ns, who, _, file| {
            chmod(ns, who, file, 0o640)
        }),
        (
            "set the list",
            needs(&[(0, ace_mask::WRITE_ACL, false), (0, 0, true)]),
            |ns, who, _, file| set(ns, who, file, &[Ace::allow(Who::Everyone, READ)]),
        ),
        (
            "set a time",
            needs(&[(0, ace_mask::WRITE_ATTRIBUTES, false), (0, 0, true)]),
            |ns, who, _, file| {
                let to = Some(SetTime::To(at(1)));
                let changes = AttributeChanges { mtime: to, ..AttributeChanges::default() };
                ns.setattr(&call(who), file, &changes).map(drop)
            },
        ),
        (
            "touch",
            needs(&[(0, ace_mask::WRITE_ATTRIBUTES, false), (0, WRITE, false), (0, 0, true)]),
            |ns, who, _, file| {
                let now = Some(SetTime::Now);
                let changes =
                    AttributeChanges { atime: now, mtime: now, ..AttributeChanges::default() };
                ns.setattr(&call(who), file, &changes).map(drop)
            },
        ),
        (
            "take ownership",
            needs(&[(0, ace_mask::WRITE_OWNER, false), (0, 0, true)]),
            |ns, who, _, file| {
                let owner = Some(Principal::posix(who.uid));
                let changes = AttributeChanges { owner, ..AttributeChanges::default() };
                ns.setattr(&call(who), file, &changes).map(drop)
            },
        ),
        ("give away", needs(&[]), |ns, who, _, file| {
            let owner = Some(Principal::posix(77));
            let changes = AttributeChanges { owner, ..AttributeChanges::default() };
            ns.setattr(&call(who), file, &changes).map(drop)
        }),
    ]
}

/// RFC 8881 6.2.1, bit by bit, for owner 7 and group 70.
fn model(aces: &[Ace], mask: u32, who: &Identity) -> bool {
    (0..32).map(|shift| 1 << shift).filter(|bit| mask & bit != 0).all(|bit| {
        let first = aces.iter().find(|ace| {
            let names = match ace.who {
                Who::Owner => who.uid == 7,
                Who::OwningGroup => who.groups.contains(&70),
                Who::Everyone => true,
                Who::User(id) => who.uid == id,
                Who::Group(id) => who.groups.contains(&id),
            };
            names && ace.mask & bit != 0 && ace.flags & ace_flag::INHERIT_ONLY == 0
        });
        first.is_some_and(|ace| ace.kind == AceKind::Allow)
    })
}

fn aces() -> impl Strategy<Value = Vec<Ace>> {
    let who = prop_oneof![
        Just(Who::Owner),
        Just(Who::OwningGroup),
        Just(Who::Everyone),
        prop::sample::select(vec![1_u64, 2]).prop_map(Who::User),
        prop::sample::select(vec![1_u64, 70]).prop_map(Who::Group),
    ];
    let mask = prop_oneof![
        Just(ace_mask::ALL),
        Just(READ | WRITE | SEARCH),
        any::<u32>().prop_map(|bits| bits & ace_mask::ALL),
    ];
    let ace = (0..3_u8, mask, who).prop_map(|(kind, mask, who)| match kind {
        0 => Ace::deny(who, mask),
        _ => Ace::allow(who, mask),
    });
    prop::collection::vec(ace, 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_operation_needs_the_bits_of_rfc_8881(
        of_directory in aces(),
        of_file in aces(),
        uid in prop::sample::select(vec![1_u64, 2, 3, 7]),
        groups in prop::collection::vec(prop::sample::select(vec![1_u64, 70]), 0..2),
    ) {
        let root = Identity::root();
        let who = member(uid, &groups);
        for (name, needs, attempt) in operations() {
            let (_, ns) = memory();
            let dir = ns.mkdir(&call(&root), ROOT, b"d", 0o700).unwrap().file;
            let file = create(&ns, &call(&root), dir, b"f").unwrap().inode.file;
            give(&ns, dir, 0o700);
            give(&ns, file, 0o600);
            set(&ns, &root, dir, &of_directory).unwrap();
            set(&ns, &root, file, &of_file).unwrap();
            let expected = needs.iter().any(|need| {
                model(&of_directory, need.directory, &who)
                    && model(&of_file, need.file, &who)
                    && (!need.is_owners || uid == 7)
            });
            let done = attempt(&ns, &who, dir, file);
            prop_assert_eq!(done.is_ok(), expected, "{}: {:?}", name, done);
        }
    }

    #[test]
    fn a_record_with_an_nfsv4_list_is_the_same_again(aces in aces(), is_directory: bool) {
        let mut inode = sample_inode(ROOT);
        if is_directory {
            inode = crate::namespace::root(Timestamp::default());
        }
        crate::acl::put_nfs4(&mut inode, Nfs4Acl::new(aces, is_directory).unwrap());
        let bytes = inode.encode();
        prop_assert_eq!(Inode::decode(ROOT, &bytes).unwrap(), inode);
        for cut in 0..bytes.len() {
            prop_assert!(Inode::decode(ROOT, &bytes[..cut]).is_err());
        }
    }
}

#[test]
fn the_sticky_bit_limits_delete_child_and_not_delete() {
    let (_, ns) = memory();
    let root = Identity::root();
    let dir = ns.mkdir(&call(&root), ROOT, b"d", 0o700).unwrap().file;
    give(&ns, dir, 0o1777);
    set(&ns, &root, dir, &[Ace::allow(Who::Everyone, ace_mask::ALL)]).unwrap();
    let file = create(&ns, &call(&root), dir, b"f").unwrap().inode.file;
    assert_eq!(status(ns.unlink(&call(&user(5)), dir, b"f")), Status::NotPermitted);
    set(&ns, &root, file, &[Ace::allow(Who::User(5), ace_mask::DELETE)]).unwrap();
    assert_eq!(status(ns.unlink(&call(&user(6)), dir, b"f")), Status::NotPermitted);
    ns.unlink(&call(&user(5)), dir, b"f").unwrap();
}
