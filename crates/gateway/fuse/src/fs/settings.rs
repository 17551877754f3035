//! What is asked of the kernel when the mount begins.

use braid_vfs::Consistency;

use crate::kernel::{Features, KernelFeatures, WORKERS_MAX, Wanted};

/// How far the kernel reads ahead of a program that reads a file from its beginning on: several requests of 1 MiB, so
/// several stripes, so several I/O daemons at a time.
const READ_AHEAD_BYTES: u32 = 8 << 20;
/// Requests that no program waits for (read-ahead, pages that are written back) at a time. Fewer than there are workers: while all of
/// these wait for a daemon that is gone, others are there for the programs and for INTERRUPT.
const BACKGROUND_MAX: u16 = 768;
const _: () =
    assert!(BACKGROUND_MAX as usize <= WORKERS_MAX / 4 * 3, "a quarter of the workers is left");

/// Features that this file system needs or gains by; what the kernel lacks is left out.
///
/// Not wanted: `WRITEBACK_CACHE` (the kernel would own size and times, never coherent between mounts), `AUTO_INVAL_DATA`
/// (pages go when a recall says so, not when a time stamp differs).
/// READDIRPLUS only where the kernel remembers no names: those in it would have to go out with no validity, and take away that of
/// names that had some.
pub(super) fn wanted(kernel: &KernelFeatures, consistency: Consistency) -> Wanted {
    use Features as F;
    let mut wanted = Wanted::default();
    wanted.features |= F::POSIX_LOCKS | F::FLOCK_LOCKS | F::POSIX_ACL | F::DONT_MASK;
    wanted.features |= F::HANDLE_KILLPRIV_V2;
    // A file handle is the file's index, which is never used twice: LOOKUP of "." finds it again after the kernel forgot it.
    wanted.features |= F::EXPORT_SUPPORT;
    if !kernel.expires_names() {
        wanted.features |= F::DO_READDIRPLUS | F::READDIRPLUS_AUTO;
    }
    // A symbolic link's target never changes, and its index is never used for another.
    wanted.features |= F::CACHE_SYMLINKS | F::DIRECT_IO_ALLOW_MMAP;
    if consistency == Consistency::Posix {
        // On a weak mount no recall drops the page in which a file ended before it grew elsewhere, with the zeros behind its
        // end: the kernel drops a file's pages when it learns of another size.
        wanted.features |= F::EXPLICIT_INVAL_DATA;
    }
    wanted.read_ahead_bytes = READ_AHEAD_BYTES;
    // Pages that wait for a lease must not keep those of other files from being asked for.
    wanted.background_max = BACKGROUND_MAX;
    wanted.congestion_threshold = BACKGROUND_MAX;
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_left_when_all_that_nobody_waits_for_waits_for_a_daemon() {
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
