//! Waits between attempts. They are short at first, since a restarted daemon is back within
//! milliseconds. They are bounded, so that its return is noticed, and never end after the call's
//! deadline (I8).

use std::time::Duration;

use braid_net::Driver;

const FIRST: Duration = Duration::from_millis(5);
/// The longest wait between two attempts.
pub(crate) const LONGEST: Duration = Duration::from_millis(500);

pub(crate) struct Backoff {
    next: Duration,
    deadline: Duration,
}

impl Backoff {
    pub(crate) fn new(deadline: Duration) -> Self {
        Self { next: FIRST, deadline }
    }

    /// Changes the deadline.
    pub(crate) fn until(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// Waits. Returns `false` immediately if the wait would pass the deadline.
    pub(crate) async fn wait<D: Driver>(&mut self, driver: &D) -> bool {
        let left = self.deadline.saturating_sub(driver.now());
        if left <= self.next {
            return false;
        }
        driver.sleep(self.next).await;
        self.next = (self.next * 2).min(LONGEST);
        true
    }
}
