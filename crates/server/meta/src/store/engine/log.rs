//! The log: every committed batch as one checksummed record, in segment files.
//!
//! ```text
//! log.<first sequence, 16 hex digits>
//!   header  32 B   "BRAIDLOG" | version u32 | crc32c of the rest of the header u32
//!                  | first sequence u64 | store id u64
//!   record         body length u32 | crc32c u32 | sequence u64 | fence u64 | synced u64 | body
//!   body           count u32, then for each change:
//!                  key length u16 | value length u32 (!0: removed) | key | value
//! ```
//! All numbers are little-endian. A record's checksum covers everything after it.
//!
//! Invariants:
//! 1. Records carry consecutive sequences, also across segments. `append` asserts it before the
//!    write; `recovery.rs` checks it after the read.
//! 2. A record is written with one `write`. `append` asserts that the bytes are one whole record.
//! 3. `synced` is a sequence that was synced before the record was written, so it is below the
//!    record's own. `encode` asserts it; after the read the checksum vouches for it. A bad byte at
//!    or below that sequence is damage, never a torn write: `recovery.rs` decides.
//! 4. A segment is deleted only when the base holds every batch of it, synced, and the name and the
//!    header of a later segment are synced. A directory without a segment has therefore lost one.
//!    The engine asserts it (invariants 1 and 7 of `mod.rs`).
//! 5. While the disk has space, [`RESERVE_BYTES`] are allocated behind the last record. On a full
//!    disk only batches that free space may use them, so that files can always be removed. File
//!    systems without fallocate(2) have no reserve. The disk decides, so nothing here can assert
//!    it.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use braid_types::limits::BATCH_BYTES_MAX;

use super::StoreId;
use crate::store::{Batch, Fence, ReserveUse, Sequence, StoreError};

const MAGIC: &[u8; 8] = b"BRAIDLOG";
/// 2: the whole header is checked and names the store; records carry what was synced.
const VERSION: u32 = 2;
pub(super) const HEADER_BYTES: usize = 32;
pub(super) const RECORD_HEADER_BYTES: usize = 32;
/// The longest body of a record.
const BODY_BYTES_MAX: usize = BATCH_BYTES_MAX + 64;
/// A segment that must be complete when its real name appears is created under this name.
const NEW_NAME: &str = "new-segment";

/// Space behind the last record for batches that free space. At an estimated 350 bytes for each,
/// about 3,000 removals.
const RESERVE_BYTES: u64 = 1 << 20;

/// A segment that is being written.
pub(super) struct Segment {
    file: File,
    path: PathBuf,
    /// Space is allocated up to this offset.
    allocated: u64,
    /// The sequence of the next record.
    next: Sequence,
    /// Length up to the last whole record.
    end: u64,
    buffer: Vec<u8>,
}

/// A batch that was read back.
pub(super) struct Record {
    pub(super) sequence: Sequence,
    pub(super) fence: Fence,
    /// Everything up to this sequence was synced before this record was written.
    pub(super) synced: Sequence,
    pub(super) batch: Batch,
}

impl Segment {
    /// A new segment whose first record will be `first`. Neither its name nor its header is synced:
    /// the next sync of the log does that.
    pub(super) fn create(
        directory: &Path,
        first: Sequence,
        store: StoreId,
    ) -> Result<Self, StoreError> {
        Self::write_new(directory.join(name(first)), first, store)
    }

    /// The same, synced with its name. Replaces an empty segment of the same name in one step.
    pub(super) fn create_synced(
        directory: &Path,
        first: Sequence,
        store: StoreId,
    ) -> Result<Self, StoreError> {
        let mut segment = Self::write_new(directory.join(NEW_NAME), first, store)?;
        segment.file.sync_all().map_err(|e| StoreError::disk("sync a new log segment", e))?;
        let path = directory.join(name(first));
        std::fs::rename(&segment.path, &path)
            .map_err(|e| StoreError::disk("name a log segment", e))?;
        segment.path = path;
        sync_directory(directory)?;
        Ok(segment)
    }

    fn write_new(path: PathBuf, first: Sequence, store: StoreId) -> Result<Self, StoreError> {
        let mut options = super::file_permissions::options();
        options.read(true).write(true).create(true).truncate(true);
        let mut file =
            options.open(&path).map_err(|e| StoreError::disk("create a log segment", e))?;
        file.write_all(&header(first, store))
            .map_err(|e| StoreError::disk("write a log header", e))?;
        let (end, buffer) = (HEADER_BYTES as u64, Vec::with_capacity(4096));
        Ok(Self { file, path, next: first, allocated: end, end, buffer })
    }

