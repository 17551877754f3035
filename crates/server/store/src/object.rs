//! The two traits of a store, and the facts that they speak of.

use crate::{DiskLoad, DiskRates, Identity, Mapping, ObjectRecord, Result, SizeChange, StoreError};
use braid_types::{
    IodId, ObjectId, ObjectOffset, SizeGeneration, Timestamp, WriteVerifier, limits,
};
use std::fmt;
use std::fs::File;
use std::sync::Arc;

/// Where an I/O daemon keeps its objects.
pub trait ObjectStore: Send + Sync + fmt::Debug {
    /// Whose directory it is.
    fn identity(&self) -> Identity;

    /// Records the daemon's id, once, when the metadata server has given it. Another id than the recorded one is
    /// refused with [`StoreError::ForeignIod`](crate::StoreError::ForeignIod).
    fn assign_iod(&self, iod: IodId) -> Result<()>;

    /// Changes when unflushed data may have been lost (I6): see `docs/format-store.md`.
    fn write_verifier(&self) -> WriteVerifier;

    /// The longest that an object can be here, in bytes: at most [`limits::FILE_BYTES_MAX`], less where the disk's
    /// file system has no files that long. Writes and size changes past it are refused as `TooLarge`.
    fn object_bytes_max(&self) -> u64 {
        limits::FILE_BYTES_MAX
    }

    /// The object, which must exist: [`StoreError::NoObject`](crate::StoreError::NoObject) otherwise (I11). A size change that a crash left
    /// half done is finished first.
    fn open(&self, id: ObjectId) -> Result<Arc<dyn Object>>;

    /// The object, made with its record if it is not there. An existing one keeps its record.
    fn create(&self, new: &NewObject) -> Result<Arc<dyn Object>>;

    /// The object, if it was not there and is made now. Where it most likely is not, that is cheaper than to look for it first.
    fn make(&self, new: &NewObject) -> Result<Option<Arc<dyn Object>>> {
        match self.open(new.id) {
            Ok(_) => Ok(None),
            Err(error) if error.is_no_object() => self.create(new).map(Some),
            Err(error) => Err(error),
        }
    }

    /// Does `change` under `generation` on an object that may not exist yet. An absent one is made (of `new`, at the
    /// generation before), so that a late writer of an older generation finds its refusal here (I5).
    fn change_size(
        &self,
        new: &NewObject,
        change: SizeChange,
        generation: SizeGeneration,
    ) -> Result<()> {
        if !change.fits_in(self.object_bytes_max()) {
            return Err(StoreError::TooLarge { object: new.id });
        }
        let before = SizeGeneration(generation.0.saturating_sub(1));
        let new = NewObject { size_generation: before, ..new.clone() };
        self.create(&new)?.change_size(change, generation)
    }

    /// Makes everything durable: data, sizes, records, names. Also how a daemon learns of failed write-backs that
    /// nobody flushed for; call it now and then.
    fn flush_all(&self) -> Result<WriteVerifier>;

    /// Makes these objects durable, as [`Object::flush`] does: those that have changes that no flush has covered, at no cost
    /// for the others. Of many at once the store may make everything durable. One that is not there is passed over.
    fn flush_objects(&self, ids: &[ObjectId]) -> Result<WriteVerifier>;

    /// A flush has succeeded that began after these objects were looked at: an object that is ever shorter than it was then,
    /// and was not cut, has lost its end. Remembered as far as that is possible; one that is not there is passed over.
    fn remember_lengths(&self, seen: &[(ObjectId, ObjectStat)]);

    /// Removes the object. `false` if there was none: again is harmless. Whoever has it open goes on
    /// reading, or is told that it is gone.
    /// Not durable before [`flush_names`](Self::flush_names) or [`flush_all`](Self::flush_all): power may take it back.
    fn delete(&self, id: ObjectId) -> Result<bool>;

    /// Makes durable whether these objects are there: that they were made, or deleted. Not what is in them.
    fn flush_names(&self, ids: &[ObjectId]) -> Result<()>;

    /// At most `limit` objects after `cursor` in the order of [`order`], for fsck.
    fn list(&self, cursor: Option<ObjectId>, limit: usize) -> Result<ObjectPage>;

    /// Takes the object out of service without destroying it (fsck never deletes); says where it went.
    fn move_to_lost_and_found(&self, id: ObjectId) -> Result<String>;

    /// Space of the device under the store.
    fn space(&self) -> Result<StoreSpace>;

    /// What the disk does by itself, in a file that is no object and is gone afterwards.
    ///
    /// # Errors
    /// [`StoreError::Measuring`](crate::StoreError::Measuring) while another call of this is at it, `Unsupported` for a store without a disk, the disk's.
    fn measure_disk(&self, load: DiskLoad) -> Result<DiskRates> {
        let _ = load;
        Err(StoreError::Unsupported {
            action: "measure the disk of",
            path: "a store in memory".to_owned(),
        })
    }
}

/// One open object. Holding it keeps it open, whatever the store's cache does.
pub trait Object: Send + Sync + fmt::Debug {
    /// Which object.
    fn id(&self) -> ObjectId;

    /// Its record.
    fn record(&self) -> ObjectRecord;

    /// Reads at `offset` until `buf` is full or the object's file ends; the number of bytes read. Holes are zeros. What is
    /// lost at the end ([`ObjectStat::lost_from`]) is not read.
    fn read_at(&self, buf: &mut [u8], offset: ObjectOffset) -> Result<usize>;

