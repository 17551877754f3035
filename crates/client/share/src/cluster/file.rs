//! An open file.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use braid_client::asynchronous::File;
use braid_net::Tokio;
use braid_types::{FileIndex, Status};
use bytes::Bytes;

use super::{direct_access, session::Session};
use crate::{
    Attributes, DirectAccess, Error, OpenMode, ReadResult, Result, ShareFile, Verifier, WriteResult,
};

/// How often a durable write is tried (I8): each time a daemon has lost bytes of the file.
const LOSSES_MAX: usize = 3;

/// An open file of a protocol client.
#[derive(Clone, Debug)]
pub struct ClusterFile(Arc<OpenedFile>);

/// The open, which clones share.
#[derive(Debug)]
pub(super) struct OpenedFile {
    session: Arc<Session>,
    file: File<Tokio>,
    /// The largest size that was seen. A full read below it does not reach the end of the file.
    size_seen: AtomicU64,
}

impl Drop for OpenedFile {
    fn drop(&mut self) {
        self.session.remove_files(self.file.index());
    }
}

impl OpenedFile {
    pub(super) fn index(&self) -> FileIndex {
        self.file.index()
    }

    /// Closes the file because its session ends: nobody is left to whom a loss can be reported.
    pub(super) async fn close_with_session(&self) {
        let _ = self.file.clone().close().await;
    }

    /// Counts a loss that the library reports. Returns whether there was one.
    fn count_loss<T>(&self, done: Result<T>) -> Result<bool> {
        match done {
            Ok(_) => Ok(false),
            Err(error) if error.status() == Status::UnsyncedDataLost => {
                self.session.losses.add();
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Flushes the file, and counts losses of all its opens of this client. Returns whether this
    /// open had any.
    async fn flush(&self) -> Result<bool> {
        let lost = self.count_loss(self.file.sync().await)?;
        // The flush covered the bytes of the other opens, too, whose losses each of them knows.
        for other in self.session.opens_of(self.index()) {
            if !std::ptr::eq(&*other, self) {
                other.count_loss(other.file.check_loss().await)?;
            }
        }
        Ok(lost)
    }

    async fn write_durably(&self, offset: u64, data: &Bytes) -> Result<usize> {
        for _ in 0..LOSSES_MAX {
            let written = self.file.write_at(data, offset).await?;
            if !self.flush().await? {
                return Ok(written);
            }
            // These bytes may be among the lost ones.
        }
        let why =
            format!("an I/O daemon lost these bytes {LOSSES_MAX} times before they were flushed");
        Err(Error::new(Status::UnsyncedDataLost, why))
    }
}

impl ClusterFile {
    pub(super) fn new(session: &Arc<Session>, file: File<Tokio>) -> Self {
        let size_seen = AtomicU64::new(file.opened_attributes().bytes.0);
        let file = Arc::new(OpenedFile { session: Arc::clone(session), file, size_seen });
        session.add_file(&file);
        Self(file)
    }

    /// The library's file.
    fn file(&self) -> &File<Tokio> {
        &self.0.file
    }

    async fn run<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.0.session.run(call).await
    }

    /// Whether a read that returned all its bytes ended at the end of the file.
    async fn ends_at(&self, end: u64) -> Result<bool> {
        if end < self.0.size_seen.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let size = self.file().size().await?;
        self.0.size_seen.store(size, Ordering::Relaxed);
        Ok(end >= size)
    }

    fn saw_size(&self, bytes: u64) {
        self.0.size_seen.fetch_max(bytes, Ordering::Relaxed);
    }
}

impl ShareFile for ClusterFile {
    fn index(&self) -> FileIndex {
        self.0.index()
    }

    /// The memory is as much as requested: the gateway bounds `bytes`.
    async fn read(&self, offset: u64, bytes: u32) -> Result<ReadResult> {
        self.run(async {
            let data = self.file().read_to_vec(offset, bytes as usize).await?;
            let end = if data.len() < bytes as usize {
                true
            } else {
                self.ends_at(offset.saturating_add(data.len() as u64)).await?
            };
            Ok(ReadResult { data: Bytes::from(data), end })
        })
        .await
    }

    async fn read_bytes(&self, offset: u64, bytes: u32) -> Result<Bytes> {
        self.run(async { Ok(Bytes::from(self.file().read_to_vec(offset, bytes as usize).await?)) })
            .await
    }

    async fn write(&self, offset: u64, data: Bytes, durable: bool) -> Result<WriteResult> {
        self.run(async {
            // Read before the write: a loss that is noticed during it may be of its bytes.
            let verifier = self.0.session.losses.verifier();
            let bytes = if durable {
                self.0.write_durably(offset, &data).await?
            } else {
                self.file().write_at(&data, offset).await?
            } as u64;
            self.saw_size(offset.saturating_add(bytes));
            Ok(WriteResult { bytes, durable, verifier })
        })
        .await
    }

    async fn commit(&self) -> Result<Verifier> {
        self.run(async {
            self.0.flush().await?;
            Ok(self.0.session.losses.verifier())
        })
        .await
    }

    async fn attributes(&self) -> Result<Attributes> {
        let attributes = self.run(self.file().attributes()).await?;
        self.0.size_seen.store(attributes.bytes.0, Ordering::Relaxed);
        Ok(attributes)
    }

    async fn set_mode(&self, mode: OpenMode) -> Result<()> {
        self.run(self.file().set_modes(mode.rights, mode.deny)).await
    }

    async fn set_len(&self, bytes: u64) -> Result<Attributes> {
        let attributes = self.run(self.file().set_len(bytes)).await?;
        self.0.size_seen.store(attributes.bytes.0, Ordering::Relaxed);
        Ok(attributes)
    }

    async fn allocate(&self, offset: u64, bytes: u64) -> Result<()> {
        self.run(self.file().allocate(offset, bytes, false)).await
    }

    async fn punch(&self, offset: u64, bytes: u64) -> Result<()> {
        self.run(async { self.file().punch_hole(offset, bytes).await.map(drop) }).await
    }

    async fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        self.run(self.file().next_data(offset)).await
    }

    async fn next_hole(&self, offset: u64) -> Result<Option<u64>> {
        self.run(self.file().next_hole(offset)).await
    }

    async fn copy_from(&self, source: &Self, from: u64, to: u64, bytes: u64) -> Result<u64> {
        self.run(self.file().copy_range_from(source.file(), from, to, bytes)).await
    }

    async fn direct_access(&self, write: bool) -> Result<Option<DirectAccess>> {
        self.run(direct_access::get(self.0.session.client(), self.file(), write)).await
    }

    async fn close(self) -> Result<()> {
        let closed = self.run(self.file().clone().close()).await;
        // The close is sent now and not with the next ones: when it is answered, the open must
        // conflict with no other any more. If that fails, the library sends it later.
        let _ = self.run(self.0.session.client().flush_closes()).await;
        if let Err(error) = &closed
            && error.status() == Status::UnsyncedDataLost
        {
            self.0.session.losses.add();
        }
        closed
    }
}
