//! Security descriptors of files: the access control lists of BraidFS as those of Windows. The bits
//! of their masks have the same numbers (RFC 8881 6.2.1.3, MS-DTYP 2.4.3).
//!
//! Users and groups of Unix are `S-1-22-1-UID` and `S-1-22-2-GID`, as with Samba.

use braid_share::Attributes;
use braid_share::nfs4_acl::{Ace, AceKind, Nfs4Acl, Who, ace_flag};
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::sd::{Ace as SmbAce, AceFlags, Acl, Control, SecurityDescriptor, Sid};
use braid_smb_wire::smb2::query_info::SecurityInformation;

/// The parts of a file's security descriptor that are asked for.
pub fn descriptor(
    known: &Attributes,
    list: &Nfs4Acl,
    wanted: SecurityInformation,
) -> SecurityDescriptor {
    let has = |part| wanted.has(part);
    let aces = || list.aces().iter().map(|ace| ace_of(known, ace)).collect();
    SecurityDescriptor {
        control: Control::SELF_RELATIVE,
        owner: has(SecurityInformation::OWNER).then(|| user(known.uid)),
        group: has(SecurityInformation::GROUP).then(|| group(known.gid)),
        sacl: None,
        dacl: has(SecurityInformation::DACL).then(|| Acl { aces: aces() }),
    }
}

fn user(uid: u64) -> Sid {
    Sid::unix_user(u32::try_from(uid).unwrap_or(u32::MAX))
}

fn group(gid: u64) -> Sid {
    Sid::unix_group(u32::try_from(gid).unwrap_or(u32::MAX))
}

fn ace_of(known: &Attributes, ace: &Ace) -> SmbAce {
    let sid = match ace.who {
        Who::Owner => user(known.uid),
        Who::OwningGroup => group(known.gid),
        Who::Everyone => Sid::everyone(),
        Who::User(uid) => user(uid),
        Who::Group(gid) => group(gid),
    };
    // The bits of inheritance have the same numbers, too.
    let flags = AceFlags(ace.flags & ace_flag::INHERITANCE);
    let mask = AccessMask(ace.mask & AccessMask::ALL.0);
    match ace.kind {
        AceKind::Allow => SmbAce::allow(sid, mask, flags),
        AceKind::Deny => SmbAce::deny(sid, mask, flags),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::tests::known;
    use braid_share::{FileKind, acl_of_mode};

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
        let found = descriptor(&known, &list, SecurityInformation::DACL).dacl.unwrap().aces;
        let flags = AceFlags::OBJECT_INHERIT.with(AceFlags::INHERIT_ONLY);
        let wanted = [
            SmbAce::deny(Sid::unix_user(7), AccessMask::WRITE_DATA, AceFlags::default()),
            SmbAce::allow(Sid::everyone(), AccessMask::ALL_OF_READ, flags),
        ];
        assert_eq!(found, wanted);
    }
}
