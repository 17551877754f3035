//! The response of CREATE. MS-SMB2 2.2.14.

use braid_share::{Attributes, Share};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::fscc::FileFacts;
use braid_smb_wire::smb2::FileId;
use braid_smb_wire::smb2::create::{
    CreateAction, CreateContext, CreateResponse, MaximalAccessResponse, OnDiskId, OplockLevel,
    context as tags,
};

use super::Job;
use crate::attributes;

/// The contexts that answer those of the request. Others are ignored: durable opens are not granted
/// yet, and allocation sizes are hints. That of a lease is [`super::lease`]'s.
pub(super) fn contexts<S: Share>(
    job: &Job<'_, S>,
    known: &Attributes,
    maximal: AccessMask,
) -> Vec<CreateContext> {
    let mut contexts = Vec::new();
    if job.asks_maximal() {
        let answer = MaximalAccessResponse { status: NtStatus::SUCCESS, maximal_access: maximal.0 };
        contexts.push(answer.to_context());
    }
    if CreateContext::find(&job.request.contexts, tags::ON_DISK_ID).is_some() {
        let volume = attributes::volume_serial(job.context.server.share.file_system());
        contexts.push(OnDiskId { file: known.file.0, volume }.to_context());
    }
    contexts
}

/// The body.
pub(super) fn response(
    file_id: FileId,
    action: CreateAction,
    facts: &FileFacts,
    oplock_level: OplockLevel,
    contexts: Vec<CreateContext>,
) -> CreateResponse {
    CreateResponse {
        oplock_level,
        flags: 0,
        action,
        creation_time: facts.creation.0,
        last_access_time: facts.last_access.0,
        last_write_time: facts.last_write.0,
        change_time: facts.change.0,
        allocation_size: facts.allocation_bytes,
        end_of_file: facts.end_of_file,
        file_attributes: facts.attributes.0,
        file_id,
        contexts,
    }
}
