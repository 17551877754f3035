//! LOCK requests of a durable open that are repeated: they are answered, and lock nothing once
//! more. MS-SMB2 3.3.5.14, Open.LockSequenceArray.

use std::collections::HashMap;

/// Most requests that can be repeated: the indices are 1 to 64.
const INDEX_MAX: u32 = 64;

/// What a request says of its repetitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockSequence {
    index: u32,
    number: u8,
}

impl LockSequence {
    /// Reads the field of a request: the number is in its lower 4 bits. `None` for a request that
    /// is not repeated.
    pub fn of(field: u32) -> Option<Self> {
        let (index, number) = (field >> 4, (field & 0xf) as u8);
        (1..=INDEX_MAX).contains(&index).then_some(Self { index, number })
    }
}

/// The requests of an open that were done.
#[derive(Debug, Default)]
pub struct LockSequences(HashMap<u32, u8>);

impl LockSequences {
    /// Whether a request was done before. If not, an earlier one with its index is forgotten.
    pub fn is_repeated(&mut self, request: LockSequence) -> bool {
        let is_repeated = self.0.get(&request.index) == Some(&request.number);
        if !is_repeated {
            self.0.remove(&request.index);
        }
        is_repeated
    }

    /// A request was done.
    pub fn done(&mut self, request: LockSequence) {
        self.0.insert(request.index, request.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_known_by_its_index_and_number() {
        assert_eq!((LockSequence::of(0x001), LockSequence::of(0x411)), (None, None));
        let request = |field| LockSequence::of(field).unwrap();
        let mut done = LockSequences::default();
        assert!(!done.is_repeated(request(0x011)));
        done.done(request(0x011));
        done.done(request(0x401));
        assert!(done.is_repeated(request(0x011)) && done.is_repeated(request(0x401)));
        assert!(!done.is_repeated(request(0x012)), "another request");
        assert!(!done.is_repeated(request(0x011)), "which has taken its place");
    }
}
