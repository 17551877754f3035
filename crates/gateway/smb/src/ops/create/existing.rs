//! CREATE of a file or directory that is there. MS-FSA 2.1.5.1.2.

use braid_share::{
    Attributes, FileKind, OpenTarget, Opened, Share, ShareClient, ShareFile, Status,
};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::fscc::{FileAttributes, NotifyAction};
use braid_smb_wire::smb2::change_notify::CompletionFilter;
use braid_smb_wire::smb2::create::{CreateAction, CreateDisposition, CreateOptions};

use super::{Attempt, Job, Made, access, discard};
use crate::attributes::uncovers;
use crate::file_state::{Removal, StreamKey};
use crate::open::{FileOf, Place};
use crate::removal::{check_deletable, release};
use crate::status::failed;
use crate::streams;
use crate::streams::data::OpenData;
use crate::walk::Target;

/// Opens the file.
pub(super) async fn open<S: Share>(
    job: &Job<'_, S>,
    target: &Target,
    known: &Attributes,
) -> Attempt<S> {
    check_kind(job, known)?;
    let overwrites = job.request.disposition.overwrites();
    let wants_delete = job.wanted.has(AccessMask::DELETE) || job.wants_maximum;
    let with_delete = wants_delete || job.asks_maximal();
    let maximal = access::maximal(job.client, job.who, target, known, with_delete).await?;
    let maximal = AccessMask(maximal.0 & job.tree.maximal_access);
    // An overwriting open needs the right to write, and does not get it (MS-FSA 2.1.5.1.2.1).
    let needed = if overwrites { AccessMask::WRITE_DATA } else { AccessMask::default() };
    access::grant(job.wanted.with(needed), false, maximal)?;
    let granted = access::grant(job.wanted, job.wants_maximum, maximal)?;
    if job.has(CreateOptions::FILE_DELETE_ON_CLOSE) {
        if !granted.has(AccessMask::DELETE) {
            return Err(NtStatus::ACCESS_DENIED);
        }
        // MS-FSA 2.1.5.1.2: the root is not removed.
        if target.name.is_empty() {
            return Err(NtStatus::CANNOT_DELETE);
        }
        check_deletable(job.client, job.who, known).await?;
    }
    let is_file = known.kind == FileKind::File;
    let access = (granted, granted.with(needed));
    let lease = job.enter((known.file, is_file), access, overwrites).await?;
    let claim = job.claim(granted);
    let opened = open_bytes(job, known, granted, granted.with(needed)).await;
    let (known, data) = match opened {
        Ok(Some(opened)) => opened,
        Ok(None) | Err(_) => {
            let session = job.context.session()?;
            release(&job.context.server, session, StreamKey::of_file(known.file), claim, None)
                .await;
            return opened.map(|_| None);
        }
    };
    let mut known = known;
    if overwrites {
        known = job.set_attributes(known, &target.name).await;
        remove_streams(job, target, &known).await;
        let changed = CompletionFilter::SIZE
            .with(CompletionFilter::LAST_WRITE)
            .with(CompletionFilter::ATTRIBUTES);
        let place = Place { dir: target.dir, name: target.name.clone(), path: target.path.clone() };
        let what = (NotifyAction::MODIFIED, changed);
        job.context.server.watches.report(job.tree.root(), &place, what, None);
    }
    let action = match job.request.disposition {
        CreateDisposition::SUPERSEDE => CreateAction::SUPERSEDED,
        _ if overwrites => CreateAction::OVERWRITTEN,
        _ => CreateAction::OPENED,
    };
    let data = data.map(OpenData::File);
    Ok(Some(Made { known, data, stream: None, granted, maximal, action, lease }))
}

