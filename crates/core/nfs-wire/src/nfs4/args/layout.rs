//! Layouts and devices.

use bytes::Bytes;

use crate::nfs4::types::{
    DeviceId, LayoutIoMode, LayoutType, MESSAGE_LIMITED, NfsTime, StateId, Verifier,
};
use crate::nfs4::{Bitmap, NfsStatus, OpNumber};
use crate::xdr::{xdr_struct, xdr_union};

/// Maximum errors of a LAYOUTERROR; Linux sends at most five.
pub const DEVICE_ERRORS_MAX: usize = 1024;

xdr_struct! {
    /// `GETDEVICEINFO4args`. RFC 8881 18.40.1.
    #[derive(Copy)]
    pub struct GetDeviceInfoArgs {
        /// The device.
        pub device_id: DeviceId,
        /// Type of the layouts.
        pub layout_type: LayoutType,
        /// Maximum bytes of the result.
        pub max_count: u32,
        /// Wanted notifications.
        pub notify_types: Bitmap,
    }

    /// `GETDEVICELIST4args`. RFC 8881 18.41.1.
    #[derive(Copy)]
    pub struct GetDeviceListArgs {
        /// Type of the layouts.
        pub layout_type: LayoutType,
        /// Maximum devices of the result.
        pub max_devices: u32,
        /// Where to continue.
        pub cookie: u64,
        /// Verifier of a former result.
        pub verifier: Verifier,
    }

    /// `LAYOUTGET4args`. RFC 8881 18.43.1.
    #[derive(Copy)]
    pub struct LayoutGetArgs {
        /// Whether to signal when the layout becomes available.
        pub signal_available: bool,
        /// Wanted type.
        pub layout_type: LayoutType,
        /// Wanted mode.
        pub io_mode: LayoutIoMode,
        /// First byte.
        pub offset: u64,
        /// Wanted number of bytes.
        pub length: u64,
        /// Minimum number of bytes.
        pub min_length: u64,
        /// An open, lock or delegation; or the file's layout.
        pub state_id: StateId,
        /// Maximum bytes of the result.
        pub max_count: u32,
    }

    /// `LAYOUTCOMMIT4args`. RFC 8881 18.42.1.
    pub struct LayoutCommitArgs {
        /// First byte.
        pub offset: u64,
        /// Number of bytes.
        pub length: u64,
        /// Whether the write was made before a server restart.
        pub reclaim: bool,
        /// The layout.
        pub state_id: StateId,
        /// Offset of the last byte written, if any was.
        pub last_write_offset: Option<u64>,
        /// Proposed modification time.
        pub time_modify: Option<NfsTime>,
        /// Changes of the layout.
        pub update: LayoutUpdate,
    }

    /// `layoutupdate4`.
    pub struct LayoutUpdate {
        /// Type of the layout.
        pub layout_type: LayoutType,
        /// Depends on the type; empty for `files`.
        pub body: Bytes [MESSAGE_LIMITED],
    }

    /// `LAYOUTRETURN4args`. RFC 8881 18.44.1.
    pub struct LayoutReturnArgs {
        /// Whether layouts of before a server restart are returned.
        pub reclaim: bool,
        /// Type of the layouts.
        pub layout_type: LayoutType,
        /// Mode of the layouts.
        pub io_mode: LayoutIoMode,
        /// Which layouts.
        pub what: LayoutReturnWhat,
    }

    /// `layoutreturn_file4`.
    pub struct LayoutReturnFile {
        /// First byte.
        pub offset: u64,
        /// Number of bytes.
        pub length: u64,
        /// The layout.
        pub state_id: StateId,
        /// Depends on the type; empty for `files`.
        pub body: Bytes [MESSAGE_LIMITED],
    }

    /// `device_error4`. RFC 7862 15.6.1.
    #[derive(Copy)]
    pub struct DeviceError {
        /// The device.
        pub device_id: DeviceId,
        /// What it answered.
        pub status: NfsStatus,
        /// The operation that failed.
        pub op: OpNumber,
    }

    /// `LAYOUTERROR4args`. RFC 7862 15.6.1.
    pub struct LayoutErrorArgs {
        /// First byte.
        pub offset: u64,
        /// Number of bytes.
        pub length: u64,
        /// The layout.
        pub state_id: StateId,
        /// The errors.
        pub errors: Vec<DeviceError> [DEVICE_ERRORS_MAX],
    }

    /// `io_info4`.
    #[derive(Copy)]
    pub struct IoInfo {
        /// Number of operations.
        pub count: u64,
        /// Number of bytes.
        pub bytes: u64,
    }

    /// `LAYOUTSTATS4args`. RFC 7862 15.7.1.
    pub struct LayoutStatsArgs {
        /// First byte.
        pub offset: u64,
        /// Number of bytes.
        pub length: u64,
        /// The layout.
        pub state_id: StateId,
        /// Reads.
        pub read: IoInfo,
        /// Writes.
        pub write: IoInfo,
        /// The device.
        pub device_id: DeviceId,
        /// Depends on the type.
        pub update: LayoutUpdate,
    }
}

xdr_union! {
    /// `layoutreturn4`.
    pub enum LayoutReturnWhat {
        /// A range of the current file.
        File(LayoutReturnFile) = 1,
        /// All layouts of the current file system.
        Fsid = 2,
        /// All layouts of the client.
        All = 3,
    }
}
