//! Lists of entries, each of which begins with the offset of the next one from itself; 0 in the
//! last one.

use bytes::Bytes;

use crate::cursor::{Malformed, Reader, Result, Writer};

/// The entries of a list, each from its `NextEntryOffset` to the next entry.
#[derive(Clone, Debug)]
pub struct Entries {
    left: Option<Bytes>,
}

impl Entries {
    /// The entries in a buffer; none in an empty one.
    pub fn new(bytes: Bytes) -> Self {
        Self { left: Some(bytes).filter(|bytes| !bytes.is_empty()) }
    }

    fn step(&mut self, mut bytes: Bytes) -> Result<Reader> {
        let offset = Reader::new(bytes.clone()).u32()? as usize;
        if offset != 0 {
            if offset < 4 || offset >= bytes.len() {
                return Err(Malformed("list: NextEntryOffset"));
            }
            self.left = Some(bytes.split_off(offset));
        }
        let mut reader = Reader::new(bytes);
        reader.skip(4)?;
        Ok(reader)
    }
}

impl Iterator for Entries {
    /// A reader of an entry, behind its `NextEntryOffset`.
    type Item = Result<Reader>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.left.take()?;
        Some(self.step(bytes))
    }
}

/// Writes a list of a bounded length.
#[derive(Clone, Debug)]
pub struct ListWriter {
    writer: Writer,
    /// Where each entry begins at a multiple of.
    alignment: usize,
    max_bytes: usize,
    /// Offset of the last entry.
    last: Option<usize>,
}

impl ListWriter {
    /// An empty list of at most `max_bytes`, whose entries begin at multiples of `alignment`.
    pub fn new(alignment: usize, max_bytes: usize) -> Self {
        Self { writer: Writer::new(), alignment, max_bytes, last: None }
    }

    /// Appends an entry; `encode` writes what follows its `NextEntryOffset`. Returns whether it
    /// fitted; if not, the list is what it was.
    pub fn push(&mut self, encode: impl FnOnce(&mut Writer)) -> bool {
        let end = self.writer.position();
        self.writer.align(self.alignment);
        let begin = self.writer.position();
        self.writer.u32(0);
        encode(&mut self.writer);
        if self.writer.position() > self.max_bytes {
            self.writer.truncate(end);
            return false;
        }
        if let Some(last) = self.last.replace(begin) {
            self.writer.set_u32(last, (begin - last) as u32);
        }
        true
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Its bytes.
    pub fn finish(self) -> Vec<u8> {
        self.writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_does_not_fit_leaves_the_list_as_it_was() {
        let mut list = ListWriter::new(8, 13);
        assert!(list.push(|writer| writer.u8(1)));
        assert!(list.push(|writer| writer.u8(2)));
        assert!(!list.clone().push(|_| ()), "4 bytes at 16 are over 13");
        let before = list.clone().finish();
        list.push(|writer| writer.zeros(1));
        assert_eq!(list.finish(), before);
        assert_eq!(before, [8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
        let entries: Result<Vec<_>> =
            Entries::new(before.into()).map(|entry| entry?.u8()).collect();
        assert_eq!(entries, Ok(vec![1, 2]));
    }

    #[test]
    fn an_offset_outside_of_the_list_ends_it_with_an_error() {
        for bytes in [&[3, 0, 0, 0, 0][..], &[5, 0, 0, 0, 0], &[255; 8], &[0; 3]] {
            let mut entries = Entries::new(Bytes::copy_from_slice(bytes));
            assert!(entries.next().unwrap().is_err(), "{bytes:?}");
            assert!(entries.next().is_none());
        }
        assert!(Entries::new(Bytes::new()).next().is_none());
    }
}
