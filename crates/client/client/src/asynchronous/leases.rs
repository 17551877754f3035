//! Leases, for async programs.

use std::sync::{Arc, Weak};

use braid_layout::Layout;
use braid_net::{Driver, Tokio};
use braid_types::FileIndex;

use super::Client;
use crate::{
    engine::{Engine, Notice},
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
    pub async fn ask_data(&self, file: FileIndex, mode: LeaseMode, alone: bool) -> Result<Option<LeaseTicket>> {
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
    pub fn serve_leases_here(&self, holder: Weak<dyn LeaseHolder>) -> impl Future<Output = ()> + Send + 'static {
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
    pub fn serve_leases(&self, holder: Weak<dyn LeaseHolder>) -> impl Future<Output = ()> + Send + 'static {
        let weak = Arc::downgrade(self.caller().engine());
        self.caller().engine().serve_recalls();
        async move {
            while let Some(engine) = weak.upgrade() {
                match engine.next_notice().await {
                    Notice::LostAll(lost) => {
                        blocking(&holder, |holder| holder.lost_all()).await;
                        engine.all_dropped(lost);
                    }
                    Notice::Recalled(recalled) => {
                        recalled.into_iter().for_each(|one| {
                            drop(tokio::spawn(carry_out(Arc::clone(&engine), holder.clone(), one)));
                        });
                    }
                    Notice::Quiet => {}
                    Notice::Ended => return,
                }
            }
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
