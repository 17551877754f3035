//! Truncate and punch: the two changes that raise a file's size generation (I5).
//!
//! ```text
//!   step 1  record := new generation, change pending     made durable
//!   step 2  the file is cut, grown or punched            made durable
//!   step 3  record := new generation, nothing pending    durable with the next flush
//! ```
//!
//! 1. From step 1 on, older generations are refused, also after a crash.
//! 2. A crash before step 1 is durable leaves the object as it was; the metadata server's intent does it again.
//! 3. A crash after it leaves the change pending; opening the object does steps 2 and 3 again before anyone sees it.
//! 4. No write of the new generation is let in while the change is pending, so doing it again destroys nothing
//!    that was acknowledged. Step 2 is durable before step 3 is written: "nothing pending" is never a lie.
//! 5. The same change again, by its generation, is nothing: done already.
//! 6. The flushed length of the record is never ahead of the object: cutting lowers it in step 1, growing raises it
//!    in step 3. An object that has lost its end is not grown over the loss: its flushed length says how long it is.
//! 7. A change that the file system refuses in step 2 (too long, no space, not supported) did nothing: the record goes
//!    back to the generation before, with nothing pending, and the object stays usable. The same change again is
//!    tried again.

use crate::{ObjectRecord, Result, StoreError};
use braid_types::{ObjectOffset, SizeGeneration, limits};

/// A change of an object's size or of what it holds, under a new size generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeChange {
    /// Cut or grow the object to this many bytes; what is grown is a hole.
    Truncate {
        /// The object's new length in bytes.
        length: u64,
    },
    /// Make `[offset, offset + length)` a hole. The object's length stays.
    Punch {
        /// First byte of the hole.
        offset: ObjectOffset,
        /// Bytes of the hole.
        length: u64,
    },
}

impl SizeChange {
    /// Whether the change stays within the largest file.
    pub(crate) fn fits(self) -> bool {
        let end = match self {
            Self::Truncate { length } => Some(length),
            Self::Punch { offset, length } => offset.0.checked_add(length),
        };
        end.is_some_and(|end| end <= limits::FILE_BYTES_MAX)
    }

    /// Whether the change stays within the largest file, and makes no object longer than this. A hole may reach past
    /// every object's end: it is made as far as the object goes.
    pub(crate) fn fits_in(self, object_bytes_max: u64) -> bool {
        self.fits() && !matches!(self, Self::Truncate { length } if length > object_bytes_max)
    }
}

impl ObjectRecord {
    /// The record of step 1.
    pub(crate) fn begun(&self, change: SizeChange, size_generation: SizeGeneration) -> Self {
        let flushed_bytes = match change {
            SizeChange::Truncate { length } => self.flushed_bytes.min(length),
            SizeChange::Punch { .. } => self.flushed_bytes,
        };
        Self { pending: Some(change), size_generation, flushed_bytes, ..self.clone() }
    }

    /// The record of step 3.
    pub(crate) fn done(&self) -> Self {
        let flushed_bytes = match self.pending {
            Some(SizeChange::Truncate { length }) => length,
            _ => self.flushed_bytes,
        };
        Self { pending: None, flushed_bytes, ..self.clone() }
    }

    /// Whether its pending change can be done to a file of `size` bytes: one that has lost its end is not grown.
    pub(crate) fn can_be_done_at(&self, size: u64) -> bool {
        let grows = matches!(self.pending, Some(SizeChange::Truncate { length }) if length > size);
        !(grows && size < self.flushed_bytes)
    }

    /// The record after its pending change was refused (invariant 7): the generation before, which is no older than
    /// that of the last change, since the metadata server raises it by one for each.
    pub(crate) fn taken_back(&self) -> Self {
        let size_generation = SizeGeneration(self.size_generation.0.saturating_sub(1));
        Self { pending: None, size_generation, ..self.clone() }
    }
}

/// Refuses a caller who knows the file at an older generation than the record does (I5).
pub(crate) fn check_generation(record: &ObjectRecord, asked: SizeGeneration) -> Result<()> {
    let current = record.size_generation;
    if asked < current {
        Err(StoreError::StaleGeneration { object: record.id, asked, current })
    } else {
        Ok(())
    }
}
