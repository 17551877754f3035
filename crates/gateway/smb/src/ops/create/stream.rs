//! CREATE of a named stream. MS-FSA 2.1.5.1.

use std::sync::Arc;

use braid_share::{Attributes, FileKind, Share, ShareClient, Status, XattrMode};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::fscc::NotifyAction;
use braid_smb_wire::smb2::change_notify::CompletionFilter;
use braid_smb_wire::smb2::create::{CreateAction, CreateDisposition, CreateOptions};

use super::{Attempt, Job, Made, access, needs_file, new};
use crate::open::{OpenStream, Place};
use crate::removal::{is_read_only, release};
use crate::status::failed;
use crate::streams::data::OpenData;
use crate::streams::list;
use crate::streams::name::StreamName;
use crate::streams::shared::{StreamFile, granted as with_rights, too_large, with_size};
use crate::walk::Target;

/// The value of the extended attribute of a stream without bytes.
const EMPTY: &[u8] = b"\0";

/// Opens or creates the stream. A file that is not there is created, too.
pub(super) async fn open<S: Share>(
    job: &Job<'_, S>,
    target: &Target,
    name: &StreamName,
) -> Attempt<S> {
    let Some(known) = &target.found else { return of_new_file(job, target, name).await };
    // A link that is not followed, a fifo or a device has no streams here.
    if !matches!(known.kind, FileKind::File | FileKind::Directory) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let (found, streams) = list::find(job.client, job.who, known, name).await?;
    let disposition = job.request.disposition;
    match &found {
        Some(_) if disposition == CreateDisposition::CREATE => {
            return Err(NtStatus::OBJECT_NAME_COLLISION);
        }
        None if needs_file(disposition) => return Err(NtStatus::OBJECT_NAME_NOT_FOUND),
        None if job.tree.is_read_only() => return Err(NtStatus::ACCESS_DENIED),
        None if streams >= list::STREAMS_MAX => return Err(NtStatus::INSUFFICIENT_RESOURCES),
        _ => {}
    }
    let wants_delete = job.wanted.has(AccessMask::DELETE) || job.wants_maximum;
    let with_delete = wants_delete || job.asks_maximal();
    let maximal = access::maximal(job.client, job.who, target, known, with_delete).await?;
    let maximal = AccessMask(maximal.0 & job.tree.maximal_access);
    // A new or overwritten stream changes the file, which needs the right to write (MS-FSA
    // 2.1.5.1.2.1).
    let writes = found.is_none() || disposition.overwrites();
    let needed = if writes { AccessMask::WRITE_DATA } else { AccessMask::default() };
    access::grant(job.wanted.with(needed), false, maximal)?;
    let granted = access::grant(job.wanted, job.wants_maximum, maximal)?;
    if job.has(CreateOptions::FILE_DELETE_ON_CLOSE) {
        if !granted.has(AccessMask::DELETE) {
            return Err(NtStatus::ACCESS_DENIED);
        }
        if is_read_only(known) {
            return Err(NtStatus::CANNOT_DELETE);
        }
    }
    let granted = Granted { granted, maximal, needed };
    enter(job, target, known, (name, found), granted).await
}

/// What an open may do.
struct Granted {
    granted: AccessMask,
    maximal: AccessMask,
    /// What the creation or the overwriting needs besides.
    needed: AccessMask,
}

/// Creates a file with this stream.
async fn of_new_file<S: Share>(job: &Job<'_, S>, target: &Target, name: &StreamName) -> Attempt<S> {
    if needs_file(job.request.disposition) {
        return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    }
    if job.tree.is_read_only() {
        return Err(NtStatus::ACCESS_DENIED);
    }
    // The creator may do everything that the tree allows.
    let maximal = AccessMask(job.tree.maximal_access);
    let granted = access::grant(job.wanted, job.wants_maximum, maximal)?;
    // As on a file system without streams; the file is not created then.
    if !list::are_supported(job.client, job.who, target.dir).await {
        return Err(NtStatus::OBJECT_NAME_INVALID);
    }
    let Some(known) = new::create_for_stream(job, target).await? else { return Ok(None) };
    let granted = Granted { granted, maximal, needed: AccessMask::default() };
    enter(job, target, &known, (name, None), granted).await
}

