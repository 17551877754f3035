//! A client that does not return its leases until it is released.

use std::sync::{Arc, Mutex, Weak, mpsc};

use braid_client::{Client, FileIndex, LeaseHolder, LeaseMode};

/// Released by a message, or when the sender is dropped.
pub struct Stuck(Mutex<mpsc::Receiver<()>>);

impl Stuck {
    /// For this client, which takes leases from now on. Must live as long as it does.
    pub fn serve(client: &Client) -> (Arc<Self>, mpsc::Sender<()>) {
        let (let_go, wait) = mpsc::channel();
        let holder = Arc::new(Self(Mutex::new(wait)));
        client.leases().serve(Arc::downgrade(&holder) as Weak<dyn LeaseHolder>).unwrap();
        (holder, let_go)
    }
}

impl LeaseHolder for Stuck {
    fn recall_names(&self, _: FileIndex) {
        let _ = self.0.lock().unwrap().recv();
    }

    fn recall_data(&self, _: FileIndex, _: LeaseMode) -> LeaseMode {
        LeaseMode::None
    }

    fn lost_all(&self) {}
}
