//! Memory that begins at a page.

/// Where pages are larger, an alignment of 4 KiB is still what copying likes.
const ALIGN: usize = 4096;

/// Zeroed memory, page aligned. A page is taken from the system when it is first touched, so that a
/// worker which never sees a large request stays small.
pub(super) struct Pages {
    memory: Vec<u8>,
    begin: usize,
    len: usize,
}

impl Pages {
    pub(super) fn new(len: usize) -> Self {
        let memory = vec![0; len + ALIGN];
        // `align_offset` may refuse to answer in theory; then it is not aligned, and works.
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
    fn it_begins_at_a_page_and_is_as_long_as_asked() {
        let mut pages = Pages::new(10_000);
        assert_eq!(pages.bytes().len(), 10_000);
        assert_eq!(pages.bytes().as_ptr() as usize % ALIGN, 0);
    }
}
