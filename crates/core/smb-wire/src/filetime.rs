//! FILETIME: times as multiples of 100 ns since 1 January 1601, UTC. MS-DTYP 2.3.3.

/// Seconds from 1601 to 1970.
const UNIX_EPOCH_SECONDS: i128 = 11_644_473_600;
/// Units of a FILETIME in a second.
const PER_SECOND: i128 = 10_000_000;

/// A time; 0 where a file system does not know it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FileTime(pub u64);

impl FileTime {
    /// The last time that clients take: they read a FILETIME as a signed number.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// From seconds since 1970 (negative before) and nanoseconds after them. Times outside of the
    /// range become its first (1601) or last one; less than 100 ns is cut off.
    pub fn from_unix(seconds: i64, nanoseconds: u32) -> Self {
        let units = (i128::from(seconds) + UNIX_EPOCH_SECONDS) * PER_SECOND;
        let units = units + i128::from(nanoseconds / 100);
        Self(units.clamp(0, i128::from(i64::MAX)) as u64)
    }

    /// Seconds since 1970, negative before, and nanoseconds after them (below 10^9).
    pub fn to_unix(self) -> (i64, u32) {
        let units = i128::from(self.0) - UNIX_EPOCH_SECONDS * PER_SECOND;
        let seconds = units.div_euclid(PER_SECOND);
        (seconds as i64, (units.rem_euclid(PER_SECOND) * 100) as u32)
    }
}

/// What a client asks for one of the times of a file. MS-FSCC 2.4.7.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimeChange {
    /// 0: it does not change.
    #[default]
    Keep,
    /// -1: no operation on this open changes it from here on.
    Freeze,
    /// -2: operations on this open change it again.
    Thaw,
    /// It is set.
    Set(FileTime),
}

impl TimeChange {
    /// From the number on the wire; `None` for a number that is not valid (below -2).
    pub fn from_wire(number: u64) -> Option<Self> {
        match number as i64 {
            0 => Some(Self::Keep),
            -1 => Some(Self::Freeze),
            -2 => Some(Self::Thaw),
            ..0 => None,
            _ => Some(Self::Set(FileTime(number))),
        }
    }

    /// The number on the wire.
    pub fn to_wire(self) -> u64 {
        match self {
            Self::Keep => 0,
            Self::Freeze => -1i64 as u64,
            Self::Thaw => -2i64 as u64,
            Self::Set(time) => time.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_count_from_1601_in_units_of_100_ns() {
        assert_eq!(FileTime::from_unix(0, 0), FileTime(116_444_736_000_000_000));
        assert_eq!(FileTime::from_unix(1, 199).0, 116_444_736_010_000_001);
        assert_eq!(FileTime::from_unix(-1, 999_999_999).0, 116_444_735_999_999_999);
        assert_eq!(FileTime(116_444_735_999_999_999).to_unix(), (-1, 999_999_900));
        assert_eq!(FileTime(0).to_unix(), (-11_644_473_600, 0));
    }

    #[test]
    fn a_time_out_of_range_becomes_the_nearest_one() {
        assert_eq!(FileTime::from_unix(i64::MIN, 0), FileTime(0));
        assert_eq!(FileTime::from_unix(-11_644_473_601, 0), FileTime(0));
        assert_eq!(FileTime::from_unix(i64::MAX, 0), FileTime::MAX);
        assert_eq!(FileTime(u64::MAX).to_unix().1 % 100, 0, "no overflow");
    }

    #[test]
    fn the_special_times_of_a_change_are_known() {
        assert_eq!(TimeChange::from_wire(0), Some(TimeChange::Keep));
        assert_eq!(TimeChange::from_wire(u64::MAX), Some(TimeChange::Freeze));
        assert_eq!(TimeChange::from_wire(u64::MAX - 1), Some(TimeChange::Thaw));
        assert_eq!(TimeChange::from_wire(u64::MAX - 2), None);
        assert_eq!(TimeChange::from_wire(1 << 63), None);
        assert_eq!(TimeChange::from_wire(7), Some(TimeChange::Set(FileTime(7))));
    }

    proptest! {
        #[test]
        fn a_filetime_returns_from_unix_time(units in 0..=i64::MAX as u64) {
            let (seconds, nanoseconds) = FileTime(units).to_unix();
            prop_assert!(nanoseconds < 1_000_000_000);
            prop_assert_eq!(FileTime::from_unix(seconds, nanoseconds), FileTime(units));
        }

        #[test]
        fn a_change_returns_from_its_number(number: u64) {
            if let Some(change) = TimeChange::from_wire(number) {
                prop_assert_eq!(change.to_wire(), number);
            }
        }
    }
}
