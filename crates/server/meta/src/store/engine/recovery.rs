//! Replays the log after the base, and decides whether missing records were torn off or are
//! damaged.
//!
//! The log is read in order. Where a record fails its checks, the log is *torn* there if both of
//! these hold, and *damaged* otherwise:
//!
//! 1. Nothing proves that the record was synced: not the file `synced`, not the base, not a later
//!    record's mark. A loss of power takes only what was not synced.
//! 2. No whole record follows. Or one follows, and the bytes between look like a write that never
//!    reached the disk (zeros up to the end of a sector, or the end of a file). Disks and file
//!    systems write in any order.
//!
//! A torn log is cut off there, and the cut is reported. A damaged log stops the start; nothing is
//! changed or removed.

use std::path::{Path, PathBuf};

use super::base::BaseState;
use super::log::{self, HEADER_BYTES, Header, RECORD_HEADER_BYTES, Record};
use super::{FORMAT_ADVICE, StoreId};
use crate::store::{Sequence, StoreError};

/// The unit that disks write atomically.
const SECTOR_BYTES: usize = 512;
/// If zeros before the end of a sector do not begin with the record, at least this many are taken
/// for a lost write. It is longer than any sequence of zeros in the records of the namespace.
const LOST_ZEROS_MIN: usize = 64;

/// Where the log was cut off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornTail {
    /// The segment.
    pub path: PathBuf,
    /// Position of the first torn byte in it.
    pub offset: u64,
    /// The first batch that is lost. It was never synced.
    pub first_lost: Sequence,
}

/// Reads the log after `base`, passes each batch to `apply` in order, and returns where a torn tail
/// was left out.
pub(super) fn replay(
    directory: &Path,
    store: StoreId,
    base: BaseState,
    synced: Sequence,
    apply: &mut dyn FnMut(Record),
) -> Result<Option<TornTail>, StoreError> {
    let segments = log::segments(directory)?;
    let live = live(directory, &segments, base.sequence)?;
    let proven = synced.max(base.sequence);
    let mut next = live.first().map_or(base.sequence.0 + 1, |(first, _)| first.0);
    for (at, (first, path)) in live.iter().enumerate() {
        let later = &live[at + 1..];
        let bytes = std::fs::read(path).map_err(|e| StoreError::disk("read a log segment", e))?;
        let torn = |offset, next| LogDamage {
            directory,
            path,
            bytes: &bytes,
            offset,
            next: Sequence(next),
        };
        let mut offset = match log::read_header(&bytes) {
            Header::Whole(found, of) if found == *first && of == store => HEADER_BYTES,
            Header::Whole(found, of) => {
                let why = format!(
                    "its header belongs to segment {:016x} of store {:016x}, \
                     not to {:016x} of {:016x}",
                    found.0, of.0, first.0, store.0
                );
                return Err(StoreError::damaged(directory, path, 16, why));
            }
            Header::Version(version) => return Err(other_format(path, version)),
            Header::Bad => return torn(0, next).classify(later, proven).map(Some),
        };
        while let Some((record, length)) =
            log::decode(&bytes[offset..]).filter(|(found, _)| found.sequence.0 == next)
        {
            if next > base.sequence.0 {
                apply(record);
            }
            (offset, next) = (offset + length, next + 1);
        }
        let whole = offset == bytes.len() && later.first().is_none_or(|(first, _)| first.0 == next);
        if !whole || (later.is_empty() && next <= proven.0) {
            return torn(offset, next).classify(later, proven).map(Some);
        }
    }
    Ok(None)
}

/// The segments that the base does not hold completely: from the last one that begins at or before
/// the sequence that the base expects.
fn live<'a>(
    directory: &Path,
    segments: &'a [(Sequence, PathBuf)],
    folded: Sequence,
) -> Result<&'a [(Sequence, PathBuf)], StoreError> {
    let expected = folded.0 + 1;
    if let Some(from) = segments.iter().rposition(|(first, _)| first.0 <= expected) {
        return Ok(&segments[from..]);
    }
    let missing = directory.join(format!("log.{expected:016x}"));
    let why = match segments.first() {
        None => {
            format!("the log is missing; the base expects sequence {expected} next")
        }
        Some((first, _)) => {
            format!(
                "missing; the base expects sequence {expected}, \
                 and the oldest segment begins with {}",
                first.0
            )
        }
    };
    Err(StoreError::damaged(directory, &missing, 0, why))
}

