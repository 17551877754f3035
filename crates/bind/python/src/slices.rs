//! Slices of a file with the rules of Python's `bytes`: negative bounds count from the end, missing
//! bounds mean all, and nothing lies past the end. fsspec's ranges have these rules.
//!
//! Lists of bounds arrive as Python lists, so that the work for each of 10,000 ranges needs no loop
//! of the interpreter.

use pyo3::{exceptions::PyOverflowError, prelude::*, types::PyList};

use crate::error::invalid;

/// A longer slice is limited to the file size before memory is allocated. This costs a query to the
/// I/O daemons, which is small beside so long a read.
const UNCHECKED_BYTES_MAX: i64 = 16 << 20;

/// Start and end; `None` for a missing bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slice {
    start: Option<i64>,
    end: Option<i64>,
}

/// Makes slices from two lists of bounds: those in `numbers`, in its order, or all.
pub(crate) fn slices_from_bounds(
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
            "reading slices: starts and ends differ in length",
            "two lists of the same length",
        )),
    }
}

/// A number beyond 64 bits becomes the nearest 64-bit number, as in Python's own slices.
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
    /// Whether its range depends on the size of the file.
    pub(crate) fn needs_size(self) -> bool {
        let start = self.start.unwrap_or(0);
        start < 0
            || self.end.is_none_or(|end| end < 0 || end.saturating_sub(start) > UNCHECKED_BYTES_MAX)
    }

    /// Offset and length in bytes. `size` is the size of the file, if it is known.
    pub(crate) fn range(self, size: Option<u64>) -> (u64, usize) {
        let place = |bound: i64| match u64::try_from(bound) {
            Ok(offset) => offset,
            Err(_) => size.unwrap_or(0).saturating_sub(bound.unsigned_abs()),
        };
        let (start, end) = (place(self.start.unwrap_or(0)), self.end.map_or(u64::MAX, place));
        let bytes = end.min(size.unwrap_or(u64::MAX)).saturating_sub(start);
        (start, usize::try_from(bytes).unwrap_or(usize::MAX))
    }
}
