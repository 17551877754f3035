//! `varstrip`: a cycle of strips of different sizes.

use super::{Aggregation, ColumnLocation, Cover, Interval, Single};
use crate::{PartSet, Strip};

/// The cycle, with prefix sums so that each question is a binary search.
#[derive(Clone, Debug)]
pub(crate) struct VarStrip {
    /// Bytes in one cycle: at most 2^30 * 2^12.
    cycle: u64,
    /// In file order; neighbours on the same column are merged.
    strips: Vec<CycleStrip>,
    /// Indices into `strips`, by column and then in file order.
    by_column: Vec<u32>,
    /// For each column: where its entries in `by_column` start, and its bytes per cycle.
    columns: Vec<Column>,
}

#[derive(Clone, Copy, Debug)]
struct CycleStrip {
    column: u16,
    /// Offset in the cycle.
    start: u64,
    bytes: u64,
    /// Offset among the column's bytes of one cycle.
    object_start: u64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Column {
    first: usize,
    count: usize,
    bytes: u64,
}

impl VarStrip {
    /// `strips` is not empty, each has 1 to `STRIPE_BYTES_MAX` bytes; `parts >= 1`.
    pub(super) fn new(strips: &[Strip], parts: usize) -> Self {
        let mut made = Self {
            cycle: 0,
            strips: Vec::new(),
            by_column: Vec::new(),
            columns: vec![Column::default(); parts],
        };
        for strip in strips {
            made.push((usize::from(strip.part) % parts) as u16, strip.bytes);
        }
        made.index();
        made
    }

    fn push(&mut self, column: u16, bytes: u64) {
        let total = &mut self.columns[usize::from(column)];
        match self.strips.last_mut() {
            Some(last) if last.column == column => last.bytes += bytes,
            _ => {
                total.count += 1;
                self.strips.push(CycleStrip {
                    column,
                    start: self.cycle,
                    bytes,
                    object_start: total.bytes,
                });
            }
        }
        total.bytes += bytes;
        self.cycle += bytes;
    }

    fn index(&mut self) {
        self.by_column = (0..self.strips.len() as u32).collect();
        self.by_column.sort_by_key(|at| self.strips[*at as usize].column);
        let mut first = 0;
        for column in &mut self.columns {
            column.first = first;
            first += column.count;
        }
    }

    fn strips_of(&self, column: Column) -> &[u32] {
        &self.by_column[column.first..column.first + column.count]
    }

    /// The last strip of the column for which `before` holds. `before` must hold for a prefix of
    /// the strips.
    fn last_strip(
        &self,
        column: Column,
        before: impl Fn(&CycleStrip) -> bool,
    ) -> Option<CycleStrip> {
        let strips = self.strips_of(column);
        let count = strips.partition_point(|at| before(&self.strips[*at as usize]));
        count.checked_sub(1).map(|last| self.strips[strips[last] as usize])
    }
}

impl Aggregation for VarStrip {
    fn locate(&self, offset: u64) -> ColumnLocation {
        if self.strips.len() == 1 {
            return ColumnLocation { column: self.strips[0].column, ..Single.locate(offset) };
        }
        let (cycle, within) = (offset / self.cycle, offset % self.cycle);
        let strip = self.strips[self.strips.partition_point(|strip| strip.start <= within) - 1];
        let in_cycle = strip.object_start + (within - strip.start);
        ColumnLocation {
            column: strip.column,
            object_offset: cycle * self.columns[usize::from(strip.column)].bytes + in_cycle,
            contiguous: strip.start + strip.bytes - within,
        }
    }

    fn offset(&self, column: u16, object_offset: u64) -> Option<u64> {
        let column = *self.columns.get(usize::from(column)).filter(|column| column.bytes > 0)?;
        let (cycle, within) = (object_offset / column.bytes, object_offset % column.bytes);
        let strip = self.last_strip(column, |strip| strip.object_start <= within)?;
        cycle.checked_mul(self.cycle)?.checked_add(strip.start + (within - strip.object_start))
    }

    fn object_bytes(&self, bytes: u64, column: u16) -> u64 {
        let Some(column) = self.columns.get(usize::from(column)).copied() else { return 0 };
        let within = bytes % self.cycle;
        let last_cycle = match self.last_strip(column, |strip| strip.start < within) {
            Some(strip) => strip.object_start + (within - strip.start).min(strip.bytes),
            None => 0,
        };
        bytes / self.cycle * column.bytes + last_cycle
    }

    fn cover(&self, columns: &PartSet) -> Cover {
        let wanted = self
            .strips
            .iter()
            .filter(|strip| columns.contains(braid_types::PartIndex(strip.column)));
        Cover::periodic(
            self.cycle,
            wanted.map(|strip| Interval { low: strip.start, high: strip.start + strip.bytes }),
        )
    }
}
