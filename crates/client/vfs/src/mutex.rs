//! Locking mutexes.

use std::sync::{Mutex, MutexGuard};

/// Locks a mutex. Ends the process if a thread panicked while it held it (ADR 0035).
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(braid_types::poisoned)
}
