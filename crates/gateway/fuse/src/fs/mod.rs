//! Serves the kernel's requests with `vfs`.
//!
//! ```text
//!   kernel::Handler ──> FileSystem::handle ──> one method for each request (names, opens, data, …)
//!                                                 |  vfs
//!                                                 v
//!                       convert: kinds, times, flags      errors: errno and log
//! ```
//!
//! 1. A node of the kernel is a file index (the root is 1 in both; none is ever used twice), so
//!    there is no table of nodes. After FORGET a directory that was removed while in use is
//!    forgotten.
//! 2. The kernel checks permissions (`default_permissions`, POSIX ACLs). What is created belongs to
//!    the calling user.
//! 3. What is under no lease is returned with no validity, and files are opened past the page cache
//!    (`DIRECT_IO`): a read sees every write that returned before it, on any mount. A cacheable
//!    reply is written inside [`Vfs::reply_cacheable`], which orders it with its recall.
//! 4. If the kernel does not accept a reply with a handle, the handle is closed.
//! 5. Everything that is done for one request has one deadline (I8): [`Vfs::bound`].

mod attributes;
mod cache_invalidator;
mod convert;
mod data;
mod directories;
mod errors;
mod kernel_names;
mod lock_waits;
mod locks;
mod names;
mod opens;
mod pipes;
mod ranges;
mod settings;
mod statfs;
mod xattrs;

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use braid_vfs::{CacheInvalidator, Cacheable, CachingLeases, FileIndex, User, Vfs};
use rustix::io::Errno;

use self::{
    cache_invalidator::KernelCache, errors::ErrorLog, kernel_names::DirectoryLocks,
    lock_waits::LockWaits, pipes::Pipes,
};
use crate::kernel::{
    Call, Forget, Handler, Header, KernelFeatures, Notifier, Operation, Reply, Request, Wanted,
};

/// The file system behind one mount.
#[derive(Debug)]
pub struct FileSystem {
    vfs: Arc<Vfs>,
    report: Arc<ErrorLog>,
    lock_waits: Arc<LockWaits>,
    /// Whether the kernel can expire names, as it says at INIT. If not, no name is cacheable.
    caches_names: OnceLock<bool>,
    kernel_cache: OnceLock<Arc<KernelCache>>,
    pipes: Pipes,
}

/// The outcome of a request: a reply was sent, or why not.
type Done = Result<(), errors::ErrnoReply>;

impl FileSystem {
    /// The file system of one mount.
    pub fn new(vfs: Arc<Vfs>) -> Self {
        Self {
            vfs,
            report: Arc::default(),
            lock_waits: LockWaits::new(lock_waits::WAITS_MAX),
            caches_names: OnceLock::new(),
            kernel_cache: OnceLock::new(),
            pipes: Pipes::default(),
        }
    }

    /// Reads of the kernel that were served from a socket through a pipe, since the mount began.
    pub fn piped_reads(&self) -> u64 {
        self.pipes.answers()
    }

    /// Programs that wait for a lock now.
    pub fn lock_waits(&self) -> usize {
        self.lock_waits.count()
    }
}

impl Handler for FileSystem {
    fn init(&self, kernel: &KernelFeatures) -> Wanted {
        let _ = self.caches_names.set(kernel.expires_names());
        settings::wanted(kernel, self.vfs.consistency())
    }

    fn started(&self, notifier: Notifier) {
        let keeps_names = self.caches_names.get().is_some_and(|keeps| *keeps);
        let memory =
            self.kernel_cache.get_or_init(|| Arc::new(KernelCache::new(notifier, keeps_names)));
        if let Err(error) = self.vfs.serve(Arc::clone(memory) as Arc<dyn CacheInvalidator>) {
            tracing::warn!(
                %error,
                "taking leases failed: names and attributes are not cached, the mount is slower"
            );
        }
    }

    fn handle(&self, request: Request<'_>, reply: Reply, call: &mut Call<'_>) {
        let mut reply = Some(reply);
        let _bound = has_deadline(&request.operation).then(|| self.vfs.bound());
        let done = self.dispatch(&request, &mut reply, call);
        self.report.refuse(&request.header, done, reply);
    }

