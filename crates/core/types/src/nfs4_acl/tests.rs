use proptest::prelude::*;

use super::*;
use ace_flag::{DIRECTORY_INHERIT, FILE_INHERIT, INHERIT_ONLY, NO_PROPAGATE};
use ace_mask::{APPEND_DATA, DELETE, EXECUTE, READ_DATA, WRITE_ATTRIBUTES, WRITE_DATA};

const OWNER: u64 = 7;
const GROUP: u64 = 70;

/// A caller: a user id and its groups.
type Caller = (u64, Vec<u64>);

fn is(caller: &Caller) -> impl Fn(Who) -> bool {
    let (uid, groups) = caller.clone();
    move |who| match who {
        Who::Owner => uid == OWNER,
        Who::OwningGroup => groups.contains(&GROUP),
        Who::Everyone => true,
        Who::User(id) => uid == id,
        Who::Group(id) => groups.contains(&id),
    }
}

/// RFC 8881 6.2.1, bit by bit: the first entry that names the caller and mentions the bit.
fn model(aces: &[Ace], mask: u32, caller: &Caller) -> bool {
    (0..32).map(|shift| 1 << shift).filter(|bit| mask & bit != 0).all(|bit| {
        for ace in aces {
            let applies = ace.flags & INHERIT_ONLY == 0 && is(caller)(ace.who);
            if applies && ace.mask & bit != 0 {
                return ace.kind == AceKind::Allow;
            }
        }
        false
    })
}

/// Linux fs/namei.c acl_permission_check() and fs/posix_acl.c posix_acl_permission() as documented
/// in acl(5): what a mount's kernel decides with this mode and POSIX list.
fn kernel_permits(view: &PosixView, want: u8, caller: &Caller) -> bool {
    let (uid, groups) = caller;
    let mode = view.mode();
    let all = |bits: u8| want & !bits == 0;
    if *uid == OWNER {
        return all((mode >> 6 & 7) as u8);
    }
    if view.names_anybody() && mode >> 3 & 7 != 0 {
        if let Some((_, bits)) = view.users.iter().find(|(id, _)| id == uid) {
            return all(bits & view.mask);
        }
        let own = groups.contains(&GROUP).then_some(view.group);
        let named = view.groups.iter().filter(|(id, _)| groups.contains(id)).map(|(_, bits)| *bits);
        let found: Vec<u8> = own.into_iter().chain(named).collect();
        if !found.is_empty() {
            return found.iter().any(|bits| all(bits & view.mask));
        }
        return all(view.other);
    }
    all(if groups.contains(&GROUP) { mode >> 3 & 7 } else { mode & 7 } as u8)
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        Just(Who::Owner),
        Just(Who::OwningGroup),
        Just(Who::Everyone),
        prop::sample::select(vec![1, 2, OWNER]).prop_map(Who::User),
        prop::sample::select(vec![1, 2, GROUP]).prop_map(Who::Group),
    ]
}

fn mask() -> impl Strategy<Value = u32> {
    prop_oneof![
        (0..8_u8, any::<bool>()).prop_map(|(bits, dir)| mask_of_bits(bits, dir)),
        any::<u32>().prop_map(|bits| bits & ace_mask::ALL),
    ]
}

fn ace() -> impl Strategy<Value = Ace> {
    (any::<bool>(), 0..16_u8, mask(), who()).prop_map(|(allow, flags, mask, who)| Ace {
        kind: if allow { AceKind::Allow } else { AceKind::Deny },
        flags,
        mask,
        who,
    })
}

fn aces() -> impl Strategy<Value = Vec<Ace>> {
    prop::collection::vec(ace(), 0..7)
}

fn caller() -> impl Strategy<Value = Caller> {
    let groups = prop::collection::vec(prop::sample::select(vec![1, 2, 3, GROUP]), 0..3);
    (prop::sample::select(vec![1, 2, 3, OWNER]), groups)
}

fn view_of(list: &Nfs4Acl, is_directory: bool) -> PosixView {
    list.posix_view(OWNER, GROUP, is_directory)
}

