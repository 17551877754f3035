//! Opening, creating, closing.

use braid_vfs::{Access, Cacheable, FileHandle, FileIndex, NewFile, OpenAs, Opened, User};
use rustix::{fs::OFlags, io::Errno};

use super::{Answer, Done, FileSystem, convert};
use crate::kernel::{self, abi::fopen};

impl FileSystem {
    pub(super) fn open(
        &self,
        file: FileIndex,
        flags: u32,
        kill_suidgid: bool,
        answer: Answer<'_>,
    ) -> Done {
        let flags = OFlags::from_bits_retain(flags);
        let how = OpenAs {
            access: access(flags)?,
            truncate: flags.contains(OFlags::TRUNC),
            kill_privileges: kill_suidgid,
        };
        let opened = self.vfs.open(file, how)?;
        answer.with(|reply| {
            if reply.opened(for_kernel(&opened)).is_err() {
                self.give_up(&opened);
            }
        })
    }

    pub(super) fn create(
        &self,
        user: User,
        directory: FileIndex,
        name: &[u8],
        flags: u32,
        (mode, umask): (u32, u32),
        answer: Answer<'_>,
    ) -> Done {
        let flags = OFlags::from_bits_retain(flags);
        let new = NewFile {
            mode: mode & 0o7777,
            umask,
            access: access(flags)?,
            exclusive: flags.contains(OFlags::EXCL),
            truncate: flags.contains(OFlags::TRUNC),
        };
        let (opened, _) = self.vfs.create(user, directory, name, &new)?;
        self.reply_with_name((directory, name), &opened.known.leases, |cacheable| {
            self.created(&opened, cacheable, answer)
        })
    }

    /// Creates a file without a name, as if in a directory (`O_TMPFILE`).
    pub(super) fn create_unnamed(
        &self,
        user: User,
        directory: FileIndex,
        flags: u32,
        (mode, umask): (u32, u32),
        answer: Answer<'_>,
    ) -> Done {
        let access = access(OFlags::from_bits_retain(flags))?;
        let opened = self.vfs.create_unnamed(user, directory, mode & 0o7777, umask, access)?;
        // It is in no directory whose recall could invalidate it.
        self.created(&opened, Cacheable { name: false, attributes: false }, answer)
    }

    fn created(&self, opened: &Opened, cacheable: Cacheable, answer: Answer<'_>) -> Done {
        answer.with(|reply| {
            if reply
                .created(&convert::entry(&opened.known.attributes, cacheable), for_kernel(opened))
                .is_err()
            {
                self.give_up(opened);
            }
        })
    }

    pub(super) fn flush(&self, handle: u64, lock_owner: u64, answer: Answer<'_>) -> Done {
        self.vfs.flush(FileHandle(handle), Some(lock_owner))?;
        answer.ok()
    }

    pub(super) fn release(
        &self,
        handle: u64,
        flock_owner: Option<u64>,
        answer: Answer<'_>,
    ) -> Done {
        self.vfs.release(FileHandle(handle), flock_owner)?;
        answer.ok()
    }

    /// The kernel did not accept the reply and will not release the handle: closes it.
    fn give_up(&self, opened: &Opened) {
        // No program has it open, so there is no write error to report.
        let _ = self.vfs.release(opened.handle, None);
    }
}

fn access(flags: OFlags) -> Result<Access, Errno> {
    match flags & OFlags::ACCMODE {
        OFlags::RDONLY => Ok(Access::READ),
        OFlags::WRONLY => Ok(Access::WRITE),
        OFlags::RDWR => Ok(Access::READ_WRITE),
        _ => Err(Errno::INVAL),
    }
}

/// Files are opened past the page cache, unless a lease makes pages cacheable or the mount is
/// relaxed. Direct writes of several threads run in parallel: the daemons apply them in any order,
/// as POSIX allows.
fn for_kernel(opened: &Opened) -> kernel::Opened {
    let flags = match opened.may_cache_pages {
        true => fopen::KEEP_CACHE,
        false => fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES,
    };
    kernel::Opened { handle: opened.handle.0, flags, backing: None }
}
