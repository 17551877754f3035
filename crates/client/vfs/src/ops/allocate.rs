//! `fallocate`: reserved space, holes, zeros.

use crate::{
    data::lease_state::DataUse,
    error::Result,
    open::{handles::FileHandle, open_file::OpenFile},
    vfs::Vfs,
};

/// A change of a range of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// Disk space is reserved, so that writes to the range do not fail because the disk is full.
    Reserve {
        /// Whether the size stays.
        keep_size: bool,
    },
    /// The range becomes a hole: it reads as zeros and uses no disk space. The size stays.
    Punch,
    /// The range reads as zeros and has disk space.
    Zero {
        /// Whether the size stays.
        keep_size: bool,
    },
}

impl Vfs {
    /// Reserves, punches or zeroes a range. `kill_privileges` clears setuid and setgid, as with a
    /// write.
    ///
    /// # Errors
    /// The handle is not open for writing; a daemon has no space.
    pub fn allocate(
        &self,
        handle: FileHandle,
        offset: u64,
        bytes: u64,
        what: Allocation,
        kill_privileges: bool,
    ) -> Result<()> {
        let open = self.writable(handle)?;
        let mut under = self.begin_change(&open, kill_privileges, || {
            self.caches.begin(&open.data, DataUse::Write)
        })?;
        let zeroes = !matches!(what, Allocation::Reserve { .. });
        under
            .iter_mut()
            .filter(|_| zeroes)
            .for_each(|under| under.exclude_write_back(offset, bytes));
        let changing = self.caches.begin_attribute_change(open.file.index());
        self.caches.flush(&open.data)?;
        let done = allocate(&open, offset, bytes, what);
        open.data.set_end(None);
        if zeroes {
            self.caches.drop_changed_pages(under.as_ref(), offset, bytes);
        }
        drop(changing);
        drop(under);
        self.note_change(open.file.index());
        done
    }
}

fn allocate(open: &OpenFile, offset: u64, bytes: u64, what: Allocation) -> Result<()> {
    if let Allocation::Punch | Allocation::Zero { .. } = what {
        open.file.get()?.punch_hole(offset, bytes)?;
    }
    if let Allocation::Reserve { keep_size } | Allocation::Zero { keep_size } = what {
        open.file.get()?.allocate(offset, bytes, keep_size)?;
    }
    Ok(())
}
