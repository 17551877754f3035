//! What a process does when a lock is poisoned (ADR 0035).

use std::{io::Write, sync::PoisonError};

/// Ends the process, because a thread panicked while it held this lock and may have left the state
/// behind the lock half-changed. Servers recover from their logs at the next start.
///
/// For `lock().unwrap_or_else(poisoned)` in servers and in the mount. Code that runs in other
/// people's programs must not use it.
pub fn poisoned<G>(_: PoisonError<G>) -> G {
    end_process("a panic may have left its state half-changed")
}

/// Ends the process when it is dropped by a panic.
///
/// For a thread that the whole process needs, such as the one that syncs the log: without it, calls
/// would wait forever for something that does not happen.
#[derive(Debug)]
pub struct EndProcessOnPanic;

impl Drop for EndProcessOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            end_process("a thread that the process needs has panicked")
        }
    }
}

fn end_process(why: &str) -> ! {
    // The panic has printed its message. This line may be lost, for instance on a full disk.
    let _ = writeln!(std::io::stderr(), "the process ends: {why}; try: start it again");
    std::process::abort()
}
