//! CREATE of a named pipe. MS-SMB2 3.3.5.9.

use std::sync::{Arc, Mutex};

use braid_share::Share;
use braid_smb_wire::NtStatus;
use braid_smb_wire::fscc::FileAttributes;
use braid_smb_wire::smb2::create::{CreateAction, CreateRequest, CreateResponse, OplockLevel};

use crate::context::{Context, OpResult, Reply};
use crate::open::{Open, PipeOpen};

/// Opens the pipe of a service.
pub(super) fn open<S: Share>(context: &Context<S>, request: &CreateRequest) -> OpResult {
    let server = &context.server;
    // Names of pipes have no case. Some clients put `\` in front (3.3.5.9 refuses it for files).
    let name = request.name.trim_start_matches('\\').to_ascii_lowercase();
    let pipe = crate::ops::pipe::service(server, &name).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
    let id = server.new_file_id();
    let tree = Arc::clone(context.tree()?);
    let open = Arc::new(Open::Pipe(PipeOpen { id, tree, pipe: Mutex::new(pipe) }));
    context.session()?.reserve_open(&server.config.limits)?.fill(open)?;
    let body = CreateResponse {
        oplock_level: OplockLevel::NONE,
        flags: 0,
        action: CreateAction::OPENED,
        creation_time: 0,
        last_access_time: 0,
        last_write_time: 0,
        change_time: 0,
        allocation_size: 0,
        end_of_file: 0,
        file_attributes: FileAttributes::NORMAL.0,
        file_id: id,
        contexts: Vec::new(),
    };
    Ok(Reply::new(&body).with_file(id))
}
