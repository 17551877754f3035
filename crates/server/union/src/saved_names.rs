//! The names of each branch, saved in the metadata directory: while a disk is missing, they say
//! which names are on it.
//!
//! The file `names-N` of the branch with number N is a log of records. A walk over the branch
//! writes a new one; meanwhile and afterwards each change of a name by this process is added. It is
//! read only while the disk is missing. A branch whose file is lost or damaged has unknown names:
//! then a lookup of a name that no other branch has is an error, as if there were no file.
//!
//! 1. A file under its final name has all names that the branch had when its walk ended, and those
//!    that came through the union since. Those that came directly on the disk since are not there.
//! 2. It may have names that are gone.
//! 3. A record that is damaged ends the reading: the names are not complete then.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufReader, ErrorKind, Read, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rustix::fs::Statx;

use crate::{
    attributes::{S_IFMT, Time},
    node::{Copy, lock},
    numbers::checksum,
    private_files,
};

/// `checksum`: 4 bytes; `operation`, `kind`: 1 each; length of the name: 2; `directory`, `file`: 20
/// each. The name follows.
const HEADER_BYTES: usize = 48;
/// Names of one branch at most. An estimate: 2^26 take 10 GiB here.
const NAMES_MAX: usize = 1 << 26;

const ROOT: u8 = 1;
const ADDED: u8 = 2;
const REMOVED: u8 = 3;
/// `DT_DIR`.
pub(crate) const DIRECTORY: u8 = 4;

/// An inode of a branch: its number is used again after it was removed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Inode {
    pub(crate) number: u64,
    pub(crate) created: Time,
}

impl From<Copy> for Inode {
    fn from(copy: Copy) -> Self {
        Self { number: copy.inode, created: copy.created }
    }
}

impl From<&Statx> for Inode {
    fn from(stat: &Statx) -> Self {
        Self { number: stat.stx_ino, created: stat.stx_btime.into() }
    }
}

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SavedFile {
    pub(crate) inode: Inode,
    /// `DT_*`.
    pub(crate) kind: u8,
}

impl SavedFile {
    pub(crate) fn is_directory(self) -> bool {
        self.kind == DIRECTORY
    }
}

impl From<&Statx> for SavedFile {
    fn from(stat: &Statx) -> Self {
        let kind = (u32::from(stat.stx_mode) & S_IFMT) >> 12;
        Self { inode: stat.into(), kind: kind as u8 }
    }
}

