//! A logon that is under way: from the first SESSION_SETUP to the last. MS-SMB2 3.3.5.5, MS-SPNG.
//!
//! ```text
//!   client: mechanisms, [NTLM NEGOTIATE]   ->   NTLM CHALLENGE
//!   client: NTLM AUTHENTICATE, [MIC]       ->   a session, [MIC]
//! ```

use braid_smb_wire::auth::ntlm::{Acceptor, Authenticated, ServerNames};
use braid_smb_wire::auth::spnego::{ClientToken, Mechanism, NegState, ServerToken};
use braid_smb_wire::auth::{self};
use braid_smb_wire::protect::PreauthHash;
use tokio::time::Instant;

/// A logon that is under way.
#[derive(Debug)]
pub struct PendingLogon {
    /// Over the messages of the negotiation and of the logon, for 3.1.1.
    preauth: Option<PreauthHash>,
    /// When it began: one that takes too long is forgotten first.
    pub begun: Instant,
}
