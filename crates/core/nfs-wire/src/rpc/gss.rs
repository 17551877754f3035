//! `RPCSEC_GSS` version 1 (RFC 2203), without I/O and without a mechanism.
//!
//! ```text
//!   client                                              server
//!   INIT, token              ->                          GssMechanism::accept
//!                            <-  handle, window, token    (CONTINUE_INIT while it needs more)
//!   DATA, handle, sequence   ->                          MIC of the header, sequence window,
//!     arguments (none: plain                             then the arguments
//!     integrity: with a MIC
//!     privacy: encrypted)    <-  results, same service
//!   DESTROY, handle          ->                          the context is removed
//! ```
//!
//! [`GssServer`] and [`GssClientContext`] are the two sides. The cryptography is a
//! [`GssMechanism`] and its [`GssContext`], which for Kerberos call the system's library.
//!
//! Invariants:
//! 1. No sequence number is executed twice: a repeated one, and one below the window, is dropped.
//! 2. Only a valid MIC of the header moves the window, so a forger cannot move it.
//! 3. The arguments' own sequence number equals the header's, so arguments of one call cannot be
//!    attached to another.
//! 4. Callers without an established context hold a bounded amount of memory, for a bounded time.

mod body;
mod client;
mod contexts;
mod credential;
mod mechanism;
mod server;
#[cfg(test)]
mod tests;
mod window;

pub use body::{BodyError, unwrap_body, wrap_body};
pub use client::{GssClientContext, init_call};
pub use contexts::{GssLimits, HANDLE_BYTES};
pub use credential::{
    GSS_TOKEN_BYTES_MAX, GssCredential, GssProcedure, InitArguments, InitResult, SEQUENCE_MAX,
    Service,
};
pub use mechanism::{
    AcceptStep, GSS_S_BAD_SIG, GSS_S_COMPLETE, GSS_S_CONTINUE_NEEDED, GSS_S_DEFECTIVE_TOKEN,
    GSS_S_FAILURE, GssContext, GssFailure, GssMechanism,
};
pub use server::{GssOutcome, GssServer, ProtectedCall};
pub use window::{SEQUENCE_WINDOW, SequenceWindow};
