//! The interval between two measurements of the disk (`braid bench`).

use std::{sync::Mutex, time::Duration};

use braid_types::{Failure, Status};

/// When the next measurement may begin.
#[derive(Debug, Default)]
pub(crate) struct MeasurementInterval(Mutex<Duration>);

impl MeasurementInterval {
    /// Begins a measurement that takes `time`. After it the disk serves other work for at least
    /// half as long.
    ///
    /// # Errors
    /// [`Status::Busy`] before the interval has passed.
    pub(crate) fn begin(&self, now: Duration, time: Duration) -> Result<(), Failure> {
        let mut next = self.0.lock().unwrap_or_else(braid_types::poisoned);
        if now < *next {
            let wait = (*next - now).as_secs() + 1;
            return Err(Failure::new(
                Status::Busy,
                format!("the disk was measured a moment ago; try: again in {wait} s"),
            ));
        }
        *next = now + time + time / 2;
        Ok(())
    }
}
