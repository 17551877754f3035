//! `grouped`: two-dimensional striping, so that a request to a wide file does not involve every
//! daemon.
//!
//! ```text
//!   width 2, depth 3, 4 parts:     column 0 1 | 2 3
//!                        group 0   row 0  0 1 |       one cell = one strip, numbered in file order
//!                                  row 1  2 3 |
//!                                  row 2  4 5 |
//!                        group 1   row 0      | 6 7
//!                                  row 1      | 8 9
//!                                  row 2      | 10 11
//!                        group 0 again  12 13 | ...
//! ```

use braid_types::limits::FILE_BYTES_MAX;

use super::{Aggregation, ColumnLocation, Cover, Interval, Single};
use crate::PartSet;

/// Groups of `width` parts, each written `depth` rows deep before the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grouped {
    stripe_size: u64,
    parts: u64,
    width: u64,
    depth: u64,
    /// Bytes in one row of a group.
    row: u64,
    /// Bytes in one group.
    group: u64,
    /// Bytes in one round over all groups.
    round: u64,
}

impl Grouped {
    /// `None` when a round exceeds the largest file. `width` divides `parts`; no argument is 0.
    pub(super) fn new(stripe_size: u64, parts: u64, width: u64, depth: u64) -> Option<Self> {
        let row = stripe_size * width;
        let group = row.checked_mul(depth)?;
        let round = group.checked_mul(parts / width).filter(|round| *round <= FILE_BYTES_MAX)?;
        Some(Self { stripe_size, parts, width, depth, row, group, round })
    }
}

impl Aggregation for Grouped {
    fn locate(&self, offset: u64) -> ColumnLocation {
        if self.parts == 1 {
            return Single.locate(offset);
        }
        let (round, in_round) = (offset / self.round, offset % self.round);
        let (group, in_group) = (in_round / self.group, in_round % self.group);
        let (row, in_row) = (in_group / self.row, in_group % self.row);
        let (column, within) = (in_row / self.stripe_size, in_row % self.stripe_size);
        // With width 1, the rows of a group are adjacent in the one object.
        let contiguous =
            if self.width == 1 { self.group - in_group } else { self.stripe_size - within };
        ColumnLocation {
            column: (group * self.width + column) as u16,
            object_offset: (round * self.depth + row) * self.stripe_size + within,
            contiguous,
        }
    }

    fn offset(&self, column: u16, object_offset: u64) -> Option<u64> {
        let (column, row) = (u64::from(column), object_offset / self.stripe_size);
        if column >= self.parts {
            return None;
        }
        let (group, in_group) = (column / self.width, column % self.width);
        let in_round =
            group * self.group + row % self.depth * self.row + in_group * self.stripe_size;
        let start = (row / self.depth).checked_mul(self.round)?.checked_add(in_round)?;
        start.checked_add(object_offset % self.stripe_size)
    }

    fn object_bytes(&self, bytes: u64, column: u16) -> u64 {
        let column = u64::from(column);
        if column >= self.parts {
            return 0;
        }
        let in_group =
            (bytes % self.round).saturating_sub(column / self.width * self.group).min(self.group);
        let last_row = (in_group % self.row).saturating_sub(column % self.width * self.stripe_size);
        let rows = bytes / self.round * self.depth + in_group / self.row;
        rows * self.stripe_size + last_row.min(self.stripe_size)
    }

    fn cover(&self, columns: &PartSet) -> Cover {
        Cover::banded(
            self.round,
            self.group,
            self.row,
            columns.iter().map(|column| {
                let (group, column) =
                    (u64::from(column.0) / self.width, u64::from(column.0) % self.width);
                (
                    group,
                    Interval {
                        low: column * self.stripe_size,
                        high: (column + 1) * self.stripe_size,
                    },
                )
            }),
        )
    }
}
