//! The two traits of a store, and the types that they use.

use crate::{DiskLoad, DiskRates, Identity, Mapping, ObjectRecord, Result, SizeChange, StoreError};
use braid_types::{
    IodId, ObjectId, ObjectOffset, SizeGeneration, Timestamp, WriteVerifier, limits,
};
use std::fmt;
use std::fs::File;
use std::sync::Arc;

/// The object store of an I/O daemon.
pub trait ObjectStore: Send + Sync + fmt::Debug {
    /// The identity of its directory.
    fn identity(&self) -> Identity;

    /// Records the daemon's id, once, when the metadata server has assigned it. An id that differs
    /// from the recorded one is refused with
    /// [`StoreError::ForeignIod`](crate::StoreError::ForeignIod).
    fn assign_iod(&self, iod: IodId) -> Result<()>;

    /// Changes when unflushed data may have been lost (I6): see `docs/format-store.md`.
    fn write_verifier(&self) -> WriteVerifier;

    /// The longest possible object, in bytes: [`limits::FILE_BYTES_MAX`], or less if the disk's
    /// file system has no files that long. Longer writes and size changes are refused as
    /// `TooLarge`.
    fn object_bytes_max(&self) -> u64 {
        limits::FILE_BYTES_MAX
    }

    /// Opens an object, which must exist: [`StoreError::NoObject`](crate::StoreError::NoObject)
    /// otherwise (I11). A size change that a crash interrupted is finished first.
    fn open(&self, id: ObjectId) -> Result<Arc<dyn Object>>;

    /// Opens the object, or creates it with its record. An existing object keeps its record.
    fn create(&self, new: &NewObject) -> Result<Arc<dyn Object>>;

    /// Creates the object; `None` if it exists. For an object that is probably absent this is
    /// cheaper than a lookup.
    fn create_if_absent(&self, new: &NewObject) -> Result<Option<Arc<dyn Object>>> {
        match self.open(new.id) {
            Ok(_) => Ok(None),
            Err(error) if error.is_no_object() => self.create(new).map(Some),
            Err(error) => Err(error),
        }
    }

    /// Makes `change` under `generation` on an object that may be absent. An absent one is created
    /// (from `new`, at the generation before), so that a late writer of an older generation is
    /// refused here (I5).
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

    /// Makes everything durable: data, sizes, records, names. It also finds write-back errors of
    /// objects that nobody flushed, so call it from time to time.
    fn flush_all(&self) -> Result<WriteVerifier>;

    /// Makes these objects durable, as [`Object::flush`] does. Objects without unflushed changes
    /// cost nothing. For many objects the store may make everything durable instead. An absent one
    /// is skipped.
    fn flush_objects(&self, ids: &[ObjectId]) -> Result<WriteVerifier>;

    /// A flush has succeeded that began after these objects were looked at. So an object that is
    /// shorter later, without a truncate, has lost its end. The lengths are recorded where
    /// possible; an absent object is skipped.
    fn remember_lengths(&self, seen: &[(ObjectId, ObjectStat)]);

    /// Removes the object. Returns `false` if there was none: a repeated call is harmless. An open
    /// handle can read on, or gets an error. Not durable before [`flush_names`](Self::flush_names)
    /// or [`flush_all`](Self::flush_all): a loss of power may undo it.
    fn delete(&self, id: ObjectId) -> Result<bool>;

    /// Makes the creation or deletion of these objects durable, but not their contents.
    fn flush_names(&self, ids: &[ObjectId]) -> Result<()>;

    /// At most `limit` objects after `cursor` in the order of [`listing_order`], for fsck.
    fn list(&self, cursor: Option<ObjectId>, limit: usize) -> Result<ObjectPage>;

    /// Takes the object out of service without destroying it, since fsck never deletes. Returns its
    /// new path.
    fn move_to_lost_and_found(&self, id: ObjectId) -> Result<String>;

    /// Space of the store's device.
    fn space(&self) -> Result<StoreSpace>;

    /// Measures the disk without the network, in a temporary file.
    ///
    /// # Errors
    /// [`StoreError::Measuring`](crate::StoreError::Measuring) while another measurement runs,
    /// `Unsupported` for a store without a disk, disk errors.
    fn measure_disk(&self, load: DiskLoad) -> Result<DiskRates> {
        let _ = load;
        Err(StoreError::Unsupported {
            action: "measure the disk of",
            path: "a store in memory".to_owned(),
        })
    }
}

/// One open object. A reference keeps it open, whatever the store's cache does.
pub trait Object: Send + Sync + fmt::Debug {
    /// Which object.
    fn id(&self) -> ObjectId;

    /// Its record.
    fn record(&self) -> ObjectRecord;

    /// Reads at `offset` until `buf` is full or the object's file ends. Returns the number of
    /// bytes. Holes are zeros. A lost end ([`ObjectStat::lost_from`]) is not read.
    fn read_at(&self, buf: &mut [u8], offset: ObjectOffset) -> Result<usize>;

