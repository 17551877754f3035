//! Ranges of a file: fallocate, seek for data and holes, copy.

use braid_vfs::{Allocation, FileHandle};
use rustix::{fs::FallocateFlags, io::Errno};

use super::{Answer, Done, FileSystem};

/// `SEEK_DATA` and `SEEK_HOLE` of Linux.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

impl FileSystem {
    pub(super) fn allocate(
        &self,
        handle: u64,
        offset: u64,
        length: u64,
        mode: u32,
        (kill_privileges, answer): (bool, Answer<'_>),
    ) -> Done {
        let what = allocation(FallocateFlags::from_bits_retain(mode)).ok_or(Errno::OPNOTSUPP)?;
        self.vfs.allocate(FileHandle(handle), offset, length, what, kill_privileges)?;
        answer.ok()
    }

    pub(super) fn seek(&self, handle: u64, offset: u64, whence: u32, answer: Answer<'_>) -> Done {
        let found = match whence {
            SEEK_DATA => self.vfs.next_data(FileHandle(handle), offset)?,
            SEEK_HOLE => self.vfs.next_hole(FileHandle(handle), offset)?,
            _ => return Err(Errno::INVAL.into()),
        };
        answer.with(|reply| reply.position(found))
    }

    pub(super) fn copy_range(
        &self,
        from: (u64, u64),
        to: (u64, u64),
        length: u64,
        flags: u64,
        (kill_privileges, answer): (bool, Answer<'_>),
    ) -> Done {
        if flags != 0 {
            return Err(Errno::INVAL.into());
        }
        let (from, to) = ((FileHandle(from.0), from.1), (FileHandle(to.0), to.1));
        let copied = self.vfs.copy_range(from, to, length, kill_privileges)?;
        answer.with(|reply| reply.copied(copied))
    }
}

/// The meaning of a mode of fallocate(2); `None` for modes that shift bytes or share blocks.
fn allocation(mode: FallocateFlags) -> Option<Allocation> {
    use FallocateFlags as F;
    let keep_size = mode.contains(F::KEEP_SIZE);
    match mode - F::KEEP_SIZE {
        rest if rest.is_empty() => Some(Allocation::Reserve { keep_size }),
        F::PUNCH_HOLE if keep_size => Some(Allocation::Punch),
        F::ZERO_RANGE => Some(Allocation::Zero { keep_size }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_fallocate() {
        use FallocateFlags as F;
        assert_eq!(allocation(F::empty()), Some(Allocation::Reserve { keep_size: false }));
        assert_eq!(allocation(F::KEEP_SIZE), Some(Allocation::Reserve { keep_size: true }));
        assert_eq!(allocation(F::KEEP_SIZE | F::PUNCH_HOLE), Some(Allocation::Punch));
        assert_eq!(allocation(F::ZERO_RANGE), Some(Allocation::Zero { keep_size: false }));
        for refused in [F::PUNCH_HOLE, F::COLLAPSE_RANGE, F::INSERT_RANGE, F::UNSHARE_RANGE] {
            assert_eq!(allocation(refused), None, "{refused:?}");
        }
    }
}
