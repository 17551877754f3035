//! The session of a protocol client.

use braid_types::{ByteCount, FileIndex, SessionId, Status, Timestamp, nfs4_acl::Nfs4Acl};

use super::{
    CallKind as Call, MemoryFile,
    bytes::DISK_BYTES,
    delegations::Need,
    share::{SharedState, failed},
};
use crate::{
    AdoptedOpen, AttributeChanges, Attributes, DelegationRecall, DirectoryChange, FileKind,
    Identity, Listing, Lock, LockCancelHandle, LockConflict, OpenMode, OpenTarget, Opened,
    RenameMode, Result, ShareClient, StatFsReply, XattrMode, tables::Wanted,
};

/// The session of a protocol client. It lives until it ends, whether clones of this exist or not.
#[derive(Clone, Debug)]
pub struct MemoryClient {
    state: SharedState,
    session: SessionId,
}

impl MemoryClient {
    pub(super) fn new(state: SharedState, session: SessionId) -> Self {
        Self { state, session }
    }

    /// Waits until no other session has a delegation of a file that conflicts.
    async fn recall(&self, call: Call, file: FileIndex, need: Need) -> Result<()> {
        self.state.recall(self.session, call, |_| vec![(file, need)]).await
    }

    fn wanted(&self, file: FileIndex, lock: Lock) -> Wanted {
        Wanted { file, session: self.session, lock }
    }
}

/// Removes a wait from the table when its caller goes away.
struct WaitGuard<'a> {
    state: &'a SharedState,
    wait: u64,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.state.lock().locks.abandon(self.wait);
    }
}

impl ShareClient for MemoryClient {
    type File = MemoryFile;

    fn session(&self) -> SessionId {
        self.session
    }

    async fn end(self) {
        self.state.lock().end_session(self.session);
    }

    async fn leave(self) {}

    async fn look_up(&self, who: &Identity, dir: FileIndex, name: &[u8]) -> Result<Attributes> {
        self.state
            .recall(self.session, Call::LookUp, |state| {
                state.named(dir, name).map(|file| (file, Need::Look)).into_iter().collect()
            })
            .await?;
        self.state.call(self.session, Call::LookUp, |state| state.look_up(who, dir, name))
    }

    async fn look_up_folded(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
    ) -> Result<(Vec<u8>, Attributes)> {
        self.state
            .recall(self.session, Call::LookUp, |state| {
                state.named_folded(dir, name).map(|file| (file, Need::Look)).into_iter().collect()
            })
            .await?;
        self.state.call(self.session, Call::LookUp, |state| state.look_up_folded(who, dir, name))
    }

    async fn parent(&self, who: &Identity, dir: FileIndex) -> Result<Attributes> {
        self.state.call(self.session, Call::Parent, |state| state.parent(who, dir))
    }

    async fn attributes(&self, _: &Identity, file: FileIndex) -> Result<Attributes> {
        self.recall(Call::Attributes, file, Need::Look).await?;
        self.state.call(self.session, Call::Attributes, |state| Ok(state.inode(file)?.attributes()))
    }

    async fn set_attributes(
        &self,
        who: &Identity,
        file: FileIndex,
        changes: AttributeChanges,
    ) -> Result<Attributes> {
        self.recall(Call::SetAttributes, file, Need::Change).await?;
        self.state.call(self.session, Call::SetAttributes, |state| {
            state.set_attributes(who, self.session, file, &changes)
        })
    }

    async fn set_attributes_and_birth(
        &self,
        who: &Identity,
        file: FileIndex,
        changes: AttributeChanges,
        btime: Timestamp,
    ) -> Result<Attributes> {
        self.recall(Call::SetAttributes, file, Need::Change).await?;
        self.state.call(self.session, Call::SetAttributes, |state| {
            state.set_attributes_and_birth(who, self.session, file, &changes, btime)
        })
    }

    async fn set_attributes_and_acl(
        &self,
        who: &Identity,
        file: FileIndex,
        changes: AttributeChanges,
        list: &Nfs4Acl,
    ) -> Result<Attributes> {
        self.recall(Call::SetAttributes, file, Need::Change).await?;
        self.state.call(self.session, Call::SetAttributes, |state| {
            state.set_attributes_and_acl(who, self.session, file, &changes, list)
        })
    }

