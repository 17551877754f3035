//! A client as a mount uses it: a session that obtains opens and locks, and short names for
//! operations.

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;
use bytes::Bytes;

use crate::client::{CompoundResult, Connection, Session};
use crate::last;
use crate::server::TestServer;

/// A client of minor version 2 that has sent RECLAIM_COMPLETE.
pub struct Mount {
    pub connection: Connection,
    pub session: Session,
}

/// A file that a client has open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenFile {
    pub handle: FileHandle,
    pub id: StateId,
}

impl OpenFile {
    /// An operation on the file.
    pub fn op(&self, op: ArgOp) -> [ArgOp; 2] {
        at(&self.handle, op)
    }
}

impl Mount {
    pub async fn new(server: &TestServer, owner: &str) -> Self {
        Self::over(server.connect().await, owner).await
    }

    /// As [`Mount::new`], over a connection.
    pub async fn over(connection: Connection, owner: &str) -> Self {
        let mut mount = Self::begin(connection, owner).await;
        let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        assert_eq!(mount.status([complete]).await, NfsStatus::Ok);
        mount
    }

    pub async fn without_reclaim_complete(server: &TestServer, owner: &str) -> Self {
        Self::begin(server.connect().await, owner).await
    }

    async fn begin(mut connection: Connection, owner: &str) -> Self {
        connection.minor_version = 2;
        let session = connection.session(owner).await;
        Self { connection, session }
    }

    /// A compound after SEQUENCE.
    pub async fn run(&mut self, ops: impl IntoIterator<Item = ArgOp>) -> CompoundResult {
        let ops = self.session.ops(ops);
        self.connection.compound(&ops).await
    }

    /// The status of a compound after SEQUENCE.
    pub async fn status(&mut self, ops: impl IntoIterator<Item = ArgOp>) -> NfsStatus {
        self.run(ops).await.status
    }

    /// The handle after these operations.
    pub async fn handle(&mut self, ops: impl IntoIterator<Item = ArgOp>) -> FileHandle {
        last!(GetFh, self.run(ops.into_iter().chain([ArgOp::GetFh])).await).handle
    }

    /// The handle of the root directory.
    pub async fn root(&mut self) -> FileHandle {
        self.handle([ArgOp::PutRootFh]).await
    }

    /// OPEN of a name in the root directory.
    pub async fn open(&mut self, open: ArgOp) -> NfsResult<OpenFile> {
        let mut result = self.run([ArgOp::PutRootFh, open, ArgOp::GetFh]).await;
        match (result.results.pop(), result.results.pop()) {
            (Some(ResOp::GetFh(Ok(handle))), Some(ResOp::Open(Ok(opened)))) => {
                Ok(OpenFile { handle: handle.handle, id: opened.state_id })
            }
            _ => Err(result.status),
        }
    }

    /// Creates or opens a file in the root directory to read and write.
    pub async fn create(&mut self, name: &str) -> OpenFile {
        self.open(open(name, ShareAccess::BOTH, ShareDeny::NONE).create()).await.unwrap()
    }

    /// CLOSE.
    pub async fn close(&mut self, file: &OpenFile) -> NfsStatus {
        self.status(file.op(close(file.id))).await
    }

    /// Makes a directory in the root directory.
    pub async fn make_directory(&mut self, name: &str) -> FileHandle {
        self.handle([ArgOp::PutRootFh, create(CreateObject::Other(NfsFtype::Directory), name)])
            .await
    }

    /// Makes a symbolic link in the root directory.
    pub async fn make_symlink(&mut self, name: &str) -> FileHandle {
        let link = CreateObject::Link(Bytes::from_static(b"target"));
        self.handle([ArgOp::PutRootFh, create(link, name)]).await
    }

    /// Some attributes of a file.
    pub async fn attributes(&mut self, handle: &FileHandle, which: &[u32]) -> Attributes {
        let args = GetAttrArgs { attributes: Bitmap::of(which) };
        let result = self.run(at(handle, ArgOp::GetAttr(args))).await;
        Attributes::from_encoded(&last!(GetAttr, result).attributes).unwrap()
    }
}

/// An operation on a file.
pub fn at(handle: &FileHandle, op: ArgOp) -> [ArgOp; 2] {
    [put(handle), op]
}

