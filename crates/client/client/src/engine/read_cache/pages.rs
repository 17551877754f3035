//! Pages of files in bounded memory, and the patterns in which files are read. No I/O, no clock,
//! and no lease: a page is kept for one ticket and is found only with an equal one. ADR 0032.
//!
//! Invariants:
//! 1. All pages together have at most the set number of bytes, and those of a file half of it.
//! 2. A page is inserted only if nothing that this client changed in the meantime may have changed
//!    its bytes: see [`PageTable::changed`].
//! 3. A file that this client has open for writing has no pages.
//! 4. `order` has one entry for each page.

use std::{
    collections::{HashMap, VecDeque},
    io::IoSliceMut,
};

use braid_types::FileIndex;

use crate::lease::LeaseTicket;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: u64 = 64 << 10;
/// Pages that a file read in order reads with one call: 1 MiB.
const READ_AHEAD_PAGES_MAX: u64 = 16;
/// Memory that a page needs besides its bytes.
const PAGE_OVERHEAD_BYTES: u64 = 128;
/// After this number of misses the pattern of a file is judged.
const MISSES_JUDGED: u32 = 64;
/// If fewer reads than this were found meanwhile, whole pages cost more than they save.
const HITS_NEEDED: u32 = 8;
/// For how many misses only the requested bytes are read then: doubled up to the maximum.
const BYPASSED_MISSES_MIN: u32 = 64;
const BYPASSED_MISSES_MAX: u32 = 4096;

/// The pages of all files of a client.
#[derive(Debug)]
pub(crate) struct PageTable {
    bytes_max: u64,
    bytes: u64,
    files: HashMap<FileIndex, CachedFile>,
    /// Pages in order of arrival, except those that a hit gave a second chance.
    order: VecDeque<(FileIndex, u64)>,
    /// The number of changes that this client made to bytes of files.
    changes: u64,
}

#[derive(Debug, Default)]
struct CachedFile {
    /// Open files of this client, which can only read and which can write.
    readers: usize,
    writers: usize,
    ticket: Option<LeaseTicket>,
    pages: HashMap<u64, Page>,
    bytes: u64,
    pattern: Pattern,
}

#[derive(Debug)]
struct Page {
    /// [`PAGE_BYTES`], or fewer where the file ends.
    data: Box<[u8]>,
    used: bool,
}

impl Page {
    fn cost(&self) -> u64 {
        self.data.len() as u64 + PAGE_OVERHEAD_BYTES
    }
}

/// How a file has been read.
#[derive(Debug, Default)]
struct Pattern {
    /// The page after the last one that was read, and the number of pages to read next.
    next_page: u64,
    run: u64,
    hits: u32,
    misses: u32,
    bypassed_left: u32,
    bypassed_next: u32,
}

/// The result of [`PageTable::look_up`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The buffers have this number of bytes, fewer than requested only at the end of the file.
    Bytes(usize),
    /// Read this range, and offer it to [`PageTable::insert`].
    Missing(MissingRange),
    /// Read the requested bytes only.
    Bypass,
}

/// A range of whole pages to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MissingRange {
    /// The file offset of the first byte.
    pub(crate) offset: u64,
    /// The number of bytes.
    pub(crate) bytes: usize,
    changes: u64,
}

