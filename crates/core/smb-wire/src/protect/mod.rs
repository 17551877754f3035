//! Keys, signatures and encryption. MS-SMB2 3.1.4.

mod keys;
mod seal;
mod sign;
#[cfg(test)]
pub(crate) mod test_vectors;

/// A signature, a MIC or an encrypted message that was changed, or that another key made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the message does not match its signature")]
pub struct Forged;

pub use keys::{PreauthHash, SessionKeys};
pub use seal::Sealer;
pub use sign::{Sender, Signer};
