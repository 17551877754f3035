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
    engine::{Engine, Notice, gate::lock},
    error::Result,
    lease::{LeaseHolder, LeaseMode, LeaseOf, LeaseTicket, Recalled},
};

impl<D: Driver> Client<D> {
    /// The lease of something, if it is held now. What is asked of the server after this, and answered while
    /// [`Client::still`] says yes, may be kept for as long as it does.
    pub fn lease_ticket(&self, of: LeaseOf) -> Option<LeaseTicket> {
        self.caller().engine().ticket(of)
    }

    /// Whether a lease was held, and allowed the same, from the moment of the ticket until now.
    pub fn still(&self, ticket: &LeaseTicket) -> bool {
        self.caller().engine().still(ticket)
    }

    /// Asks for the names lease of a directory; `None` when something is in its way.
    ///
    /// # Errors
    /// As any call.
    pub async fn ask_names(&self, dir: FileIndex) -> Result<Option<LeaseTicket>> {
        self.caller().ask_names(dir).await
    }

    /// Asks for the data lease of a file, and waits while it is recalled from others.
    ///
    /// # Errors
    /// As any call; `TryAgain` with the name of a client that does not give it back.
    pub async fn ask_data(
        &self,
        file: FileIndex,
        mode: LeaseMode,
        alone: bool,
    ) -> Result<Option<LeaseTicket>> {
        self.caller().ask_data(file, mode, alone).await
    }

    /// Asks for the layout lease of a file, with the layout, which may be kept under it; `None` when something is in its way.
    ///
    /// # Errors
    /// As any call.
    pub async fn ask_layout(&self, file: FileIndex) -> Result<Option<(LeaseTicket, Layout)>> {
        self.caller().ask_layout(file).await
    }

    /// Gives a lease back that is of no more use: first forget what was kept under it.
    ///
    /// # Errors
    /// As any call; the lease is lost in any case.
    pub async fn give_back(&self, of: LeaseOf) -> Result<()> {
        self.caller().give_back(of).await
    }
}

impl<D: Driver> Client<D> {
    /// As `serve_leases`, for a holder that never blocks: it is called within the task. For drivers without threads.
    pub fn serve_leases_here(
        &self,
        holder: Weak<dyn LeaseHolder>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let weak = Arc::downgrade(self.caller().engine());
        self.caller().engine().serve_recalls();
        async move {
            while let Some(engine) = weak.upgrade() {
                match engine.next_notice().await {
                    Notice::LostAll(lost) => {
                        if let Some(holder) = holder.upgrade() {
                            holder.lost_all();
                        }
                        engine.all_dropped(lost);
                    }
                    Notice::Recalled(recalled) => {
                        for one in &recalled {
                            let keep = holder
                                .upgrade()
                                .filter(|_| one.held)
                                .map_or(LeaseMode::None, |holder| tell(&*holder, one));
                            // Not heard of it, the server ends the session: the next notice says so.
                            let _ = engine.carried_out(one, keep).await;
                        }
                    }
                    Notice::Quiet => {}
                    Notice::Ended => return,
                }
            }
        }
    }
}

/// Has a recall carried out; what is kept.
fn tell(holder: &dyn LeaseHolder, recalled: &Recalled) -> LeaseMode {
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
    }
}

impl Client<Tokio> {
    /// Carries recalls out as long as the client lives: before this runs nothing is granted. To be run in a task; the
    /// holder is called on threads that may block.
    pub fn serve_leases(
        &self,
        holder: Weak<dyn LeaseHolder>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let weak = Arc::downgrade(self.caller().engine());
        self.caller().engine().serve_recalls();
        let turns = Arc::new(Turns::default());
        async move {
            while let Some(engine) = weak.upgrade() {
                match engine.next_notice().await {
                    Notice::LostAll(lost) => {
                        blocking(&holder, |holder| holder.lost_all()).await;
                        engine.all_dropped(lost);
                    }
                    Notice::Recalled(recalled) => {
                        for one in recalled {
                            // Others of the same lease are carried out by the task that has the first.
                            if turns.begin(one) {
                                let turns = Arc::clone(&turns);
                                drop(tokio::spawn(carry_out_all(
                                    Arc::clone(&engine),
                                    holder.clone(),
                                    turns,
                                    one,
                                )));
                            }
                        }
                    }
                    Notice::Quiet => {}
                    Notice::Ended => return,
                }
            }
        }
    }
}

/// Recalls of one lease are carried out one after the other, in their order: of two at once the one that keeps something would
/// let its holder use it while the other takes it away. Each lease is recalled once at a time, and has one more here
/// only where the server has told a recall again (I9).
#[derive(Debug, Default)]
struct Turns(Mutex<HashMap<LeaseOf, VecDeque<Recalled>>>);

impl Turns {
    /// Whether the caller is to carry it out, and what comes after it; else somebody does when it is its turn.
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

    /// One was carried out: the next of its lease.
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
    turns: Arc<Turns>,
    mut recalled: Recalled,
) {
    loop {
        carry_out(Arc::clone(&engine), holder.clone(), recalled).await;
        match turns.next(recalled.of) {
            Some(next) => recalled = next,
            None => return,
        }
    }
}

async fn carry_out(engine: Arc<Engine<Tokio>>, holder: Weak<dyn LeaseHolder>, recalled: Recalled) {
    let keep = if recalled.held {
        blocking(&holder, move |holder| tell(&*holder, &recalled)).await.unwrap_or(LeaseMode::None)
    } else {
        LeaseMode::None
    };
    // Not heard of it, the server ends the session: the next notice says so.
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
    fn recalls_of_one_lease_have_their_turns_and_others_do_not_wait() {
        let turns = Turns::default();
        assert!(turns.begin(recall(1, 1)));
        assert!(
            !turns.begin(recall(1, 2)) && !turns.begin(recall(1, 3)),
            "the first is being carried out"
        );
        assert!(turns.begin(recall(2, 4)), "another lease");
        let of = LeaseOf::Data(FileIndex(1));
        assert_eq!(turns.next(of).map(|next| next.number), Some(2));
        assert_eq!(turns.next(of).map(|next| next.number), Some(3));
        assert_eq!(turns.next(of), None);
        assert!(turns.begin(recall(1, 5)), "nobody is at it any more");
    }
}
