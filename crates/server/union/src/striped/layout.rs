//! Where the bytes of a striped file are: the value of the stub's xattr, and the arithmetic.
//!
//! ```text
//!   unit:      0    1    2    3    4    5   …   of the file, `unit` bytes each
//!   position:  0    1    2    0    1    2       an object each, on its own branch
//!   offset:    0    0    0    1    1    1       in the object, times `unit`
//! ```
//!
//! So a range of the file is one range of each object.

use std::fmt;

use crate::{PoolUuid, pool::BRANCHES_MAX};

/// The version of the value.
const FORMAT: &str = "1";
/// A unit is a multiple of this: a page, and the block of most disks.
pub(crate) const UNIT_STEP: u64 = 4096;
/// A larger unit would leave all but one disk idle.
pub(crate) const UNIT_MAX: u64 = 1 << 30;
/// With fewer branches nothing is striped.
pub(crate) const STRIPES_MIN: usize = 2;
/// No valid value is longer: 64 branches of at most 3 digits, and four numbers.
pub(crate) const TEXT_BYTES_MAX: usize = 512;

/// The identity of a striped file: 128 random bits. Its objects have it in their names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FileId(u128);

impl FileId {
    pub(crate) fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }

    /// Reads 32 lowercase hexadecimal digits.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let id = u128::from_str_radix(text, 16).map(Self).ok()?;
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A part of a range that is in one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) position: usize,
    pub(crate) object_offset: u64,
    pub(crate) bytes: u64,
}

/// The layout of a striped file. It never changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) id: FileId,
    /// Bytes.
    unit: u64,
    /// The number of the branch of each position.
    pub(crate) branches: Vec<u8>,
}

impl Layout {
    /// `None`: such a file cannot be.
    pub(crate) fn new(id: FileId, unit: u64, branches: Vec<u8>) -> Option<Self> {
        let distinct = (1..branches.len()).all(|at| !branches[..at].contains(&branches[at]));
        let valid =
            is_unit(unit) && (STRIPES_MIN..=BRANCHES_MAX).contains(&branches.len()) && distinct;
        valid.then_some(Self { id, unit, branches })
    }

    /// The value for the xattr of the stub with this inode.
    pub(crate) fn to_text(&self, pool: PoolUuid, inode: u64) -> String {
        let branches: Vec<String> = self.branches.iter().map(u8::to_string).collect();
        format!("{FORMAT} {pool} {} {} {} {inode}", self.id, self.unit, branches.join(","))
    }

    /// Reads a value: the layout, and the inode that it was written for. `None`: it is damaged, of
    /// another pool, or of a newer version. Each text that is accepted is one that
    /// [`Layout::to_text`] writes.
    pub(crate) fn from_text(text: &[u8], pool: PoolUuid) -> Option<(Self, u64)> {
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split(' ').skip(2);
        let id = FileId::from_text(words.next()?)?;
        let unit = words.next()?.parse().ok()?;
        let branches = words.next()?.split(',').map(|number| number.parse().ok());
        let inode = words.next()?.parse().ok()?;
        let layout = Self::new(id, unit, branches.collect::<Option<Vec<u8>>>()?)?;
        (layout.to_text(pool, inode) == text).then_some((layout, inode))
    }

    /// The number of objects.
    pub(crate) fn stripes(&self) -> usize {
        self.branches.len()
    }

    pub(crate) fn unit(&self) -> u64 {
        self.unit
    }

    /// Bytes of one unit on each branch.
    pub(crate) fn row(&self) -> u64 {
        self.unit * self.stripes() as u64
    }

    /// How many bytes of an object are before an offset in the file. So it is the length of the
    /// object of a file with this size, too.
    pub(crate) fn object_bytes_before(&self, position: usize, offset: u64) -> u64 {
        let (row, rest) = (offset / self.row(), offset % self.row());
        let before = self.unit * position as u64;
        row * self.unit + rest.saturating_sub(before).min(self.unit)
    }

    /// The offset in the file of a byte of an object. An object of a damaged branch may be longer
    /// than any file.
    pub(crate) fn file_offset(&self, position: usize, object_offset: u64) -> u64 {
        let (row, rest) = (object_offset / self.unit, object_offset % self.unit);
        row.saturating_mul(self.row()).saturating_add(self.unit * position as u64 + rest)
    }

