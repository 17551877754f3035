//! Names and files after operations.

use std::collections::BTreeMap;

use super::{
    contents::{Contents, Edit},
    found_tree::{Entry, FoundTree},
};

/// One operation of the load. Paths begin with `/`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Creates a directory.
    MakeDirectory(String),
    /// Removes an empty directory.
    RemoveDirectory(String),
    /// Creates an empty file.
    Create(String),
    /// Writes bytes: those of `filling` with this number.
    Write {
        /// The file.
        path: String,
        /// In bytes.
        offset: usize,
        /// How many.
        bytes: usize,
        /// The number of the filling.
        fill: u64,
    },
    /// Sets a new size.
    Resize(String, usize),
    /// Zeros from an offset, this many.
    Punch(String, usize, usize),
    /// Makes everything of the file durable.
    Sync(String),
    /// Closes the handle of the file; the next use opens it again.
    Close(String),
    /// Gives a file a new name; the file that had it is removed.
    Rename(String, String),
    /// Adds a name.
    Link(String, String),
    /// Creates a symbolic link: its target, its name.
    Symbolic(String, String),
    /// Removes a name of a file.
    Unlink(String),
    /// Makes the names in a directory durable.
    SyncDirectory(String),
}

impl Operation {
    /// Whether its acknowledgement makes everything durable that the metadata server acknowledged
    /// before.
    pub fn forces(&self) -> bool {
        matches!(self, Self::Sync(_) | Self::SyncDirectory(_))
    }
}

/// The bytes of a write: none is zero, so that a hole is never taken for data.
pub fn filling(fill: u64, bytes: usize) -> Vec<u8> {
    let byte = |at: usize| {
        let mixed = (fill.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at as u64)
            .wrapping_mul(0xff51_afd7_ed55_8ccd);
        ((mixed >> 40) % 255) as u8 + 1
    };
    (0..bytes).map(byte).collect()
}

/// What a name names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NameTarget {
    Directory,
    File(usize),
    Symbolic(String),
}

/// The tree after the operations so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Model {
    pub(super) names: BTreeMap<String, NameTarget>,
    pub(super) files: Vec<Contents>,
}

impl Model {
    /// Runs an operation, acknowledged or not: its changes of bytes are pending.
    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::MakeDirectory(path) => {
                drop(self.names.insert(path.clone(), NameTarget::Directory))
            }
            Operation::Create(path) => {
                self.files.push(Contents::default());
                self.names.insert(path.clone(), NameTarget::File(self.files.len() - 1));
            }
            Operation::Write { path, offset, bytes, fill } => {
                self.edit(path, Edit::Write { offset: *offset, bytes: filling(*fill, *bytes) });
            }
            Operation::Resize(path, bytes) => self.edit(path, Edit::Resize(*bytes)),
            Operation::Punch(path, offset, bytes) => {
                self.edit(path, Edit::Punch { offset: *offset, bytes: *bytes })
            }
            Operation::Rename(from, to) => self.rename(from, to),
            Operation::Link(from, to) => {
                if let Some(named) = self.names.get(from).cloned() {
                    self.names.insert(to.clone(), named);
                }
            }
            Operation::Symbolic(target, path) => {
                drop(self.names.insert(path.clone(), NameTarget::Symbolic(target.clone())))
            }
            Operation::Unlink(path) | Operation::RemoveDirectory(path) => {
                drop(self.names.remove(path))
            }
            Operation::Sync(_) | Operation::Close(_) | Operation::SyncDirectory(_) => {}
        }
    }

    fn edit(&mut self, path: &str, edit: Edit) {
        if let Some(file) = self.file(path) {
            self.files[file].pending.push(edit);
        }
    }

    fn rename(&mut self, from: &str, to: &str) {
        // Two names of one file: nothing happens (POSIX).
        if from == to || (self.file(from).is_some() && self.file(from) == self.file(to)) {
            return;
        }
        let below = format!("{from}/");
        let moved: Vec<_> = self
            .names
            .keys()
            .filter(|path| **path == from || path.starts_with(&below))
            .cloned()
            .collect();
        for path in moved {
            if let Some(named) = self.names.remove(&path) {
                self.names.insert(format!("{to}{}", &path[from.len()..]), named);
            }
        }
    }

    /// Whether there is nothing, not even the first directory.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Takes over pending changes as they were found.
    pub fn adopt(&mut self, found: &FoundTree) {
        for (path, entry) in &found.0 {
            if let (Some(file), Entry::File { bytes, .. }) = (self.file(path), entry)
                && !self.files[file].pending.is_empty()
            {
                self.files[file] = Contents { base: bytes.bytes.clone(), pending: Vec::new() };
            }
        }
        // Files without a name are never seen again.
        self.make_all_certain();
    }

    /// The file at a path.
    pub fn file(&self, path: &str) -> Option<usize> {
        match self.names.get(path) {
            Some(NameTarget::File(file)) => Some(*file),
            _ => None,
        }
    }

    /// The length of a file with all pending changes.
    pub fn size(&self, file: usize) -> usize {
        self.files[file].all().len()
    }

    /// Makes the bytes of one file certain: it was synced.
    pub fn make_certain(&mut self, file: usize) {
        self.files[file].make_certain();
    }

    /// Makes the bytes of all files certain: only processes can die.
    pub fn make_all_certain(&mut self) {
        self.files.iter_mut().for_each(Contents::make_certain);
    }

    pub(super) fn paths_of(&self, file: usize) -> impl Iterator<Item = &str> {
        self.names
            .iter()
            .filter(move |(_, named)| **named == NameTarget::File(file))
            .map(|(path, _)| path.as_str())
    }
}
