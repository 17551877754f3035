//! `st_ino` of files that were moved to another branch: a file keeps its number.
//!
//! A number is computed from the branch and the inode there ([`Union::index_of`]), so only moved
//! files need a record: the inode where the file is now, and its number. The records are in the
//! file `numbers` of the metadata directory. If it is lost, moved files get other numbers, and
//! nothing else is lost.
//!
//! 1. The record is on disk before the old inode is freed: another file may get that inode, and
//!    must not have the number of the moved file.
//! 2. A later record of the same inode replaces an earlier one.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::{
        RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::io::Errno;

use crate::{PoolError, Result, Union, error::During, private_files};

const FILE: &str = "numbers";
/// `inode`, `number`: 8 bytes each; `branch`, `kind`: 1 each; 2 of zero; a checksum of 4.
const RECORD_BYTES: usize = 24;
/// No valid file is longer: 2^26 moves. It is written again at each start, without what is over.
const BYTES_MAX: u64 = (RECORD_BYTES as u64) << 26;
/// The number of a file whose own number belongs to a file that was moved away.
const SUBSTITUTE: u64 = 1 << 63;

/// The records.
#[derive(Debug)]
pub(crate) struct Numbers {
    path: PathBuf,
    /// Whether there is any record: most unions have none.
    any: AtomicBool,
    tables: RwLock<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    /// By number of the branch and inode.
    by_inode: HashMap<(u8, u64), u64>,
    /// How often each number is in `by_inode`: twice during a move of a moved file.
    taken: HashMap<u64, u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Record {
    branch: u8,
    inode: u64,
    /// `None`: the inode has its own number again.
    number: Option<u64>,
}

impl Record {
    fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.inode.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.unwrap_or(0).to_le_bytes());
        bytes[16] = self.branch;
        bytes[17] = u8::from(self.number.is_some());
        let sum = checksum(&bytes[..20]);
        bytes[20..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| bytes.get(at..at + 8)?.try_into().map(u64::from_le_bytes).ok();
        let sum = u32::from_le_bytes(bytes.get(20..RECORD_BYTES)?.try_into().ok()?);
        if sum != checksum(&bytes[..20]) {
            return None;
        }
        let number = match bytes[17] {
            0 => None,
            1 => Some(word(8)?),
            _ => return None,
        };
        Some(Self { branch: bytes[16], inode: word(0)?, number })
    }
}

/// FNV-1a: it finds a torn write, which is all that is asked of it.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

impl Tables {
    fn apply(&mut self, record: Record) {
        let key = (record.branch, record.inode);
        let old = match record.number {
            Some(number) => {
                *self.taken.entry(number).or_default() += 1;
                self.by_inode.insert(key, number)
            }
            None => self.by_inode.remove(&key),
        };
        if let Some(old) = old
            && let Some(count) = self.taken.get_mut(&old)
        {
            *count -= 1;
            if *count == 0 {
                self.taken.remove(&old);
            }
        }
    }
}

