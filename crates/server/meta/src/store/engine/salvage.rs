//! Copies what is readable out of a damaged store. The store itself is only read.
//!
//! 1. From the base, every record whose checksum holds: by the tree where it can be followed,
//!    otherwise from pages that neither the tree nor the free tree accounts for.
//! 2. From the log, in order, every whole record after the base's sequence, also after a bad one.
//!    Each is a whole operation; skipping thousands because of one would lose more. `fsck` finds
//!    what is inconsistent then.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::base::{self, BaseState, SalvagedBase};
use super::lmdb_pages::Bad;
use super::log;
use super::{StoreId, SyncedFile};
use crate::store::{Batch, Fence, Sequence, StoreError};

/// Lines of one kind in a report; further ones are only counted.
const LINES_MAX: usize = 100;
/// Bytes of base records passed on at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// What was copied out of a damaged store, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvagedRecords {
    /// Records of the base.
    pub base_records: u64,
    /// Records that the base's meta page counts and that its pages do not lead to.
    pub base_lost: u64,
    /// Copies of such records, also older ones, found in other pages of the base.
    pub base_strays: u64,
    /// Batches of the log.
    pub batches: u64,
    /// Ranges of lost batches, first and last, ascending.
    pub lost: Vec<(u64, u64)>,
    /// The last batch that was found.
    pub last: u64,
    /// What is wrong with the files, one line each; at most `LINES_MAX` per file.
    pub damage: Vec<String>,
    /// Names in damaged bytes of the log: names of files that may be lost.
    pub names: BTreeSet<Vec<u8>>,
    /// The newest leader fence.
    pub fence: Fence,
}

/// Passes the records of a damaged store to `apply`; a later one replaces an earlier one.
pub(crate) fn salvage_records(
    directory: &Path,
    apply: &mut dyn FnMut(Batch) -> Result<(), StoreError>,
) -> Result<SalvagedRecords, StoreError> {
    let mut salvaged = SalvagedRecords::default();
    let base = salvage_base(directory, &mut salvaged, apply)?;
    salvaged.fence = base.state.fence;
    let store = SyncedFile::open(directory).ok().map(|(_, store, _)| store).or(base.store);
    salvage_log(directory, (base.state, store), &mut salvaged, apply)?;
    Ok(salvaged)
}

fn note(damage: &mut Vec<String>, file: &Path, Bad { offset, why }: &Bad) {
    let line = format!("{} at byte {offset}: {why}", file.display());
    if damage.len() < LINES_MAX && damage.last() != Some(&line) {
        damage.push(line);
    }
}

fn salvage_base(
    directory: &Path,
    salvaged: &mut SalvagedRecords,
    apply: &mut dyn FnMut(Batch) -> Result<(), StoreError>,
) -> Result<SalvagedBase, StoreError> {
    let file = base::base_file(directory);
    let (mut batch, mut outcome) = (Batch::new(), Ok(()));
    let mut damage = Vec::new();
    let mut on_record = |key: &[u8], value: &[u8]| {
        if batch.bytes() + key.len() + value.len() >= CHUNK_BYTES && outcome.is_ok() {
            outcome = apply(std::mem::take(&mut batch));
        }
        batch.put(key, value);
    };
    let mut on_bad = |bad: Bad, _: &[u8], _: Option<&[u8]>| {
        note(&mut damage, &file, &bad);
        Ok(())
    };
    let found = base::salvage(directory, &mut on_record, &mut on_bad);
    let found = found.unwrap_or_else(|bad| {
        note(&mut damage, &file, &bad);
        SalvagedBase::default()
    });
    outcome?;
    apply(batch)?;
    if let (Some(base), Ok((_, store, _))) = (found.store, SyncedFile::open(directory))
        && base != store
    {
        let why = format!(
            "it belongs to store {:016x}, not to {:016x}; put back the file of this store",
            base.0, store.0
        );
        return Err(StoreError::Corrupted(format!("{}: {why}", file.display())));
    }
    (salvaged.base_records, salvaged.base_lost, salvaged.base_strays) =
        (found.followed, found.lost, found.strays);
    salvaged.damage.append(&mut damage);
    Ok(found)
}

