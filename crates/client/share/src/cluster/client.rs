//! The session of a protocol client.

use std::sync::Arc;

use braid_client::message::mds::ReclaimedOpen;
use braid_types::{FileIndex, SessionId, Status, Timestamp, nfs4_acl::Nfs4Acl};

use super::{
    ClusterFile, direct_access,
    names::check,
    open,
    session::{Client, Session},
};
use crate::{
    AdoptedOpen, AttributeChanges, Attributes, DataServer, DelegationRecall, DirectoryChange,
    FileKind, Identity, Listing, Lock, LockCancelHandle, LockConflict, OpenMode, OpenTarget,
    Opened, RenameMode, Result, ShareClient, StatFsReply, XattrMode,
};

/// The session of a protocol client. It ends with the last clone, if [`ShareClient::end`] did not
/// end it before.
#[derive(Clone, Debug)]
pub struct ClusterClient(Arc<Session>);

impl ClusterClient {
    pub(super) fn new(session: Arc<Session>) -> Self {
        Self(session)
    }

    /// The client of the library, with the gateway's own identity.
    pub(super) fn library(&self) -> &Client {
        self.0.client()
    }

    /// As [`crate::Share::data_servers`].
    pub(super) async fn data_servers(&self) -> Result<Vec<DataServer>> {
        self.0.run(direct_access::data_servers(self.0.client())).await
    }
}

impl ShareClient for ClusterClient {
    type File = ClusterFile;

    fn session(&self) -> SessionId {
        self.0.id()
    }

    async fn end(self) {
        self.0.end().await;
    }

    async fn leave(self) {
        self.0.leave().await;
    }

    async fn look_up(&self, who: &Identity, dir: FileIndex, name: &[u8]) -> Result<Attributes> {
        check(name)?;
        self.0.run_as(who, async |user: Client| user.lstat((dir, name)).await).await
    }

    async fn look_up_folded(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
    ) -> Result<(Vec<u8>, Attributes)> {
        check(name)?;
        let found = self.0.run_as(who, async |user: Client| user.look_up_folded((dir, name)).await);
        match found.await {
            Ok(found) => Ok((found.name, found.attributes)),
            // An older server knows no such call (I10).
            Err(error)
                if matches!(error.status(), Status::UnknownMessage | Status::Unsupported) =>
            {
                Err(crate::Error::new(Status::NotFound, "a name that differs only in case"))
            }
            Err(error) => Err(error),
        }
    }

    async fn parent(&self, who: &Identity, dir: FileIndex) -> Result<Attributes> {
        self.0.run_as(who, async |user: Client| user.lstat((dir, b"..")).await).await
    }

    async fn attributes(&self, who: &Identity, file: FileIndex) -> Result<Attributes> {
        self.0.run_as(who, async |user: Client| user.lstat(file).await).await
    }

    async fn set_attributes(
        &self,
        who: &Identity,
        file: FileIndex,
        changes: AttributeChanges,
    ) -> Result<Attributes> {
        self.0.set_attributes(who, file, changes).await
    }

    async fn set_attributes_and_birth(
        &self,
        who: &Identity,
        file: FileIndex,
        changes: AttributeChanges,
        btime: Timestamp,
    ) -> Result<Attributes> {
        self.0.set_attributes_and_birth(who, file, changes, btime).await
    }

    async fn set_attributes_and_acl(
        &self,
        who: &Identity,
        file: FileIndex,
        changes: AttributeChanges,
        list: &Nfs4Acl,
    ) -> Result<Attributes> {
        self.0.set_attributes_and_acl(who, file, changes, list).await
    }

    async fn nfs4_acl(&self, who: &Identity, known: &Attributes) -> Result<Nfs4Acl> {
        self.0.nfs4_acl(who, known).await
    }

    async fn access(&self, who: &Identity, file: FileIndex, wanted: u8) -> Result<u8> {
        self.0.access(who, file, wanted).await
    }

    async fn access_of(&self, who: &Identity, known: &Attributes, wanted: u8) -> Result<u8> {
        self.0.run(self.0.access_of(who, known, wanted)).await
    }

    async fn read_link(&self, who: &Identity, file: FileIndex) -> Result<Vec<u8>> {
        self.0.run_as(who, async |user: Client| user.read_link(file).await).await
    }

    async fn list(
        &self,
        who: &Identity,
        dir: FileIndex,
        cookie: u64,
        bytes_max: u32,
        with_attributes: bool,
    ) -> Result<Listing> {
        self.0.list(who, dir, cookie, bytes_max, with_attributes).await
    }

