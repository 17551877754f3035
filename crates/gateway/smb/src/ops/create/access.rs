//! What a user may do with a file, as an access mask. MS-FSA 2.1.5.1.2.1.
//!
//! Permissions of the file system are read, write and execute. They are mapped as Samba maps those
//! of POSIX. An access control list can allow more, bit by bit. The file system checks each
//! operation itself as well.

use braid_share::nfs4_acl::{Nfs4Acl, Who};
use braid_share::{Attributes, FileKind, Identity, ShareClient, Status};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;

use crate::removal::is_read_only;
use crate::status::failed;
use crate::walk::Target;

/// Bits of [`ShareClient::access`].
const READ: u8 = 4;
const WRITE: u8 = 2;
const EXECUTE: u8 = 1;
/// The sticky bit of a directory: only owners remove its entries.
const STICKY: u32 = 0o1000;

/// What an access control list of a file or directory can allow beyond read, write and execute.
const BY_LIST: AccessMask = AccessMask::WRITE_ATTRIBUTES
    .with(AccessMask::WRITE_DAC)
    .with(AccessMask::WRITE_OWNER)
    .with(AccessMask::DELETE);
/// The parts of writing to a directory, each of which a list can allow alone.
const BY_LIST_OF_DIRECTORY: AccessMask = BY_LIST
    .with(AccessMask::ADD_FILE)
    .with(AccessMask::ADD_SUBDIRECTORY)
    .with(AccessMask::DELETE_CHILD);

/// The most that a user may do with a file that is there. `with_delete`: also whether it may be
/// removed, which the directory decides and costs a call.
pub(super) async fn maximal<C: ShareClient>(
    client: &C,
    who: &Identity,
    target: &Target,
    known: &Attributes,
    with_delete: bool,
) -> Result<AccessMask, NtStatus> {
    let allowed = client.access_of(who, known, READ | WRITE | EXECUTE).await.map_err(failed)?;
    let mut mask = of_permissions(allowed, known);
    let list = list_of(client, who, known).await?;
    if let Some(list) = &list {
        mask = mask.with(of_list(list, who, known));
    }
    // Without a list only the owner, and root, change permissions and times.
    if who.uid == 0 || who.uid == known.uid {
        mask = mask
            .with(AccessMask::WRITE_ATTRIBUTES)
            .with(AccessMask::WRITE_DAC)
            .with(AccessMask::WRITE_OWNER);
    }
    if with_delete
        && !mask.has(AccessMask::DELETE)
        && may_remove(client, who, target, known).await?
    {
        mask = mask.with(AccessMask::DELETE);
    }
    Ok(mask)
}

fn of_permissions(allowed: u8, known: &Attributes) -> AccessMask {
    let mut mask =
        AccessMask::READ_ATTRIBUTES.with(AccessMask::READ_CONTROL).with(AccessMask::SYNCHRONIZE);
    if allowed & READ != 0 {
        mask = mask.with(AccessMask::READ_DATA).with(AccessMask::READ_EA);
    }
    // Windows has no bit on a file that makes it a program: a user that may read it may run it.
    let runs = if known.kind == FileKind::Directory { EXECUTE } else { EXECUTE | READ };
    if allowed & runs != 0 {
        mask = mask.with(AccessMask::EXECUTE);
    }
    if allowed & WRITE != 0 {
        mask = mask.with(AccessMask::WRITE_EA).with(AccessMask::WRITE_ATTRIBUTES);
        // MS-FSA 2.1.5.1.2.1: a read-only file is not written, also not by its owner.
        if !is_read_only(known) {
            mask = mask.with(AccessMask::WRITE_DATA).with(AccessMask::APPEND_DATA);
        }
        // It means nothing for a file; programs ask for it all the same, with GENERIC_ALL.
        if known.kind != FileKind::Directory || allowed & EXECUTE != 0 {
            mask = mask.with(AccessMask::DELETE_CHILD);
        }
    }
    mask
}

/// The list that decides for a user, if the file may have one: it is an extended attribute.
async fn list_of<C: ShareClient>(
    client: &C,
    who: &Identity,
    known: &Attributes,
) -> Result<Option<Nfs4Acl>, NtStatus> {
    if who.uid == 0 || !known.has_xattrs {
        return Ok(None);
    }
    match client.nfs4_acl(who, known).await {
        Ok(list) => Ok(Some(list)),
        Err(error) if error.status() == Status::Unsupported => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn of_list(list: &Nfs4Acl, who: &Identity, known: &Attributes) -> AccessMask {
    let in_group = |gid| who.gid == gid || who.groups.contains(&gid);
    let is = |named: Who| match named {
        Who::Owner => who.uid == known.uid,
        Who::OwningGroup => in_group(known.gid),
        Who::Everyone => true,
        Who::User(uid) => who.uid == uid,
        Who::Group(gid) => in_group(gid),
    };
    let of_kind = if known.kind == FileKind::Directory { BY_LIST_OF_DIRECTORY } else { BY_LIST };
    let bits = (0..u32::BITS).map(|bit| 1 << bit).filter(|bit| of_kind.0 & bit != 0);
    AccessMask(bits.filter(|bit| list.allows(*bit, is)).sum())
}

async fn may_remove<C: ShareClient>(
    client: &C,
    who: &Identity,
    target: &Target,
    known: &Attributes,
) -> Result<bool, NtStatus> {
    // For the root of a share this is the root itself: a user that may change it may open it with
    // all rights, but it is never removed through the share.
    let dir = client.attributes(who, target.dir).await.map_err(failed)?;
    let mut allowed = client.access_of(who, &dir, WRITE | EXECUTE).await.map_err(failed)?;
    // RFC 8881 6.2.1.3.2: to remove, this part of writing is enough.
    if let Some(list) = list_of(client, who, &dir).await?
        && of_list(&list, who, &dir).has(AccessMask::DELETE_CHILD)
    {
        allowed |= WRITE;
    }
    let is_owner = who.uid == 0 || who.uid == dir.uid || who.uid == known.uid;
    Ok(allowed == WRITE | EXECUTE && (dir.mode & STICKY == 0 || is_owner))
}

/// The access that is granted: what is asked for if it is all allowed.
///
/// # Errors
/// `ACCESS_DENIED`.
pub(super) fn grant(
    wanted: AccessMask,
    wants_maximum: bool,
    maximal: AccessMask,
) -> Result<AccessMask, NtStatus> {
    if wanted.without(maximal).0 != 0 {
        return Err(NtStatus::ACCESS_DENIED);
    }
    Ok(if wants_maximum { maximal } else { wanted })
}
