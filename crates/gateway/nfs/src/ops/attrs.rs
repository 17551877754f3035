//! GETATTR, SETATTR, VERIFY, NVERIFY and ACCESS.

use braid_nfs_wire::nfs4::args::{AccessArgs, GetAttrArgs, SetAttrArgs, VerifyArgs};
use braid_nfs_wire::nfs4::results::{AccessResult, GetAttrResult, SetAttrResult};
use braid_nfs_wire::nfs4::{
    AccessBits, Attributes as NfsAttributes, Bitmap, NfsResult, NfsStatus, attribute,
};
use braid_share::{FileKind, Rights, Share, ShareClient, ShareFile};

use crate::acl;
use crate::attributes::{WantedAttributes, of_node};
use crate::compound::CompoundState;
use crate::export::Node;
use crate::names::{NameKind, Names};
use crate::ops::stateid::{self, FileAccess};
use crate::status::nfs_status;

/// GETATTR. RFC 8881 18.7.
pub async fn get_attr<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: GetAttrArgs,
) -> NfsResult<GetAttrResult> {
    let node = state.current()?;
    // RFC 8881 18.7.3: attributes that can only be set.
    if has_write_only(&args.attributes) {
        return Err(NfsStatus::Inval);
    }
    Ok(GetAttrResult { attributes: of_node(state, node, &args.attributes).await? })
}

fn has_write_only(requested: &Bitmap) -> bool {
    [attribute::TIME_ACCESS_SET, attribute::TIME_MODIFY_SET, attribute::MODE_SET_MASKED]
        .iter()
        .any(|number| requested.has(*number))
}

/// SETATTR. RFC 8881 18.30.
pub async fn set_attr<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: SetAttrArgs,
) -> SetAttrResult {
    match set(state, &args).await {
        Ok(attributes_set) => SetAttrResult { status: NfsStatus::Ok, attributes_set },
        Err(status) => SetAttrResult { status, attributes_set: Bitmap::new() },
    }
}

async fn set<S: Share>(state: &CompoundState<'_, S>, args: &SetAttrArgs) -> NfsResult<Bitmap> {
    let file = state.writable_file()?.clone();
    let mut wanted = WantedAttributes::read(&state.server.names, &args.attributes).await?;
    let client = state.share_client()?;
    if let Some(masked) = masked_mode(args)? {
        let known = client.attributes(state.who(), file.file).await;
        let known = known.map_err(|error| nfs_status(error.status()))?;
        wanted.changes.mode = Some(known.mode & 0o7777 & !masked.1 | masked.0 & masked.1);
    }
    if let Some(bytes) = wanted.changes.bytes {
        if bytes.0 > braid_share::FILE_BYTES_MAX {
            return Err(NfsStatus::FBig);
        }
        // RFC 8881 18.30.4: the size is changed as by a WRITE with this state id.
        let access = stateid::access(state, args.state_id, &file, Rights::WRITE).await;
        match access.map_err(no_size)? {
            FileAccess::Open(open) => {
                let set = open.set_len(bytes.0).await;
                state.note_attributes(set.map_err(|error| nfs_status(error.status()))?);
                wanted.changes.bytes = None;
            }
            FileAccess::ForThisCall(open) => drop(open),
        }
    }
    if let Some(set) = wanted.set_rest(state, file.file, wanted.changes.clone()).await? {
        state.note_attributes(set);
    }
    Ok(wanted.mask)
}

/// RFC 8881 15.2: SETATTR has one status for all objects that have no size to set.
fn no_size(status: NfsStatus) -> NfsStatus {
    match status {
        NfsStatus::IsDir | NfsStatus::SymLink => NfsStatus::WrongType,
        other => other,
    }
}

/// The bits and the mask of `mode_set_masked`. RFC 8881 6.2.5.
fn masked_mode(args: &SetAttrArgs) -> NfsResult<Option<(u32, u32)>> {
    let read = NfsAttributes::from_encoded(&args.attributes).map_err(|error| error.status())?;
    Ok(read.mode_set_masked.map(|masked| (masked.value, masked.mask & 0o7777)))
}

