//! Security descriptors of files: the access control lists of BraidFS as those of Windows. The bits
//! of their masks have the same numbers (RFC 8881 6.2.1.3, MS-DTYP 2.4.3), and so have those of
//! inheritance.
//!
//! ```text
//!   BraidFS                        Windows
//!   user, group                    S-1-22-1-UID, S-1-22-2-GID, as with Samba
//!   EVERYONE@                      S-1-1-0 (Everyone)
//!   OWNER@, GROUP@                 the owner's and the group's SID
//!   OWNER@, GROUP@, inherited      S-1-3-0 (Creator Owner), S-1-3-1 (Creator Group)
//! ```
//!
//! An entry of `OWNER@` that a directory has for itself and for what is made in it becomes two of
//! Windows, and one of Windows for the owner becomes two of BraidFS: `OWNER@` for the directory,
//! and the user for what is made in it, which may get another owner.

mod change;
#[cfg(test)]
mod tests;

use braid_share::Attributes;
use braid_share::nfs4_acl::{Ace, AceKind, Nfs4Acl, Who, ace_flag};
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::sd::{Ace as SmbAce, AceFlags, Acl, Control, SecurityDescriptor, Sid};
use braid_smb_wire::smb2::query_info::SecurityInformation;

pub use change::change;

/// The parts of a file's security descriptor that are asked for.
pub fn descriptor(
    known: &Attributes,
    list: &Nfs4Acl,
    wanted: SecurityInformation,
) -> SecurityDescriptor {
    let has = |part| wanted.has(part);
    let aces = || list.aces().iter().flat_map(|ace| aces_of(known, ace)).collect();
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

/// The entries of Windows for one of ours.
fn aces_of(known: &Attributes, ace: &Ace) -> impl Iterator<Item = SmbAce> + use<> {
    let (sid, creator) = match ace.who {
        Who::Owner => (user(known.uid), Some(Sid::creator_owner())),
        Who::OwningGroup => (group(known.gid), Some(Sid::creator_group())),
        Who::Everyone => (Sid::everyone(), None),
        Who::User(uid) => (user(uid), None),
        Who::Group(gid) => (group(gid), None),
    };
    let ace = *ace;
    let entry = move |sid, flags| {
        let (flags, mask) = (AceFlags(flags), AccessMask(ace.mask & AccessMask::ALL.0));
        match ace.kind {
            AceKind::Allow => SmbAce::allow(sid, mask, flags),
            AceKind::Deny => SmbAce::deny(sid, mask, flags),
        }
    };
    let flags = ace.flags & ace_flag::INHERITANCE;
    let (here, below) = match creator {
        Some(creator) if flags & ace_flag::INHERITS != 0 => (
            ace.is_effective().then(|| entry(sid, 0)),
            Some(entry(creator, flags | ace_flag::INHERIT_ONLY)),
        ),
        _ => (Some(entry(sid, flags)), None),
    };
    here.into_iter().chain(below)
}
