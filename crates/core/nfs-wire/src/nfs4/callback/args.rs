//! Arguments and results of callback operations.

use super::notify::{DeviceNotification, Notification};
use crate::nfs4::results::{OpenDelegation, WriteResponse};
use crate::nfs4::types::{
    FileHandle, FsId, LayoutIoMode, LayoutType, SequenceId, SessionId, SlotId, StateId, StateOwner,
};
use crate::nfs4::{Bitmap, NfsStatus};
use crate::xdr::{Decoder, Encoder, Xdr, XdrError, xdr_struct, xdr_union};

/// Maximum lists of referring calls, and calls of a list: at least one for each slot of a session.
pub const REFERRING_CALLS_MAX: usize = 4096;
/// Maximum notifications of a callback.
pub const NOTIFICATIONS_MAX: usize = 4096;

xdr_struct! {
    /// `CB_SEQUENCE4args`. RFC 8881 20.9.1.
    pub struct CallbackSequenceArgs {
        /// The session.
        pub session_id: SessionId,
        /// Sequence number of the slot.
        pub sequence_id: SequenceId,
        /// The slot.
        pub slot_id: SlotId,
        /// Highest slot that the server uses.
        pub highest_slot_id: SlotId,
        /// Whether the reply must be cached.
        pub cache_this: bool,
        /// Requests whose replies the client must process first (RFC 8881 2.10.6.3).
        pub referring_calls: Vec<ReferringCalls> [REFERRING_CALLS_MAX],
    }

    /// `referring_call_list4`.
    pub struct ReferringCalls {
        /// The session.
        pub session_id: SessionId,
        /// Its requests.
        pub calls: Vec<ReferringCall> [REFERRING_CALLS_MAX],
    }

    /// `referring_call4`.
    #[derive(Copy)]
    pub struct ReferringCall {
        /// Sequence number of the slot.
        pub sequence_id: SequenceId,
        /// The slot.
        pub slot_id: SlotId,
    }

    /// `CB_SEQUENCE4resok`. RFC 8881 20.9.2.
    #[derive(Copy)]
    pub struct CallbackSequenceResult {
        /// The session.
        pub session_id: SessionId,
        /// Sequence number of the slot.
        pub sequence_id: SequenceId,
        /// The slot.
        pub slot_id: SlotId,
        /// Highest slot that the client accepts.
        pub highest_slot_id: SlotId,
        /// Highest slot that the server should use.
        pub target_highest_slot_id: SlotId,
    }

    /// `CB_GETATTR4args`. RFC 8881 20.1.1.
    pub struct CallbackGetAttrArgs {
        /// The file.
        pub handle: FileHandle,
        /// Wanted attributes.
        pub attributes: Bitmap,
    }

    /// `CB_RECALL4args`. RFC 8881 20.2.1.
    pub struct RecallArgs {
        /// The delegation.
        pub state_id: StateId,
        /// Whether the file will be truncated to zero bytes.
        pub truncate: bool,
        /// The file.
        pub handle: FileHandle,
    }

    /// `CB_LAYOUTRECALL4args`. RFC 8881 20.3.1.
    pub struct LayoutRecallArgs {
        /// Type of the layouts.
        pub layout_type: LayoutType,
        /// Mode of the layouts.
        pub io_mode: LayoutIoMode,
        /// Whether data must be written through the metadata server.
        pub changed: bool,
        /// Which layouts.
        pub what: LayoutRecallWhat,
    }

    /// `layoutrecall_file4`.
    pub struct LayoutRecallFile {
        /// The file.
        pub handle: FileHandle,
        /// First byte.
        pub offset: u64,
        /// Number of bytes.
        pub length: u64,
        /// The layout, with a sequence number one higher than the last.
        pub state_id: StateId,
    }

    /// `CB_NOTIFY4args`. RFC 8881 20.4.1.
    pub struct NotifyArgs {
        /// The delegation.
        pub state_id: StateId,
        /// The directory.
        pub handle: FileHandle,
        /// What changed.
        pub changes: Vec<Notification> [NOTIFICATIONS_MAX],
    }

    /// `CB_PUSH_DELEG4args`. RFC 8881 20.5.1.
    pub struct PushDelegationArgs {
        /// The file.
        pub handle: FileHandle,
        /// The delegation.
        pub delegation: OpenDelegation,
    }

    /// `CB_RECALL_ANY4args` and `CB_RECALLABLE_OBJ_AVAIL4args`. RFC 8881 20.6.1 and 20.7.1.
    #[derive(Copy)]
    pub struct RecallAnyArgs {
        /// Objects that the client may keep.
        pub objects_to_keep: u32,
        /// Types of objects: numbers of [`recallable`].
        pub type_mask: Bitmap,
    }

    /// `CB_RECALL_SLOT4args`. RFC 8881 20.8.1.
    #[derive(Copy)]
    pub struct RecallSlotArgs {
        /// Highest slot that the client should use.
        pub target_highest_slot_id: SlotId,
    }

    /// `CB_WANTS_CANCELLED4args`. RFC 8881 20.10.1.
    #[derive(Copy)]
    pub struct WantsCancelledArgs {
        /// Those that waited for contention to end.
        pub contended: bool,
        /// Those that waited for resources.
        pub resourced: bool,
    }

    /// `CB_NOTIFY_LOCK4args`. RFC 8881 20.11.1.
    pub struct NotifyLockArgs {
        /// The file.
        pub handle: FileHandle,
        /// Owner of the wanted lock.
        pub owner: StateOwner,
    }

    /// `CB_NOTIFY_DEVICEID4args`. RFC 8881 20.12.1.
    pub struct NotifyDeviceIdArgs {
        /// What changed.
        pub changes: Vec<DeviceNotification> [NOTIFICATIONS_MAX],
    }

    /// `CB_OFFLOAD4args`. RFC 7862 16.1.1.
    pub struct OffloadNoticeArgs {
        /// The destination.
        pub handle: FileHandle,
        /// The copy.
        pub state_id: StateId,
        /// How it ended.
        pub outcome: OffloadOutcome,
    }
}

