//! Bytes of files that the kernel does not read and write by itself.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::PoisonError,
};

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use crate::{
    NodeId, OpenFile, Result, Union,
    attributes::{set_mode, stat_fd, without_suidgid},
};

impl Union {
    /// Reads at an offset; fewer bytes than the buffer's only at the end of the file.
    ///
    /// # Errors
    /// Those of pread(2).
    pub fn read(&self, file: &OpenFile, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if let Some(striped) = &file.striped {
            return self.read_striped(striped, offset, buffer);
        }
        let _io = file.io.read().unwrap_or_else(PoisonError::into_inner);
        let fd = file.fd();
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pread(&*fd, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(Errno::INTR) => {}
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes at an offset. If the disk is full, the file moves to another branch first. Returns
    /// how many bytes were written: fewer only if no branch has space.
    ///
    /// # Errors
    /// `EDQUOT`: the file's owner may not have more bytes; those of pwrite(2), if no byte was
    /// written.
    pub fn write(
        &self,
        file: &OpenFile,
        offset: u64,
        data: &[u8],
        kill_suidgid: bool,
    ) -> Result<usize> {
        let end = offset.saturating_add(data.len() as u64);
        self.growing(file, end, || self.write_within_quota(file, offset, data, kill_suidgid))
    }

    fn write_within_quota(
        &self,
        file: &OpenFile,
        offset: u64,
        data: &[u8],
        kill_suidgid: bool,
    ) -> Result<usize> {
        if let Some(striped) = &file.striped {
            if kill_suidgid {
                drop_suidgid(&file.fd())?;
            }
            return self.write_striped(&striped.file, offset, data);
        }
        let mut done = 0;
        while done < data.len() {
            let left = &data[done..];
            let written =
                file.with_fd(|fd| write_once(fd, offset + done as u64, left, kill_suidgid));
            match written {
                Ok(bytes) => done += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::NOSPC | Errno::DQUOT)
                    if self.make_room(file, left.len() as u64).is_ok() => {}
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes the file's bytes and attributes to the disk. On ext4, XFS and btrfs its name too, if
    /// it is new.
    ///
    /// # Errors
    /// Those of fsync(2).
    pub fn sync(&self, file: &OpenFile, data_only: bool) -> Result<()> {
        if let Some(striped) = &file.striped {
            return self.sync_striped(&striped.file, data_only);
        }
        // Not within the lock: a sync takes long, and the disk of a moved file has been synced.
        let fd = file.fd();
        if data_only { rustix::fs::fdatasync(&*fd) } else { rustix::fs::fsync(&*fd) }
    }

    /// Writes a directory's names to the disks.
    ///
    /// # Errors
    /// Those of fsync(2).
    pub fn sync_directory(&self, id: NodeId) -> Result<()> {
        use rustix::fs::{Mode, OFlags};
        let node = self.nodes.get(id)?;
        for (_, path) in self.present_copies(&node)? {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::fsync(rustix::fs::openat(&*path, c".", flags, Mode::empty())?)?;
        }
        Ok(())
    }

    /// fallocate(2); `mode` has its flags.
    ///
    /// # Errors
    /// `EDQUOT`, as for a write; those of fallocate(2).
    pub fn allocate(&self, file: &OpenFile, mode: u32, offset: u64, length: u64) -> Result<()> {
        let mode = FallocateFlags::from_bits(mode).ok_or(Errno::OPNOTSUPP)?;
        let other = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE;
        let end = match mode.intersects(other) {
            true => 0,
            false => offset.saturating_add(length),
        };
        self.growing(file, end, || self.allocate_within_quota(file, mode, offset, length))
    }

    fn allocate_within_quota(
        &self,
        file: &OpenFile,
        mode: FallocateFlags,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        if let Some(striped) = &file.striped {
            return self.allocate_striped(&striped.file, mode, offset, length);
        }
        let allocate = || file.with_fd(|fd| rustix::fs::fallocate(fd, mode, offset, length));
        match allocate() {
            Err(Errno::NOSPC | Errno::DQUOT) if self.make_room(file, length).is_ok() => allocate(),
            done => done,
        }
    }

    /// The next data (`true`) or hole at or after an offset.
    ///
    /// # Errors
    /// `ENXIO`: there is none.
    pub fn seek(&self, file: &OpenFile, offset: u64, data: bool) -> Result<u64> {
        if let Some(striped) = &file.striped {
            return self.seek_striped(&striped.file, offset, data);
        }
        let to = if data { SeekFrom::Data(offset) } else { SeekFrom::Hole(offset) };
        file.with_fd(|fd| rustix::fs::seek(fd, to))
    }

    /// As [`Union::seek`], for a mount: bytes that a program has stored through a mapping may still
    /// be in the mount's own pages, which the kernel does not write back before it asks. Where that
    /// is possible there is no hole before the end, as lseek(2) allows.
    ///
    /// # Errors
    /// `ENXIO`: the offset is at or after the end, or no data follows.
    pub fn seek_in_mount(&self, file: &OpenFile, offset: u64, data: bool) -> Result<u64> {
        if !self.may_have_mapped_stores(file) {
            return self.seek(file, offset, data);
        }
        let size = match &file.striped {
            Some(striped) => striped.file.size()?,
            None => file.with_fd(|fd| crate::attributes::stat_fd(fd))?.stx_size,
        };
        match (offset < size, data) {
            (false, _) => Err(Errno::NXIO),
            (true, true) => Ok(offset),
            (true, false) => Ok(size),
        }
    }

    /// Whether the mount may have pages of the file that are newer than its bytes on the branch: a
    /// program has it open to write, and its pages are not those of the branch.
    fn may_have_mapped_stores(&self, file: &OpenFile) -> bool {
        let node = self.nodes.get(file.node);
        node.is_ok_and(|node| {
            node.state().open.iter().any(|open| open.writes() && !open.is_passed_through())
        })
    }

    /// Copies a range: within a branch that can share blocks, without copying them.
    ///
    /// # Errors
    /// `EXDEV`: the branch's file system copies only within itself; the caller reads and writes.
    /// `EDQUOT`, as for a write.
    pub fn copy_range(
        &self,
        (from, from_offset): (&OpenFile, u64),
        (to, to_offset): (&OpenFile, u64),
        length: u64,
    ) -> Result<usize> {
        // Programs ask for more than there is, to copy up to the end.
        let end = match self.quotas.are_active() {
            true => {
                let left = stat_fd(&*from.fd())?.stx_size.saturating_sub(from_offset);
                to_offset.saturating_add(length.min(left))
            }
            false => 0,
        };
        self.growing(to, end, || {
            self.copy_within_quota((from, from_offset), (to, to_offset), length)
        })
    }

    fn copy_within_quota(
        &self,
        (from, from_offset): (&OpenFile, u64),
        (to, to_offset): (&OpenFile, u64),
        length: u64,
    ) -> Result<usize> {
        if from.is_striped() || to.is_striped() {
            return self.copy_striped((from, from_offset), (to, to_offset), length);
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let copy = |from: &OwnedFd, to: &OwnedFd| {
            let (mut from_offset, mut to_offset) = (from_offset, to_offset);
            rustix::fs::copy_file_range(
                from,
                Some(&mut from_offset),
                to,
                Some(&mut to_offset),
                length,
            )
        };
        // Two ranges of one file: its lock is not taken twice.
        if from.node == to.node {
            return from.with_fd(|fd| copy(fd, &to.fd()));
        }
        from.with_fd(|from| to.with_fd(|to| copy(from, to)))
    }
}

impl OpenFile {
    /// Calls with the descriptor, while the file is not moved.
    fn with_fd<T>(&self, call: impl FnOnce(&OwnedFd) -> T) -> T {
        let _io = self.io.read().unwrap_or_else(PoisonError::into_inner);
        call(&self.fd())
    }
}

fn write_once(fd: &OwnedFd, offset: u64, data: &[u8], kill_suidgid: bool) -> Result<usize> {
    if kill_suidgid {
        drop_suidgid(fd)?;
    }
    rustix::io::pwrite(fd, data, offset)
}

fn drop_suidgid(fd: &OwnedFd) -> Result<()> {
    match without_suidgid(stat_fd(fd)?.stx_mode.into()) {
        Some(mode) => set_mode(fd.as_fd(), mode),
        None => Ok(()),
    }
}
