//! `single`: the object is the file.

use super::{Aggregation, ColumnLocation, Cover};
use crate::PartSet;

/// One part holds every byte at its own offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Single;

impl Aggregation for Single {
    fn locate(&self, offset: u64) -> ColumnLocation {
        // `max(1)`: the byte at offset 2^64-1 is still one byte.
        ColumnLocation { column: 0, object_offset: offset, contiguous: (u64::MAX - offset).max(1) }
    }

    fn offset(&self, column: u16, object_offset: u64) -> Option<u64> {
        (column == 0).then_some(object_offset)
    }

    fn object_bytes(&self, bytes: u64, column: u16) -> u64 {
        if column == 0 { bytes } else { 0 }
    }

    fn cover(&self, columns: &PartSet) -> Cover {
        if columns.is_empty() { Cover::nothing() } else { Cover::everything() }
    }
}
