//! The expected content of the file: its bytes in memory, and the operation that wrote each of them
//! last.

/// The expected file.
#[derive(Debug)]
pub struct Image {
    bytes: Vec<u8>,
    writers: Vec<u64>,
}

/// The first byte that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Its offset in the file.
    pub offset: u64,
    /// The expected bytes from there on.
    pub wanted: Vec<u8>,
    /// The bytes found.
    pub found: Vec<u8>,
    /// How many of the bytes read differ.
    pub count: usize,
    /// The number of the operation that last wrote, truncated or zeroed this byte.
    pub writer: u64,
}

/// Bytes of a difference that are printed.
const SHOWN: usize = 16;

impl Image {
    /// An empty file that will not grow beyond `length_max`.
    pub fn new(length_max: u64) -> Self {
        let length = usize::try_from(length_max).expect("an image fits into memory");
        Self { bytes: Vec::with_capacity(length), writers: vec![0; length] }
    }

    /// Its length.
    pub fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// `[offset, offset + length)`, as far as the file reaches.
    pub fn part(&self, offset: u64, length: u64) -> &[u8] {
        let end = self.length().min(offset + length);
        if offset >= end { &[] } else { &self.bytes[offset as usize..end as usize] }
    }

    /// Stores bytes, and zeros between the end of the file and them.
    pub fn write(&mut self, operation: u64, offset: u64, bytes: &[u8]) {
        self.reach(operation, offset + bytes.len() as u64);
        let range = offset as usize..offset as usize + bytes.len();
        self.bytes[range.clone()].copy_from_slice(bytes);
        self.writers[range].fill(operation);
    }

    /// Zeroes a range; the part behind the end is ignored.
    pub fn zero(&mut self, operation: u64, offset: u64, length: u64) {
        let end = self.length().min(offset + length);
        if offset < end {
            self.write(operation, offset, &vec![0; (end - offset) as usize]);
        }
    }

    /// Extends it to at least `length`.
    pub fn reach(&mut self, operation: u64, length: u64) {
        if self.length() < length {
            self.truncate(operation, length);
        }
    }

    /// Sets its length.
    pub fn truncate(&mut self, operation: u64, length: u64) {
        let (old, new) = (self.bytes.len(), length as usize);
        self.bytes.resize(new, 0);
        self.writers[old.min(new)..old.max(new)].fill(operation);
    }

    /// Compares what was read at `offset` with the image; behind the end only zeros are allowed.
    pub fn compare(&self, offset: u64, found: &[u8]) -> Option<Difference> {
        if found == self.part(offset, found.len() as u64) {
            return None;
        }
        let wanted = |at: usize| self.bytes.get(offset as usize + at).copied().unwrap_or(0);
        let first = (0..found.len()).find(|at| found[*at] != wanted(*at))?;
        let shown = first..found.len().min(first + SHOWN);
        Some(Difference {
            offset: offset + first as u64,
            wanted: shown.clone().map(wanted).collect(),
            found: found[shown].to_vec(),
            count: (first..found.len()).filter(|at| found[*at] != wanted(*at)).count(),
            writer: self.writers.get(offset as usize + first).copied().unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_behind_the_end_leaves_zeros_between() {
        let mut image = Image::new(100);
        image.write(1, 3, b"ab");
        assert_eq!(image.part(0, 10), b"\0\0\0ab");
    }

    #[test]
    fn what_was_cut_off_comes_back_as_zeros() {
        let mut image = Image::new(100);
        image.write(1, 0, b"abcd");
        image.truncate(2, 2);
        image.truncate(3, 4);
        assert_eq!(image.part(0, 10), b"ab\0\0");
    }

    #[test]
    fn a_difference_names_the_first_byte_and_who_wrote_it() {
        let mut image = Image::new(100);
        image.write(1, 0, b"aaaa");
        image.write(2, 2, b"bb");
        assert_eq!(image.compare(1, b"abb"), None);
        let difference = image.compare(1, b"axb").unwrap();
        assert_eq!((difference.offset, difference.writer, difference.count), (2, 2, 1));
        assert_eq!((difference.wanted, difference.found), (b"bb".to_vec(), b"xb".to_vec()));
        assert_eq!(image.compare(3, b"b\0\0"), None, "zeros behind the end are correct");
    }
}
