//! Macros that define types together with their XDR codec.
//!
//! A field or a value of a union with a limit in brackets has a variable length:
//! `name: Bytes [255]` is `opaque name<255>`, `items: Vec<u32> [8]` is `unsigned int items<8>`.

/// Encodes or decodes one field, with or without a limit.
macro_rules! xdr_field {
    (@encode $value:expr, $to:expr,) => {
        $crate::xdr::Xdr::encode($value, $to)
    };
    (@encode $value:expr, $to:expr, $max:expr) => {
        $crate::xdr::XdrBounded::encode_bounded($value, $to)
    };
    (@decode $ty:ty, $from:expr,) => {
        <$ty as $crate::xdr::Xdr>::decode($from)
    };
    (@decode $ty:ty, $from:expr, $max:expr) => {
        <$ty as $crate::xdr::XdrBounded>::decode_bounded($from, $max)
    };
}

/// Defines structs: the fields are encoded in the order written.
macro_rules! xdr_struct {
    ($(
        $(#[$doc:meta])* pub struct $name:ident {
            $( $(#[$fdoc:meta])* pub $field:ident : $ty:ty $([$max:expr])? ),* $(,)?
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $name { $( $(#[$fdoc])* pub $field: $ty, )* }

        impl $crate::xdr::Xdr for $name {
            #[allow(unused_variables)]
            fn encode(&self, to: &mut $crate::xdr::Encoder) {
                $( $crate::xdr::xdr_field!(@encode &self.$field, to, $($max)?); )*
            }
            #[allow(unused_variables)]
            fn decode(from: &mut $crate::xdr::Decoder) -> Result<Self, $crate::xdr::XdrError> {
                Ok(Self { $( $field: $crate::xdr::xdr_field!(@decode $ty, from, $($max)?)?, )* })
            }
        }
    )*};
}

/// Defines enums without fields. Unknown numbers are refused.
macro_rules! xdr_enum {
    ($(
        $(#[$doc:meta])* pub enum $name:ident {
            $( $(#[$vdoc:meta])* $variant:ident = $code:literal ),* $(,)?
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        #[repr(u32)]
        pub enum $name { $( $(#[$vdoc])* $variant = $code, )* }

        impl $name {
            /// Every value, in the order of the definition.
            pub const ALL: &'static [Self] = &[$( Self::$variant ),*];

            /// The number in messages.
            pub const fn code(self) -> u32 {
                self as u32
            }

            /// The value with this number, if there is one.
            pub const fn from_code(code: u32) -> Option<Self> {
                match code {
                    $( $code => Some(Self::$variant), )*
                    _ => None,
                }
            }
        }

        impl $crate::xdr::Xdr for $name {
            fn encode(&self, to: &mut $crate::xdr::Encoder) {
                to.u32(self.code());
            }
            fn decode(from: &mut $crate::xdr::Decoder) -> Result<Self, $crate::xdr::XdrError> {
                let value = from.u32()?;
                Self::from_code(value)
                    .ok_or($crate::xdr::XdrError::Invalid { what: stringify!($name), value })
            }
        }
    )*};
}

/// The name that a union's codec gives to the value of a variant.
macro_rules! xdr_variant_value {
    ($value:ident, $ty:ty) => {
        $value
    };
}

/// Defines unions with a number as discriminant. Unknown numbers are refused.
macro_rules! xdr_union {
    ($(
        $(#[$doc:meta])* pub enum $name:ident {
            $( $(#[$vdoc:meta])* $variant:ident $(($ty:ty $([$max:expr])?))? = $code:literal ),*
            $(,)?
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum $name { $( $(#[$vdoc])* $variant $(($ty))?, )* }

        impl $crate::xdr::Xdr for $name {
            fn encode(&self, to: &mut $crate::xdr::Encoder) {
                match self {
                    $( Self::$variant $(($crate::xdr::xdr_variant_value!(value, $ty)))? => {
                        to.u32($code);
                        $( $crate::xdr::xdr_field!(
                            @encode $crate::xdr::xdr_variant_value!(value, $ty), to, $($max)?
                        ); )?
                    } )*
                }
            }
            fn decode(from: &mut $crate::xdr::Decoder) -> Result<Self, $crate::xdr::XdrError> {
                match from.u32()? {
                    $( $code => Ok(Self::$variant $((
                        $crate::xdr::xdr_field!(@decode $ty, from, $($max)?)?
                    ))?), )*
                    value => {
                        Err($crate::xdr::XdrError::Invalid { what: stringify!($name), value })
                    }
                }
            }
        }
    )*};
}

/// Defines types of one field that are encoded like it.
macro_rules! xdr_newtype {
    ($(
        $(#[$doc:meta])* pub struct $name:ident($ty:ty);
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $ty);

        impl $crate::xdr::Xdr for $name {
            fn encode(&self, to: &mut $crate::xdr::Encoder) {
                self.0.encode(to);
            }
            fn decode(from: &mut $crate::xdr::Decoder) -> Result<Self, $crate::xdr::XdrError> {
                <$ty as $crate::xdr::Xdr>::decode(from).map(Self)
            }
        }
    )*};
}

/// Defines sets of bits in an unsigned integer. Unknown bits are accepted and kept.
macro_rules! xdr_flags {
    ($(
        $(#[$doc:meta])* pub struct $name:ident {
            $( $(#[$fdoc:meta])* $flag:ident = $bits:expr ),* $(,)?
        }
    )*) => {
        $crate::xdr::xdr_newtype! {$(
            $(#[$doc])* pub struct $name(u32);
        )*}
        $(
        impl $name {
            $( $(#[$fdoc])* pub const $flag: Self = Self($bits); )*

            /// No bits.
            pub const fn empty() -> Self {
                Self(0)
            }

            /// Whether all bits of `other` are set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// The bits that are not in `other`.
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl std::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }

        impl std::ops::BitAnd for $name {
            type Output = Self;
            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }
    )*};
}

pub(crate) use {xdr_enum, xdr_field, xdr_struct, xdr_union, xdr_variant_value};
pub(crate) use {xdr_flags, xdr_newtype};
