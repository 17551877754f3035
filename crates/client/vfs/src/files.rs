//! What all handles of one file share.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use braid_client::{FileIndex, LeaseMode};

use crate::{
    data::{Data, Under, Writer, gate::Use, stretch::Stretch},
    error::{Error, Result},
    known::Known,
    late::Late,
    ops::{open::Access, write::WriteAs},
    promise::Holder,
};

/// An open file behind a handle.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: Late,
    /// The directory of its name, if it is opened late.
    pub(crate) late_in: Option<FileIndex>,
    pub(crate) access: Access,
    pub(crate) shared: Share,
    /// Owners of ranges that were locked through this handle.
    pub(crate) lockers: Mutex<HashSet<u64>>,
    pub(crate) bytes: Bytes,
    pub(crate) lost: Lost,
    /// How much of it is gathered at most before it is written.
    stretch: OnceLock<Stretch>,
}

impl OpenFile {
    pub(crate) fn new(file: Late, access: Access, shared: Share, bytes: Bytes) -> Self {
        let (lockers, lost, stretch) = (Mutex::default(), Lost::default(), OnceLock::new());
        Self { file, late_in: None, access, shared, lockers, bytes, lost, stretch }
    }

    /// The same, opened late: under the names lease of this directory.
    pub(crate) fn late_in(self, directory: FileIndex) -> Self {
        Self { late_in: Some(directory), ..self }
    }

    /// How much of it is gathered at most before it is written.
    pub(crate) fn stretch(&self) -> Stretch {
        *self.stretch.get_or_init(|| {
            self.file.get().map_or(Stretch::UNKNOWN, |file| Stretch::of(&file.layout()))
        })
    }
}

/// Why bytes that were gathered could not be written, until somebody was told.
#[derive(Debug, Default)]
pub(crate) struct Lost(Mutex<Option<Error>>);

impl Lost {
    pub(crate) fn note(&self, error: &Error) {
        lock(&self.0).get_or_insert_with(|| error.clone());
    }

    /// Fails until it was told.
    pub(crate) fn check(&self) -> Result<()> {
        lock(&self.0).clone().map_or(Ok(()), Err)
    }

    /// Tells it, once.
    pub(crate) fn tell(&self) -> Result<()> {
        lock(&self.0).take().map_or(Ok(()), Err)
    }
}

/// An open handle's part in the use of its file's bytes.
#[derive(Debug)]
pub(crate) struct Bytes {
    data: Option<Arc<Data>>,
    writer: Option<Writer>,
    holder: Arc<Holder>,
}

impl Bytes {
    /// Of a file that is about to be opened.
    pub(crate) fn new(holder: &Arc<Holder>, file: FileIndex, access: Access) -> Self {
        let data = holder.data.of(file);
        let writer = access.write.then(|| holder.writer(&data));
        Self { data: Some(data), writer, holder: Arc::clone(holder) }
    }

    /// What all uses of the file's bytes share.
    pub(crate) fn data(&self) -> Option<&Arc<Data>> {
        self.data.as_ref()
    }

    /// Begins a use; see [`Holder::begin`].
    pub(crate) fn begin(&self, what: Use) -> Result<Option<Under>> {
        self.data.as_ref().map_or(Ok(None), |data| self.holder.begin(data, what))
    }

    /// What to wish for with the open.
    pub(crate) fn to_wish(&self, access: Access) -> LeaseMode {
        self.data.as_ref().map_or(LeaseMode::None, |data| self.holder.to_wish(data, access.lease()))
    }

    /// The file was made just now.
    pub(crate) fn made(&self, known: &Known) {
        if let Some(data) = &self.data {
            data.made(known);
        }
    }

    /// Whether a keeper gains by keeping the file's pages now.
    pub(crate) fn keeps_pages(&self) -> bool {
        self.data.as_ref().is_some_and(|data| self.holder.keeps_pages(data))
    }

    /// The file is about to be read by a keeper that keeps its pages, and is so now.
    pub(crate) fn renew(&self, known: &Known) {
        if let Some(data) = &self.data {
            self.holder.renew(data, known);
        }
    }

    /// What is read from now on is of now.
    pub(crate) fn drop_weak(&self) {
        if let Some(data) = &self.data {
            self.holder.drop_weak(data);
        }
    }

    /// Begins a write at an offset, or an append.
    pub(crate) fn begin_write(&self, offset: Option<u64>, bytes: usize) -> Result<Option<Under>> {
        if let Some(data) = &self.data {
            self.holder.wish_alone(data, offset, bytes);
        }
        self.begin(if offset.is_some() { Use::Write } else { Use::Append })
    }

    /// Writes at an offset; see [`Holder::put`].
    pub(crate) fn put(
        open: &Arc<OpenFile>,
        under: Option<&Under>,
        what: (u64, &[u8]),
        how: WriteAs,
    ) -> Result<()> {
        open.bytes.holder.put(open, under, what, how)
    }

