use super::*;
use crate::attributes::tests::known;
use braid_share::{FileKind, acl_of_mode};
use braid_smb_wire::NtStatus;

const DACL: SecurityInformation = SecurityInformation::DACL;
const BOTH: AceFlags = AceFlags::OBJECT_INHERIT.with(AceFlags::CONTAINER_INHERIT);
const HERE: AceFlags = AceFlags(0);
const BELOW: AceFlags = BOTH.with(AceFlags::INHERIT_ONLY);
const READ: AccessMask = AccessMask::ALL_OF_READ;

fn sid(text: &str) -> Sid {
    text.parse().unwrap()
}

/// A descriptor with these entries and nothing else.
fn with_aces(aces: Vec<SmbAce>) -> SecurityDescriptor {
    SecurityDescriptor {
        control: Control::DACL_PRESENT,
        dacl: Some(Acl { aces }),
        ..SecurityDescriptor::default()
    }
}

/// The entries that a file or directory of user and group 0 gets of these.
fn aces(kind: FileKind, sent: Vec<SmbAce>) -> Result<Vec<Ace>, NtStatus> {
    let changed = change(&known(kind, 0o700), &with_aces(sent), DACL)?;
    Ok(changed.list.unwrap().aces().to_vec())
}

#[test]
fn only_the_parts_that_are_asked_for_are_there() {
    let known = known(FileKind::File, 0o640);
    let wanted = SecurityInformation::OWNER.with(SecurityInformation::GROUP);
    let descriptor = descriptor(&known, &acl_of_mode(&known), wanted);
    assert_eq!(descriptor.owner, Some(Sid::unix_user(0)));
    assert_eq!(descriptor.group, Some(Sid::unix_group(0)));
    assert_eq!((descriptor.dacl, descriptor.sacl), (None, None));
}

#[test]
fn a_list_keeps_its_order_masks_and_inheritance() {
    let inherits = ace_flag::FILE_INHERIT | ace_flag::INHERIT_ONLY;
    let aces = vec![
        Ace::deny(Who::User(7), 2),
        Ace { flags: inherits, ..Ace::allow(Who::Everyone, 0x0012_0689) },
    ];
    let list = Nfs4Acl::new(aces, true).unwrap();
    let known = known(FileKind::Directory, 0o755);
    let found = descriptor(&known, &list, DACL).dacl.unwrap().aces;
    let flags = AceFlags::OBJECT_INHERIT.with(AceFlags::INHERIT_ONLY);
    let wanted = [
        SmbAce::deny(Sid::unix_user(7), AccessMask::WRITE_DATA, HERE),
        SmbAce::allow(Sid::everyone(), READ, flags),
    ];
    assert_eq!(found, wanted);
    assert_eq!(change(&known, &with_aces(found), DACL).unwrap().list.unwrap().aces().len(), 2);
}

#[test]
fn an_inherited_entry_of_the_owner_is_that_of_the_creator_below() {
    let all = ace_flag::FILE_INHERIT | ace_flag::DIRECTORY_INHERIT;
    let list = [Who::Owner, Who::OwningGroup].map(|who| Ace { flags: all, ..Ace::allow(who, 1) });
    let list = Nfs4Acl::new(list.to_vec(), true).unwrap();
    let known = known(FileKind::Directory, 0o755);
    let found = descriptor(&known, &list, DACL).dacl.unwrap().aces;
    let allow = |sid, flags| SmbAce::allow(sid, AccessMask::LIST_DIRECTORY, flags);
    let wanted = [
        allow(Sid::unix_user(0), HERE),
        allow(Sid::creator_owner(), BELOW),
        allow(Sid::unix_group(0), HERE),
        allow(Sid::creator_group(), BELOW),
    ];
    assert_eq!(found, wanted);
    // What a client sets as it got it means the same, and is shown the same.
    let set = change(&known, &with_aces(found), DACL).unwrap().list.unwrap();
    assert_eq!(descriptor(&known, &set, DACL).dacl.unwrap().aces, wanted);
}

