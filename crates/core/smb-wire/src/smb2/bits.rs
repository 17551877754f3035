//! Makes types of a number whose bits or values have names.

/// Defines numbers whose values have names. Other values are kept: it is the reader of a field that
/// knows whether they are ignored or refused.
macro_rules! values {
    ($($(#[$doc:meta])* $name:ident($number:ty) {
        $($(#[$value_doc:meta])* $value:ident = $is:literal,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub $number);

        impl $name {
            $($(#[$value_doc])* pub const $value: Self = Self($is);)*
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    )*};
}

/// Defines sets of bits that have names. Bits without a name are kept.
macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident($number:ty) {
        $($(#[$value_doc:meta])* $value:ident = $is:literal,)*
    })*) => {$(
        crate::smb2::bits::values! {
            $(#[$doc])* $name($number) { $($(#[$value_doc])* $value = $is,)* }
        }

        impl $name {
            /// Whether all bits of `other` are set.
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether a bit of `other` is set.
            pub const fn has_any(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// The bits of both.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The bits that are not in `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// The bits that are in both.
            #[must_use]
            pub const fn common(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }

            /// Whether no bit is set.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
        }
    )*};
}

pub(crate) use {bits, values};