/// VERIFY. RFC 8881 18.31.
pub async fn verify<S: Share>(state: &mut CompoundState<'_, S>, args: VerifyArgs) -> NfsResult<()> {
    if is_same(state, &args).await? { Ok(()) } else { Err(NfsStatus::NotSame) }
}

/// NVERIFY. RFC 8881 18.15.
pub async fn n_verify<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: VerifyArgs,
) -> NfsResult<()> {
    if is_same(state, &args).await? { Err(NfsStatus::Same) } else { Ok(()) }
}

async fn is_same<S: Share>(state: &CompoundState<'_, S>, args: &VerifyArgs) -> NfsResult<bool> {
    let node = state.current()?;
    let mask = args.attributes.mask;
    if has_write_only(&mask) || mask.has(attribute::RDATTR_ERROR) {
        return Err(NfsStatus::Inval);
    }
    let present = of_node(state, node, &mask).await?;
    // RFC 8881 18.31.3: an attribute that the server does not support.
    if present.mask != mask {
        return Err(NfsStatus::AttrNotSupp);
    }
    let mut given =
        NfsAttributes::from_encoded(&args.attributes).map_err(|error| error.status())?;
    match in_own_form(&state.server.names, &mut given).await {
        Ok(false) => Ok(present.values == args.attributes.values),
        Ok(true) => Ok(present.values == given.to_encoded(&mask).values),
        // Nothing belongs to an unknown user.
        Err(NfsStatus::BadOwner) => Ok(false),
        Err(status) => Err(status),
    }
}

/// Replaces names by those that this server sends for them: users, groups and entries of lists have
/// several. Returns whether there were any.
async fn in_own_form(names: &Names, given: &mut NfsAttributes) -> NfsResult<bool> {
    let NfsAttributes { owner, owner_group, acl, .. } = given;
    let any = owner.is_some() || owner_group.is_some() || acl.is_some();
    for (kind, text) in [(NameKind::User, owner), (NameKind::Group, owner_group)] {
        if let Some(text) = text {
            *text = names.text(kind, names.number(kind, text).await?).await;
        }
    }
    if let Some(aces) = acl {
        *aces = acl::to_wire(names, &acl::from_wire(names, aces).await?).await;
    }
    Ok(any)
}

/// ACCESS. RFC 8881 18.1, RFC 8276 8.5.
pub async fn access<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: AccessArgs,
) -> NfsResult<AccessResult> {
    let wanted = args.access;
    let file = match state.current()? {
        Node::Pseudo(_) => {
            let supported = AccessBits::READ
                | AccessBits::LOOKUP
                | AccessBits::EXECUTE
                | AccessBits::MODIFY
                | AccessBits::EXTEND
                | AccessBits::DELETE;
            let allowed = wanted & (AccessBits::READ | AccessBits::LOOKUP);
            return Ok(AccessResult { supported: supported & wanted, access: allowed });
        }
        Node::File(file) => file,
    };
    let (client, who) = (state.share_client()?, state.who());
    let known = state.attributes_of(file.file).await?;
    let is_directory = known.kind == FileKind::Directory;
    let allowed = client.access_of(who, &known, 7).await;
    let allowed = allowed.map_err(|error| nfs_status(error.status()))?;
    let (read, write, execute) = (allowed & 4 != 0, allowed & 2 != 0, allowed & 1 != 0);
    let write = write && !file.export.config().read_only;
    let xattrs = AccessBits::XATTR_READ | AccessBits::XATTR_WRITE | AccessBits::XATTR_LIST;
    let both = AccessBits::READ | AccessBits::MODIFY | AccessBits::EXTEND | xattrs;
    let supported = if is_directory {
        both | AccessBits::LOOKUP | AccessBits::DELETE
    } else {
        both | AccessBits::EXECUTE
    };
    let mut access = AccessBits::empty();
    if read {
        access = access | AccessBits::READ | AccessBits::XATTR_READ | AccessBits::XATTR_LIST;
    }
    if write {
        access = access
            | AccessBits::MODIFY
            | AccessBits::EXTEND
            | AccessBits::DELETE
            | AccessBits::XATTR_WRITE;
    }
    if execute {
        access = access | AccessBits::LOOKUP | AccessBits::EXECUTE;
    }
    let supported = supported & wanted;
    Ok(AccessResult { supported, access: access & supported })
}
