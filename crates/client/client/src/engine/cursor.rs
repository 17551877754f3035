//! The target of a seek: arithmetic that both APIs share.

use std::io::SeekFrom;

use braid_net::Driver;
use braid_types::Status;

use super::{FileView, OpenFile};
use crate::error::{Error, Result};

impl<D: Driver> OpenFile<D> {
    /// The position after a seek from `cursor`, in bytes of the view's stream; it may be past the
    /// end. Only a seek from the end sends requests: to the I/O daemons, for the size (I1).
    pub(crate) async fn position_after_seek(
        &self,
        view: &FileView,
        cursor: u64,
        to: SeekFrom,
    ) -> Result<u64> {
        let (base, offset) = match to {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::Current(offset) => (cursor, offset),
            SeekFrom::End(offset) => (view.bytes_below(self.size().await?), offset),
        };
        base.checked_add_signed(offset).ok_or_else(|| {
            let why = match offset < 0 {
                true => format!("{offset} from {base} is before the beginning"),
                false => format!("{offset} from {base} is beyond 64-bit positions"),
            };
            Error::new(Status::Invalid, why).during("seek in", self.path())
        })
    }
}
