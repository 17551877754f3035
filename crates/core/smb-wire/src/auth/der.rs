//! The part of DER (ITU-T X.690) that SPNEGO uses: tags of one byte, definite lengths.

use crate::cursor::{Malformed, Result};

/// Reads elements from the front of `bytes`.
pub(super) struct DerReader<'a> {
    bytes: &'a [u8],
}

impl<'a> DerReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next element: its tag, its contents, and the whole of it.
    pub(super) fn element(&mut self) -> Result<(u8, &'a [u8], &'a [u8])> {
        let (tag, length, header) = match *self.bytes {
            [tag, length @ 0..=0x7f, ..] => (tag, usize::from(length), 2),
            [tag, 0x81, a, ..] => (tag, usize::from(a), 3),
            [tag, 0x82, a, b, ..] => (tag, usize::from(u16::from_be_bytes([a, b])), 4),
            // No token is longer than 64 KiB: the security buffer has a length of 16 bits.
            _ => return Err(Malformed("DER: tag or length")),
        };
        let end = header + length;
        if tag & 0x1f == 0x1f || end > self.bytes.len() {
            return Err(Malformed("DER: tag or length"));
        }
        let (element, rest) = self.bytes.split_at(end);
        self.bytes = rest;
        Ok((tag, &element[header..], element))
    }

    /// The contents of the next element, which has this tag.
    pub(super) fn expect(&mut self, wanted: u8) -> Result<&'a [u8]> {
        match self.element()? {
            (tag, contents, _) if tag == wanted => Ok(contents),
            _ => Err(Malformed("DER: another tag")),
        }
    }
}

/// An element of a tag and contents.
pub(super) fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    match contents.len() {
        length @ 0..=0x7f => bytes.push(length as u8),
        length @ 0x80..=0xff => bytes.extend([0x81, length as u8]),
        length @ 0x100..=0xffff => {
            bytes.push(0x82);
            bytes.extend((length as u16).to_be_bytes());
        }
        length => {
            bytes.push(0x84);
            bytes.extend((length as u32).to_be_bytes());
        }
    }
    bytes.extend_from_slice(contents);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_one_to_three_bytes() {
        for (length, header) in [(0, 2), (127, 2), (128, 3), (255, 3), (256, 4), (65_535, 4)] {
            let contents = vec![7; length];
            let bytes = element(0x04, &contents);
            assert_eq!(bytes.len(), header + length);
            let mut reader = DerReader::new(&bytes);
            assert_eq!(reader.expect(0x04).unwrap(), contents);
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn what_is_no_element_is_refused() {
        let bad: [&[u8]; 7] = [
            &[],
            &[4],
            &[4, 1],
            &[4, 0x80, 0, 0],
            &[4, 0x83, 0, 0, 1, 9],
            &[0x1f, 1, 1],
            &[4, 0x82, 1],
        ];
        for bytes in bad {
            assert!(DerReader::new(bytes).element().is_err(), "{bytes:x?}");
        }
    }
}