    async fn nfs4_acl(&self, _: &Identity, known: &Attributes) -> Result<Nfs4Acl> {
        self.state.call(self.session, Call::Xattr, |state| state.nfs4_acl(known.file))
    }

    async fn access(&self, who: &Identity, file: FileIndex, wanted: u8) -> Result<u8> {
        self.state.call(self.session, Call::Access, |state| state.access(who, file, wanted))
    }

    async fn read_link(&self, _: &Identity, file: FileIndex) -> Result<Vec<u8>> {
        self.state.call(self.session, Call::ReadLink, |state| state.read_link(file))
    }

    async fn list(
        &self,
        who: &Identity,
        dir: FileIndex,
        cookie: u64,
        bytes_max: u32,
        with_attributes: bool,
    ) -> Result<Listing> {
        self.state.call(self.session, Call::List, |state| {
            state.list(who, dir, cookie, bytes_max, with_attributes)
        })
    }

    async fn make_directory(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        mode: u32,
    ) -> Result<(Attributes, DirectoryChange)> {
        self.state.call(self.session, Call::MakeDirectory, |state| {
            state.make_directory(who, dir, name, mode)
        })
    }

    async fn make_symlink(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        target: &[u8],
    ) -> Result<(Attributes, DirectoryChange)> {
        self.state.call(self.session, Call::MakeSymlink, |state| {
            state.make_symlink(who, dir, name, target)
        })
    }

    async fn make_node(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        kind: FileKind,
        mode: u32,
        device: u64,
    ) -> Result<(Attributes, DirectoryChange)> {
        self.state.call(self.session, Call::MakeNode, |state| {
            state.make_node(who, (dir, name), kind, mode, device)
        })
    }

    async fn link(
        &self,
        who: &Identity,
        file: FileIndex,
        dir: FileIndex,
        name: &[u8],
    ) -> Result<(Attributes, DirectoryChange)> {
        self.recall(Call::Link, file, Need::Change).await?;
        self.state.call(self.session, Call::Link, |state| state.link(who, file, dir, name))
    }

    async fn remove(&self, who: &Identity, dir: FileIndex, name: &[u8]) -> Result<DirectoryChange> {
        self.state
            .recall(self.session, Call::Remove, |state| {
                state.named(dir, name).map(|file| (file, Need::Change)).into_iter().collect()
            })
            .await?;
        self.state.call(self.session, Call::Remove, |state| state.remove(who, dir, name))
    }

    async fn rename(
        &self,
        who: &Identity,
        from: (FileIndex, &[u8]),
        to: (FileIndex, &[u8]),
        mode: RenameMode,
    ) -> Result<(DirectoryChange, DirectoryChange)> {
        self.state
            .recall(self.session, Call::Rename, |state| {
                let ends = [from, to].map(|(dir, name)| state.named(dir, name));
                ends.into_iter().flatten().map(|file| (file, Need::Change)).collect()
            })
            .await?;
        self.state.call(self.session, Call::Rename, |state| state.rename(who, from, to, mode))
    }

    async fn open(
        &self,
        who: &Identity,
        target: OpenTarget,
        mode: OpenMode,
    ) -> Result<Opened<MemoryFile>> {
        self.state.recall_for_open(self.session, &target, mode).await?;
        let opened = self
            .state
            .call(self.session, Call::Open, |state| state.open(who, self.session, &target, mode))?;
        let file = opened.attributes.file;
        Ok(Opened {
            file: MemoryFile::new(self.state.clone(), self.session, file, opened.id),
            attributes: opened.attributes,
            created: opened.created,
            directory: opened.directory,
        })
    }

    async fn reclaim_open(&self, who: &Identity, open: AdoptedOpen) -> Result<MemoryFile> {
        let AdoptedOpen { number, file, .. } = open;
        self.state.call(self.session, Call::Open, |state| {
            state.opens.get_mut(number)?.who = who.clone();
            Ok(MemoryFile::new(self.state.clone(), self.session, file, number))
        })
    }

    async fn release_open(&self, open: AdoptedOpen) -> Result<()> {
        self.state.call(self.session, Call::Close, |state| state.close(open.number))
    }

    async fn xattr(&self, who: &Identity, file: FileIndex, name: &[u8]) -> Result<Vec<u8>> {
        self.state.call(self.session, Call::Xattr, |state| state.xattr(who, file, name))
    }

