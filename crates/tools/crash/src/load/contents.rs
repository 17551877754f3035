//! Required and allowed bytes of one file.

use std::fmt;

/// A change of a file's bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Edit {
    Write { offset: usize, bytes: Vec<u8> },
    Resize(usize),
    Punch { offset: usize, bytes: usize },
}

/// One file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Contents {
    /// Certain bytes.
    pub(super) base: Vec<u8>,
    /// Changes that may or may not have happened.
    pub(super) pending: Vec<Edit>,
}

/// What a reader got: bytes, and ranges that could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bytes {
    /// As long as the file; zeros where nothing could be read.
    pub bytes: Vec<u8>,
    /// Start, end, and the error.
    pub unreadable: Vec<(usize, usize, String)>,
}

impl Contents {
    /// Makes all pending changes certain.
    pub(super) fn make_certain(&mut self) {
        for edit in std::mem::take(&mut self.pending) {
            edit.apply(&mut self.base);
        }
    }

    /// The bytes with all pending changes.
    pub(super) fn all(&self) -> Vec<u8> {
        let mut bytes = self.base.clone();
        self.pending.iter().for_each(|edit| edit.apply(&mut bytes));
        bytes
    }

    /// Why the found bytes are impossible; `None` if they are possible.
    pub(super) fn refutes(&self, found: &Bytes) -> Option<Impossible> {
        if found.unreadable.is_empty() && found.bytes == self.all() {
            return None;
        }
        let intents = self.pending.iter().filter(|edit| edit.is_intent()).count();
        // Truncates and punches are intents of the metadata server: in order, each complete.
        let refutations: Vec<_> =
            (0..=intents).rev().map_while(|applied| self.refutes_with(found, applied)).collect();
        if refutations.len() > intents { refutations.into_iter().next() } else { None }
    }

    fn refutes_with(&self, found: &Bytes, applied: usize) -> Option<Impossible> {
        let edits = self.edits(applied);
        let (mut least, mut most) = (self.base.len(), self.base.len());
        for edit in &edits {
            match edit {
                Edit::Write { offset, bytes } => most = most.max(offset + bytes.len()),
                Edit::Resize(bytes) => (least, most) = (*bytes, *bytes),
                Edit::Punch { .. } => {}
            }
        }
        let size = found.bytes.len();
        if !(least..=most).contains(&size) {
            return Some(Impossible::Size { found: size, least, most });
        }
        (0..size).find_map(|at| self.refutes_byte(&edits, found, at))
    }

    /// The pending changes, with only the first `intents` of the intents.
    fn edits(&self, intents: usize) -> Vec<&Edit> {
        let mut seen = 0;
        let counts = |edit: &&Edit| {
            seen += usize::from(edit.is_intent());
            !edit.is_intent() || seen <= intents
        };
        self.pending.iter().filter(counts).collect()
    }

    fn refutes_byte(&self, edits: &[&Edit], found: &Bytes, at: usize) -> Option<Impossible> {
        let is = found.bytes[at];
        let mut may = vec![self.base.get(at).copied().unwrap_or(0)];
        let mut touched = false;
        for edit in edits {
            match edit {
                Edit::Write { offset, bytes } => {
                    if let Some(byte) = at.checked_sub(*offset).and_then(|at| bytes.get(at)) {
                        may.push(*byte);
                        touched = true;
                    }
                }
                Edit::Resize(bytes) if at >= *bytes => (may, touched) = (vec![0], true),
                Edit::Punch { offset, bytes } if (*offset..offset + bytes).contains(&at) => {
                    (may, touched) = (vec![0], true);
                }
                _ => {}
            }
        }
        if let Some((_, _, why)) =
            found.unreadable.iter().find(|(from, to, _)| (*from..*to).contains(&at))
        {
            // Nothing was promised after the certain end.
            let promised = !touched && at < self.base.len();
            return promised.then(|| Impossible::Unreadable { at, why: why.clone() });
        }
        (!may.contains(&is)).then_some(Impossible::Byte { at, found: is, may })
    }
}

impl Edit {
    fn is_intent(&self) -> bool {
        !matches!(self, Self::Write { .. })
    }

    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[*offset..end].copy_from_slice(bytes);
            }
            Self::Resize(bytes) => to.resize(*bytes, 0),
            Self::Punch { offset, bytes } => {
                let end = (offset + bytes).min(to.len());
                to[(*offset).min(end)..end].fill(0);
            }
        }
    }
}

/// Why some bytes cannot be those of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Impossible {
    Size { found: usize, least: usize, most: usize },
    Byte { at: usize, found: u8, may: Vec<u8> },
    Unreadable { at: usize, why: String },
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { found, least, most } if least == most => {
                write!(f, "has {found} bytes, {least} were acknowledged (I5, I6)")
            }
            Self::Size { found, least, most } => {
                write!(f, "has {found} bytes, not {least} to {most} (I5, I6)")
            }
            Self::Byte { at, found, may } => {
                write!(f, "byte {at} is {found}, it may be one of {may:?} (I6)")
            }
            Self::Unreadable { at, why } => write!(f, "byte {at} cannot be read: {why} (I6, I11)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8]) -> Bytes {
        Bytes { bytes: bytes.to_vec(), unreadable: Vec::new() }
    }

    fn write(offset: usize, bytes: &[u8]) -> Edit {
        Edit::Write { offset, bytes: bytes.to_vec() }
    }

    #[test]
    fn certain_bytes_must_match_exactly() {
        let mut file = Contents { base: vec![], pending: vec![write(0, b"abcd"), write(2, b"xy")] };
        assert!(file.refutes(&found(b"ab")).is_none() && file.refutes(&found(b"abcy")).is_none());
        file.make_certain();
        assert_eq!(file.refutes(&found(b"abxy")), None);
        assert!(matches!(file.refutes(&found(b"abcy")), Some(Impossible::Byte { at: 2, .. })));
        assert!(matches!(file.refutes(&found(b"abx")), Some(Impossible::Size { .. })));
        let lost = Bytes { bytes: vec![0; 4], unreadable: vec![(1, 2, "gone".into())] };
        assert!(matches!(file.refutes(&lost), Some(Impossible::Byte { at: 0, .. })));
    }

    #[test]
    fn pending_writes_may_be_partial_but_a_truncate_is_whole() {
        let file =
            Contents { base: b"abcdef".to_vec(), pending: vec![Edit::Resize(2), write(4, b"XY")] };
        for may in [&b"abcdef"[..], b"abcdXY", b"abcdXf", b"ab", b"ab\0\0XY", b"ab\0\0\0Y"] {
            assert_eq!(file.refutes(&found(may)), None, "{may:?}");
        }
        for may_not in [&b"abc"[..], b"ab\0\0e", b"abc\0XY", b"abcdZY", b"abcdefg", b"a"] {
            let refuted = file.refutes(&found(may_not));
            // "abc" may be the truncated file followed by half a write: then its third byte is a
            // zero.
            assert!(refuted.is_some(), "{may_not:?}");
        }
    }

    #[test]
    fn a_lost_part_is_allowed_only_where_nothing_was_certain() {
        let file = Contents { base: b"ab".to_vec(), pending: vec![write(2, b"cd")] };
        let lost = |from, to| Bytes {
            bytes: b"ab\0\0".to_vec(),
            unreadable: vec![(from, to, "gone".into())],
        };
        assert_eq!(file.refutes(&lost(2, 4)), None);
        assert!(matches!(file.refutes(&lost(1, 4)), Some(Impossible::Unreadable { at: 1, .. })));
    }
}
