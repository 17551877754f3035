//! List I/O: many extents of a file in one call.

use std::io::{IoSlice, IoSliceMut};

use braid_layout::{Extent, View};
use braid_net::Driver;
use braid_types::limits::LIST_EXTENTS_MAX;

use super::{FileView, OpenFile};
use crate::error::Result;

impl<D: Driver> OpenFile<D> {
    /// Reads a list of extents of the file, ascending, into the buffers, one after the other. A list longer than one
    /// message holds goes in several (I2). Returns how many bytes: fewer only at the end of the file.
    ///
    /// # Errors
    /// [`crate::Status::Invalid`] for a list that is not ascending; with the path and the daemon.
    pub async fn read_list(&self, extents: &[Extent], buffers: &mut [IoSliceMut<'_>]) -> Result<usize> {
        let mut done = 0;
        for list in extents.chunks(LIST_EXTENTS_MAX) {
            let (view, bytes) = self.list_view(list)?;
            let mut rest = advanced_mut(buffers, done, bytes);
            let wanted: usize = rest.iter().map(|buffer| buffer.len()).sum();
            let got = self.read_at(&view, 0, &mut rest).await?;
            done += got;
            if got < wanted || (wanted as u64) < bytes {
                break;
            }
        }
        Ok(done)
    }

    /// Writes the buffers to a list of extents of the file, ascending. The last extents stay as they are when the
    /// buffers are shorter than the list.
    ///
    /// # Errors
    /// [`crate::Status::Invalid`] for a list that is not ascending; with the path and the daemon.
    pub async fn write_list(&self, extents: &[Extent], buffers: &[IoSlice<'_>]) -> Result<usize> {
        let mut done = 0;
        for list in extents.chunks(LIST_EXTENTS_MAX) {
            let (view, bytes) = self.list_view(list)?;
            done += self.write_at(&view, 0, &advanced(buffers, done, bytes)).await?;
        }
        Ok(done)
    }

    fn list_view(&self, list: &[Extent]) -> Result<(FileView, u64)> {
        let view = FileView::new(View::extents(list)).map_err(|error| error.during("read or write", self.path()))?;
        Ok((view, list.iter().map(|extent| extent.bytes).sum()))
    }
}

/// The buffers from byte `skip` on, `bytes` at most.
pub(super) fn advanced<'b>(buffers: &'b [IoSlice<'_>], mut skip: usize, mut bytes: u64) -> Vec<IoSlice<'b>> {
    let mut rest = Vec::with_capacity(buffers.len());
    for buffer in buffers {
        let skipped = skip.min(buffer.len());
        let taken = bytes.min((buffer.len() - skipped) as u64) as usize;
        (skip, bytes) = (skip - skipped, bytes - taken as u64);
        if taken > 0 {
            rest.push(IoSlice::new(&buffer[skipped..skipped + taken]));
        }
    }
    rest
}

/// As [`advanced`], for receiving.
pub(super) fn advanced_mut<'b>(
    buffers: &'b mut [IoSliceMut<'_>],
    mut skip: usize,
    mut bytes: u64,
) -> Vec<IoSliceMut<'b>> {
    let mut rest = Vec::with_capacity(buffers.len());
    for buffer in buffers {
        let skipped = skip.min(buffer.len());
        let taken = bytes.min((buffer.len() - skipped) as u64) as usize;
        (skip, bytes) = (skip - skipped, bytes - taken as u64);
        if taken > 0 {
            rest.push(IoSliceMut::new(&mut buffer[skipped..skipped + taken]));
        }
    }
    rest
}