    /// Appends one record. On an error the segment is truncated to its previous length; if that
    /// fails too, the error is `Stopped`.
    pub(super) fn append(
        &mut self,
        batch: &Batch,
        sequence: Sequence,
        fence: Fence,
        synced: Sequence,
    ) -> Result<(), StoreError> {
        assert!(sequence == self.next, "1: records carry consecutive sequences");
        self.buffer.clear();
        encode(&mut self.buffer, batch, sequence, fence, synced);
        debug_assert!(
            decode(&self.buffer).is_some_and(|(_, length)| length == self.buffer.len()),
            "2: one write holds one whole record"
        );
        if let Err(error) = self.allocate_ahead()
            && !self.may_append(batch.reserve_use())
        {
            return Err(StoreError::disk("append to the log", error));
        }
        match self.file.write_all(&self.buffer) {
            Ok(()) => {
                self.end += self.buffer.len() as u64;
                self.next = Sequence(sequence.0 + 1);
                Ok(())
            }
            Err(error) => {
                self.undo_append()?;
                Err(StoreError::disk("append to the log", error))
            }
        }
    }

    /// Whether a batch may be appended although the reserve behind it cannot be whole.
    fn may_append(&self, allowed: ReserveUse) -> bool {
        let left = self.allocated.saturating_sub(self.end + self.buffer.len() as u64);
        match allowed {
            ReserveUse::None => false,
            ReserveUse::Half => left >= RESERVE_BYTES / 2,
            ReserveUse::All => true,
        }
    }

    /// Frees the reserve, before another segment takes this one's place. Best effort: an error
    /// leaves it allocated until the segment is removed.
    pub(super) fn release_reserve(&mut self) {
        let _ = self.file.set_len(self.end);
        self.allocated = self.end;
    }

    /// Allocates the record in `buffer` and the reserve behind it (5).
    fn allocate_ahead(&mut self) -> std::io::Result<()> {
        let needed = self.end + self.buffer.len() as u64 + RESERVE_BYTES;
        if self.allocated >= needed {
            return Ok(());
        }
        // Twice as far, so that one call serves many records; on a disk that is nearly full, only
        // as far as needed.
        self.allocated = allocate(&self.file, self.end, needed + RESERVE_BYTES)
            .or_else(|_| allocate(&self.file, self.end, needed))?;
        Ok(())
    }

    fn undo_append(&mut self) -> Result<(), StoreError> {
        use std::io::{Seek, SeekFrom};
        self.allocated = self.end; // a truncate also frees what is allocated behind the end
        let cut =
            self.file.set_len(self.end).and_then(|()| self.file.seek(SeekFrom::Start(self.end)));
        cut.map(|_| ()).map_err(|_| StoreError::Stopped)
    }

    /// A second file handle for syncing, and the path of the segment.
    pub(super) fn handle(&self) -> Result<(File, PathBuf), StoreError> {
        let file =
            self.file.try_clone().map_err(|e| StoreError::disk("duplicate a log handle", e))?;
        Ok((file, self.path.clone()))
    }
}

/// Allocates disk space for `[from, to)` of a file without a change of its length. Returns up to
/// where space is allocated, or `u64::MAX` where the file system cannot allocate ahead.
#[cfg(target_os = "linux")]
fn allocate(file: &File, from: u64, to: u64) -> std::io::Result<u64> {
    use rustix::{
        fs::{FallocateFlags, fallocate},
        io::Errno,
    };
    match fallocate(file, FallocateFlags::KEEP_SIZE, from, to - from) {
        Ok(()) => Ok(to),
        Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::INTR)) => Err(error.into()),
        Err(_) => Ok(u64::MAX),
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: &File, _: u64, _: u64) -> std::io::Result<u64> {
    Ok(u64::MAX)
}

fn name(first: Sequence) -> String {
    format!("log.{:016x}", first.0)
}

pub(super) fn header(first: Sequence, store: StoreId) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&first.0.to_le_bytes());
    header[24..32].copy_from_slice(&store.0.to_le_bytes());
    let crc = header_crc(&header);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    header
}

fn header_crc(header: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..12]), &header[16..HEADER_BYTES])
}

/// What the header of a segment contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Header {
    /// First sequence and store.
    Whole(Sequence, StoreId),
    /// Written by a program of another format.
    Version(u32),
    /// The header is damaged.
    Bad,
}

