//! Gathered bytes of a mount that could not be written: whoever wrote them is told, and who has everything forced.

use std::sync::Mutex;

use crate::{
    error::{Error, Result},
    files::lock,
};

#[derive(Debug, Default)]
pub(crate) struct Losses(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    count: u64,
    /// How many of them were told.
    told: u64,
    last: Option<Error>,
}

/// Where a sync of all began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began(u64);

impl Losses {
    pub(crate) fn note(&self, error: &Error) {
        let mut state = lock(&self.0);
        state.count += 1;
        state.last = Some(error.clone());
    }

    pub(crate) fn begin(&self) -> Began {
        Began(lock(&self.0).told)
    }

    /// A sync of all has sent everything.
    ///
    /// # Errors
    /// What was lost and not told when it began: each of several that go on at the same time tells it.
    pub(crate) fn end(&self, began: Began) -> Result<()> {
        let mut state = lock(&self.0);
        state.told = state.count;
        if state.count == began.0 {
            return Ok(());
        }
        state.last.clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use braid_client::Status;

    use super::*;

    #[test]
    fn a_loss_is_told_to_all_who_began_before_it_was_told_and_to_nobody_after() {
        let losses = Losses::default();
        let (one, other) = (losses.begin(), losses.begin());
        losses.note(&Error::of(Status::Unreachable));
        assert!(losses.end(one).is_err() && losses.end(other).is_err());
        let late = losses.begin();
        assert!(losses.end(late).is_ok());
    }
}
