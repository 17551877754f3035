//! A client that does not return its leases until it is released.

use std::sync::{
    Arc, Mutex, Weak,
    atomic::{AtomicBool, Ordering},
    mpsc,
};

use braid_client::{Client, FileIndex, LeaseHolder, LeaseMode};

/// Released by a message, or when the sender is dropped.
pub struct Stuck {
    released: Mutex<mpsc::Receiver<()>>,
    is_recalled: AtomicBool,
}

impl Stuck {
    /// For this client, which takes leases from now on. Must live as long as it does.
    pub fn serve(client: &Client) -> (Arc<Self>, mpsc::Sender<()>) {
        let (let_go, wait) = mpsc::channel();
        let holder =
            Arc::new(Self { released: Mutex::new(wait), is_recalled: AtomicBool::new(false) });
        client.leases().serve(Arc::downgrade(&holder) as Weak<dyn LeaseHolder>).unwrap();
        (holder, let_go)
    }

    /// Whether a lease of names was recalled from it.
    pub fn is_recalled(&self) -> bool {
        self.is_recalled.load(Ordering::Acquire)
    }
}

impl LeaseHolder for Stuck {
    fn recall_names(&self, _: FileIndex) {
        self.is_recalled.store(true, Ordering::Release);
        let _ = self.released.lock().unwrap().recv();
    }

    fn recall_data(&self, _: FileIndex, _: LeaseMode) -> LeaseMode {
        LeaseMode::None
    }

    fn lost_all(&self) {}
}
