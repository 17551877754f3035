//! Free space of the file system.

use braid_vfs::FileIndex;

use super::{Answer, Done, FileSystem};
use crate::kernel::SpaceStat;

/// The unit of the counts, in bytes. Also `f_bsize`: many programs take that for the unit.
const UNIT_BYTES: u32 = 4096;
/// Only the disk of the metadata server limits the number of files. Programs that check expect some
/// free.
const FILES_FREE: u64 = 1 << 32;
const NAME_BYTES_MAX: u32 = braid_types::limits::NAME_BYTES_MAX as u32;

impl FileSystem {
    /// The free space; below a directory with a quota, what the quota leaves, as XFS shows it for a
    /// project.
    pub(super) fn statfs(&self, at: FileIndex, answer: Answer<'_>) -> Done {
        let free = self.vfs.free_space(at)?;
        let files_free = free.files_max.map_or(FILES_FREE, |max| max.saturating_sub(free.files));
        let available = free.available_bytes / u64::from(UNIT_BYTES);
        let space = SpaceStat {
            blocks: free.total_bytes / u64::from(UNIT_BYTES),
            blocks_free: free.free_bytes / u64::from(UNIT_BYTES),
            blocks_available: available,
            files: free.files.saturating_add(files_free),
            files_free,
            block_size: UNIT_BYTES,
            fragment_size: UNIT_BYTES,
            name_len_max: NAME_BYTES_MAX,
        };
        answer.with(|reply| reply.space(&space))
    }
}
