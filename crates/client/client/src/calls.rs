//! The calls that both faces have, once: each face gives the list its own form.

/// Calls `$face! { ... }` with every call of the namespace: docs, name, places, other arguments, result.
macro_rules! namespace_calls {
    ($face:ident) => {
        $face! {
            /// Attributes; of what a symbolic link points to.
            fn stat[at]() -> Attributes;
            /// Attributes; of a symbolic link itself.
            fn lstat[at]() -> Attributes;
            /// Whether this program may read (4), write (2), execute or search (1): the bits of `mask` together.
            fn access[at](mask: u8) -> ();
            /// Makes a directory; `mode` with the umask already applied.
            fn mkdir[at](mode: u32) -> Attributes;
            /// Makes a directory; told as well is how the one is now that it is in, if this client holds leases.
            fn mkdir_told[at](mode: u32) -> Made;
            /// Makes a pipe, socket or device.
            fn mknod[at](kind: FileKind, mode: u32, device: u64) -> Attributes;
            /// Makes a symbolic link to `target`.
            fn symlink[at](target: &[u8]) -> Attributes;
            /// What a symbolic link points to.
            fn read_link[at]() -> Vec<u8>;
            /// Gives the file `from` the further name `to`.
            fn hard_link[from, to]() -> Attributes;
            /// Removes a name of something that is not a directory.
            fn unlink[at]() -> ();
            /// Removes a name of something that is not a directory; told is how the directory is now, if this client holds leases.
            fn unlink_told[at]() -> Removed;
            /// Removes an empty directory.
            fn rmdir[at]() -> ();
            /// Removes an empty directory; told is how the one is now that it was in, if this client holds leases.
            fn rmdir_told[at]() -> Removed;
            /// Renames, atomic to every observer.
            fn rename[from, to](mode: RenameMode) -> ();
            /// Changes several attributes at once; of a symbolic link itself when `follow` is not set.
            fn set_attributes[at](follow: bool, changes: AttributeChanges) -> Attributes;
            /// Changes the low 12 bits of the mode.
            fn chmod[at](mode: u32) -> Attributes;
            /// Changes owner and group; `None` leaves one alone.
            fn chown[at](uid: Option<u64>, gid: Option<u64>, follow: bool) -> Attributes;
            /// Changes the times of last read and last write; `None` leaves one alone.
            fn set_times[at](atime: Option<SetTime>, mtime: Option<SetTime>, follow: bool) -> Attributes;
            /// Cuts a file to `bytes`, or extends it with zeros.
            fn truncate[at](bytes: u64) -> Attributes;
            /// Makes a file without opening it. Unless `exclusive` an existing one is left as it is.
            fn touch[at](mode: u32, exclusive: bool, wish: LayoutWish) -> CreateReply;
            /// A stretch of a directory's listing: the entries after `cookie` (0: from the start), about `bytes_max` bytes.
            fn read_directory[at](cookie: u64, bytes_max: u32, with_attributes: bool) -> ReadDirectoryReply;
            /// Forces a directory's changes to disk.
            fn sync_directory[at]() -> ();
            /// Makes everything durable that was acknowledged before this call, as `syncfs(2)` does: what this client wrote, also to files
            /// that it has closed, and what others wrote, on every I/O daemon and in the metadata server's log. What others
            /// gather in their memory is theirs. [`crate::Status::UnsyncedDataLost`] when a daemon lost writes of this client
            /// that were never synced, and no earlier call of this has told it.
            fn sync_all[]() -> ();
            /// The value of an extended attribute; `name` with its `user.` or other prefix.
            fn xattr[at](name: &[u8]) -> Vec<u8>;
            /// Sets an extended attribute.
            fn set_xattr[at](name: &[u8], value: &[u8], mode: XattrMode) -> ();
            /// Sets `system.posix_acl_access`, by who has checked that the user may, and that it is not in the file's group:
            /// setgid goes.
            fn set_acl_dropping_setgid[at](name: &[u8], value: &[u8]) -> ();
            /// Names of all extended attributes.
            fn xattrs[at]() -> Vec<Vec<u8>>;
            /// Removes an extended attribute.
            fn remove_xattr[at](name: &[u8]) -> ();
            /// Asks for a lock without waiting: `None` when the owner has it now, else who is in the way.
            fn try_lock_range[](lock: &LockRequest) -> Option<LockHolder>;
            /// Asks for a lock and waits for it, as long as it takes: until `cancel` is used, on another thread
            /// ([`crate::Status::Interrupted`]), or the wait would be a deadlock ([`crate::Status::Deadlock`]).
            fn lock_range[](lock: &LockRequest, cancel: &LockCancelHandle) -> ();
            /// Ends a wait of another thread; one that is over already, or has not begun, too.
            fn cancel_lock[](cancel: &LockCancelHandle) -> ();
            /// Which lock would be in the way of this one.
            fn test_lock[](lock: &LockRequest) -> Option<LockHolder>;
            /// Lets locked bytes go.
            fn unlock_range[](range: &LockRange) -> ();
            /// Owners have closed a file: whatever they have locked of it is let go. What an error says could not be is let go as soon
            /// as it can, and told to no server that restarts meanwhile.
            fn unlock_owners[](file: FileIndex, owners: &[(LockSpace, u64)]) -> ();
            /// Room in the file system; disks that several daemons share are counted once. In a directory with a quota, what
            /// that leaves.
            fn statfs[](file: FileIndex) -> StatFsReply;
            /// Where a file lies, and the default of its directory.
            fn layout[at]() -> LayoutShowReply;
            /// Sets the default layout of a directory, or that of a file that was never written.
            fn set_layout[at](wish: LayoutWish) -> ();
            /// Fails with [`crate::Status::Invalid`] where a layout has more parts than the cluster has I/O daemons. The servers
            /// take such a layout, whose daemons have several parts each; a program that counts daemons did not mean it. Asks
            /// the metadata server only where the number of parts is given.
            fn check_iod_count[](wish: &LayoutWish) -> ();
            /// Who the metadata server takes this program for.
            fn whoami[]() -> Identity;
            /// Whether this client may name other identities: the holder of a client key, not of a ticket.
            fn vouches[]() -> bool;
            /// The cluster map.
            fn cluster_map[]() -> ClusterMap;
            /// What an agent writes into tickets.
            fn agent_check[]() -> AgentCheckReply;
            /// The metadata server's status.
            fn mds_status[]() -> MdsStatusReply;
            /// Counters of the metadata server.
            fn daemon_status[]() -> DaemonStatusReply;
            /// Has an I/O daemon measure its disk by itself: some seconds, in a file that is gone afterwards. [`crate::Status::Busy`]
            /// while it does so for somebody else.
            fn measure_disk[](iod: IodId, load: MeasureDisk) -> DiskRates;
            /// Makes a client key. Its secret is shown once.
            fn key_add[](name: &str, rights: KeyRights) -> KeyAddReply;
            /// All client keys.
            fn keys[]() -> Vec<KeyInfo>;
            /// Revokes a client key: its sessions end and are fenced.
            fn key_revoke[](key: KeyId) -> ();
            /// Sets an I/O daemon draining, or up again.
            fn set_iod_state[](iod: IodId, state: IodState) -> ();
            /// Takes an I/O daemon out of the cluster for good. Refused while it is up or while files have parts on it, unless
            /// `lost`: then what lies on it is given up.
            fn remove_iod[](iod: IodId, lost: bool) -> ();
            /// Files of a shard after `after` of which an I/O daemon has a part, or may have one.
            fn fsck_affected[](iod: IodId, shard: ShardId, after: FileIndex) -> FsckAffectedReply;
            /// Shards in use.
            fn fsck_shards[]() -> Vec<ShardId>;
            /// Files of a shard after `after`, in the order of their index.
            fn fsck_files[](shard: ShardId, after: FileIndex, count_max: u32) -> Vec<FsckFile>;
            /// Checks names, link counts and reachability of a shard; with `mend`, mends them.
            fn fsck_namespace[](shard: ShardId, mend: bool) -> FsckNamespaceReply;
            /// Mends the record of a file.
            fn fsck_mend[](file: FileIndex, mend: FsckMend) -> ();
            /// Which of these objects belong to no file and to no pending deletion.
            fn fsck_orphans[](objects: Vec<ObjectId>) -> Vec<ObjectId>;
            /// Counts a shard's usage anew; with `mend`, records it.
            fn fsck_usage[](shard: ShardId, mend: bool) -> Vec<QuotaDifference>;
            /// Sets limits. When a directory is not counted completely after it, it is to be walked.
            fn quota_set[](owner: QuotaOwner, limits: QuotaLimits) -> QuotaReport;
            /// Limits and usage.
            fn quota[](owner: QuotaOwner) -> QuotaReport;
            /// Everybody who has limits or uses something, in order, after `after`: some of them, none at the end.
            fn quotas[](after: Option<QuotaOwner>) -> Vec<QuotaReport>;
            /// Removes limits; whether there were any. A directory is to be walked then.
            fn quota_remove[](owner: QuotaOwner) -> bool;
            /// Counts everything below a directory where the directory is counted; how many inodes were counted elsewhere
            /// before. Doing it again changes nothing.
            fn quota_walk[](dir: FileIndex) -> u64;
            /// Everything below a directory with a quota was walked.
            fn quota_walked[](dir: FileIndex) -> ();
        }
    };
}
pub(crate) use namespace_calls;

