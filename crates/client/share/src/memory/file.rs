//! An open file.

use std::sync::Arc;

use braid_types::{FileIndex, SessionId};
use bytes::Bytes;

use super::{CallKind as Call, share::SharedState, state::Outcome, state::State};
use crate::{
    Attributes, DirectAccess, OpenMode, OpenTarget, ReadResult, Result, ShareFile, Verifier,
    WriteResult,
};

/// An open file of a protocol client. After the close of one clone the others are stale.
#[derive(Clone, Debug)]
pub struct MemoryFile(Arc<OpenGuard>);

/// Closes the open when it is dropped.
#[derive(Debug)]
struct OpenGuard {
    state: SharedState,
    session: SessionId,
    file: FileIndex,
    id: u64,
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        // Nobody is left to whom a loss can be reported.
        let _ = self.state.lock().close(self.id);
    }
}

impl MemoryFile {
    pub(super) fn new(state: SharedState, session: SessionId, file: FileIndex, id: u64) -> Self {
        Self(Arc::new(OpenGuard { state, session, file, id }))
    }

    fn call<T>(&self, call: Call, run: impl FnOnce(&mut State, u64) -> Outcome<T>) -> Result<T> {
        let OpenGuard { state, session, id, .. } = &*self.0;
        state.call(*session, call, |state| run(state, *id))
    }
}

impl ShareFile for MemoryFile {
    fn index(&self) -> FileIndex {
        self.0.file
    }

    async fn read(&self, offset: u64, bytes: u32) -> Result<ReadResult> {
        self.call(Call::Read, |state, id| state.read(id, offset, bytes))
    }

    async fn write(&self, offset: u64, data: Bytes, durable: bool) -> Result<WriteResult> {
        self.call(Call::Write, |state, id| state.write(id, offset, &data, durable))
    }

    async fn commit(&self) -> Result<Verifier> {
        self.call(Call::Commit, State::commit)
    }

    async fn attributes(&self) -> Result<Attributes> {
        self.call(Call::FileAttributes, |state, id| {
            let file = state.opens.get(id)?.file;
            Ok(state.inode(file)?.attributes())
        })
    }

    async fn set_mode(&self, mode: OpenMode) -> Result<()> {
        let OpenGuard { state, session, file, .. } = &*self.0;
        state.recall_for_open(*session, &OpenTarget::File(*file), mode).await?;
        self.call(Call::SetMode, |state, id| state.set_mode(id, mode))
    }

    async fn set_len(&self, bytes: u64) -> Result<Attributes> {
        self.call(Call::SetLen, |state, id| state.set_len(id, bytes))
    }

    async fn allocate(&self, offset: u64, bytes: u64) -> Result<()> {
        self.call(Call::Allocate, |state, id| state.allocate(id, offset, bytes))
    }

    async fn punch(&self, offset: u64, bytes: u64) -> Result<()> {
        self.call(Call::Punch, |state, id| state.punch(id, offset, bytes))
    }

    async fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        self.call(Call::NextData, |state, id| state.seek(id, |data| data.next_data(offset)))
    }

    async fn next_hole(&self, offset: u64) -> Result<Option<u64>> {
        self.call(Call::NextHole, |state, id| state.seek(id, |data| data.next_hole(offset)))
    }

    async fn copy_from(&self, source: &Self, from: u64, to: u64, bytes: u64) -> Result<u64> {
        self.call(Call::CopyFrom, |state, id| state.copy((source.0.id, from), (id, to), bytes))
    }

    async fn direct_access(&self, _: bool) -> Result<Option<DirectAccess>> {
        self.call(Call::DirectAccess, |state, id| {
            let file = state.opens.get(id)?.file;
            Ok(state.direct.get(&file).cloned())
        })
    }

    async fn close(self) -> Result<()> {
        self.call(Call::Close, State::close)
    }
}
