//! The calls that the blocking and the async API share, listed once. Each API expands the list into
//! its own functions.

/// Calls `$face! { ... }` with every call of the namespace: docs, name, paths, other arguments,
/// result.
macro_rules! namespace_calls {
    ($face:ident) => {
        $face! {
            /// Attributes of a file or directory. Follows a symbolic link.
            fn stat[at]() -> Attributes;
            /// Attributes of a file, directory or symbolic link. Does not follow a symbolic link.
            fn lstat[at]() -> Attributes;
            /// Succeeds if this program may read (4), write (2), execute or search (1); `mask`
            /// combines these bits.
            fn access[at](mask: u8) -> ();
            /// Makes a directory; `mode` with the umask already applied.
            fn mkdir[at](mode: u32) -> Attributes;
            /// Makes a directory. If this client holds leases, the reply also contains the
            /// attributes of the parent directory.
            fn mkdir_with_parent[at](mode: u32) -> MakeReply;
            /// Makes a pipe, a socket or a device.
            fn mknod[at](kind: FileKind, mode: u32, device: u64) -> Attributes;
            /// Makes a symbolic link to `target`.
            fn symlink[at](target: &[u8]) -> Attributes;
            /// The target of a symbolic link.
            fn read_link[at]() -> Vec<u8>;
            /// Makes a hard link: gives the file `from` the additional name `to`.
            fn hard_link[from, to]() -> Attributes;
            /// Removes a name of anything but a directory.
            fn unlink[at]() -> ();
            /// Removes a name of anything but a directory. If this client holds leases, the reply
            /// also contains the attributes of the parent directory.
            fn unlink_with_parent[at]() -> RemoveReply;
            /// Removes an empty directory.
            fn rmdir[at]() -> ();
            /// Removes an empty directory. If this client holds leases, the reply also contains the
            /// attributes of the parent directory.
            fn rmdir_with_parent[at]() -> RemoveReply;
            /// Renames. Every observer sees the rename as one atomic step.
            fn rename[from, to](mode: RenameMode) -> ();
            /// Changes several attributes in one step. If `follow` is not set, a symbolic link
            /// itself is changed.
            fn set_attributes[at](follow: bool, changes: AttributeChanges) -> Attributes;
            /// Changes attributes and the NFSv4 access control list, a value of the extended
            /// attribute `system.nfs4_acl`, in one step. The mode is set before the list, which
            /// then decides its permission bits.
            fn set_attributes_and_acl[at](
                changes: AttributeChanges, list: Vec<u8>
            ) -> Attributes;
            /// Changes attributes and the time of creation, in one step.
            fn set_attributes_and_birth[at](
                changes: AttributeChanges, btime: Timestamp
            ) -> Attributes;
            /// Changes the low 12 bits of the mode.
            fn chmod[at](mode: u32) -> Attributes;
            /// Changes owner and group; `None` leaves a value unchanged.
            fn chown[at](uid: Option<u64>, gid: Option<u64>, follow: bool) -> Attributes;
            /// Changes the times of the last read and the last write; `None` leaves a value
            /// unchanged.
            fn set_times[at](
                atime: Option<SetTime>, mtime: Option<SetTime>, follow: bool
            ) -> Attributes;
            /// Truncates a file to `bytes`, or extends it with zeros.
            fn truncate[at](bytes: u64) -> Attributes;
            /// Makes a file without opening it. Unless `exclusive` is set, an existing file is left
            /// unchanged.
            fn touch[at](mode: u32, exclusive: bool, wish: LayoutHint) -> CreateReply;
            /// A batch of directory entries: those after `cookie` (0: from the start), about
            /// `bytes_max` bytes.
            fn read_directory[at](
                cookie: u64, bytes_max: u32, with_attributes: bool
            ) -> ReadDirectoryReply;
            /// Forces a directory's changes to disk.
            fn sync_directory[at]() -> ();
            /// Makes everything durable that was acknowledged before this call, as `syncfs(2)`
            /// does. This covers what this client wrote, also to files that it has closed, and what
            /// other clients wrote, on every I/O daemon and in the metadata server's log. It does
            /// not cover bytes that other clients still buffer.
            ///
            /// Fails with [`crate::Status::UnsyncedDataLost`] if a daemon lost writes of this
            /// client that were never synced, and no earlier `sync_all` has reported the loss.
            fn sync_all[]() -> ();
            /// The value of an extended attribute. `name` includes its prefix, such as `user.`.
            fn xattr[at](name: &[u8]) -> Vec<u8>;
            /// Sets an extended attribute.
            fn set_xattr[at](name: &[u8], value: &[u8], mode: XattrMode) -> ();
            /// Sets `system.posix_acl_access` and clears the set-group-ID bit. The caller has
            /// checked that the user may set the list, and that the user is not in the file's
            /// group.
            fn set_acl_dropping_setgid[at](name: &[u8], value: &[u8]) -> ();
            /// The names of all extended attributes.
            fn xattrs[at]() -> Vec<Vec<u8>>;
            /// Removes an extended attribute.
            fn remove_xattr[at](name: &[u8]) -> ();
            /// Requests a lock without waiting. `None`: the owner has the lock now. Otherwise the
            /// holder of the conflicting lock.
            fn try_lock_range[](lock: &LockRequest) -> Option<LockHolder>;
            /// Requests a lock and waits for it without a time limit. The wait ends with
            /// [`crate::Status::Interrupted`] when another thread uses `cancel`, and with
            /// [`crate::Status::Deadlock`] when it would never end.
            fn lock_range[](lock: &LockRequest, cancel: &LockCancelHandle) -> ();
            /// Ends a lock wait of another thread. Does nothing if that wait has ended, and
            /// prevents it if it has not begun.
            fn cancel_lock[](cancel: &LockCancelHandle) -> ();
            /// The lock that would conflict with this one, if any.
            fn test_lock[](lock: &LockRequest) -> Option<LockHolder>;
            /// Unlocks a range of bytes.
            fn unlock_range[](range: &LockRange) -> ();
            /// Removes all locks of owners that have closed a file. If this fails, the service
            /// thread retries it, and these locks are not reclaimed from a restarted server.
            fn unlock_owners[](file: FileIndex, owners: &[(LockSpace, u64)]) -> ();
            /// Free space of the file system. A disk that several daemons share is counted once. In
            /// a directory with a quota, the space that the quota leaves.
            fn statfs[](file: FileIndex) -> StatFsReply;
            /// The layout of a file, and the default layout of its directory.
            fn layout[at]() -> LayoutShowReply;
            /// Sets the default layout of a directory, or the layout of a file that was never
            /// written.
            fn set_layout[at](wish: LayoutHint) -> ();
            /// Fails with [`crate::Status::Invalid`] if a layout has more parts than the cluster
            /// has I/O daemons. The servers accept such a layout and give each daemon several
            /// parts, but a program that counts daemons does not want it. Queries the metadata
            /// server only if the number of parts is given.
            fn check_iod_count[](wish: &LayoutHint) -> ();
            /// The identity that the metadata server assigns to this program.
            fn whoami[]() -> Identity;
            /// Whether this client may act as other identities: true for the holder of a client
            /// key, false for a ticket.
            fn vouches[]() -> bool;
            /// The cluster map.
            fn cluster_map[]() -> ClusterMap;
            /// The values that an agent writes into tickets.
            fn agent_check[]() -> AgentCheckReply;
            /// A secret that all gateways of the cluster share, for the handles that they give out.
            /// Fails with [`crate::Status::NotPermitted`] unless this client has a client key that
            /// reaches the whole file system.
            fn gateway_secret[]() -> GatewaySecretReply;
            /// The metadata server's status.
            fn mds_status[]() -> MdsStatusReply;
            /// Counters of the metadata server.
            fn daemon_status[]() -> DaemonStatusReply;
            /// Lets an I/O daemon measure its own disk. This takes some seconds and uses a file
            /// that is deleted afterwards. Fails with [`crate::Status::Busy`] while the daemon
            /// measures for another client.
            fn measure_disk[](iod: IodId, load: MeasureDisk) -> DiskRates;
            /// Makes a client key. Its secret is returned only this once.
            fn key_add[](name: &str, rights: KeyRights) -> KeyAddReply;
            /// All client keys.
            fn keys[]() -> Vec<KeyInfo>;
            /// Revokes a client key: ends its sessions and fences them.
            fn key_revoke[](key: KeyId) -> ();
            /// Sets an I/O daemon to draining, or back to up.
            fn set_iod_state[](iod: IodId, state: IodState) -> ();
            /// Removes an I/O daemon from the cluster for good. Refused while the daemon is up or
            /// while files have parts on it, unless `lost` is set: then the data on it is given up.
            fn remove_iod[](iod: IodId, lost: bool) -> ();
            /// Files of a shard, after `after`, that have a part on an I/O daemon, or may have one.
            fn fsck_affected[](iod: IodId, shard: ShardId, after: FileIndex) -> FsckAffectedReply;
            /// The shards in use.
            fn fsck_shards[]() -> Vec<ShardId>;
            /// Files of a shard, after `after`, in the order of their index.
            fn fsck_files[](shard: ShardId, after: FileIndex, count_max: u32) -> Vec<FsckFile>;
            /// Checks names, link counts and reachability of a shard. `mend` repairs what is wrong.
            fn fsck_namespace[](shard: ShardId, mend: bool) -> FsckNamespaceReply;
            /// Repairs the record of a file.
            fn fsck_mend[](file: FileIndex, mend: FsckMend) -> ();
            /// Those of the given objects that belong to no file and to no pending deletion.
            fn fsck_orphans[](objects: Vec<ObjectId>) -> Vec<ObjectId>;
            /// The reason why the file system must be checked, or `None`. `clear` clears the
            /// needs-fsck flag.
            fn fsck_mark[](clear: bool) -> Option<String>;
            /// Reserves indexes of files for `import`: `count` of them, from the returned one on.
            fn reserve_files[](count: u32) -> FileIndex;
            /// Makes existing files of disks files of the cluster. Returns the outcome of each, in
            /// order, once all survive a loss of power. Repeating it changes nothing.
            fn import[](entries: Vec<ImportEntry>) -> Vec<ImportedEntry>;
            /// Counts a shard's usage again. `mend` records the result.
            fn fsck_usage[](shard: ShardId, mend: bool) -> Vec<QuotaDifference>;
            /// Sets limits. If the report says that a directory is not counted completely, count it
            /// with `quota_walk`.
            fn quota_set[](owner: QuotaOwner, limits: QuotaLimits) -> QuotaReport;
            /// Limits and usage.
            fn quota[](owner: QuotaOwner) -> QuotaReport;
            /// Owners that have limits or use something, in order, after `after`. Returns a batch;
            /// empty at the end.
            fn quotas[](after: Option<QuotaOwner>) -> Vec<QuotaReport>;
            /// Removes limits. Returns whether there were any. A directory must be counted with
            /// `quota_walk` afterwards.
            fn quota_remove[](owner: QuotaOwner) -> bool;
            /// Counts everything below a directory towards that directory. Returns how many inodes
            /// were counted elsewhere before. Repeating it changes nothing.
            fn quota_walk[](dir: FileIndex) -> u64;
            /// Records that everything below a directory with a quota has been counted.
            fn quota_walked[](dir: FileIndex) -> ();
        }
    };
}
pub(crate) use namespace_calls;