impl Numbers {
    /// Reads the records of the metadata directory. One that is damaged does not count.
    pub(crate) fn open(meta: &Path) -> std::result::Result<Self, PoolError> {
        let path = meta.join(FILE);
        let what = || format!("reading {}", path.display());
        let mut bytes = Vec::new();
        match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            file => {
                let limited = file.during(what)?.take(BYTES_MAX);
                std::io::BufReader::new(limited).read_to_end(&mut bytes).during(what)?;
            }
        }
        let mut tables = Tables::default();
        bytes.chunks(RECORD_BYTES).filter_map(Record::from_bytes).for_each(|one| tables.apply(one));
        let any = AtomicBool::new(!tables.by_inode.is_empty());
        Ok(Self { path, any, tables: RwLock::new(tables) })
    }

    /// Writes the file again, without records that are over.
    ///
    /// # Errors
    /// It cannot be written. It is the old one then.
    pub(crate) fn compact(&self) -> std::result::Result<(), PoolError> {
        let tables = self.tables.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut bytes = Vec::with_capacity(tables.by_inode.len() * RECORD_BYTES);
        for (&(branch, inode), &number) in &tables.by_inode {
            bytes.extend_from_slice(&Record { branch, inode, number: Some(number) }.to_bytes());
        }
        let new = self.path.with_extension("new");
        let what = || format!("writing {}", self.path.display());
        match fs::metadata(&self.path) {
            Err(_) if bytes.is_empty() => return Ok(()),
            Ok(old) if old.len() == bytes.len() as u64 => return Ok(()),
            _ => {}
        }
        private_files::create(&new)
            .and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&new, &self.path))
            .during(what)
    }

    /// Files got new inodes: each has the number from now on, also after a loss of power.
    pub(crate) fn set(&self, moved: impl Iterator<Item = (u8, u64, u64)>) -> Result<()> {
        let records =
            moved.map(|(branch, inode, number)| Record { branch, inode, number: Some(number) });
        self.append(records.collect())
    }

    /// Inodes are freed, or were not used after all.
    pub(crate) fn forget(&self, freed: impl Iterator<Item = (u8, u64)>) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let tables = self.tables.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let known = freed.filter(|key| tables.by_inode.contains_key(key));
        let records: Vec<Record> =
            known.map(|(branch, inode)| Record { branch, inode, number: None }).collect();
        drop(tables);
        if let Err(error) = self.append(records) {
            tracing::warn!(path = %self.path.display(), %error, "recording file numbers failed");
        }
    }

    fn append(&self, records: Vec<Record>) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let io = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let mut tables = self.tables.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut file = private_files::options().append(true).open(&self.path).map_err(io)?;
        // After a torn write: the next record begins where one can be found.
        let whole = file.metadata().map_err(io)?.len() / RECORD_BYTES as u64 * RECORD_BYTES as u64;
        file.set_len(whole).map_err(io)?;
        let bytes: Vec<u8> = records.iter().flat_map(|record| record.to_bytes()).collect();
        file.write_all(&bytes).and_then(|()| file.sync_data()).map_err(io)?;
        records.into_iter().for_each(|record| tables.apply(record));
        self.any.store(!tables.by_inode.is_empty(), Ordering::Release);
        Ok(())
    }
}

impl Union {
    /// `st_ino` of a file: the branch and the inode there, so it is the same after a restart; or
    /// the number that a moved file has had before.
    pub(crate) fn index_of(&self, branch: usize, inode: u64) -> u64 {
        /// Local file systems have shorter inode numbers; what exceeds it is folded in.
        const INODE_BITS: u32 = 54;
        let mask = (1 << INODE_BITS) - 1;
        let folded = inode & mask ^ inode >> INODE_BITS;
        let branch = self.branches[branch].number;
        // Numbers of branches begin with 0, and the union's root is 1.
        let own = (u64::from(branch) + 1) << INODE_BITS | folded;
        if !self.numbers.any.load(Ordering::Acquire) {
            return own;
        }
        let tables = self.numbers.tables.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        match tables.by_inode.get(&(branch, inode)) {
            Some(number) => *number,
            None if tables.taken.contains_key(&own) => own | SUBSTITUTE,
            None => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &Numbers, branch: u8, inode: u64) -> Option<u64> {
        numbers.tables.read().unwrap().by_inode.get(&(branch, inode)).copied()
    }

    #[test]
    fn records_are_read_again_and_damaged_ones_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let numbers = Numbers::open(dir.path()).unwrap();
        numbers.set([(0, 5, 77), (1, 6, 78)].into_iter()).unwrap();
        numbers.set([(2, 9, 77)].into_iter()).unwrap();
        numbers.forget([(0, 5), (0, 1)].into_iter());
        let path = dir.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        assert_eq!(whole.len(), 4 * RECORD_BYTES);

        let numbers = Numbers::open(dir.path()).unwrap();
        let all = |numbers: &Numbers| [(0, 5), (1, 6), (2, 9)].map(|(b, i)| of(numbers, b, i));
        assert_eq!(all(&numbers), [None, Some(78), Some(77)]);
        assert_eq!(numbers.tables.read().unwrap().taken[&77], 1);
        // Each byte of one record wrong in turn: the others count.
        for at in RECORD_BYTES..2 * RECORD_BYTES {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            fs::write(&path, damaged).unwrap();
            assert_eq!(all(&Numbers::open(dir.path()).unwrap()), [None, None, Some(77)]);
        }
        // A torn write at the end, and a record after it.
        fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        let numbers = Numbers::open(dir.path()).unwrap();
        numbers.set([(3, 3, 3)].into_iter()).unwrap();
        let numbers = Numbers::open(dir.path()).unwrap();
        assert_eq!(of(&numbers, 3, 3), Some(3));
        numbers.forget([(3, 3), (0, 5)].into_iter());
        numbers.compact().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 2 * RECORD_BYTES as u64);
        assert_eq!(all(&Numbers::open(dir.path()).unwrap()), [None, Some(78), Some(77)]);
    }
}
