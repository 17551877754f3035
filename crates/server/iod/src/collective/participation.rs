//! A connection's part in a collective request. If the connection ends before its task has
//! finished, the request fails for all tasks.

use std::sync::Arc;

use braid_types::{Failure, Status};

use super::{Collective, Collectives};

/// One task of a collective request, on its connection.
#[derive(Debug)]
pub(crate) struct Participation {
    collectives: Arc<Collectives>,
    collective: Arc<Collective>,
    rank: usize,
}

impl Participation {
    pub(super) fn new(
        collectives: &Arc<Collectives>,
        collective: &Arc<Collective>,
        rank: usize,
    ) -> Self {
        Self { collectives: collectives.clone(), collective: collective.clone(), rank }
    }

    pub(super) fn is_of(&self, collective: &Arc<Collective>, rank: usize) -> bool {
        Arc::ptr_eq(&self.collective, collective) && self.rank == rank
    }

    /// Whether the end of the connection no longer matters.
    pub(crate) fn is_over(&self) -> bool {
        let progress = self.collective.progress();
        progress.failure().is_some() || progress.is_finished(self.rank)
    }
}

impl Drop for Participation {
    fn drop(&mut self) {
        if !self.is_over() {
            let detail =
                format!("the connection of task {} of the collective request ended", self.rank);
            let touched = self.collective.touched();
            self.collectives.fail(
                &self.collective,
                &Failure::new(Status::TryAgain, detail),
                touched,
            );
        }
    }
}
