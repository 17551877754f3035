//! The traits that gateways are written against.

use std::fmt;
use std::future::Future;

use braid_types::{FileIndex, SessionId, Timestamp, nfs4_acl::Nfs4Acl};
use bytes::Bytes;

use crate::{
    Result,
    types::{
        AdoptedClient, AdoptedOpen, AttributeChanges, Attributes, ClientRecord, DataServer,
        DelegationRecall, DirectAccess, DirectoryChange, FileKind, FileSystemId, Identity, Listing,
        Lock, LockCancelHandle, LockConflict, OpenMode, OpenTarget, Opened, ReadResult, RenameMode,
        StatFsReply, Verifier, WriteResult, XattrMode,
    },
};

/// A file system that a gateway serves.
///
/// All calls end within the time-out of the cluster's client (I8), except
/// [`ShareClient::lock_wait`], which the caller cancels.
pub trait Share: Clone + Send + Sync + 'static {
    /// The session of one protocol client.
    type Client: ShareClient;

    /// Identifies the file system; the same for all gateways, and after restarts.
    fn file_system(&self) -> FileSystemId;

    /// A number that no other running or earlier gateway of this file system has.
    fn gateway_id(&self) -> u64;

    /// The session of the gateway itself, for what belongs to no client: paths of exports.
    fn own_client(&self) -> Self::Client;

    /// The I/O daemons that serve files to clients of another protocol now, those that are drained
    /// included.
    fn data_servers(&self) -> impl Future<Output = Result<Vec<DataServer>>> + Send;

    /// Begins a session for a protocol client.
    fn begin_client(
        &self,
        record: ClientRecord,
    ) -> impl Future<Output = Result<Self::Client>> + Send;

    /// The clients of earlier starts of this gateway whose sessions have not ended. Called once,
    /// before the first [`Share::begin_client`]. A session that cannot be continued is left out. A
    /// gateway without a name has no earlier start.
    fn adopt_clients(
        &self,
    ) -> impl Future<Output = Result<Vec<AdoptedClient<Self::Client>>>> + Send {
        async { Ok(Vec::new()) }
    }
}

