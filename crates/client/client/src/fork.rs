//! A number for this process that differs from those of its `fork` ancestors: a child must not use
//! its parent's connections.
//!
//! The engine checks the number before every call, so the check must cost almost nothing compared
//! with the two system calls of a small read. `getpid` would be a third one: 0.2 µs on a virtual
//! machine, of the 14 µs of the read. So:
//!
//! ```text
//!   parent   [ mark 1 ] ──fork──> child   [ 0 ] ──first check──> [ mark 2 ]
//!              one page that the kernel zeroes in a child (MADV_WIPEONFORK): a load, 1 ns
//! ```
//!
//! This works for every kind of `fork`, also for those that run no `pthread_atfork` handlers
//! (`_Fork`, `clone`). A child of `vfork` shares the page and may only call `exec`. Where such
//! pages do not exist (Linux before 4.14, other Unix systems), the process number is used. Windows
//! has no `fork`.
//!
//! Invariants:
//! 1. The marks along a line of forks rise, so that a child never has its parent's mark.
//! 2. Nothing here waits for a lock that another thread may have held at the fork, except during
//!    the very first check.
//!
//! No assertion checks these: a child cannot see its parent's mark, and locks do not record who
//! held them at a fork. The tests below fork for 1.

#[cfg(target_os = "linux")]
use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// The mark of this process: constant within a process, different in a child.
#[cfg(target_os = "linux")]
pub(crate) fn mark() -> u64 {
    static PAGE: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    match PAGE.get_or_init(page::wiped_on_fork) {
        Some(page) => marked(page),
        None => u64::from(std::process::id()),
    }
}

/// The mark on the page. The first check in a process sets it.
#[cfg(target_os = "linux")]
fn marked(page: &AtomicU64) -> u64 {
    /// Inherited by children, so that a child sets a higher mark.
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let found = page.load(Ordering::Relaxed);
    if found != 0 {
        return found;
    }
    let drawn = DRAWN.fetch_add(1, Ordering::Relaxed) + 1;
    page.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed)
        .map_or_else(|other| other, |_| drawn)
}

/// The mark of this process: constant within a process, different in a child.
#[cfg(not(target_os = "linux"))]
pub(crate) fn mark() -> u64 {
    if cfg!(unix) { u64::from(std::process::id()) } else { 1 }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod page {
    use std::{ptr, sync::atomic::AtomicU64};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// The kernel maps and zeroes whole pages, whatever their size; the first eight bytes are used.
    const BYTES: usize = size_of::<AtomicU64>();

    /// A number that is 0 in every new child, on its own page, which exists as long as the process;
    /// `None` if the kernel has no such pages.
    pub(super) fn wiped_on_fork() -> Option<&'static AtomicU64> {
        // SAFETY: a null address lets the kernel choose a range that nothing else uses.
        let page = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        let page = page.ok()?;
        // SAFETY: the range is the mapping just made, which nothing refers to yet.
        if unsafe { madvise(page, BYTES, Advice::LinuxWipeOnFork) }.is_err() {
            // SAFETY: as above; nothing refers to it afterwards either.
            let _ = unsafe { munmap(page, BYTES) };
            return None;
        }
        // SAFETY: mapped readable and writable, never unmapped, and aligned to a page. It contains
        // zeros, which are a valid `AtomicU64`. Only atomics access it, and the kernel zeroes only
        // the child's copy at a fork.
        Some(unsafe { &*page.cast::<AtomicU64>() })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use braid_testbed::fork::holds_in_child;

    use super::*;

    #[test]
    fn a_child_and_its_child_have_marks_of_their_own() {
        let mine = mark();
        assert_eq!(mark(), mine);
        assert!(holds_in_child(|| {
            let childs = mark();
            childs > mine && mark() == childs && holds_in_child(|| mark() > childs)
        }));
        assert_eq!(mark(), mine, "the parent's stays");
    }

    #[test]
    fn the_page_is_there_where_the_kernel_has_it() {
        let page = page::wiped_on_fork().expect("Linux since 4.14");
        assert_eq!(marked(page), marked(page));
        assert!(holds_in_child(|| page.load(Ordering::Relaxed) == 0));
        assert_ne!(page.load(Ordering::Relaxed), 0);
    }
}
