//! Copy a range of one file to another within the daemon: no data crosses the network.
//!
//! The client asks only where the two ranges have identical placement
//! (`Layout::has_identical_placement`). Then a range is one contiguous range of each object on both
//! sides (`braid_layout`: objects have no gaps).
//!
//! Invariants:
//! 1. Both capabilities are required, of one session: one to read, the other to write.
//! 2. As for a write, the verifier is from before the first byte, and each slice holds an admission
//!    guard (I4, I6). Each slice checks both capabilities.
//! 3. Where the source has no byte, the target gets zeros: also where the source's object is absent
//!    or ends. Lost bytes of the source are an error (I11).

use std::{sync::Arc, time::Duration};

use braid_store::{Object, ObjectStore};
use braid_types::{
    ByteCount, Failure, FileOffset, ObjectOffset, PartIndex, Status, limits::COPY_RANGE_BYTES_MAX,
};
use braid_wire::{
    Rights,
    message::iod::{CopyRange, WriteReply},
};

use super::{BlockingWork, Clock, OpenedObjects, allocate::range_end, invalid};
use crate::{
    connection::ConnectionState,
    connections::ConnectionEntry,
    iod_core::{IodCore, OpenedObject},
    reservation::WriteCost,
    verified_capability::{LocalPart, VerifiedCapability},
};

/// Bytes copied in one slice.
const SLICE_BYTES: u64 = 1 << 20;

/// A contiguous range of a source object, and its target.
struct CopyExtent<'a> {
    source: &'a LocalPart,
    target: &'a LocalPart,
    from: u64,
    to: u64,
    bytes: u64,
}

pub(crate) fn begin<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    copy: CopyRange,
) -> Result<BlockingWork<S>, Failure> {
    let (target, caller) = core.admission().admitted_capability(
        connection,
        now,
        copy.handle,
        &copy.present,
        Rights::WRITE,
    )?;
    let source = core.admission().second_capability(&target, &copy.source, Rights::READ)?;
    if copy.bytes.0 > COPY_RANGE_BYTES_MAX {
        return Err(Failure::new(
            Status::LimitExceeded,
            format!("at most {COPY_RANGE_BYTES_MAX} bytes in one call"),
        ));
    }
    range_end(copy.from, copy.bytes)?;
    range_end(copy.to, copy.bytes)?;
    // The presented capabilities are verified: they need not wait with the copy.
    let copy = CopyRange { present: Vec::new(), source: Vec::new(), ..copy };
    Ok(BlockingWork::new("CopyRange", move |core: &IodCore<S>, clock| {
        let verifier = core.store().write_verifier();
        let mut copied = 0;
        for source_place in &source.local_parts {
            if let Some(stretch) = copy_extent(&source, &target, source_place, &copy)? {
                one(core, (&source, &target), &caller, clock, &stretch)?;
                copied += stretch.bytes;
            }
        }
        Ok(WriteReply { bytes: ByteCount(copied), verifier })
    }))
}

/// The part of the range that lies in one source object, and its target object.
fn copy_extent<'a>(
    source: &VerifiedCapability,
    target: &'a VerifiedCapability,
    local_part: &'a LocalPart,
    copy: &CopyRange,
) -> Result<Option<CopyExtent<'a>>, Failure> {
    let (from, bytes) = range(source, local_part.object.part, copy.from, copy.bytes)?;
    if bytes == 0 {
        return Ok(None);
    }
    let first =
        source.map.file_offset(local_part.object.part, ObjectOffset(from)).map_err(invalid)?;
    let first =
        target.map.locate(FileOffset(copy.to.0 + (first.0 - copy.from.0))).map_err(invalid)?;
    let elsewhere =
        || Failure::new(Status::Invalid, "the two ranges have different placements on this daemon");
    let slot = target.local_index(first.part).ok_or_else(elsewhere)?;
    let (to, room) = range(target, first.part, copy.to, copy.bytes)?;
    if (to, room) != (first.object_offset.0, bytes) {
        return Err(elsewhere());
    }
    Ok(Some(CopyExtent { source: local_part, target: &target.local_parts[slot], from, to, bytes }))
}

/// A range of a file in one of its objects: its start and length there.
fn range(
    capability: &VerifiedCapability,
    part: PartIndex,
    offset: FileOffset,
    bytes: ByteCount,
) -> Result<(u64, u64), Failure> {
    let low = capability.map.object_bytes(offset.0, part).map_err(invalid)?;
    let high = capability.map.object_bytes(offset.0 + bytes.0, part).map_err(invalid)?;
    Ok((low, high - low))
}

fn one<S: ObjectStore>(
    core: &IodCore<S>,
    (source, target): (&VerifiedCapability, &VerifiedCapability),
    caller: &Arc<ConnectionEntry>,
    clock: Clock<'_>,
    stretch: &CopyExtent<'_>,
) -> Result<(), Failure> {
    let mut done = 0;
    let mut buffer = Vec::new();
    while done < stretch.bytes {
        let now = clock();
        let _guard = core.admission().begin_slice(target, caller, now)?;
        // The session is the same; the epoch may differ.
        core.admission().check(source, caller, now)?;
        // Opened again for each slice: both may have been truncated.
        let from = core.open(source, stretch.source)?;
        let object = core.open_or_create(target, stretch.target)?;
        let bytes = SLICE_BYTES.min(stretch.bytes - done);
        if let Some(source) = from.as_ref()
            && let Some(lost_from) = source.stat.lost_from
            && (stretch.from + done < source.stat.size && stretch.from + done + bytes > lost_from)
        {
            return Err(OpenedObjects::lost_range_error(
                stretch.source.object,
                lost_from,
                source.stat.size,
            ));
        }
        let (at, to) = (ObjectOffset(stretch.from + done), ObjectOffset(stretch.to + done));
        let _charge = core.charge_space(WriteCost::of(to.0, bytes, done == 0), now)?;
        done += slice(core, from.as_ref(), at, &object, to, bytes, target, &mut buffer)?;
    }
    Ok(())
}

/// Copies a slice. Returns the number of bytes.
#[allow(clippy::too_many_arguments)]
fn slice<S: ObjectStore>(
    core: &IodCore<S>,
    from: Option<&OpenedObject>,
    at: ObjectOffset,
    object: &Arc<dyn Object>,
    to: ObjectOffset,
    bytes: u64,
    target: &VerifiedCapability,
    buffer: &mut Vec<u8>,
) -> Result<u64, Failure> {
    let there = from.map_or(0, |from| from.stat.size.saturating_sub(at.0).min(bytes));
    if there > 0
        && let Some(source) = from
        && let Some(copied) =
            core.logged(object.copy_from(&*source.object, at, to, there, target.size_generation))?
        && copied > 0
    {
        return Ok(copied);
    }
    buffer.clear();
    buffer.resize(bytes as usize, 0);
    if let Some(source) = from.filter(|_| there > 0) {
        core.logged(source.object.read_at(&mut buffer[..there as usize], at))?;
    }
    core.logged(object.write_at(buffer, to, target.size_generation))?;
    Ok(bytes)
}
