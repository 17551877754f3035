//! Leases, for async programs.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::{Arc, Mutex, Weak},
};

use braid_layout::Layout;
use braid_net::{Driver, Tokio};
use braid_types::FileIndex;

use super::Client;
use crate::{
    engine::{Engine, RecallNotice, semaphore::lock},
    error::Result,
    lease::{LeaseHolder, LeaseMode, LeaseOf, LeaseTicket, Recalled, does_io_under_leases},
};

impl<D: Driver> Client<D> {
    /// A lease, if it is held now. A reply may be cached if its request was sent after this call
    /// and [`Client::is_lease_valid`] returns true after the reply came. It may be used as long as
    /// [`Client::is_lease_valid`] returns true.
    pub fn lease_ticket(&self, of: LeaseOf) -> Option<LeaseTicket> {
        self.caller().engine().ticket(of)
    }

    /// Whether the lease was held, and allowed the same, from the moment of the ticket until now.
    pub fn is_lease_valid(&self, ticket: &LeaseTicket) -> bool {
        self.caller().engine().is_valid(ticket)
    }

    /// Requests the names lease of a directory; `None` if something conflicts.
    ///
    /// # Errors
    /// As any call.
    pub async fn ask_names(&self, dir: FileIndex) -> Result<Option<LeaseTicket>> {
        self.caller().ask_names(dir).await
    }

    /// Requests the data lease of a file, and waits while it is recalled from other clients.
    ///
    /// # Errors
    /// As any call; `TryAgain` with the name of a client that does not return its lease.
    pub async fn ask_data(
        &self,
        file: FileIndex,
        mode: LeaseMode,
        alone: bool,
    ) -> Result<Option<LeaseTicket>> {
        self.caller().ask_data(file, mode, alone).await
    }

    /// Requests the layout lease of a file. Returns also the layout, which may be cached under the
    /// lease. `None` if something conflicts.
    ///
    /// # Errors
    /// As any call.
    pub async fn ask_layout(&self, file: FileIndex) -> Result<Option<(LeaseTicket, Layout)>> {
        self.caller().ask_layout(file).await
    }

    /// Returns a lease that is not needed any more. First drop what is cached under it.
    ///
    /// # Errors
    /// As any call; the lease is lost in any case.
    pub async fn return_lease(&self, of: LeaseOf) -> Result<()> {
        self.caller().return_lease(of).await
    }
}

impl<D: Driver> Client<D> {
    /// As `serve_leases`, for a holder that never blocks: it is called within the task. For drivers
    /// without threads. Ends immediately if another holder serves the recalls of this client.
    pub fn serve_leases_here(
        &self,
        holder: Weak<dyn LeaseHolder>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let weak = Arc::downgrade(self.caller().engine());
        let under_leases = does_io_under_leases(&holder);
        let is_first = self.caller().engine().serve_recalls(under_leases);
        async move {
            while let Some(engine) = weak.upgrade().filter(|_| is_first) {
                match engine.next_notice().await {
                    RecallNotice::AllLost(lost) => {
                        if let Some(holder) = holder.upgrade() {
                            holder.lost_all();
                        }
                        engine.all_invalidated(lost);
                    }
                    RecallNotice::Recalled(recalled) => {
                        for one in &recalled {
                            let keep = holder
                                .upgrade()
                                .filter(|_| one.held)
                                .map_or(LeaseMode::None, |holder| notify_holder(&*holder, one));
                            // If the server does not receive this, it ends the session, and the
                            // next notice reports that.
                            let _ = engine.carried_out(one, keep).await;
                        }
                    }
                    RecallNotice::Quiet => {}
                    RecallNotice::Ended => return,
                }
            }
        }
    }
}

/// Lets the holder carry out a recall. Returns the mode that it keeps.
fn notify_holder(holder: &dyn LeaseHolder, recalled: &Recalled) -> LeaseMode {
    match recalled.of {
        LeaseOf::Names(dir) => {
            holder.recall_names(dir);
            LeaseMode::None
        }
        LeaseOf::Layout(file) => {
            holder.recall_layout(file);
            LeaseMode::None
        }
        LeaseOf::Data(file) => holder.recall_data(file, recalled.keep),
        // Only clients that call `begin_delegations` request them. Those receive recalls with
        // `next_delegation_notices` and not here.
        LeaseOf::Delegation(_) => LeaseMode::None,
    }
}

