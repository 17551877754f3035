//! List objects with their records, for fsck.

use braid_layout::Layout;
use braid_store::{LAYOUT_BYTES_MAX, ObjectStore};
use braid_types::{
    ByteCount, Failure, ObjectId, SizeGeneration, Status, limits::FRAME_BODY_BYTES_MAX,
};
use braid_wire::{
    Wire,
    message::{
        iod::{ListObjects, ListObjectsReply},
        types::ObjectRecord,
    },
};

use super::BlockingWork;
use crate::iod_core::IodCore;

/// Objects in one reply: each carries a layout of up to 3 KiB, and the reply must fit a frame's
/// body.
pub const LIST_OBJECTS_MAX: u32 = 128;
/// Names of foreign files in one reply, in bytes. A directory with more belongs to a disk that
/// somebody else uses; the first names show that, and after they were moved the next run names the
/// others.
pub const STRANGER_BYTES_MAX: usize = 64 * 1024;

// A full reply fits: ids, sizes and owners take less than 64 bytes beside a layout.
const _: () = assert!(
    LIST_OBJECTS_MAX as usize * (LAYOUT_BYTES_MAX + 64) + STRANGER_BYTES_MAX + 64
        <= FRAME_BODY_BYTES_MAX
);

pub(crate) fn begin<S: ObjectStore>(list: ListObjects) -> Result<BlockingWork<S>, Failure> {
    let cursor = match list.cursor.as_slice() {
        [] => None,
        bytes => Some(
            ObjectId::from_bytes(bytes)
                .map_err(|_| Failure::new(Status::Invalid, "not a cursor of this daemon"))?,
        ),
    };
    let limit = list.count_max.clamp(1, LIST_OBJECTS_MAX) as usize;
    Ok(BlockingWork::new("ListObjects", move |core, _| run(core, cursor, limit)))
}

fn run<S: ObjectStore>(
    core: &IodCore<S>,
    cursor: Option<ObjectId>,
    limit: usize,
) -> Result<ListObjectsReply, Failure> {
    let page = core.logged(core.store().list(cursor, limit))?;
    let mut objects = Vec::with_capacity(page.objects.len());
    for id in page.objects {
        objects.extend(record(core, id)?);
    }
    let mut bytes = 0;
    let strangers = page.foreign_files.into_iter().map(String::into_bytes).take_while(|name| {
        bytes += name.len() + u32::BYTES_MIN;
        bytes <= STRANGER_BYTES_MAX
    });
    Ok(ListObjectsReply {
        objects,
        foreign_files: strangers.collect(),
        cursor: page.next.map(|id| id.to_bytes()),
    })
}

/// The object's record; `None` when it was deleted in between.
fn record<S: ObjectStore>(
    core: &IodCore<S>,
    id: ObjectId,
) -> Result<Option<ObjectRecord>, Failure> {
    let object = match core.store().open(id) {
        Err(why) if why.is_no_object() => return Ok(None),
        Err(why) if why.status() == Status::Corrupted => return Ok(Some(unreadable(id))),
        opened => core.logged(opened)?,
    };
    let (record, stat) = (object.record(), core.logged(object.stat())?);
    Ok(Some(ObjectRecord {
        object: id,
        bytes: ByteCount(stat.size),
        lost_from: stat.lost_from.map(ByteCount),
        size_generation: record.size_generation,
        owner: (record.uid.into(), record.gid.into()),
        layout: Layout::from_bytes(&record.layout).ok(),
    }))
}

fn unreadable(object: ObjectId) -> ObjectRecord {
    let (bytes, size_generation) = (ByteCount(0), SizeGeneration(0));
    ObjectRecord {
        object,
        bytes,
        lost_from: Some(bytes),
        size_generation,
        owner: (0, 0),
        layout: None,
    }
}
