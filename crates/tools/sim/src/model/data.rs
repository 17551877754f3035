//! The model of one file's bytes: for each byte the values that it may have now, and those that a
//! loss of power may bring back.
//!
//! ```text
//!   write(h, v)      now = {v}          older += what it was       last = h
//!   unknown write    now += v           older += what it was       last = nobody
//!   loss of power    now += older       (of the bytes on that daemon)
//!   fsync by h       bytes with last = h: older = {}               they are permanent (I6)
//!   read x           x must be in now;  now = {x}
//! ```
//!
//! Invariants: (1) `now` is never empty; (2) bytes past every possible size are zero; (3) the range
//! of possible sizes is never empty.
//!
//! `each` asserts (1). A range of bytes or sizes that breaks (2) or (3) fails the next check of
//! what a client saw, which is what the model is for.

use std::collections::BTreeSet;

use super::Violation;

/// The writer: an open file of one client.
pub type Handle = u64;

/// Consecutive bytes that have the same history.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ByteRange {
    end: u64,
    now: BTreeSet<u8>,
    older: BTreeSet<u8>,
    last: Option<(Handle, u8)>,
}

/// A change that a call may have made to the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// These ranges `[from, to)` got this value.
    Write {
        /// The writing handle.
        by: Handle,
        /// The ranges.
        ranges: Vec<(u64, u64)>,
        /// The value.
        value: u8,
    },
    /// The file was truncated or extended to this size.
    Truncate {
        /// The handle; `None` for a truncate by path.
        by: Option<Handle>,
        /// The size.
        size: u64,
    },
    /// A range became zeros; the size did not change.
    Punch {
        /// The handle.
        by: Handle,
        /// The first byte.
        from: u64,
        /// The end of the range.
        to: u64,
    },
    /// Space was allocated up to here; the file may have grown.
    Allocate {
        /// The handle.
        by: Handle,
        /// The end of the allocated range.
        end: u64,
    },
}

impl Change {
    fn by(&self) -> Option<Handle> {
        match self {
            Self::Write { by, .. } | Self::Punch { by, .. } | Self::Allocate { by, .. } => {
                Some(*by)
            }
            Self::Truncate { by, .. } => *by,
        }
    }
}

/// The model of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileModel {
    runs: Vec<ByteRange>,
    /// The least and the largest possible size.
    size: (u64, u64),
    /// The least size after a loss of power.
    size_older: u64,
    /// The largest size that the file may have had before a loss of power.
    size_before: u64,
    size_last: Option<(Handle, u64)>,
    /// Changes with an unknown outcome that a server may still execute.
    pending: Vec<Change>,
    /// Handles that changed it since their last fsync.
    dirty: BTreeSet<Handle>,
    /// A loss of power at the metadata server removed its record of a size that no fsync covered,
    /// and no client has the file open to reclaim it. `stat` may then show an older size than the
    /// objects have.
    record_lost: bool,
}

/// The key in [`FileModel::dirty`] for changes that no handle's fsync covers.
const NO_HANDLE: Handle = 0;

const UNLIMITED: u64 = u64::MAX;

impl Default for FileModel {
    fn default() -> Self {
        let zero = ByteRange {
            end: UNLIMITED,
            now: BTreeSet::from([0]),
            older: BTreeSet::new(),
            last: None,
        };
        Self {
            runs: vec![zero],
            size: (0, 0),
            size_older: 0,
            size_before: 0,
            size_last: None,
            pending: Vec::new(),
            dirty: BTreeSet::new(),
            record_lost: false,
        }
    }
}

impl FileModel {
    /// The metadata server's host lost power, and no live client has the file open for writing. The
    /// objects are unchanged; the recorded size may be any since the last fsync.
    pub fn record_may_be_older(&mut self) {
        self.record_lost |= !self.dirty.is_empty();
    }

    /// The possible sizes: the least and the largest.
    pub fn size(&self) -> (u64, u64) {
        self.size
    }

