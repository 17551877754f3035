//! NFSv4.1 (RFC 8881, XDR of RFC 5662), NFSv4.2 (RFC 7862, XDR of RFC 7863), and extended
//! attributes (RFC 8276).
//!
//! A server reads a [`CompoundHeader`], then one [`ArgOp`] after the other, and writes each result
//! with [`CompoundReply`]. A client writes the same header and operations, and reads a
//! [`CompoundReplyHeader`] and one [`ResOp`] after the other.

mod acl;
pub mod args;
mod attr;
mod bitmap;
pub mod callback;
mod compound;
mod flags;
pub mod layout_files;
mod op;
mod op_table;
pub mod results;
mod status;
mod types;

pub use acl::{ACES_MAX, Ace, AceFlags, AceMask, AceType, AclSupport};
pub use attr::{
    AttributeError, Attributes, MdsThreshold, OpenArguments, ThresholdItem, Thresholds, attribute,
    open_argument,
};
pub use bitmap::{BITMAP_BITS, Bitmap};
pub use compound::{
    CompoundHeader, CompoundReply, CompoundReplyHeader, NFS_PROGRAM, NFS_VERSION,
    PROCEDURE_COMPOUND, PROCEDURE_NULL,
};
pub use flags::{
    AccessBits, CreateSessionFlags, ExchangeIdFlags, OpenResultFlags, SequenceStatus, ShareAccess,
    ShareDeny, WantedDelegation,
};
pub use op::{ArgError, ArgOp, OpNumber, ResOp};
pub use status::{NfsResult, NfsStatus};
pub use types::*;
