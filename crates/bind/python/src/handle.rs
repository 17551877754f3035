//! An open file. `braid/_file.py` wraps it in a class of the `io.RawIOBase` family.

use std::{
    io::{IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use braid_client::{File, ReadPiece, WritePiece};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyList},
};

use crate::{
    attributes::Stat,
    buffer::{Memory, UninitBytes},
    drop_without_gil::DropWithoutGil,
    error::{IntoPyResult, closed, invalid},
    slices,
    view::View,
};

/// An open file, with a cursor, and calls at positions that do not move it. Positions are bytes of
/// the view's stream.
#[pyclass(frozen, module = "braid")]
pub(crate) struct Handle {
    /// `None` when it is closed. Locked only briefly, never during a call to a server.
    held: Mutex<Option<OpenState>>,
    view: Option<braid_client::View>,
}

#[derive(Clone)]
struct OpenState {
    file: Arc<DropWithoutGil<File>>,
    /// Shared by all handles of one open file; its reference count is their number.
    open_count: Arc<()>,
}

impl Handle {
    pub(crate) fn new(file: File) -> Self {
        Self::sharing(file, None, Arc::new(()))
    }

    fn sharing(file: File, view: Option<braid_client::View>, sharers: Arc<()>) -> Self {
        Self {
            held: Mutex::new(Some(OpenState {
                file: Arc::new(DropWithoutGil::new(file)),
                open_count: sharers,
            })),
            view,
        }
    }

    fn held(&self) -> PyResult<OpenState> {
        lock(&self.held).clone().ok_or_else(|| closed("file"))
    }

    pub(crate) fn open(&self) -> PyResult<Arc<DropWithoutGil<File>>> {
        self.held().map(|held| held.file)
    }

    /// Runs a call of the library without the GIL.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&File) -> braid_client::Result<T> + Send,
    ) -> PyResult<T> {
        let file = self.open()?;
        run(py, &file, call)
    }

    fn run_io<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&File) -> std::io::Result<T> + Send,
    ) -> PyResult<T> {
        let file = self.open()?;
        let file = file.value().ok_or_else(|| closed("file"))?;
        py.detach(|| call(file)).or_raise(py)
    }

    /// Reads ranges (offset in the file, bytes) into new objects.
    fn read_uninit<'py>(
        &self,
        py: Python<'py>,
        ranges: &[(u64, usize)],
    ) -> PyResult<Bound<'py, PyList>> {
        let fresh = ranges.iter().map(|(_, size)| UninitBytes::new(py, *size));
        let mut fresh = fresh.collect::<PyResult<Vec<_>>>()?;
        let pieces = ranges
            .iter()
            .zip(&mut fresh)
            .map(|((offset, _), bytes)| ReadPiece::new(*offset, bytes.bytes_mut()));
        let counts = self.read_pieces(py, pieces.collect())?;
        PyList::new(py, fresh.into_iter().zip(counts).map(|(bytes, count)| bytes.finish(count)))
    }

    /// Reads pieces. Returns the number of bytes of each.
    fn read_pieces(&self, py: Python<'_>, mut pieces: Vec<ReadPiece<'_>>) -> PyResult<Vec<usize>> {
        self.run(py, |file| file.read_pieces(&mut pieces))?;
        Ok(pieces.iter().map(|piece| piece.bytes).collect())
    }

    /// The current length of the view's stream.
    fn stream_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        match self.view.clone() {
            None => self.run(py, File::size),
            Some(view) => self.run_io(py, |file| file.with_view(view)?.seek(SeekFrom::End(0))),
        }
    }
}

