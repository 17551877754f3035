//! Leases in the server: which calls wait for which sessions, which sessions are asked to return
//! leases, and which are ended. The table itself is [`braid_meta::lease`], a state machine; ADR
//! 0009 has the protocol.
//!
//! ```text
//!   change ─> claim ─ no other session holds it ─────────────────────────> done, claim dropped
//!               └── recalled from its holders, call suspended ─ returned ─────────> run again
//!                                  └ RECALL_MS ─> session ended and fenced ─ lease invalid ─^
//!   AwaitRecalls ─> suspended ── a recall, or AWAIT_RECALLS_MS ─> answered
//! ```
//!
//! [`Leases`] has a lock of its own, since most calls touch leases and nothing else of the state.
//! `service.rs` is what lies under that lock, without any call to the outside; `calls.rs` sends
//! what it returns; `needs.rs` says which leases an operation must have returned first.
//!
//! Invariants:
//! 1. The lock of the leases is taken last. Nothing is called, answered or run again under it:
//!    what follows from a change is returned as [`service::Deferred`].
//! 2. A call that waits keeps its claim: no session is granted what the call waits for.
//! 3. Waits are bounded in number and time. A wait that runs out names the session that did
//!    not answer (I8, I9).
//! 4. A session's leases are freed when it returns them or closes, or when they are no longer
//!    valid: [`LEASE_EXPIRES_MS`] after its last message, and its fence holds.
//! 5. After a restart nothing is claimed while a session of before, other than the caller's, may
//!    still rely on a lease.
//! 6. At most one thread runs calls again (`LeaseService::resuming`), so that what one call frees
//!    does not nest in it.
//!
//! `service.rs` asserts the number in 3, and 6. The lease table (`braid_meta::lease`) asserts what
//! 2, 4 and 5 forbid. Locks do not record who holds them, so 1 is not asserted.
//!
//! [`LEASE_EXPIRES_MS`]: braid_types::limits::LEASE_EXPIRES_MS

mod calls;
mod needs;
mod service;

pub(crate) use needs::{delegation_of, layout, names, names_of};
pub(crate) use service::{ClaimGuard, LeaseWait, Leases};

/// The call, once its claims hold; else the operation ends here for now.
macro_rules! claimed {
    ($claim:expr) => {
        match $claim {
            Ok(call) => call,
            Err(flow) => return flow,
        }
    };
}
pub(crate) use claimed;
