//! The overlay: committed changes that are not in the base yet, as an ordered map in memory. A
//! removed key has an item too.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;

use crate::store::Change;

/// Memory that one item takes besides its bytes: its share of a tree node and an allocator's
/// header.
const ITEM_OVERHEAD_BYTES: usize = 96;

/// The newest value of each changed key, or that the key was removed.
#[derive(Default)]
pub(super) struct Overlay {
    items: BTreeSet<Item<'static>>,
    bytes: usize,
}

/// A key and its change, in one allocation: a checkpoint frees hundreds of thousands of them.
struct Item<'a> {
    /// The beginning of the key, so that most comparisons need not follow a pointer. It holds what
    /// distinguishes keys of one directory: cookies, and the first letters of names.
    head: [u64; HEAD_WORDS],
    bytes: Bytes<'a>,
    key_bytes: u16,
    removed: bool,
}

/// See [`Item::head`]: shard, kind and file are 11 bytes, a cookie 8.
const HEAD_WORDS: usize = 3;

/// The key, then the value.
enum Bytes<'a> {
    Owned(Box<[u8]>),
    /// The key of a lookup.
    Borrowed(&'a [u8]),
}

impl Item<'static> {
    fn new(change: Change<'_>) -> Self {
        let value = change.value.unwrap_or_default();
        let mut bytes = Vec::with_capacity(change.key.len() + value.len());
        bytes.extend_from_slice(change.key);
        bytes.extend_from_slice(value);
        let (head, key_bytes) = (head(change.key), change.key.len() as u16);
        Self {
            head,
            bytes: Bytes::Owned(bytes.into_boxed_slice()),
            key_bytes,
            removed: change.value.is_none(),
        }
    }
}

impl<'a> Item<'a> {
    fn lookup_key(key: &'a [u8]) -> Self {
        Self {
            head: head(key),
            bytes: Bytes::Borrowed(key),
            key_bytes: key.len() as u16,
            removed: false,
        }
    }

    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Owned(bytes) => bytes,
            Bytes::Borrowed(key) => key,
        }
    }

    fn key(&self) -> &[u8] {
        &self.bytes()[..usize::from(self.key_bytes)]
    }

    fn value(&self) -> Option<&[u8]> {
        (!self.removed).then(|| &self.bytes()[usize::from(self.key_bytes)..])
    }
}

/// Has the order of keys, except for keys that differ only after it, or in trailing zeros.
fn head(key: &[u8]) -> [u64; HEAD_WORDS] {
    let mut bytes = [0; HEAD_WORDS * 8];
    let count = key.len().min(bytes.len());
    bytes[..count].copy_from_slice(&key[..count]);
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|word| u64::from_be_bytes(words[word]))
}

impl PartialEq for Item<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Item<'_> {}

impl PartialOrd for Item<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.head.cmp(&other.head).then_with(|| self.key().cmp(other.key()))
    }
}

impl Overlay {
    pub(super) fn apply(&mut self, change: Change<'_>) {
        let item = Item::new(change);
        self.bytes += item.bytes().len() + ITEM_OVERHEAD_BYTES;
        if let Some(old) = self.items.replace(item) {
            self.bytes -= old.bytes().len() + ITEM_OVERHEAD_BYTES;
        }
    }

    /// `None`: this overlay has no change of the key. `Some(None)`: the key was removed.
    pub(super) fn get<'a>(&'a self, key: &'a [u8]) -> Option<Option<&'a [u8]>> {
        let items: &BTreeSet<Item<'a>> = &self.items;
        items.get(&Item::lookup_key(key)).map(Item::value)
    }

    /// The changes of keys in `[from, end)`, ascending.
    pub(super) fn range<'a>(
        &'a self,
        from: &'a [u8],
        end: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let items: &BTreeSet<Item<'a>> = &self.items;
        let bounds =
            (Bound::Included(Item::lookup_key(from)), Bound::Excluded(Item::lookup_key(end)));
        items.range(bounds).map(|item| (item.key(), item.value()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_equal_heads_stay_apart_and_in_order() {
        let long = [7; HEAD_WORDS * 8];
        let keys = [
            &b"a"[..],
            b"a\0",
            b"a\0\0",
            b"b",
            &long,
            &[&long[..], &[0]].concat(),
            &[&long[..], &[1]].concat(),
        ];
        let mut overlay = Overlay::default();
        let mut sorted: Vec<&[u8]> = keys.to_vec();
        sorted.sort_unstable();
        keys.iter().rev().for_each(|key| overlay.apply(Change { key, value: Some(key) }));
        assert_eq!(overlay.iter().map(|(key, _)| key).collect::<Vec<_>>(), sorted);
        assert!(keys.iter().all(|key| overlay.get(key) == Some(Some(*key))));
        let between: Vec<_> = overlay.range(b"a\0", b"b").map(|(key, _)| key).collect();
        assert_eq!(between, [&b"a\0"[..], b"a\0\0"]);
        overlay.apply(Change { key: b"a", value: None });
        assert_eq!((overlay.get(b"a"), overlay.get(b"c")), (Some(None), None));
    }
}
