//! FSCTL_DFS_GET_REFERRALS and FSCTL_DFS_GET_REFERRALS_EX: the gateways that have a share. MS-SMB2
//! 3.3.5.15.2, MS-DFSC 3.2.5.5.

use braid_share::Share;
use braid_smb_wire::NtStatus;
use braid_smb_wire::dfs::{
    Referral, ReferralFlags, ReferralRequest, ReferralRequestEx, ReferralResponse, VERSION_MAX,
};
use braid_smb_wire::fscc::Information;
use braid_smb_wire::fsctl::ControlCode;
use braid_smb_wire::smb2::FileId;
use braid_smb_wire::smb2::ioctl::IoctlRequest;

use super::Output;
use crate::context::{Context, malformed};
use crate::dfs_path::ReferralPath;

/// How long a client uses a referral, in seconds: so long it may go on to try a gateway that is
/// lost.
const TIME_TO_LIVE: u32 = 60;

/// Answers with the gateways that are there. Each of them has the whole share, and answers further
/// requests.
pub(super) fn referral<S: Share>(context: &Context<S>, request: &IoctlRequest) -> Output {
    let server = &context.server;
    if !server.gateways.is_dfs() {
        return Err(NtStatus::FS_DRIVER_REQUIRED);
    }
    if request.file_id != FileId::RELATED {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let (max_level, path) = decode(request)?;
    let path = ReferralPath::parse(&path)?;
    let share = server.shares.find(path.share).ok_or(NtStatus::NOT_FOUND)?;
    let version = max_level.min(VERSION_MAX);
    let mut flags = ReferralFlags::REFERRAL_SERVERS.with(ReferralFlags::STORAGE_SERVERS);
    if version == 4 {
        flags = flags.with(ReferralFlags::TARGET_FAILBACK);
    }
    let order = server.gateways.order(context.connection.peer().ip());
    if order.is_empty() {
        // The client stays where it is.
        return Err(NtStatus::NOT_FOUND);
    }
    let entries = order.into_iter().enumerate().map(|(index, gateway)| Referral {
        is_root: true,
        // 2.2.5.4: a client that has left its first gateway goes back to it.
        begins_set: index < 2,
        time_to_live: TIME_TO_LIVE,
        path: path.root.to_owned(),
        target: format!(r"\{gateway}\{}", share.name),
    });
    let path_consumed = u16::try_from(2 * path.root.encode_utf16().count());
    let response = ReferralResponse {
        path_consumed: path_consumed.map_err(|_| NtStatus::INVALID_PARAMETER)?,
        flags,
        version,
        entries: entries.collect(),
    };
    let output = response.to_bytes().map_err(malformed)?;
    // The client asks again, with room for more.
    if output.len() > request.max_output as usize {
        return Ok((Vec::new(), NtStatus::BUFFER_OVERFLOW));
    }
    Ok((output, NtStatus::SUCCESS))
}

/// The newest form of entries that the client knows, and the path. The site of the client is not
/// used: gateways have none.
fn decode(request: &IoctlRequest) -> Result<(u16, String), NtStatus> {
    let input = request.input.clone();
    let (max_level, path) = match ControlCode(request.code) {
        ControlCode::DFS_GET_REFERRALS_EX => {
            let request = ReferralRequestEx::from_bytes(input).map_err(malformed)?;
            (request.max_level, request.path)
        }
        _ => {
            let request = ReferralRequest::from_bytes(input).map_err(malformed)?;
            (request.max_level, request.path)
        }
    };
    if max_level == 0 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok((max_level, path))
}
