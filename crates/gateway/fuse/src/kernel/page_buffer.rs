//! Page-aligned buffers.

/// Where pages are larger, an alignment of 4 KiB is still good for copying.
const ALIGN: usize = 4096;

/// Zeroed memory, page aligned. The system allocates a page when it is first touched, so a worker
/// that never gets a large request stays small.
pub(super) struct PageBuffer {
    memory: Vec<u8>,
    begin: usize,
    len: usize,
}

impl PageBuffer {
    pub(super) fn new(len: usize) -> Self {
        let memory = vec![0; len + ALIGN];
        // `align_offset` may fail in theory. Then the buffer is not aligned, and works.
        let begin =
            Some(memory.as_ptr().align_offset(ALIGN)).filter(|begin| *begin < ALIGN).unwrap_or(0);
        Self { memory, begin, len }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..self.begin + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_begins_at_a_page_and_has_its_length() {
        let mut pages = PageBuffer::new(10_000);
        assert_eq!(pages.bytes().len(), 10_000);
        assert_eq!(pages.bytes().as_ptr() as usize % ALIGN, 0);
    }
}
