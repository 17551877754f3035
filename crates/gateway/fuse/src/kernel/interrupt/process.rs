//! Whether a thread is being killed, as `/proc/TID/status` shows it.

const KILL: u64 = 1 << (9 - 1);
/// QUIT ILL TRAP ABRT BUS FPE SEGV XCPU XFSZ SYS: they end the process with a core file. The kernel
/// turns every other deadly signal into a SIGKILL for each thread, but not these.
const CORE: u64 = signals(&[3, 4, 5, 6, 7, 8, 11, 24, 25, 31]);

const fn signals(numbers: &[u32]) -> u64 {
    let (mut set, mut at) = (0, 0);
    while at < numbers.len() {
        set |= 1 << (numbers[at] - 1);
        at += 1;
    }
    set
}

/// Whether a thread is being killed. `false` where it cannot be seen, and after it has ended.
pub(super) fn is_being_killed(thread: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"));
    status.is_ok_and(|status| deadly(&status))
}

/// Whether a thread has a pending signal that it neither blocks nor ignores.
pub(super) fn has_signal(thread: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"));
    status.is_ok_and(|status| {
        let pending = set(&status, "SigPnd") | set(&status, "ShdPnd");
        pending & !(set(&status, "SigIgn") | set(&status, "SigBlk")) != 0
    })
}

/// A SIGKILL is pending, or a signal with a core file that is neither handled, ignored nor blocked.
pub(super) fn deadly(status: &str) -> bool {
    let set = |name: &str| set(status, name);
    let pending = set("SigPnd") | set("ShdPnd");
    pending & KILL != 0 || pending & CORE & !(set("SigCgt") | set("SigIgn") | set("SigBlk")) != 0
}

/// A set of signals, by its name.
fn set(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}
