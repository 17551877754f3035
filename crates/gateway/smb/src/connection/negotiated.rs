//! What a connection has negotiated. MS-SMB2 3.3.1.7.

use braid_smb_wire::smb2::Dialect;
use braid_smb_wire::smb2::negotiate::{Capabilities, Cipher, SecurityMode, SigningAlgorithm};

use super::{TRANSFER_BYTES_MAX, TRANSFER_BYTES_MAX_202};

/// What a connection has negotiated.
#[derive(Clone, Debug)]
pub struct Negotiated {
    /// The dialect.
    pub dialect: Dialect,
    /// The client's machine.
    pub client_guid: [u8; 16],
    /// What the client can do.
    pub client_capabilities: Capabilities,
    /// Whether the client signs.
    pub client_security_mode: SecurityMode,
    /// The dialects that the client has offered.
    pub offered: Vec<u16>,
    /// What the server said that it can do.
    pub capabilities: Capabilities,
    /// What the server said of signatures.
    pub security_mode: SecurityMode,
    /// How messages are signed.
    pub signing: SigningAlgorithm,
    /// How messages are encrypted; `None` if they cannot be.
    pub cipher: Option<Cipher>,
}

impl Negotiated {
    /// Most bytes of a READ, a WRITE, and other data.
    pub fn transfer_bytes_max(&self) -> u32 {
        match self.dialect {
            Dialect::Smb202 => TRANSFER_BYTES_MAX_202,
            _ => TRANSFER_BYTES_MAX,
        }
    }
}
