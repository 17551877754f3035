//! Changes of directory entries by this mount that the server has not answered yet.
//!
//! The server may have applied such a change already, and another client may have seen it. What the
//! cache says of the entry is then too old, and the server is asked ([`super::name_cache`], 5 to
//! 7).

use std::{collections::HashMap, hash::Hash};

use braid_client::FileIndex;

use super::name_cache::NameCache;
use crate::mutex::lock;

/// A name in a directory.
type Entry = (FileIndex, Box<[u8]>);

/// How many such changes are pending.
#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    /// Removals, by directory.
    removing: HashMap<FileIndex, u32>,
    /// All changes of entries, removals too, by directory.
    changing: HashMap<FileIndex, u32>,
    /// Names under which something is being made: other clients may have seen it already (7).
    making: HashMap<Entry, u32>,
}

impl PendingChanges {
    pub(super) fn is_removing(&self, directory: FileIndex) -> bool {
        self.removing.contains_key(&directory)
    }

    pub(super) fn is_changing(&self, directory: FileIndex) -> bool {
        self.changing.contains_key(&directory)
    }

    pub(super) fn is_making(&self, directory: FileIndex, name: &[u8]) -> bool {
        !self.making.is_empty() && self.making.contains_key(&(directory, Box::from(name)))
    }
}

/// Names are being removed from these directories until this is dropped.
#[derive(Debug)]
pub(crate) struct RemovalGuard<'a> {
    cache: &'a NameCache,
    directories: [FileIndex; 2],
}

/// Entries of these directories are being changed until this is dropped.
#[derive(Debug)]
pub(crate) struct ChangeGuard<'a> {
    cache: &'a NameCache,
    directories: [FileIndex; 2],
    /// Something is being made under this name, or moved to it.
    making: Option<Entry>,
}

impl NameCache {
    /// Before this mount removes names from these directories. For one directory, name it twice.
    pub(crate) fn begin_removal(&self, directories: [FileIndex; 2]) -> RemovalGuard<'_> {
        let pending = &mut lock(&self.0).pending;
        directories.into_iter().for_each(|directory| one_more(&mut pending.removing, directory));
        RemovalGuard { cache: self, directories }
    }

    /// Before this mount changes entries of these directories. For one directory, name it twice.
    pub(crate) fn begin_change(&self, directories: [FileIndex; 2]) -> ChangeGuard<'_> {
        let pending = &mut lock(&self.0).pending;
        directories.into_iter().for_each(|directory| one_more(&mut pending.changing, directory));
        ChangeGuard { cache: self, directories, making: None }
    }
}

impl ChangeGuard<'_> {
    /// Something is being made under this name, or moved to it. No lookup reports the name absent
    /// until the guard is dropped.
    pub(crate) fn with_creation_of(mut self, directory: FileIndex, name: &[u8]) -> Self {
        let entry = (directory, Box::from(name));
        one_more(&mut lock(&self.cache.0).pending.making, Clone::clone(&entry));
        self.making = Some(entry);
        self
    }
}

impl Drop for RemovalGuard<'_> {
    fn drop(&mut self) {
        let pending = &mut lock(&self.cache.0).pending;
        for directory in self.directories {
            one_less(&mut pending.removing, directory);
        }
    }
}

impl Drop for ChangeGuard<'_> {
    fn drop(&mut self) {
        let pending = &mut lock(&self.cache.0).pending;
        for directory in self.directories {
            one_less(&mut pending.changing, directory);
        }
        if let Some(entry) = self.making.take() {
            one_less(&mut pending.making, entry);
        }
    }
}

fn one_more<K: Eq + Hash>(pending: &mut HashMap<K, u32>, key: K) {
    *pending.entry(key).or_default() += 1;
}

fn one_less<K: Eq + Hash>(pending: &mut HashMap<K, u32>, key: K) {
    match pending.get_mut(&key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => _ = pending.remove(&key),
    }
}
