//! Fixed little-endian encoding of messages. Lists have a `u32` count, which is checked against the
//! remaining bytes.

use braid_types::{
    ByteCount, ClusterUuid, ConnectionId, FileIndex, FileOffset, IodId, KeyId, LayoutVersion,
    MapEpoch, MdsEpoch, ObjectGeneration, ObjectId, ObjectOffset, PartIndex, SessionId, ShardId,
    SizeGeneration, Status, Timestamp, WriteVerifier,
};

/// Why bytes are not a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end in the middle of a field.
    #[error("message ends in the middle of a field")]
    Truncated,
    /// Bytes are left after the last field.
    #[error("bytes are left after the message")]
    TrailingBytes,
    /// A count or length is over its limit (I9).
    #[error("a count or length is over its limit")]
    TooLong,
    /// A tag, flag or number that is not known (I10).
    #[error("a tag or flag that is not understood")]
    Unknown,
    /// The bytes do not begin with a BraidFS frame header.
    #[error("not a BraidFS frame")]
    BadMagic,
    /// The header does not match its checksum.
    #[error("frame header checksum does not match")]
    BadChecksum,
}

/// Reads fields from the front of a message.
#[derive(Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// A decoder of a whole message body.
    pub fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// A list count. Refused when elements of `bytes_min` bytes each would not fit the remaining
    /// bytes.
    pub fn count(&mut self, bytes_min: usize) -> Result<usize, WireError> {
        let count = u32::decode(self)? as usize;
        if count > self.rest.len() / bytes_min.max(1) { Err(WireError::TooLong) } else { Ok(count) }
    }

    /// The bytes not yet read.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Succeeds when everything was read.
    pub fn finish(self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::TrailingBytes) }
    }
}

/// Initial capacity, which fits most messages. A message of 700 bytes that grows from nothing is
/// copied eight times.
const BYTES_USUAL: usize = 256;

/// A value that the native protocol can encode.
pub trait Wire: Sized {
    /// Minimum bytes of an encoding. Limits list counts before memory is allocated.
    const BYTES_MIN: usize;

    /// Appends the encoding.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads one value.
    ///
    /// # Errors
    /// [`WireError`] for anything that `encode` does not produce.
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError>;

    /// Appends all items in order; for [`Vec`].
    fn encode_all(items: &[Self], out: &mut Vec<u8>) {
        items.iter().for_each(|item| item.encode(out));
    }

    /// Reads `count` values, which [`Decoder::count`] has checked; for [`Vec`].
    ///
    /// # Errors
    /// As [`Wire::decode`].
    fn decode_all(count: usize, from: &mut Decoder<'_>) -> Result<Vec<Self>, WireError> {
        (0..count).map(|_| Self::decode(from)).collect()
    }

    /// The encoding as a new vector.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BYTES_USUAL);
        self.encode(&mut out);
        out
    }

    /// Decodes a value that fills `bytes` exactly.
    ///
    /// # Errors
    /// As [`Wire::decode`], and [`WireError::TrailingBytes`].
    fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        let mut from = Decoder::new(bytes);
        let value = Self::decode(&mut from)?;
        from.finish()?;
        Ok(value)
    }
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl Wire for $int {
            const BYTES_MIN: usize = size_of::<$int>();
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
                from.array().map(<$int>::from_le_bytes)
            }
        }
    )*};
}
integers!(u16, u32, u64, i64);

impl Wire for u8 {
    const BYTES_MIN: usize = 1;
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        from.array().map(|[byte]| byte)
    }
    fn encode_all(items: &[Self], out: &mut Vec<u8>) {
        out.extend_from_slice(items);
    }
    fn decode_all(count: usize, from: &mut Decoder<'_>) -> Result<Vec<Self>, WireError> {
        from.take(count).map(<[u8]>::to_vec)
    }
}

macro_rules! newtypes {
    ($($name:ident($int:ty)),* $(,)?) => {$(
        impl Wire for $name {
            const BYTES_MIN: usize = size_of::<$int>();
            fn encode(&self, out: &mut Vec<u8>) {
                self.0.encode(out);
            }
            fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
                <$int>::decode(from).map(Self)
            }
        }
    )*};
}
newtypes!(
    FileIndex(u64),
    FileOffset(u64),
    ObjectOffset(u64),
    ByteCount(u64),
    SessionId(u64),
    MdsEpoch(u64),
    MapEpoch(u64),
    KeyId(u64),
    SizeGeneration(u64),
    WriteVerifier(u64),
    IodId(u32),
    ObjectGeneration(u32),
    LayoutVersion(u32),
    PartIndex(u16),
    ShardId(u16),
    ClusterUuid([u8; 16]),
    ConnectionId([u8; 16]),
);

impl<const N: usize> Wire for [u8; N] {
    const BYTES_MIN: usize = N;
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        from.array()
    }
}

impl Wire for bool {
    const BYTES_MIN: usize = 1;
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        match u8::decode(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Unknown),
        }
    }
}

