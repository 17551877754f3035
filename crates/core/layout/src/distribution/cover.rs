//! The bytes of a component that lie on some of its parts, as a periodic set of intervals. It
//! answers two questions of a job: which such byte comes next, and which repetition of a pattern is
//! the next that can touch one (`pattern_skip.rs`).
//!
//! ```text
//!   |<------------------- period -------------------->|
//!   |<------- band ------->|                          |  one band = the period, except `grouped`
//!   |<- row ->|<- row ->|..|                             one row = the band, except `grouped`
//!      ####      ####                                    columns: intervals in each row of a band
//! ```
//!
//! Invariants:
//! 1. Bands ascend, do not overlap, and are whole rows.
//! 2. The columns of a band ascend, are not empty, do not touch each other, and lie in the row.
//! 3. Every band has a column.
//!
//! `push` asserts 1 and 2, and makes a band only for a column (3).

use std::ops::Range;

/// `[low, high)`, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Interval {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

/// The bytes of a component that lie on a set of its columns.
#[derive(Clone, Debug)]
pub struct Cover(pub(super) CoverKind);

#[derive(Clone, Debug)]
pub(super) enum CoverKind {
    Nothing,
    Everything,
    Bands(Bands),
}

#[derive(Clone, Debug)]
pub(super) struct Bands {
    pub(super) period: u64,
    pub(super) row: u64,
    bands: Vec<Band>,
    columns: Vec<Interval>,
}

#[derive(Clone, Debug)]
pub(super) struct Band {
    pub(super) interval: Interval,
    columns: Range<usize>,
}

impl Cover {
    pub(crate) fn nothing() -> Self {
        Self(CoverKind::Nothing)
    }

    pub(crate) fn everything() -> Self {
        Self(CoverKind::Everything)
    }

    /// Ascending intervals in `[0, period)`, repeated without end.
    pub(super) fn periodic(period: u64, columns: impl Iterator<Item = Interval>) -> Self {
        Self::banded(period, period, period, columns.map(|column| (0, column)))
    }

    /// Ascending pairs (band, interval in `[0, row)`), each repeated in every row of its band.
    pub(super) fn banded(
        period: u64,
        band: u64,
        row: u64,
        columns: impl Iterator<Item = (u64, Interval)>,
    ) -> Self {
        let mut made = Bands { period, row, bands: Vec::new(), columns: Vec::new() };
        for (ordinal, column) in columns {
            made.push(ordinal * band, band, column);
        }
        let whole = made.columns.iter().all(|column| *column == Interval { low: 0, high: row });
        match made.bands.len() as u64 {
            0 => Self::nothing(),
            count if whole && count * band == period => Self::everything(),
            _ => Self(CoverKind::Bands(made)),
        }
    }

    /// The first covered byte at or after `offset` (both relative to the component). `None` when
    /// there is none below 2^64.
    pub(crate) fn next(&self, offset: u64) -> Option<u64> {
        match &self.0 {
            CoverKind::Nothing => None,
            CoverKind::Everything => Some(offset),
            CoverKind::Bands(bands) => bands.next(offset),
        }
    }

    /// Number of covered bytes before `offset`.
    pub(crate) fn bytes_before(&self, offset: u64) -> u64 {
        match &self.0 {
            CoverKind::Nothing => 0,
            CoverKind::Everything => offset,
            CoverKind::Bands(bands) => bands.bytes_before(offset),
        }
    }

    /// Memory that it owns, in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        let CoverKind::Bands(Bands { bands, columns, .. }) = &self.0 else { return 0 };
        bands.capacity() * size_of::<Band>() + columns.capacity() * size_of::<Interval>()
    }

    /// The period, or 1 when every byte or none is covered.
    pub(crate) fn period(&self) -> u64 {
        if let CoverKind::Bands(bands) = &self.0 { bands.period } else { 1 }
    }
}

impl Bands {
    fn push(&mut self, low: u64, bytes: u64, column: Interval) {
        debug_assert!(
            column.low < column.high && column.high <= self.row,
            "invariant 2: a column is empty or outside of its row"
        );
        match self.bands.last_mut() {
            Some(band) if band.interval.low == low => match self.columns.last_mut() {
                Some(last) if last.high == column.low => last.high = column.high,
                last => {
                    debug_assert!(
                        last.is_none_or(|last| last.high < column.low),
                        "invariant 2: the columns of a band ascend"
                    );
                    self.columns.push(column);
                    band.columns.end += 1;
                }
            },
            last => {
                debug_assert!(
                    last.is_none_or(|last| last.interval.high <= low)
                        && bytes.is_multiple_of(self.row),
                    "invariant 1: bands ascend, and are whole rows"
                );
                self.columns.push(column);
                let columns = self.columns.len() - 1..self.columns.len();
                self.bands.push(Band { interval: Interval { low, high: low + bytes }, columns });
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Band, Interval)> {
        self.bands.iter().flat_map(|band| {
            self.columns[band.columns.clone()].iter().map(move |column| (band, *column))
        })
    }

    fn next(&self, offset: u64) -> Option<u64> {
        let (start, within) = (offset - offset % self.period, offset % self.period);
        let at = self.bands.partition_point(|band| band.interval.high <= within);
        let found = match self.bands.get(at) {
            Some(band) => self
                .next_in_band(band, within)
                .or_else(|| self.bands.get(at + 1).map(|band| self.first(band))),
            None => None,
        };
        match found {
            Some(found) => start.checked_add(found),
            None => start.checked_add(self.period)?.checked_add(self.first(&self.bands[0])),
        }
    }

    fn bytes_before(&self, offset: u64) -> u64 {
        let (periods, within) = (offset / self.period, offset % self.period);
        let bytes_of = |band: &Band, column: Interval| {
            let rows = (band.interval.high - band.interval.low) / self.row;
            let in_band = within
                .saturating_sub(band.interval.low)
                .min(band.interval.high - band.interval.low);
            let (whole, in_row) = (in_band / self.row, in_band % self.row);
            let last = in_row.saturating_sub(column.low).min(column.high - column.low);
            (periods * rows + whole) * (column.high - column.low) + last
        };
        self.iter().map(|(band, column)| bytes_of(band, column)).sum()
    }

    /// First byte of the band, as an offset in the period.
    fn first(&self, band: &Band) -> u64 {
        band.interval.low + self.columns[band.columns.start].low
    }

    /// Requires `within` before the band's end. All offsets are in the period.
    fn next_in_band(&self, band: &Band, within: u64) -> Option<u64> {
        let Some(in_band) = within.checked_sub(band.interval.low) else {
            return Some(self.first(band));
        };
        let (row, in_row) = (within - in_band % self.row, in_band % self.row);
        let columns = &self.columns[band.columns.clone()];
        match columns.get(columns.partition_point(|column| column.high <= in_row)) {
            Some(column) => Some(row + column.low.max(in_row)),
            None => Some(row + self.row)
                .filter(|row| *row < band.interval.high)
                .map(|row| row + columns[0].low),
        }
    }
}