/// A change of a branch's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change<'n> {
    /// Its root.
    Root(Inode),
    /// A name in a directory.
    Added(Inode, &'n [u8], SavedFile),
    Removed(Inode, &'n [u8]),
}

impl Change<'_> {
    fn to_bytes(self) -> Vec<u8> {
        let none = (Inode::default(), 0);
        let (operation, directory, name, (inode, kind)): (_, _, &[u8], _) = match self {
            Self::Root(root) => (ROOT, root, b"", none),
            Self::Added(directory, name, file) => (ADDED, directory, name, (file.inode, file.kind)),
            Self::Removed(directory, name) => (REMOVED, directory, name, none),
        };
        let length = u16::try_from(name.len()).expect("names have at most 255 bytes");
        let mut bytes = Vec::with_capacity(HEADER_BYTES + name.len());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&[operation, kind]);
        bytes.extend_from_slice(&length.to_le_bytes());
        for inode in [directory, inode] {
            bytes.extend_from_slice(&inode.number.to_le_bytes());
            bytes.extend_from_slice(&inode.created.seconds.to_le_bytes());
            bytes.extend_from_slice(&inode.created.nanoseconds.to_le_bytes());
        }
        bytes.extend_from_slice(name);
        let sum = checksum(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

/// The inode at a place of a record.
fn inode(header: &[u8; HEADER_BYTES], at: usize) -> Inode {
    let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let nanoseconds = u32::from_le_bytes(header[at + 16..at + 20].try_into().expect("4 bytes"));
    let created = Time { seconds: word(at + 8).cast_signed(), nanoseconds };
    Inode { number: word(at), created }
}

/// The names of a branch, in memory.
#[derive(Debug, Default)]
pub(crate) struct NamesOfBranch {
    pub(crate) root: Option<Inode>,
    directories: HashMap<Inode, HashMap<Box<[u8]>, SavedFile>>,
    names: usize,
    /// Whether the file was read to its end.
    is_complete: bool,
}

/// What is known of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Saved {
    There(SavedFile),
    Absent,
    Unknown,
}

impl NamesOfBranch {
    fn apply(&mut self, change: Change<'_>) {
        match change {
            Change::Root(root) => self.root = Some(root),
            Change::Added(directory, name, file) => {
                let names = self.directories.entry(directory).or_default();
                self.names += usize::from(names.insert(name.into(), file).is_none());
            }
            Change::Removed(directory, name) => {
                let names = self.directories.get_mut(&directory);
                self.names -= usize::from(names.is_some_and(|names| names.remove(name).is_some()));
            }
        }
    }

    pub(crate) fn get(&self, directory: Inode, name: &[u8]) -> Saved {
        match self.directories.get(&directory).and_then(|names| names.get(name)) {
            Some(file) => Saved::There(*file),
            None if self.is_complete => Saved::Absent,
            None => Saved::Unknown,
        }
    }

    /// The names in a directory.
    pub(crate) fn list(&self, directory: Inode) -> impl Iterator<Item = (&[u8], SavedFile)> {
        let names = self.directories.get(&directory).into_iter().flatten();
        names.map(|(name, file)| (&**name, *file))
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Reads the records. Ends at the first that is damaged.
    fn read(mut from: impl Read) -> Self {
        let mut read = Self::default();
        loop {
            let mut header = [0; HEADER_BYTES];
            match read_whole(&mut from, &mut header) {
                Some(0) => break,
                Some(HEADER_BYTES) => {}
                _ => return read,
            }
            let length = usize::from(u16::from_le_bytes([header[6], header[7]]));
            let mut record = header.to_vec();
            record.resize(HEADER_BYTES + length, 0);
            let name = &mut record[HEADER_BYTES..];
            if read_whole(&mut from, name) != Some(length) || read.names >= NAMES_MAX {
                return read;
            }
            let sum = u32::from_le_bytes(header[..4].try_into().expect("4 bytes"));
            if sum != checksum(&record[4..]) {
                return read;
            }
            let name = &record[HEADER_BYTES..];
            let directory = inode(&header, 8);
            let change = match header[4] {
                ROOT => Change::Root(directory),
                ADDED => {
                    let file = SavedFile { inode: inode(&header, 28), kind: header[5] };
                    Change::Added(directory, name, file)
                }
                REMOVED => Change::Removed(directory, name),
                _ => return read,
            };
            read.apply(change);
        }
        read.is_complete = read.root.is_some();
        read
    }
}

/// How many bytes there were, at most those of the buffer. `None`: reading failed.
fn read_whole(from: &mut impl Read, buffer: &mut [u8]) -> Option<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match from.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(done)
}

/// The file of a branch.
#[derive(Debug)]
pub(crate) struct SavedNames {
    path: PathBuf,
    files: Mutex<Files>,
    /// Read while the disk is missing.
    loaded: Mutex<Option<Arc<NamesOfBranch>>>,
}

#[derive(Debug, Default)]
struct Files {
    current: Option<File>,
    /// What a walk is writing.
    new: Option<File>,
    /// When the next walk begins. `None`: now.
    due: Option<Instant>,
}

impl SavedNames {
    pub(crate) fn new(meta: &Path, number: u8) -> Self {
        let path = meta.join(format!("names-{number}"));
        Self { path, files: Mutex::default(), loaded: Mutex::default() }
    }

    /// Changes are added to the file from now on, if there is one.
    pub(crate) fn open(&self) {
        let current = File::options().append(true).open(&self.path);
        lock(&self.files).current = current.ok();
    }

    /// A name of the branch has changed. If that cannot be written, the file is removed: it would
    /// not be right any more.
    pub(crate) fn note(&self, change: Change<'_>) {
        let mut files = lock(&self.files);
        if files.current.is_none() && files.new.is_none() {
            return;
        }
        let bytes = change.to_bytes();
        let Files { current, new, .. } = &mut *files;
        if let Some(Err(error)) = current.as_mut().map(|file| file.write_all(&bytes)) {
            tracing::warn!(path = %self.path.display(), %error, "saving a name failed");
            let _ = fs::remove_file(&self.path);
            *current = None;
        }
        if new.as_mut().is_some_and(|file| file.write_all(&bytes).is_err()) {
            // The walk notices it.
            *new = None;
        }
    }

    /// Whether it is time for a walk.
    pub(crate) fn is_due(&self) -> bool {
        lock(&self.files).due.is_none_or(|due| due <= Instant::now())
    }

    /// When the next walk begins.
    pub(crate) fn set_due(&self, after: Duration) {
        lock(&self.files).due = Instant::now().checked_add(after);
    }

    /// A walk over the branch begins.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(crate) fn begin(&self) -> std::io::Result<()> {
        let new = private_files::create(&self.path.with_extension("new"))?;
        lock(&self.files).new = Some(new);
        Ok(())
    }

    /// What the walk has found. Returns false if it cannot be written.
    pub(crate) fn found(&self, found: &[Change<'_>]) -> bool {
        let bytes: Vec<u8> = found.iter().flat_map(|change| change.to_bytes()).collect();
        let mut files = lock(&self.files);
        let written = files.new.as_mut().map(|file| file.write_all(&bytes));
        let written = matches!(written, Some(Ok(())));
        if !written {
            files.new = None;
        }
        written
    }

    /// The walk has ended: its file replaces the earlier one, after a loss of power too.
    ///
    /// # Errors
    /// The file cannot be written. The earlier one stays.
    pub(crate) fn end(&self) -> std::io::Result<()> {
        let mut files = lock(&self.files);
        let new = files.new.take().ok_or(ErrorKind::StorageFull)?;
        new.sync_all()?;
        fs::rename(self.path.with_extension("new"), &self.path)?;
        files.current = Some(new);
        Ok(())
    }

    /// The walk was not ended.
    pub(crate) fn give_up(&self) {
        lock(&self.files).new = None;
        let _ = fs::remove_file(self.path.with_extension("new"));
    }

    /// The branch leaves the pool.
    pub(crate) fn remove(&self) {
        *lock(&self.files) = Files::default();
        let _ = fs::remove_file(&self.path);
    }

    /// Reads the names, for the time of a failure.
    pub(crate) fn load(&self) -> Arc<NamesOfBranch> {
        let names = File::open(&self.path).map_or_else(
            |_| NamesOfBranch::default(),
            |file| NamesOfBranch::read(BufReader::with_capacity(1 << 20, file)),
        );
        let names = Arc::new(names);
        *lock(&self.loaded) = Some(Arc::clone(&names));
        names
    }

    /// The names that were loaded.
    pub(crate) fn loaded(&self) -> Option<Arc<NamesOfBranch>> {
        lock(&self.loaded).clone()
    }

    /// The disk is back.
    pub(crate) fn unload(&self) {
        *lock(&self.loaded) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode_of(number: u64) -> Inode {
        Inode { number, created: Time { seconds: -5, nanoseconds: 7 } }
    }

    fn file_of(number: u64, kind: u8) -> SavedFile {
        SavedFile { inode: inode_of(number), kind }
    }

    fn saved() -> (tempfile::TempDir, SavedNames) {
        let dir = tempfile::tempdir().unwrap();
        let saved = SavedNames::new(dir.path(), 3);
        saved.begin().unwrap();
        let (root, sub) = (inode_of(2), inode_of(3));
        assert!(saved.found(&[
            Change::Root(root),
            Change::Added(root, b"sub", file_of(3, DIRECTORY)),
            Change::Added(sub, b"old", file_of(4, 8)),
            Change::Added(sub, &[b'n'; 255], file_of(5, 8)),
        ]));
        saved.note(Change::Added(sub, b"new", file_of(6, 8)));
        saved.end().unwrap();
        saved.note(Change::Removed(sub, b"old"));
        (dir, saved)
    }

    #[test]
    fn names_are_read_as_they_were_saved_and_changed() {
        let (_dir, saved) = saved();
        let names = saved.load();
        assert_eq!(names.root, Some(inode_of(2)));
        assert_eq!(names.get(inode_of(2), b"sub"), Saved::There(file_of(3, DIRECTORY)));
        assert_eq!(names.get(inode_of(3), b"new"), Saved::There(file_of(6, 8)));
        assert_eq!(names.get(inode_of(3), b"old"), Saved::Absent);
        assert_eq!(names.list(inode_of(3)).count(), 2);
        assert_eq!(names.names, 3);
        saved.remove();
        assert_eq!(saved.load().get(inode_of(3), b"new"), Saved::Unknown);
    }

    #[test]
    fn a_damaged_record_leaves_the_names_after_it_unknown() {
        let (dir, saved) = saved();
        let path = dir.path().join("names-3");
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            let names = NamesOfBranch::read(&*damaged);
            assert!(!names.is_complete(), "byte {at}");
            assert_eq!(names.get(inode_of(3), b"other"), Saved::Unknown);
        }
        for length in 0..whole.len() {
            let names = NamesOfBranch::read(&whole[..length]);
            // The end of a record is a valid end, as after a kill.
            if names.is_complete() {
                assert!(length >= HEADER_BYTES, "{length}");
            }
        }
        drop(saved);
    }

    #[test]
    fn a_walk_that_was_not_ended_leaves_the_earlier_names() {
        let (_dir, saved) = saved();
        saved.begin().unwrap();
        assert!(saved.found(&[Change::Root(inode_of(9))]));
        saved.note(Change::Added(inode_of(3), b"later", file_of(7, 8)));
        saved.give_up();
        let names = saved.load();
        assert_eq!(names.root, Some(inode_of(2)));
        assert_eq!(names.get(inode_of(3), b"later"), Saved::There(file_of(7, 8)));
    }
}