/// Calls `$face! { ... }` with the calls of an open file that both faces have: docs, name, arguments, result.
macro_rules! file_calls {
    ($face:ident) => {
        $face! {
            /// How long the file is now. Asks the I/O daemons only.
            fn size() -> u64;
            /// The file's attributes now.
            fn attributes() -> Attributes;
            /// Forces everything written through this file to disk: data, size and name.
            /// [`crate::Status::UnsyncedDataLost`], once, when a daemon lost writes that it had acknowledged.
            fn sync() -> Attributes;
            /// [`crate::Status::UnsyncedDataLost`], once, when it is known, through whatever file of this client, that a
            /// daemon lost writes.
            fn check_loss() -> ();
            /// Changes what the file is open for, and what it denies to other opens, to exactly this: NFSv4's upgrade of an open
            /// and its OPEN_DOWNGRADE. [`crate::Status::SharingViolation`] when another open excludes it: then nothing has changed.
            /// Who gives up writing has what it wrote synced first.
            fn set_modes(rights: Rights, deny: Deny) -> ();
            /// Cuts the file to `bytes`, or extends it with zeros.
            fn set_len(bytes: u64) -> Attributes;
            /// Makes a range read as zeros; the size stays.
            fn punch_hole(offset: u64, bytes: u64) -> Attributes;
            /// Reserves room for a range on the I/O daemons; extends the file to its end unless `keep_size`.
            fn allocate(offset: u64, bytes: u64, keep_size: bool) -> ();
            /// Makes sure that no quota refuses a write below `end` while the file is open.
            fn reserve(end: u64) -> ();
            /// The next byte of data at or after `offset`; `None` when there is none.
            fn next_data(offset: u64) -> Option<u64>;
            /// The next hole at or after `offset`, at the latest the end of the file; `None` past it.
            fn next_hole(offset: u64) -> Option<u64>;
        }
    };
}
pub(crate) use file_calls;
