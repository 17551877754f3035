//! `simple-stripe`: round robin of equal strips (1996 paper, 2.2.1).
//!
//! The paper's formulas, with stripe fragment size `s`, `n` I/O nodes, segment number `sn`, stripe
//! location `sl` and file location `fl`:
//!
//! ```text
//!   fl = (sl / s) * n * s + sn * s + sl mod s
//!   sn = (fl / s) mod n          sl = (fl / (n * s)) * s + fl mod s
//! ```

use super::{Aggregation, ColumnLocation, Cover, Interval, Single};
use crate::PartSet;

/// Strips of one size over all parts in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimpleStripe {
    stripe_size: u64,
    parts: u64,
    /// Bytes in one round over all parts: at most 2^30 * 2^12.
    row: u64,
}

impl SimpleStripe {
    pub(super) fn new(stripe_size: u64, parts: u64) -> Self {
        Self { stripe_size, parts, row: stripe_size * parts }
    }
}

impl Aggregation for SimpleStripe {
    fn locate(&self, offset: u64) -> ColumnLocation {
        if self.parts == 1 {
            return Single.locate(offset); // strips of one part are adjacent in its object
        }
        let (strip, within) = (offset / self.stripe_size, offset % self.stripe_size);
        ColumnLocation {
            column: (strip % self.parts) as u16,
            object_offset: strip / self.parts * self.stripe_size + within,
            contiguous: self.stripe_size - within,
        }
    }

    fn offset(&self, column: u16, object_offset: u64) -> Option<u64> {
        let (row, within) = (object_offset / self.stripe_size, object_offset % self.stripe_size);
        let start = row.checked_mul(self.row)?.checked_add(u64::from(column) * self.stripe_size)?;
        (u64::from(column) < self.parts).then_some(start)?.checked_add(within)
    }

    fn object_bytes(&self, bytes: u64, column: u16) -> u64 {
        if u64::from(column) >= self.parts {
            return 0;
        }
        let last_row = (bytes % self.row).saturating_sub(u64::from(column) * self.stripe_size);
        bytes / self.row * self.stripe_size + last_row.min(self.stripe_size)
    }

    fn cover(&self, columns: &PartSet) -> Cover {
        let strip = |column: u64| Interval {
            low: column * self.stripe_size,
            high: (column + 1) * self.stripe_size,
        };
        Cover::periodic(self.row, columns.iter().map(|column| strip(u64::from(column.0))))
    }
}
