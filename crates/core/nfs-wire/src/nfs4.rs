//! NFSv4.1 (RFC 8881, XDR of RFC 5662), NFSv4.2 (RFC 7862, XDR of RFC 7863), and extended
//! attributes (RFC 8276).

mod acl;
mod bitmap;
mod flags;
mod status;
mod types;

pub use acl::{Ace, AceFlags, AceMask, AceType, AclFlags, AclSupport, Acl41};
pub use bitmap::{BITMAP_BITS, Bitmap};
pub use flags::{
    AccessBits, CreateSessionFlags, ExchangeIdFlags, OpenResultFlags, SequenceStatus, ShareAccess,
    ShareDeny, WantedDelegation,
};
pub use status::{NfsResult, NfsStatus};
pub use types::*;