    async fn make_directory(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        mode: u32,
    ) -> Result<(Attributes, DirectoryChange)> {
        self.0.make_directory(who, dir, name, mode).await
    }

    async fn make_symlink(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        target: &[u8],
    ) -> Result<(Attributes, DirectoryChange)> {
        self.0.make_symlink(who, dir, name, target).await
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
        self.0.make_node(who, (dir, name), kind, mode, device).await
    }

    async fn link(
        &self,
        who: &Identity,
        file: FileIndex,
        dir: FileIndex,
        name: &[u8],
    ) -> Result<(Attributes, DirectoryChange)> {
        self.0.link(who, file, dir, name).await
    }

    async fn remove(&self, who: &Identity, dir: FileIndex, name: &[u8]) -> Result<DirectoryChange> {
        self.0.remove(who, dir, name).await
    }

    async fn rename(
        &self,
        who: &Identity,
        from: (FileIndex, &[u8]),
        to: (FileIndex, &[u8]),
        mode: RenameMode,
    ) -> Result<(DirectoryChange, DirectoryChange)> {
        self.0.rename(who, from, to, mode).await
    }

    async fn open(
        &self,
        who: &Identity,
        target: OpenTarget,
        mode: OpenMode,
    ) -> Result<Opened<ClusterFile>> {
        open::open(&self.0, who, &target, mode).await
    }

    async fn reclaim_open(&self, who: &Identity, open: AdoptedOpen) -> Result<ClusterFile> {
        let named = ReclaimedOpen {
            open_id: open.number,
            file: open.file,
            rights: open.mode.rights,
            deny: open.mode.deny,
        };
        let file = self.0.run_as(who, async |user: Client| user.open_adopted(named).await).await?;
        Ok(ClusterFile::new(&self.0, file))
    }

    async fn release_open(&self, open: AdoptedOpen) -> Result<()> {
        self.0.run(self.0.client().close_adopted(open.number)).await
    }

    async fn xattr(&self, who: &Identity, file: FileIndex, name: &[u8]) -> Result<Vec<u8>> {
        self.0.run_as(who, async |user: Client| user.xattr(file, name).await).await
    }

    async fn set_xattr(
        &self,
        who: &Identity,
        file: FileIndex,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.0.run_as(who, async |user: Client| user.set_xattr(file, name, value, mode).await).await
    }

    async fn xattrs(&self, who: &Identity, file: FileIndex) -> Result<Vec<Vec<u8>>> {
        self.0.run_as(who, async |user: Client| user.xattrs(file).await).await
    }

    async fn remove_xattr(&self, who: &Identity, file: FileIndex, name: &[u8]) -> Result<()> {
        self.0.run_as(who, async |user: Client| user.remove_xattr(file, name).await).await
    }

    async fn statfs(&self, who: &Identity, file: FileIndex) -> Result<StatFsReply> {
        self.0.run_as(who, async |user: Client| user.statfs(file).await).await
    }

    async fn lock(&self, file: FileIndex, lock: Lock) -> Result<Option<LockConflict>> {
        self.0.lock(file, lock).await
    }

    async fn lock_wait(
        &self,
        file: FileIndex,
        lock: Lock,
        cancel: &LockCancelHandle,
    ) -> Result<()> {
        self.0.lock_wait(file, lock, cancel).await
    }

    async fn cancel_lock(&self, cancel: &LockCancelHandle) -> Result<()> {
        self.0.cancel_lock(cancel).await
    }

    async fn test_lock(&self, file: FileIndex, lock: Lock) -> Result<Option<LockConflict>> {
        self.0.test_lock(file, lock).await
    }

    async fn unlock(&self, file: FileIndex, lock: Lock) -> Result<()> {
        self.0.unlock(file, lock).await
    }

    async fn delegate(&self, file: FileIndex, write: bool) -> Result<bool> {
        self.0.delegate(file, write).await
    }

    async fn return_delegation(&self, file: FileIndex) -> Result<()> {
        self.0.return_delegation(file).await
    }

    async fn reduce_delegation(&self, file: FileIndex) -> Result<bool> {
        self.0.reduce_delegation(file).await
    }

    async fn drop_delegations(&self) {
        self.0.drop_delegations();
    }

    async fn next_recall(&self) -> Option<DelegationRecall> {
        self.0.next_recall().await
    }

    async fn sync_directory(&self, dir: FileIndex) -> Result<()> {
        self.0.run(self.0.client().sync_directory(dir)).await
    }
}