pub(super) fn read_header(bytes: &[u8]) -> Header {
    let Some(header) = bytes.get(..HEADER_BYTES) else { return Header::Bad };
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap_or_default());
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap_or_default());
    match (&header[..8] == MAGIC, word(8)) {
        (true, VERSION) if word(12) == header_crc(header) => {
            Header::Whole(Sequence(number(16)), StoreId(number(24)))
        }
        // Format 1 had a checksum of its first 12 bytes only.
        (true, version) if version != VERSION && word(12) == crc32c::crc32c(&header[..12]) => {
            Header::Version(version)
        }
        _ => Header::Bad,
    }
}

pub(super) fn encode(
    out: &mut Vec<u8>,
    batch: &Batch,
    sequence: Sequence,
    fence: Fence,
    synced: Sequence,
) {
    assert!(synced < sequence, "3: a record is written after what it says was synced");
    let from = out.len();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&sequence.0.to_le_bytes());
    out.extend_from_slice(&fence.0.to_le_bytes());
    out.extend_from_slice(&synced.0.to_le_bytes());
    let (count, changes) = batch.raw();
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(changes);
    let body = (out.len() - from - RECORD_HEADER_BYTES) as u32;
    let crc = crc32c::crc32c(&out[from + 8..]);
    out[from..from + 4].copy_from_slice(&body.to_le_bytes());
    out[from + 4..from + 8].copy_from_slice(&crc.to_le_bytes());
}

/// Every segment of `directory` with its first sequence, oldest first.
pub(super) fn segments(directory: &Path) -> Result<Vec<(Sequence, PathBuf)>, StoreError> {
    let list = std::fs::read_dir(directory)
        .map_err(|e| StoreError::disk("list the metadata directory", e))?;
    let mut found = Vec::new();
    for entry in list {
        let entry = entry.map_err(|e| StoreError::disk("list the metadata directory", e))?;
        let file_name = entry.file_name();
        if let Some(hex) = file_name.to_str().and_then(|name| name.strip_prefix("log.")) {
            let first = u64::from_str_radix(hex, 16).ok().map(Sequence);
            let Some(first) = first.filter(|first| file_name.to_str() == Some(&name(*first)))
            else {
                return Err(StoreError::damaged(
                    directory,
                    &entry.path(),
                    0,
                    "its name is not that of a log segment",
                ));
            };
            found.push((first, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// The record at the start of `bytes` and its length; `None` if there is no whole record.
pub(super) fn decode(bytes: &[u8]) -> Option<(Record, usize)> {
    let header = bytes.get(..RECORD_HEADER_BYTES)?;
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap_or_default());
    let body_bytes = u32::from_le_bytes(header[..4].try_into().ok()?) as usize;
    let crc = u32::from_le_bytes(header[4..8].try_into().ok()?);
    if body_bytes > BODY_BYTES_MAX {
        return None;
    }
    let end = RECORD_HEADER_BYTES + body_bytes;
    let checked = bytes.get(8..end)?;
    if crc32c::crc32c(checked) != crc {
        return None;
    }
    let (count, changes) = bytes[RECORD_HEADER_BYTES..end].split_first_chunk::<4>()?;
    let batch = Batch::from_raw(u32::from_le_bytes(*count), changes)?;
    let (sequence, fence, synced) = (Sequence(number(8)), Fence(number(16)), Sequence(number(24)));
    Some((Record { sequence, fence, synced, batch }, end))
}

/// The next whole record at or after `from` whose sequence is later than `after`, and where it
/// begins.
pub(super) fn next_record(
    bytes: &[u8],
    from: usize,
    after: Sequence,
) -> Option<(usize, Record, usize)> {
    (from..bytes.len().saturating_sub(RECORD_HEADER_BYTES)).find_map(|at| {
        // The sequence is compared first: a checksum at every byte would take minutes.
        let sequence = u64::from_le_bytes(bytes[at + 8..at + 16].try_into().ok()?);
        let plausible =
            sequence.checked_sub(after.0).is_some_and(|ahead| (1..=AHEAD_MAX).contains(&ahead));
        let (record, length) = plausible.then(|| decode(&bytes[at..]))??;
        Some((at, record, length))
    })
}

/// How far ahead the sequence of a record after a bad one may be: more than all segments can hold.
const AHEAD_MAX: u64 = 1 << 24;

/// Makes the creation and removal of names in `directory` durable.
pub(crate) fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    let synced = names_of(directory)?.map_or(Ok(()), |names| names.sync_all());
    synced.map_err(|e| StoreError::disk("sync the metadata directory", e))
}

/// A handle to sync the names in `directory`. Windows stores them with the files.
pub(super) fn names_of(directory: &Path) -> Result<Option<File>, StoreError> {
    if !cfg!(unix) {
        return Ok(None);
    }
    File::open(directory).map(Some).map_err(|e| StoreError::disk("open the metadata directory", e))
}
