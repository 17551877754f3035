//! Who answers requests.

use super::{Interrupt, KernelFeatures, Notifier, Reply, Request, Wanted};

/// One file system behind the protocol. Called by many threads at once.
pub trait Handler: Send + Sync + 'static {
    /// Before the first request: what the kernel offers, and what is wanted of it.
    fn init(&self, kernel: &KernelFeatures) -> Wanted;

    /// After INIT was answered and before the first request: the way to tell the kernel something.
    fn started(&self, notifier: Notifier) {
        drop(notifier);
    }

    /// One request, on a worker, which may wait for a server. Workers are bounded: what may last for ever (a lock) is to be waited for on
    /// another thread; `reply` and the interrupt may outlive the call.
    fn handle(&self, request: Request<'_>, reply: Reply, call: &mut Call<'_>);

    /// The kernel has dropped so many lookups of these nodes. No reply.
    fn forget(&self, forgotten: &[Forget]) {
        let _ = forgotten;
    }

    /// The mount is over: no request comes any more. Those under way may still be running.
    fn destroyed(&self) {}
}

/// What a handler has at hand while it serves a request.
#[derive(Debug)]
pub struct Call<'a> {
    /// Says when the process that waits for the answer got a signal.
    pub interrupt: &'a Interrupt,
    /// Room for the answer's data: page aligned, `Wanted::request_bytes_max` bytes, used again by the
    /// next request of this thread (so its pages are there); what it holds now is old.
    pub scratch: &'a mut [u8],
}

/// A node that the kernel needs no longer, if this was the last of its lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forget {
    /// The node.
    pub node: u64,
    /// How many answers with this node (entry, create, readdirplus) are given back.
    pub lookups: u64,
}