xdr_union! {
    /// `layoutrecall4`.
    pub enum LayoutRecallWhat {
        /// A range of a file.
        File(LayoutRecallFile) = 1,
        /// All layouts of a file system.
        Fsid(FsId) = 2,
        /// All layouts of the client.
        All = 3,
    }
}

/// `offload_info4`: how a copy ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OffloadOutcome {
    /// All was copied.
    Done(WriteResponse),
    /// It failed.
    Failed {
        /// The status; never [`NfsStatus::Ok`].
        status: NfsStatus,
        /// Bytes copied.
        bytes_copied: u64,
    },
}

impl Xdr for OffloadOutcome {
    fn encode(&self, to: &mut Encoder) {
        match self {
            Self::Done(response) => {
                NfsStatus::Ok.encode(to);
                response.encode(to);
            }
            Self::Failed { status, bytes_copied } => {
                debug_assert_ne!(*status, NfsStatus::Ok, "a failure has a status");
                status.encode(to);
                to.u64(*bytes_copied);
            }
        }
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        match NfsStatus::decode(from)? {
            NfsStatus::Ok => WriteResponse::decode(from).map(Self::Done),
            status => Ok(Self::Failed { status, bytes_copied: from.u64()? }),
        }
    }
}

/// Numbers in [`RecallAnyArgs::type_mask`]. RFC 8881 20.6.3.
pub mod recallable {
    /// `RCA4_TYPE_MASK_RDATA_DLG`: delegations for reads.
    pub const READ_DELEGATION: u32 = 0;
    /// `RCA4_TYPE_MASK_WDATA_DLG`: delegations for writes.
    pub const WRITE_DELEGATION: u32 = 1;
    /// `RCA4_TYPE_MASK_DIR_DLG`: delegations of directories.
    pub const DIR_DELEGATION: u32 = 2;
    /// `RCA4_TYPE_MASK_FILE_LAYOUT`: layouts of type `files`.
    pub const FILE_LAYOUT: u32 = 3;
    /// `RCA4_TYPE_MASK_BLK_LAYOUT`: layouts of type `block`.
    pub const BLOCK_LAYOUT: u32 = 4;
}
