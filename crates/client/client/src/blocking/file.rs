//! An open file, for programs with threads.

use std::{
    io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
    sync::{Arc, Mutex},
};

use braid_layout::{Extent, Layout, View};
use braid_net::{Blocking, Pipe};
use braid_types::{FileIndex, Timestamp};
use braid_wire::{
    Deny, Rights,
    message::{mds::DataServerHandlesReply, types::Attributes},
};

use super::{block_on, client::SessionGuard};
use crate::{
    calls::file_calls,
    engine::{FileView, OpenFile, ReadPiece, Reservation, WritePiece, semaphore::lock},
    error::Result,
    lease::LeaseTicket,
};

/// An open file: [`Read`], [`Write`] and [`Seek`] with a cursor, and calls with an explicit
/// position, which do not use the cursor. Many threads may use it at the same time. Its view
/// defines which bytes of the file it sees: all, unless [`File::with_view`] sets another view.
///
/// ```no_run
/// # use braid_client::{Client, Config, Credential, OpenOptions, View};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let credential = Credential::Agent("/run/braid/agent.sock".into());
/// # let client = Client::connect(Config::new(["mds:7000"], credential))?;
/// let file = client.open("/matrix", &OpenOptions::new().read(true))?;
/// // Task 3 of 16 sees 4 KiB in every 64 KiB: one request to each I/O daemon reads 1 MiB of them.
/// let mine = file.with_view(View::strided(3 * 4096, 4096, 65536))?;
/// let mut buffer = vec![0; 1 << 20];
/// let bytes = mine.read_at(&mut buffer, 0)?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct File {
    pub(super) file: Arc<OpenFile<Blocking>>,
    pub(super) view: FileView,
    /// Locked during a call that moves it, so that two threads never read the same bytes.
    pub(super) cursor: Mutex<u64>,
    pub(super) session: Arc<SessionGuard>,
}

impl File {
    pub(super) fn new(file: Arc<OpenFile<Blocking>>, session: Arc<SessionGuard>) -> Result<Self> {
        Ok(Self { file, view: FileView::whole()?, cursor: Mutex::new(0), session })
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

    /// Another handle of the same open file, with this view and its own cursor at 0. Positions are
    /// bytes of the view's stream.
    ///
    /// # Errors
    /// [`crate::Status::Invalid`] for an invalid view.
    pub fn with_view(&self, view: View) -> Result<Self> {
        let view =
            FileView::new(view).map_err(|error| error.during("set a view on", self.file.path()))?;
        Ok(Self {
            file: Arc::clone(&self.file),
            view,
            cursor: Mutex::new(0),
            session: Arc::clone(&self.session),
        })
    }

    /// The view of this handle, for conversions between positions and offsets.
    pub fn view(&self) -> &FileView {
        &self.view
    }

    /// Reads at a position. Returns the number of bytes, which is less than requested only at the
    /// end of the file.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<usize> {
        self.read_vectored_at(&mut [IoSliceMut::new(buffer)], position)
    }

