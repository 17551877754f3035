//! An open file, for programs with threads.

use std::{
    io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
    sync::{Arc, Mutex},
};

use braid_layout::{Extent, Layout, View};
use braid_net::{Blocking, Pipe};
use braid_types::{FileIndex, Timestamp};
use braid_wire::{Deny, Rights, message::types::Attributes};

use super::{block_on, client::Farewell};
use crate::{
    calls::file_calls,
    engine::{FileView, HeldRoom, OpenFile, ReadPiece, WritePiece, gate::lock},
    error::Result,
    lease::LeaseTicket,
};

/// An open file: [`Read`], [`Write`] and [`Seek`] with a cursor, and calls at positions that leave it alone.
/// Usable from many threads at once. What it sees of the file is its view: the whole file, unless
/// [`File::with_view`] says otherwise.
///
/// ```no_run
/// # use braid_client::{Client, Config, Credential, OpenOptions, View};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::connect(Config::new(["mds:7000"], Credential::Agent("/run/braid/agent.sock".into())))?;
/// let file = client.open("/matrix", &OpenOptions::new().read(true))?;
/// // Task 3 of 16 sees 4 KiB in every 64 KiB: one request to each I/O daemon fetches its part of 1 MiB.
/// let mine = file.with_view(View::strided(3 * 4096, 4096, 65536))?;
/// let mut buffer = vec![0; 1 << 20];
/// let bytes = mine.read_at(&mut buffer, 0)?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct File {
    pub(super) file: Arc<OpenFile<Blocking>>,
    pub(super) view: FileView,
    /// Held during a call that moves it, so that two threads never read the same bytes.
    pub(super) cursor: Mutex<u64>,
    pub(super) session: Arc<Farewell>,
}

impl File {
    pub(super) fn new(file: Arc<OpenFile<Blocking>>, session: Arc<Farewell>) -> Result<Self> {
        Ok(Self { file, view: FileView::whole()?, cursor: Mutex::new(0), session })
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

    /// Another handle of the same open file, with this view and a cursor of its own at 0. Positions are
    /// bytes of the view's stream.
    ///
    /// # Errors
    /// [`crate::Status::Invalid`] for a view that makes no sense.
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

    /// What this handle sees of the file, for conversions between positions and offsets.
    pub fn view(&self) -> &FileView {
        &self.view
    }

    /// Reads at a position. Returns how many bytes: fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<usize> {
        self.read_vectored_at(&mut [IoSliceMut::new(buffer)], position)
    }

    /// As [`File::read_at`], but the bytes may be left in a pipe that was begun, on their way from the socket to a device: then
    /// [`Pipe::payload_bytes`] says how many, as many as there was room for, and nothing is in `buffer`.
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

    /// Holds room for bytes of the file that are gathered in memory, on the disk of every daemon that they go to; positions are
    /// the file's, whatever the view. Waits for nobody: `false` when there is no room for them now. Then they are to be
    /// written through, which asks for some. `held` is of this file alone, and of one stretch.
    ///
    /// ```no_run
    /// # fn example(file: &braid_client::File) -> Result<(), braid_client::Error> {
    /// let mut held = braid_client::HeldRoom::default();
    /// let line = b"gathered\n";
    /// if file.hold_room(0, line.len() as u64, &mut held) {
    ///     // The program is told that it is written; within 10 s:
    ///     file.write_held(&mut held, line, 0)?;
    /// } else {
    ///     file.write_at(line, 0)?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn hold_room(&self, offset: u64, bytes: u64, held: &mut HeldRoom) -> bool {
        self.file.hold_room(offset, bytes, held)
    }

    /// Writes bytes that `held` holds room for, at an offset of the file: as [`File::write_at`], but a full disk does not refuse
    /// them. What was held is let go, also after an error.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub fn write_held(&self, held: &mut HeldRoom, buffer: &[u8], offset: u64) -> Result<usize> {
        block_on(self.file.write_held(held, offset, &[IoSlice::new(buffer)], None))
    }

    /// As [`File::write_held`], of bytes that the program wrote at `modified`, by the metadata server's clock: that is the file's
    /// time then. A time more than a minute ago, or in the future, counts as now.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub fn write_held_of(
        &self,
        held: &mut HeldRoom,
        buffer: &[u8],
        offset: u64,
        modified: Option<Timestamp>,
    ) -> Result<usize> {
        block_on(self.file.write_held(held, offset, &[IoSlice::new(buffer)], modified))
    }

    /// Reads pieces of the file, whatever the view, in any order, also overlapping ones: as few requests as if it were one read, and
    /// each byte travels once. Returns how many bytes came in all; each piece says how many of them are its own.
    ///
    /// ```no_run
    /// # fn example(file: &braid_client::File) -> Result<(), braid_client::Error> {
    /// let (mut trailer, mut index) = ([0; 8], vec![0; 4096]);
    /// let mut pieces =
    ///     [braid_client::ReadPiece::new(1 << 30, &mut trailer), braid_client::ReadPiece::new(65_536, &mut index)];
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

    /// Writes pieces of the file, whatever the view, in any order. Where they overlap, the later one of the list is what the file
    /// has, as if each were written after the one before it. Returns how many bytes the pieces have.
    ///
    /// # Errors
    /// With the path and the daemon; any of the pieces may have been written.
    pub fn write_pieces(&self, pieces: &[WritePiece<'_>]) -> Result<usize> {
        block_on(self.file.write_pieces(pieces))
    }

    /// Reads a list of extents of the file, in any order, into the buffers, one after the other: one request to each daemon, however
    /// many extents there are. Returns how many bytes came in all; where the list passes the end of the file, only one that ascends
    /// has its bytes together, and of another [`File::read_pieces`] tells which came.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub fn read_list(&self, extents: &[Extent], buffers: &mut [IoSliceMut<'_>]) -> Result<usize> {
        block_on(self.file.read_list(extents, buffers))
    }

    /// Writes the buffers to a list of extents of the file, in any order; where they overlap, the later one is what the file has.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub fn write_list(&self, extents: &[Extent], buffers: &[IoSlice<'_>]) -> Result<usize> {
        block_on(self.file.write_list(extents, buffers))
    }

    /// Copies up to `bytes` from `source` at `from` to this file at `to`, within the I/O daemons where both lie alike on them; how
    /// many. Fewer where the source ends, and where one call would take too long. Positions are the file's, whatever the views.
    ///
    /// # Errors
    /// With the path and the daemon, when nothing was copied before.
    pub fn copy_range_from(&self, source: &Self, from: u64, to: u64, bytes: u64) -> Result<u64> {
        block_on(self.file.copy_range_from(&source.file, from, to, bytes))
    }

    /// Closes the file. Without it, dropping the last handle does, silently.
    ///
    /// # Errors
    /// [`crate::Status::UnsyncedDataLost`] when a daemon lost writes that it had acknowledged and nobody synced.
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

    /// Nothing is held back here; [`File::sync`] is what forces data to disk.
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
