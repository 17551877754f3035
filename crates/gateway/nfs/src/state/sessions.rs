//! Sessions and their slots. RFC 8881 2.10.6.
//!
//! ```text
//!   SEQUENCE (slot, sequence) ──> begin ──> New ──> the compound runs ──> finish (cached reply)
//!                                      └──> Retry ──> the cached reply, or that there is none
//! ```
//!
//! Invariants:
//! 1. A slot runs at most one request at a time; the request with the next sequence number only.
//! 2. The reply of a slot's last request is cached if the request asked for it, or if there was
//!    nothing but SEQUENCE in it.

mod channel;
mod slots;
mod table;
#[cfg(test)]
mod tests;

pub use channel::{
    BACK_OPERATIONS_MIN, CACHED_REPLY_BYTES_MAX, CHANNEL_BYTES_MIN, ChannelLimits, OPERATIONS_MAX,
    SLOTS_MAX, SLOTS_MIN, negotiate_back, negotiate_fore,
};
pub use slots::{Begun, CachedReply, SlotTable};
pub use table::{CACHED_REPLY_BYTES_TOTAL_MAX, Session, SessionTable};
