//! Callbacks: requests from a server to a client. RFC 8881 20, RFC 7862 16.
//!
//! ```text
//!   request  tag · minor version · callback_ident · count · (number · arguments)…
//!   reply    as of a COMPOUND
//! ```

mod args;
mod getattr;
mod notify;

pub use args::*;
pub use getattr::{HOLDER_ATTRIBUTES, HolderAttributes};
pub use notify::{DeviceChange, DeviceNotification, Notification};

use bytes::Bytes;

use super::NfsResult;
use super::op_table::op_table;
use super::results::GetAttrResult;
use super::types::MESSAGE_LIMITED;
use crate::xdr::{xdr_enum, xdr_struct};

/// RPC version of callbacks; the client chooses the program number.
pub const CALLBACK_VERSION: u32 = 1;

xdr_struct! {
    /// Start of `CB_COMPOUND4args`; the operations follow. The reply starts with a
    /// [`CompoundReplyHeader`](super::CompoundReplyHeader).
    pub struct CallbackHeader {
        /// Returned in the reply.
        pub tag: Bytes [MESSAGE_LIMITED],
        /// Minor version of all operations.
        pub minor_version: u32,
        /// Not used since NFSv4.1: zero.
        pub callback_ident: u32,
        /// Number of operations.
        pub op_count: u32,
    }
}

xdr_enum! {
    /// `nfs_cb_opnum4`.
    pub enum CallbackOpNumber {
        /// `OP_CB_GETATTR`.
        GetAttr = 3,
        /// `OP_CB_RECALL`.
        Recall = 4,
        /// `OP_CB_LAYOUTRECALL`.
        LayoutRecall = 5,
        /// `OP_CB_NOTIFY`.
        Notify = 6,
        /// `OP_CB_PUSH_DELEG`.
        PushDelegation = 7,
        /// `OP_CB_RECALL_ANY`.
        RecallAny = 8,
        /// `OP_CB_RECALLABLE_OBJ_AVAIL`.
        RecallableObjectAvailable = 9,
        /// `OP_CB_RECALL_SLOT`.
        RecallSlot = 10,
        /// `OP_CB_SEQUENCE`.
        Sequence = 11,
        /// `OP_CB_WANTS_CANCELLED`.
        WantsCancelled = 12,
        /// `OP_CB_NOTIFY_LOCK`.
        NotifyLock = 13,
        /// `OP_CB_NOTIFY_DEVICEID`.
        NotifyDeviceId = 14,
        /// `OP_CB_OFFLOAD`.
        Offload = 15,
        /// `OP_CB_ILLEGAL`: the result of an unknown operation.
        Illegal = 10044,
    }
}

impl CallbackOpNumber {
    /// Whether minor version `minor` (1 or 2) defines the operation.
    pub const fn is_defined_in(self, minor: u32) -> bool {
        match self {
            Self::Illegal => false,
            Self::Offload => minor >= 2,
            _ => true,
        }
    }
}

op_table! {
    numbers = CallbackOpNumber;

    /// `nfs_cb_argop4`: an operation and its arguments.
    pub enum CallbackArgOp;

    /// `nfs_cb_resop4`: an operation and its result.
    pub enum CallbackResOp;

    /// Why the next operation of a callback has no arguments. The client answers it with
    /// [`CallbackArgError::result`] and ends the compound.
    pub struct CallbackArgError;

    /// Get attributes of a file with a write delegation.
    GetAttr(CallbackGetAttrArgs) => NfsResult<GetAttrResult>,
    /// Recall a delegation.
    Recall(RecallArgs) => NfsResult<()>,
    /// Recall layouts.
    LayoutRecall(LayoutRecallArgs) => NfsResult<()>,
    /// Changes of a delegated directory.
    Notify(NotifyArgs) => NfsResult<()>,
    /// Offer a delegation.
    PushDelegation(PushDelegationArgs) => NfsResult<()>,
    /// Keep at most a given number of recallable objects.
    RecallAny(RecallAnyArgs) => NfsResult<()>,
    /// Resources for recallable objects are available.
    RecallableObjectAvailable(RecallAnyArgs) => NfsResult<()>,
    /// Use fewer slots.
    RecallSlot(RecallSlotArgs) => NfsResult<()>,
    /// Name the session and the slot.
    Sequence(CallbackSequenceArgs) => NfsResult<CallbackSequenceResult>,
    /// Wanted delegations are cancelled.
    WantsCancelled(WantsCancelledArgs) => NfsResult<()>,
    /// A lock may be available.
    NotifyLock(NotifyLockArgs) => NfsResult<()>,
    /// A device changed.
    NotifyDeviceId(NotifyDeviceIdArgs) => NfsResult<()>,
    /// A copy has ended.
    Offload(OffloadNoticeArgs) => NfsResult<()>,
}