/// Adds the open to the table, and creates or truncates the stream. `found` is its name as it is
/// stored.
async fn enter<S: Share>(
    job: &Job<'_, S>,
    target: &Target,
    known: &Attributes,
    (name, found): (&StreamName, Option<StreamName>),
    Granted { granted, maximal, needed }: Granted,
) -> Attempt<S> {
    let (files, claim) = (&job.context.server.files, job.claim(granted));
    let stored = found.as_ref().unwrap_or(name);
    // A removal of the file that waits for its last close refuses opens of its streams, too.
    files.check_stream(known.file, stored, job.claim(granted.with(needed)))?;
    let (key, shared) = files.open_stream(known.file, stored, claim)?;
    let client = job.client.clone();
    let bytes = StreamFile::new(client, job.who, known.file, Arc::clone(&shared));
    let begun = match found {
        Some(_) => begin(job, &bytes).await,
        None => create(job, known, name).await,
    };
    let (size, action) = match begun {
        Ok(Some(begun)) => begun,
        Ok(None) | Err(_) => {
            let session = job.context.session()?;
            release(&job.context.server, session, key, claim, None).await;
            return begun.map(|_| None);
        }
    };
    if action == CreateAction::CREATED || job.request.disposition.overwrites() {
        let (action, changed) = match action {
            CreateAction::CREATED => (NotifyAction::ADDED_STREAM, CompletionFilter::STREAM_NAME),
            _ => (NotifyAction::MODIFIED_STREAM, CompletionFilter::STREAM_SIZE),
        };
        let place = Place { dir: target.dir, name: target.name.clone(), path: target.path.clone() };
        let root = job.tree.root();
        job.context.server.watches.report_stream(root, &place, stored, (action, changed));
    }
    let known = Attributes { has_xattrs: true, ..with_size(known.clone(), size) };
    let (data, stream) =
        (Some(OpenData::Stream(Box::new(bytes))), Some(OpenStream { key, shared }));
    Ok(Some(Made { known, data, stream, granted, maximal, action, lease: None }))
}

/// The size of a stream, and what was done with it; `None` if it came or went meanwhile.
type Begun = Result<Option<(u64, CreateAction)>, NtStatus>;

/// Opens or truncates a stream that is there.
async fn begin<S: Share>(job: &Job<'_, S>, bytes: &StreamFile<S::Client>) -> Begun {
    let disposition = job.request.disposition;
    let done = match disposition.overwrites() {
        true => bytes.set_len(0).await.map(|()| 0),
        false => bytes.size().await,
    };
    let action = match disposition {
        CreateDisposition::SUPERSEDE => CreateAction::SUPERSEDED,
        _ if disposition.overwrites() => CreateAction::OVERWRITTEN,
        _ => CreateAction::OPENED,
    };
    match done {
        Ok(size) => Ok(Some((size, action))),
        Err(error) if error.status() == Status::StaleHandle => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Creates a stream without bytes. The rights were checked: those of a new read-only file would not
/// suffice.
async fn create<S: Share>(job: &Job<'_, S>, known: &Attributes, name: &StreamName) -> Begun {
    let (who, attribute) = (with_rights(job.who), name.attribute());
    let set = job.client.set_xattr(&who, known.file, &attribute, EMPTY, XattrMode::Create).await;
    match set.map_err(too_large) {
        Ok(()) => Ok(Some((0, CreateAction::CREATED))),
        Err(error) => match error.status() {
            Status::Exists | Status::StaleHandle => Ok(None),
            // As on a file system without streams.
            Status::Unsupported => Err(NtStatus::OBJECT_NAME_INVALID),
            _ => Err(failed(error)),
        },
    }
}
