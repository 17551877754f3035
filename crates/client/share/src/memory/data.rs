//! Bytes of a file with holes: the present ones, and those that are durable.
//!
//! Invariants:
//! 1. No block lies at or after the end of the file, and bytes of the last block after the end are
//!    zero: a file that grows again shows zeros.
//! 2. Every block with bytes is allocated.

use std::{collections::BTreeMap, sync::Arc};

use braid_types::RangeMap;

/// Bytes of a block: what is allocated and what a hole consists of.
pub(super) const BLOCK_BYTES: u64 = 4096;

type Block = Arc<[u8; BLOCK_BYTES as usize]>;

/// The bytes of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct SparseBytes {
    bytes: u64,
    blocks: BTreeMap<u64, Block>,
    /// Numbers of allocated blocks, with bytes or without.
    allocated: RangeMap<()>,
}

impl SparseBytes {
    /// The size of the file, in bytes.
    pub(super) fn len(&self) -> u64 {
        self.bytes
    }

    /// Bytes of all allocated blocks.
    pub(super) fn allocated_bytes(&self) -> u64 {
        self.allocated.iter().map(|(first, last, ())| (last - first + 1) * BLOCK_BYTES).sum()
    }

    /// Up to `count` bytes at `offset`; fewer only at the end of the file.
    pub(super) fn read(&self, offset: u64, count: u64) -> Vec<u8> {
        let end = offset.saturating_add(count).min(self.bytes);
        let mut out = vec![0; end.saturating_sub(offset) as usize];
        for (at, block, within, length) in pieces(offset, out.len() as u64) {
            if let Some(bytes) = self.blocks.get(&block) {
                out[at..at + length].copy_from_slice(&bytes[within..within + length]);
            }
        }
        out
    }

    /// Writes at `offset`; a file that was shorter has a hole before it.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        for (at, block, within, length) in pieces(offset, data.len() as u64) {
            let bytes = Arc::make_mut(self.blocks.entry(block).or_insert_with(zeros));
            bytes[within..within + length].copy_from_slice(&data[at..at + length]);
            self.allocated.set(block, block, ());
        }
        if !data.is_empty() {
            self.bytes = self.bytes.max(offset + data.len() as u64);
        }
    }

    /// Truncates or extends the file to `bytes`.
    pub(super) fn set_len(&mut self, bytes: u64) {
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        drop(self.blocks.split_off(&blocks));
        self.allocated.clear(blocks, u64::MAX);
        self.bytes = bytes;
        let within = (bytes % BLOCK_BYTES) as usize;
        if within > 0
            && let Some(last) = self.blocks.get_mut(&(blocks - 1))
        {
            Arc::make_mut(last)[within..].fill(0);
        }
    }

    /// Allocates the blocks of a range, and extends the file to its end.
    pub(super) fn allocate(&mut self, offset: u64, bytes: u64) {
        if bytes > 0 {
            let end = offset + bytes;
            self.allocated.set(offset / BLOCK_BYTES, (end - 1) / BLOCK_BYTES, ());
            self.bytes = self.bytes.max(end);
        }
    }

    /// Makes a range read as zeros; whole blocks become a hole.
    pub(super) fn punch(&mut self, offset: u64, bytes: u64) {
        let end = (offset + bytes).min(self.bytes.next_multiple_of(BLOCK_BYTES));
        let (first, after) = (offset.div_ceil(BLOCK_BYTES), end / BLOCK_BYTES);
        if first < after {
            let rest = self.blocks.split_off(&after);
            drop(self.blocks.split_off(&first));
            self.blocks.extend(rest);
            self.allocated.clear(first, after - 1);
        }
        let edges = [offset / BLOCK_BYTES, end / BLOCK_BYTES];
        for block in edges {
            let start = block * BLOCK_BYTES;
            let (from, to) = (offset.max(start), end.min(start + BLOCK_BYTES));
            if from < to
                && let Some(bytes) = self.blocks.get_mut(&block)
            {
                Arc::make_mut(bytes)[(from - start) as usize..(to - start) as usize].fill(0);
            }
        }
    }

    /// The next byte of data at or after `offset`.
    pub(super) fn next_data(&self, offset: u64) -> Option<u64> {
        let (block, _) = self.blocks.range(offset / BLOCK_BYTES..).next()?;
        let found = offset.max(block * BLOCK_BYTES);
        (found < self.bytes).then_some(found)
    }

    /// The next hole at or after `offset`, at the latest the end; `None` past the end.
    pub(super) fn next_hole(&self, offset: u64) -> Option<u64> {
        if offset >= self.bytes {
            return None;
        }
        let mut block = offset / BLOCK_BYTES;
        while self.blocks.contains_key(&block) {
            block += 1;
        }
        Some(offset.max(block * BLOCK_BYTES).min(self.bytes))
    }
}