    /// A change was acknowledged, and no other call overlapped it.
    pub fn happened(&mut self, change: &Change) {
        self.dirty.insert(change.by().unwrap_or(NO_HANDLE));
        // The caller has the file open: the size is in the objects, or is what the truncate set.
        self.record_lost = false;
        self.apply(change);
        self.pending_too();
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { by, ranges, value } => {
                for (from, to) in ranges {
                    self.each(*from, *to, |run| run.set(*value, Some(*by)));
                    self.grow(*to, Some(*by), true);
                }
            }
            Change::Truncate { by, size } => {
                self.each(*size, UNLIMITED, |run| run.set(0, *by));
                self.size_older = self.size_older.min(self.size.0).min(*size);
                self.size_before = self.size_before.max(self.size.1).max(*size);
                (self.size, self.size_last) = ((*size, *size), by.map(|by| (by, *size)));
            }
            Change::Punch { by, from, to } => self.each(*from, *to, |run| run.set(0, Some(*by))),
            Change::Allocate { by, end } => self.grow(*end, Some(*by), false),
        }
    }

    /// A change at the metadata server that may have happened, or may happen later.
    pub fn outcome_unknown(&mut self, change: Change) {
        self.may_have_happened(&change);
        self.pending.push(change);
    }

    fn pending_too(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        pending.iter().for_each(|change| self.may_have_happened(change));
        self.pending = pending;
    }

    /// A change that may have happened completely, partly, or in any order with others, or not at
    /// all.
    pub fn may_have_happened(&mut self, change: &Change) {
        self.dirty.insert(NO_HANDLE);
        match change {
            Change::Write { ranges, value, .. } => {
                for (from, to) in ranges {
                    self.each(*from, *to, |run| run.may_be(*value));
                    self.grow(*to, None, false);
                }
            }
            Change::Truncate { size, .. } => {
                self.each(*size, UNLIMITED, |run| run.may_be(0));
                self.size_older = self.size_older.min(self.size.0).min(*size);
                self.size_before = self.size_before.max(self.size.1).max(*size);
                self.size = (self.size.0.min(*size), self.size.1.max(*size));
                self.size_last = None;
            }
            Change::Punch { from, to, .. } => self.each(*from, *to, |run| run.may_be(0)),
            Change::Allocate { end, .. } => self.grow(*end, None, false),
        }
    }

    /// An fsync through `by` was acknowledged: its last writes are there permanently (I6).
    pub fn synced(&mut self, by: Handle) {
        self.dirty.remove(&by);
        self.record_lost = false;
        for run in &mut self.runs {
            if let Some((_, value)) = run.last.filter(|(last, _)| *last == by) {
                run.now = BTreeSet::from([value]);
                run.older.clear();
            }
        }
        if let Some((_, size)) = self.size_last.filter(|(last, _)| *last == by) {
            // Other handles may have made it larger, and may lose that.
            self.size.0 = self.size.0.max(size);
            self.size_older = self.size_older.max(size);
            if self.size == (size, size) {
                self.size_before = size;
            }
        }
        self.pending_too();
    }

    /// An fsync or close through `by` reported lost data: nothing is guaranteed any more.
    pub fn loss_reported(&mut self, by: Handle) {
        for run in self.runs.iter_mut().filter(|run| run.last.is_some_and(|(last, _)| last == by)) {
            run.now.extend(run.older.iter().copied());
            run.last = None;
        }
        if self.size_last.is_some_and(|(last, _)| last == by) {
            self.size_last = None;
            self.widen();
        }
    }

    /// Power was lost at the daemons of the bytes for which `on` is true.
    pub fn power_lost(&mut self, piece: u64, on: impl Fn(u64) -> bool) {
        let end = self.size.1.max(self.size_before);
        let mut from = 0;
        while from < end {
            let to = from + piece;
            if on(from) {
                self.each(from, to, |run| run.now.extend(run.older.iter().copied()));
            }
            from = to;
        }
        self.widen();
    }

    fn widen(&mut self) {
        self.size = (self.size.0.min(self.size_older), self.size.1.max(self.size_before));
    }

    /// Checks a size that a client saw.
    ///
    /// # Errors
    /// I5 when the file cannot have this size.
    pub fn check_size(&mut self, seen: u64) -> Result<(), Violation> {
        let (least, largest) = match self.record_lost {
            true => (self.size.0.min(self.size_older), self.size.1.max(self.size_before)),
            false => self.size,
        };
        if !(least..=largest).contains(&seen) {
            let what = format!("the size is {seen}; possible is {least} to {largest}");
            return Err(Violation::new("I5", what));
        }
        if !self.record_lost {
            self.size = (seen, seen);
            self.each(seen, UNLIMITED, |run| run.now = BTreeSet::from([0]));
            self.pending_too();
        }
        Ok(())
    }

    /// Checks bytes that a client read at `offset`.
    ///
    /// # Errors
    /// I5 for a length, I6 for a byte that the file cannot have.
    pub fn check_bytes(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Violation> {
        let mut at = 0;
        while at < bytes.len() {
            let same = bytes[at..].iter().take_while(|byte| **byte == bytes[at]).count();
            let (from, to, value) = (offset + at as u64, offset + (at + same) as u64, bytes[at]);
            let mut wrong = None;
            self.each(from, to, |run| {
                if !run.now.contains(&value) {
                    wrong.get_or_insert_with(|| run.clone());
                }
                run.now = BTreeSet::from([value]);
            });
            if let Some(run) = wrong {
                let what = format!(
                    "bytes {from}..{to} read as {value:#04x}; possible before byte {} is {:02x?} \
                     (older {:02x?}, last {:?})",
                    run.end, run.now, run.older, run.last
                );
                return Err(Violation::new("I6", what));
            }
            at += same;
        }
        self.pending_too();
        Ok(())
    }

    /// Checks a short read at `offset`: the file ends after `got` of the `wanted` bytes.
    ///
    /// # Errors
    /// I5.
    pub fn check_end_of_file(
        &mut self,
        offset: u64,
        got: u64,
        wanted: u64,
    ) -> Result<(), Violation> {
        let (least, largest) = self.size;
        let possible =
            (least.saturating_sub(offset).min(wanted), largest.saturating_sub(offset).min(wanted));
        if got < possible.0 || got > possible.1 {
            let what = format!(
                "{wanted} bytes from {offset} gave {got}; the size is {least} to {largest}"
            );
            return Err(Violation::new("I5", what));
        }
        if got == wanted {
            self.size.0 = least.max(offset + got);
            Ok(())
        } else if got > 0 {
            self.check_size(offset + got)
        } else {
            self.size.1 = largest.min(offset);
            Ok(())
        }
    }

    fn grow(&mut self, end: u64, by: Option<Handle>, certain: bool) {
        if end <= self.size.0 {
            return;
        }
        self.size_older = self.size_older.min(self.size.0);
        self.size_before = self.size_before.max(self.size.1);
        self.size_last = by.map(|by| (by, end));
        let least = if certain { end } else { self.size.0 };
        self.size = (least, self.size.1.max(end));
    }

    /// Splits the ranges at both ends, changes those between, and joins equal neighbours.
    fn each(&mut self, from: u64, to: u64, mut change: impl FnMut(&mut ByteRange)) {
        if from >= to {
            return;
        }
        self.split(from);
        self.split(to);
        let mut start = 0;
        for run in &mut self.runs {
            if start >= from && run.end <= to {
                change(run);
                debug_assert!(!run.now.is_empty(), "1: a byte has a value");
            }
            start = run.end;
        }
        self.runs.dedup_by(|next, cached| {
            let same =
                (&next.now, &next.older, next.last) == (&cached.now, &cached.older, cached.last);
            if same {
                cached.end = next.end;
            }
            same
        });
    }

    fn split(&mut self, at: u64) {
        let index = self.runs.partition_point(|run| run.end < at);
        let start = if index == 0 { 0 } else { self.runs[index - 1].end };
        if let Some(run) = self.runs.get(index)
            && start < at
            && at < run.end
        {
            let left = ByteRange { end: at, ..run.clone() };
            self.runs.insert(index, left);
        }
    }
}

