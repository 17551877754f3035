//! The numbers of files that clients know, and where the files are. It is on disk (`nfs-files` in
//! the pool's metadata directory), so that handles are valid after a restart.
//!
//! 1. A number is computed from the inode and its generation, so a new file gets another number
//!    than a removed one. If this file is lost, a file gets the same number when it is looked up.
//! 2. A write that fails loses only handles, after the next restart. Nothing else waits for it.

use std::{
    collections::HashMap,
    fs::{self, File},
    hash::Hasher,
    io::{self, Read},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use braid_share::FileIndex;
use braid_union::{BranchInode, PoolUuid};
use siphasher::sip::SipHasher24;

use crate::record::{HEADER, Place, Record};

/// The file is rewritten at a start if it has more records than twice its files and this.
const SPARE_RECORDS: usize = 1000;
/// Bytes of records that wait to be written.
const PENDING_BYTES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct FileTable {
    pool: PoolUuid,
    places: HashMap<FileIndex, Arc<[Place]>>,
    by_inode: HashMap<(u8, u64), FileIndex>,
    file: File,
    /// Bytes of whole records.
    length: u64,
    pending: Vec<u8>,
    failed: bool,
}

impl FileTable {
    /// Reads the table. What is damaged is left out.
    ///
    /// # Errors
    /// The file cannot be opened, read or written.
    pub(crate) fn open(path: &Path, pool: PoolUuid) -> io::Result<Self> {
        let file = private().create(true).truncate(false).open(path)?;
        let mut bytes = Vec::new();
        (&file).read_to_end(&mut bytes)?;
        let (places, by_inode) = (HashMap::new(), HashMap::new());
        let mut table =
            Self { pool, places, by_inode, file, length: 0, pending: Vec::new(), failed: false };
        let records = match bytes.strip_prefix(HEADER) {
            Some(records) => table.read(records),
            None => {
                if !bytes.is_empty() {
                    tracing::warn!(path = %path.display(), "no table of files: handles are lost");
                }
                usize::MAX
            }
        };
        if records > table.places.len().saturating_mul(2).saturating_add(SPARE_RECORDS) {
            table.rewrite(path)?;
        }
        Ok(table)
    }

    /// The number of records.
    fn read(&mut self, mut rest: &[u8]) -> usize {
        let (mut records, whole) = (0, rest.len());
        while let Some((record, length)) = Record::decode(rest) {
            self.apply(record);
            rest = &rest[length..];
            records += 1;
        }
        if !rest.is_empty() {
            tracing::warn!(bytes = rest.len(), "the end of the table of files is damaged");
        }
        self.length = (HEADER.len() + whole - rest.len()) as u64;
        // Later records must not follow bytes of a damaged one.
        let _ = self.file.set_len(self.length);
        records
    }

    fn rewrite(&mut self, path: &Path) -> io::Result<()> {
        let mut bytes = HEADER.to_vec();
        for (index, places) in &self.places {
            Record::Set(*index, places.to_vec()).encode(&mut bytes);
        }
        let new: PathBuf = path.with_extension("new");
        let file = private().create(true).truncate(true).open(&new)?;
        file.write_all_at(&bytes, 0)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        (self.file, self.length) = (file, bytes.len() as u64);
        Ok(())
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Set(index, places) => self.enter(index, places),
            Record::Forget(index) => self.leave(index),
        }
    }

    fn enter(&mut self, index: FileIndex, places: Vec<Place>) {
        self.leave(index);
        for place in &places {
            let inode = (place.inode.branch, place.inode.inode);
            if let Some(before) = self.by_inode.insert(inode, index)
                && before != index
            {
                // The inode belongs to another file now.
                self.remove_place(before, inode);
            }
        }
        self.places.insert(index, places.into());
    }

    fn leave(&mut self, index: FileIndex) {
        for place in self.places.remove(&index).iter().flat_map(|places| places.iter()) {
            let inode = (place.inode.branch, place.inode.inode);
            if self.by_inode.get(&inode) == Some(&index) {
                self.by_inode.remove(&inode);
            }
        }
    }

    fn remove_place(&mut self, index: FileIndex, inode: (u8, u64)) {
        let Some(places) = self.places.get_mut(&index) else { return };
        let is_other = |place: &&Place| (place.inode.branch, place.inode.inode) != inode;
        let left: Vec<Place> = places.iter().filter(is_other).cloned().collect();
        if left.is_empty() {
            self.places.remove(&index);
        } else {
            *places = left.into();
        }
    }

    /// Where a file is. Empty: nobody knows.
    pub(crate) fn places(&self, index: FileIndex) -> Arc<[Place]> {
        self.places.get(&index).cloned().unwrap_or_default()
    }

    /// The number of the file that last had an inode.
    pub(crate) fn by_inode(&self, branch: u8, inode: u64) -> Option<FileIndex> {
        self.by_inode.get(&(branch, inode)).copied()
    }

    /// The number of a file that is at these places: the known one, or a new one.
    pub(crate) fn number(&mut self, places: Vec<Place>) -> FileIndex {
        let known = places.iter().find_map(|place| {
            let index = self.by_inode(place.inode.branch, place.inode.inode)?;
            let has = |known: &Place| known.inode == place.inode;
            self.places(index).iter().any(has).then_some(index)
        });
        let index = known.unwrap_or_else(|| self.new_number(&places));
        self.set(index, places);
        index
    }

    /// A file has moved, or is a directory that is on other branches now.
    pub(crate) fn set(&mut self, index: FileIndex, places: Vec<Place>) {
        if *self.places(index) != *places {
            self.append(&Record::Set(index, places.clone()));
            self.enter(index, places);
        }
    }

    /// A file was removed.
    pub(crate) fn forget(&mut self, index: FileIndex) {
        if self.places.contains_key(&index) {
            self.append(&Record::Forget(index));
            self.leave(index);
        }
    }

    fn new_number(&self, places: &[Place]) -> FileIndex {
        let first = places.first().map(|place| &place.inode);
        let taken =
            |index: &FileIndex| *index <= FileIndex::ROOT || self.places.contains_key(index);
        let mut numbers = (0..).map(|try_number| hash(self.pool, first, try_number));
        numbers.find(|index| !taken(index)).unwrap_or(FileIndex(u64::MAX))
    }

    fn append(&mut self, record: &Record) {
        record.encode(&mut self.pending);
        if self.pending.len() > PENDING_BYTES_MAX {
            self.flush();
        }
    }

    /// Writes what is pending, so that it outlives this process. It is not synced: after a loss of
    /// power the handles of the last seconds may be stale.
    pub(crate) fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        // At the end of the last whole record, also after a write that failed halfway.
        match self.file.write_all_at(&self.pending, self.length) {
            Ok(()) => {
                self.length += self.pending.len() as u64;
                self.failed = false;
            }
            Err(error) if !self.failed => {
                self.failed = true;
                tracing::warn!(%error, "writing the table of files failed: new handles of NFS \
                                        clients are stale after a restart");
            }
            Err(_) => {}
        }
        self.pending.clear();
    }
}