impl Client<Tokio> {
    /// Carries out recalls as long as the client exists. Before this runs, no lease is granted. Run
    /// this in a task; the holder is called on threads that may block. Ends immediately if another
    /// holder serves the recalls of this client, such as its read cache.
    pub fn serve_leases(
        &self,
        holder: Weak<dyn LeaseHolder>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let weak = Arc::downgrade(self.caller().engine());
        let under_leases = does_io_under_leases(&holder);
        let is_first = self.caller().engine().serve_recalls(under_leases);
        let queues = Arc::new(RecallQueues::default());
        async move {
            while let Some(engine) = weak.upgrade().filter(|_| is_first) {
                match engine.next_notice().await {
                    RecallNotice::AllLost(lost) => {
                        blocking(&holder, |holder| holder.lost_all()).await;
                        engine.all_invalidated(lost);
                    }
                    RecallNotice::Recalled(recalled) => {
                        for one in recalled {
                            // Later recalls of the same lease are carried out by the task of the
                            // first one.
                            if queues.begin(one) {
                                let queues = Arc::clone(&queues);
                                drop(tokio::spawn(carry_out_all(
                                    Arc::clone(&engine),
                                    holder.clone(),
                                    queues,
                                    one,
                                )));
                            }
                        }
                    }
                    RecallNotice::Quiet => {}
                    RecallNotice::Ended => return,
                }
            }
        }
    }
}

/// Recalls of one lease are carried out one after the other, in order. If two ran at the same time,
/// the one that keeps a mode would let the holder use it while the other removes it. The server
/// recalls each lease once at a time; a second one waits here only if the server has repeated a
/// recall (I9).
#[derive(Debug, Default)]
struct RecallQueues(Mutex<HashMap<LeaseOf, VecDeque<Recalled>>>);

impl RecallQueues {
    /// Whether the caller carries out this recall and those after it. If not, another task does.
    fn begin(&self, recalled: Recalled) -> bool {
        match lock(&self.0).entry(recalled.of) {
            Entry::Occupied(mut waiting) => {
                waiting.get_mut().push_back(recalled);
                false
            }
            Entry::Vacant(free) => {
                free.insert(VecDeque::new());
                true
            }
        }
    }

    /// A recall was carried out. Returns the next one of its lease.
    fn next(&self, of: LeaseOf) -> Option<Recalled> {
        let mut leases = lock(&self.0);
        let next = leases.get_mut(&of)?.pop_front();
        if next.is_none() {
            leases.remove(&of);
        }
        next
    }
}

async fn carry_out_all(
    engine: Arc<Engine<Tokio>>,
    holder: Weak<dyn LeaseHolder>,
    queues: Arc<RecallQueues>,
    mut recalled: Recalled,
) {
    loop {
        carry_out(Arc::clone(&engine), holder.clone(), recalled).await;
        match queues.next(recalled.of) {
            Some(next) => recalled = next,
            None => return,
        }
    }
}

async fn carry_out(engine: Arc<Engine<Tokio>>, holder: Weak<dyn LeaseHolder>, recalled: Recalled) {
    let keep = if recalled.held {
        blocking(&holder, move |holder| notify_holder(&*holder, &recalled))
            .await
            .unwrap_or(LeaseMode::None)
    } else {
        LeaseMode::None
    };
    // If the server does not receive this, it ends the session, and the next notice reports that.
    let _ = engine.carried_out(&recalled, keep).await;
}

async fn blocking<T: Send + 'static>(
    holder: &Weak<dyn LeaseHolder>,
    work: impl FnOnce(Arc<dyn LeaseHolder>) -> T + Send + 'static,
) -> Option<T> {
    let holder = holder.upgrade()?;
    tokio::task::spawn_blocking(move || work(holder)).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recall(file: u64, number: u64) -> Recalled {
        Recalled { of: LeaseOf::Data(FileIndex(file)), number, keep: LeaseMode::None, held: true }
    }

    #[test]
    fn recalls_of_one_lease_are_carried_out_in_order_and_others_do_not_wait() {
        let queues = RecallQueues::default();
        assert!(queues.begin(recall(1, 1)));
        assert!(
            !queues.begin(recall(1, 2)) && !queues.begin(recall(1, 3)),
            "the first is being carried out"
        );
        assert!(queues.begin(recall(2, 4)), "another lease");
        let of = LeaseOf::Data(FileIndex(1));
        assert_eq!(queues.next(of).map(|next| next.number), Some(2));
        assert_eq!(queues.next(of).map(|next| next.number), Some(3));
        assert_eq!(queues.next(of), None);
        assert!(queues.begin(recall(1, 5)), "nobody is at it any more");
    }
}
