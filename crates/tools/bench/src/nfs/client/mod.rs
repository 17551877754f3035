//! An NFSv4.1 client that makes load: no caches, blocking sockets, any number in a process.
//!
//! ```text
//!   mount.rs ── names, opens, layouts ──> session.rs ── slots ──> connection.rs ── XDR, TCP
//!   transfer.rs ── READ, WRITE, COMMIT ──────┘   one session to each data server, or the gateway's
//! ```
//!
//! Invariants:
//!
//! 1. Data is not copied: a READ's goes from the socket to one buffer, a WRITE's from one buffer to
//!    the socket. So the load costs as little as it can of the machine that it shares with servers.
//! 2. Lengths in replies are checked before memory is taken or written.
//! 3. A READ that is short, a WRITE that is short, and a COMMIT with another verifier than its
//!    WRITEs' are errors.

mod connection;
pub mod mount;
pub mod session;
pub mod transfer;