    /// Writes pages of a mapping; see [`Data::write_pages`]. They were stored into after what is gathered was written.
    pub(crate) fn put_pages(open: &OpenFile, offset: u64, bytes: &[u8]) -> Result<()> {
        let write = |parts: &[Range<u64>]| {
            open.bytes.settle()?;
            let file = open.file.get()?;
            parts.iter().try_for_each(|part| {
                // Within `bytes`, whose length is a usize.
                let of = (part.start - offset) as usize..(part.end - offset) as usize;
                Ok(file.write_at(&bytes[of], part.start).map(drop)?)
            })
        };
        let all = offset..offset.saturating_add(bytes.len() as u64);
        match &open.bytes.data {
            Some(data) => data.write_pages(all, write),
            None => write(&[all]),
        }
    }

    /// What programs of this mount have stored in mappings is at the daemons when this returns.
    pub(crate) fn drop_stored(&self) {
        if let Some(data) = &self.data {
            self.holder.drop_stored(data);
        }
    }

    /// What this mount has gathered of the file is at the daemons when this returns.
    pub(crate) fn settle(&self) -> Result<()> {
        self.data.as_ref().map_or(Ok(()), |data| self.holder.settle(data))
    }

    /// A process closes this open file; see [`Holder::settle_at_close`].
    pub(crate) fn settle_at_close(open: &Arc<OpenFile>, owner: Option<u64>) -> Result<()> {
        open.bytes
            .data
            .as_ref()
            .map_or(Ok(()), |data| open.bytes.holder.settle_at_close(data, open, owner))
    }

    /// The last descriptor is gone; see [`Holder::settle_at_release`].
    pub(crate) fn settle_at_release(open: &Arc<OpenFile>) -> Result<()> {
        open.bytes
            .data
            .as_ref()
            .map_or(Ok(()), |data| open.bytes.holder.settle_at_release(data, open))
    }

    /// What the mount lost of the file after the handle that wrote it was closed, reported once.
    pub(crate) fn tell_closed(&self) -> Result<()> {
        self.data.as_ref().map_or(Ok(()), |data| self.holder.runs.losses.tell_closed(data.file()))
    }

    /// The next write is at this offset, whatever the one before it was.
    pub(crate) fn expect_write(&self, offset: u64) {
        if let Some(data) = &self.data {
            Holder::expect_write(data, offset);
        }
    }

    /// Bytes were written, and are where others see them.
    pub(crate) fn written(&self, under: Option<&Under>, offset: u64, bytes: u64) {
        if let Some(data) = &self.data {
            data.written_to(offset + bytes);
            // A page that comes after the dropping is not cut at the end that was known before.
            self.holder.cache.change(&[data.file()]);
        }
        self.holder.drop_written(under, offset, bytes);
    }

    /// Bytes were changed at the daemons, or some of them: what a kernel has of them is of before.
    pub(crate) fn drop_changed(&self, under: Option<&Under>, offset: u64, bytes: u64) {
        self.holder.drop_written(under, offset, bytes);
    }

    /// Where an append of so many bytes goes, if that is known; see [`Data::begin_append`].
    pub(crate) fn begin_append(&self, bytes: u64) -> Option<u64> {
        self.data.as_ref()?.begin_append(bytes)
    }

    /// Where the file ends, if its attributes are remembered and nobody else uses it. What this mount has gathered of it must be settled.
    pub(crate) fn end_alone(&self, under: Option<&Under>) -> Option<u64> {
        under.filter(|under| under.is_alone()).and_then(|under| self.holder.end_known(under.file()))
    }

    /// Notes where the file ends now; `None`: nobody knows.
    pub(crate) fn ends_at(&self, end: Option<u64>) {
        if let Some(data) = &self.data {
            data.ends_at(end);
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.writer.take();
        if let Some(data) = self.data.take() {
            self.holder.closed(data);
        }
    }
}

/// A handle's share in what all handles of its file have. The last one takes it out of the table.
#[derive(Debug)]
pub(crate) struct Share {
    file: FileIndex,
    shared: Arc<SharedFile>,
    files: Arc<Files>,
}

/// Shared by all handles of one file.
#[derive(Debug, Default)]
pub(crate) struct SharedFile {
    /// Held by the one that appends.
    appending: Mutex<()>,
}

/// The files that are open.
#[derive(Debug, Default)]
pub(crate) struct Files(Mutex<HashMap<FileIndex, Arc<SharedFile>>>);

impl Files {
    /// A share in what the handles of a file have.
    pub(crate) fn share(self: &Arc<Self>, file: FileIndex) -> Share {
        let shared = Arc::clone(lock(&self.0).entry(file).or_default());
        Share { file, shared, files: Arc::clone(self) }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut files = lock(&self.files.0);
        // Shares are made and given back under this lock: what the table and this one have, nobody else has.
        if Arc::strong_count(&self.shared) == 2 {
            files.remove(&self.file);
        }
    }
}

impl std::ops::Deref for Share {
    type Target = SharedFile;

    fn deref(&self) -> &SharedFile {
        &self.shared
    }
}

impl SharedFile {
    pub(crate) fn append_lock(&self) -> MutexGuard<'_, ()> {
        lock(&self.appending)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_handles_share_goes_with_the_last_of_them() {
        let files = Arc::new(Files::default());
        let (first, second) = (files.share(FileIndex(7)), files.share(FileIndex(7)));
        drop(first);
        assert_eq!(lock(&files.0).len(), 1);
        drop(second);
        assert_eq!(lock(&files.0).len(), 0);
    }
}