/// Only the pool's owner reads and writes the file, whatever the umask is.
fn private() -> fs::OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    options
}

fn hash(pool: PoolUuid, inode: Option<&BranchInode>, try_number: u32) -> FileIndex {
    let mut hasher = SipHasher24::new_with_key(&pool.0);
    hasher.write(&try_number.to_le_bytes());
    if let Some(BranchInode { branch, inode, created, handle }) = inode {
        hasher.write(&[*branch]);
        hasher.write(&inode.to_le_bytes());
        hasher.write(&created.seconds.to_le_bytes());
        hasher.write(&created.nanoseconds.to_le_bytes());
        if let Some(handle) = handle {
            hasher.write(&handle.kind.to_le_bytes());
            hasher.write(&handle.bytes);
        }
    }
    FileIndex(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::place;

    const POOL: PoolUuid = PoolUuid([7; 16]);

    #[test]
    fn numbers_are_the_same_after_a_restart_and_without_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nfs-files");
        let mut table = FileTable::open(&path, POOL).unwrap();
        let one = table.number(vec![place(1)]);
        let two = table.number(vec![place(2)]);
        assert!(one != two && one > FileIndex::ROOT);
        // A move to another branch keeps the number.
        let mut moved = place(77);
        moved.inode.branch = 4;
        table.set(two, vec![moved.clone()]);
        table.flush();
        drop(table);
        let mut table = FileTable::open(&path, POOL).unwrap();
        assert_eq!(table.number(vec![moved]), two);
        assert_eq!(table.number(vec![place(1)]), one);
        fs::remove_file(&path).unwrap();
        let mut table = FileTable::open(&path, POOL).unwrap();
        assert!(table.places(one).is_empty());
        assert_eq!(table.number(vec![place(1)]), one);
    }

    #[test]
    fn a_new_file_in_an_old_inode_gets_a_new_number() {
        let dir = tempfile::tempdir().unwrap();
        let mut table = FileTable::open(&dir.path().join("nfs-files"), POOL).unwrap();
        let old = table.number(vec![place(1)]);
        let mut next = place(1);
        next.inode.handle.as_mut().unwrap().bytes = b"next".as_slice().into();
        let new = table.number(vec![next.clone()]);
        assert_ne!(new, old);
        assert!(table.places(old).is_empty(), "nobody finds the old one");
        assert_eq!(table.by_inode(3, 1), Some(new));
        assert_eq!(table.number(vec![next]), new);
    }

    #[test]
    fn a_damaged_end_loses_only_what_is_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nfs-files");
        let mut table = FileTable::open(&path, POOL).unwrap();
        let numbers: Vec<_> = (1..4).map(|inode| table.number(vec![place(inode)])).collect();
        table.flush();
        drop(table);
        let mut bytes = fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let mut table = FileTable::open(&path, POOL).unwrap();
        assert_eq!(table.places(numbers[1]).len(), 1);
        assert!(table.places(numbers[2]).is_empty());
        let again = table.number(vec![place(9)]);
        table.flush();
        let table = FileTable::open(&path, POOL).unwrap();
        assert_eq!(table.places(again).len(), 1);
        fs::write(&path, b"something else").unwrap();
        assert!(FileTable::open(&path, POOL).unwrap().places.is_empty());
    }

    #[test]
    fn a_table_of_removed_files_is_rewritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nfs-files");
        let mut table = FileTable::open(&path, POOL).unwrap();
        let kept = table.number(vec![place(u64::MAX)]);
        for inode in 1..SPARE_RECORDS as u64 + 10 {
            let number = table.number(vec![place(inode)]);
            table.forget(number);
        }
        table.flush();
        drop(table);
        let table = FileTable::open(&path, POOL).unwrap();
        assert!(fs::metadata(&path).unwrap().len() < 1000);
        assert_eq!(table.places(kept).len(), 1);
        drop(table);
        assert_eq!(FileTable::open(&path, POOL).unwrap().places(kept).len(), 1);
    }
}
