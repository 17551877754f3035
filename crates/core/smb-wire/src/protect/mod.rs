//! Keys, signatures and encryption. MS-SMB2 3.1.4.

mod keys;
mod seal;
mod sign;

pub use keys::{PreauthHash, SessionKeys};
pub use seal::{SealError, Sealer};
pub use sign::{Sender, Signer};
