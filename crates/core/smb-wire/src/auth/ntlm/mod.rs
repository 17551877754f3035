//! NTLM, version 2 only. MS-NLMP.
//!
//! [`Acceptor`] is the server's side and [`Initiator`] the client's, both without I/O. Neither
//! sends nor accepts responses of LM or of NTLM version 1.

mod acceptor;
mod av_pairs;
mod crypto;
mod initiator;
mod messages;

pub use acceptor::{Acceptor, Authenticated, LogonFailure, ServerNames};
pub use av_pairs::{AvId, AvPairs};
pub use crypto::{MessageKeys, NtHash, nt_hash};
pub use initiator::{Credentials, Initiator};
pub use messages::{Authenticate, Challenge, MessageFlags, Negotiate};

/// The first bytes of each message. 2.2.1.
pub const SIGNATURE: &[u8; 8] = b"NTLMSSP\0";

#[cfg(test)]
mod tests;
