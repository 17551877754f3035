//! Extended attributes of users. RFC 8276. A client names them without the prefix `user.`.

use braid_nfs_wire::nfs4::args::{ListXattrsArgs, SetXattrArgs, SetXattrOption, XattrNameArgs};
use braid_nfs_wire::nfs4::results::{ChangeResult, GetXattrResult, ListXattrsResult, XattrName};
use braid_nfs_wire::nfs4::{ChangeInfo, NfsResult, NfsStatus};
use braid_share::{FileIndex, Share, ShareClient, Status, XattrMode};
use bytes::Bytes;

use crate::compound::CompoundState;
use crate::status::nfs_status;

const PREFIX: &[u8] = b"user.";
/// XATTR_NAME_MAX of Linux, with the prefix.
const NAME_BYTES_MAX: usize = 255;
/// XATTR_SIZE_MAX of Linux.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// Bytes of a result of LISTXATTRS without names: cookie, count, eof.
const EMPTY_BYTES: usize = 16;

fn failed(error: braid_share::Error) -> NfsStatus {
    match error.status() {
        // RFC 8276 8.4.1: the value does not fit.
        Status::Range | Status::LimitExceeded => NfsStatus::ReqTooBig,
        status => nfs_status(status),
    }
}

fn full_name(name: &[u8]) -> NfsResult<Vec<u8>> {
    if name.is_empty() || name.contains(&0) {
        return Err(NfsStatus::Inval);
    }
    if PREFIX.len() + name.len() > NAME_BYTES_MAX {
        return Err(NfsStatus::NameTooLong);
    }
    Ok([PREFIX, name].concat())
}

/// GETXATTR. RFC 8276 8.4.1.
pub async fn get_xattr<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: XattrNameArgs,
) -> NfsResult<GetXattrResult> {
    let file = state.file(NfsStatus::NoXattr)?.file;
    let name = full_name(&args.name)?;
    let value = state.share_client()?.xattr(state.who(), file, &name).await.map_err(failed)?;
    Ok(GetXattrResult { value: value.into() })
}

async fn change_of<S: Share>(state: &CompoundState<'_, S>, file: FileIndex) -> NfsResult<u64> {
    let known = state.share_client()?.attributes(state.who(), file).await;
    Ok(known.map_err(failed)?.change)
}

/// SETXATTR. RFC 8276 8.4.2.
pub async fn set_xattr<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: SetXattrArgs,
) -> NfsResult<ChangeResult> {
    let file = state.writable_file()?.file;
    let name = full_name(&args.name)?;
    if args.value.len() > VALUE_BYTES_MAX {
        return Err(NfsStatus::ReqTooBig);
    }
    let mode = match args.option {
        SetXattrOption::Create => XattrMode::Create,
        SetXattrOption::Replace => XattrMode::Replace,
        _ => XattrMode::Either,
    };
    let before = change_of(state, file).await?;
    let client = state.share_client()?;
    client.set_xattr(state.who(), file, &name, &args.value, mode).await.map_err(failed)?;
    let after = change_of(state, file).await?;
    Ok(ChangeResult { change: ChangeInfo { atomic: false, before, after } })
}

/// LISTXATTRS. RFC 8276 8.4.3. The cookie is the number of names that were returned.
pub async fn list_xattrs<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: ListXattrsArgs,
) -> NfsResult<ListXattrsResult> {
    let file = state.file(NfsStatus::NotSupp)?.file;
    let mut names = state.share_client()?.xattrs(state.who(), file).await.map_err(failed)?;
    names.sort_unstable();
    let names = names.iter().filter_map(|name| name.strip_prefix(PREFIX));
    let mut left = (args.max_count as usize).min(state.reply_space).saturating_sub(EMPTY_BYTES);
    let mut result = ListXattrsResult { cookie: args.cookie, names: Vec::new(), eof: true };
    for name in names.skip(usize::try_from(args.cookie).map_err(|_| NfsStatus::BadCookie)?) {
        let bytes = 4 + name.len().div_ceil(4) * 4;
        if bytes > left {
            result.eof = false;
            break;
        }
        left -= bytes;
        result.cookie += 1;
        result.names.push(XattrName(Bytes::copy_from_slice(name)));
    }
    if result.names.is_empty() && !result.eof {
        return Err(NfsStatus::TooSmall);
    }
    Ok(result)
}

/// REMOVEXATTR. RFC 8276 8.4.4.
pub async fn remove_xattr<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: XattrNameArgs,
) -> NfsResult<ChangeResult> {
    let file = state.writable_file()?.file;
    let name = full_name(&args.name)?;
    let before = change_of(state, file).await?;
    let client = state.share_client()?;
    client.remove_xattr(state.who(), file, &name).await.map_err(failed)?;
    let after = change_of(state, file).await?;
    Ok(ChangeResult { change: ChangeInfo { atomic: false, before, after } })
}
