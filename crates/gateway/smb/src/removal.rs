//! Removal of files, directories and streams at the last close. MS-FSA 2.1.5.5, 2.1.5.15.3.

use braid_share::{
    Attributes, FileIndex, FileKind, Identity, Result as ShareResult, Share, ShareClient,
};
use braid_smb_wire::NtStatus;
use braid_smb_wire::fscc::NotifyAction;
use braid_smb_wire::smb2::change_notify::CompletionFilter;

use crate::file_state::{Claim, DueRemoval, Removal, StreamKey};
use crate::server::SmbServer;
use crate::session::Session;
use crate::status::failed;
use crate::streams;
use crate::watch::name_of;

/// Bytes of a listing that shows whether a directory has an entry.
const PROBE_BYTES: u32 = 1024;

/// Checks that a file may be removed at its last close.
///
/// # Errors
/// `CANNOT_DELETE` for a read-only file, `DIRECTORY_NOT_EMPTY`, and those of the share.
pub async fn check_deletable<C: ShareClient>(
    client: &C,
    who: &Identity,
    known: &Attributes,
) -> Result<(), NtStatus> {
    if is_read_only(known) {
        return Err(NtStatus::CANNOT_DELETE);
    }
    if known.kind != FileKind::Directory {
        return Ok(());
    }
    match client.list(who, known.file, 0, PROBE_BYTES, false).await {
        Ok(listing) if !listing.entries.is_empty() => Err(NtStatus::DIRECTORY_NOT_EMPTY),
        Ok(_) => Ok(()),
        Err(error) => match failed(error) {
            // A user that may not list it may still remove it: the removal itself finds out.
            NtStatus::ACCESS_DENIED => Ok(()),
            status => Err(status),
        },
    }
}

/// Whether a file has the attribute READONLY: nobody may write it. On directories it has no effect
/// (MS-FSCC 2.6).
pub fn is_read_only(known: &Attributes) -> bool {
    known.kind == FileKind::File && known.mode & 0o222 == 0
}

/// Removes an open from the table of opens, and the file or stream if this was its last open and it
/// is to be removed. With `removal` this open is what has it removed.
pub async fn release<S: Share>(
    server: &SmbServer<S>,
    session: &Session<S>,
    key: StreamKey,
    claim: Claim,
    removal: Option<Removal>,
) {
    let mut next = server.files.close(key, claim, removal);
    while let Some(due) = next {
        let removed = match due.stream() {
            Some(_) => remove_stream(server, session.client(), &due).await,
            None => remove(server, session.client(), due.file(), due.removal()).await,
        };
        if let Err(error) = removed {
            // A close has no answer for it, as in Windows.
            tracing::debug!(%error, "a file or stream is not removed at its last close");
        }
        next = due.end();
    }
}

/// Removes a stream.
async fn remove_stream<S: Share>(
    server: &SmbServer<S>,
    client: &S::Client,
    due: &DueRemoval<'_>,
) -> ShareResult<()> {
    let Some(stream) = due.stream() else { return Ok(()) };
    let Removal { root, place, who } = due.removal();
    let name = stream.name();
    streams::list::remove(client, who, due.file(), &name).await?;
    let what = (NotifyAction::REMOVED_STREAM, CompletionFilter::STREAM_NAME);
    server.watches.report_stream(*root, place, &name, what);
    Ok(())
}

/// Removes the name, unless it names another file by now.
async fn remove<S: Share>(
    server: &SmbServer<S>,
    client: &S::Client,
    file: FileIndex,
    removal: &Removal,
) -> ShareResult<()> {
    let Removal { root, place, who } = removal;
    let found = client.look_up(who, place.dir, &place.name).await?;
    // A link that was followed is removed itself (`crate::walk::Target::name`).
    if found.file == file || found.kind == FileKind::Symlink {
        let change = client.remove(who, place.dir, &place.name).await?;
        let what = (NotifyAction::REMOVED, name_of(found.kind == FileKind::Directory));
        server.watches.report(*root, place, what, Some(change));
    }
    Ok(())
}