fn named() -> impl Strategy<Value = Vec<(u64, u8)>> {
    prop::collection::btree_map(1..4_u64, 0..8_u8, 0..3).prop_map(|all| all.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_first_entry_that_mentions_a_bit_decides_it(
        aces in aces(), mask in mask(), caller in caller(), dir: bool,
    ) {
        let list = Nfs4Acl::new(aces, dir).unwrap();
        prop_assert_eq!(list.allows(mask, is(&caller)), model(list.aces(), mask, &caller));
    }

    #[test]
    fn a_kernel_with_the_posix_view_permits_nothing_that_is_denied(
        aces in aces(), want in 0..8_u8, caller in caller(), dir: bool,
    ) {
        let list = Nfs4Acl::new(aces, dir).unwrap();
        let view = view_of(&list, dir);
        if kernel_permits(&view, want, &caller) {
            prop_assert!(model(list.aces(), mask_of_bits(want, dir), &caller), "{:?}", view);
        }
    }

    #[test]
    fn chmod_gives_the_mode_and_nothing_beyond_it(
        aces in aces(), mode in 0..0o1000_u16, caller in caller(), want in 1..8_u8, dir: bool,
    ) {
        let old = Nfs4Acl::new(aces, dir).unwrap();
        let new = old.with_mode(mode, dir).unwrap();
        let view = view_of(&new, dir);
        let hides_named = view.mask == 0 && view.names_anybody();
        let expected = if hides_named { mode & 0o770 } else { mode };
        prop_assert_eq!(view.mode(), expected, "{:?}", new);
        let class = match &caller {
            (OWNER, _) => mode >> 6,
            _ if is(&caller)(Who::OwningGroup) => mode >> 3 | mode,
            _ => mode | mode >> 3,
        };
        if model(new.aces(), mask_of_bits(want, dir), &caller) {
            prop_assert_eq!(want & !(class & 7) as u8, 0, "{:?}", new);
        }
        let inherits = |list: &Nfs4Acl| list.split().1;
        prop_assert_eq!(inherits(&new), inherits(&old), "inheritance stays");
        prop_assert_eq!(new.with_mode(mode, dir).unwrap(), new, "a second time changes nothing");
    }

    #[test]
    fn a_new_file_gets_no_more_than_its_directory_and_its_mode_grant(
        aces in aces(), mode in 0..0o1000_u16, caller in caller(), bits in mask(), dir: bool,
    ) {
        let parent = Nfs4Acl::new(aces, true).unwrap();
        let flag = if dir { DIRECTORY_INHERIT } else { FILE_INHERIT };
        let inherited: Vec<Ace> = parent
            .aces()
            .iter()
            .filter(|ace| ace.flags & flag != 0)
            .map(|ace| Ace { flags: 0, ..*ace })
            .collect();
        let Some(new) = parent.inherited(mode, 0o077, dir).unwrap() else {
            prop_assert!(inherited.is_empty());
            return Ok(());
        };
        if inherited.is_empty() {
            prop_assert!(dir, "only a directory hands on what it does not obey");
            prop_assert_eq!(view_of(&new, dir).mode(), mode & !0o077);
            return Ok(());
        }
        if model(new.aces(), bits, &caller) {
            prop_assert!(model(&inherited, bits, &caller), "{:?}", new);
        }
        let shown = view_of(&new, dir).mode();
        prop_assert_eq!(shown & !mode, 0, "{:?}", new);
        let whole = parent.inherited(0o777, 0, dir).unwrap().unwrap();
        prop_assert_eq!(
            model(whole.aces(), bits, &caller),
            model(&inherited, bits, &caller),
            "a mode that grants everything leaves the list"
        );
    }

    #[test]
    fn a_mapped_posix_list_permits_what_it_permits(
        bits in (0..8_u8, 0..8_u8, 0..8_u8, 0..8_u8),
        users in named(),
        groups in named(),
        uid in prop::sample::select(vec![1_u64, 2, OWNER]),
        group in prop::sample::select(vec![None, Some(1_u64), Some(2), Some(GROUP)]),
        want in 0..8_u8,
        dir: bool,
    ) {
        let (owner, group_bits, other, mask) = bits;
        let named = !users.is_empty() || !groups.is_empty();
        let mask = if named { mask } else { group_bits };
        let list = PosixView { owner, group: group_bits, other, mask, users, groups };
        let caller = (uid, group.into_iter().collect());
        let mapped = Nfs4Acl::new(Nfs4Acl::from_posix(&list, dir, 0), dir).unwrap();
        // acl(5), without the kernel's exception for a mode without group bits.
        let consulted = PosixView { mask: 7, ..list.clone() };
        let masked = |all: &[(u64, u8)]| -> Vec<_> {
            all.iter().map(|(id, bits)| (*id, bits & list.mask)).collect()
        };
        let consulted = PosixView {
            group: list.group & list.mask,
            users: masked(&list.users),
            groups: masked(&list.groups),
            ..consulted
        };
        let consulted =
            if named { consulted } else { PosixView { mask: list.mask, ..consulted } };
        prop_assert_eq!(
            model(mapped.aces(), mask_of_bits(want, dir), &caller),
            kernel_permits(&consulted, want, &caller)
        );
        // Back again: the same list, with the tightest mask.
        let back = view_of(&mapped, dir);
        if back.mask != 0 {
            prop_assert_eq!((back.owner, back.other), (owner, other));
            prop_assert_eq!(back.group, consulted.group);
            for (id, bits) in &back.users {
                prop_assert!(consulted.users.contains(&(*id, *bits)), "{:?}", back);
            }
        }
    }

    #[test]
    fn bytes_of_a_list_are_the_same_list_and_no_bytes_panic(
        aces in aces(), noise in prop::collection::vec(any::<u8>(), 0..200), dir: bool,
    ) {
        let list = Nfs4Acl::new(aces, dir).unwrap();
        prop_assert_eq!(Nfs4Acl::from_xdr(&list.to_xdr(), dir), Ok(list));
        let _ = Nfs4Acl::from_xdr(&noise, dir);
    }
}

#[test]
fn entries_are_inherited_by_kind_and_depth() {
    let child = |flags: u8, dir: bool| {
        let parent = Ace { flags, ..Ace::allow(Who::User(5), READ_DATA) };
        let parent = Nfs4Acl::new(vec![parent], true).unwrap();
        let new = parent.inherited(0o777, 0, dir).unwrap()?;
        let mine = new.aces().iter().find(|ace| ace.who == Who::User(5));
        mine.map(|ace| ace.flags)
    };
    let (both, only) = (FILE_INHERIT | DIRECTORY_INHERIT, INHERIT_ONLY);
    let expected = [
        (0, None, None),
        (FILE_INHERIT, Some(0), Some(FILE_INHERIT | only)),
        (FILE_INHERIT | only, Some(0), Some(FILE_INHERIT | only)),
        (FILE_INHERIT | NO_PROPAGATE, Some(0), None),
        (DIRECTORY_INHERIT, None, Some(DIRECTORY_INHERIT)),
        (DIRECTORY_INHERIT | only, None, Some(DIRECTORY_INHERIT)),
        (DIRECTORY_INHERIT | NO_PROPAGATE, None, Some(0)),
        (both, Some(0), Some(both)),
        (both | only, Some(0), Some(both)),
        (both | NO_PROPAGATE | only, Some(0), Some(0)),
    ];
    for (flags, file, directory) in expected {
        assert_eq!((child(flags, false), child(flags, true)), (file, directory), "{flags:#x}");
    }
}

#[test]
fn chmod_keeps_named_entries_within_the_group_bits() {
    let rw = READ_DATA | WRITE_DATA | APPEND_DATA;
    let list = Nfs4Acl::new(
        vec![
            Ace::deny(Who::User(5), EXECUTE),
            Ace::allow(Who::User(5), rw | DELETE),
            Ace::allow(Who::Owner, rw | WRITE_ATTRIBUTES),
            Ace::allow(Who::Everyone, READ_DATA),
        ],
        false,
    )
    .unwrap();
    assert_eq!(view_of(&list, false).mode(), 0o664);
    let expected = [
        Ace::allow(Who::Owner, READ_DATA),
        Ace::deny(Who::User(5), EXECUTE),
        Ace::allow(Who::User(5), READ_DATA | DELETE),
        Ace::allow(Who::Owner, WRITE_ATTRIBUTES),
        Ace::allow(Who::OwningGroup, READ_DATA),
    ];
    assert_eq!(list.with_mode(0o440, false).unwrap().aces(), expected);
}

#[test]
fn lists_that_cannot_be_stored_are_refused() {
    let read = Ace::allow(Who::Everyone, READ_DATA);
    let refused = |aces: Vec<Ace>| Nfs4Acl::new(aces, true).unwrap_err();
    assert_eq!(refused(vec![read; ACES_MAX + 1]), AclError::TooLong);
    assert!(Nfs4Acl::new(vec![read; ACES_MAX], true).is_ok());
    assert_eq!(refused(vec![Ace { mask: 0x800, ..read }]), AclError::UnknownBits);
    assert_eq!(refused(vec![Ace { flags: 0x10, ..read }]), AclError::UnknownBits);
    let only = Ace { flags: INHERIT_ONLY | FILE_INHERIT, ..read };
    let both = Ace { flags: FILE_INHERIT, ..read };
    assert_eq!(Nfs4Acl::new(vec![only, both], false).unwrap().aces(), [read]);
    let bytes = |kind: u32, who: &[u8]| {
        let mut out = vec![0, 0, 0, 1];
        [kind, 0, 1, who.len() as u32].iter().for_each(|word| out.extend(word.to_be_bytes()));
        out.extend(who);
        out.resize(out.len().next_multiple_of(4), 0);
        Nfs4Acl::from_xdr(&out, false)
    };
    assert!(bytes(0, b"5@example.org").is_ok());
    assert_eq!(bytes(2, b"5"), Err(AclFormatError::UnsupportedKind));
    assert_eq!(bytes(0, b"alice@example.org"), Err(AclFormatError::UnknownWho));
    assert_eq!(bytes(0, b"007"), Err(AclFormatError::UnknownWho));
    let count = |count: u32| Nfs4Acl::from_xdr(&count.to_be_bytes(), false);
    assert_eq!(count(0), Ok(Nfs4Acl::default()));
    assert_eq!(count(u32::MAX), Err(AclFormatError::Acl(AclError::TooLong)));
    assert_eq!(count(1), Err(AclFormatError::Malformed));
}
