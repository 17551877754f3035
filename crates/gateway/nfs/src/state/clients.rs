//! Clients: EXCHANGE_ID, the records that CREATE_SESSION confirms, and client leases.
//!
//! ```text
//!   EXCHANGE_ID ──> unconfirmed ── CREATE_SESSION ──> confirmed ── lease passes ──> courtesy
//!                       │                                │  ^                          │
//!            lease passes, replaced           DESTROY_CLIENTID  SEQUENCE     conflict, no space
//! ```
//!
//! Invariants:
//! 1. An owner has at most one confirmed and one unconfirmed record.
//! 2. A confirmed record is removed by its owner, by the owner's next instance when that one is
//!    confirmed, or after its lease has passed: when its state conflicts with another client's, or
//!    when there is no space for another client. Until then an expired client has its state: a
//!    courtesy.
//! 3. Numbers of clients are never reused while the gateway runs, and differ between gateways.

mod durable;
mod record;
mod table;
#[cfg(test)]
mod tests;

pub use durable::{DurableClient, decode_record, encode_record};
pub use record::{Client, ClientData, Protection};
pub use table::{
    BeginSession, CLIENTS_MAX, ClientTable, ExchangeRequest, Exchanged, Removed,
    SESSIONS_PER_CLIENT_MAX, UNCONFIRMED_CLIENTS_MAX,
};
