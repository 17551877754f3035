//! Dialects. MS-SMB2 1.7, 2.2.3.

/// A dialect; a later one is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
pub enum Dialect {
    /// SMB 2.0.2: Windows Vista.
    Smb202 = 0x0202,
    /// SMB 2.1: Windows 7.
    Smb210 = 0x0210,
    /// SMB 3.0: Windows 8.
    Smb300 = 0x0300,
    /// SMB 3.0.2: Windows 8.1.
    Smb302 = 0x0302,
    /// SMB 3.1.1: Windows 10.
    Smb311 = 0x0311,
}

impl Dialect {
    /// All, from the oldest.
    pub const ALL: [Self; 5] =
        [Self::Smb202, Self::Smb210, Self::Smb300, Self::Smb302, Self::Smb311];

    /// The number of a response to an SMB 1 NEGOTIATE with "SMB 2.???": the client sends an SMB 2
    /// NEGOTIATE next (3.3.5.3.1).
    pub const WILDCARD: u16 = 0x02ff;

    /// The dialect with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.number() == number)
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Whether it is one of SMB 3: it has encryption and keys that are derived.
    pub fn is_smb3(self) -> bool {
        self >= Self::Smb300
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_are_known_by_their_numbers_and_ordered() {
        let numbers = [0x0202, 0x0210, 0x0300, 0x0302, 0x0311];
        assert_eq!(Dialect::ALL.map(Dialect::number), numbers);
        assert_eq!(numbers.map(Dialect::from_number), Dialect::ALL.map(Some));
        assert_eq!(Dialect::from_number(Dialect::WILDCARD), None);
        assert_eq!(Dialect::ALL.map(Dialect::is_smb3), [false, false, true, true, true]);
    }
}
