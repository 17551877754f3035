//! The tested file through one path: descriptors, a lasting mapping, and the calls.

use std::{
    fs::{File, OpenOptions},
    io::{Error, ErrorKind, Result, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, fstat, seek};

use super::aligned::Aligned;
use crate::mapping::Mapping;

/// The file, opened through one path.
#[derive(Debug)]
pub struct Subject {
    path: PathBuf,
    open: OpenFile,
    length_max: u64,
    /// Written through the mapping and not synced yet: other paths need not see it.
    unsynced: bool,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    append: File,
    /// `None` where the file system refuses O_DIRECT.
    direct: Option<File>,
    /// `None` where it refuses shared mappings.
    mapping: Option<Mapping>,
}

impl OpenFile {
    fn new(path: &Path, length_max: u64) -> Result<Self> {
        let open = |flags| OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        let file = open(0)?;
        let mapping = refusable(Mapping::shared(&file, length_max, true))?;
        Ok(Self {
            append: OpenOptions::new().append(true).open(path)?,
            direct: refusable(open(libc::O_DIRECT))?,
            mapping,
            file,
        })
    }
}

/// `None` when the file system does not support the call.
fn refusable<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        // O_DIRECT is refused with EINVAL, a shared mapping with ENODEV.
        Err(error)
            if is_refusal(&error)
                || matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENODEV)) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether the error means that the file system does not support the operation.
pub fn is_refusal(error: &Error) -> bool {
    error.raw_os_error() == Some(libc::EOPNOTSUPP)
}

fn refused() -> Error {
    Error::from_raw_os_error(libc::EOPNOTSUPP)
}

impl Subject {
    /// Opens the file, which exists and will not grow beyond `length_max`.
    pub fn open(path: PathBuf, length_max: u64) -> Result<Self> {
        let open = OpenFile::new(&path, length_max)?;
        Ok(Self { path, open, length_max, unsynced: false })
    }

    /// Closes everything and opens it again.
    pub fn reopen(&mut self) -> Result<()> {
        // The old descriptors are closed only after the new ones are open: the last close writes
        // back.
        self.open = OpenFile::new(&self.path, self.length_max)?;
        self.unsynced = false;
        Ok(())
    }

    pub fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        let done = read_until_end(&self.open.file, &mut bytes, offset)?;
        bytes.truncate(done);
        Ok(bytes)
    }

    pub fn read_direct(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let file = self.open.direct.as_ref().ok_or_else(refused)?;
        let mut buffer = Aligned::new(length);
        // One call: where a direct read ends at the end of the file, the next offset is not
        // aligned.
        let done = file.read_at(buffer.bytes_mut(), offset)?;
        Ok(buffer.bytes()[..done].to_vec())
    }

    pub fn read_mapped(&self, offset: u64, length: u64, fresh: bool) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        if fresh {
            Mapping::shared(&self.open.file, self.length_max, false)?.read(offset, &mut bytes)?;
        } else {
            self.open.mapping.as_ref().ok_or_else(refused)?.read(offset, &mut bytes)?;
        }
        Ok(bytes)
    }

    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.open.file.write_all_at(bytes, offset)
    }

    pub fn write_direct(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = self.open.direct.as_ref().ok_or_else(refused)?;
        file.write_all_at(Aligned::holding(bytes).bytes(), offset)
    }

    pub fn write_mapped(&mut self, offset: u64, bytes: &[u8], sync: bool) -> Result<()> {
        let mapping = self.open.mapping.as_ref().ok_or_else(refused)?;
        mapping.write(offset, bytes)?;
        self.unsynced = true;
        if sync { self.settle() } else { Ok(()) }
    }

    /// Makes the mapping's stores visible to other paths.
    pub fn settle(&mut self) -> Result<()> {
        if let (true, Some(mapping)) = (self.unsynced, &self.open.mapping) {
            mapping.sync()?;
        }
        self.unsynced = false;
        Ok(())
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.open.append.write_all(bytes)
    }

    pub fn truncate(&self, length: u64) -> Result<()> {
        self.open.file.set_len(length)
    }

    pub fn punch(&self, offset: u64, length: u64) -> Result<()> {
        Ok(fallocate(
            &self.open.file,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            offset,
            length,
        )?)
    }

    pub fn zero(&self, offset: u64, length: u64, keep_size: bool) -> Result<()> {
        let keep = if keep_size { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
        Ok(fallocate(&self.open.file, FallocateFlags::ZERO_RANGE | keep, offset, length)?)
    }

    pub fn allocate(&self, offset: u64, length: u64, keep_size: bool) -> Result<()> {
        let flags = if keep_size { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
        Ok(fallocate(&self.open.file, flags, offset, length)?)
    }

    /// Copies from this path to `other`, up to the last byte.
    pub fn copy_range(&self, other: &Self, mut from: u64, mut to: u64, length: u64) -> Result<()> {
        let mut left = length;
        while left > 0 {
            let done = copy_file_range(
                &self.open.file,
                Some(&mut from),
                &other.open.file,
                Some(&mut to),
                left as usize,
            )?;
            if done == 0 {
                return Err(Error::new(
                    ErrorKind::UnexpectedEof,
                    format!("copy_file_range stopped {left} bytes early"),
                ));
            }
            left -= done as u64;
        }
        Ok(())
    }

    /// The offset of the first data at or behind `offset`, if any.
    pub fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        end_is_none(seek(&self.open.file, SeekFrom::Data(offset)))
    }

    /// The offset of the first hole at or behind `offset`; `None` if `offset` is behind the end.
    pub fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        end_is_none(seek(&self.open.file, SeekFrom::Hole(offset)))
    }

    pub fn length(&self) -> Result<u64> {
        Ok(fstat(&self.open.file)?.st_size as u64)
    }

    pub fn sync(&self, data_only: bool) -> Result<()> {
        if data_only { self.open.file.sync_data() } else { self.open.file.sync_all() }
    }
}

fn end_is_none(outcome: rustix::io::Result<u64>) -> Result<Option<u64>> {
    match outcome {
        Ok(at) => Ok(Some(at)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn read_until_end(file: &File, into: &mut [u8], offset: u64) -> Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], offset + done as u64)? {
            0 => break,
            more => done += more,
        }
    }
    Ok(done)
}
