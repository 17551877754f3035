//! The memory that one ring entry shares with the kernel.
#![allow(unsafe_code)]

use super::wire::HEADER_BYTES;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};

/// The header has its own page, so that the payload is page aligned.
const HEADER_ROOM: usize = 4096;

/// Header and payload. The kernel writes to it only inside calls of the thread whose ring waits
/// with it (`IORING_SETUP_DEFER_TASKRUN`): between two calls it belongs to that thread alone.
#[derive(Debug)]
pub(super) struct EntryMemory {
    base: NonNull<u8>,
    payload_bytes: usize,
}

// SAFETY: it is plain memory; `WorkerRing` ensures which thread may use it when.
unsafe impl Send for EntryMemory {}
// SAFETY: as above: all access is unsafe, or through the thread's own `WorkerRing`.
unsafe impl Sync for EntryMemory {}

impl EntryMemory {
    pub(super) fn new(payload_bytes: usize) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base = unsafe {
            mmap_anonymous(ptr::null_mut(), HEADER_ROOM + payload_bytes, protection, flags)?
        };
        let base = NonNull::new(base.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Self { base, payload_bytes })
    }

    pub(super) fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    pub(super) fn header_address(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(super) fn payload_address(&self) -> *mut u8 {
        // SAFETY: both are in the one mapping.
        unsafe { self.base.as_ptr().add(HEADER_ROOM) }
    }

    /// A copy of the header.
    ///
    /// # Safety
    /// Only the thread that owns the memory may call it, outside its calls to the kernel.
    pub(super) unsafe fn header(&self) -> [u8; HEADER_BYTES] {
        // SAFETY: HEADER_BYTES are mapped there, any bytes are u8s, and nothing else writes now.
        unsafe { self.header_address().cast::<[u8; HEADER_BYTES]>().read() }
    }

    /// Puts a header in its place.
    ///
    /// # Safety
    /// As [`EntryMemory::header`].
    pub(super) unsafe fn set_header(&self, header: &[u8; HEADER_BYTES]) {
        // SAFETY: HEADER_BYTES are mapped there, and nothing else reads or writes now.
        unsafe { self.header_address().cast::<[u8; HEADER_BYTES]>().write(*header) }
    }

    /// The first `len` bytes of the payload.
    ///
    /// # Safety
    /// As [`EntryMemory::header`], until the last use of the result, and `len` is at most
    /// `payload_bytes`.
    pub(super) unsafe fn payload(&self, len: usize) -> &[u8] {
        debug_assert!(len <= self.payload_bytes);
        // SAFETY: mapped and initialised (zeros at first); the caller ensures that nothing writes.
        unsafe { std::slice::from_raw_parts(self.payload_address(), len) }
    }

    /// The whole payload, to write to.
    ///
    /// # Safety
    /// As [`EntryMemory::payload`], and there is no other reference to it.
    // The memory is behind a pointer; the caller ensures exclusive use.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn payload_mut(&self) -> &mut [u8] {
        // SAFETY: mapped and initialised; the caller ensures exclusive use.
        unsafe { std::slice::from_raw_parts_mut(self.payload_address(), self.payload_bytes) }
    }

    /// Returns the payload's pages to the system; it reads as zeros afterwards.
    ///
    /// # Safety
    /// As [`EntryMemory::payload_mut`], and its content is not needed any more.
    pub(super) unsafe fn release(&self) {
        // SAFETY: the payload's whole pages, private and anonymous: they read as zeros afterwards.
        let _ = unsafe {
            madvise(
                self.payload_address().cast::<c_void>(),
                self.payload_bytes,
                Advice::LinuxDontNeed,
            )
        };
    }
}

impl Drop for EntryMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length. The kernel writes only in calls of the thread
        // that owns the ring, and that thread holds this memory until it ends.
        let _ = unsafe {
            munmap(self.base.as_ptr().cast::<c_void>(), HEADER_ROOM + self.payload_bytes)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_begins_at_a_page_and_is_released_as_zeros() {
        let memory = EntryMemory::new(8192).unwrap();
        assert_eq!(memory.payload_address() as usize % 4096, 0);
        // SAFETY: the kernel does not know this memory, and no reference outlives its line.
        unsafe {
            memory.payload_mut()[8191] = 7;
            memory.set_header(&[5; HEADER_BYTES]);
            assert_eq!((memory.payload(8192)[8191], memory.header()), (7, [5; HEADER_BYTES]));
            memory.release();
            assert_eq!((memory.payload(8192)[8191], memory.header()), (0, [5; HEADER_BYTES]));
        }
    }
}
