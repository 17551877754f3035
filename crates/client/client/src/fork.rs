//! `fork`: a child must not use its parent's connections.
//!
//! The engine compares process numbers wherever it enters the kernel several times anyway (calls of the
//! metadata server, new connections). A small read makes two system calls and no third: there only the counter
//! below is looked at, which a binding that can register `pthread_atfork` raises in the child.

use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// To be called in a child right after `fork`: every client made before then fails with a clear error instead of
/// sharing sockets with the parent. Async-signal-safe.
pub fn after_fork_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}
