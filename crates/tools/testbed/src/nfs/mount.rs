//! Files of a mount: each method is one compound.

use std::{collections::HashMap, net::SocketAddr};

use braid_nfs_wire::nfs4::{
    ArgOp, Attributes, Bitmap, ClientId, EncodedAttributes, FileHandle, LockType, NfsFtype,
    NfsStatus, Payload, ResOp, ShareAccess, ShareDeny, StableHow, StateId, StateOwner, Verifier,
    args::*, attribute,
};
use bytes::Bytes;

use super::session::{NfsError, NfsSession, unexpected};

/// A client of a gateway.
#[derive(Debug)]
pub struct NfsMount {
    /// The session with the gateway.
    pub session: NfsSession,
    /// The name of the client, which data servers are shown, too.
    pub owner: String,
    /// The root directory.
    pub root: FileHandle,
    /// Sessions with data servers.
    pub data_servers: HashMap<SocketAddr, NfsSession>,
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
pub(super) use last;

impl NfsMount {
    /// A new client named `owner`.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn new(gateway: SocketAddr, owner: &str) -> Result<Self, NfsError> {
        let mut session = NfsSession::with_gateway(gateway, owner)?;
        let root = last!(GetFh, session, &[ArgOp::PutRootFh, ArgOp::GetFh])?.handle;
        Ok(Self { session, owner: owner.to_owned(), root, data_servers: HashMap::new() })
    }