#[test]
fn the_owner_and_the_group_of_a_list_are_those_of_the_file() {
    let allow = |text, flags| SmbAce::allow(sid(text), READ, flags);
    let sent = vec![
        allow("S-1-22-1-0", BOTH),
        allow("S-1-22-2-0", HERE),
        allow("S-1-22-1-5", BOTH),
        allow("S-1-3-0", BOTH),
        allow("S-1-3-1", HERE),
        allow("S-1-5-11", HERE),
    ];
    let (here, below) = (0, BELOW.0);
    let ace = |who, flags| Ace { flags, ..Ace::allow(who, READ.0) };
    let wanted = [
        ace(Who::Owner, here),
        ace(Who::User(0), below),
        ace(Who::OwningGroup, here),
        ace(Who::User(5), BOTH.0),
        ace(Who::Owner, below),
        ace(Who::Everyone, here),
    ];
    assert_eq!(aces(FileKind::Directory, sent.clone()).unwrap(), wanted);
    // A file has nothing to be inherited.
    let of_file =
        [Who::Owner, Who::OwningGroup, Who::User(5), Who::Everyone].map(|who| ace(who, 0));
    assert_eq!(aces(FileKind::File, sent).unwrap(), of_file);
}

#[test]
fn a_new_owner_counts_as_the_owner_in_its_list() {
    let sent = SecurityDescriptor {
        owner: Some(sid("S-1-22-1-9")),
        group: Some(sid("S-1-22-2-8")),
        ..with_aces(vec![SmbAce::deny(sid("S-1-22-1-9"), AccessMask::GENERIC_WRITE, HERE)])
    };
    let parts = DACL.with(SecurityInformation::OWNER).with(SecurityInformation::GROUP);
    let changed = change(&known(FileKind::File, 0o600), &sent, parts).unwrap();
    assert_eq!((changed.uid, changed.gid), (Some(9), Some(8)));
    let wanted = [Ace::deny(Who::Owner, AccessMask::ALL_OF_WRITE.0)];
    assert_eq!(changed.list.unwrap().aces(), wanted);
}

#[test]
fn no_list_is_everything_an_empty_one_nothing_an_absent_one_no_change() {
    let file = known(FileKind::File, 0o600);
    let everything = SecurityDescriptor { dacl: None, ..with_aces(Vec::new()) };
    let list = change(&file, &everything, DACL).unwrap().list.unwrap();
    assert_eq!(list.aces(), [Ace::allow(Who::Everyone, AccessMask::ALL.0)]);
    assert_eq!(aces(FileKind::File, Vec::new()).unwrap(), []);
    let absent = change(&file, &SecurityDescriptor::default(), DACL).unwrap();
    assert_eq!(absent, Default::default());
}

#[test]
fn who_is_unknown_here_and_entries_of_other_types_are_refused() {
    let domain_user = sid("S-1-5-21-1-2-3-1001");
    let sent = vec![SmbAce::allow(domain_user.clone(), READ, HERE)];
    assert_eq!(aces(FileKind::File, sent), Err(NtStatus::NONE_MAPPED));
    let other = braid_smb_wire::sd::AceKind::Other { kind: 5, body: Default::default() };
    let sent = vec![SmbAce { flags: HERE, kind: other }];
    assert_eq!(aces(FileKind::File, sent), Err(NtStatus::INVALID_ACL));
    let sent = vec![SmbAce::allow(Sid::everyone(), READ, HERE); 1025];
    assert_eq!(aces(FileKind::File, sent), Err(NtStatus::INVALID_ACL));
    let file = known(FileKind::File, 0o600);
    for (part, wanted) in [
        (SecurityInformation::OWNER, NtStatus::INVALID_OWNER),
        (SecurityInformation::GROUP, NtStatus::INVALID_PRIMARY_GROUP),
    ] {
        let (owner, group) = (Some(domain_user.clone()), Some(sid("S-1-22-1-5")));
        let sent = SecurityDescriptor { owner, group, ..SecurityDescriptor::default() };
        assert_eq!(change(&file, &sent, part), Err(wanted));
        assert_eq!(change(&file, &SecurityDescriptor::default(), part), Err(wanted));
    }
}
