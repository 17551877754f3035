//! Client sessions: what they have open, how they end, and which of them the I/O daemons refuse.
//!
//! ```text
//!   OpenSession ──> live ──silence, revoked key, lease not returned─> ended and fenced ──┐
//!        ^            └─────────────── CloseSession ────────────────> ended and fenced ──┤
//!        ├── AdoptSession: the next start of a gateway continues a session of the earlier one │
//!        └── OpenSession, then Reclaim ── recorded (the server restarted)                │
//!                                            └── grace period over ──> ended ────────────┤
//!                                                                                        v
//!            closed in the store, sizes collected  <── the fence holds on every I/O daemon
//!                  └── the store cannot record it: tried again with each tick
//! ```
//!
//! `SessionTable` holds all of it and is a part of the server's state, under the server's lock.
//! It calls nobody: `end.rs` and `cleanup_retry.rs` send what it returns, without the lock.
//!
//! Invariants:
//! 1. A session's id is never used twice. Each id that was assigned is live, recorded, fenced, or
//!    just about to begin.
//! 2. A session belongs to one owner. No other owner may join or reclaim it.
//! 3. What a session had open for writing stays open in the store until its fence holds on every
//!    daemon. So no size is collected, and no orphan is deleted, that it might still write.
//! 4. One push of fences is in flight to each daemon. Sessions that end in the meantime are
//!    pushed together with the next one (I9).
//! 5. While the grace period lasts, no recorded session has ended.
//!
//! No assertion checks these at one place: `Fences` asserts what 1 needs of its ranges, `begin` and
//! `admit` compare the owner (2), an end is carried out when `fence_holds` on every daemon (3),
//! `pushing` has each daemon once (4), and `end_grace` returns nothing before its time (5).
//!
//! Lock order: the server's lock alone. The store may be called under it (`core.rs`).

mod adoption;
mod cleanup_retry;
mod end;
pub mod fence;
mod live;
mod table;

pub(crate) use adoption::Adoption;
pub use live::{
    Admission, CACHED_REPLIES_BYTES_MAX, CACHED_REPLIES_SESSION_BYTES_MAX, ClientSession,
    GatewayRecord, OpenFile, Owner, SESSION_OPENS_MAX, SESSION_SLOTS, SESSIONS_MAX,
    SESSIONS_OWNER_MAX, SLOT_WAITERS_MAX, Sessions, UNFENCED_CLOSES_SESSION_MAX,
};
pub(crate) use table::SessionTable;
