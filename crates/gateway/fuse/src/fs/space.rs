//! Room in the file system.

use braid_vfs::FileIndex;

use super::{Answer, Done, FileSystem};
use crate::kernel::SpaceStat;

/// The unit in which room is counted, bytes. Also `f_bsize`, whatever it may mean: many programs count in it.
const UNIT_BYTES: u32 = 4096;
/// Nothing bounds the number of files but the disk of the metadata server; programs that look want some left.
const FILES_FREE: u64 = 1 << 32;
const NAME_BYTES_MAX: u32 = braid_types::limits::NAME_BYTES_MAX as u32;

impl FileSystem {
    /// Of a directory with a quota, what that leaves, as XFS shows it of a project.
    pub(super) fn space(&self, at: FileIndex, answer: Answer<'_>) -> Done {
        let room = self.vfs.room(at)?;
        let files_free = room.files_max.map_or(FILES_FREE, |max| max.saturating_sub(room.files));
        let available = room.available_bytes / u64::from(UNIT_BYTES);
        let space = SpaceStat {
            blocks: room.total_bytes / u64::from(UNIT_BYTES),
            blocks_free: room.free_bytes / u64::from(UNIT_BYTES),
            blocks_available: available,
            files: room.files.saturating_add(files_free),
            files_free,
            block_size: UNIT_BYTES,
            fragment_size: UNIT_BYTES,
            name_len_max: NAME_BYTES_MAX,
        };
        answer.with(|reply| reply.space(&space))
    }
}