fn salvage_log(
    directory: &Path,
    (state, store): (BaseState, Option<StoreId>),
    salvaged: &mut SalvagedRecords,
    apply: &mut dyn FnMut(Batch) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    salvaged.last = state.sequence.0;
    for (first, path) in segments(directory)? {
        let bytes = std::fs::read(&path).map_err(|e| StoreError::disk("read a log segment", e))?;
        let mut at = match log::read_header(&bytes) {
            log::Header::Whole(_, of) if store.is_some_and(|store| store != of) => {
                note(
                    &mut salvaged.damage,
                    &path,
                    &Bad { offset: 24, why: "it belongs to another store; skipped".into() },
                );
                continue;
            }
            log::Header::Whole(..) => log::HEADER_BYTES,
            _ => {
                note(
                    &mut salvaged.damage,
                    &path,
                    &Bad { offset: 0, why: "the header is damaged".into() },
                );
                0
            }
        };
        loop {
            let found = log::next_record(&bytes, at, state.sequence.max(first));
            let begin = found.as_ref().map_or(bytes.len(), |(begin, ..)| *begin);
            // Records that the base holds are skipped one by one.
            let mut held = at;
            while let Some((_, length)) = log::decode(&bytes[held..begin]) {
                held += length;
            }
            if held < begin && !(held == 0 && begin == log::HEADER_BYTES) {
                let why = format!("{} bytes that are not a whole record", begin - held);
                note(&mut salvaged.damage, &path, &Bad { offset: held as u64, why });
                salvaged.names.extend(names_in(&bytes[held..begin]).take(LINES_MAX));
            }
            let Some((begin, record, length)) = found else { break };
            at = begin + length;
            if record.sequence.0 <= salvaged.last {
                continue;
            }
            if record.sequence.0 > salvaged.last + 1 {
                salvaged.lost.push((salvaged.last + 1, record.sequence.0 - 1));
            }
            salvaged.last = record.sequence.0;
            salvaged.fence = salvaged.fence.max(record.fence);
            salvaged.batches += 1;
            apply(record.batch)?;
        }
    }
    // Synced batches that are missing at the end.
    let synced = SyncedFile::open(directory).map_or(Sequence(0), |(_, _, synced)| synced);
    if synced.0 > salvaged.last {
        salvaged.lost.push((salvaged.last + 1, synced.0));
        salvaged.last = synced.0;
    }
    Ok(())
}

/// Every segment with the sequence before its first. The sequence comes from the header if that is
/// whole, otherwise from the name.
fn segments(directory: &Path) -> Result<Vec<(Sequence, PathBuf)>, StoreError> {
    let list = std::fs::read_dir(directory)
        .map_err(|e| StoreError::disk("list the metadata directory", e))?;
    let mut found = Vec::new();
    for entry in list {
        let path = entry.map_err(|e| StoreError::disk("list the metadata directory", e))?.path();
        let name =
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(hex) = name.strip_prefix("log.").filter(|_| path.is_file()) else { continue };
        let mut header = Vec::new();
        let read = File::open(&path)
            .and_then(|file| file.take(log::HEADER_BYTES as u64).read_to_end(&mut header));
        read.map_err(|e| StoreError::disk("read a log segment", e))?;
        let first = match log::read_header(&header) {
            log::Header::Whole(first, _) => first.0,
            _ => u64::from_str_radix(hex, 16).unwrap_or(1),
        };
        found.push((Sequence(first.saturating_sub(1)), path));
    }
    found.sort();
    Ok(found)
}

/// Names of directory entries in damaged bytes: key length, value length, shard, `E`, directory,
/// name, then the entry's version.
fn names_in(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    const ENTRY_BYTES: u32 = 18;
    const BEFORE_NAME: usize = 6 + 11;
    (0..bytes.len().saturating_sub(BEFORE_NAME)).filter_map(|at| {
        let key_bytes = usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let value_bytes = u32::from_le_bytes(bytes[at + 2..at + 6].try_into().ok()?);
        let name = bytes.get(at + BEFORE_NAME..at + 6 + key_bytes)?;
        let is_entry = value_bytes == ENTRY_BYTES
            && bytes[at + 8] == b'E'
            && bytes.get(at + 6 + key_bytes) == Some(&1);
        (is_entry && !name.is_empty() && !name.contains(&0)).then(|| name.to_vec())
    })
}
