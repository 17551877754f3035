//! What a security descriptor of a client changes. MS-FSA 2.1.5.17.

use braid_share::nfs4_acl::{Ace, AceKind, Nfs4Acl, Who, ace_flag};
use braid_share::{Attributes, FileKind};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::sd::{
    Ace as SmbAce, AceKind as SmbAceKind, Acl, Control, SecurityDescriptor, Sid,
};
use braid_smb_wire::smb2::query_info::SecurityInformation;

/// What changes; `None` stays.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DescriptorChange {
    /// The owner.
    pub uid: Option<u64>,
    /// The group.
    pub gid: Option<u64>,
    /// The access control list.
    pub list: Option<Nfs4Acl>,
}

/// What the parts of a descriptor change of a file with the attributes `known`.
///
/// # Errors
/// `INVALID_OWNER` and `INVALID_PRIMARY_GROUP` if there is no such user or group; `NONE_MAPPED` if
/// an entry names somebody who is no user or group here; `INVALID_ACL` for entries of other types
/// than "allow" and "deny", and for more entries than
/// [`ACES_MAX`](braid_share::nfs4_acl::ACES_MAX).
pub fn change(
    known: &Attributes,
    sent: &SecurityDescriptor,
    parts: SecurityInformation,
) -> Result<DescriptorChange, NtStatus> {
    let mut change = DescriptorChange::default();
    if parts.has(SecurityInformation::OWNER) {
        match sent.owner.as_ref().and_then(named) {
            Some(Named::Is(Who::User(uid))) => change.uid = Some(uid),
            _ => return Err(NtStatus::INVALID_OWNER),
        }
    }
    if parts.has(SecurityInformation::GROUP) {
        match sent.group.as_ref().and_then(named) {
            Some(Named::Is(Who::Group(gid))) => change.gid = Some(gid),
            _ => return Err(NtStatus::INVALID_PRIMARY_GROUP),
        }
    }
    // A descriptor that has no list, not even the empty one, changes none.
    if parts.has(SecurityInformation::DACL) && sent.control.has(Control::DACL_PRESENT) {
        let file = File {
            uid: change.uid.unwrap_or(known.uid),
            gid: change.gid.unwrap_or(known.gid),
            is_directory: known.kind == FileKind::Directory,
        };
        change.list = Some(file.list(sent.dacl.as_ref())?);
    }
    Ok(change)
}

/// Whom a SID names.
enum Named {
    /// This one.
    Is(Who),
    /// The owner, or the group, of what inherits the entry.
    Creator(Who),
}

/// MS-DTYP 2.4.2.4 has the well-known SIDs.
fn named(sid: &Sid) -> Option<Named> {
    let who = match (sid.authority(), sid.sub_authorities()) {
        (1, [0]) => Who::Everyone,
        // Authenticated Users, and Users of the machine.
        (5, [11] | [32, 545]) => Who::Everyone,
        (3, [0]) => return Some(Named::Creator(Who::Owner)),
        (3, [1]) => return Some(Named::Creator(Who::OwningGroup)),
        // Owner Rights.
        (3, [4]) => Who::Owner,
        // Local System, and Administrators.
        (5, [18] | [32, 544]) => Who::User(0),
        (22, [1, uid]) => Who::User(u64::from(*uid)),
        (22, [2, gid]) => Who::Group(u64::from(*gid)),
        _ => return None,
    };
    Some(Named::Is(who))
}

/// What of a file matters for its list.
struct File {
    uid: u64,
    gid: u64,
    is_directory: bool,
}

impl File {
    fn list(&self, sent: Option<&Acl>) -> Result<Nfs4Acl, NtStatus> {
        let mut aces = Vec::new();
        match sent {
            Some(list) => {
                for ace in &list.aces {
                    self.add(&mut aces, ace)?;
                }
            }
            // MS-DTYP 2.4.6, DACL_PRESENT: without a list, everybody may do everything.
            None => aces.push(Ace::allow(Who::Everyone, AccessMask::ALL.0)),
        }
        Nfs4Acl::new(aces, self.is_directory).map_err(|_| NtStatus::INVALID_ACL)
    }

    fn add(&self, aces: &mut Vec<Ace>, sent: &SmbAce) -> Result<(), NtStatus> {
        let (kind, mask, sid) = match &sent.kind {
            SmbAceKind::Allow { mask, sid } => (AceKind::Allow, mask, sid),
            SmbAceKind::Deny { mask, sid } => (AceKind::Deny, mask, sid),
            SmbAceKind::Other { .. } => return Err(NtStatus::INVALID_ACL),
        };
        let mask = mask.without_generic().0 & AccessMask::ALL.0;
        let flags = sent.flags.0 & ace_flag::INHERITANCE;
        let mut push = |who, flags| aces.push(Ace { kind, flags, mask, who });
        let (is_effective, inherits) =
            (flags & ace_flag::INHERIT_ONLY == 0, flags & ace_flag::INHERITS != 0);
        let who = match named(sid).ok_or(NtStatus::NONE_MAPPED)? {
            // Without inheritance it names nobody.
            Named::Creator(who) => {
                if inherits {
                    push(who, flags | ace_flag::INHERIT_ONLY);
                }
                return Ok(());
            }
            Named::Is(who) => who,
        };
        let special = match who {
            Who::User(uid) if uid == self.uid => Who::Owner,
            Who::Group(gid) if gid == self.gid => Who::OwningGroup,
            _ => {
                push(who, flags);
                return Ok(());
            }
        };
        if is_effective {
            push(special, 0);
        }
        if inherits {
            push(who, flags | ace_flag::INHERIT_ONLY);
        }
        Ok(())
    }
}
