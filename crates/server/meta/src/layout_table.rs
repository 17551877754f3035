//! The layout table: each distinct layout once in memory. The files of a cluster have few different
//! layouts, and a layout is larger than the rest of its inode. Without the table a cached inode
//! would take more than the 400 bytes that it may.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use braid_layout::Layout;

/// Distinct layouts that are shared at most; each further inode has its own copy.
const SHARED_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct LayoutTable(Mutex<HashMap<u64, Arc<Layout>>>);

impl LayoutTable {
    /// The shared copy of a layout. The given one is returned if two layouts have the same
    /// fingerprint or the table is full.
    pub(crate) fn intern(&self, layout: Arc<Layout>) -> Arc<Layout> {
        let fingerprint = fingerprint(&layout);
        let mut known = self.0.lock().unwrap_or_else(braid_types::poisoned);
        match known.get(&fingerprint) {
            Some(shared) if *shared == layout => return shared.clone(),
            Some(_) => return layout,
            None => {}
        }
        if known.len() >= SHARED_MAX {
            known.retain(|_, shared| Arc::strong_count(shared) > 1);
        }
        if known.len() < SHARED_MAX {
            known.insert(fingerprint, layout.clone());
        }
        layout
    }
}

/// Covers what distinguishes layouts in practice: the I/O daemon of each part.
fn fingerprint(layout: &Layout) -> u64 {
    let mut hasher = DefaultHasher::new();
    layout.version.hash(&mut hasher);
    for component in &layout.components {
        (component.start, component.end, component.first_part).hash(&mut hasher);
        for part in &component.parts {
            (part.generation, &part.iods).hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::layout;

    #[test]
    fn equal_layouts_are_one_and_different_ones_are_not() {
        let layouts = LayoutTable::default();
        let first = layouts.intern(Arc::new(layout(4)));
        assert!(Arc::ptr_eq(&first, &layouts.intern(Arc::new(layout(4)))));
        assert!(!Arc::ptr_eq(&first, &layouts.intern(Arc::new(layout(3)))));
        let mut single = layout(4);
        single.components[0].distribution = braid_layout::Distribution::Single;
        assert_eq!(*layouts.intern(Arc::new(single.clone())), single);
    }

    #[test]
    fn the_table_is_bounded_and_replaces_unused_layouts() {
        let layouts = LayoutTable::default();
        let numbered = |n: usize| {
            let mut layout = layout(1);
            layout.version.0 = n as u32;
            Arc::new(layout)
        };
        let held: Vec<_> = (0..SHARED_MAX).map(|n| layouts.intern(numbered(n))).collect();
        let own = layouts.intern(numbered(SHARED_MAX));
        assert!(!Arc::ptr_eq(&own, &layouts.intern(numbered(SHARED_MAX))));
        drop(held);
        assert!(Arc::ptr_eq(&layouts.intern(own.clone()), &layouts.intern(numbered(SHARED_MAX))));
    }
}
