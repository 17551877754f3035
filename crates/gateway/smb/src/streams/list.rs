//! The streams that a file has.

use braid_share::{Attributes, FileIndex, Identity, ShareClient, Status};
use braid_smb_wire::NtStatus;
use braid_smb_wire::fscc::Stream;

use super::name::StreamName;
use super::shared::{bytes_of, granted, with_size};
use crate::status::failed;

/// Most streams of a file. Their sizes are known from their bytes alone, so that a list of them
/// reads at most 16 MiB.
pub const STREAMS_MAX: usize = 256;

/// The named streams of a file, in no particular order.
///
/// # Errors
/// Those of the share.
pub async fn names<C: ShareClient>(
    client: &C,
    who: &Identity,
    known: &Attributes,
) -> Result<Vec<StreamName>, NtStatus> {
    if !known.has_xattrs {
        return Ok(Vec::new());
    }
    let all = client.xattrs(who, known.file).await.map_err(failed)?;
    Ok(all.iter().filter_map(|name| StreamName::of_attribute(name)).collect())
}

/// The stream with this name as it is stored: with exactly this name, else the first one that
/// differs only in case. Also the number of streams that the file has.
///
/// # Errors
/// Those of the share.
pub async fn find<C: ShareClient>(
    client: &C,
    who: &Identity,
    known: &Attributes,
    name: &StreamName,
) -> Result<(Option<StreamName>, usize), NtStatus> {
    let all = names(client, who, known).await?;
    let folded = name.folded();
    let exact = all.iter().find(|one| *one == name);
    let found = exact.or_else(|| all.iter().find(|one| one.folded() == folded));
    Ok((found.cloned(), all.len()))
}

/// The named streams with their sizes, as FileStreamInformation has them; [`STREAMS_MAX`] of them.
/// The sizes are those of the values, which are read one after the other. A client needs no right
/// to learn them (MS-FSA 2.1.5.12.29).
///
/// # Errors
/// Those of the share.
pub async fn sizes<C: ShareClient>(
    client: &C,
    who: &Identity,
    known: &Attributes,
) -> Result<Vec<Stream>, NtStatus> {
    let who = granted(who);
    let mut streams = Vec::new();
    for name in names(client, &who, known).await?.into_iter().take(STREAMS_MAX) {
        let bytes = match client.xattr(&who, known.file, &name.attribute()).await {
            // Of several attributes: as much as is known.
            Ok(value) => value.len().saturating_sub(1) as u64,
            // Removed meanwhile.
            Err(error) if error.status() == Status::NoAttribute => continue,
            Err(error) => return Err(failed(error)),
        };
        let with_size = with_size(known.clone(), bytes);
        let allocation_bytes = with_size.bytes_used.0;
        streams.push(Stream { name: name.with_type(), bytes, allocation_bytes });
    }
    Ok(streams)
}

/// Whether the file system of a file has extended attributes, and so streams.
pub async fn are_supported<C: ShareClient>(client: &C, who: &Identity, file: FileIndex) -> bool {
    let Ok(name) = StreamName::new("braid") else { return false };
    match client.xattr(who, file, &name.attribute()).await {
        Err(error) => error.status() != Status::Unsupported,
        Ok(value) => bytes_of(value).is_ok(),
    }
}

/// Removes a stream, with the rights of an open that was granted them. One that is not there is
/// removed already.
///
/// # Errors
/// Those of the share.
pub async fn remove<C: ShareClient>(
    client: &C,
    who: &Identity,
    file: FileIndex,
    name: &StreamName,
) -> braid_share::Result<()> {
    match client.remove_xattr(&granted(who), file, &name.attribute()).await {
        Err(error) if error.status() == Status::NoAttribute => Ok(()),
        removed => removed,
    }
}