    fn forget(&self, forgotten: &[Forget]) {
        forgotten.iter().for_each(|one| self.vfs.forgotten(FileIndex(one.node)));
    }

    fn destroyed(&self) {
        self.end_lock_waits();
    }
}

impl FileSystem {
    /// Replies with a name in a directory and its file. `give` gets what of the reply may be
    /// cached.
    fn reply_with_name<R>(
        &self,
        (directory, name): (FileIndex, &[u8]),
        keep: &CachingLeases,
        give: impl FnOnce(Cacheable) -> R,
    ) -> R {
        self.vfs.reply_cacheable(keep, |cacheable| {
            let name = cacheable.name && self.note(directory, Some(name));
            give(Cacheable {
                name,
                attributes: cacheable.attributes && (name || self.note(directory, None)),
            })
        })
    }

    /// Whether the kernel may cache a name or, without a name, attributes of a file in the
    /// directory. Within [`Vfs::reply_cacheable`].
    fn note(&self, directory: FileIndex, name: Option<&[u8]>) -> bool {
        let noted = self.kernel_cache.get().and_then(|memory| memory.names());
        noted.is_some_and(|noted| noted.note(directory, name, Instant::now()))
    }

    /// The kernel has removed a name by itself.
    fn forget(&self, (directory, name): (FileIndex, &[u8])) {
        if let Some(noted) = self.kernel_cache.get().and_then(|memory| memory.names()) {
            noted.forget(directory, name);
        }
    }

    /// The kernel may have cached a name without a lease: makes it ask again from now on.
    fn expire_later(&self, (directory, name): (FileIndex, &[u8])) {
        if let Some(memory) = self.kernel_cache.get() {
            memory.expire_later(directory, name);
        }
    }

