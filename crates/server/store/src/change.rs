//! Truncate and punch: the two changes that raise a file's size generation (I5).
//!
//! ```text
//!   step 1  record := new generation, change pending     made durable
//!   step 2  the file is truncated, grown or punched      made durable
//!   step 3  record := new generation, nothing pending    durable with the next flush
//! ```
//!
//! Invariants:
//! 1. From step 1 on, older generations are refused, also after a crash.
//! 2. After a crash before step 1 is durable, the object is unchanged; the metadata server's intent
//!    repeats the change.
//! 3. After a later crash the change is pending. Opening the object repeats steps 2 and 3 before
//!    anyone sees it.
//! 4. No write of the new generation is admitted while the change is pending. So repeating it
//!    destroys no acknowledged write. Step 2 is durable before step 3 is written, so a record with
//!    nothing pending is always right.
//! 5. A repeated change, known by its generation, does nothing.
//! 6. The record's flushed length is never ahead of the object: truncating lowers it in step 1,
//!    growing raises it in step 3. An object that has lost its end does not grow over the loss: its
//!    flushed length says how long it was.
//! 7. If the file system refuses step 2 (too long, no space, not supported), nothing has changed.
//!    The record returns to the generation before, with nothing pending, and the object stays
//!    usable. A repeated change is tried again.
//!
//! `with_pending` asserts 1 for the record, and `LocalObject::finish` asserts that step 2 follows a
//! durable record (4). `with_pending` and `with_pending_done` compute the length of 6. The rest is
//! about crashes and refusals between two steps, which tests cause (`store/tests`).

use crate::{ObjectRecord, Result, StoreError};
use braid_types::{ObjectOffset, SizeGeneration, limits};

/// A change of an object's size or contents, under a new size generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeChange {
    /// Truncate or grow the object to this many bytes; new bytes are a hole.
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

    /// The same, and whether no object becomes longer than this. A hole may reach past an object's
    /// end, where nothing is punched.
    pub(crate) fn fits_in(self, object_bytes_max: u64) -> bool {
        self.fits() && !matches!(self, Self::Truncate { length } if length > object_bytes_max)
    }
}

impl ObjectRecord {
    /// The record of step 1.
    pub(crate) fn with_pending(&self, change: SizeChange, size_generation: SizeGeneration) -> Self {
        debug_assert!(size_generation >= self.size_generation, "1: generations only rise");
        let flushed_bytes = match change {
            SizeChange::Truncate { length } => self.flushed_bytes.min(length),
            SizeChange::Punch { .. } => self.flushed_bytes,
        };
        Self { pending: Some(change), size_generation, flushed_bytes, ..self.clone() }
    }

    /// The record of step 3.
    pub(crate) fn with_pending_done(&self) -> Self {
        let flushed_bytes = match self.pending {
            Some(SizeChange::Truncate { length }) => length,
            _ => self.flushed_bytes,
        };
        Self { pending: None, flushed_bytes, ..self.clone() }
    }

    /// Whether the pending change applies to a file of `size` bytes: one that has lost its end is
    /// not grown.
    pub(crate) fn can_apply_to(&self, size: u64) -> bool {
        let grows = matches!(self.pending, Some(SizeChange::Truncate { length }) if length > size);
        !(grows && size < self.flushed_bytes)
    }

    /// The record after its pending change was refused (invariant 7). It has the generation before;
    /// that is not older than the last change's, since the metadata server raises it by one each
    /// time.
    pub(crate) fn with_pending_undone(&self) -> Self {
        let size_generation = SizeGeneration(self.size_generation.0.saturating_sub(1));
        Self { pending: None, size_generation, ..self.clone() }
    }
}

/// Refuses a caller who knows the file at an older generation than the record (I5).
pub(crate) fn check_generation(record: &ObjectRecord, asked: SizeGeneration) -> Result<()> {
    let current = record.size_generation;
    if asked < current {
        Err(StoreError::StaleGeneration { object: record.id, asked, current })
    } else {
        Ok(())
    }
}
