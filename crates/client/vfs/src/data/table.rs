//! The files whose bytes this mount uses or caches.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

use braid_client::FileIndex;

use super::FileData;
use crate::{consistency::Consistency, mutex::lock};

/// Files in the table: beyond that the oldest that are not open are given up.
pub(crate) const FILES_MAX: usize = 131_072;

/// The table of these files.
#[derive(Debug)]
pub(crate) struct FileDataTable {
    consistency: Consistency,
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    known: HashMap<FileIndex, Arc<FileData>>,
    /// The same files in order of arrival. Some are not in the table any more.
    order: VecDeque<FileIndex>,
}

impl FileDataTable {
    /// For a mount with this cache mode.
    pub(crate) fn new(consistency: Consistency) -> Self {
        Self { consistency, files: Mutex::default() }
    }

    /// A file, which is in the table from now on.
    pub(crate) fn get_or_add(&self, file: FileIndex) -> Arc<FileData> {
        let files = &mut *lock(&self.files);
        let order = &mut files.order;
        let data = files.known.entry(file).or_insert_with(|| {
            order.push_back(file);
            Arc::new(FileData::new(file, self.consistency))
        });
        Arc::clone(data)
    }

    /// A file, if it is in the table.
    pub(crate) fn get(&self, file: FileIndex) -> Option<Arc<FileData>> {
        lock(&self.files).known.get(&file).cloned()
    }

    /// All files in the table.
    pub(crate) fn all(&self) -> Vec<Arc<FileData>> {
        lock(&self.files).known.values().cloned().collect()
    }

    /// Removes a file to which the caller has the last reference, unless it stays.
    pub(crate) fn forget(&self, data: Arc<FileData>, stays: impl Fn(&FileData) -> bool) {
        let files = &mut *lock(&self.files);
        // New references are made from the table, under this lock, or from another reference. Two
        // are the table's and the caller's.
        if Arc::strong_count(&data) == 2 && !stays(&data) {
            files.known.remove(&data.file);
        }
        files.tidy();
    }

    /// Removes a file to which nobody has a reference, unless it stays.
    pub(crate) fn forget_unused(&self, file: FileIndex, stays: impl Fn(&FileData) -> bool) {
        let files = &mut *lock(&self.files);
        let unused = |data: &Arc<FileData>| Arc::strong_count(data) == 1 && !stays(data);
        if files.known.get(&file).is_some_and(unused) {
            files.known.remove(&file);
        }
        files.tidy();
    }

    /// Whether there are too many files.
    pub(crate) fn is_full(&self) -> bool {
        lock(&self.files).known.len() > FILES_MAX
    }

    /// Unused files to give up: the oldest eighth.
    pub(crate) fn oldest_unused(&self) -> Vec<Arc<FileData>> {
        let files = &mut *lock(&self.files);
        let known = &files.known;
        let unused =
            |file: &FileIndex| known.get(file).filter(|data| Arc::strong_count(data) == 1).cloned();
        files.order.iter().filter_map(unused).take(FILES_MAX / 8).collect()
    }
}

impl Files {
    /// Bounds the order to twice the number of files.
    fn tidy(&mut self) {
        if self.order.len() > 2 * self.known.len() + 64 {
            let known = &self.known;
            let mut seen = std::collections::HashSet::new();
            self.order.retain(|file| known.contains_key(file) && seen.insert(*file));
        }
    }
}
