//! An NFSv4.2 client for tests, without a kernel: calls, sessions, files, and data servers.
//!
//! ```text
//!   NfsMount ──> NfsSession (gateway) ──────> RpcConnection ──> socket
//!            └─> NfsSession (each data server)
//!   NfsCallbacks ──> RpcConnection (of the same session) ──> socket
//! ```
//!
//! It caches nothing, so that each call is one of the protocol. A thread has a mount of its own.

mod callbacks;
mod delegation;
mod layout;
mod mount;
mod rpc;
mod session;

pub use callbacks::NfsCallbacks;
pub use layout::NfsLayout;
pub use mount::{NfsFile, NfsMount};
pub use rpc::{RpcConnection, user};
pub use session::{NfsError, NfsSession};
