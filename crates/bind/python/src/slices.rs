//! Slices of a file as Python cuts `bytes`: from the end when negative, all when nothing is said, nothing past the end. fsspec's ranges
//! are such.
//!
//! Lists of bounds come here as Python has them: what is done for each of 10,000 ranges is done without the interpreter's loops.

use pyo3::{exceptions::PyOverflowError, prelude::*, types::PyList};

use crate::error::invalid;

/// A slice that is longer is cut to the file before memory is taken for it: that costs a question to the I/O daemons, which so long a
/// read does not feel.
const SURE_BYTES_MAX: i64 = 16 << 20;

/// From where to where; `None` for what was not said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slice {
    start: Option<i64>,
    end: Option<i64>,
}

/// The slices of two lists of bounds: those that `numbers` names, in its order, or all.
pub(crate) fn of(
    starts: &Bound<'_, PyList>,
    ends: &Bound<'_, PyList>,
    numbers: Option<Vec<usize>>,
) -> PyResult<Vec<Slice>> {
    match numbers {
        Some(numbers) => {
            let one = |at: &usize| {
                Ok(Slice {
                    start: bound(&starts.get_item(*at)?)?,
                    end: bound(&ends.get_item(*at)?)?,
                })
            };
            numbers.iter().map(one).collect()
        }
        None if starts.len() == ends.len() => {
            let one = |(start, end)| Ok(Slice { start: bound(&start)?, end: bound(&end)? });
            starts.iter().zip(ends.iter()).map(one).collect()
        }
        None => Err(invalid(
            "starts and ends are not of one length",
            "as many of the one as of the other",
        )),
    }
}

/// A number too large for any file is the largest or least there is, as with slices of Python's own.
fn bound(said: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if said.is_none() {
        return Ok(None);
    }
    match said.extract::<i64>() {
        Err(error) if error.is_instance_of::<PyOverflowError>(said.py()) => {
            Ok(Some(if said.lt(0)? { i64::MIN } else { i64::MAX }))
        }
        number => number.map(Some),
    }
}

impl Slice {
    /// Whether it is to be known how long the file is.
    pub(crate) fn needs_size(self) -> bool {
        let start = self.start.unwrap_or(0);
        start < 0
            || self.end.is_none_or(|end| end < 0 || end.saturating_sub(start) > SURE_BYTES_MAX)
    }

    /// Offset and length in bytes; `size`: how long the file is, where that is known.
    pub(crate) fn piece(self, size: Option<u64>) -> (u64, usize) {
        let place = |bound: i64| match u64::try_from(bound) {
            Ok(offset) => offset,
            Err(_) => size.unwrap_or(0).saturating_sub(bound.unsigned_abs()),
        };
        let (start, end) = (place(self.start.unwrap_or(0)), self.end.map_or(u64::MAX, place));
        let bytes = end.min(size.unwrap_or(u64::MAX)).saturating_sub(start);
        (start, usize::try_from(bytes).unwrap_or(usize::MAX))
    }
}
