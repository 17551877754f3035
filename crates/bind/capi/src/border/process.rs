//! Which process this is, and its table of descriptors.
//!
//! ```text
//!   parent: table A, descriptors up to 1073741830 ──fork──> child: table B, empty, numbers go on from there
//! ```
//!
//! A child must not use its parent's connections, and may not wait for its locks: another thread may have held them when it
//! forked. So it forgets the table, locks and all, and numbers go on where they were, so that an inherited descriptor is known
//! for what it is. The memory of the parent's table stays as it is in the child.

use std::{
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering},
};

use super::table::{FIRST, Table};

static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());
static WATCHED: AtomicBool = AtomicBool::new(false);
/// Forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// The next number of a descriptor.
static NEXT: AtomicI32 = AtomicI32::new(FIRST);
/// The first number that this process gave.
static OWN: AtomicI32 = AtomicI32::new(FIRST);

/// This process's table.
pub(crate) fn table() -> &'static Table {
    let found = TABLE.load(Ordering::Acquire);
    let found = if found.is_null() { make() } else { found };
    // SAFETY: made by `make` from a box and never freed.
    unsafe { &*found }
}

fn make() -> *mut Table {
    watch();
    let made = Box::into_raw(Box::new(Table::default()));
    match TABLE.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        Err(other) => {
            // SAFETY: made from a box two lines above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(made) });
            other
        }
    }
}

/// Has every child forget. A child of a child inherits the handler with the rest.
fn watch() {
    if !WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler is a plain function that only stores to atomics, which a child may do.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        // Out of memory: then the client library itself refuses the calls of a child.
        WATCHED.store(refused == 0, Ordering::Relaxed);
    }
}

unsafe extern "C" fn in_child() {
    TABLE.store(ptr::null_mut(), Ordering::Relaxed);
    OWN.store(NEXT.load(Ordering::Relaxed), Ordering::Relaxed);
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Names this process among those of its line of forks.
pub(crate) fn mark() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Whether this number was given by a process that this one was forked from.
pub(crate) fn is_inherited(descriptor: i32) -> bool {
    (FIRST..OWN.load(Ordering::Relaxed)).contains(&descriptor)
}

/// A number for a descriptor; after two to the thirtieth of them the first ones again.
pub(crate) fn next_number() -> i32 {
    let taken = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
        Some(next.checked_add(1).unwrap_or(FIRST))
    });
    taken.unwrap_or(FIRST)
}
