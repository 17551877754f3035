//! An open file.

use std::sync::Arc;

use braid_share::{
    Attributes, DirectAccess, FileIndex, OpenMode, ReadResult, Result, SessionId, ShareFile,
    Verifier, WriteResult, tables::Outcome,
};
use bytes::Bytes;

use crate::service::Service;

/// An open file of a protocol client. After the close of one clone the others are stale.
#[derive(Clone, Debug)]
pub struct UnionFile(Arc<OpenGuard>);

/// Closes the open when it is dropped.
#[derive(Debug)]
struct OpenGuard {
    service: Arc<Service>,
    session: SessionId,
    file: FileIndex,
    id: u64,
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.service.close(self.id);
    }
}

impl UnionFile {
    pub(crate) fn new(service: Arc<Service>, session: SessionId, file: FileIndex, id: u64) -> Self {
        Self(Arc::new(OpenGuard { service, session, file, id }))
    }

    async fn run<T: Send + 'static>(
        &self,
        call: &'static str,
        run: impl FnOnce(&Service, u64) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        let open = Arc::clone(&self.0);
        // The thread holds the open: it is not closed in the middle of a call.
        let run = move |service: &Service| run(service, open.id);
        self.0.service.run(self.0.session, call, run).await
    }
}

impl ShareFile for UnionFile {
    fn index(&self) -> FileIndex {
        self.0.file
    }

    async fn read(&self, offset: u64, bytes: u32) -> Result<ReadResult> {
        self.run("read", move |service, id| service.read(id, offset, bytes)).await
    }

    async fn write(&self, offset: u64, data: Bytes, durable: bool) -> Result<WriteResult> {
        self.run("write", move |service, id| service.write(id, offset, &data, durable)).await
    }

    async fn commit(&self) -> Result<Verifier> {
        self.run("commit", Service::commit).await
    }

    async fn attributes(&self) -> Result<Attributes> {
        self.run("attributes", Service::file_attributes).await
    }

    async fn set_mode(&self, mode: OpenMode) -> Result<()> {
        self.run("change an open", move |service, id| service.set_mode(id, mode)).await
    }

    async fn set_len(&self, bytes: u64) -> Result<Attributes> {
        self.run("truncate", move |service, id| service.set_len(id, bytes)).await
    }

    async fn allocate(&self, offset: u64, bytes: u64) -> Result<()> {
        self.run("allocate", move |service, id| service.allocate(id, offset, bytes)).await
    }

    async fn punch(&self, offset: u64, bytes: u64) -> Result<()> {
        self.run("punch a hole", move |service, id| service.punch(id, offset, bytes)).await
    }

    async fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        self.run("seek", move |service, id| service.seek(id, offset, true)).await
    }

    async fn next_hole(&self, offset: u64) -> Result<Option<u64>> {
        self.run("seek", move |service, id| service.seek(id, offset, false)).await
    }

    async fn copy_from(&self, source: &Self, from: u64, to: u64, bytes: u64) -> Result<u64> {
        let source = Arc::clone(&source.0);
        self.run("copy", move |service, id| service.copy((source.id, from), (id, to), bytes)).await
    }

    /// Other servers have no part of a union's files.
    async fn direct_access(&self, _: bool) -> Result<Option<DirectAccess>> {
        Ok(None)
    }

    async fn close(self) -> Result<()> {
        self.run("close", |service, id| {
            service.close(id);
            Ok(())
        })
        .await
    }
}
