//! What was committed and is not in the base yet: an ordered map in memory, with marks for removed keys.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::store::Change;

/// Memory that one key of an overlay takes beside its bytes: tree node share and two allocations.
const ENTRY_OVERHEAD_BYTES: usize = 80;

/// Newest value of each key that was changed; `None` marks a removed one.
#[derive(Default)]
pub(super) struct Overlay {
    map: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    bytes: usize,
}

impl Overlay {
    pub(super) fn apply(&mut self, change: Change) {
        let (key, value) = (change.key.into_boxed_slice(), change.value.map(Vec::into_boxed_slice));
        let (key_bytes, value_bytes) = (key.len(), value.as_ref().map_or(0, |v| v.len()));
        match self.map.insert(key, value) {
            Some(old) => self.bytes = self.bytes + value_bytes - old.map_or(0, |v| v.len()),
            None => self.bytes += key_bytes + value_bytes + ENTRY_OVERHEAD_BYTES,
        }
    }

    /// `None`: nothing is known of the key here. `Some(None)`: it was removed.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.map.get(key).map(|value| value.as_deref())
    }

    /// The first key at or past `from` and below `end`.
    pub(super) fn range<'a>(
        &'a self,
        from: &[u8],
        end: &[u8],
    ) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let bounds = (Bound::Included(from), Bound::Excluded(end));
        self.map.range::<[u8], _>(bounds).map(|(key, value)| (&key[..], value.as_deref()))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.map.iter().map(|(key, value)| (&key[..], value.as_deref()))
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
}
