//! The attribute SPARSE of a file. MS-FSA 2.1.5.10.35, MS-FSCC 2.3.69.
//!
//! Every file may have holes. The attribute decides whether clients see them: it is stored with the
//! other DOS attributes. Programs of Windows look for holes in files that have it only.

use braid_share::{AttributeChanges, Share, ShareClient, Status};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::fsctl::sets_sparse;
use braid_smb_wire::smb2::change_notify::CompletionFilter;

use super::Output;
use crate::attributes::changes_to_sparse;
use crate::context::Context;
use crate::open::FileOpen;
use crate::status::failed;
use crate::streams::shared::granted;

/// FSCTL_SET_SPARSE. A stream, and a file of a file system without such attributes, stays as it is:
/// all that is lost is that holes are shown.
pub(super) async fn set<S: Share>(
    context: &Context<S>,
    open: &FileOpen<S>,
    input: &[u8],
) -> Output {
    let done = Ok((Vec::new(), NtStatus::SUCCESS));
    if open.is_directory {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let rights =
        AccessMask::WRITE_DATA.with(AccessMask::APPEND_DATA).with(AccessMask::WRITE_ATTRIBUTES);
    if !AccessMask(open.granted).has_any(rights) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if open.stream.is_some() {
        return done;
    }
    // With the rights of the open: the file may have another mode since.
    let (client, who) = (context.client()?, granted(context.who()?));
    let known = client.attributes(&who, open.file).await.map_err(failed)?;
    let changes = changes_to_sparse(&known, &open.place().name, sets_sparse(input));
    if changes == AttributeChanges::none() {
        return done;
    }
    match client.set_attributes(&who, open.file, changes).await {
        Ok(_) => open.report(&context.server.watches, CompletionFilter::ATTRIBUTES),
        Err(error) if matches!(error.status(), Status::Unsupported | Status::UnknownMessage) => {}
        Err(error) => return Err(failed(error)),
    }
    done
}
