//! What is asked of the kernel when the mount begins.

use braid_vfs::Consistency;

use crate::kernel::{Features, KernelFeatures, Wanted};

/// How far the kernel reads ahead of a program that reads a file from its beginning on: several requests of 1 MiB, so
/// several stripes, so several I/O daemons at a time.
const READ_AHEAD_BYTES: u32 = 8 << 20;
/// Requests that no program waits for (read-ahead, pages that are written back) at a time.
const BACKGROUND_MAX: u16 = 1024;

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
    // Pages that wait for a lease must not keep those of other files from being asked for: one each worker.
    wanted.background_max = BACKGROUND_MAX;
    wanted.congestion_threshold = BACKGROUND_MAX;
    wanted
}
