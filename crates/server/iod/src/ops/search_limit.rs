//! Limits how long a job searches its request for a byte of this daemon.

use braid_types::{Failure, Status, limits::SEARCH_SLICES_MAX};

/// Slices in a row that found no byte.
#[derive(Debug, Default)]
pub(crate) struct SearchLimit(usize);

impl SearchLimit {
    /// The slice found a byte.
    pub(crate) fn reset(&mut self) {
        self.0 = 0;
    }

    /// The slice found no byte.
    ///
    /// # Errors
    /// [`Status::LimitExceeded`] after [`SEARCH_SLICES_MAX`].
    pub(crate) fn count_empty_slice(&mut self) -> Result<(), Failure> {
        self.count_empty_slice_up_to(SEARCH_SLICES_MAX)
    }

    /// The same with another limit.
    pub(crate) fn count_empty_slice_up_to(&mut self, slices_max: usize) -> Result<(), Failure> {
        self.0 += 1;
        if self.0 < slices_max {
            return Ok(());
        }
        let detail = "the view takes too long to search for bytes of this I/O daemon; \
                      try: a request with fewer repetitions";
        Err(Failure::new(Status::LimitExceeded, detail))
    }
}
