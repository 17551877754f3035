//! An open file, for async programs.

use std::{
    fmt,
    io::{IoSlice, IoSliceMut},
    sync::Arc,
};

use braid_layout::{Extent, Layout, View};
use braid_net::Driver;
use braid_types::FileIndex;
use braid_wire::{
    Deny, Rights,
    message::{mds::DataServerHandlesReply, types::Attributes},
};

use super::Cursor;
use crate::{
    calls::file_calls,
    engine::{FileView, OpenFile, ReadPiece, Reservation, WritePiece},
    error::Result,
    lease::LeaseTicket,
};

/// An open file. It has no cursor, since concurrent calls would conflict over it. [`File::cursor`]
/// adds one.
pub struct File<D: Driver> {
    pub(super) file: Arc<OpenFile<D>>,
    pub(super) view: FileView,
}

impl<D: Driver> fmt::Debug for File<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl<D: Driver> Clone for File<D> {
    fn clone(&self) -> Self {
        Self { file: Arc::clone(&self.file), view: self.view.clone() }
    }
}

impl<D: Driver> File<D> {
    pub(super) fn new(file: Arc<OpenFile<D>>) -> Result<Self> {
        Ok(Self { file, view: FileView::whole()? })
    }

    /// The file's index.
    pub fn index(&self) -> FileIndex {
        self.file.file()
    }

    /// The data lease that was granted with the open, if one was requested and nothing conflicted.
    pub fn lease(&self) -> Option<LeaseTicket> {
        self.file.lease()
    }

    /// The layout of the file.
    pub fn layout(&self) -> Layout {
        self.file.layout()
    }

    /// The attributes at the time of the open.
    pub fn opened_attributes(&self) -> Attributes {
        self.file.known_attributes()
    }

    /// Another handle of the same open file, with this view. Positions are bytes of the view's
    /// stream.
    ///
    /// # Errors
    /// [`crate::Status::Invalid`] for an invalid view.
    pub fn with_view(&self, view: View) -> Result<Self> {
        let view =
            FileView::new(view).map_err(|error| error.during("set a view on", self.file.path()))?;
        Ok(Self { file: Arc::clone(&self.file), view })
    }

    /// The view of this handle, for conversions between positions and offsets.
    pub fn view(&self) -> &FileView {
        &self.view
    }

    /// This handle with a cursor at 0, for sequential reads and writes, and seeks.
    pub fn cursor(self) -> Cursor<D> {
        Cursor::new(self)
    }

    /// Reads at a position. Returns the number of bytes, which is less than requested only at the
    /// end of the file.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<usize> {
        self.file.read_at(&self.view, position, &mut [IoSliceMut::new(buffer)]).await
    }

    /// Reads up to `bytes_max` bytes at a position; fewer only at the end of the file. Bytes of one
    /// strip are those that were received from the daemon, without a copy.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn read_to_vec(&self, position: u64, bytes_max: usize) -> Result<Vec<u8>> {
        self.file.read_to_vec(&self.view, position, bytes_max).await
    }

    /// Reads at a position into several buffers, one after the other.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn read_vectored_at(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        position: u64,
    ) -> Result<usize> {
        self.file.read_at(&self.view, position, buffers).await
    }

    /// Writes all of `buffer` at a position.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn write_at(&self, buffer: &[u8], position: u64) -> Result<usize> {
        self.file.write_at(&self.view, position, &[IoSlice::new(buffer)]).await
    }

    /// Writes several buffers, one after the other, at a position.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn write_vectored_at(&self, buffers: &[IoSlice<'_>], position: u64) -> Result<usize> {
        self.file.write_at(&self.view, position, buffers).await
    }

    /// Reserves disk space for buffered bytes of the file on every daemon that stores them.
    /// Positions are those of the file, whatever the view. Never waits. `false`: too little space
    /// is reserved now; write the bytes through, which requests more. `held` belongs to this file
    /// and to one contiguous range.
    pub fn reserve_space(&self, offset: u64, bytes: u64, held: &mut Reservation) -> bool {
        self.file.reserve_space(offset, bytes, held)
    }

    /// Writes bytes with the space reserved in `held`, at an offset of the file. As
    /// [`File::write_at`], but a full disk does not refuse them. Releases the reservation, also
    /// after an error.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn write_reserved(
        &self,
        held: &mut Reservation,
        buffer: &[u8],
        offset: u64,
    ) -> Result<usize> {
        self.file.write_reserved(held, offset, &[IoSlice::new(buffer)], None).await
    }

    /// Reads pieces of the file, whatever the view. They may come in any order and overlap. This
    /// takes as few requests as one read, and each byte is sent once. Returns the number of bytes
    /// read in total; each piece contains its own number.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn read_pieces(&self, pieces: &mut [ReadPiece<'_>]) -> Result<usize> {
        self.file.read_pieces(pieces).await
    }

    /// Writes pieces of the file, whatever the view, in any order. Where pieces overlap, the later
    /// one in the list is stored, as if they were written one after the other. Returns the number
    /// of bytes in all pieces.
    ///
    /// # Errors
    /// With the path and the daemon; any of the pieces may have been written.
    pub async fn write_pieces(&self, pieces: &[WritePiece<'_>]) -> Result<usize> {
        self.file.write_pieces(pieces).await
    }

    /// Reads a list of extents of the file, in any order, into the buffers, one after the other.
    /// Returns the number of bytes read in total. If the list passes the end of the file, these
    /// bytes are contiguous in the buffers only for an ascending list. For any other list use
    /// [`File::read_pieces`], which returns the number of each piece.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn read_list(
        &self,
        extents: &[Extent],
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<usize> {
        self.file.read_list(extents, buffers).await
    }

    /// Writes the buffers to a list of extents of the file, in any order. Where extents overlap,
    /// the later one in the list is stored.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn write_list(&self, extents: &[Extent], buffers: &[IoSlice<'_>]) -> Result<usize> {
        self.file.write_list(extents, buffers).await
    }

    /// Copies up to `bytes` from `source` at `from` to this file at `to`. The I/O daemons copy the
    /// bytes themselves if both ranges have an identical placement. Returns the number of copied
    /// bytes, which is less at the end of the source and where one call would take too long.
    ///
    /// # Errors
    /// With the path and the daemon, if nothing was copied before the failure.
    pub async fn copy_range_from(
        &self,
        source: &Self,
        from: u64,
        to: u64,
        bytes: u64,
    ) -> Result<u64> {
        self.file.copy_range_from(&source.file, from, to, bytes).await
    }

    /// Closes the file. Dropping the last handle does the same, without reporting errors.
    ///
    /// # Errors
    /// [`crate::Status::UnsyncedDataLost`] if a daemon lost writes that it had acknowledged and
    /// that were never synced.
    pub async fn close(self) -> Result<()> {
        self.file.close().await
    }
}

macro_rules! asynchronous {
    ($( $(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty; )*) => {
        impl<D: Driver> File<D> {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// With the path, and the server that refused.
                pub async fn $name(&self, $($arg: $ty),*) -> Result<$ret> {
                    self.file.$name($($arg),*).await
                }
            )*
        }
    };
}
file_calls!(asynchronous);
