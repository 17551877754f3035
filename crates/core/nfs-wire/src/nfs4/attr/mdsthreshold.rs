//! `mdsthreshold`: where small I/O should go. RFC 8881 5.12.

use bytes::Bytes;

use crate::nfs4::types::{LayoutType, MESSAGE_LIMITED};
use crate::nfs4::{BITMAP_BITS, Bitmap};
use crate::xdr::{Decoder, Encoder, XdrError, xdr_struct};

/// Maximum layout types with thresholds.
const THRESHOLDS_MAX: usize = 64;

xdr_struct! {
    /// `mdsthreshold4`.
    pub struct MdsThreshold {
        /// One item for each layout type.
        pub hints: Vec<ThresholdItem> [THRESHOLDS_MAX],
    }

    /// `threshold_item4`.
    pub struct ThresholdItem {
        /// The layout type.
        pub layout_type: LayoutType,
        /// Which thresholds.
        pub hint_set: Bitmap,
        /// Their values.
        pub hint_list: Bytes [MESSAGE_LIMITED],
    }
}

/// Thresholds in bytes; below any of them the client uses the metadata server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Thresholds {
    /// Files smaller than this are read through the metadata server.
    pub read_size: Option<u64>,
    /// Files smaller than this are written through the metadata server.
    pub write_size: Option<u64>,
    /// Reads smaller than this go through the metadata server.
    pub read_io_size: Option<u64>,
    /// Writes smaller than this go through the metadata server.
    pub write_io_size: Option<u64>,
}

impl ThresholdItem {
    /// An item with `thresholds`.
    pub fn new(layout_type: LayoutType, thresholds: &Thresholds) -> Self {
        let values = [
            thresholds.read_size,
            thresholds.write_size,
            thresholds.read_io_size,
            thresholds.write_io_size,
        ];
        let mut to = Encoder::new();
        let mut hint_set = Bitmap::new();
        for (number, value) in (0..).zip(values) {
            if let Some(value) = value {
                hint_set.set(number);
                to.u64(value);
            }
        }
        Self { layout_type, hint_set, hint_list: to.to_vec().into() }
    }

    /// The thresholds.
    ///
    /// # Errors
    /// [`XdrError`] when the values do not match the set, or for an unknown number in it.
    pub fn thresholds(&self) -> Result<Thresholds, XdrError> {
        let mut thresholds = Thresholds::default();
        let mut from = Decoder::new(self.hint_list.clone());
        for number in self.hint_set.iter() {
            let value = match number {
                0 => &mut thresholds.read_size,
                1 => &mut thresholds.write_size,
                2 => &mut thresholds.read_io_size,
                3 => &mut thresholds.write_io_size,
                value => return Err(XdrError::Invalid { what: "threshold", value }),
            };
            *value = Some(from.u64()?);
        }
        if self.hint_set.has_unknown() {
            return Err(XdrError::Invalid { what: "threshold", value: BITMAP_BITS });
        }
        from.finish()?;
        Ok(thresholds)
    }
}
