//! Writes. They go to the page cache of the branches, and the kernel writes back all disks at the
//! same time.

use std::{
    io::IoSlice,
    os::fd::OwnedFd,
    sync::{PoisonError, atomic::Ordering},
};

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;

use super::{StripedFile, layout::Layout};
use crate::{OpenFile, Result, Union, node::lock};

/// Linux's limit for the size of a file.
pub(crate) const SIZE_MAX: u64 = i64::MAX as u64;
/// Bytes that one call copies at most, and in steps of: the kernel asks for the rest.
const COPY_BYTES_MAX: usize = 8 << 20;
const COPY_STEP: usize = 1 << 20;

/// The part of a write that goes to one object.
struct Part<'b> {
    position: usize,
    object_offset: u64,
    pieces: Vec<IoSlice<'b>>,
}

impl Union {
    /// Writes at an offset. Returns how many bytes were written: fewer if a disk is full.
    ///
    /// # Errors
    /// `EIO`: an object is missing; those of pwrite(2), if no byte was written.
    pub(crate) fn write_striped(
        &self,
        file: &StripedFile,
        offset: u64,
        data: &[u8],
    ) -> Result<usize> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= SIZE_MAX);
        let end = end.ok_or(Errno::FBIG)?;
        self.cut_ends_before_growth(file, end)?;
        let _shared = file.range.read().unwrap_or_else(PoisonError::into_inner);
        let (mut written, mut failed) = (end, Errno::IO);
        for part in parts(&file.layout, offset, data) {
            let done =
                self.object(file, part.position).map_err(|error| (part.object_offset, error));
            if let Err((at, error)) =
                done.and_then(|object| write_part(object, part.pieces, part.object_offset))
            {
                // What comes before the first failure counts as written.
                written = written.min(file.layout.file_offset(part.position, at));
                failed = error;
            }
        }
        if written < end {
            file.ends_cut.store(false, Ordering::Relaxed);
        }
        if written <= offset && !data.is_empty() {
            return Err(failed);
        }
        // After the bytes: a process that is killed in between leaves none that is not there.
        self.grow(file, written)?;
        usize::try_from(written - offset).map_err(|_| Errno::INVAL)
    }

    /// The size becomes at least `end`, and the file counts as changed now.
    fn grow(&self, file: &StripedFile, end: u64) -> Result<()> {
        let _growing = lock(&file.growth);
        if end <= file.size()? {
            return changed_now(file);
        }
        let grown = rustix::fs::ftruncate(&file.stub, end);
        if grown.is_err() {
            file.ends_cut.store(false, Ordering::Relaxed);
        }
        grown
    }

    /// Writes the bytes of all objects to their disks, at the same time, then the stub.
    ///
    /// # Errors
    /// `EIO`: an object is missing; those of fsync(2).
    pub(crate) fn sync_striped(&self, file: &StripedFile, data_only: bool) -> Result<()> {
        let sync = |fd: &OwnedFd| match data_only {
            true => rustix::fs::fdatasync(fd),
            false => rustix::fs::fsync(fd),
        };
        let sync_object = |position| self.object(file, position).and_then(sync);
        let done: Vec<Result<()>> = std::thread::scope(|scope| {
            let others = 1..file.layout.stripes();
            let others: Vec<_> =
                others.map(|position| scope.spawn(move || sync_object(position))).collect();
            let first = sync_object(0);
            let others = others.into_iter().map(|other| other.join().unwrap_or(Err(Errno::IO)));
            std::iter::once(first).chain(others.collect::<Vec<_>>()).collect()
        });
        done.into_iter().collect::<Result<()>>()?;
        sync(&file.stub)
    }

    /// Copies a range from or to a striped file.
    ///
    /// # Errors
    /// Those of pread(2) and pwrite(2), if no byte was copied.
    pub(crate) fn copy_striped(
        &self,
        (from, from_offset): (&OpenFile, u64),
        (to, to_offset): (&OpenFile, u64),
        length: u64,
    ) -> Result<usize> {
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(COPY_BYTES_MAX);
        let mut buffer = vec![0; length.min(COPY_STEP)];
        let mut copied = 0;
        while copied < length {
            let step = (length - copied).min(buffer.len());
            let read = self.read(from, from_offset + copied as u64, &mut buffer[..step]);
            let written = read.and_then(|bytes| match bytes {
                0 => Ok(0),
                _ => self.write(to, to_offset + copied as u64, &buffer[..bytes], false),
            });
            match written {
                Ok(0) => break,
                Ok(bytes) => copied += bytes,
                Err(_) if copied > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(copied)
    }
}

/// The stub has no bytes that would move its times.
pub(crate) fn changed_now(file: &StripedFile) -> Result<()> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    rustix::fs::futimens(&file.stub, &times)
}

/// Splits a write by objects.
fn parts<'b>(layout: &Layout, offset: u64, data: &'b [u8]) -> Vec<Part<'b>> {
    let mut parts: Vec<Part<'b>> = Vec::new();
    let mut rest = data;
    for piece in layout.pieces(offset, data.len() as u64) {
        let (this, after) = rest.split_at(usize::try_from(piece.bytes).unwrap_or(usize::MAX));
        rest = after;
        let this = IoSlice::new(this);
        match parts.iter_mut().find(|part| part.position == piece.position) {
            Some(part) => part.pieces.push(this),
            None => parts.push(Part {
                position: piece.position,
                object_offset: piece.object_offset,
                pieces: vec![this],
            }),
        }
    }
    parts
}

/// Writes a range of an object. An error comes with the offset up to which it was written.
fn write_part(
    object: &OwnedFd,
    mut pieces: Vec<IoSlice<'_>>,
    offset: u64,
) -> std::result::Result<(), (u64, Errno)> {
    let (mut offset, mut left) = (offset, &mut pieces[..]);
    while !left.is_empty() {
        match rustix::io::pwritev(object, left, offset) {
            Ok(0) => return Err((offset, Errno::IO)),
            Ok(bytes) => {
                offset += bytes as u64;
                IoSlice::advance_slices(&mut left, bytes);
            }
            Err(Errno::INTR) => {}
            // It is open only to read: its file system became read-only.
            Err(Errno::BADF) => return Err((offset, Errno::ROFS)),
            Err(error) => return Err((offset, error)),
        }
    }
    Ok(())
}
