//! Children of `fork`, for tests of code that must notice them.

/// How long a child may run before the kernel ends it.
const CHILD_SECONDS: u32 = 60;

/// Runs `judge` in a child of this process. Returns whether it returned true within 60 s.
///
/// `judge` must not wait for a lock that another thread may hold at the fork, nor for another
/// thread.
///
/// # Panics
/// If there can be no child.
#[allow(unsafe_code)]
pub fn holds_in_child(judge: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls `judge`, whose locks are free or its own, and ends without unwinding
    // into the test harness.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain system calls; the alarm ends a child that hangs, which counts as false.
        unsafe {
            libc::alarm(CHILD_SECONDS);
            let holds =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(judge)).unwrap_or(false);
            libc::_exit(if holds { 0 } else { 1 })
        }
    }
    assert!(child > 0, "fork: {}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: waits for our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}