/// Calls `$face! { ... }` with every call of an open file that both APIs share: docs, name,
/// arguments, result.
macro_rules! file_calls {
    ($face:ident) => {
        $face! {
            /// The current length of the file. Queries the I/O daemons only.
            fn size() -> u64;
            /// The current attributes of the file.
            fn attributes() -> Attributes;
            /// Forces everything written through this file to disk: data, size and name. Fails once
            /// with [`crate::Status::UnsyncedDataLost`] if a daemon lost writes that it had
            /// acknowledged.
            fn sync() -> Attributes;
            /// Fails once with [`crate::Status::UnsyncedDataLost`] if a daemon is known to have
            /// lost writes of this file. The loss may have been noticed through another file of
            /// this client.
            fn check_loss() -> ();
            /// Changes the rights of the open file, and what it denies to other opens, to exactly
            /// these: the upgrade of an open and OPEN_DOWNGRADE in NFSv4. Fails with
            /// [`crate::Status::SharingViolation`] if another open conflicts; then nothing has
            /// changed. If the file loses the right to write, its writes are synced first.
            fn set_modes(rights: Rights, deny: Deny) -> ();
            /// File handles with which an NFS client reaches the file's parts at the data servers
            /// of their I/O daemons, as long as the file is open here. Fails with
            /// [`crate::Status::Unsupported`] if NFS cannot express the layout.
            fn data_server_handles(rights: Rights) -> DataServerHandlesReply;
            /// Truncates the file to `bytes`, or extends it with zeros.
            fn set_len(bytes: u64) -> Attributes;
            /// Makes a range read as zeros; the size does not change.
            fn punch_hole(offset: u64, bytes: u64) -> Attributes;
            /// Allocates disk space for a range on the I/O daemons. Extends the file to the end of
            /// the range unless `keep_size` is set.
            fn allocate(offset: u64, bytes: u64, keep_size: bool) -> ();
            /// Ensures that no quota refuses a write below `end` while the file is open.
            fn reserve(end: u64) -> ();
            /// The next byte of data at or after `offset`; `None` if there is none.
            fn next_data(offset: u64) -> Option<u64>;
            /// The next hole at or after `offset`, at the latest the end of the file; `None` past
            /// the end.
            fn next_hole(offset: u64) -> Option<u64>;
        }
    };
}
pub(crate) use file_calls;
