//! The session of a protocol client.

use std::sync::Arc;

use braid_share::{
    AdoptedOpen, AttributeChanges, Attributes, DelegationRecall, DirectoryChange, FileIndex,
    FileKind, Identity, Listing, Lock, LockCancelHandle, LockConflict, OpenMode, OpenTarget,
    Opened, RenameMode, Result, SessionId, ShareClient, StatFsReply, Status, Timestamp, XattrMode,
    nfs4_acl::Nfs4Acl, tables::Wanted,
};

use crate::{
    file::UnionFile,
    service::{Service, failed},
    status::OrStatus,
};

/// The session of a protocol client. It lives until it ends, whether clones of this exist or not.
#[derive(Clone, Debug)]
pub struct UnionClient {
    service: Arc<Service>,
    session: SessionId,
}

impl UnionClient {
    pub(crate) fn new(service: Arc<Service>, session: SessionId) -> Self {
        Self { service, session }
    }

    async fn run<T: Send + 'static>(
        &self,
        call: &'static str,
        run: impl FnOnce(&Service) -> braid_share::tables::Outcome<T> + Send + 'static,
    ) -> Result<T> {
        self.service.run(self.session, call, run).await
    }
}

impl ShareClient for UnionClient {
    type File = UnionFile;

    fn session(&self) -> SessionId {
        self.session
    }

    async fn end(self) {
        let session = self.session;
        let _ = self
            .run("end", move |service| {
                service.end_session(session);
                Ok(())
            })
            .await;
    }

    async fn leave(self) {
        // No start can continue a session of this one.
        self.end().await;
    }

    async fn look_up(&self, who: &Identity, dir: FileIndex, name: &[u8]) -> Result<Attributes> {
        let (who, name) = (who.clone(), name.to_vec());
        self.run("look up", move |service| service.look_up(&who, dir, &name)).await
    }

    async fn look_up_folded(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
    ) -> Result<(Vec<u8>, Attributes)> {
        let (who, name) = (who.clone(), name.to_vec());
        self.run("look up", move |service| service.look_up_folded(&who, dir, &name)).await
    }

    async fn parent(&self, who: &Identity, dir: FileIndex) -> Result<Attributes> {
        let who = who.clone();
        self.run("parent", move |service| service.parent(&who, dir)).await
    }

    async fn attributes(&self, _: &Identity, file: FileIndex) -> Result<Attributes> {
        self.run("attributes", move |service| service.attributes(file)).await
    }

    async fn set_attributes(
        &self,
        who: &Identity,
        file: FileIndex,
        changes: AttributeChanges,
    ) -> Result<Attributes> {
        let (who, session) = (who.clone(), self.session);
        self.run("set attributes", move |service| {
            service.set_attributes(&who, session, file, &changes)
        })
        .await
    }

    async fn set_attributes_and_birth(
        &self,
        _: &Identity,
        file: FileIndex,
        _: AttributeChanges,
        _: Timestamp,
    ) -> Result<Attributes> {
        self.run("set the time of creation", move |service| {
            service.files.node(file)?;
            Err(Status::Unsupported)
        })
        .await
    }

    async fn set_attributes_and_acl(
        &self,
        _: &Identity,
        file: FileIndex,
        _: AttributeChanges,
        _: &Nfs4Acl,
    ) -> Result<Attributes> {
        self.run("set an access control list", move |service| {
            service.files.node(file)?;
            Err(Status::Unsupported)
        })
        .await
    }

    async fn nfs4_acl(&self, _: &Identity, known: &Attributes) -> Result<Nfs4Acl> {
        let known = known.clone();
        self.run("access control list", move |service| service.nfs4_acl(&known)).await
    }

    async fn access(&self, who: &Identity, file: FileIndex, wanted: u8) -> Result<u8> {
        let who = who.clone();
        self.run("access", move |service| service.access(&who, file, wanted)).await
    }

    async fn read_link(&self, _: &Identity, file: FileIndex) -> Result<Vec<u8>> {
        self.run("read link", move |service| service.read_link(file)).await
    }

    async fn list(
        &self,
        who: &Identity,
        dir: FileIndex,
        cookie: u64,
        bytes_max: u32,
        with_attributes: bool,
    ) -> Result<Listing> {
        let who = who.clone();
        self.run("list", move |service| service.list(&who, dir, cookie, bytes_max, with_attributes))
            .await
    }

    async fn make_directory(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        mode: u32,
    ) -> Result<(Attributes, DirectoryChange)> {
        let (who, name) = (who.clone(), name.to_vec());
        self.run("mkdir", move |service| service.make_directory(&who, dir, &name, mode)).await
    }

    async fn make_symlink(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        target: &[u8],
    ) -> Result<(Attributes, DirectoryChange)> {
        let (who, name, target) = (who.clone(), name.to_vec(), target.to_vec());
        self.run("symlink", move |service| service.make_symlink(&who, dir, &name, &target)).await
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
        let (who, name) = (who.clone(), name.to_vec());
        self.run("mknod", move |service| service.make_node(&who, (dir, &name), kind, mode, device))
            .await
    }

    async fn link(
        &self,
        who: &Identity,
        file: FileIndex,
        dir: FileIndex,
        name: &[u8],
    ) -> Result<(Attributes, DirectoryChange)> {
        let (who, name) = (who.clone(), name.to_vec());
        self.run("link", move |service| service.link(&who, file, dir, &name)).await
    }

