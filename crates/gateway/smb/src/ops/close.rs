//! CLOSE. MS-SMB2 3.3.5.10, MS-FSA 2.1.5.5.

use braid_share::{Attributes, Share, ShareClient};
use braid_smb_wire::NtStatus;
use braid_smb_wire::fscc::FileFacts;
use braid_smb_wire::smb2::change_notify::CompletionFilter;
use braid_smb_wire::smb2::close::{CloseFlags, CloseRequest, CloseResponse};

use super::{flush, lock};
use crate::context::{Context, OpResult, Reply};
use crate::file_state::Removal;
use crate::leases::rules::Conflict;
use crate::open::{FileOpen, Open};
use crate::removal::release;
use crate::server::SmbServer;
use crate::session::Session;
use crate::status::failed;

/// Closes an open.
pub async fn close<S: Share>(context: &Context<S>, request: CloseRequest) -> OpResult {
    let session = context.session()?;
    let found = context.open(request.file_id)?;
    // Of two that close it, one finds it.
    let open = session.remove_open(found.id()).ok_or(NtStatus::FILE_CLOSED)?;
    let mut body = CloseResponse::default();
    if let Open::File(file) = &*open
        && request.flags.has(CloseFlags::POSTQUERY_ATTRIB)
        && let Some(known) = attributes_of(context, file).await
    {
        body = response(&file.facts(&known));
    }
    finish(&context.server, session, &open).await?;
    Ok(Reply::new(&body).with_file(open.id()))
}

/// The attributes after the close, with the true size. Without them the response has none
/// (MS-SMB2 2.2.16, Flags).
async fn attributes_of<S: Share>(context: &Context<S>, open: &FileOpen<S>) -> Option<Attributes> {
    let known = match &open.data {
        Some(data) => data.attributes().await,
        None => context.client().ok()?.attributes(context.who().ok()?, open.file).await,
    };
    known.ok()
}

fn response(facts: &FileFacts) -> CloseResponse {
    CloseResponse {
        flags: CloseFlags::POSTQUERY_ATTRIB,
        creation_time: facts.creation.0,
        last_access_time: facts.last_access.0,
        last_write_time: facts.last_write.0,
        change_time: facts.change.0,
        allocation_size: facts.allocation_bytes,
        end_of_file: facts.end_of_file,
        file_attributes: facts.attributes.0,
    }
}

/// Closes an open that its session no longer has, and removes its file if this was the last open of
/// a file that is to be removed. A failure is in the log.
pub async fn close_open<S: Share>(server: &SmbServer<S>, session: &Session<S>, open: &Open<S>) {
    if let Err(status) = finish(server, session, open).await {
        // No client learns of it: its session has ended.
        let user = &session.user.name;
        tracing::warn!(%status, user, "a file of a session that ended was not closed well");
    }
}

/// As [`close_open`]. The open is closed also when this fails.
async fn finish<S: Share>(
    server: &SmbServer<S>,
    session: &Session<S>,
    open: &Open<S>,
) -> Result<(), NtStatus> {
    let Open::File(open) = open else { return Ok(()) };
    lock::unlock_all(&server.range_locks, open).await;
    let removal = open.is_delete_on_close().then(|| Removal {
        root: open.tree.root(),
        place: open.place(),
        who: session.who().clone(),
    });
    if removal.is_some() {
        // MS-FSA 2.1.5.5: clients that only delay their close now send it.
        let _ = server.leases.make_way(open.file, open.owner(), Conflict::Name);
    }
    let closed = close_bytes(open).await;
    if open.is_written() {
        let changed = CompletionFilter::SIZE.with(CompletionFilter::LAST_WRITE);
        open.report(&server.watches, changed);
    }
    release(server, session, open.key(), open.claim(), removal).await;
    // Last: opens that wait for this one find it gone.
    open.lease.iter().for_each(|lease| lease.end());
    closed
}

/// Closes the bytes. What was written is committed before: a loss would show in no later commit
/// ([`braid_share::ShareFile::commit`]).
///
/// Also those of a file that is to be removed: it may have another name, or stay after all.
async fn close_bytes<S: Share>(open: &FileOpen<S>) -> Result<(), NtStatus> {
    let Some(data) = &open.data else { return Ok(()) };
    let committed = flush::commit_unflushed(open, data).await;
    let closed = data.close().await.map_err(failed);
    committed.and(closed)
}
