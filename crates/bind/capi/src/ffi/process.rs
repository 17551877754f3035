//! The descriptor table of this process.
//!
//! ```text
//!   parent: table A, numbers up to 1073741830 ──fork──> child: table B, empty; numbers go on
//! ```
//!
//! A child must not use the connections of its parent. It must not wait for the parent's locks
//! either: another thread may have held them at the fork. So the child gets an empty table and
//! never looks at the old one, whose memory leaks in the child. Numbers continue, so that an
//! inherited descriptor is recognized.

use std::{
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering},
};

use super::table::{DescriptorTable, FIRST_DESCRIPTOR};

static TABLE: AtomicPtr<DescriptorTable> = AtomicPtr::new(ptr::null_mut());
static FORK_HANDLER_SET: AtomicBool = AtomicBool::new(false);
/// Number of forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// The next number of a descriptor.
static NEXT: AtomicI32 = AtomicI32::new(FIRST_DESCRIPTOR);
/// The first number that this process may use.
static OWN: AtomicI32 = AtomicI32::new(FIRST_DESCRIPTOR);

/// This process's table.
pub(crate) fn table() -> &'static DescriptorTable {
    let found = TABLE.load(Ordering::Acquire);
    let found = if found.is_null() { make() } else { found };
    // SAFETY: `make` made it from a box, and it is never freed.
    unsafe { &*found }
}

fn make() -> *mut DescriptorTable {
    register_fork_handler();
    let made = Box::into_raw(Box::new(DescriptorTable::default()));
    match TABLE.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        Err(other) => {
            // SAFETY: made from a box two lines above, and no other thread has seen it.
            drop(unsafe { Box::from_raw(made) });
            other
        }
    }
}

/// Registers `in_child` once. A grandchild inherits the registration.
fn register_fork_handler() {
    if !FORK_HANDLER_SET.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler is a plain function that only stores to atomics, which is allowed in
        // a child.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        // Fails when out of memory. Then the client library itself refuses the calls of a child.
        FORK_HANDLER_SET.store(refused == 0, Ordering::Relaxed);
    }
}

unsafe extern "C" fn in_child() {
    TABLE.store(ptr::null_mut(), Ordering::Relaxed);
    OWN.store(NEXT.load(Ordering::Relaxed), Ordering::Relaxed);
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Distinguishes this process from those that it was forked from.
pub(crate) fn fork_generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Whether a process that this one was forked from made this number.
pub(crate) fn is_inherited(descriptor: i32) -> bool {
    (FIRST_DESCRIPTOR..OWN.load(Ordering::Relaxed)).contains(&descriptor)
}

/// The next number for a descriptor. Numbers repeat after 2^30 of them.
pub(crate) fn next_number() -> i32 {
    let taken = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
        Some(next.checked_add(1).unwrap_or(FIRST_DESCRIPTOR))
    });
    taken.unwrap_or(FIRST_DESCRIPTOR)
}
