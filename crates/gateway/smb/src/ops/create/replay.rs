//! CREATE that was sent before: the client has not seen its response. MS-SMB2 3.3.5.9.10.

use std::sync::Arc;

use braid_share::Share;
use braid_smb_wire::NtStatus;
use braid_smb_wire::smb2::Flags;
use braid_smb_wire::smb2::create::OplockLevel;

use super::durable::DurableWish;
use super::{Job, reconnect, response};
use crate::context::{OpResult, Reply};
use crate::durable::replay::{CreateRecord, Earlier};
use crate::leases::{Form, Granted, Owner, rules};
use crate::open::{FileOpen, Open};

/// Begins a CREATE that can be repeated. Returns the open of an earlier one that it repeats.
///
/// # Errors
/// `DUPLICATE_OBJECTID` for another request with the same GUID, `FILE_NOT_AVAILABLE` while the
/// earlier one runs.
pub(super) fn begin<S: Share>(
    job: &Job<'_, S>,
    create_guid: [u8; 16],
) -> Result<Result<CreateRecord<S>, Arc<Open<S>>>, NtStatus> {
    let context = job.context;
    let negotiated = context.connection.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
    let name = (negotiated.client_guid, create_guid);
    let is_replay = context.header.flags.has(Flags::REPLAY);
    match context.server.creates.begin(name, job.id.volatile) {
        Ok(record) => Ok(Ok(record)),
        Err(_) if !is_replay => Err(NtStatus::DUPLICATE_OBJECTID),
        // The standard does not say. As Samba: the client tries again.
        Err(Earlier::Runs) => Err(NtStatus::FILE_NOT_AVAILABLE),
        Err(Earlier::Made(open, session)) => {
            let is_here = session == context.session()?.id && open.tree_id() == job.tree.id;
            if is_here { Ok(Err(open)) } else { Err(NtStatus::DUPLICATE_OBJECTID) }
        }
    }
}

/// Answers a CREATE once more.
///
/// # Errors
/// `ACCESS_DENIED` for another lease.
pub(super) async fn answer<S: Share>(
    job: &Job<'_, S>,
    wish: &DurableWish,
    open: &Arc<Open<S>>,
) -> OpResult {
    let file = open.file()?;
    if !has_same_lease(job, file) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let known = reconnect::attributes(job.context, file).await?;
    let mut contexts = response::contexts(job, &known, file.outcome.maximal);
    let mut level = OplockLevel::NONE;
    if let Some(lease) = &file.lease {
        let granted = lease.granted();
        let answered = match granted.form {
            // Windows answers with no more than what is asked for now; the open keeps its oplock.
            Form::Oplock => Granted { state: granted.state.common(job.lease.state), ..granted },
            Form::Lease(_) => granted,
        };
        let (answer, context) = job.lease.answer(answered);
        level = answer;
        contexts.extend(context);
        let is_durable = granted.form != Form::Oplock || answered.state == rules::ALL;
        let durable = file.durable.as_ref().filter(|_| is_durable);
        contexts.extend(durable.and_then(|durable| wish.answer(durable)));
    }
    let facts = file.facts(&known);
    let body = response::response(open.id(), file.outcome.action, &facts, level, contexts);
    Ok(Reply::new(&body).with_file(open.id()))
}

/// Whether a request names the lease of the open, or both have none.
fn has_same_lease<S: Share>(job: &Job<'_, S>, file: &FileOpen<S>) -> bool {
    match (file.owner(), job.lease.owner) {
        (Owner::Lease(one), Owner::Lease(other)) => one == other,
        // A directory gets no lease, whatever is asked for.
        (Owner::Open(_), Owner::Lease(_)) => file.lease.is_none(),
        (Owner::Lease(_), Owner::Open(_)) => false,
        (Owner::Open(_), Owner::Open(_)) => true,
    }
}