    /// A range of the file, unit by unit. The end of the range must not overflow.
    pub(crate) fn pieces(&self, offset: u64, bytes: u64) -> impl Iterator<Item = Piece> + '_ {
        let end = offset + bytes;
        let mut at = offset;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let unit = at / self.unit;
            let position = usize::try_from(unit % self.stripes() as u64).ok()?;
            let object_offset = unit / self.stripes() as u64 * self.unit + at % self.unit;
            let bytes = (end - at).min(self.unit - at % self.unit);
            at += bytes;
            Some(Piece { position, object_offset, bytes })
        })
    }
}

/// Whether a file may be striped in such units.
pub(crate) fn is_unit(unit: u64) -> bool {
    (UNIT_STEP..=UNIT_MAX).contains(&unit) && unit.is_multiple_of(UNIT_STEP)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POOL: PoolUuid = PoolUuid([0x5a; 16]);

    fn layout(stripes: usize, units: u64) -> Layout {
        let branches = (0..stripes).rev().map(|branch| branch as u8).collect();
        Layout::new(FileId(7), units * UNIT_STEP, branches).unwrap()
    }

    #[test]
    fn a_value_is_read_as_it_was_written() {
        let layout = layout(3, 16);
        let text = layout.to_text(POOL, 12);
        assert!(text.len() <= TEXT_BYTES_MAX);
        assert_eq!(Layout::from_text(text.as_bytes(), POOL), Some((layout, 12)));
    }

    #[test]
    fn the_longest_value_is_within_the_limit() {
        let branches = (0..BRANCHES_MAX).map(|branch| 255 - branch as u8).collect();
        let layout = Layout::new(FileId(u128::MAX), UNIT_MAX, branches).unwrap();
        assert!(layout.to_text(POOL, u64::MAX).len() <= TEXT_BYTES_MAX);
    }

    #[test]
    fn every_damaged_field_of_a_value_is_refused() {
        let text = layout(3, 16).to_text(POOL, 7);
        assert_eq!(text.split(' ').count(), 6);
        let refused = |text: &str| Layout::from_text(text.as_bytes(), POOL).is_none();
        let wrong: &[(usize, &[&str])] = &[
            (0, &["2", "01", "", "x"]),
            (1, &["5b5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a", "5A", ""]),
            (2, &["7", "0000000000000000000000000000000G", "+0000000000000000000000000000007"]),
            (3, &["0", "1", "4095", "4097", "-4096", "2147483648", "18446744073709551616", "1M"]),
            (4, &["", "2", "2,2", "2,1,", ",2,1", "2,256", "2, 1", "02,1", "2;1", "-1,2"]),
            (5, &["", "x", "-1", "012", "18446744073709551616", "12 13"]),
        ];
        for (field, values) in wrong {
            for value in *values {
                let mut words: Vec<&str> = text.split(' ').collect();
                words[*field] = value;
                assert!(refused(&words.join(" ")), "field {field} with {value:?}");
            }
        }
        (0..text.len()).for_each(|bytes| assert!(refused(&text[..bytes]), "{bytes} bytes of it"));
        let many: Vec<String> = (0..=BRANCHES_MAX).map(|branch| branch.to_string()).collect();
        let words: Vec<&str> = text.split(' ').collect();
        let many = [words[0], words[1], words[2], words[3], &many.join(","), words[5]].join(" ");
        assert!(refused(&many));
        assert_eq!(Layout::from_text(b"1 \xff", POOL), None);
    }

    proptest! {
        #[test]
        fn each_byte_of_a_file_is_in_one_place_of_one_object(
            stripes in STRIPES_MIN..9,
            units in 1_u64..5,
            offset in 0_u64..1 << 20,
            bytes in 1_u64..1 << 18,
        ) {
            let layout = layout(stripes, units);
            let mut at = offset;
            for piece in layout.pieces(offset, bytes) {
                prop_assert_eq!(layout.file_offset(piece.position, piece.object_offset), at);
                let before = layout.object_bytes_before(piece.position, at);
                prop_assert_eq!(before, piece.object_offset);
                at += piece.bytes;
                let before = layout.object_bytes_before(piece.position, at);
                prop_assert_eq!(before, piece.object_offset + piece.bytes);
            }
            prop_assert_eq!(at, offset + bytes);
            let sum: u64 = (0..stripes).map(|at| layout.object_bytes_before(at, offset)).sum();
            prop_assert_eq!(sum, offset);
        }
    }
}
