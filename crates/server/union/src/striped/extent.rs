//! The size of striped files, and their allocated ranges.

use std::sync::{PoisonError, atomic::Ordering};

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use super::{
    StripedFile,
    write::{SIZE_MAX, changed_now},
};
use crate::{
    Result, Union,
    attributes::stat_fd,
    node::{Node, lock},
};

impl Union {
    /// truncate(2) of a node, if it is a striped file. Returns whether it is.
    ///
    /// # Errors
    /// Those of open(2) and truncate(2); `EIO`: an object is missing.
    pub(crate) fn truncate_striped(&self, node: &Node, size: u64) -> Result<bool> {
        if !self.striped.exist() || node.is_directory {
            return Ok(false);
        }
        let branch = node.state().copies.first().ok_or(Errno::STALE)?.branch;
        let reference = self.reference(node, branch)?;
        let Some(file) = self.open_striped(node, branch, &*reference, true)? else {
            return Ok(false);
        };
        let done = self.set_size(&file, size);
        self.close_striped(&file);
        done.map(|()| true)
    }

    /// The stub comes first: bytes beyond its size are not part of the file (S3).
    fn set_size(&self, file: &StripedFile, size: u64) -> Result<()> {
        let _alone = file.range.write().unwrap_or_else(PoisonError::into_inner);
        let _growing = lock(&file.growth);
        if size > file.size()? {
            self.cut_ends(file)?;
            return rustix::fs::ftruncate(&file.stub, size);
        }
        rustix::fs::ftruncate(&file.stub, size)?;
        file.ends_cut.store(false, Ordering::Relaxed);
        if let Err(error) = self.cut_ends(file) {
            // The file has its new size. The next growth cuts again, before anybody sees a byte.
            tracing::warn!(%error, "a striped file was cut, but not all of its objects");
        }
        Ok(())
    }

    /// What a writer that was killed, or that failed, left behind the end is removed before the
    /// file grows over it.
    pub(crate) fn cut_ends_before_growth(&self, file: &StripedFile, end: u64) -> Result<()> {
        if file.ends_cut.load(Ordering::Relaxed) || end <= file.size()? {
            return Ok(());
        }
        // Alone: others may have written bytes whose size is not set yet.
        let _alone = file.range.write().unwrap_or_else(PoisonError::into_inner);
        self.cut_ends(file)
    }

    /// Needs `range` exclusive.
    fn cut_ends(&self, file: &StripedFile) -> Result<()> {
        if file.ends_cut.load(Ordering::Relaxed) {
            return Ok(());
        }
        let size = file.size()?;
        for position in 0..file.layout.stripes() {
            let object = self.object(file, position)?;
            let end = file.layout.object_bytes_before(position, size);
            if stat_fd(object)?.stx_size > end {
                rustix::fs::ftruncate(object, end)?;
            }
        }
        file.ends_cut.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// fallocate(2): one call for each object, without a change of its size.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: `mode` moves bytes; `EIO`: an object is missing; those of fallocate(2).
    pub(crate) fn allocate_striped(
        &self,
        file: &StripedFile,
        mode: FallocateFlags,
        offset: u64,
        bytes: u64,
    ) -> Result<()> {
        let kept = FallocateFlags::KEEP_SIZE;
        let known = kept | FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        if !known.contains(mode) {
            return Err(Errno::OPNOTSUPP);
        }
        if bytes == 0 {
            return Err(Errno::INVAL);
        }
        let end = offset.checked_add(bytes).filter(|end| *end <= SIZE_MAX).ok_or(Errno::FBIG)?;
        let _alone = file.range.write().unwrap_or_else(PoisonError::into_inner);
        let grows = !mode.contains(kept) && end > file.size()?;
        if grows {
            self.cut_ends(file)?;
        }
        for position in 0..file.layout.stripes() {
            let [from, to] = [offset, end].map(|at| file.layout.object_bytes_before(position, at));
            if to > from {
                rustix::fs::fallocate(self.object(file, position)?, mode | kept, from, to - from)?;
            }
        }
        if grows {
            let _growing = lock(&file.growth);
            return rustix::fs::ftruncate(&file.stub, end);
        }
        changed_now(file)
    }

    /// The next data (`true`) or hole at or after an offset: the first one of all objects.
    ///
    /// # Errors
    /// `ENXIO`: there is none. `EIO`: an object is missing.
    pub(crate) fn seek_striped(&self, file: &StripedFile, offset: u64, data: bool) -> Result<u64> {
        let _shared = file.range.read().unwrap_or_else(PoisonError::into_inner);
        let size = file.size()?;
        if offset >= size {
            return Err(Errno::NXIO);
        }
        // The end of the file is a hole.
        let mut first = if data { None } else { Some(size) };
        for position in 0..file.layout.stripes() {
            let from = file.layout.object_bytes_before(position, offset);
            let to = if data { SeekFrom::Data(from) } else { SeekFrom::Hole(from) };
            let found = match rustix::fs::seek(self.object(file, position)?, to) {
                Ok(found) => Some(found),
                // Beyond the end of the object is a hole (S4).
                Err(Errno::NXIO) => (!data).then_some(from),
                Err(error) => return Err(error),
            };
            let found = found.map(|found| file.layout.file_offset(position, found));
            first = found.into_iter().chain(first).min();
        }
        first.filter(|first| !data || *first < size).ok_or(Errno::NXIO)
    }
}
