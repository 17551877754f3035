//! The read cache: bytes of files that this client has open for reading only, while it holds their
//! data lease in mode *read*. ADR 0032.
//!
//! ```text
//!   small read ──> ticket of the lease ──> pages ──> copied, and the ticket is valid still: done
//!                      │ none                 │ missing
//!                      └──> as without cache  └──> whole pages are read, kept, and copied
//! ```
//!
//! Invariants:
//! 1. A byte from the cache is returned only if the lease under which it was read was held without
//!    a break until after it was copied. So a read sees every write that returned before it.
//! 2. Nothing that this client changes itself is in the cache: its own changes recall nothing from
//!    it. See [`pages`].
//!
//! [`OpenFile::read_cached`] checks 1 after each copy, and `pages` asserts 2.

mod pages;

use std::{io::IoSliceMut, sync::Mutex};

use braid_layout::Request;
use braid_net::Driver;
use braid_types::FileIndex;
use braid_wire::Rights;

use self::pages::{Found, PAGE_BYTES, PageTable};
use super::{Engine, FileView, OpenFile, semaphore::lock};
use crate::{
    error::Result,
    lease::{LeaseHolder, LeaseMode, LeaseOf, LeaseTicket},
};

/// The smallest cache that is worth a page.
pub(crate) const READ_CACHE_BYTES_MIN: u64 = 1 << 20;

/// The read cache of a client.
#[derive(Debug)]
pub(crate) struct ReadCache {
    pages: Mutex<PageTable>,
}

impl ReadCache {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { pages: Mutex::new(PageTable::new(bytes_max.max(READ_CACHE_BYTES_MIN))) }
    }

    /// The mode of the lease that an open with these rights requests.
    pub(super) fn wanted_lease(rights: Rights) -> LeaseMode {
        if rights == Rights::READ { LeaseMode::Read } else { LeaseMode::None }
    }

    /// A file was opened, with or without the right to write.
    pub(super) fn opened(&self, file: FileIndex, writes: bool) {
        lock(&self.pages).opened(file, writes);
    }

    /// A file was closed. Returns whether no other open of it is left.
    pub(super) fn closed(&self, file: FileIndex, writes: bool) -> bool {
        lock(&self.pages).closed(file, writes)
    }
}

/// A change of bytes by a path, whose file is known only from the reply. If there is none, the file
/// may have been changed all the same: then all pages are dropped.
#[derive(Debug)]
pub(super) struct ChangeByPath<'c>(Option<&'c ReadCache>);

impl ChangeByPath<'_> {
    /// The change was answered: it was a change of this file.
    pub(super) fn was_of(mut self, file: FileIndex) {
        if let Some(cache) = self.0.take() {
            lock(&cache.pages).changed(file);
        }
    }
}

impl Drop for ChangeByPath<'_> {
    fn drop(&mut self) {
        if let Some(cache) = self.0.take() {
            lock(&cache.pages).changed_somewhere();
        }
    }
}

impl<D: Driver> Engine<D> {
    /// Begins a call that changes bytes if `changes` is set.
    pub(super) fn begin_change(&self, changes: bool) -> ChangeByPath<'_> {
        ChangeByPath(self.read_cache.as_deref().filter(|_| changes))
    }
}

impl LeaseHolder for ReadCache {
    fn recall_names(&self, _: FileIndex) {}

    fn recall_data(&self, file: FileIndex, _: LeaseMode) -> LeaseMode {
        lock(&self.pages).drop_pages(file);
        LeaseMode::None
    }

    fn lost_all(&self) {
        lock(&self.pages).clear();
    }

    /// Files are read without a lease where others write them, and are written without one.
    fn does_io_under_leases(&self) -> bool {
        false
    }
}

impl<D: Driver> OpenFile<D> {
    /// Reads a small contiguous range through the cache. `None`: it must be read without.
    pub(super) async fn read_cached(
        &self,
        view: &FileView,
        request: &Request,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<Option<usize>> {
        let Some(cache) = &self.engine().read_cache else { return Ok(None) };
        // Without a lease of its own, an open pays no look-up.
        if self.lease().is_none() || self.rights() != Rights::READ || request.bytes >= PAGE_BYTES {
            return Ok(None);
        }
        let (start, end) = (view.file_start(request)?, view.file_end(request)?);
        if end - start != request.bytes {
            return Ok(None);
        }
        let Some(ticket) = self.read_ticket() else { return Ok(None) };
        let found = lock(&cache.pages).look_up(self.file(), ticket, start, buffers);
        match found {
            // Invariant 1.
            Found::Bytes(bytes) => Ok(self.engine().is_valid(&ticket).then_some(bytes)),
            Found::Bypass => Ok(None),
            Found::Missing(range) => {
                let mut pages = vec![0; range.bytes];
                let whole = FileView::whole()?;
                let slice = &mut [IoSliceMut::new(&mut pages)];
                let got = self.read_uncached(&whole, range.offset, slice, None).await?;
                pages.truncate(got);
                let found = pages.get((start - range.offset) as usize..).unwrap_or(&[]);
                let copied = copy(found, buffers);
                if self.engine().is_valid(&ticket) {
                    lock(&cache.pages).insert(self.file(), ticket, range, &pages);
                }
                Ok(Some(copied))
            }
        }
    }

    /// The data lease of the file, if it allows caching.
    fn read_ticket(&self) -> Option<LeaseTicket> {
        let ticket = self.engine().ticket(LeaseOf::Data(self.file()))?;
        (ticket.mode() == LeaseMode::Read).then_some(ticket)
    }
}

/// Copies as much as the buffers take. Returns the number of bytes.
fn copy(mut bytes: &[u8], buffers: &mut [IoSliceMut<'_>]) -> usize {
    let before = bytes.len();
    for buffer in buffers {
        let (taken, rest) = bytes.split_at(bytes.len().min(buffer.len()));
        buffer[..taken.len()].copy_from_slice(taken);
        bytes = rest;
    }
    before - bytes.len()
}