pub fn put(handle: &FileHandle) -> ArgOp {
    ArgOp::PutFh(PutFhArgs { handle: handle.clone() })
}

pub fn look_up(name: &str) -> ArgOp {
    ArgOp::Lookup(LookupArgs { name: name.to_owned().into() })
}

/// Attributes in the form of arguments.
pub fn encoded(attributes: &Attributes) -> EncodedAttributes {
    attributes.to_encoded(&attributes.mask())
}

/// CREATE with mode 0755.
pub fn create(object: CreateObject, name: &str) -> ArgOp {
    let mode = Attributes { mode: Some(0o755), ..Attributes::default() };
    let name = name.to_owned().into();
    ArgOp::Create(CreateArgs { object, name, attributes: encoded(&mode) })
}

/// OPEN of a name, without creation, by the owner `owner`.
pub fn open(name: &str, access: ShareAccess, deny: ShareDeny) -> ArgOp {
    ArgOp::Open(OpenArgs {
        seqid: 0,
        share_access: access,
        share_deny: deny,
        owner: owner("owner"),
        how: OpenHow::NoCreate,
        claim: OpenClaim::Null(name.to_owned().into()),
    })
}

pub fn owner(name: &str) -> StateOwner {
    StateOwner { client_id: ClientId(0), owner: name.to_owned().into() }
}

/// Changes of an OPEN.
pub trait OpenOp {
    fn how(self, how: OpenHow) -> Self;
    fn by(self, owner: &str) -> Self;
    fn create(self) -> Self;
}

impl OpenOp for ArgOp {
    fn how(mut self, how: OpenHow) -> Self {
        match &mut self {
            Self::Open(args) => args.how = how,
            other => panic!("{other:?}"),
        }
        self
    }

    fn by(mut self, name: &str) -> Self {
        match &mut self {
            Self::Open(args) => args.owner = owner(name),
            other => panic!("{other:?}"),
        }
        self
    }

    fn create(self) -> Self {
        let mode = Attributes { mode: Some(0o666), ..Attributes::default() };
        self.how(OpenHow::Create(CreateHow::Unchecked(encoded(&mode))))
    }
}

pub fn close(state_id: StateId) -> ArgOp {
    ArgOp::Close(CloseArgs { seqid: 0, state_id })
}

pub fn read(state_id: StateId, offset: u64, count: u32) -> ArgOp {
    ArgOp::Read(ReadArgs { state_id, offset, count })
}

pub fn write(state_id: StateId, offset: u64, data: &'static [u8]) -> ArgOp {
    let (stable, data) = (StableHow::Unstable, Bytes::from_static(data));
    ArgOp::Write(WriteArgs { state_id, offset, stable, data })
}

/// SETATTR of the size.
pub fn set_size(state_id: StateId, size: u64) -> ArgOp {
    let size = Attributes { size: Some(size), ..Attributes::default() };
    ArgOp::SetAttr(SetAttrArgs { state_id, attributes: encoded(&size) })
}

/// LOCK of an owner that has no locks of the file yet.
pub fn lock(open: StateId, by: &str, lock_type: LockType, offset: u64, length: u64) -> ArgOp {
    let new = NewLocker { open_seqid: 0, open_state_id: open, lock_seqid: 0, owner: owner(by) };
    let locker = Locker::New(new);
    ArgOp::Lock(LockArgs { lock_type, reclaim: false, offset, length, locker })
}

/// LOCK of an owner that has locks of the file.
pub fn lock_more(state_id: StateId, lock_type: LockType, offset: u64, length: u64) -> ArgOp {
    let locker = Locker::Existing(ExistingLocker { state_id, lock_seqid: 0 });
    ArgOp::Lock(LockArgs { lock_type, reclaim: false, offset, length, locker })
}

pub fn test_lock(by: &str, lock_type: LockType, offset: u64, length: u64) -> ArgOp {
    ArgOp::LockTest(LockTestArgs { lock_type, offset, length, owner: owner(by) })
}

pub fn unlock(state_id: StateId, offset: u64, length: u64) -> ArgOp {
    let lock_type = LockType::Write;
    ArgOp::LockUnlock(LockUnlockArgs { lock_type, seqid: 0, state_id, offset, length })
}
