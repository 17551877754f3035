//! OPEN with CLAIM_PREVIOUS. RFC 8881 8.4.2 and 18.16.3.

use braid_nfs_wire::nfs4::args::{OpenArgs, OpenHow};
use braid_nfs_wire::nfs4::results::{OpenDelegation, OpenResult};
use braid_nfs_wire::nfs4::{Bitmap, ChangeInfo, NfsResult, NfsStatus, OpenResultFlags};
use braid_share::{FileIndex, OpenMode, Rights, Share, ShareClient};

use crate::compound::CompoundState;
use crate::export::Node;
use crate::status::nfs_status;

/// Reclaims an open of the current file.
pub async fn open_previous<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: &OpenArgs,
    mode: OpenMode,
) -> NfsResult<OpenResult> {
    check_may_reclaim(state)?;
    if matches!(args.how, OpenHow::Create(_)) {
        return Err(NfsStatus::Inval);
    }
    let file = match state.current()? {
        Node::File(file) => file.clone(),
        Node::Pseudo(_) => return Err(NfsStatus::IsDir),
    };
    check_permission(state, file.file, mode.rights).await?;
    let client = state.client_state()?;
    let id = client.reclaim_open(state.who(), &args.owner.owner, &file, mode).await?;
    state.set_state_id(id);
    Ok(OpenResult {
        state_id: id,
        change: ChangeInfo { atomic: false, before: 0, after: 0 },
        flags: OpenResultFlags::LOCKTYPE_POSIX | OpenResultFlags::PRESERVE_UNLINKED,
        attributes_set: Bitmap::new(),
        // Delegations of the earlier start have ended with it.
        delegation: OpenDelegation::None,
    })
}

/// Refuses reclaims after RECLAIM_COMPLETE. RFC 8881 18.51.3.
///
/// # Errors
/// `NO_GRACE`.
pub fn check_may_reclaim<S: Share>(state: &CompoundState<'_, S>) -> NfsResult<()> {
    if state.client()?.has_reclaimed() { Err(NfsStatus::NoGrace) } else { Ok(()) }
}

/// The opens of a session do not name their users. So the caller must be one who may open the file
/// now, or its owner, who may have created it with any mode.
async fn check_permission<S: Share>(
    state: &CompoundState<'_, S>,
    file: FileIndex,
    rights: Rights,
) -> NfsResult<()> {
    let (client, who) = (state.share_client()?, state.who());
    let failed = |error: braid_share::Error| nfs_status(error.status());
    if client.attributes(who, file).await.map_err(failed)?.uid == who.uid {
        return Ok(());
    }
    let bit = |right, bit| if rights.allow(right) { bit } else { 0 };
    let wanted = bit(Rights::READ, 4) | bit(Rights::WRITE, 2);
    match client.access(who, file, wanted).await.map_err(failed)? {
        allowed if allowed & wanted == wanted => Ok(()),
        _ => Err(NfsStatus::Access),
    }
}
