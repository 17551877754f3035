//! Locking mutexes without poisoning.

use std::sync::{Mutex, MutexGuard};

/// Locks a mutex, also one that a panicked thread held: no state here is left half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(braid_types::poisoned)
}
