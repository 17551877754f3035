//! An object that contains one number: a word of a file, a mode, a time, the value of an attribute.

use super::linearizability::Specification;

/// The specification.
pub struct Register;

/// A call on the object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    Write(u64),
    Read(u64),
}

impl Specification for Register {
    type State = u64;
    type Call = Call;

    fn next(state: &u64, call: &Call) -> Vec<u64> {
        match call {
            Call::Write(value) => vec![*value],
            Call::Read(value) if value == state => vec![*state],
            Call::Read(_) => Vec::new(),
        }
    }
}
