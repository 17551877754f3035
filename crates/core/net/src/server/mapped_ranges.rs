//! Ranges of a mapped file that the kernel sends directly from the mapping.
#![allow(unsafe_code)] // slices of a mapping, for `sendmsg` only

use std::{fs::File, io::IoSlice};

use memmap2::MmapRaw;

/// A range of a file that is mapped from its beginning.
#[derive(Clone, Copy, Debug)]
pub struct MappedRange<'m> {
    map: &'m MmapRaw,
    /// The file, for reading what the mapping no longer has.
    pub(super) file: &'m File,
    pub(super) offset: u64,
    pub(super) bytes: usize,
}

impl<'m> MappedRange<'m> {
    /// `bytes` of `file` from `offset`; `None` when they pass the end of `map`. The file may end
    /// earlier.
    pub fn new(map: &'m MmapRaw, file: &'m File, offset: u64, bytes: usize) -> Option<Self> {
        let end = usize::try_from(offset).ok()?.checked_add(bytes)?;
        (end <= map.len()).then_some(Self { map, file, offset, bytes })
    }

    /// A slice for `sendmsg` and nothing else. If the file was truncated, `sendmsg` returns
    /// `EFAULT`; any other access to the bytes kills the process with `SIGBUS`.
    pub(super) fn as_io_slice(&self) -> IoSlice<'m> {
        // SAFETY: `new` checked that the range lies in the mapping, which lives for 'm. No code in
        // this process reads or writes through the slice: the callers pass it to the kernel, which
        // copies the file's present content.
        IoSlice::new(unsafe {
            std::slice::from_raw_parts(self.map.as_ptr().add(self.offset as usize), self.bytes)
        })
    }
}