/// MS-FSA 2.1.5.1.2: a file that is overwritten has no named streams afterwards. One that is open
/// goes at its last close. Failures do not undo what has been overwritten.
async fn remove_streams<S: Share>(job: &Job<'_, S>, target: &Target, known: &Attributes) {
    let names = match streams::list::names(job.client, job.who, known).await {
        Ok(names) if !names.is_empty() => names,
        _ => return,
    };
    let (server, root, who) = (&job.context.server, job.tree.root(), job.who.clone());
    let place = Place { dir: target.dir, name: target.name.clone(), path: target.path.clone() };
    let removal = Removal { root, place, who };
    for name in names {
        if server.files.set_stream_removal(known.file, &name, &removal) {
            continue;
        }
        match streams::list::remove(job.client, job.who, known.file, &name).await {
            Ok(()) => {
                let what = (NotifyAction::REMOVED_STREAM, CompletionFilter::STREAM_NAME);
                server.watches.report_stream(root, &removal.place, &name, what);
            }
            Err(error) => tracing::warn!(%error, "a stream of an overwritten file is left"),
        }
    }
}

/// MS-FSA 2.1.5.1: what is there is what is asked for.
fn check_kind<S: Share>(job: &Job<'_, S>, known: &Attributes) -> Result<(), NtStatus> {
    let disposition = job.request.disposition;
    if disposition == CreateDisposition::CREATE {
        return Err(NtStatus::OBJECT_NAME_COLLISION);
    }
    let is_directory = known.kind == FileKind::Directory;
    if !is_directory && (job.has(CreateOptions::FILE_DIRECTORY_FILE) || job.path.is_directory) {
        return Err(NtStatus::NOT_A_DIRECTORY);
    }
    if disposition.overwrites() && uncovers(known, FileAttributes(job.request.file_attributes)) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    // A link that is not followed, a fifo or a device has no bytes here.
    if known.kind != FileKind::File && !is_directory && disposition.overwrites() {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if !is_directory {
        return Ok(());
    }
    if job.has(CreateOptions::FILE_NON_DIRECTORY_FILE) || job.path.is_data {
        return Err(NtStatus::FILE_IS_A_DIRECTORY);
    }
    if disposition.overwrites() { Err(NtStatus::INVALID_PARAMETER) } else { Ok(()) }
}

type Bytes<S> = (Attributes, Option<FileOf<S>>);

/// Opens the bytes of a file, if the access is one to bytes, and truncates it if that is asked for.
/// `None` if the file is gone. `needed` is the access with that to truncate.
async fn open_bytes<S: Share>(
    job: &Job<'_, S>,
    known: &Attributes,
    granted: AccessMask,
    needed: AccessMask,
) -> Result<Option<Bytes<S>>, NtStatus> {
    let mode = match job.mode(needed) {
        Some(mode) if known.kind == FileKind::File => mode,
        _ => return Ok(Some((known.clone(), None))),
    };
    let target = OpenTarget::File(known.file);
    let Opened { file, attributes, .. } = match job.client.open(job.who, target, mode).await {
        Ok(opened) => opened,
        Err(error) => match error.status() {
            Status::NotFound | Status::StaleHandle => return Ok(None),
            _ => return Err(failed(error)),
        },
    };
    if !job.request.disposition.overwrites() {
        return Ok(Some((attributes, Some(file))));
    }
    match truncate(job, &file, granted).await {
        Ok((attributes, true)) => Ok(Some((attributes, Some(file)))),
        Ok((attributes, false)) => {
            discard(file).await;
            Ok(Some((attributes, None)))
        }
        Err(error) => {
            discard(file).await;
            Err(failed(error))
        }
    }
}

/// Truncates the file, and leaves the open with the access that was granted. Returns whether that
/// is one to bytes.
async fn truncate<S: Share>(
    job: &Job<'_, S>,
    file: &FileOf<S>,
    granted: AccessMask,
) -> braid_share::Result<(Attributes, bool)> {
    let attributes = file.set_len(0).await?;
    let Some(mode) = job.mode(granted) else { return Ok((attributes, false)) };
    if !granted.has_any(AccessMask::WRITE_DATA.with(AccessMask::APPEND_DATA)) {
        file.set_mode(mode).await?;
    }
    Ok((attributes, true))
}
