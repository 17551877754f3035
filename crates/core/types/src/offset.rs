//! Offsets and counts of bytes. All arithmetic is checked: exceeding 2^64 is an error, never a wrap
//! (I3).

use std::fmt;

macro_rules! bytes {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// Zero bytes.
            pub const ZERO: Self = Self(0);
            /// The largest value; as an end it means "no end".
            pub const MAX: Self = Self(u64::MAX);

            /// `self + bytes`, or `None` on overflow.
            pub fn checked_add(self, bytes: u64) -> Option<Self> {
                self.0.checked_add(bytes).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

bytes! {
    /// A position in a file, in bytes from its start.
    FileOffset
}
bytes! {
    /// A position in an object, in bytes from its start (the 1996 paper's stripe location).
    ObjectOffset
}
bytes! {
    /// A number of bytes.
    ByteCount
}
