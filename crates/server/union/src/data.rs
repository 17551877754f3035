//! Bytes of files that the kernel does not read and write by itself.

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
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pread(file.fd(), &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(Errno::INTR) => {}
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes at an offset. Returns how many bytes were written: fewer if the disk is full.
    ///
    /// # Errors
    /// Those of pwrite(2), if no byte was written.
    pub fn write(
        &self,
        file: &OpenFile,
        offset: u64,
        data: &[u8],
        kill_suidgid: bool,
    ) -> Result<usize> {
        if kill_suidgid && let Some(mode) = without_suidgid(stat_fd(file.fd())?.stx_mode.into()) {
            set_mode(file.fd(), mode)?;
        }
        let mut done = 0;
        while done < data.len() {
            match rustix::io::pwrite(file.fd(), &data[done..], offset + done as u64) {
                Ok(bytes) => done += bytes,
                Err(Errno::INTR) => {}
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
        if data_only { rustix::fs::fdatasync(file.fd()) } else { rustix::fs::fsync(file.fd()) }
    }

    /// Writes a directory's names to the disks.
    ///
    /// # Errors
    /// Those of fsync(2).
    pub fn sync_directory(&self, id: NodeId) -> Result<()> {
        use rustix::fs::{Mode, OFlags};
        let node = self.nodes.get(id)?;
        for copy in node.copies() {
            let path = self.directory_fd(&node, copy.branch)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::fsync(rustix::fs::openat(&*path, c".", flags, Mode::empty())?)?;
        }
        Ok(())
    }

    /// fallocate(2); `mode` has its flags.
    ///
    /// # Errors
    /// Those of fallocate(2).
    pub fn allocate(&self, file: &OpenFile, mode: u32, offset: u64, length: u64) -> Result<()> {
        let mode = FallocateFlags::from_bits(mode).ok_or(Errno::OPNOTSUPP)?;
        rustix::fs::fallocate(file.fd(), mode, offset, length)
    }

    /// The next data (`true`) or hole at or after an offset.
    ///
    /// # Errors
    /// `ENXIO`: there is none.
    pub fn seek(&self, file: &OpenFile, offset: u64, data: bool) -> Result<u64> {
        let to = if data { SeekFrom::Data(offset) } else { SeekFrom::Hole(offset) };
        rustix::fs::seek(file.fd(), to)
    }

    /// Copies a range: within a branch that can share blocks, without copying them.
    ///
    /// # Errors
    /// `EXDEV`: the branch's file system copies only within itself; the caller reads and writes.
    pub fn copy_range(
        &self,
        (from, from_offset): (&OpenFile, u64),
        (to, to_offset): (&OpenFile, u64),
        length: u64,
    ) -> Result<usize> {
        let (mut from_offset, mut to_offset) = (from_offset, to_offset);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        rustix::fs::copy_file_range(
            from.fd(),
            Some(&mut from_offset),
            to.fd(),
            Some(&mut to_offset),
            length,
        )
    }
}
