//! Layouts and devices.

use bytes::Bytes;

use super::failure;
use crate::nfs4::Bitmap;
use crate::nfs4::types::{DeviceId, LayoutIoMode, LayoutType, MESSAGE_LIMITED, StateId, Verifier};
use crate::xdr::xdr_struct;

/// Maximum layouts of a LAYOUTGET.
pub const LAYOUTS_MAX: usize = 1024;
/// Maximum devices of a GETDEVICELIST.
pub const DEVICES_MAX: usize = 16_384;

xdr_struct! {
    /// `GETDEVICEINFO4resok`. RFC 8881 18.40.2.
    pub struct GetDeviceInfoResult {
        /// Type of the layouts.
        pub layout_type: LayoutType,
        /// Depends on the type; [`FileDevice`](crate::nfs4::layout_files::FileDevice) for `files`.
        pub address: Bytes [MESSAGE_LIMITED],
        /// Notifications that the server will send.
        pub notification: Bitmap,
    }

    /// `GETDEVICELIST4resok`. RFC 8881 18.41.2.
    pub struct GetDeviceListResult {
        /// Where to continue.
        pub cookie: u64,
        /// Must accompany the cookie.
        pub verifier: Verifier,
        /// Devices.
        pub devices: Vec<DeviceId> [DEVICES_MAX],
        /// Whether there are no further devices.
        pub eof: bool,
    }

    /// `LAYOUTGET4resok`. RFC 8881 18.43.2.
    pub struct LayoutGetResult {
        /// Whether the client returns the layout before its last close.
        pub return_on_close: bool,
        /// The layout's state.
        pub state_id: StateId,
        /// Layouts of ranges, ascending.
        pub layouts: Vec<Layout> [LAYOUTS_MAX],
    }

    /// `layout4`. RFC 8881 3.3.
    pub struct Layout {
        /// First byte.
        pub offset: u64,
        /// Number of bytes, or [`LENGTH_TO_END`](crate::nfs4::LENGTH_TO_END).
        pub length: u64,
        /// Mode.
        pub io_mode: LayoutIoMode,
        /// Type.
        pub layout_type: LayoutType,
        /// Depends on the type; [`FileLayout`](crate::nfs4::layout_files::FileLayout) for `files`.
        pub content: Bytes [MESSAGE_LIMITED],
    }

    /// `LAYOUTCOMMIT4resok`. RFC 8881 18.42.2.
    #[derive(Copy)]
    pub struct LayoutCommitResult {
        /// New size of the file, if it has changed.
        pub new_size: Option<u64>,
    }

    /// `LAYOUTRETURN4res` of a success. RFC 8881 18.44.2.
    #[derive(Copy)]
    pub struct LayoutReturnResult {
        /// State of the layouts that are left, if any are.
        pub state_id: Option<StateId>,
    }
}

failure! {
    /// Why a LAYOUTGET failed.
    pub enum LayoutGetFailure for LayoutGetResult {
        /// Not available now; whether the server will signal later.
        TryLater(bool) = LayoutTryLater,
        otherwise = false,
    }
}

failure! {
    /// Why a GETDEVICEINFO failed.
    pub enum GetDeviceInfoFailure for GetDeviceInfoResult {
        /// The result needs this many bytes.
        TooSmall(u32) = TooSmall,
        otherwise = 0,
    }
}
