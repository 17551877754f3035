//! The log: every committed batch as one checksummed record, in segment files.
//!
//! ```text
//! log.<first sequence, 16 hex digits>
//!   header  32 B   "BRAIDLOG" | version u32 | crc32c of the first 12 bytes u32 | first sequence u64 | zero u64
//!   record         body length u32 | crc32c u32 | sequence u64 | fence u64 | body
//!   body           count u32, then each change: key length u16 | value length u32 (!0: removed) | key | value
//! ```
//! All numbers little-endian. A record's checksum covers sequence, fence and body.
//!
//! 1. Records carry consecutive sequences, also across segments.
//! 2. A record is written with one `write`; what does not check out ends the log (a torn tail).
//! 3. A segment is deleted only when the base holds, synced, every batch in it.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use braid_types::limits::BATCH_BYTES_MAX;

use crate::store::{Batch, Fence, Sequence, StoreError};

const MAGIC: &[u8; 8] = b"BRAIDLOG";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 32;
const RECORD_HEADER_BYTES: usize = 24;

/// A segment that is being written.
pub(super) struct Segment {
    file: File,
    path: PathBuf,
    /// Length up to the last whole record.
    end: u64,
    buffer: Vec<u8>,
}

/// A batch as read back.
pub(super) struct Record {
    pub(super) sequence: Sequence,
    pub(super) fence: Fence,
    pub(super) batch: Batch,
}

impl Segment {
    /// A new segment whose first record will be `first`. Its name is not synced: whoever syncs the log does that.
    pub(super) fn create(directory: &Path, first: Sequence) -> Result<Self, StoreError> {
        let path = directory.join(format!("log.{:016x}", first.0));
        let mut options = super::private::options();
        options.read(true).write(true).create(true).truncate(true);
        let mut file = options.open(&path).map_err(|e| StoreError::disk("create a log segment", e))?;
        file.write_all(&header(first)).map_err(|e| StoreError::disk("write a log header", e))?;
        Ok(Self { file, path, end: HEADER_BYTES as u64, buffer: Vec::with_capacity(4096) })
    }

    /// Appends one record. On an error the segment is cut back to where it was; `Stopped` when that failed too.
    pub(super) fn append(&mut self, batch: &Batch, sequence: Sequence, fence: Fence) -> Result<(), StoreError> {
        self.buffer.clear();
        encode(&mut self.buffer, batch, sequence, fence);
        match self.file.write_all(&self.buffer) {
            Ok(()) => {
                self.end += self.buffer.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.cut_back()?;
                Err(StoreError::disk("append to the log", error))
            }
        }
    }

    fn cut_back(&mut self) -> Result<(), StoreError> {
        use std::io::{Seek, SeekFrom};
        let cut = self.file.set_len(self.end).and_then(|()| self.file.seek(SeekFrom::Start(self.end)));
        cut.map(|_| ()).map_err(|_| StoreError::Stopped)
    }

    /// A second handle to sync by, and where the segment lies.
    pub(super) fn handle(&self) -> Result<(File, PathBuf), StoreError> {
        let file = self.file.try_clone().map_err(|e| StoreError::disk("duplicate a log handle", e))?;
        Ok((file, self.path.clone()))
    }
}

fn header(first: Sequence) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let crc = crc32c::crc32c(&header[..12]);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    header[16..24].copy_from_slice(&first.0.to_le_bytes());
    header
}

fn encode(out: &mut Vec<u8>, batch: &Batch, sequence: Sequence, fence: Fence) {
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&sequence.0.to_le_bytes());
    out.extend_from_slice(&fence.0.to_le_bytes());
    let (count, changes) = batch.raw();
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(changes);
    let body = (out.len() - RECORD_HEADER_BYTES) as u32;
    let crc = crc32c::crc32c(&out[8..]);
    out[..4].copy_from_slice(&body.to_le_bytes());
    out[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Every segment of `directory` with its first sequence, oldest first.
pub(super) fn segments(directory: &Path) -> Result<Vec<(Sequence, PathBuf)>, StoreError> {
    let list = std::fs::read_dir(directory).map_err(|e| StoreError::disk("list the metadata directory", e))?;
    let mut found = Vec::new();
    for entry in list {
        let entry = entry.map_err(|e| StoreError::disk("list the metadata directory", e))?;
        let name = entry.file_name();
        if let Some(hex) = name.to_str().and_then(|name| name.strip_prefix("log.")) {
            let first = u64::from_str_radix(hex, 16);
            let first = first.map_err(|_| StoreError::Corrupted(format!("{name:?} is not a log segment")))?;
            found.push((Sequence(first), entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a segment's records in order until its end or its first torn record. `visit` may end it early.
pub(super) fn replay(path: &Path, visit: &mut dyn FnMut(Record) -> Result<bool, StoreError>) -> Result<(), StoreError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|e| StoreError::disk("read a log segment", e))?;
    if !header_checks_out(&bytes, path)? {
        return Ok(());
    }
    let mut rest = &bytes[HEADER_BYTES..];
    while let Some((record, after)) = decode(rest) {
        rest = after;
        if !visit(record)? {
            break;
        }
    }
    Ok(())
}

/// A header cut short by the loss of power belongs to a segment without records.
fn header_checks_out(bytes: &[u8], path: &Path) -> Result<bool, StoreError> {
    if bytes.len() < HEADER_BYTES || crc32c::crc32c(&bytes[..12]).to_le_bytes() != bytes[12..16] {
        return Ok(false);
    }
    if &bytes[..8] != MAGIC || bytes[8..12] != VERSION.to_le_bytes() {
        let what = format!("{} is a log of a format this program does not know", path.display());
        return Err(StoreError::Corrupted(what));
    }
    Ok(true)
}

fn decode(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let header = bytes.get(..RECORD_HEADER_BYTES)?;
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap_or_default());
    let body_bytes = u32::from_le_bytes(header[..4].try_into().ok()?) as usize;
    let crc = u32::from_le_bytes(header[4..8].try_into().ok()?);
    if body_bytes > BATCH_BYTES_MAX + 64 {
        return None;
    }
    let end = RECORD_HEADER_BYTES + body_bytes;
    let checked = bytes.get(8..end)?;
    if crc32c::crc32c(checked) != crc {
        return None;
    }
    let (count, changes) = bytes[RECORD_HEADER_BYTES..end].split_first_chunk::<4>()?;
    let batch = Batch::from_raw(u32::from_le_bytes(*count), changes)?;
    Some((Record { sequence: Sequence(number(8)), fence: Fence(number(16)), batch }, &bytes[end..]))
}

/// Makes names made or removed in `directory` last.
pub(super) fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    let synced = names_of(directory)?.map_or(Ok(()), |names| names.sync_all());
    synced.map_err(|e| StoreError::disk("sync the metadata directory", e))
}

/// A handle to sync the names in `directory` by. Windows keeps them with the files.
pub(super) fn names_of(directory: &Path) -> Result<Option<File>, StoreError> {
    if !cfg!(unix) {
        return Ok(None);
    }
    File::open(directory).map(Some).map_err(|e| StoreError::disk("open the metadata directory", e))
}
