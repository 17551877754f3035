//! Files of a mount: each method is one compound.

use std::net::SocketAddr;

use braid_nfs_wire::nfs4::{
    ArgOp, Attributes, ClientId, EncodedAttributes, FileHandle, LockType, NfsStatus, Payload,
    ResOp, ShareAccess, ShareDeny, StableHow, StateId, StateOwner, Verifier, args::*,
};
use bytes::Bytes;

use super::session::{NfsError, NfsSession, unexpected};

/// A client of a gateway.
#[derive(Debug)]
pub struct NfsMount {
    /// The session with the gateway.
    pub session: NfsSession,
    /// The root directory.
    pub root: FileHandle,
}

/// A file that is open to read and write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NfsFile {
    /// The file.
    pub handle: FileHandle,
    /// The open.
    pub open: StateId,
    /// The locks of the file's only lock owner.
    pub locks: Option<StateId>,
}

/// A value of the last result.
macro_rules! last {
    ($op:ident, $session:expr, $ops:expr) => {
        match $session.last($ops)? {
            ResOp::$op(value) => value.map_err(NfsError::from),
            other => Err(unexpected(&other)),
        }
    };
}

impl NfsMount {
    /// A new client named `owner`.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn new(gateway: SocketAddr, owner: &str) -> Result<Self, NfsError> {
        let mut session = NfsSession::with_gateway(gateway, owner)?;
        let root = last!(GetFh, session, &[ArgOp::PutRootFh, ArgOp::GetFh])?.handle;
        Ok(Self { session, root })
    }

    /// Opens a file to read and write, which is created with `create` if it does not exist.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn open(
        &mut self,
        dir: &FileHandle,
        name: &str,
        create: bool,
    ) -> Result<NfsFile, NfsError> {
        let mode = encoded(&Attributes { mode: Some(0o666), ..Attributes::default() });
        let how =
            if create { OpenHow::Create(CreateHow::Unchecked(mode)) } else { OpenHow::NoCreate };
        let (share_access, share_deny) = (ShareAccess::BOTH, ShareDeny::NONE);
        let (owner, claim) = (state_owner("opens"), OpenClaim::Null(text(name)));
        let open = OpenArgs { seqid: 0, share_access, share_deny, owner, how, claim };
        let mut results = self.session.run(&[put(dir), ArgOp::Open(open), ArgOp::GetFh])?;
        match (results.pop(), results.pop()) {
            (Some(ResOp::GetFh(Ok(handle))), Some(ResOp::Open(Ok(opened)))) => {
                Ok(NfsFile { handle: handle.handle, open: opened.state_id, locks: None })
            }
            other => Err(unexpected(&other.0.unwrap_or(ResOp::Illegal(NfsStatus::Ok)))),
        }
    }

    /// Closes a file.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn close(&mut self, file: &NfsFile) -> Result<(), NfsError> {
        let close = ArgOp::Close(CloseArgs { seqid: 0, state_id: file.open });
        self.session.run(&[put(&file.handle), close]).map(drop)
    }

    /// Reads through the gateway.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn read(&mut self, file: &NfsFile, offset: u64, count: u32) -> Result<Bytes, NfsError> {
        let read = ArgOp::Read(ReadArgs { state_id: file.open, offset, count });
        read_bytes(last!(Read, self.session, &[put(&file.handle), read])?.data)
    }

    /// Writes through the gateway: how many bytes, and the verifier.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn write(
        &mut self,
        file: &NfsFile,
        offset: u64,
        data: Bytes,
        stable: StableHow,
    ) -> Result<(u32, Verifier), NfsError> {
        let write = ArgOp::Write(WriteArgs { state_id: file.open, offset, stable, data });
        let written = last!(Write, self.session, &[put(&file.handle), write])?;
        Ok((written.count, written.verifier))
    }

    /// Renames within a directory.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn rename(&mut self, dir: &FileHandle, old: &str, new: &str) -> Result<(), NfsError> {
        let rename = RenameArgs { old_name: text(old), new_name: text(new) };
        self.session.run(&[put(dir), ArgOp::SaveFh, put(dir), ArgOp::Rename(rename)]).map(drop)
    }

    /// Requests an exclusive lock without waiting. `false`: another owner has it.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn lock(&mut self, file: &mut NfsFile, start: u64, bytes: u64) -> Result<bool, NfsError> {
        let locker = match file.locks {
            Some(state_id) => Locker::Existing(ExistingLocker { state_id, lock_seqid: 0 }),
            None => Locker::New(NewLocker {
                open_seqid: 0,
                open_state_id: file.open,
                lock_seqid: 0,
                owner: state_owner("locks"),
            }),
        };
        let lock_type = LockType::Write;
        let (offset, length) = (start, bytes);
        let lock = LockArgs { lock_type, reclaim: false, offset, length, locker };
        match self.session.last(&[put(&file.handle), ArgOp::Lock(lock)]) {
            Ok(ResOp::Lock(Ok(locked))) => {
                file.locks = Some(locked.state_id);
                Ok(true)
            }
            Ok(other) => Err(unexpected(&other)),
            Err(NfsError::Status(NfsStatus::Denied)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// PUTFH.
fn put(handle: &FileHandle) -> ArgOp {
    ArgOp::PutFh(PutFhArgs { handle: handle.clone() })
}

/// The bytes of a READ.
fn read_bytes(data: Payload) -> Result<Bytes, NfsError> {
    match data {
        Payload::Bytes(bytes) => Ok(bytes),
        Payload::External(_) => Err(NfsError::Status(NfsStatus::BadXdr)),
    }
}

fn encoded(attributes: &Attributes) -> EncodedAttributes {
    attributes.to_encoded(&attributes.mask())
}

fn state_owner(name: &str) -> StateOwner {
    StateOwner { client_id: ClientId(0), owner: text(name) }
}

fn text(name: &str) -> Bytes {
    name.to_owned().into()
}
