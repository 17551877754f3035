//! Waits between attempts: short at first, since a restarted daemon is back within milliseconds; bounded,
//! so that its return is noticed; never past the call's deadline (I8).

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

    /// There is time until then.
    pub(crate) fn until(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// Waits; `false`, and at once, when the deadline would pass.
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