    async fn set_xattr(
        &self,
        who: &Identity,
        file: FileIndex,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.recall(Call::SetXattr, file, Need::Change).await?;
        self.state.call(self.session, Call::SetXattr, |state| {
            state.set_xattr(who, file, name, value, mode)
        })
    }

    async fn xattrs(&self, who: &Identity, file: FileIndex) -> Result<Vec<Vec<u8>>> {
        self.state.call(self.session, Call::Xattrs, |state| state.xattrs(who, file))
    }

    async fn remove_xattr(&self, who: &Identity, file: FileIndex, name: &[u8]) -> Result<()> {
        self.recall(Call::RemoveXattr, file, Need::Change).await?;
        self.state
            .call(self.session, Call::RemoveXattr, |state| state.remove_xattr(who, file, name))
    }

    async fn statfs(&self, _: &Identity, file: FileIndex) -> Result<StatFsReply> {
        self.state.call(self.session, Call::StatFs, |state| {
            state.inode(file)?;
            let free = ByteCount(DISK_BYTES.saturating_sub(state.bytes_used()));
            Ok(StatFsReply {
                total: ByteCount(DISK_BYTES),
                free,
                available: free,
                files: state.inodes.len() as u64,
                files_max: None,
                iods_up: 1,
                iods: 1,
            })
        })
    }

    async fn lock(&self, file: FileIndex, lock: Lock) -> Result<Option<LockConflict>> {
        let result = self.state.call(self.session, Call::Lock, |state| {
            state.inode(file)?;
            state.locks.request(self.wanted(file, lock))
        });
        let slow = self.state.lock().slow_lock.take();
        if let Some(slow) = slow {
            // An error: the sender was dropped.
            let _ = slow.await;
        }
        result
    }

    async fn lock_wait(
        &self,
        file: FileIndex,
        lock: Lock,
        cancel: &LockCancelHandle,
    ) -> Result<()> {
        let (wait, notify) = self.state.call(self.session, Call::LockWait, |state| {
            state.inode(file)?;
            // Under the mutex: a cancel after this finds the wait.
            if cancel.is_cancelled() {
                return Err(Status::Interrupted);
            }
            state.locks.begin_wait(self.wanted(file, lock), cancel)
        })?;
        let guard = WaitGuard { state: &self.state, wait };
        loop {
            let result = self.state.lock().locks.take_result(wait);
            match result {
                Some(result) => {
                    // The wait is not in the table any more.
                    drop(guard);
                    return result.map_err(|status| failed(Call::LockWait, status));
                }
                // The notification is kept if it comes before this.
                None => notify.notified().await,
            }
        }
    }

    async fn cancel_lock(&self, cancel: &LockCancelHandle) -> Result<()> {
        self.state.call(self.session, Call::CancelLock, |state| {
            cancel.cancel();
            state.locks.end_cancelled();
            Ok(())
        })
    }

    async fn test_lock(&self, file: FileIndex, lock: Lock) -> Result<Option<LockConflict>> {
        self.state.call(self.session, Call::TestLock, |state| {
            state.inode(file)?;
            state.locks.test(&self.wanted(file, lock))
        })
    }

    async fn unlock(&self, file: FileIndex, lock: Lock) -> Result<()> {
        self.state
            .call(self.session, Call::Unlock, |state| state.locks.unlock(&self.wanted(file, lock)))
    }

    async fn delegate(&self, file: FileIndex, write: bool) -> Result<bool> {
        self.state
            .call(self.session, Call::Delegate, |state| state.delegate(self.session, file, write))
    }

    async fn return_delegation(&self, file: FileIndex) -> Result<()> {
        self.state.call(self.session, Call::ReturnDelegation, |state| {
            state.delegations.return_one(self.session, file);
            Ok(())
        })
    }

    async fn reduce_delegation(&self, file: FileIndex) -> Result<bool> {
        self.state.call(self.session, Call::ReturnDelegation, |state| {
            Ok(state.delegations.reduce_one(self.session, file))
        })
    }

    async fn drop_delegations(&self) {
        self.state.lock().delegations.return_all(self.session);
    }

    async fn next_recall(&self) -> Option<DelegationRecall> {
        self.state.next_recall(self.session).await
    }

    async fn sync_directory(&self, dir: FileIndex) -> Result<()> {
        self.state.call(self.session, Call::SyncDirectory, |state| state.inode(dir).map(drop))
    }
}
