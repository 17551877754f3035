//! An NFSv4.2 client for tests, without a kernel: calls, sessions and files.
//!
//! ```text
//!   NfsMount ──> NfsSession ──> RpcConnection ──> socket
//! ```
//!
//! It caches nothing, so that each call is one of the protocol. A thread has a mount of its own.

mod mount;
mod rpc;
mod session;

pub use mount::{NfsFile, NfsMount};
pub use rpc::{RpcConnection, user};
pub use session::{NfsError, NfsSession};