/// The bytes of a file, and those that would be left of it after a loss of power.
#[derive(Clone, Debug, Default)]
pub(super) struct FileData {
    pub(super) present: SparseBytes,
    /// `None` if they are the present ones.
    durable: Option<SparseBytes>,
}

impl FileData {
    /// Changes bytes, which are not durable before [`FileData::flush`].
    pub(super) fn change_unflushed(&mut self, change: impl FnOnce(&mut SparseBytes)) {
        self.durable.get_or_insert_with(|| self.present.clone());
        change(&mut self.present);
    }

    /// Changes the bytes durably, as a truncate does.
    pub(super) fn change_durably(&mut self, change: impl Fn(&mut SparseBytes)) {
        self.durable.iter_mut().for_each(&change);
        change(&mut self.present);
    }

    /// Makes everything durable.
    pub(super) fn flush(&mut self) {
        self.durable = None;
    }

    /// Loses what is not durable. Returns whether anything was lost.
    pub(super) fn lose_unflushed(&mut self) -> bool {
        let durable = self.durable.take();
        let lost = durable.is_some();
        self.present = durable.unwrap_or_else(|| std::mem::take(&mut self.present));
        lost
    }
}

fn zeros() -> Block {
    Arc::new([0; BLOCK_BYTES as usize])
}

/// The pieces of a range, one for each block: position in the range, block, position in the block,
/// length.
fn pieces(offset: u64, bytes: u64) -> impl Iterator<Item = (usize, u64, usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= bytes {
            return None;
        }
        let (block, within) = ((offset + at) / BLOCK_BYTES, (offset + at) % BLOCK_BYTES);
        let length = (BLOCK_BYTES - within).min(bytes - at);
        let piece = (at as usize, block, within as usize, length as usize);
        at += length;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_shrinks_and_grows_again_shows_zeros() {
        let mut data = SparseBytes::default();
        data.write(4090, &[7; 20]);
        data.set_len(4094);
        data.set_len(5000);
        assert_eq!(data.read(4088, 100), [&[0, 0, 7, 7, 7, 7][..], &[0; 94]].concat());
        assert_eq!(data.allocated_bytes(), BLOCK_BYTES);
    }

    #[test]
    fn a_punched_range_reads_as_zeros_and_its_whole_blocks_are_a_hole() {
        let mut data = SparseBytes::default();
        data.write(0, &[1; 4 * 4096]);
        data.punch(100, 2 * 4096 + 100);
        let expected = [&[1; 100][..], &[0; 8292], &[1; 4 * 4096 - 8392]].concat();
        assert_eq!(data.read(0, u64::from(u32::MAX)), expected);
        assert_eq!((data.next_hole(0), data.next_data(4096)), (Some(4096), Some(8192)));
        assert_eq!(data.len(), 4 * 4096);
        data.punch(0, 1 << 60);
        assert_eq!((data.next_data(0), data.next_hole(0)), (None, Some(0)));
        assert_eq!(data.allocated_bytes(), 0);
    }

    #[test]
    fn holes_end_at_data_and_data_at_holes_or_the_end() {
        let mut data = SparseBytes::default();
        data.write(1 << 40, b"x");
        assert_eq!((data.next_data(0), data.next_hole(0)), (Some(1 << 40), Some(0)));
        assert_eq!(data.next_hole(1 << 40), Some((1 << 40) + 1));
        assert_eq!((data.next_data((1 << 40) + 1), data.next_hole((1 << 40) + 1)), (None, None));
    }

    #[test]
    fn allocated_blocks_count_and_read_as_a_hole() {
        let mut data = SparseBytes::default();
        data.allocate(10, 8192);
        assert_eq!((data.len(), data.allocated_bytes()), (8202, 3 * BLOCK_BYTES));
        assert_eq!(data.next_data(0), None);
        assert_eq!(data.read(8200, 10), [0, 0]);
    }

    #[test]
    fn lost_bytes_are_those_written_since_the_last_flush() {
        let mut data = FileData::default();
        data.change_unflushed(|bytes| bytes.write(0, b"kept"));
        data.flush();
        data.change_unflushed(|bytes| bytes.write(0, b"lost and longer"));
        assert!(data.lose_unflushed());
        assert_eq!(data.present.read(0, 100), b"kept");
        assert!(!data.lose_unflushed(), "nothing is left to lose");
    }
}
