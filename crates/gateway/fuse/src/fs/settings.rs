//! Features and limits that are requested from the kernel at INIT.

use braid_vfs::Consistency;

use crate::kernel::{Features, KernelFeatures, WORKERS_MAX, Wanted};

/// How far the kernel reads ahead of a sequential reader: several requests of 1 MiB, which reach
/// several I/O daemons at the same time.
const READ_AHEAD_BYTES: u32 = 8 << 20;
/// Requests without a waiting program (read-ahead, write-back of pages) at a time. There are more
/// workers: while all of these wait for an unresponsive daemon, others serve the programs and
/// INTERRUPT.
const BACKGROUND_MAX: u16 = 768;
const _: () =
    assert!(BACKGROUND_MAX as usize <= WORKERS_MAX / 4 * 3, "a quarter of the workers is left");

/// Features that this file system needs or profits from; those that the kernel lacks are left out.
///
/// Not wanted: `WRITEBACK_CACHE` (the kernel would own size and times, which are then not coherent
/// between mounts), `AUTO_INVAL_DATA` (pages are dropped at a recall, not when a time stamp
/// differs). READDIRPLUS only where the kernel caches no names: its names would have no validity,
/// and would remove that of names that have some.
pub(super) fn wanted(kernel: &KernelFeatures, consistency: Consistency) -> Wanted {
    use Features as F;
    let mut wanted = Wanted::default();
    wanted.features |= F::POSIX_LOCKS | F::FLOCK_LOCKS | F::POSIX_ACL | F::DONT_MASK;
    wanted.features |= F::HANDLE_KILLPRIV_V2;
    // A file handle is the file's index, which is never used twice: LOOKUP of "." finds it again
    // after the kernel has forgotten it.
    wanted.features |= F::EXPORT_SUPPORT;
    if !kernel.expires_names() {
        wanted.features |= F::DO_READDIRPLUS | F::READDIRPLUS_AUTO;
    }
    // The target of a symbolic link never changes, and its index is never used for another file.
    wanted.features |= F::CACHE_SYMLINKS | F::DIRECT_IO_ALLOW_MMAP;
    if consistency == Consistency::Posix {
        // On a relaxed mount no recall drops the page in which a file ended before another client
        // extended it, with the zeros behind its old end. There the kernel must drop pages when it
        // sees a new size.
        wanted.features |= F::EXPLICIT_INVAL_DATA;
    }
    wanted.read_ahead_bytes = READ_AHEAD_BYTES;
    // Pages that wait for a lease must not delay reads of other files.
    wanted.background_max = BACKGROUND_MAX;
    wanted.congestion_threshold = BACKGROUND_MAX;
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_left_when_all_background_requests_wait_for_a_daemon() {
        let kernel = KernelFeatures {
            minor: 45,
            offered: Features::default(),
            read_ahead_bytes_max: 128 << 10,
        };
        for consistency in [Consistency::Posix, Consistency::Commit] {
            let wanted = wanted(&kernel, consistency);
            assert!(usize::from(wanted.background_max) <= WORKERS_MAX / 4 * 3);
            assert!(wanted.congestion_threshold <= wanted.background_max);
        }
    }
}
