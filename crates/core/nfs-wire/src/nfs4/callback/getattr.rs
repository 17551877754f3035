//! What the holder of a write delegation says about its file. RFC 8881 20.1 and 10.4.3.

use crate::nfs4::types::EncodedAttributes;
use crate::nfs4::{Bitmap, attribute};
use crate::xdr::{Decoder, XdrError};

/// The attributes that a server asks for with CB_GETATTR.
pub const HOLDER_ATTRIBUTES: Bitmap = Bitmap::of(&[attribute::CHANGE, attribute::SIZE]);

/// The answer to CB_GETATTR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HolderAttributes {
    /// The change number of the grant, or a higher one if the client holds modified data.
    pub change: u64,
    /// The size in bytes.
    pub size: u64,
}

impl HolderAttributes {
    /// Reads an answer. Attributes after the size are ignored, since some clients add times
    /// (RFC 9754).
    ///
    /// # Errors
    /// [`XdrError`] if one of the two is missing, the values are cut off, or an attribute of
    /// another type comes before them.
    pub fn from_encoded(encoded: &EncodedAttributes) -> Result<Self, XdrError> {
        let first: Vec<u32> = encoded.mask.iter().take(2).collect();
        if first != [attribute::CHANGE, attribute::SIZE] {
            let value = first.first().copied().unwrap_or_default();
            return Err(XdrError::Invalid { what: "attribute of CB_GETATTR", value });
        }
        let mut from = Decoder::new(encoded.values.clone());
        Ok(Self { change: from.u64()?, size: from.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn answer(numbers: &[u32], values: &[u64]) -> EncodedAttributes {
        let values: Vec<u8> = values.iter().flat_map(|value| value.to_be_bytes()).collect();
        EncodedAttributes { mask: Bitmap::of(numbers), values: values.into() }
    }

    #[test]
    fn change_and_size_are_read_and_later_attributes_ignored() {
        let expected = HolderAttributes { change: 7, size: u64::MAX };
        for encoded in [answer(&[3, 4], &[7, u64::MAX]), answer(&[3, 4, 84], &[7, u64::MAX, 1, 2])]
        {
            assert_eq!(HolderAttributes::from_encoded(&encoded), Ok(expected));
        }
    }

    #[test]
    fn answers_without_both_attributes_in_front_are_errors() {
        for numbers in [&[][..], &[3], &[4], &[3, 5], &[1, 3, 4], &[0, 1]] {
            let encoded = answer(numbers, &[7, 8, 9]);
            let read = HolderAttributes::from_encoded(&encoded);
            assert!(matches!(read, Err(XdrError::Invalid { .. })), "{numbers:?}");
        }
    }

    #[test]
    fn answers_that_are_cut_off_are_errors() {
        let whole = answer(&[3, 4], &[7, 8]);
        for length in 0..16 {
            let values = Bytes::copy_from_slice(&whole.values[..length]);
            let cut = EncodedAttributes { values, ..whole.clone() };
            assert_eq!(HolderAttributes::from_encoded(&cut), Err(XdrError::Truncated), "{length}");
        }
    }
}