#[pymethods]
impl Handle {
    /// Reads at the cursor: at most `size` bytes, fewer only at the end of the file.
    fn read<'py>(&self, py: Python<'py>, size: usize) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = UninitBytes::new(py, size)?;
        let memory = bytes.bytes_mut();
        let got = self.run_io(py, |mut file| file.read(memory))?;
        Ok(bytes.finish(got))
    }

    /// Reads at the cursor into a buffer. Returns the number of bytes.
    fn readinto(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut memory = Memory::writable(buffer)?;
        let bytes = memory.bytes_mut();
        self.run_io(py, |mut file| file.read(bytes))
    }

    /// Writes all of a buffer at the cursor.
    fn write(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let memory = Memory::readable(buffer)?;
        let bytes = memory.bytes();
        self.run_io(py, |mut file| file.write(bytes))
    }

    /// Moves the cursor; `whence` as `io.SEEK_SET`, `SEEK_CUR`, `SEEK_END`.
    fn seek(&self, py: Python<'_>, offset: i64, whence: u8) -> PyResult<u64> {
        let to = match (whence, u64::try_from(offset)) {
            (0, Ok(position)) => SeekFrom::Start(position),
            (0, Err(_)) => {
                return Err(invalid(
                    &format!("negative seek position {offset}"),
                    "a position from 0 on",
                ));
            }
            (1, _) => SeekFrom::Current(offset),
            (2, _) => SeekFrom::End(offset),
            _ => {
                return Err(invalid(
                    &format!("invalid whence ({whence}, should be 0, 1 or 2)"),
                    "io.SEEK_SET",
                ));
            }
        };
        self.run_io(py, |mut file| file.seek(to))
    }

    /// Reads at a position: at most `size` bytes, fewer only at the end of the file.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        size: usize,
        position: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = UninitBytes::new(py, size)?;
        let memory = bytes.bytes_mut();
        let got = self.run(py, |file| file.read_at(memory, position))?;
        Ok(bytes.finish(got))
    }

    /// Reads at a position into a buffer. Returns the number of bytes.
    fn readinto_at(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        position: u64,
    ) -> PyResult<usize> {
        let mut memory = Memory::writable(buffer)?;
        let bytes = memory.bytes_mut();
        self.run(py, |file| file.read_at(bytes, position))
    }

    /// Reads at a position into several buffers, one after the other. Returns the number of bytes.
    fn readv_at(
        &self,
        py: Python<'_>,
        buffers: Vec<Bound<'_, PyAny>>,
        position: u64,
    ) -> PyResult<usize> {
        let mut memory = buffers.iter().map(Memory::writable).collect::<PyResult<Vec<_>>>()?;
        let mut slices: Vec<IoSliceMut<'_>> =
            memory.iter_mut().map(|one| IoSliceMut::new(one.bytes_mut())).collect();
        self.run(py, |file| file.read_vectored_at(&mut slices, position))
    }

    /// Writes all of a buffer at a position.
    fn write_at(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        position: u64,
    ) -> PyResult<usize> {
        let memory = Memory::readable(buffer)?;
        let bytes = memory.bytes();
        self.run(py, |file| file.write_at(bytes, position))
    }

    /// Writes several buffers, one after the other, at a position.
    fn writev_at(
        &self,
        py: Python<'_>,
        buffers: Vec<Bound<'_, PyAny>>,
        position: u64,
    ) -> PyResult<usize> {
        let memory = buffers.iter().map(Memory::readable).collect::<PyResult<Vec<_>>>()?;
        let slices: Vec<IoSlice<'_>> = memory.iter().map(|one| IoSlice::new(one.bytes())).collect();
        self.run(py, |file| file.write_vectored_at(&slices, position))
    }

    /// Reads ranges (offset in the file, bytes), in any order, with one request to each daemon.
    /// Ranges past the end of the file are shorter.
    fn read_ranges<'py>(
        &self,
        py: Python<'py>,
        ranges: Vec<(u64, usize)>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.read_uninit(py, &ranges)
    }

    /// Reads slices of the file, with Python's slice rules, from `starts[n]` to `ends[n]` for each
    /// `n` of `numbers`, or for all, with one request to each daemon.
    #[pyo3(signature = (starts, ends, numbers=None))]
    fn read_slices<'py>(
        &self,
        py: Python<'py>,
        starts: &Bound<'py, PyList>,
        ends: &Bound<'py, PyList>,
        numbers: Option<Vec<usize>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let slices = slices::slices_from_bounds(starts, ends, numbers)?;
        let size = match slices.iter().any(|slice| slice.needs_size()) {
            true => Some(self.run(py, File::size)?),
            false => None,
        };
        let ranges: Vec<(u64, usize)> = slices.iter().map(|slice| slice.range(size)).collect();
        self.read_uninit(py, &ranges)
    }

    /// Reads ranges (offset in the file, buffer), in any order, into the buffers. Returns the
    /// number of bytes of each.
    fn readinto_ranges(
        &self,
        py: Python<'_>,
        ranges: Vec<(u64, Bound<'_, PyAny>)>,
    ) -> PyResult<Vec<usize>> {
        let memory = ranges.iter().map(|(_, buffer)| Memory::writable(buffer));
        let mut memory = memory.collect::<PyResult<Vec<_>>>()?;
        let pieces = ranges
            .iter()
            .zip(&mut memory)
            .map(|((offset, _), one)| ReadPiece::new(*offset, one.bytes_mut()));
        self.read_pieces(py, pieces.collect())
    }

    /// Writes ranges (offset in the file, buffer), in any order, with one request to each daemon.
    /// Where they overlap, the file gets the bytes of the later one of the list. Returns the total
    /// number of bytes.
    fn write_ranges(
        &self,
        py: Python<'_>,
        ranges: Vec<(u64, Bound<'_, PyAny>)>,
    ) -> PyResult<usize> {
        let memory = ranges
            .iter()
            .map(|(_, buffer)| Memory::readable(buffer))
            .collect::<PyResult<Vec<_>>>()?;
        let pieces = ranges
            .iter()
            .zip(&memory)
            .map(|((offset, _), one)| WritePiece::new(*offset, one.bytes()));
        let pieces: Vec<WritePiece<'_>> = pieces.collect();
        self.run(py, |file| file.write_pieces(&pieces))
    }

    /// The current size, in bytes of the view's stream.
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.stream_bytes(py)
    }

    /// The same file through a view, with a cursor of its own.
    fn view(&self, py: Python<'_>, view: &View) -> PyResult<Self> {
        let sharers = self.held()?.open_count;
        let (view, stored) = (view.view(), view.view());
        let file = self.run(py, |file| file.with_view(view))?;
        Ok(Self::sharing(file, Some(stored), sharers))
    }

    /// The file offset of a position of the view's stream.
    fn file_offset(&self, py: Python<'_>, position: u64) -> PyResult<u64> {
        self.run(py, |file| file.view().file_offset(position))
    }

    /// The position of a file offset in the view's stream; `None` if the view does not show it.
    fn position(&self, py: Python<'_>, offset: u64) -> PyResult<Option<u64>> {
        self.run(py, |file| Ok(file.view().position(offset)))
    }

    /// Copies up to `size` bytes of another file. The I/O daemons copy if both files have the same
    /// placement. Returns the number of bytes: call again for the rest. Offsets are those of the
    /// files, whatever their views.
    fn copy_from(
        &self,
        py: Python<'_>,
        source: &Self,
        from_: u64,
        to: u64,
        size: u64,
    ) -> PyResult<u64> {
        let source = source.open()?;
        let source = source.value().ok_or_else(|| closed("file"))?;
        self.run(py, |file| file.copy_range_from(source, from_, to, size))
    }

    /// Its current attributes.
    fn stat(&self, py: Python<'_>) -> PyResult<Stat> {
        self.run(py, File::attributes).map(Stat::from)
    }

    /// Forces all written data to disk.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, File::sync).map(drop)
    }

    /// Truncates the file to `size` bytes, or extends it with zeros.
    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.run(py, |file| file.set_len(size)).map(drop)
    }

    /// Reserves disk space for a range of the file.
    fn allocate(&self, py: Python<'_>, offset: u64, size: u64, keep_size: bool) -> PyResult<()> {
        self.run(py, |file| file.allocate(offset, size, keep_size))
    }

    /// Makes a range of the file read as zeros. The size does not change.
    fn punch_hole(&self, py: Python<'_>, offset: u64, size: u64) -> PyResult<()> {
        self.run(py, |file| file.punch_hole(offset, size)).map(drop)
    }

    /// Closes the handle; the last handle of the file closes the file. Raises an error, once, if
    /// writes are known to be lost.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(OpenState { file, open_count }) = lock(&self.held).take() else { return Ok(()) };
        let is_last = Arc::into_inner(open_count).is_some();
        let file = match Arc::try_unwrap(file) {
            Ok(file) if is_last => file.into_inner(),
            // Another handle, or a call of another thread, still uses the file.
            Ok(file) => return report_write_errors(py, &file),
            Err(file) => return report_write_errors(py, &file),
        };
        file.map_or(Ok(()), |file| py.detach(|| file.close())).or_raise(py)
    }

    #[getter]
    fn closed(&self) -> bool {
        lock(&self.held).is_none()
    }
}

/// Runs a call of the library on an open file without the GIL.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    file: &DropWithoutGil<File>,
    call: impl FnOnce(&File) -> braid_client::Result<T> + Send,
) -> PyResult<T> {
    let file = file.value().ok_or_else(|| closed("file"))?;
    py.detach(|| call(file)).or_raise(py)
}

fn report_write_errors(py: Python<'_>, file: &DropWithoutGil<File>) -> PyResult<()> {
    file.value().map_or(Ok(()), |file| py.detach(|| file.check_loss())).or_raise(py)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
