//! SMB 2.0.2 to 3.1.1, without I/O: it turns messages into values and back, and depends on no
//! other part of BraidFS.
//!
//! ```text
//!   frame ──> message = header (smb2::header) + body (smb2::*) ──> file information (fscc)
//!             a compound has several       │
//!                                          ├──> logon tokens (auth: SPNEGO, NTLM)
//!                                          ├──> pipes (rpc: DCE/RPC, srvsvc)
//!                                          └──> input of IOCTL (fsctl, dfs)
//!   protect: keys, signatures, encryption
//! ```
//!
//! Invariants:
//!
//! 1. No bytes from the network cause a panic.
//! 2. A length or count from the network is compared with its limit and with the bytes that are
//!    left in the message before memory is taken.
//! 3. The data of READ and WRITE is not copied: decoded values are slices of the message, and an
//!    encoder returns long data apart from its body.
#![forbid(unsafe_code)]

pub mod access;
pub mod auth;
mod bits;
pub mod cursor;
pub mod dfs;
pub mod filetime;
pub mod frame;
pub mod fscc;
pub mod fsctl;
pub mod protect;
pub mod rpc;
pub mod sd;
pub mod smb1;
pub mod smb2;
pub mod status;
pub mod wildcard;

pub use cursor::{Malformed, Reader, Writer};
pub use status::NtStatus;