    async fn remove(&self, who: &Identity, dir: FileIndex, name: &[u8]) -> Result<DirectoryChange> {
        let (who, name) = (who.clone(), name.to_vec());
        self.run("remove", move |service| service.remove(&who, dir, &name)).await
    }

    async fn rename(
        &self,
        who: &Identity,
        from: (FileIndex, &[u8]),
        to: (FileIndex, &[u8]),
        mode: RenameMode,
    ) -> Result<(DirectoryChange, DirectoryChange)> {
        let who = who.clone();
        let (from, to) = ((from.0, from.1.to_vec()), (to.0, to.1.to_vec()));
        self.run("rename", move |service| {
            service.rename(&who, (from.0, &from.1), (to.0, &to.1), mode)
        })
        .await
    }

    async fn open(
        &self,
        who: &Identity,
        target: OpenTarget,
        mode: OpenMode,
    ) -> Result<Opened<UnionFile>> {
        let (who, session, shared) = (who.clone(), self.session, Arc::clone(&self.service));
        self.run("open", move |service| {
            let opened = service.open(&who, session, &target, mode)?;
            let index = opened.attributes.file;
            // Made here, so that the open is closed if its caller has gone away.
            let file = UnionFile::new(shared, session, index, opened.id);
            let (attributes, created) = (opened.attributes, opened.created);
            Ok(Opened { file, attributes, created, directory: opened.directory })
        })
        .await
    }

    async fn reclaim_open(&self, _: &Identity, _: AdoptedOpen) -> Result<UnionFile> {
        Err(failed("reclaim an open", Status::StaleHandle))
    }

    async fn release_open(&self, _: AdoptedOpen) -> Result<()> {
        Ok(())
    }

    async fn xattr(&self, who: &Identity, file: FileIndex, name: &[u8]) -> Result<Vec<u8>> {
        let (who, name) = (who.clone(), name.to_vec());
        self.run("xattr", move |service| service.xattr(&who, file, &name)).await
    }

    async fn set_xattr(
        &self,
        who: &Identity,
        file: FileIndex,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        let (who, name, value) = (who.clone(), name.to_vec(), value.to_vec());
        self.run("set xattr", move |service| service.set_xattr(&who, file, &name, &value, mode))
            .await
    }

    async fn xattrs(&self, who: &Identity, file: FileIndex) -> Result<Vec<Vec<u8>>> {
        let who = who.clone();
        self.run("list xattrs", move |service| service.xattrs(&who, file)).await
    }

    async fn remove_xattr(&self, who: &Identity, file: FileIndex, name: &[u8]) -> Result<()> {
        let (who, name) = (who.clone(), name.to_vec());
        self.run("remove xattr", move |service| service.remove_xattr(&who, file, &name)).await
    }

    async fn statfs(&self, _: &Identity, file: FileIndex) -> Result<StatFsReply> {
        self.run("statfs", move |service| service.space(file)).await
    }

    async fn lock(&self, file: FileIndex, lock: Lock) -> Result<Option<LockConflict>> {
        let session = self.session;
        self.run("lock", move |service| service.lock(session, file, lock)).await
    }

    async fn lock_wait(
        &self,
        file: FileIndex,
        lock: Lock,
        cancel: &LockCancelHandle,
    ) -> Result<()> {
        self.service.lock_wait(self.session, file, lock, cancel).await
    }

    async fn cancel_lock(&self, cancel: &LockCancelHandle) -> Result<()> {
        let mut sessions = self.service.sessions();
        sessions.check(self.session).map_err(|status| failed("cancel a lock", status))?;
        cancel.cancel();
        sessions.locks.end_cancelled();
        Ok(())
    }

    async fn test_lock(&self, file: FileIndex, lock: Lock) -> Result<Option<LockConflict>> {
        let session = self.session;
        self.run("test a lock", move |service| service.test_lock(session, file, lock)).await
    }

    async fn unlock(&self, file: FileIndex, lock: Lock) -> Result<()> {
        let session = self.session;
        let mut sessions = self.service.sessions();
        let done = sessions
            .check(session)
            .and_then(|()| sessions.locks.unlock(&Wanted { file, session, lock }));
        done.map_err(|status| failed("unlock", status))
    }

    async fn delegate(&self, file: FileIndex, _: bool) -> Result<bool> {
        // Programs on the mount could not recall one.
        self.run("delegate", move |service| service.files.node(file).map(|_| false)).await
    }

    async fn return_delegation(&self, _: FileIndex) -> Result<()> {
        Ok(())
    }

    async fn reduce_delegation(&self, _: FileIndex) -> Result<bool> {
        Ok(false)
    }

    async fn drop_delegations(&self) {}

    async fn next_recall(&self) -> Option<DelegationRecall> {
        loop {
            let ended = Arc::clone(&self.service.sessions().ended);
            let mut ended = std::pin::pin!(ended.notified());
            // Before the check, so that no end is missed.
            ended.as_mut().enable();
            if self.service.sessions().check(self.session).is_err() {
                return None;
            }
            ended.await;
        }
    }

    async fn sync_directory(&self, dir: FileIndex) -> Result<()> {
        self.run("sync a directory", move |service| {
            let node = service.directory(dir)?;
            service.union.sync_directory(node.node).or_status()
        })
        .await
    }
}