    /// As [`File::read_at`], but may leave the bytes in a pipe that was begun, on their way from
    /// the socket to a device. Then [`Pipe::payload_bytes`] returns their number, which is at most
    /// the capacity of the pipe, and `buffer` is unused.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub fn read_at_into_pipe(
        &self,
        buffer: &mut [u8],
        position: u64,
        pipe: &mut Pipe,
    ) -> Result<usize> {
        block_on(self.file.read_at_into_pipe(&self.view, position, buffer, pipe))
    }

    /// Reads at a position into several buffers, one after the other.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], position: u64) -> Result<usize> {
        block_on(self.file.read_at(&self.view, position, buffers))
    }

    /// Writes all of `buffer` at a position.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub fn write_at(&self, buffer: &[u8], position: u64) -> Result<usize> {
        self.write_vectored_at(&[IoSlice::new(buffer)], position)
    }

    /// Writes several buffers, one after the other, at a position.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub fn write_vectored_at(&self, buffers: &[IoSlice<'_>], position: u64) -> Result<usize> {
        block_on(self.file.write_at(&self.view, position, buffers))
    }

    /// Reserves disk space for buffered bytes of the file on every daemon that stores them.
    /// Positions are those of the file, whatever the view. Never waits. `false`: too little space
    /// is reserved now; write the bytes through, which requests more. `held` belongs to this file
    /// and to one contiguous range.
    ///
    /// ```no_run
    /// # fn example(file: &braid_client::File) -> Result<(), braid_client::Error> {
    /// let mut held = braid_client::Reservation::default();
    /// let line = b"buffered\n";
    /// if file.reserve_space(0, line.len() as u64, &mut held) {
    ///     // Report success to the program, and write the bytes within 10 s.
    ///     file.write_reserved(&mut held, line, 0)?;
    /// } else {
    ///     file.write_at(line, 0)?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn reserve_space(&self, offset: u64, bytes: u64, held: &mut Reservation) -> bool {
        self.file.reserve_space(offset, bytes, held)
    }

    /// Writes bytes with the space reserved in `held`, at an offset of the file. As
    /// [`File::write_at`], but a full disk does not refuse them. Releases the reservation, also
    /// after an error.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub fn write_reserved(
        &self,
        held: &mut Reservation,
        buffer: &[u8],
        offset: u64,
    ) -> Result<usize> {
        block_on(self.file.write_reserved(held, offset, &[IoSlice::new(buffer)], None))
    }

    /// As [`File::write_reserved`], for bytes that the program wrote at `modified`, a time of the
    /// metadata server's clock, which becomes the modification time of the file. A time more than a
    /// minute ago, or in the future, counts as now.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub fn write_reserved_modified(
        &self,
        held: &mut Reservation,
        buffer: &[u8],
        offset: u64,
        modified: Option<Timestamp>,
    ) -> Result<usize> {
        block_on(self.file.write_reserved(held, offset, &[IoSlice::new(buffer)], modified))
    }

    /// Reads pieces of the file, whatever the view. They may come in any order and overlap. This
    /// takes as few requests as one read, and each byte is sent once. Returns the number of bytes
    /// read in total; each piece contains its own number.
    ///
    /// ```no_run
    /// # use braid_client::ReadPiece;
    /// # fn example(file: &braid_client::File) -> Result<(), braid_client::Error> {
    /// let (mut trailer, mut index) = ([0; 8], vec![0; 4096]);
    /// let mut pieces =
    ///     [ReadPiece::new(1 << 30, &mut trailer), ReadPiece::new(65_536, &mut index)];
    /// file.read_pieces(&mut pieces)?;
    /// assert_eq!(pieces[0].bytes, 8, "or the file ends there");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// With the path and the daemon.
    pub fn read_pieces(&self, pieces: &mut [ReadPiece<'_>]) -> Result<usize> {
        block_on(self.file.read_pieces(pieces))
    }

    /// Writes pieces of the file, whatever the view, in any order. Where pieces overlap, the later
    /// one in the list is stored, as if they were written one after the other. Returns the number
    /// of bytes in all pieces.
    ///
    /// # Errors
    /// With the path and the daemon; any of the pieces may have been written.
    pub fn write_pieces(&self, pieces: &[WritePiece<'_>]) -> Result<usize> {
        block_on(self.file.write_pieces(pieces))
    }

    /// Reads a list of extents of the file, in any order, into the buffers, one after the other.
    /// This takes one request to each daemon, whatever the number of extents. Returns the number of
    /// bytes read in total. If the list passes the end of the file, these bytes are contiguous in
    /// the buffers only for an ascending list. For any other list use [`File::read_pieces`], which
    /// returns the number of each piece.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub fn read_list(&self, extents: &[Extent], buffers: &mut [IoSliceMut<'_>]) -> Result<usize> {
        block_on(self.file.read_list(extents, buffers))
    }

    /// Writes the buffers to a list of extents of the file, in any order. Where extents overlap,
    /// the later one in the list is stored.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub fn write_list(&self, extents: &[Extent], buffers: &[IoSlice<'_>]) -> Result<usize> {
        block_on(self.file.write_list(extents, buffers))
    }

    /// Copies up to `bytes` from `source` at `from` to this file at `to`. The I/O daemons copy the
    /// bytes themselves if both ranges have an identical placement. Returns the number of copied
    /// bytes, which is less at the end of the source and where one call would take too long.
    /// Positions are those of the files, whatever the views.
    ///
    /// # Errors
    /// With the path and the daemon, if nothing was copied before the failure.
    pub fn copy_range_from(&self, source: &Self, from: u64, to: u64, bytes: u64) -> Result<u64> {
        block_on(self.file.copy_range_from(&source.file, from, to, bytes))
    }

    /// Closes the file. Dropping the last handle does the same, without reporting errors.
    ///
    /// # Errors
    /// [`crate::Status::UnsyncedDataLost`] if a daemon lost writes that it had acknowledged and
    /// that were never synced.
    pub fn close(self) -> Result<()> {
        block_on(self.file.close())
    }

    fn seek_to(&self, to: SeekFrom) -> Result<u64> {
        let mut cursor = lock(&self.cursor);
        *cursor = block_on(self.file.position_after_seek(&self.view, *cursor, to))?;
        Ok(*cursor)
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut cursor = lock(&self.cursor);
        let bytes = self.read_vectored_at(buffers, *cursor)?;
        *cursor += bytes as u64;
        Ok(bytes)
    }
}

impl Write for &File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buffer)])
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut cursor = lock(&self.cursor);
        let bytes = self.write_vectored_at(buffers, *cursor)?;
        *cursor += bytes as u64;
        Ok(bytes)
    }

    /// Does nothing, since nothing is buffered here. [`File::sync`] forces data to disk.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        Ok(self.seek_to(to)?)
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(buffers)
    }
}

impl Write for File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

macro_rules! blocking {
    ($( $(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty; )*) => {
        impl File {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// With the path, and the server that refused.
                pub fn $name(&self, $($arg: $ty),*) -> Result<$ret> {
                    block_on(self.file.$name($($arg),*))
                }
            )*
        }
    };
}
file_calls!(blocking);
