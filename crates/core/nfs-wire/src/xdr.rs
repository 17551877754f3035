//! XDR (RFC 4506): big-endian items, each padded to a multiple of four bytes.
//!
//! ```text
//!   Decoder   one message in one `Bytes`; variable-length items are slices of it
//!   Encoder   own bytes ··· payload (a `Bytes`) ··· own bytes ··· external (sent by sendfile)
//! ```
//!
//! 1. A decoder never reads past its message, and takes no memory for items that the message
//!    cannot contain.
//! 2. What an encoder writes is a multiple of four bytes long, payloads and external data included.

mod decode;
mod encode;
mod macros;
#[cfg(test)]
mod tests;

pub use decode::Decoder;
pub use encode::{Encoder, PAYLOAD_COPIED_MAX, Segment};
pub(crate) use macros::{
    xdr_enum, xdr_field, xdr_flags, xdr_newtype, xdr_struct, xdr_union, xdr_variant_value,
};

use bytes::Bytes;

/// Bytes of an XDR unit: the length of every item is a multiple (RFC 4506 3).
pub const UNIT_BYTES: usize = 4;

/// Why bytes are not the expected XDR items.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XdrError {
    /// The message ends in the middle of an item.
    #[error("message ends in the middle of an item")]
    Truncated,
    /// A length or count is over its limit.
    #[error("length {length} is over the limit {limit}")]
    TooLong {
        /// The length or count in the message.
        length: usize,
        /// Maximum that the protocol allows here.
        limit: usize,
    },
    /// A number that is no value of its type.
    #[error("{value} is no {what}")]
    Invalid {
        /// Name of the type.
        what: &'static str,
        /// The number in the message.
        value: u32,
    },
    /// Bytes are left after the last item.
    #[error("{count} bytes are left after the last item")]
    TrailingBytes {
        /// Bytes left.
        count: usize,
    },
}

/// A value with an XDR encoding.
pub trait Xdr: Sized {
    /// Appends the encoding.
    fn encode(&self, to: &mut Encoder);

    /// Reads one value.
    ///
    /// # Errors
    /// [`XdrError`] for anything that `encode` does not produce.
    fn decode(from: &mut Decoder) -> Result<Self, XdrError>;

    /// Decodes a value that fills `bytes` exactly.
    ///
    /// # Errors
    /// As [`Xdr::decode`], and [`XdrError::TrailingBytes`].
    fn from_bytes(bytes: Bytes) -> Result<Self, XdrError> {
        let mut from = Decoder::new(bytes);
        let value = Self::decode(&mut from)?;
        from.finish()?;
        Ok(value)
    }

    /// The encoding as one vector; see [`Encoder::to_vec`].
    fn to_bytes(&self) -> Vec<u8> {
        let mut to = Encoder::new();
        self.encode(&mut to);
        to.to_vec()
    }
}

/// A value of variable length, which is decoded with a limit: opaque data, text and arrays.
pub trait XdrBounded: Sized {
    /// Appends the length or count and the content.
    fn encode_bounded(&self, to: &mut Encoder);

    /// Reads a value of at most `max` bytes or items.
    ///
    /// # Errors
    /// [`XdrError::TooLong`] for a longer one, and as [`Xdr::decode`].
    fn decode_bounded(from: &mut Decoder, max: usize) -> Result<Self, XdrError>;
}

macro_rules! integers {
    ($($int:ident),*) => {$(
        impl Xdr for $int {
            fn encode(&self, to: &mut Encoder) {
                to.$int(*self);
            }
            fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
                from.$int()
            }
        }
    )*};
}
integers!(u32, i32, u64, i64, bool);

impl Xdr for () {
    fn encode(&self, _: &mut Encoder) {}
    fn decode(_: &mut Decoder) -> Result<Self, XdrError> {
        Ok(())
    }
}

/// Opaque data of fixed length. RFC 4506 4.9.
impl<const N: usize> Xdr for [u8; N] {
    fn encode(&self, to: &mut Encoder) {
        to.opaque_fixed(self);
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        from.opaque_fixed()
    }
}

/// Optional data (RFC 4506 4.19); also an array of at most one item, which looks the same.
impl<T: Xdr> Xdr for Option<T> {
    fn encode(&self, to: &mut Encoder) {
        to.bool(self.is_some());
        if let Some(value) = self {
            value.encode(to);
        }
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        if from.bool()? { T::decode(from).map(Some) } else { Ok(None) }
    }
}

impl<A: Xdr, B: Xdr> Xdr for (A, B) {
    fn encode(&self, to: &mut Encoder) {
        self.0.encode(to);
        self.1.encode(to);
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        Ok((A::decode(from)?, B::decode(from)?))
    }
}

/// Opaque data of variable length (RFC 4506 4.10); long data is not copied.
impl XdrBounded for Bytes {
    fn encode_bounded(&self, to: &mut Encoder) {
        to.payload(self.clone());
    }
    fn decode_bounded(from: &mut Decoder, max: usize) -> Result<Self, XdrError> {
        from.opaque(max)
    }
}

/// An array of variable length. RFC 4506 4.13.
impl<T: Xdr> XdrBounded for Vec<T> {
    fn encode_bounded(&self, to: &mut Encoder) {
        to.array(self, |to, item| item.encode(to));
    }
    fn decode_bounded(from: &mut Decoder, max: usize) -> Result<Self, XdrError> {
        from.array(max, T::decode)
    }
}

/// Bytes that follow `length` bytes up to a multiple of [`UNIT_BYTES`].
pub(crate) fn padding(length: usize) -> usize {
    length.wrapping_neg() % UNIT_BYTES
}