    /// The file behind the object, for `sendfile` with an explicit offset; `None` when there is none. For reading
    /// only: writes that do not come through [`write_at`](Self::write_at) would pass by the size generation.
    fn file(&self) -> Option<&File>;

    /// The file behind the object in the address space, up to `end` at least, to send from; `None` when there is none, or no room for it.
    fn mapping(&self, end: u64) -> Option<Arc<Mapping>> {
        let _ = end;
        None
    }

    /// Writes all of `data` at `offset`, on behalf of a caller who knows the file at `generation`. Lasts over the death of the
    /// process; over the loss of power only after a flush. On an error any part of it may be written.
    fn write_at(&self, data: &[u8], offset: ObjectOffset, generation: SizeGeneration)
    -> Result<()>;

    /// Sets the object's time to one before now, on behalf of a caller who knows the file at `generation` and has just written to
    /// the object what a program wrote then.
    fn set_modified(&self, modified: Timestamp, generation: SizeGeneration) -> Result<()>;

    /// Copies up to `bytes` of another object of the same store, all of which it has, as [`write_at`](Self::write_at) would put
    /// them; how many. `None` where the disk has no quicker way than reading and writing.
    fn copy_from(
        &self,
        source: &dyn Object,
        from: ObjectOffset,
        to: ObjectOffset,
        bytes: u64,
        generation: SizeGeneration,
    ) -> Result<Option<u64>> {
        let _ = (source, from, to, bytes, generation);
        Ok(None)
    }

    /// Reserves space for `[offset, offset + length)` and grows the object to hold it.
    fn allocate(&self, offset: ObjectOffset, length: u64, generation: SizeGeneration)
    -> Result<()>;

    /// Truncates or punches, durably, and refuses older generations from then on. The same `generation` again is done already.
    fn change_size(&self, change: SizeChange, generation: SizeGeneration) -> Result<()>;

    /// Makes data, size, record and name durable, and remembers the length ([`ObjectStore::remember_lengths`]); costs no disk where they are. The verifier is read after the disk has answered: a caller who
    /// wrote under another one sends again what it still holds.
    fn flush(&self) -> Result<WriteVerifier>;

    /// Size, blocks, time.
    fn stat(&self) -> Result<ObjectStat>;

    /// The first byte of data at or after `from`; `None` when only a hole or the end follows.
    fn next_data(&self, from: ObjectOffset) -> Result<Option<ObjectOffset>>;

    /// The first byte of a hole at or after `from`; the end is a hole. `None` when `from` is at or past the end.
    fn next_hole(&self, from: ObjectOffset) -> Result<Option<ObjectOffset>>;
}

/// What the record of an object to be made will say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewObject {
    /// Which object.
    pub id: ObjectId,
    /// The file's size generation now.
    pub size_generation: SizeGeneration,
    /// The owner's user id.
    pub uid: u32,
    /// The owner's group id.
    pub gid: u32,
    /// The file's layout, encoded by the caller; at most [`LAYOUT_BYTES_MAX`](crate::LAYOUT_BYTES_MAX).
    pub layout: Arc<[u8]>,
}

/// Facts of an object that is perhaps being written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectStat {
    /// Bytes from start to end, holes counted; also of an object that has lost its end.
    pub size: u64,
    /// From here to `size` the object has lost what was flushed: its file was cut behind the daemon's back (I11).
    pub lost_from: Option<u64>,
    /// Bytes that the disk spends on it.
    pub allocated_bytes: u64,
    /// When it was last written, on this machine's clock.
    pub mtime: Timestamp,
    /// Older ones are refused (I5).
    pub size_generation: SizeGeneration,
}

impl ObjectStat {
    /// The first lost byte at or after `from`: it is data, and whoever reads it learns that it is lost.
    pub(crate) fn lost_data(&self, from: ObjectOffset) -> Option<ObjectOffset> {
        let at = from.0.max(self.lost_from?);
        (at < self.size).then_some(ObjectOffset(at))
    }

    /// The next hole at or after `from`, where the file has it at `found`: what is lost is none.
    pub(crate) fn hole_after_lost(
        &self,
        from: ObjectOffset,
        found: Option<ObjectOffset>,
    ) -> Option<ObjectOffset> {
        let Some(lost_from) = self.lost_from else { return found };
        match found {
            Some(at) if at.0 < lost_from => Some(at),
            _ => (from.0 < self.size).then_some(ObjectOffset(self.size)),
        }
    }
}

/// One page of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectPage {
    /// Objects, in the order of [`order`].
    pub objects: Vec<ObjectId>,
    /// Paths in the object directories that are no objects, of the directories that this page began.
    pub strangers: Vec<String>,
    /// Where to go on; `None` at the end.
    pub next: Option<ObjectId>,
}

/// Names a device, so that several I/O daemons on one are counted once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DeviceId(pub [u8; 16]);

/// Space of the device under a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreSpace {
    /// Which device. Two stores of one device report the same space: count it once.
    pub device: DeviceId,
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes that nobody uses.
    pub free_bytes: u64,
    /// Bytes that this process may still use.
    pub available_bytes: u64,
    /// Objects that the device could hold; 0 when it does not say.
    pub total_objects: u64,
    /// Objects that still fit.
    pub free_objects: u64,
}

/// The order of listings: by directory, then by file, part, generation.
pub fn order(id: ObjectId) -> (u64, ObjectId) {
    (id.file.0 % limits::OBJECT_DIRECTORIES, id)
}
