//! The interface of a file system that answers requests.

use super::{Interrupt, KernelFeatures, Notifier, Reply, Request, Wanted};

/// A file system behind the protocol. Called by many threads at the same time.
pub trait Handler: Send + Sync + 'static {
    /// Before the first request: selects from what the kernel offers.
    fn init(&self, kernel: &KernelFeatures) -> Wanted;

    /// After the reply to INIT and before the first request: the notifier for this mount.
    fn started(&self, notifier: Notifier) {
        drop(notifier);
    }

    /// Serves one request on a worker, and may wait for a server. The number of workers is limited:
    /// a wait without a time limit (a lock) must run on another thread. `reply` and the interrupt
    /// may outlive the call.
    fn handle(&self, request: Request<'_>, reply: Reply, call: &mut Call<'_>);

    /// The kernel has dropped lookups of these nodes. There is no reply.
    fn forget(&self, forgotten: &[Forget]) {
        let _ = forgotten;
    }

    /// The mount has ended: no further request comes. Earlier ones may still run.
    fn destroyed(&self) {}
}

/// What a handler can use while it serves a request.
#[derive(Debug)]
pub struct Call<'a> {
    /// Signals to the process that waits for the reply.
    pub interrupt: &'a Interrupt,
    /// A buffer for the reply's data: page aligned, `Wanted::request_bytes_max` bytes. The next
    /// request of this thread uses it again, so its pages are allocated. Its content is old.
    pub scratch: &'a mut [u8],
}

/// Lookups of a node that the kernel has dropped. It does not use the node any more if these were
/// the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forget {
    /// The node.
    pub node: u64,
    /// How many replies with this node (entry, create, readdirplus) are dropped.
    pub lookups: u64,
}
