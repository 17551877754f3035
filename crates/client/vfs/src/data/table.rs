//! The files whose bytes this mount uses or keeps.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

use braid_client::FileIndex;

use super::Data;
use crate::{consistency::Consistency, files::lock};

/// Files that nobody has open and whose pages may be kept: beyond it those that came first are given up.
pub(crate) const FILES_MAX: usize = 131_072;

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    consistency: Consistency,
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    known: HashMap<FileIndex, Arc<Data>>,
    /// Those, as they came; some are gone.
    order: VecDeque<FileIndex>,
}

impl Table {
    /// Of a mount that promises this.
    pub(crate) fn new(consistency: Consistency) -> Self {
        Self { consistency, files: Mutex::default() }
    }

    /// What is under way with a file, which is known from now on.
    pub(crate) fn of(&self, file: FileIndex) -> Arc<Data> {
        let files = &mut *lock(&self.files);
        let order = &mut files.order;
        let data = files.known.entry(file).or_insert_with(|| {
            order.push_back(file);
            Arc::new(Data::new(file, self.consistency))
        });
        Arc::clone(data)
    }

    /// The same of a file that is known.
    pub(crate) fn known(&self, file: FileIndex) -> Option<Arc<Data>> {
        lock(&self.files).known.get(&file).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Data>> {
        lock(&self.files).known.values().cloned().collect()
    }

    /// Forgets a file that nobody uses, unless it is worth remembering.
    pub(crate) fn forget(&self, data: Arc<Data>, worth: impl Fn(&Data) -> bool) {
        let files = &mut *lock(&self.files);
        // References are made under this lock: what the table and this one have, nobody else has.
        if Arc::strong_count(&data) == 2 && !worth(&data) {
            files.known.remove(&data.file);
        }
        files.tidy();
    }

    /// Whether files are to be given up.
    pub(crate) fn is_full(&self) -> bool {
        lock(&self.files).known.len() > FILES_MAX
    }

    /// Files that nobody uses, to be given up so that there is room: the oldest eighth.
    pub(crate) fn oldest(&self) -> Vec<Arc<Data>> {
        let files = &mut *lock(&self.files);
        let known = &files.known;
        let unused =
            |file: &FileIndex| known.get(file).filter(|data| Arc::strong_count(data) == 1).cloned();
        files.order.iter().filter_map(unused).take(FILES_MAX / 8).collect()
    }
}

impl Files {
    /// The order keeps no more than twice what is known.
    fn tidy(&mut self) {
        if self.order.len() > 2 * self.known.len() + 64 {
            let known = &self.known;
            let mut seen = std::collections::HashSet::new();
            self.order.retain(|file| known.contains_key(file) && seen.insert(*file));
        }
    }
}