    /// The object's file, for `sendfile` with an explicit offset; `None` when there is none. Only
    /// for reading: a write that bypasses [`write_at`](Self::write_at) bypasses the size
    /// generation.
    fn file(&self) -> Option<&File>;

    /// The object's file, mapped up to `end` at least, to send from; `None` without a file or
    /// address space.
    fn mapping(&self, end: u64) -> Option<Arc<Mapping>> {
        let _ = end;
        None
    }

    /// Writes all of `data` at `offset`, for a caller who knows the file at `generation`. It
    /// survives the death of the process immediately, and a loss of power after a flush. After an
    /// error, any part of it may be written.
    fn write_at(&self, data: &[u8], offset: ObjectOffset, generation: SizeGeneration)
    -> Result<()>;

    /// Sets the object's time to an earlier one, for a caller who knows the file at `generation`
    /// and has just written what a program wrote at that time.
    fn set_modified(&self, modified: Timestamp, generation: SizeGeneration) -> Result<()>;

    /// Copies up to `bytes` of another object of the same store, which has all of them, as
    /// [`write_at`](Self::write_at) would write them. Returns how many. `None` where the disk has
    /// no faster way than to read and write.
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

    /// Allocates space for `[offset, offset + length)` and grows the object to hold it.
    fn allocate(&self, offset: ObjectOffset, length: u64, generation: SizeGeneration)
    -> Result<()>;

    /// Truncates or punches, durably, and refuses older generations from then on. A repeated call
    /// with the same `generation` changes nothing.
    fn change_size(&self, change: SizeChange, generation: SizeGeneration) -> Result<()>;

    /// Makes data, size, record and name durable, and records the length
    /// ([`ObjectStore::remember_lengths`]). Without unflushed changes it costs no disk access. The
    /// verifier is read after the disk has answered: a caller who wrote under another one sends the
    /// data again.
    fn flush(&self) -> Result<WriteVerifier>;

    /// Size, blocks, time.
    fn stat(&self) -> Result<ObjectStat>;

    /// The first byte of data at or after `from`; `None` when only a hole or the end follows.
    fn next_data(&self, from: ObjectOffset) -> Result<Option<ObjectOffset>>;

    /// The first byte of a hole at or after `from`; the end is a hole. `None` when `from` is at or
    /// past the end.
    fn next_hole(&self, from: ObjectOffset) -> Result<Option<ObjectOffset>>;
}

/// The first record of a new object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewObject {
    /// Which object.
    pub id: ObjectId,
    /// The file's current size generation.
    pub size_generation: SizeGeneration,
    /// The owner's user id.
    pub uid: u32,
    /// The owner's group id.
    pub gid: u32,
    /// The file's layout, encoded by the caller; at most
    /// [`LAYOUT_BYTES_MAX`](crate::LAYOUT_BYTES_MAX).
    pub layout: Arc<[u8]>,
}

/// The state of an object, which may change while it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectStat {
    /// Length in bytes, with holes; of an object that has lost its end, the flushed length.
    pub size: u64,
    /// From here to `size`, flushed bytes are lost: the file was shortened without the daemon
    /// (I11).
    pub lost_from: Option<u64>,
    /// Allocated bytes on the disk.
    pub allocated_bytes: u64,
    /// When it was last written, on this machine's clock.
    pub mtime: Timestamp,
    /// Older ones are refused (I5).
    pub size_generation: SizeGeneration,
}

impl ObjectStat {
    /// The first lost byte at or after `from`. It counts as data, so that a reader learns of the
    /// loss.
    pub(crate) fn lost_data(&self, from: ObjectOffset) -> Option<ObjectOffset> {
        let at = from.0.max(self.lost_from?);
        (at < self.size).then_some(ObjectOffset(at))
    }

    /// The next hole at or after `from`, if the file has it at `found`. A lost end is no hole.
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
    /// Objects, in the order of [`listing_order`].
    pub objects: Vec<ObjectId>,
    /// Paths that are no objects, in the directories that this page began.
    pub foreign_files: Vec<String>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<ObjectId>,
}

/// Identifies a device, so that several I/O daemons on one device are counted once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DeviceId(pub [u8; 16]);

/// Space of the device under a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreSpace {
    /// The device. Two stores on one device report the same space: count it once.
    pub device: DeviceId,
    /// Total bytes.
    pub total_bytes: u64,
    /// Free bytes.
    pub free_bytes: u64,
    /// Free bytes that this process may use.
    pub available_bytes: u64,
    /// Objects that the device can hold; 0 when it does not report that.
    pub total_objects: u64,
    /// Objects that still fit.
    pub free_objects: u64,
}

/// The order of listings: by directory, then by file, part, generation.
pub fn listing_order(id: ObjectId) -> (u64, ObjectId) {
    (id.file.0 % limits::OBJECT_DIRECTORIES, id)
}
