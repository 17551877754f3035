//! The bytes of one object: sparse, in pages.

use crate::SizeChange;
use std::collections::BTreeMap;

pub(super) const PAGE_BYTES: u64 = 4096;

type Page = [u8; PAGE_BYTES as usize];

/// Bytes with holes. The last page has zeros behind `size`.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) size: u64,
    pages: BTreeMap<u64, Box<Page>>,
}

impl Content {
    pub(super) fn allocated_bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE_BYTES
    }

    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let length = self.size.saturating_sub(offset).min(buf.len() as u64);
        for (page, within, range) in pieces(offset, length) {
            let piece = &mut buf[range];
            match self.pages.get(&page) {
                Some(bytes) => piece.copy_from_slice(&bytes[within..within + piece.len()]),
                None => piece.fill(0),
            }
        }
        length as usize
    }

    pub(super) fn write(&mut self, data: &[u8], offset: u64) {
        for (page, within, range) in pieces(offset, data.len() as u64) {
            let piece = &data[range];
            self.page(page)[within..within + piece.len()].copy_from_slice(piece);
        }
        if !data.is_empty() {
            self.size = self.size.max(offset + data.len() as u64);
        }
    }

    pub(super) fn allocate(&mut self, offset: u64, length: u64) {
        for (page, ..) in pieces(offset, length) {
            self.page(page);
        }
        self.size = self.size.max(offset + length);
    }

    pub(super) fn change(&mut self, change: SizeChange) {
        match change {
            SizeChange::Truncate { length } => {
                let cut = self.size.saturating_sub(length);
                self.punch(length, cut);
                self.size = length;
            }
            SizeChange::Punch { offset, length } => {
                let length = length.min(self.size.saturating_sub(offset.0));
                self.punch(offset.0, length);
            }
        }
    }

    /// Removes whole pages, and zeros a part of the others. Only existing pages are looked at.
    fn punch(&mut self, offset: u64, length: u64) {
        let end = offset + length;
        let (first, last) = (offset / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
        let touched: Vec<u64> =
            self.pages.range(first..last.max(first)).map(|(page, _)| *page).collect();
        for page in touched {
            let start = page * PAGE_BYTES;
            let from = offset.saturating_sub(start) as usize;
            let to = (end - start).min(PAGE_BYTES) as usize;
            // The last page of the object counts as whole when the hole reaches the object's end.
            if from == 0 && (to == PAGE_BYTES as usize || end >= self.size) {
                self.pages.remove(&page);
            } else {
                self.page(page)[from..to].fill(0);
            }
        }
    }

    pub(super) fn next_data(&self, from: u64) -> Option<u64> {
        let (page, _) = self.pages.range(from / PAGE_BYTES..).next()?;
        let at = from.max(page * PAGE_BYTES);
        (at < self.size).then_some(at)
    }

    pub(super) fn next_hole(&self, from: u64) -> Option<u64> {
        if from >= self.size {
            return None;
        }
        let first = from / PAGE_BYTES;
        let run = self
            .pages
            .range(first..)
            .zip(first..)
            .take_while(|((page, _), want)| *page == want)
            .count() as u64;
        Some(if run == 0 { from } else { ((first + run) * PAGE_BYTES).min(self.size) })
    }

    fn page(&mut self, page: u64) -> &mut Page {
        self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE_BYTES as usize]))
    }
}

/// `[offset, offset + length)` by pages: the page, the offset in it, and the range of the caller's
/// bytes.
fn pieces(offset: u64, length: u64) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = offset + done;
        let within = at % PAGE_BYTES;
        let piece = (PAGE_BYTES - within).min(length - done);
        let range = done as usize..(done + piece) as usize;
        done += piece;
        Some((at / PAGE_BYTES, within as usize, range))
    })
}