impl ByteRange {
    fn set(&mut self, value: u8, by: Option<Handle>) {
        self.older.append(&mut self.now);
        self.now.insert(value);
        self.last = by.map(|by| (by, value));
    }

    fn may_be(&mut self, value: u8) {
        self.older.extend(self.now.iter().copied());
        self.older.insert(value);
        self.now.insert(value);
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(by: Handle, from: u64, to: u64, value: u8) -> Change {
        Change::Write { by, ranges: vec![(from, to)], value }
    }

    #[test]
    fn an_acknowledged_write_must_be_seen() {
        let mut data = FileModel::default();
        data.happened(&write(1, 10, 20, 7));
        assert_eq!(data.check_end_of_file(0, 20, 100), Ok(()));
        assert_eq!(data.check_bytes(0, &[[0; 10], [7; 10]].concat()), Ok(()));
        assert_eq!(data.clone().check_bytes(10, &[0]).unwrap_err().rule, "I6");
        assert_eq!(data.check_size(19).unwrap_err().rule, "I5");
    }

    #[test]
    fn power_takes_back_what_was_not_synced_and_nothing_else() {
        let mut data = FileModel::default();
        data.happened(&write(1, 0, 10, 7));
        data.synced(1);
        data.happened(&write(1, 5, 15, 8));
        data.power_lost(4096, |_| true);
        assert_eq!(data.size(), (10, 15));
        assert_eq!(data.check_bytes(0, &[7, 7, 7, 7, 7, 7, 8, 7, 8, 8]), Ok(()));
        assert!(data.clone().check_bytes(0, &[0]).is_err(), "synced");
        assert_eq!(data.check_bytes(7, &[7]), Ok(()), "once seen it stays");
        assert!(data.check_bytes(7, &[8]).is_err());
    }

    #[test]
    fn a_sync_after_a_loss_must_not_be_acknowledged_as_if_nothing_happened() {
        let mut data = FileModel::default();
        data.happened(&write(1, 0, 10, 7));
        data.power_lost(4096, |_| true);
        let mut told = data.clone();
        told.loss_reported(1);
        assert_eq!(told.check_bytes(0, &[0; 10]), Ok(()));
        data.synced(1);
        assert!(data.check_bytes(0, &[0; 10]).is_err());
    }

    #[test]
    fn an_unknown_write_may_show_or_not_byte_by_byte() {
        let mut data = FileModel::default();
        data.happened(&write(1, 0, 4, 1));
        data.may_have_happened(&write(1, 2, 8, 2));
        assert_eq!(data.size(), (4, 8));
        assert_eq!(data.check_bytes(0, &[1, 1, 1, 2]), Ok(()));
        assert!(data.check_bytes(0, &[2]).is_err());
    }

    #[test]
    fn a_lost_size_record_may_show_an_older_size_until_the_next_change() {
        let mut data = FileModel::default();
        data.happened(&write(1, 0, 10, 7));
        data.synced(1);
        data.record_may_be_older();
        assert_eq!(data.check_size(9).unwrap_err().rule, "I5", "what was synced is on record");
        data.happened(&write(1, 10, 20, 8));
        data.record_may_be_older();
        assert_eq!(data.clone().check_size(10), Ok(()));
        assert_eq!(
            data.check_end_of_file(0, 10, 100).unwrap_err().rule,
            "I5",
            "the objects lost nothing"
        );
        data.happened(&write(2, 20, 30, 9));
        assert_eq!(data.check_size(10).unwrap_err().rule, "I5");
    }

    #[test]
    fn truncate_down_then_up_gives_zeros() {
        let mut data = FileModel::default();
        data.happened(&write(1, 0, 100, 9));
        data.happened(&Change::Truncate { by: Some(1), size: 50 });
        data.happened(&Change::Truncate { by: Some(1), size: 80 });
        assert_eq!(data.check_bytes(0, &[[9; 50].as_slice(), &[0; 30]].concat()), Ok(()));
        assert!(data.clone().check_bytes(60, &[9]).is_err());
    }
}