/// A protocol client: its session at the metadata server. Cheap to clone. `who` is the user that a
/// call acts for, whose permissions are checked.
///
/// A name is 1 to 255 bytes without `/` and NUL, and not `.` or `..`. Every call that takes a name
/// fails with `Invalid` for another one, or with `NameTooLong`. The index of a file that was
/// removed is a `StaleHandle`. After [`ShareClient::end`] all calls of the session fail with
/// `NoSession`.
pub trait ShareClient: Clone + Send + Sync + fmt::Debug + 'static {
    /// An open file.
    type File: ShareFile;

    /// The session. No two clients have the same, at any time.
    fn session(&self) -> SessionId;

    /// Ends the session: its opens are closed, its locks removed, and all I/O daemons refuse it.
    fn end(self) -> impl Future<Output = ()> + Send;

    /// Ends the use of the session, but not the session, so that the next start of the gateway
    /// continues it ([`Share::adopt_clients`]). A session that no start can continue ends.
    fn leave(self) -> impl Future<Output = ()> + Send;

    /// Attributes of a name in a directory. A symbolic link is not followed.
    fn look_up(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
    ) -> impl Future<Output = Result<Attributes>> + Send;

    /// Name and attributes of the entry whose name equals `name` without regard to case
    /// ([`braid_types::fold`]): `name` itself, else the first one of a listing. A symbolic link is
    /// not followed. Fails with `NotFound` if there is none, and if the file system cannot look up
    /// names so.
    fn look_up_folded(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
    ) -> impl Future<Output = Result<(Vec<u8>, Attributes)>> + Send;

    /// Attributes of the directory above a directory; of the root for the root itself.
    fn parent(
        &self,
        who: &Identity,
        dir: FileIndex,
    ) -> impl Future<Output = Result<Attributes>> + Send;

    /// Attributes of a file.
    fn attributes(
        &self,
        who: &Identity,
        file: FileIndex,
    ) -> impl Future<Output = Result<Attributes>> + Send;

    /// Changes attributes, all or none. A symbolic link itself is changed. A size truncates or
    /// extends, which needs the right to write; for the user of an open there is
    /// [`ShareFile::set_len`].
    fn set_attributes(
        &self,
        who: &Identity,
        file: FileIndex,
        changes: AttributeChanges,
    ) -> impl Future<Output = Result<Attributes>> + Send;

    /// As [`ShareClient::set_attributes`], with the time of creation, all or none. `Unsupported`
    /// where the time of creation cannot be set; then nothing is changed.
    fn set_attributes_and_birth(
        &self,
        who: &Identity,
        file: FileIndex,
        changes: AttributeChanges,
        btime: Timestamp,
    ) -> impl Future<Output = Result<Attributes>> + Send;

    /// As [`ShareClient::set_attributes`], with the NFSv4 access control list, all or none. The
    /// mode is set before the list, which then decides its permission bits (RFC 8881 6.4.1.3).
    /// Flags of inheritance have no effect where the file is no directory. Fails with `Unsupported`
    /// for a symbolic link.
    fn set_attributes_and_acl(
        &self,
        who: &Identity,
        file: FileIndex,
        changes: AttributeChanges,
        list: &Nfs4Acl,
    ) -> impl Future<Output = Result<Attributes>> + Send;

    /// The NFSv4 access control list of a file whose attributes the caller has just read: its own,
    /// or one that means the same as its POSIX lists or its mode. The latter costs no call. Fails
    /// with `Unsupported` for a symbolic link.
    fn nfs4_acl(
        &self,
        who: &Identity,
        known: &Attributes,
    ) -> impl Future<Output = Result<Nfs4Acl>> + Send;

    /// Which of the wanted accesses are allowed: read (4), write (2), execute or search (1).
    fn access(
        &self,
        who: &Identity,
        file: FileIndex,
        wanted: u8,
    ) -> impl Future<Output = Result<u8>> + Send;

    /// As [`ShareClient::access`], for a file whose attributes the caller has just read, which may
    /// save the call.
    fn access_of(
        &self,
        who: &Identity,
        known: &Attributes,
        wanted: u8,
    ) -> impl Future<Output = Result<u8>> + Send {
        self.access(who, known.file, wanted)
    }

    /// The target of a symbolic link.
    fn read_link(
        &self,
        who: &Identity,
        file: FileIndex,
    ) -> impl Future<Output = Result<Vec<u8>>> + Send;

    /// Entries of a directory after `cookie` (0: from the beginning), of about `bytes_max` bytes.
    /// Cookies 0, 1 and 2 are never those of an entry.
    fn list(
        &self,
        who: &Identity,
        dir: FileIndex,
        cookie: u64,
        bytes_max: u32,
        with_attributes: bool,
    ) -> impl Future<Output = Result<Listing>> + Send;

    /// Makes a directory.
    fn make_directory(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        mode: u32,
    ) -> impl Future<Output = Result<(Attributes, DirectoryChange)>> + Send;

    /// Makes a symbolic link to `target`.
    fn make_symlink(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        target: &[u8],
    ) -> impl Future<Output = Result<(Attributes, DirectoryChange)>> + Send;

    /// Makes a fifo, socket or device. `device` is `major << 32 | minor`.
    fn make_node(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        kind: FileKind,
        mode: u32,
        device: u64,
    ) -> impl Future<Output = Result<(Attributes, DirectoryChange)>> + Send;

    /// Gives a file another name.
    fn link(
        &self,
        who: &Identity,
        file: FileIndex,
        dir: FileIndex,
        name: &[u8],
    ) -> impl Future<Output = Result<(Attributes, DirectoryChange)>> + Send;

    /// Removes a name: of a file, or of an empty directory.
    fn remove(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
    ) -> impl Future<Output = Result<DirectoryChange>> + Send;

    /// Renames: the changes of the old and of the new directory.
    fn rename(
        &self,
        who: &Identity,
        from: (FileIndex, &[u8]),
        to: (FileIndex, &[u8]),
        mode: RenameMode,
    ) -> impl Future<Output = Result<(DirectoryChange, DirectoryChange)>> + Send;

    /// Opens or creates a file. Fails with `SharingViolation` if another open excludes it.
    fn open(
        &self,
        who: &Identity,
        target: OpenTarget,
        mode: OpenMode,
    ) -> impl Future<Output = Result<Opened<Self::File>>> + Send;

    /// The open file of an open of [`AdoptedClient::opens`]. The caller has checked that `who` may
    /// have it.
    fn reclaim_open(
        &self,
        who: &Identity,
        open: AdoptedOpen,
    ) -> impl Future<Output = Result<Self::File>> + Send;

    /// Closes an open of [`AdoptedClient::opens`] that was not reclaimed.
    fn release_open(&self, open: AdoptedOpen) -> impl Future<Output = Result<()>> + Send;

    /// The value of an extended attribute; `name` with its prefix, such as `user.`.
    fn xattr(
        &self,
        who: &Identity,
        file: FileIndex,
        name: &[u8],
    ) -> impl Future<Output = Result<Vec<u8>>> + Send;

    /// Sets an extended attribute.
    fn set_xattr(
        &self,
        who: &Identity,
        file: FileIndex,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> impl Future<Output = Result<()>> + Send;

    /// The names of all extended attributes.
    fn xattrs(
        &self,
        who: &Identity,
        file: FileIndex,
    ) -> impl Future<Output = Result<Vec<Vec<u8>>>> + Send;

    /// Removes an extended attribute.
    fn remove_xattr(
        &self,
        who: &Identity,
        file: FileIndex,
        name: &[u8],
    ) -> impl Future<Output = Result<()>> + Send;

    /// Free space, at a file or directory.
    fn statfs(
        &self,
        who: &Identity,
        file: FileIndex,
    ) -> impl Future<Output = Result<StatFsReply>> + Send;

    /// Requests a lock without waiting. `None`: the owner has it now.
    fn lock(
        &self,
        file: FileIndex,
        lock: Lock,
    ) -> impl Future<Output = Result<Option<LockConflict>>> + Send;

    /// Requests a lock and waits for it. Ends with `Interrupted` when `cancel` was used
    /// ([`ShareClient::cancel_lock`]), and with `Deadlock` when it would never end.
    fn lock_wait(
        &self,
        file: FileIndex,
        lock: Lock,
        cancel: &LockCancelHandle,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Ends a wait of [`ShareClient::lock_wait`].
    fn cancel_lock(&self, cancel: &LockCancelHandle) -> impl Future<Output = Result<()>> + Send;

    /// The lock that would conflict with this one, if any.
    fn test_lock(
        &self,
        file: FileIndex,
        lock: Lock,
    ) -> impl Future<Output = Result<Option<LockConflict>>> + Send;

    /// Unlocks a range; `lock.exclusive` has no meaning.
    fn unlock(&self, file: FileIndex, lock: Lock) -> impl Future<Output = Result<()>> + Send;

    /// Requests the delegation of a file that this session has open: to read, or to write. With
    /// one to read, nobody else changes the file before it is returned; with one to write, nobody
    /// else opens it or looks at its attributes either. Returns whether it is granted: not if
    /// another session's open or delegation conflicts, or if one of the file was recalled not long
    /// ago. Someone must wait for [`ShareClient::next_recall`].
    fn delegate(&self, file: FileIndex, write: bool) -> impl Future<Output = Result<bool>> + Send;

    /// Returns the delegation of a file. Does nothing without one.
    fn return_delegation(&self, file: FileIndex) -> impl Future<Output = Result<()>> + Send;

    /// After [`DelegationRecall::Reduce`]: keeps the delegation of a file to read, and not to
    /// write. Returns whether the session has it then; if not, it was returned.
    fn reduce_delegation(&self, file: FileIndex) -> impl Future<Output = Result<bool>> + Send;

    /// After [`DelegationRecall::All`]: no delegation is used any more.
    fn drop_delegations(&self) -> impl Future<Output = ()> + Send;

    /// The next recall of a delegation; `None` when the session has ended. A session that does not
    /// return a recalled delegation within 40 s is ended.
    fn next_recall(&self) -> impl Future<Output = Option<DelegationRecall>> + Send;

    /// Makes the entries of a directory durable.
    fn sync_directory(&self, dir: FileIndex) -> impl Future<Output = Result<()>> + Send;
}

/// An open file of a protocol client. Cheap to clone; it is closed by [`ShareFile::close`], or when
/// the last clone is dropped.
pub trait ShareFile: Clone + Send + Sync + fmt::Debug + 'static {
    /// The file.
    fn index(&self) -> FileIndex;

    /// Reads up to `bytes` at `offset`.
    fn read(&self, offset: u64, bytes: u32) -> impl Future<Output = Result<ReadResult>> + Send;

    /// As [`ShareFile::read`], for a caller that does not need to know where the file ends: that
    /// can take a call to each I/O daemon.
    fn read_bytes(&self, offset: u64, bytes: u32) -> impl Future<Output = Result<Bytes>> + Send {
        async move { Ok(self.read(offset, bytes).await?.data) }
    }

    /// Writes all of `data` at `offset`. With `durable`, the bytes and the metadata that is needed
    /// to read them are on disk when this returns.
    fn write(
        &self,
        offset: u64,
        data: Bytes,
        durable: bool,
    ) -> impl Future<Output = Result<WriteResult>> + Send;

    /// Makes everything durable that was written through this client to this file. If unflushed
    /// bytes were lost since they were acknowledged, the verifier differs from that of their
    /// writes. A gateway commits before it closes the last open of a file: a loss of bytes of a
    /// closed open shows in no later commit.
    fn commit(&self) -> impl Future<Output = Result<Verifier>> + Send;

    /// The present attributes, with the true size.
    fn attributes(&self) -> impl Future<Output = Result<Attributes>> + Send;

    /// Sets access and denial of the open (upgrade, OPEN_DOWNGRADE).
    fn set_mode(&self, mode: OpenMode) -> impl Future<Output = Result<()>> + Send;

    /// Truncates or extends the file.
    fn set_len(&self, bytes: u64) -> impl Future<Output = Result<Attributes>> + Send;

    /// Allocates disk space for a range, and extends the file to its end.
    fn allocate(&self, offset: u64, bytes: u64) -> impl Future<Output = Result<()>> + Send;

    /// Makes a range read as zeros; the size does not change.
    fn punch(&self, offset: u64, bytes: u64) -> impl Future<Output = Result<()>> + Send;

    /// The next byte of data at or after `offset`; `None` if there is none.
    fn next_data(&self, offset: u64) -> impl Future<Output = Result<Option<u64>>> + Send;

    /// The next hole at or after `offset`, at the latest the end of the file; `None` past the end.
    fn next_hole(&self, offset: u64) -> impl Future<Output = Result<Option<u64>>> + Send;

    /// Copies up to `bytes` from `source` at `from` to this file at `to`: the number of bytes, less
    /// at the end of the source and where one call would take too long.
    fn copy_from(
        &self,
        source: &Self,
        from: u64,
        to: u64,
        bytes: u64,
    ) -> impl Future<Output = Result<u64>> + Send;

    /// How the protocol's own client reaches the stripes, if it can: `None` where the layout cannot
    /// be expressed or a daemon does not serve the protocol. With `write`, name, inode and the mark
    /// that the size is in the objects are durable before this returns (I5, I6).
    fn direct_access(
        &self,
        write: bool,
    ) -> impl Future<Output = Result<Option<DirectAccess>>> + Send;

    /// Closes the open. Reports losses of unflushed bytes that no commit has reported.
    fn close(self) -> impl Future<Output = Result<()>> + Send;
}