pub(super) fn other_format(path: &Path, version: u32) -> StoreError {
    StoreError::Corrupted(format!(
        "{} is of format {version}, which this program does not read; {FORMAT_ADVICE}",
        path.display()
    ))
}

/// A position where the log fails its checks.
struct LogDamage<'a> {
    directory: &'a Path,
    path: &'a Path,
    /// The whole segment.
    bytes: &'a [u8],
    offset: usize,
    /// The sequence that is expected there.
    next: Sequence,
}

impl LogDamage<'_> {
    /// Torn or damaged: see the module.
    fn classify(
        &self,
        later: &[(Sequence, PathBuf)],
        mut proven: Sequence,
    ) -> Result<TornTail, StoreError> {
        let before = Sequence(self.next.0 - 1);
        let (behind, marked) = whole_records(self.bytes, self.offset + 1, before);
        proven = proven.max(marked);
        let mut in_later = None;
        for (_, path) in later {
            let bytes =
                std::fs::read(path).map_err(|e| StoreError::disk("read a log segment", e))?;
            let (found, marked) = whole_records(&bytes, HEADER_BYTES, before);
            proven = proven.max(marked);
            in_later = in_later.or(found.map(|(offset, sequence)| (path, offset, sequence)));
        }
        let what = match (self.offset, self.offset == self.bytes.len()) {
            (0, _) => "the header is damaged".to_owned(),
            (_, true) => {
                format!("the segment ends, and the record of sequence {} is missing", self.next.0)
            }
            _ => format!("the record of sequence {} is damaged", self.next.0),
        };
        if self.next <= proven {
            return Err(self.damaged(format!(
                "{what}, although everything up to sequence {} was synced",
                proven.0
            )));
        }
        if let Some((offset, sequence)) = behind
            && !self.is_lost_write(offset)
        {
            return Err(self.damaged(format!(
                "{what}, but the record of sequence {} at byte {offset} is whole",
                sequence.0
            )));
        }
        if let Some((path, offset, sequence)) = in_later
            && behind.is_none()
            && !self.is_cut_short()
            && !self.is_lost_write(self.bytes.len())
        {
            let file = path.display();
            return Err(self.damaged(format!(
                "{what}, but the record of sequence {} in {file} at byte {offset} is whole",
                sequence.0
            )));
        }
        Ok(TornTail {
            path: self.path.to_owned(),
            offset: self.offset as u64,
            first_lost: self.next,
        })
    }

    fn damaged(&self, why: String) -> StoreError {
        StoreError::damaged(self.directory, self.path, self.offset as u64, why)
    }

    /// Whether the bytes up to `end` have a hole as a lost write leaves it: a sector that is zeros
    /// up to its end, from the torn record's first byte on or for at least [`LOST_ZEROS_MIN`].
    fn is_lost_write(&self, end: usize) -> bool {
        let first = (self.offset + 1).next_multiple_of(SECTOR_BYTES);
        (first..=end).step_by(SECTOR_BYTES).any(|sector_end| {
            let zeros = self.bytes[self.offset..sector_end]
                .iter()
                .rev()
                .take_while(|byte| **byte == 0)
                .count();
            zeros >= LOST_ZEROS_MIN.min(sector_end - self.offset)
        })
    }

    /// Whether the file ends before the record does.
    fn is_cut_short(&self) -> bool {
        let rest = &self.bytes[self.offset..];
        match rest.first_chunk::<4>() {
            Some(body) => {
                rest.len() < RECORD_HEADER_BYTES.saturating_add(u32::from_le_bytes(*body) as usize)
            }
            None => true,
        }
    }
}

/// The first whole record at or after `from` that is later than `after`, as position and sequence;
/// and the newest mark of what was synced in all that follow.
fn whole_records(
    bytes: &[u8],
    from: usize,
    after: Sequence,
) -> (Option<(usize, Sequence)>, Sequence) {
    let (mut first, mut marked, mut at) = (None, Sequence(0), from);
    while let Some((begin, record, length)) = log::next_record(bytes, at, after) {
        first = first.or(Some((begin, record.sequence)));
        marked = marked.max(record.synced);
        at = begin + length;
    }
    (first, marked)
}