impl PageTable {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let (files, order) = (HashMap::new(), VecDeque::new());
        Self { bytes_max, bytes: 0, files, order, changes: 0 }
    }

    /// A file was opened, with or without the right to write.
    pub(crate) fn opened(&mut self, file: FileIndex, writes: bool) {
        let known = self.files.entry(file).or_default();
        if writes {
            known.writers += 1
        } else {
            known.readers += 1
        }
        if writes {
            self.changed(file);
        }
    }

    /// A file was closed. Returns whether it was the last open of the file.
    pub(crate) fn closed(&mut self, file: FileIndex, writes: bool) -> bool {
        let Some(known) = self.files.get_mut(&file) else { return true };
        let count = if writes { &mut known.writers } else { &mut known.readers };
        *count = count.saturating_sub(1);
        let is_last = known.readers == 0 && known.writers == 0;
        if is_last {
            self.drop_pages(file);
            self.files.remove(&file);
        }
        is_last
    }

    /// This client may have changed bytes of a file: its pages are dropped, and pages that are
    /// being read are not inserted, whichever file they belong to.
    pub(crate) fn changed(&mut self, file: FileIndex) {
        self.changes += 1;
        self.drop_pages(file);
    }

    /// As [`PageTable::changed`], if the file is not known.
    pub(crate) fn changed_somewhere(&mut self) {
        self.changes += 1;
        self.clear();
    }

    /// Drops the pages of a file.
    pub(crate) fn drop_pages(&mut self, file: FileIndex) {
        let Some(known) = self.files.get_mut(&file) else { return };
        known.ticket = None;
        self.bytes -= std::mem::take(&mut known.bytes);
        if !std::mem::take(&mut known.pages).is_empty() {
            self.order.retain(|(of, _)| *of != file);
        }
        self.check_bytes();
    }

    /// Drops all pages.
    pub(crate) fn clear(&mut self) {
        for known in self.files.values_mut() {
            (known.ticket, known.bytes) = (None, 0);
            known.pages.clear();
        }
        self.order.clear();
        self.bytes = 0;
    }

    /// Copies bytes of a file from `offset` to the buffers, if all of them are cached under this
    /// ticket.
    pub(crate) fn look_up(
        &mut self,
        file: FileIndex,
        ticket: LeaseTicket,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Found {
        let bytes: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let end = offset.saturating_add(bytes as u64);
        if self.files.get(&file).is_none_or(|known| known.writers > 0) || bytes == 0 {
            return Found::Bypass;
        }
        if self.files.get(&file).is_some_and(|known| known.ticket != Some(ticket)) {
            self.drop_pages(file);
        }
        let (changes, pages_max) = (self.changes, (self.bytes_max / 4 / PAGE_BYTES).max(1));
        let Some(known) = self.files.get_mut(&file) else { return Found::Bypass };
        known.ticket = Some(ticket);
        let pages = offset / PAGE_BYTES..=(end - 1) / PAGE_BYTES;
        if let Some(copied) = known.copy(offset, end, buffers) {
            known.pattern.hits = known.pattern.hits.saturating_add(1);
            return Found::Bytes(copied);
        }
        let needed = pages.end() - pages.start() + 1;
        match known.pattern.missed(*pages.start(), needed, pages_max) {
            Some(count) => {
                let (offset, bytes) = (pages.start() * PAGE_BYTES, (count * PAGE_BYTES) as usize);
                Found::Missing(MissingRange { offset, bytes, changes })
            }
            None => Found::Bypass,
        }
    }

    /// Inserts what was read for a missing range: fewer bytes than the range has if the file ends
    /// in it. The caller has checked that the ticket is valid still.
    pub(crate) fn insert(
        &mut self,
        file: FileIndex,
        ticket: LeaseTicket,
        range: MissingRange,
        data: &[u8],
    ) {
        let Some(known) = self.files.get_mut(&file) else { return };
        // Invariants 2 and 3.
        if range.changes != self.changes || known.writers > 0 || known.ticket != Some(ticket) {
            return;
        }
        let first = range.offset / PAGE_BYTES;
        // The file may end where a page begins: then that page is empty.
        let ends = (data.len() < range.bytes && data.len().is_multiple_of(PAGE_BYTES as usize))
            .then_some(&[][..]);
        for (page, bytes) in (first..).zip(data.chunks(PAGE_BYTES as usize).chain(ends)) {
            let added = Page { data: bytes.into(), used: false };
            let cost = added.cost();
            let before = known.pages.insert(page, added).map(|before| before.cost());
            if before.is_none() {
                self.order.push_back((file, page));
            }
            known.bytes = known.bytes + cost - before.unwrap_or(0);
            self.bytes = self.bytes + cost - before.unwrap_or(0);
        }
        while self.files.get(&file).is_some_and(|known| known.bytes > self.bytes_max / 2) {
            let Some(at) = self.order.iter().position(|(of, _)| *of == file) else { break };
            if let Some((_, page)) = self.order.remove(at) {
                self.remove_page(file, page);
            }
        }
        while self.bytes > self.bytes_max {
            let Some((file, page)) = self.order.pop_front() else { break };
            let cached = self.files.get_mut(&file).and_then(|known| known.pages.get_mut(&page));
            if cached.is_some_and(|cached| std::mem::take(&mut cached.used)) {
                // A second chance.
                self.order.push_back((file, page));
            } else {
                self.remove_page(file, page);
            }
        }
        self.check_bytes();
    }

    fn remove_page(&mut self, file: FileIndex, page: u64) {
        let Some(known) = self.files.get_mut(&file) else { return };
        if let Some(removed) = known.pages.remove(&page) {
            known.bytes -= removed.cost();
            self.bytes -= removed.cost();
        }
    }

    /// Invariants 1 and 4.
    fn check_bytes(&self) {
        debug_assert!(self.bytes <= self.bytes_max, "1: all pages together");
        debug_assert!(
            self.files.values().all(|known| known.bytes <= self.bytes_max / 2),
            "1: the pages of a file"
        );
        debug_assert_eq!(
            self.order.len(),
            self.files.values().map(|known| known.pages.len()).sum::<usize>(),
            "4: one entry for each page"
        );
        debug_assert!(
            self.files.values().all(|known| known.writers == 0 || known.pages.is_empty()),
            "3: no pages of a file that is open for writing"
        );
    }

    #[cfg(test)]
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl CachedFile {
    /// Copies `offset..end`, if every page of it is here up to the end of the file.
    fn copy(&mut self, offset: u64, end: u64, buffers: &mut [IoSliceMut<'_>]) -> Option<usize> {
        let pages = offset / PAGE_BYTES..=(end - 1) / PAGE_BYTES;
        let is_short = |page: &Page| (page.data.len() as u64) < PAGE_BYTES;
        for page in pages.clone() {
            if is_short(self.pages.get(&page)?) {
                break;
            }
        }
        let mut output = buffers.iter_mut().map(|buffer| &mut buffer[..]).filter(|b| !b.is_empty());
        let mut space: &mut [u8] = output.next()?;
        let mut at = offset;
        for page in pages {
            let cached = self.pages.get_mut(&page)?;
            cached.used = true;
            let begin = page * PAGE_BYTES;
            let (from, to) = ((at - begin) as usize, (end - begin).min(PAGE_BYTES) as usize);
            let mut bytes = cached.data.get(from..to.min(cached.data.len())).unwrap_or(&[]);
            at += bytes.len() as u64;
            while !bytes.is_empty() {
                if space.is_empty() {
                    space = output.next()?;
                }
                let count = bytes.len().min(space.len());
                let (filled, rest) = space.split_at_mut(count);
                filled.copy_from_slice(&bytes[..count]);
                (bytes, space) = (&bytes[count..], rest);
            }
            if is_short(cached) {
                break;
            }
        }
        Some((at - offset) as usize)
    }
}

impl Pattern {
    /// A read of `needed` pages from `first` was not found. Returns the number of pages to read, or
    /// `None` if whole pages are not worth it.
    fn missed(&mut self, first: u64, needed: u64, pages_max: u64) -> Option<u64> {
        if self.bypassed_left > 0 {
            self.bypassed_left -= 1;
            return None;
        }
        self.misses += 1;
        if self.misses == MISSES_JUDGED {
            if self.hits < HITS_NEEDED {
                self.bypassed_next =
                    (self.bypassed_next * 2).clamp(BYPASSED_MISSES_MIN, BYPASSED_MISSES_MAX);
                self.bypassed_left = self.bypassed_next;
            } else {
                self.bypassed_next = 0;
            }
            (self.hits, self.misses) = (0, 0);
        }
        self.run = if first == self.next_page && first > 0 {
            (self.run * 2).min(READ_AHEAD_PAGES_MAX)
        } else {
            1
        };
        let count = self.run.min(pages_max).max(needed);
        self.next_page = first + count;
        Some(count)
    }
}

#[cfg(test)]
mod tests;
