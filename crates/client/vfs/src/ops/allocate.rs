//! Room for a range, holes, zeros.

use crate::{data::gate::Use, error::Result, files::OpenFile, handles::FileHandle, vfs::Vfs};

/// What is done with a range of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// Room is reserved, so that writes to it do not fail for want of it.
    Reserve {
        /// Whether the file stays as long as it is.
        keep_size: bool,
    },
    /// The range becomes a hole: it reads as zeros and takes no room. The size stays.
    Punch,
    /// The range reads as zeros and has room.
    Zero {
        /// Whether the file stays as long as it is.
        keep_size: bool,
    },
}

impl Vfs {
    /// Reserves, punches or zeroes a range. With `kill_privileges` setuid and setgid go, as with a write.
    ///
    /// # Errors
    /// The handle is not open for writing; no space, with the daemon.
    pub fn allocate(
        &self,
        handle: FileHandle,
        offset: u64,
        bytes: u64,
        what: Allocation,
        kill_privileges: bool,
    ) -> Result<()> {
        let open = self.writable(handle)?;
        let mut under =
            self.begin_change(&open, kill_privileges, || open.bytes.begin(Use::Write))?;
        let zeroes = !matches!(what, Allocation::Reserve { .. });
        under.iter_mut().filter(|_| zeroes).for_each(|under| under.changes(offset, bytes));
        self.holder.attributes_change(open.file.index());
        open.bytes.settle()?;
        let done = allocate(&open, offset, bytes, what);
        open.bytes.ends_at(None);
        if zeroes {
            open.bytes.drop_changed(under.as_ref(), offset, bytes);
        }
        drop(under);
        self.changed(open.file.index());
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
