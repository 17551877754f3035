//! What a process does when a lock is poisoned (ADR 0035).

use std::{io::Write, sync::PoisonError};

/// Ends the process, because a thread panicked while it held this lock and may have left the state
/// behind the lock half-changed. Servers recover from their logs at the next start.
///
/// For `lock().unwrap_or_else(poisoned)` in servers and in the mount. Code that runs in other
/// people's programs must not use it.
pub fn poisoned<G>(_: PoisonError<G>) -> G {
    // The panic has printed its message. This line may be lost, for instance on a full disk.
    let _ = writeln!(
        std::io::stderr(),
        "the process ends: a panic may have left its state half-changed; try: start it again"
    );
    std::process::abort()
}
