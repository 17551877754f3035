//! An open file, for async programs.

use std::{
    fmt,
    io::{IoSlice, IoSliceMut},
    sync::Arc,
};

use braid_layout::{Extent, Layout, View};
use braid_net::Driver;
use braid_types::FileIndex;
use braid_wire::{Deny, Rights, message::types::Attributes};

use super::Cursor;
use crate::{
    calls::file_calls,
    engine::{FileView, HeldRoom, OpenFile, ReadPiece, WritePiece},
    error::Result,
    lease::LeaseTicket,
};

/// An open file. It has no cursor, over which calls that run at the same time would fight: [`File::cursor`] has.
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

    /// Which file.
    pub fn index(&self) -> FileIndex {
        self.file.file()
    }

    /// The data lease that came with it, if one was wished and nothing conflicted.
    pub fn lease(&self) -> Option<LeaseTicket> {
        self.file.lease()
    }

    /// Where its parts lie.
    pub fn layout(&self) -> Layout {
        self.file.layout()
    }

    /// Its attributes when it was opened.
    pub fn opened_attributes(&self) -> Attributes {
        self.file.known_attributes()
    }

    /// Another handle of the same open file, with this view. Positions are bytes of the view's stream.
    ///
    /// # Errors
    /// [`crate::Status::Invalid`] for a view that makes no sense.
    pub fn with_view(&self, view: View) -> Result<Self> {
        let view =
            FileView::new(view).map_err(|error| error.during("set a view on", self.file.path()))?;
        Ok(Self { file: Arc::clone(&self.file), view })
    }

    /// What this handle sees of the file, for conversions between positions and offsets.
    pub fn view(&self) -> &FileView {
        &self.view
    }

    /// This handle with a cursor at 0: for reading and writing on, and seeking.
    pub fn cursor(self) -> Cursor<D> {
        Cursor::new(self)
    }

    /// Reads at a position. Returns how many bytes: fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<usize> {
        self.file.read_at(&self.view, position, &mut [IoSliceMut::new(buffer)]).await
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

    /// Holds room for bytes of the file that are gathered in memory, on the disk of every daemon that they go to; positions are
    /// the file's, whatever the view. Waits for nobody: `false` when there is no room for them now. Then they are to be
    /// written through, which asks for some. `held` is of this file alone, and of one stretch.
    pub fn hold_room(&self, offset: u64, bytes: u64, held: &mut HeldRoom) -> bool {
        self.file.hold_room(offset, bytes, held)
    }

    /// Writes bytes that `held` holds room for, at an offset of the file: as [`File::write_at`], but a full disk does not refuse
    /// them. What was held is let go, also after an error.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn write_held(
        &self,
        held: &mut HeldRoom,
        buffer: &[u8],
        offset: u64,
    ) -> Result<usize> {
        self.file.write_held(held, offset, &[IoSlice::new(buffer)], None).await
    }

    /// Reads pieces of the file, whatever the view, in any order, also overlapping ones: as few requests as if it were one read, and
    /// each byte travels once. Returns how many bytes came in all; each piece says how many of them are its own.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn read_pieces(&self, pieces: &mut [ReadPiece<'_>]) -> Result<usize> {
        self.file.read_pieces(pieces).await
    }

    /// Writes pieces of the file, whatever the view, in any order. Where they overlap, the later one of the list is what the file
    /// has, as if each were written after the one before it. Returns how many bytes the pieces have.
    ///
    /// # Errors
    /// With the path and the daemon; any of the pieces may have been written.
    pub async fn write_pieces(&self, pieces: &[WritePiece<'_>]) -> Result<usize> {
        self.file.write_pieces(pieces).await
    }

    /// Reads a list of extents of the file, in any order, into the buffers, one after the other. Returns how many bytes came in all;
    /// where the list passes the end of the file, only one that ascends has its bytes together, and of another
    /// [`File::read_pieces`] tells which came.
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

    /// Writes the buffers to a list of extents of the file, in any order; where they overlap, the later one is what the file has.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn write_list(&self, extents: &[Extent], buffers: &[IoSlice<'_>]) -> Result<usize> {
        self.file.write_list(extents, buffers).await
    }

    /// Copies up to `bytes` from `source` at `from` to this file at `to`, within the I/O daemons where both lie alike on them; how
    /// many. Fewer where the source ends, and where one call would take too long.
    ///
    /// # Errors
    /// With the path and the daemon, when nothing was copied before.
    pub async fn copy_range_from(
        &self,
        source: &Self,
        from: u64,
        to: u64,
        bytes: u64,
    ) -> Result<u64> {
        self.file.copy_range_from(&source.file, from, to, bytes).await
    }

    /// Closes the file. Without it, dropping the last handle does, silently.
    ///
    /// # Errors
    /// [`crate::Status::UnsyncedDataLost`] when a daemon lost writes that it had acknowledged and nobody synced.
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
