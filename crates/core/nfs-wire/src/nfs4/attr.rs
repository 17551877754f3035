//! Attributes of files and file systems (`fattr4`). RFC 8881 5, RFC 7862 12, RFC 8276 8,
//! RFC 9754.
//!
//! A `fattr4` is a bitmap of attributes and their values in ascending order. A value has no length
//! of its own, so that nothing after an unknown attribute can be read.

mod mdsthreshold;
mod open_arguments;
mod table;
#[cfg(test)]
mod tests;

pub use mdsthreshold::{MdsThreshold, ThresholdItem, Thresholds};
pub use open_arguments::{OpenArguments, open_argument};
pub use table::{Attributes, attribute};

use super::types::EncodedAttributes;
use super::{ACES_MAX, BITMAP_BITS, Bitmap, NfsStatus};
use crate::xdr::{Decoder, Encoder, Xdr, XdrError};

/// Why attributes have no values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AttributeError {
    /// An attribute without a known type; [`BITMAP_BITS`] stands for all higher numbers.
    #[error("attribute {0} is not supported")]
    Unsupported(u32),
    /// An access control list has more entries than [`ACES_MAX`].
    #[error("an access control list of too many entries")]
    AclTooLong,
    /// A value does not match its type, or bytes are left.
    #[error("malformed attributes: {0}")]
    Malformed(#[from] XdrError),
}

impl AttributeError {
    /// The status of the operation. RFC 8881 15.1.15.1 and 15.1.1.1.
    pub fn status(&self) -> NfsStatus {
        match self {
            Self::Unsupported(_) => NfsStatus::AttrNotSupp,
            // As Linux's server.
            Self::AclTooLong => NfsStatus::FBig,
            Self::Malformed(_) => NfsStatus::BadXdr,
        }
    }
}

impl Attributes {
    /// Appends those of the `requested` attributes that are set, as a `fattr4`.
    pub fn encode_requested(&self, requested: &Bitmap, to: &mut Encoder) {
        // RFC 8881 18.7.3: the server returns only attributes that the client requested.
        let mask = *requested & self.mask();
        mask.encode(to);
        let length_at = to.position();
        to.u32(0);
        let values_at = to.position();
        for number in mask.iter() {
            self.encode_value(number, to);
        }
        let length = (to.position() - values_at) as u32;
        to.patch_u32(length_at, length);
    }

    /// Those of the `requested` attributes that are set.
    pub fn to_encoded(&self, requested: &Bitmap) -> EncodedAttributes {
        let mask = *requested & self.mask();
        let mut to = Encoder::new();
        for number in mask.iter() {
            self.encode_value(number, &mut to);
        }
        EncodedAttributes { mask, values: to.to_vec().into() }
    }

    /// Reads the values of `encoded`.
    ///
    /// # Errors
    /// [`AttributeError`]. Attributes after an unsupported one were not read, so that they can be
    /// malformed as well.
    pub fn from_encoded(encoded: &EncodedAttributes) -> Result<Self, AttributeError> {
        let mut attributes = Self::default();
        let mut from = Decoder::new(encoded.values.clone());
        for number in encoded.mask.iter() {
            match attributes.decode_value(number, &mut from) {
                Ok(true) => {}
                Ok(false) => return Err(AttributeError::Unsupported(number)),
                Err(XdrError::TooLong { limit: ACES_MAX, .. }) if number == attribute::ACL => {
                    return Err(AttributeError::AclTooLong);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if encoded.mask.has_unknown() {
            return Err(AttributeError::Unsupported(BITMAP_BITS));
        }
        from.finish()?;
        Ok(attributes)
    }
}
