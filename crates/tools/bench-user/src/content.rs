//! The content of files, which makes reads checkable: blocks of noise, each stamped with its file
//! and its offset.
//!
//! ```text
//!   | offset ^ seed, 8 bytes | noise, the same in every block |     a block: at most 1 KiB
//! ```
//! A misplaced block, or a stale block of another file, has the wrong stamp. Writers set the stamps
//! again and keep the noise: eight bytes in a block cost nothing compared with sending it.

/// Length of a block; shorter when the groups of a view are shorter.
pub(crate) const BLOCK_BYTES_MAX: usize = 1024;
const STAMP_BYTES: usize = 8;

/// The content of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Content {
    seed: u64,
    block: usize,
}

impl Content {
    /// Content in blocks of this many bytes: at least 16, a divisor of every transfer.
    pub(crate) fn new(seed: u64, block: usize) -> Self {
        // Never the plain offset, so that a block of zeros is wrong everywhere, also at the start
        // of the file.
        Self { seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63, block }
    }

    pub(crate) fn block(&self) -> usize {
        self.block
    }

    /// A buffer with the noise of all its blocks; the stamps are not set.
    pub(crate) fn buffer(&self, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        for block in buffer.chunks_mut(self.block) {
            noise(block);
        }
        buffer
    }

    /// Stamps the blocks of a buffer for these offsets of the file.
    pub(crate) fn stamp(&self, buffer: &mut [u8], offset_of: impl Fn(usize) -> u64) {
        for (at, block) in buffer.chunks_mut(self.block).enumerate() {
            if let Some(place) = block.first_chunk_mut::<STAMP_BYTES>() {
                *place = self.stamp_of(offset_of(at));
            }
        }
    }

    /// The offset of the first block whose stamp is wrong.
    pub(crate) fn find_wrong_stamp(
        &self,
        buffer: &[u8],
        offset_of: impl Fn(usize) -> u64,
    ) -> Option<u64> {
        let mut blocks = buffer.chunks(self.block).enumerate();
        blocks.find_map(|(at, block)| {
            let offset = offset_of(at);
            (block.first_chunk::<STAMP_BYTES>() != Some(&self.stamp_of(offset))).then_some(offset)
        })
    }

    /// The offset of the first block that has a wrong byte anywhere.
    pub(crate) fn find_wrong_block(
        &self,
        buffer: &[u8],
        offset_of: impl Fn(usize) -> u64,
    ) -> Option<u64> {
        let mut expected = self.buffer(self.block);
        let mut blocks = buffer.chunks(self.block).enumerate();
        blocks.find_map(|(at, block)| {
            let offset = offset_of(at);
            self.stamp(&mut expected, |_| offset);
            (block != expected).then_some(offset)
        })
    }

    fn stamp_of(&self, offset: u64) -> [u8; STAMP_BYTES] {
        (offset ^ self.seed).to_le_bytes()
    }
}

fn noise(block: &mut [u8]) {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for bytes in block.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.copy_from_slice(&state.to_le_bytes()[..bytes.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stamped_is_right_where_it_belongs_and_wrong_elsewhere() {
        let content = Content::new(3, 512);
        let mut buffer = content.buffer(2048);
        content.stamp(&mut buffer, |at| 8192 + 512 * at as u64);
        assert_eq!(content.find_wrong_block(&buffer, |at| 8192 + 512 * at as u64), None);
        assert_eq!(content.find_wrong_stamp(&buffer, |at| 512 * at as u64), Some(0));
        assert_eq!(
            Content::new(4, 512).find_wrong_stamp(&buffer, |at| 8192 + 512 * at as u64),
            Some(8192)
        );
    }

    #[test]
    fn a_wrong_byte_a_wrong_stamp_and_zeros_are_found() {
        let content = Content::new(0, 4096);
        let mut buffer = content.buffer(8192);
        let offset = |at: usize| 4096 * at as u64;
        content.stamp(&mut buffer, offset);
        let mut torn = buffer.clone();
        torn[8000] ^= 1;
        assert_eq!(
            (content.find_wrong_stamp(&torn, offset), content.find_wrong_block(&torn, offset)),
            (None, Some(4096))
        );
        torn[4096] ^= 1;
        assert_eq!(content.find_wrong_stamp(&torn, offset), Some(4096));
        assert_eq!(content.find_wrong_stamp(&[0; 4096], offset), Some(0));
        assert_eq!(content.find_wrong_block(&buffer[..8000], offset), Some(4096), "a short block");
    }
}
