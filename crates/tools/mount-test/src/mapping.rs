//! A mapping of a file that only the kernel accesses: a missing page is an error (`EFAULT`), not a
//! signal that would end the exerciser before its report.
//!
//! ```text
//!   mapping ── pwrite(scratch, address) ──► scratch (memory file) ── pread ──► buffer      read
//!   mapping ◄── pread(scratch, address) ─── scratch ◄── pwrite ─────────────── buffer      write
//! ```

use std::{
    fs::File,
    io::{Error, Result},
    os::{fd::AsRawFd, unix::fs::FileExt},
    ptr::null_mut,
};

use rustix::{
    fs::MemfdFlags,
    mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap},
};

/// The page size of every machine that runs this test.
pub const PAGE: u64 = 4096;

/// Pages `[0, length)` of a file.
#[derive(Debug)]
pub struct Mapping {
    address: *mut libc::c_void,
    length: usize,
    scratch: File,
}

// SAFETY: only system calls use the address, and any thread may make them.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes, rounded up to a page; the file may be shorter.
    pub fn shared(file: &File, length: u64, writable: bool) -> Result<Self> {
        let protection =
            if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        Self::map(file, length, protection, MapFlags::SHARED)
    }

    /// The same, private and writable: stores change no file.
    pub fn private(file: &File, length: u64) -> Result<Self> {
        Self::map(file, length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    }

    fn map(file: &File, length: u64, protection: ProtFlags, flags: MapFlags) -> Result<Self> {
        let length = usize::try_from(length.next_multiple_of(PAGE))
            .map_err(|_| Error::from_raw_os_error(libc::EFBIG))?;
        // SAFETY: the kernel picks an unused address, and no reference into it is ever made.
        let address = unsafe { mmap(null_mut(), length, protection, flags, file, 0) }?;
        let scratch = File::from(rustix::fs::memfd_create("mapping", MemfdFlags::CLOEXEC)?);
        Ok(Self { address, length, scratch })
    }

    /// Fills `into` from the mapping.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let from = self.at(offset, into.len());
        // SAFETY: `at` has checked that the bytes are in the mapping; the kernel returns EFAULT for
        // a page that it cannot get.
        let done = unsafe { libc::pwrite(self.scratch.as_raw_fd(), from, into.len(), 0) };
        whole(done, into.len())?;
        self.scratch.read_exact_at(into, 0)
    }

    /// Stores `bytes` in the mapping.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let to = self.at(offset, bytes.len());
        self.scratch.write_all_at(bytes, 0)?;
        // SAFETY: as in `read`.
        let done = unsafe { libc::pread(self.scratch.as_raw_fd(), to, bytes.len(), 0) };
        whole(done, bytes.len())
    }

    /// `msync(MS_SYNC)` of the whole mapping.
    pub fn sync(&self) -> Result<()> {
        // SAFETY: exactly the mapped range.
        Ok(unsafe { msync(self.address, self.length, MsyncFlags::SYNC) }?)
    }

    fn at(&self, offset: u64, length: usize) -> *mut libc::c_void {
        let offset = usize::try_from(offset).expect("offsets of a mapping fit");
        assert!(
            offset + length <= self.length,
            "{length} bytes at {offset} of a mapping of {}",
            self.length
        );
        self.address.wrapping_byte_add(offset)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapped range, and only this object has the address. It cannot fail
        // then.
        let _ = unsafe { munmap(self.address, self.length) };
    }
}

fn whole(done: isize, wanted: usize) -> Result<()> {
    match usize::try_from(done) {
        Err(_) => Err(Error::last_os_error()),
        Ok(done) if done == wanted => Ok(()),
        Ok(_) => Err(Error::from_raw_os_error(libc::EFAULT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_to_a_mapping_is_in_the_file_and_the_other_way_round() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * PAGE).unwrap();
        let mapping = Mapping::shared(&file, 3 * PAGE, true).unwrap();
        mapping.write(PAGE - 2, b"over").unwrap();
        mapping.sync().unwrap();
        let mut seen = [0; 4];
        file.read_exact_at(&mut seen, PAGE - 2).unwrap();
        assert_eq!(&seen, b"over");
        file.write_all_at(b"back", 2 * PAGE).unwrap();
        mapping.read(2 * PAGE, &mut seen).unwrap();
        assert_eq!(&seen, b"back");
    }

    #[test]
    fn a_page_behind_the_end_of_the_file_is_an_error_and_no_signal() {
        let file = tempfile::tempfile().unwrap();
        let mapping = Mapping::shared(&file, 2 * PAGE, true).unwrap();
        let error = mapping.read(PAGE, &mut [0; 8]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        assert_eq!(mapping.write(0, b"x").unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }
}
