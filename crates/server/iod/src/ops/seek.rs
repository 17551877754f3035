//! Seek: the next data or hole of the file in this daemon's objects.
//!
//! The file's bytes from an offset on are each object's bytes from one offset on, in the same order
//! (`braid_layout`). So each part gives its first match, and the smallest file offset of them is
//! the answer.

use std::time::Duration;

use braid_store::ObjectStore;
use braid_types::{Failure, FileOffset, ObjectOffset};
use braid_wire::message::iod::{Seek, SeekWhat};

use super::{invalid, sizes::ANY};
use crate::{
    connection::ConnectionState,
    iod_core::IodCore,
    verified_capability::{LocalPart, VerifiedCapability},
};

pub(crate) fn seek<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    seek: &Seek,
) -> Result<Option<FileOffset>, Failure> {
    let (capability, _) =
        core.admission().admitted_capability(connection, now, seek.handle, &seek.present, ANY)?;
    let mut nearest: Option<FileOffset> = None;
    for local_part in &capability.local_parts {
        if let Some(found) = one(core, &capability, local_part, seek)? {
            nearest = Some(nearest.map_or(found, |nearest| nearest.min(found)));
        }
    }
    Ok(nearest)
}

fn one<S: ObjectStore>(
    core: &IodCore<S>,
    capability: &VerifiedCapability,
    local_part: &LocalPart,
    seek: &Seek,
) -> Result<Option<FileOffset>, Failure> {
    let part = local_part.object.part;
    let from = ObjectOffset(capability.map.object_bytes(seek.offset.0, part).map_err(invalid)?);
    let found = match (core.open(capability, local_part)?, seek.what) {
        (Some(opened), SeekWhat::Data) => core.logged(opened.object.next_data(from))?,
        // Behind its end an object is a hole.
        (Some(opened), _) => Some(core.logged(opened.object.next_hole(from))?.unwrap_or(from)),
        (None, SeekWhat::Data) => None,
        (None, _) => Some(from),
    };
    // A part of a component with an end has no bytes of the file past that end.
    Ok(found.and_then(|offset| capability.map.file_offset(part, offset).ok()))
}