    /// For requests that the kernel sends while it holds locks of directories, shared or exclusive.
    fn locked(&self, node: FileIndex, operation: &Operation<'_>) -> Option<DirectoryLocks<'_>> {
        use Operation as Op;
        let directories = match operation {
            Op::Rename { new_parent, .. } => [node, FileIndex(*new_parent)],
            Op::MakeDirectory { .. }
            | Op::MakeNode { .. }
            | Op::Symlink { .. }
            | Op::Link { .. }
            | Op::Unlink { .. }
            | Op::RemoveDirectory { .. }
            | Op::Create { .. }
            | Op::TemporaryFile { .. }
            | Op::SetAttributes(_)
            | Op::SetXattr { .. }
            | Op::RemoveXattr { .. }
            | Op::Lookup { .. }
            | Op::ReadDirectory { .. }
            | Op::SyncDirectory { .. } => [node, node],
            _ => return None,
        };
        if matches!(operation, Op::Lookup { name: b"." | b".." }) {
            // A lookup by file handle: no directory's lock is held.
            return None;
        }
        Some(self.kernel_cache.get()?.names()?.locked(directories, Instant::now()))
    }

    fn dispatch(
        &self,
        request: &Request<'_>,
        reply: &mut Option<Reply>,
        call: &mut Call<'_>,
    ) -> Done {
        use Operation as Op;
        let (header, node) = (&request.header, FileIndex(request.header.node));
        let answer = Answer(reply);
        let _locked = self.locked(node, &request.operation);
        match request.operation {
            Op::Lookup { name } => self.look_up(node, name, answer),
            Op::MakeDirectory { name, mode, umask } => {
                self.make_directory(user(header), node, name, mode, umask, answer)
            }
            Op::MakeNode { name, mode, umask, device } => {
                self.make_node(user(header), node, name, (mode, umask, device), answer)
            }
            Op::Symlink { name, target } => {
                self.make_symlink(user(header), node, name, target, answer)
            }
            Op::Link { node: file, new_name } => self.link(FileIndex(file), node, new_name, answer),
            Op::Unlink { name } => self.unlink(node, name, answer),
            Op::RemoveDirectory { name } => self.remove_directory(node, name, answer),
            Op::Rename { name, new_parent, new_name, flags } => {
                self.rename((node, name), (FileIndex(new_parent), new_name), flags, answer)
            }
            Op::ReadLink => self.read_link(node, answer),

            Op::GetAttributes { handle } => self.get_attributes(node, handle, answer),
            Op::ExtendedStat { handle, .. } => self.extended_stat(node, handle, answer),
            Op::SetAttributes(changes) => self.set_attributes(user(header), node, &changes, answer),
            Op::Access { .. } => answer.ok(),
            Op::StatFs => self.statfs(node, answer),

            Op::Open { flags, kill_suidgid } => self.open(node, flags, kill_suidgid, answer),
            Op::Create { name, flags, mode, umask, .. } => {
                self.create(user(header), node, name, flags, (mode, umask), answer)
            }
            Op::TemporaryFile { flags, mode, umask } => {
                self.create_unnamed(user(header), node, flags, (mode, umask), answer)
            }
            Op::Flush { handle, lock_owner } => self.flush(handle, lock_owner, answer),
            Op::Release { handle, lock_owner, flock_unlock, .. } => {
                self.release(handle, flock_unlock.then_some(lock_owner), answer)
            }

            Op::Read { handle, offset, size, lock_owner, .. } => {
                // A program's own read names the owner of its locks; a read of a page does not.
                self.read(handle, offset, (size, lock_owner.is_none()), call.scratch, answer)
            }
            Op::Write { handle, offset, data, flags, lock_owner, from_cache, kill_suidgid } => self
                .write(handle, offset, data, (flags, lock_owner, from_cache, kill_suidgid), answer),
            Op::Sync { handle, .. } => self.sync(handle, answer),
            Op::Allocate { handle, offset, length, mode } => {
                self.allocate(handle, offset, length, mode, (kills_privileges(header), answer))
            }
            Op::Seek { handle, offset, whence } => self.seek(handle, offset, whence, answer),
            Op::CopyRange { handle, offset, to_handle, to_offset, length, flags, .. } => {
                let kills = kills_privileges(header);
                self.copy_range(
                    (handle, offset),
                    (to_handle, to_offset),
                    length,
                    flags,
                    (kills, answer),
                )
            }

            Op::OpenDirectory { .. } => self.open_directory(node, answer),
            Op::ReadDirectory { handle, offset, size, plus } => {
                self.read_directory(node, handle, offset, (size, plus), answer)
            }
            Op::ReleaseDirectory { handle, .. } => self.release_directory(handle, answer),
            Op::SyncDirectory { handle, .. } => self.sync_directory(handle, answer),

            Op::GetXattr { name, size } => self.get_xattr(node, name, size, answer),
            Op::ListXattr { size } => self.list_xattrs(node, size, answer),
            Op::SetXattr { name, value, flags, acl_kill_sgid } => {
                self.set_xattr(header, node, (name, value), flags, acl_kill_sgid, answer)
            }
            Op::RemoveXattr { name } => self.remove_xattr(header, node, name, answer),

            Op::TestLock(lock) => self.test_lock(&lock, answer),
            Op::SetLock { lock, wait } => {
                self.set_lock(header, (&lock, wait), call.interrupt, answer)
            }

            Op::Ioctl { .. } => Err(Errno::NOTTY.into()),
            _ => Err(Errno::NOSYS.into()),
        }
    }
}

/// Whether a request must end within the mount's time limit. A wait for a lock has no limit. No
/// program waits for the write-back of pages, which a deadline would lose: each of its steps has
/// its own.
fn has_deadline(operation: &Operation<'_>) -> bool {
    !matches!(
        operation,
        Operation::SetLock { wait: true, .. } | Operation::Write { from_cache: true, .. }
    )
}

/// The calling user. The kernel has checked its rights; what it creates belongs to it.
fn user(header: &Header) -> User {
    User { uid: header.uid.into(), gid: header.gid.into() }
}

/// Whether a change of the bytes clears setuid and setgid, where the request does not say so. A
/// write says whether the process has `CAP_FSETID`; `fallocate` and `copy_file_range` do not, so
/// only root is taken to have it.
fn kills_privileges(header: &Header) -> bool {
    header.uid != 0
}

/// The reply, until it is used. An error that occurs before finds it still here.
struct Answer<'r>(&'r mut Option<Reply>);

impl Answer<'_> {
    /// Sends the one reply.
    fn with(self, give: impl FnOnce(Reply)) -> Done {
        if let Some(reply) = self.0.take() {
            give(reply);
        }
        Ok(())
    }

    fn ok(self) -> Done {
        self.with(Reply::ok)
    }
}