    /// Begins again after a restart of the gateway. What is not reclaimed before
    /// [`NfsSession::reclaim_complete`] is lost.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn begin_again(&mut self, gateway: SocketAddr) -> Result<(), NfsError> {
        self.session = NfsSession::that_reclaims(gateway, &self.owner)?;
        Ok(())
    }

    /// Reclaims an open (`CLAIM_PREVIOUS`).
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn reclaim_open(
        &mut self,
        file: &mut NfsFile,
        (share_access, share_deny): (ShareAccess, ShareDeny),
    ) -> Result<(), NfsError> {
        let (owner, claim) = (state_owner("opens"), OpenClaim::Previous(DelegationType::None));
        let how = OpenHow::NoCreate;
        let open = OpenArgs { seqid: 0, share_access, share_deny, owner, how, claim };
        let opened = last!(Open, self.session, &[put(&file.handle), ArgOp::Open(open)])?;
        *file = NfsFile { open: opened.state_id, locks: None, ..file.clone() };
        Ok(())
    }

    /// Reclaims an exclusive lock. The open was reclaimed before.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn reclaim_lock(
        &mut self,
        file: &mut NfsFile,
        start: u64,
        bytes: u64,
    ) -> Result<(), NfsError> {
        let lock = lock_of(file, (LockType::Write, true), start, bytes);
        match self.session.last(&[put(&file.handle), lock])? {
            ResOp::Lock(Ok(locked)) => {
                file.locks = Some(locked.state_id);
                Ok(())
            }
            other => Err(unexpected(&other)),
        }
    }

    /// The handle of a name.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn look_up(&mut self, dir: &FileHandle, name: &str) -> Result<FileHandle, NfsError> {
        let look_up = ArgOp::Lookup(LookupArgs { name: text(name) });
        Ok(last!(GetFh, self.session, &[put(dir), look_up, ArgOp::GetFh])?.handle)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn make_directory(&mut self, dir: &FileHandle, name: &str) -> Result<FileHandle, NfsError> {
        let object = CreateObject::Other(NfsFtype::Directory);
        let attributes = encoded(&Attributes { mode: Some(0o777), ..Attributes::default() });
        let create = ArgOp::Create(CreateArgs { object, name: text(name), attributes });
        Ok(last!(GetFh, self.session, &[put(dir), create, ArgOp::GetFh])?.handle)
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
        self.open_as(dir, name, how, (ShareAccess::BOTH, ShareDeny::NONE))
    }

    /// Opens a file.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn open_as(
        &mut self,
        dir: &FileHandle,
        name: &str,
        how: OpenHow,
        (share_access, share_deny): (ShareAccess, ShareDeny),
    ) -> Result<NfsFile, NfsError> {
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

    /// Makes a file durable through the gateway.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn commit(&mut self, file: &NfsFile) -> Result<Verifier, NfsError> {
        let commit = ArgOp::Commit(CommitArgs { offset: 0, count: 0 });
        Ok(last!(Commit, self.session, &[put(&file.handle), commit])?.verifier)
    }

    /// Attributes of a file.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn attributes(
        &mut self,
        handle: &FileHandle,
        which: &[u32],
    ) -> Result<Attributes, NfsError> {
        let get = ArgOp::GetAttr(GetAttrArgs { attributes: Bitmap::of(which) });
        let known = last!(GetAttr, self.session, &[put(handle), get])?.attributes;
        Attributes::from_encoded(&known).map_err(|_| NfsError::Status(NfsStatus::BadXdr))
    }

    /// The size of a file.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn size(&mut self, handle: &FileHandle) -> Result<u64, NfsError> {
        let known = self.attributes(handle, &[attribute::SIZE])?.size;
        known.ok_or(NfsError::Status(NfsStatus::AttrNotSupp))
    }

    /// Changes the size of a file.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn set_size(&mut self, file: &NfsFile, size: u64) -> Result<(), NfsError> {
        let attributes = encoded(&Attributes { size: Some(size), ..Attributes::default() });
        let set = ArgOp::SetAttr(SetAttrArgs { state_id: file.open, attributes });
        self.session.run(&[put(&file.handle), set]).map(drop)
    }

    /// Removes a name.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn remove(&mut self, dir: &FileHandle, name: &str) -> Result<(), NfsError> {
        let remove = ArgOp::Remove(RemoveArgs { name: text(name) });
        self.session.run(&[put(dir), remove]).map(drop)
    }

    /// Renames within a directory.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn rename(&mut self, dir: &FileHandle, old: &str, new: &str) -> Result<(), NfsError> {
        let rename = RenameArgs { old_name: text(old), new_name: text(new) };
        self.session.run(&[put(dir), ArgOp::SaveFh, put(dir), ArgOp::Rename(rename)]).map(drop)
    }

    /// Renames across directories.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn rename_to(
        &mut self,
        (dir, old): (&FileHandle, &str),
        (new_dir, new): (&FileHandle, &str),
    ) -> Result<(), NfsError> {
        let rename = RenameArgs { old_name: text(old), new_name: text(new) };
        self.session.run(&[put(dir), ArgOp::SaveFh, put(new_dir), ArgOp::Rename(rename)]).map(drop)
    }

    /// The names in a directory that fits into one reply.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn list(&mut self, dir: &FileHandle) -> Result<Vec<String>, NfsError> {
        let list = ArgOp::ReadDir(ReadDirArgs {
            cookie: 0,
            verifier: Verifier([0; 8]),
            dir_count: 64 << 10,
            max_count: 64 << 10,
            attributes: Bitmap::new(),
        });
        let listed = last!(ReadDir, self.session, &[put(dir), list])?;
        if !listed.eof {
            return Err(NfsError::Status(NfsStatus::TooSmall));
        }
        let names = listed.entries.iter();
        Ok(names.map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect())
    }

    /// The change attribute of a file or directory.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn change(&mut self, handle: &FileHandle) -> Result<u64, NfsError> {
        let known = self.attributes(handle, &[attribute::CHANGE])?.change;
        known.ok_or(NfsError::Status(NfsStatus::AttrNotSupp))
    }

    /// Changes the mode of a file or directory.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn set_mode(&mut self, handle: &FileHandle, mode: u32) -> Result<(), NfsError> {
        let attributes = encoded(&Attributes { mode: Some(mode), ..Attributes::default() });
        let set = ArgOp::SetAttr(SetAttrArgs { state_id: StateId::ANONYMOUS, attributes });
        self.session.run(&[put(handle), set]).map(drop)
    }

    /// Requests an exclusive lock without waiting. `false`: another owner has it.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn lock(&mut self, file: &mut NfsFile, start: u64, bytes: u64) -> Result<bool, NfsError> {
        self.lock_as(file, LockType::Write, start, bytes)
    }

    /// Requests an exclusive lock. `false`: another owner has it, and the server sends
    /// CB_NOTIFY_LOCK when it is free.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn lock_or_wait(
        &mut self,
        file: &mut NfsFile,
        start: u64,
        bytes: u64,
    ) -> Result<bool, NfsError> {
        self.lock_as(file, LockType::WriteWaiting, start, bytes)
    }

    fn lock_as(
        &mut self,
        file: &mut NfsFile,
        lock_type: LockType,
        start: u64,
        bytes: u64,
    ) -> Result<bool, NfsError> {
        let lock = lock_of(file, (lock_type, false), start, bytes);
        match self.session.last(&[put(&file.handle), lock]) {
            Ok(ResOp::Lock(Ok(locked))) => {
                file.locks = Some(locked.state_id);
                Ok(true)
            }
            Ok(other) => Err(unexpected(&other)),
            Err(NfsError::Status(NfsStatus::Denied)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the file's lock owner could get an exclusive lock.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn may_lock(&mut self, file: &NfsFile, start: u64, bytes: u64) -> Result<bool, NfsError> {
        let (lock_type, owner) = (LockType::Write, state_owner("locks"));
        let test = LockTestArgs { lock_type, offset: start, length: bytes, owner };
        match self.session.run(&[put(&file.handle), ArgOp::LockTest(test)]) {
            Ok(_) => Ok(true),
            Err(NfsError::Status(NfsStatus::Denied)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Unlocks.
    ///
    /// # Errors
    /// [`NfsError`]; `BAD_STATEID` if nothing was ever locked.
    pub fn unlock(&mut self, file: &mut NfsFile, start: u64, bytes: u64) -> Result<(), NfsError> {
        let state_id = file.locks.ok_or(NfsError::Status(NfsStatus::BadStateId))?;
        let (lock_type, offset, length) = (LockType::Write, start, bytes);
        let unlock = LockUnlockArgs { lock_type, seqid: 0, state_id, offset, length };
        let unlock = [put(&file.handle), ArgOp::LockUnlock(unlock)];
        file.locks = Some(last!(LockUnlock, self.session, &unlock)?.state_id);
        Ok(())
    }
}

/// PUTFH.
pub(super) fn put(handle: &FileHandle) -> ArgOp {
    ArgOp::PutFh(PutFhArgs { handle: handle.clone() })
}

/// LOCK of the file's only lock owner.
fn lock_of(
    file: &NfsFile,
    (lock_type, reclaim): (LockType, bool),
    offset: u64,
    length: u64,
) -> ArgOp {
    let locker = match file.locks {
        Some(state_id) => Locker::Existing(ExistingLocker { state_id, lock_seqid: 0 }),
        None => Locker::New(NewLocker {
            open_seqid: 0,
            open_state_id: file.open,
            lock_seqid: 0,
            owner: state_owner("locks"),
        }),
    };
    ArgOp::Lock(LockArgs { lock_type, reclaim, offset, length, locker })
}

/// The bytes of a READ.
pub(super) fn read_bytes(data: Payload) -> Result<Bytes, NfsError> {
    match data {
        Payload::Bytes(bytes) => Ok(bytes),
        Payload::External(_) => Err(NfsError::Status(NfsStatus::BadXdr)),
    }
}

fn encoded(attributes: &Attributes) -> EncodedAttributes {
    attributes.to_encoded(&attributes.mask())
}

pub(super) fn state_owner(name: &str) -> StateOwner {
    StateOwner { client_id: ClientId(0), owner: text(name) }
}

pub(super) fn text(name: &str) -> Bytes {
    name.to_owned().into()
}
