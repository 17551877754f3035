//! Changes by this mount, of directory entries or of attributes, that the server has not answered
//! yet.
//!
//! The server may have applied such a change already, and another client may have seen it. What the
//! cache says of the entry or the file is then too old, and the server is asked
//! ([`super::name_cache`], 5 to 8).

use std::{collections::HashMap, hash::Hash};

use braid_client::FileIndex;

use super::{
    change_marks::ChangeMark,
    name_cache::{CachedNames, NameCache},
};
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
    /// Changes of attributes, by file.
    attributes: HashMap<FileIndex, u32>,
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

    pub(super) fn is_changing_attributes(&self, file: FileIndex) -> bool {
        self.attributes.contains_key(&file)
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

/// Attributes of a file are being changed until this is dropped.
#[derive(Debug)]
pub(crate) struct AttributeChangeGuard<'a> {
    cache: &'a NameCache,
    /// `None`: the change has ended.
    file: Option<FileIndex>,
}

impl NameCache {
    /// Before this mount changes attributes of a file. Removes the cached ones. None are cached
    /// until the guard is dropped, and no reply to a question of that time is cached afterwards.
    pub(crate) fn begin_attribute_change(&self, file: FileIndex) -> AttributeChangeGuard<'_> {
        let mut cached = lock(&self.0);
        cached.change(file);
        one_more(&mut cached.pending.attributes, file);
        AttributeChangeGuard { cache: self, file: Some(file) }
    }

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

impl AttributeChangeGuard<'_> {
    /// Ends the change. Returns the mark after it, if it was the only change of the file by this
    /// mount since `mark`.
    pub(crate) fn end(mut self, mark: ChangeMark) -> Option<ChangeMark> {
        let file = self.file.take()?;
        let mut cached = lock(&self.cache.0);
        let is_only = cached.marks.is_unchanged(file, mark);
        cached.end_attribute_change(file);
        is_only.then_some(cached.marks.now())
    }
}

impl CachedNames {
    fn end_attribute_change(&mut self, file: FileIndex) {
        self.change(file);
        one_less(&mut self.pending.attributes, file);
    }
}

impl Drop for AttributeChangeGuard<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            lock(&self.cache.0).end_attribute_change(file);
        }
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
