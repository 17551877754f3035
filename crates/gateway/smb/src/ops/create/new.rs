//! CREATE of a file or directory that is not there. MS-FSA 2.1.5.1.1.

use braid_share::{
    Attributes, Deny, DirectoryChange, OpenMode, OpenTarget, Rights, Share, ShareClient, Status,
};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::fscc::{FileAttributes, NotifyAction};
use braid_smb_wire::smb2::create::{CreateAction, CreateOptions};

use super::{Attempt, Job, Made, access, discard, needs_file};
use crate::open::{FileOf, Place};
use crate::status::failed;
use crate::streams::data::OpenData;
use crate::walk::Target;
use crate::watch::name_of;

/// Permission bits of a new file: those of a POSIX program with the usual umask of 022. A default
/// access list of the directory comes before them.
pub const FILE_MODE: u32 = 0o644;
/// Permission bits of a new directory.
pub const DIRECTORY_MODE: u32 = 0o755;

/// Creates the file or directory.
pub(super) async fn create<S: Share>(job: &Job<'_, S>, target: &Target) -> Attempt<S> {
    if needs_file(job.request.disposition) {
        return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    }
    if job.tree.is_read_only() {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let is_directory = job.has(CreateOptions::FILE_DIRECTORY_FILE);
    // MS-FSA 2.1.5.1.
    if job.path.is_directory && !is_directory {
        return Err(NtStatus::OBJECT_NAME_INVALID);
    }
    let is_read_only = FileAttributes(job.request.file_attributes).has(FileAttributes::READONLY);
    // MS-FSA 2.1.5.1.1.
    if is_read_only && job.has(CreateOptions::FILE_DELETE_ON_CLOSE) {
        return Err(NtStatus::CANNOT_DELETE);
    }
    // The creator may do everything that the tree allows.
    let maximal = AccessMask(job.tree.maximal_access);
    let granted = access::grant(job.wanted, job.wants_maximum, maximal)?;
    let made = match is_directory {
        true => make_directory(job, target).await?,
        false => make_file(job, target, granted, is_read_only).await?,
    };
    let Some((known, data, change)) = made else { return Ok(None) };
    let place = Place { dir: target.dir, name: target.name.clone(), path: target.path.clone() };
    let what = (NotifyAction::ADDED, name_of(is_directory));
    job.context.server.watches.report(job.tree.root(), &place, what, change);
    let lease = match job.enter((known.file, !is_directory), (granted, granted), false).await {
        Ok(lease) => lease,
        Err(status) => {
            // Somebody else has found and opened it already.
            if let Some(file) = data {
                discard(file).await;
            }
            return Err(status);
        }
    };
    let known = job.set_attributes(known, &target.name).await;
    let action = CreateAction::CREATED;
    let data = data.map(OpenData::File);
    Ok(Some(Made { known, data, stream: None, granted, maximal, action, lease }))
}

/// Creates an empty file for a stream of it. `None` if somebody else has created it meanwhile.
pub(super) async fn create_for_stream<S: Share>(
    job: &Job<'_, S>,
    target: &Target,
) -> Result<Option<Attributes>, NtStatus> {
    let is_read_only = FileAttributes(job.request.file_attributes).has(FileAttributes::READONLY);
    let made = make_file(job, target, AccessMask::default(), is_read_only).await?;
    let Some((known, _, change)) = made else { return Ok(None) };
    let place = Place { dir: target.dir, name: target.name.clone(), path: target.path.clone() };
    let what = (NotifyAction::ADDED, name_of(false));
    job.context.server.watches.report(job.tree.root(), &place, what, change);
    Ok(Some(job.set_attributes(known, &target.name).await))
}

/// Attributes and bytes of a new file, and the change of its directory.
type New<S> = Option<(Attributes, Option<FileOf<S>>, Option<DirectoryChange>)>;

async fn make_directory<S: Share>(job: &Job<'_, S>, target: &Target) -> Result<New<S>, NtStatus> {
    let made = job.client.make_directory(job.who, target.dir, &target.name, DIRECTORY_MODE).await;
    match made {
        Ok((known, change)) => Ok(Some((known, None, Some(change)))),
        Err(error) => not_made(error),
    }
}

async fn make_file<S: Share>(
    job: &Job<'_, S>,
    target: &Target,
    granted: AccessMask,
    is_read_only: bool,
) -> Result<New<S>, NtStatus> {
    let mode = if is_read_only { FILE_MODE & !0o222 } else { FILE_MODE };
    let name = OpenTarget::Create {
        dir: target.dir,
        name: target.name.clone(),
        exclusive: true,
        truncate: false,
        mode,
    };
    let wanted = job.mode(granted);
    let mode = wanted.unwrap_or(OpenMode { rights: Rights::READ, deny: Deny::NONE });
    let opened = match job.client.open(job.who, name, mode).await {
        Ok(opened) => opened,
        Err(error) => return not_made(error),
    };
    if wanted.is_some() {
        return Ok(Some((opened.attributes, Some(opened.file), opened.directory)));
    }
    discard(opened.file).await;
    Ok(Some((opened.attributes, None, opened.directory)))
}

fn not_made<T>(error: braid_share::Error) -> Result<Option<T>, NtStatus> {
    match error.status() {
        Status::Exists => Ok(None),
        // The directory was removed meanwhile.
        Status::NotFound | Status::StaleHandle => Err(NtStatus::OBJECT_PATH_NOT_FOUND),
        Status::Invalid | Status::NameTooLong => Err(NtStatus::OBJECT_NAME_INVALID),
        _ => Err(failed(error)),
    }
}
