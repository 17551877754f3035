//! Denied access of other opens to a file: SMB share modes, NFSv4 share reservations.

use std::ops::{BitAnd, BitOr};

use crate::codec::{Decoder, Wire, WireError};

/// The access that an open denies to other opens, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Deny(pub u8);

impl Deny {
    /// Nothing, as every POSIX open.
    pub const NONE: Self = Self(0);
    /// Others may not read.
    pub const READ: Self = Self(1);
    /// Others may not write.
    pub const WRITE: Self = Self(2);
    /// Names of the file may not be removed, moved or replaced.
    pub const DELETE: Self = Self(4);
    /// All of these.
    pub const ALL: Self = Self(7);

    /// Whether it denies nothing.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Whether all of `what` is denied.
    pub fn has(self, what: Self) -> bool {
        self & what == what
    }
}

impl BitOr for Deny {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Deny {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Wire for Deny {
    const BYTES_MIN: usize = 1;
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.0);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        match u8::decode(from)? {
            bits @ 0..=7 => Ok(Self(bits)),
            _ => Err(WireError::Unknown),
        }
    }
}
