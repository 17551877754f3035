//! Pieces of a file that the kernel sends from where the file is mapped.
#![allow(unsafe_code)] // slices of a mapping, for `sendmsg` alone

use std::{fs::File, io::IoSlice};

use memmap2::MmapRaw;

/// A piece of a file, which is in the address space from its beginning on.
#[derive(Clone, Copy, Debug)]
pub struct MappedPiece<'m> {
    map: &'m MmapRaw,
    /// To read from what the mapping has not got any more.
    pub(super) file: &'m File,
    pub(super) offset: u64,
    pub(super) bytes: usize,
}

impl<'m> MappedPiece<'m> {
    /// `bytes` of `file` from `offset`; `None` where they go past the end of `map`. The file may end before.
    pub fn new(map: &'m MmapRaw, file: &'m File, offset: u64, bytes: usize) -> Option<Self> {
        let end = usize::try_from(offset).ok()?.checked_add(bytes)?;
        (end <= map.len()).then_some(Self { map, file, offset, bytes })
    }

    /// What `sendmsg` may be given, and nothing else: where the file was cut it says `EFAULT`, and any other look at the bytes ends
    /// the process.
    pub(super) fn for_the_kernel(&self) -> IoSlice<'m> {
        // SAFETY: `new` has seen to it that the range lies in the mapping, which is there for 'm. Nobody in this process writes to
        // it, and none reads it: the callers hand it to the kernel, which copies what the file has at that moment.
        IoSlice::new(unsafe {
            std::slice::from_raw_parts(self.map.as_ptr().add(self.offset as usize), self.bytes)
        })
    }
}
