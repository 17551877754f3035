//! Byte-range locks. The metadata server allows a session to lock the files that it has open, and
//! the gateway's own identity everything.

use braid_client::{LockRange, LockRequest, LockSpace};
use braid_types::FileIndex;

use super::session::Session;
use crate::{Lock, LockCancelHandle, LockConflict, Result};

impl Session {
    pub(super) async fn lock(&self, file: FileIndex, lock: Lock) -> Result<Option<LockConflict>> {
        self.run(self.client().try_lock_range(&request(file, lock))).await
    }

    pub(super) async fn lock_wait(
        &self,
        file: FileIndex,
        lock: Lock,
        cancel: &LockCancelHandle,
    ) -> Result<()> {
        self.run(self.client().lock_range(&request(file, lock), &cancel.of_cluster)).await
    }

    pub(super) async fn cancel_lock(&self, cancel: &LockCancelHandle) -> Result<()> {
        cancel.cancel();
        self.run(self.client().cancel_lock(&cancel.of_cluster)).await
    }

    pub(super) async fn test_lock(
        &self,
        file: FileIndex,
        lock: Lock,
    ) -> Result<Option<LockConflict>> {
        self.run(self.client().test_lock(&request(file, lock))).await
    }

    pub(super) async fn unlock(&self, file: FileIndex, lock: Lock) -> Result<()> {
        let Lock { owner, start, last, .. } = lock;
        let range = LockRange { file, space: LockSpace::Range, owner, start, last };
        self.run(self.client().unlock_range(&range)).await
    }
}

fn request(file: FileIndex, lock: Lock) -> LockRequest {
    let Lock { owner, start, last, exclusive } = lock;
    LockRequest { file, space: LockSpace::Range, owner, pid: 0, start, last, exclusive }
}
