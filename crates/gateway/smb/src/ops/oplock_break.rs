//! OPLOCK_BREAK: the acknowledgement of a break. MS-SMB2 3.3.5.22.

use braid_share::Share;
use braid_smb_wire::NtStatus;
use braid_smb_wire::smb2::oplock_break::{LeaseAcknowledgment, OplockBreak, OplockBreakBody};

use crate::context::{Context, OpResult, Reply};

/// Acknowledges the break of an oplock or lease. What the client has cached and written back came
/// before.
///
/// # Errors
/// Those of [`crate::leases::Leases::acknowledge`] and
/// [`crate::leases::Leases::acknowledge_oplock`].
pub fn acknowledge<S: Share>(context: &Context<S>, body: OplockBreakBody) -> OpResult {
    let leases = &context.server.leases;
    match body {
        OplockBreakBody::Oplock(request) => {
            let open = context.open(request.file_id)?;
            let lease = open.file()?.lease.as_ref().ok_or(NtStatus::INVALID_OPLOCK_PROTOCOL)?;
            let oplock_level = leases.acknowledge_oplock(lease, request.oplock_level)?;
            let body = OplockBreak { oplock_level, file_id: open.id() };
            Ok(Reply::new(&OplockBreakBody::Oplock(body)).with_file(open.id()))
        }
        OplockBreakBody::LeaseAcknowledgment(request) => {
            let negotiated = context.connection.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
            // A lease is named by the GUID that its connection has sent, and its key. A client
            // that has seen both could acknowledge for another one, as in Windows.
            leases.acknowledge((negotiated.client_guid, request.key), request.state)?;
            let body = LeaseAcknowledgment { key: request.key, state: request.state };
            Ok(Reply::new(&OplockBreakBody::LeaseAcknowledgment(body)))
        }
        // Only a server sends it.
        OplockBreakBody::LeaseNotification(_) => Err(NtStatus::INVALID_PARAMETER),
    }
}
