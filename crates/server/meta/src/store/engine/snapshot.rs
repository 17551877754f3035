//! A snapshot of the engine: the overlays under their read lock, and a read transaction of the
//! base. The transaction begins only when the overlays lack a key.

use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::sync::RwLockReadGuard;

use heed::{RoTxn, WithoutTls};

use super::base::Base;
use super::{Memtables, Overlay};
use crate::store::{Snapshot, StoreError, Visit};

pub(super) struct EngineSnapshot<'a> {
    /// Held for the life of the snapshot: no commit and no end of a checkpoint happens between two
    /// reads. A checkpoint that commits meanwhile only moves into the base what the frozen overlay
    /// shows anyway.
    layers: RwLockReadGuard<'a, Memtables>,
    base: &'a Base,
    txn: OnceCell<RoTxn<'a, WithoutTls>>,
}

impl<'a> EngineSnapshot<'a> {
    pub(super) fn new(layers: RwLockReadGuard<'a, Memtables>, base: &'a Base) -> Self {
        Self { layers, base, txn: OnceCell::new() }
    }

    /// A snapshot whose transaction of the base has begun already.
    pub(super) fn of(
        layers: RwLockReadGuard<'a, Memtables>,
        base: &'a Base,
        txn: RoTxn<'a, WithoutTls>,
    ) -> Self {
        Self { layers, base, txn: OnceCell::from(txn) }
    }

    fn txn(&self) -> Result<&RoTxn<'a, WithoutTls>, StoreError> {
        if self.txn.get().is_none() {
            let _ = self.txn.set(self.base.reader()?);
        }
        self.txn.get().ok_or(StoreError::Stopped)
    }

    fn overlays(&self) -> impl Iterator<Item = &Overlay> {
        std::iter::once(&self.layers.active).chain(self.layers.frozen.as_deref())
    }
}

impl Snapshot for EngineSnapshot<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        for overlay in self.overlays() {
            if let Some(known) = overlay.get(key) {
                return Ok(known.map(<[u8]>::to_vec));
            }
        }
        Ok(self.base.get(self.txn()?, key)?.map(<[u8]>::to_vec))
    }

    fn scan(&self, from: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        if from >= end {
            return Ok(());
        }
        let empty = Overlay::default();
        let mut above =
            self.merged(self.layers.frozen.as_deref().unwrap_or(&empty), from, end).peekable();
        let mut over = false;
        let txn = self.txn()?;
        self.base.range(txn, from, end, &mut |key, value| {
            // Changes of keys before this one come first. A change of this key replaces it.
            let mut replaced = false;
            while let Some((newer, change)) = above.next_if(|(newer, _)| *newer <= key) {
                replaced |= newer == key;
                if change.is_some_and(|value| visit(newer, value).is_break()) {
                    over = true;
                    return ControlFlow::Break(());
                }
            }
            if !replaced && visit(key, value).is_break() {
                over = true;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        while let (false, Some((key, change))) = (over, above.next()) {
            over = change.is_some_and(|value| visit(key, value).is_break());
        }
        Ok(())
    }
}

type Item<'a> = (&'a [u8], Option<&'a [u8]>);

impl EngineSnapshot<'_> {
    /// The active overlay merged over the frozen one, ascending.
    fn merged<'s>(
        &'s self,
        frozen: &'s Overlay,
        from: &'s [u8],
        end: &'s [u8],
    ) -> impl Iterator<Item = Item<'s>> {
        let mut newer = self.layers.active.range(from, end).peekable();
        let mut older = frozen.range(from, end).peekable();
        std::iter::from_fn(move || match (newer.peek(), older.peek()) {
            (Some((a, _)), Some((b, _))) if a == b => {
                older.next();
                newer.next()
            }
            (Some((a, _)), Some((b, _))) if a > b => older.next(),
            (Some(_), _) => newer.next(),
            (None, _) => older.next(),
        })
    }
}