impl<T: Wire> Wire for Vec<T> {
    const BYTES_MIN: usize = 4;
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        T::encode_all(self, out);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        let count = from.count(T::BYTES_MIN)?;
        T::decode_all(count, from)
    }
}

impl Wire for String {
    const BYTES_MIN: usize = 4;
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        out.extend_from_slice(self.as_bytes());
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        let count = from.count(1)?;
        String::from_utf8(from.take(count)?.to_vec()).map_err(|_| WireError::Unknown)
    }
}

impl<T: Wire> Wire for Option<T> {
    const BYTES_MIN: usize = 1;
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        if bool::decode(from)? { T::decode(from).map(Some) } else { Ok(None) }
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    const BYTES_MIN: usize = A::BYTES_MIN + B::BYTES_MIN;
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok((A::decode(from)?, B::decode(from)?))
    }
}

impl Wire for () {
    const BYTES_MIN: usize = 0;
    fn encode(&self, _: &mut Vec<u8>) {}
    fn decode(_: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(())
    }
}

impl Wire for Status {
    const BYTES_MIN: usize = 2;
    fn encode(&self, out: &mut Vec<u8>) {
        (*self as u16).encode(out);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        Status::from_code(u16::decode(from)?).ok_or(WireError::Unknown)
    }
}

/// Defines structs with their codec: the fields are encoded in the order written.
macro_rules! wire_struct {
    ($(
        $(#[$doc:meta])* pub struct $name:ident {
            $( $(#[$fdoc:meta])* $field:ident : $ty:ty ),* $(,)?
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $name { $( $(#[$fdoc])* pub $field: $ty, )* }

        impl $crate::codec::Wire for $name {
            const BYTES_MIN: usize = 0 $(+ <$ty as $crate::codec::Wire>::BYTES_MIN)*;
            #[allow(unused_variables)]
            fn encode(&self, out: &mut Vec<u8>) {
                $( $crate::codec::Wire::encode(&self.$field, out); )*
            }
            #[allow(unused_variables)]
            fn decode(
                from: &mut $crate::codec::Decoder<'_>,
            ) -> Result<Self, $crate::codec::WireError> {
                Ok(Self { $( $field: $crate::codec::Wire::decode(from)?, )* })
            }
        }

        #[cfg(test)]
        impl $name {
            /// Names and types of the fields, in order, for `docs/format-messages.md`.
            pub(crate) const FIELDS: &'static [(&'static str, &'static str)] =
                &[$( (stringify!($field), stringify!($ty)) ),*];
        }

        #[cfg(test)]
        impl $crate::sample::Sample for $name {
            #[allow(unused_variables)]
            fn sample(rng: &mut $crate::sample::Rng) -> Self {
                Self { $( $field: $crate::sample::Sample::sample(rng), )* }
            }
        }
    )*};
}

/// Defines enums without fields with a one-byte codec. Unknown numbers are refused (I10).
macro_rules! wire_enum {
    ($(
        $(#[$doc:meta])* pub enum $name:ident {
            $( $(#[$vdoc:meta])* $variant:ident = $code:literal ),* $(,)?
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum $name { $( $(#[$vdoc])* $variant = $code, )* }

        impl $crate::codec::Wire for $name {
            const BYTES_MIN: usize = 1;
            fn encode(&self, out: &mut Vec<u8>) {
                out.push(*self as u8);
            }
            fn decode(
                from: &mut $crate::codec::Decoder<'_>,
            ) -> Result<Self, $crate::codec::WireError> {
                match <u8 as $crate::codec::Wire>::decode(from)? {
                    $( $code => Ok(Self::$variant), )*
                    _ => Err($crate::codec::WireError::Unknown),
                }
            }
        }

        #[cfg(test)]
        impl $name {
            /// Names and numbers of the variants, for `docs/format-messages.md`.
            pub(crate) const VARIANTS: &'static [(&'static str, u8)] =
                &[$( (stringify!($variant), $code) ),*];
        }

        #[cfg(test)]
        impl $crate::sample::Sample for $name {
            fn sample(rng: &mut $crate::sample::Rng) -> Self {
                let all = [$( Self::$variant ),*];
                all[rng.below(all.len() as u64) as usize]
            }
        }
    )*};
}
pub(crate) use {wire_enum, wire_struct};

impl Wire for Timestamp {
    const BYTES_MIN: usize = 12;
    fn encode(&self, out: &mut Vec<u8>) {
        self.seconds.encode(out);
        self.nanos.encode(out);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        let (seconds, nanos) = (i64::decode(from)?, u32::decode(from)?);
        if nanos < 1_000_000_000 { Ok(Self { seconds, nanos }) } else { Err(WireError::Unknown) }
    }
}

impl Wire for ObjectId {
    const BYTES_MIN: usize = 14;
    fn encode(&self, out: &mut Vec<u8>) {
        self.file.encode(out);
        self.part.encode(out);
        self.generation.encode(out);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(Self {
            file: Wire::decode(from)?,
            part: Wire::decode(from)?,
            generation: Wire::decode(from)?,
        })
    }
}
