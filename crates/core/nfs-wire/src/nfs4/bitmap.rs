//! `bitmap4`: a set of small numbers in 32-bit words, least significant bit first.

use std::ops::{BitAnd, BitOr};

use crate::xdr::{Decoder, Encoder, UNIT_BYTES, Xdr, XdrError};

/// Words that a [`Bitmap`] keeps; the highest attribute of RFC 8276 is in the third.
const WORDS: usize = 4;

/// Numbers of a [`Bitmap`] are below this.
pub const BITMAP_BITS: u32 = 32 * WORDS as u32;

/// A set of numbers below [`BITMAP_BITS`]: attributes, operations, hints or notification types.
/// Higher ones in a message are not kept; [`Bitmap::has_unknown`] reports that there were some.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Bitmap {
    words: [u32; WORDS],
    unknown: bool,
}

impl Bitmap {
    /// The empty set.
    pub const fn new() -> Self {
        Self { words: [0; WORDS], unknown: false }
    }

    /// The set of `numbers`.
    ///
    /// # Panics
    /// When a number is not below [`BITMAP_BITS`].
    pub const fn of(numbers: &[u32]) -> Self {
        let mut bitmap = Self::new();
        let mut at = 0;
        while at < numbers.len() {
            bitmap.words[numbers[at] as usize / 32] |= 1 << (numbers[at] % 32);
            at += 1;
        }
        bitmap
    }

    /// Adds `number`.
    ///
    /// # Panics
    /// When it is not below [`BITMAP_BITS`].
    pub fn set(&mut self, number: u32) {
        self.words[number as usize / 32] |= 1 << (number % 32);
    }

    /// Removes `number`.
    pub fn clear(&mut self, number: u32) {
        if let Some(word) = self.words.get_mut(number as usize / 32) {
            *word &= !(1 << (number % 32));
        }
    }

    /// Whether `number` is in the set.
    pub const fn has(&self, number: u32) -> bool {
        number < BITMAP_BITS && self.words[number as usize / 32] >> (number % 32) & 1 == 1
    }

    /// Whether the message had numbers that are not below [`BITMAP_BITS`].
    pub const fn has_unknown(&self) -> bool {
        self.unknown
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words == [0; WORDS] && !self.unknown
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<> {
        let words = self.words;
        (0..WORDS as u32).flat_map(move |index| {
            let mut word = words[index as usize];
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros();
                word &= word.wrapping_sub(1);
                (bit < 32).then_some(32 * index + bit)
            })
        })
    }

    /// The numbers that are not in `other`.
    pub fn without(self, other: Self) -> Self {
        let mut words = self.words;
        words.iter_mut().zip(other.words).for_each(|(word, other)| *word &= !other);
        Self { words, unknown: self.unknown }
    }
}

impl BitAnd for Bitmap {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        let mut words = self.words;
        words.iter_mut().zip(other.words).for_each(|(word, other)| *word &= other);
        Self { words, unknown: false }
    }
}

impl BitOr for Bitmap {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        let mut words = self.words;
        words.iter_mut().zip(other.words).for_each(|(word, other)| *word |= other);
        Self { words, unknown: self.unknown || other.unknown }
    }
}

impl FromIterator<u32> for Bitmap {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut bitmap = Self::new();
        numbers.into_iter().for_each(|number| bitmap.set(number));
        bitmap
    }
}

impl Xdr for Bitmap {
    fn encode(&self, to: &mut Encoder) {
        let used = WORDS - self.words.iter().rev().take_while(|word| **word == 0).count();
        to.array(&self.words[..used], |to, word| to.u32(*word));
    }

    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        // RFC 8881 3.2 sets no limit on the words; the message limits them.
        let count = from.u32()? as usize;
        if count > from.remaining() / UNIT_BYTES {
            return Err(XdrError::Truncated);
        }
        let mut bitmap = Self::new();
        for index in 0..count {
            let word = from.u32()?;
            match bitmap.words.get_mut(index) {
                Some(kept) => *kept = word,
                None => bitmap.unknown |= word != 0,
            }
        }
        Ok(bitmap)
    }
}
