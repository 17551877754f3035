//! What was committed and is not in the base yet: an ordered map in memory, with marks for removed keys.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;

use crate::store::Change;

/// Memory that one item takes beside its bytes: its share of a tree node and an allocator's header.
const ITEM_OVERHEAD_BYTES: usize = 56;

/// Newest value of each key that was changed, or that it was removed.
#[derive(Default)]
pub(super) struct Overlay {
    items: BTreeSet<Item>,
    bytes: usize,
}

/// A key and what became of it, in one allocation: a fold frees hundreds of thousands of them.
struct Item {
    /// The key, then the value.
    bytes: Box<[u8]>,
    key_bytes: u16,
    removed: bool,
}

impl Item {
    fn new(change: Change<'_>) -> Self {
        let value = change.value.unwrap_or_default();
        let mut bytes = Vec::with_capacity(change.key.len() + value.len());
        bytes.extend_from_slice(change.key);
        bytes.extend_from_slice(value);
        let key_bytes = change.key.len() as u16;
        Self { bytes: bytes.into_boxed_slice(), key_bytes, removed: change.value.is_none() }
    }

    fn key(&self) -> &[u8] {
        &self.bytes[..usize::from(self.key_bytes)]
    }

    fn value(&self) -> Option<&[u8]> {
        (!self.removed).then(|| &self.bytes[usize::from(self.key_bytes)..])
    }
}

impl Borrow<[u8]> for Item {
    fn borrow(&self) -> &[u8] {
        self.key()
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Item {}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(other.key())
    }
}

impl Overlay {
    pub(super) fn apply(&mut self, change: Change<'_>) {
        let item = Item::new(change);
        self.bytes += item.bytes.len() + ITEM_OVERHEAD_BYTES;
        if let Some(old) = self.items.replace(item) {
            self.bytes -= old.bytes.len() + ITEM_OVERHEAD_BYTES;
        }
    }

    /// `None`: nothing is known of the key here. `Some(None)`: it was removed.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.items.get(key).map(Item::value)
    }

    /// What is known of the keys in `[from, end)`, ascending.
    pub(super) fn range<'a>(
        &'a self,
        from: &[u8],
        end: &[u8],
    ) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let bounds = (Bound::Included(from), Bound::Excluded(end));
        self.items.range::<[u8], _>(bounds).map(|item| (item.key(), item.value()))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.items.iter().map(|item| (item.key(), item.value()))
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}
