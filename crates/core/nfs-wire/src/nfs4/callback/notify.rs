//! Notifications about directories and devices.

use bytes::Bytes;

use crate::nfs4::Bitmap;
use crate::nfs4::types::{DeviceId, LayoutType, MESSAGE_LIMITED};
use crate::xdr::{Decoder, Encoder, Xdr, XdrBounded, XdrError, xdr_struct};

/// `NOTIFY_DEVICEID4_CHANGE`. RFC 8881 20.12.1.
const CHANGE: u32 = 1;
/// `NOTIFY_DEVICEID4_DELETE`. RFC 8881 20.12.1.
const DELETE: u32 = 2;

xdr_struct! {
    /// `notify4`: changes of a delegated directory, whose values this crate does not decode.
    pub struct Notification {
        /// Numbers of `notify_type4`.
        pub mask: Bitmap,
        /// Their values.
        pub values: Bytes [MESSAGE_LIMITED],
    }

    /// `notify_deviceid_change4`, and without `immediate` `notify_deviceid_delete4`.
    #[derive(Copy)]
    pub struct DeviceChange {
        /// Type of the layouts.
        pub layout_type: LayoutType,
        /// The device.
        pub device_id: DeviceId,
    }
}

/// A change of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceNotification {
    /// Its addresses changed.
    Changed {
        /// Which device.
        device: DeviceChange,
        /// Whether layouts must not use the old addresses any more.
        immediate: bool,
    },
    /// It was deleted.
    Deleted(DeviceChange),
    /// Any other notification, not decoded.
    Other(Notification),
}

impl DeviceNotification {
    fn from_notification(other: Notification) -> Result<Self, XdrError> {
        let mut from = Decoder::new(other.values.clone());
        let known = if other.mask == Bitmap::of(&[CHANGE]) {
            Self::Changed { device: Xdr::decode(&mut from)?, immediate: from.bool()? }
        } else if other.mask == Bitmap::of(&[DELETE]) {
            Self::Deleted(Xdr::decode(&mut from)?)
        } else {
            return Ok(Self::Other(other));
        };
        from.finish()?;
        Ok(known)
    }
}

impl Xdr for DeviceNotification {
    fn encode(&self, to: &mut Encoder) {
        let mut values = Encoder::new();
        let number = match self {
            Self::Changed { device, immediate } => {
                device.encode(&mut values);
                values.bool(*immediate);
                CHANGE
            }
            Self::Deleted(device) => {
                device.encode(&mut values);
                DELETE
            }
            Self::Other(other) => return other.encode(to),
        };
        Bitmap::of(&[number]).encode(to);
        Bytes::from(values.to_vec()).encode_bounded(to);
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        Self::from_notification(Notification::decode(from)?)
    }
}
