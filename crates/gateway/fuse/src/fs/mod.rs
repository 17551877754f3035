//! The kernel's requests, done by `vfs`.
//!
//! ```text
//!   kernel::Handler ──> FileSystem::handle ──> one method for each request (names, opens, data, …)
//!                                                 |  vfs: what is true
//!                                                 v
//!                       convert: kinds, times, flags      errors: why not, as errno, and in the log if a server is to blame
//! ```
//!
//! 1. A node of the kernel is a file index (the root is 1 in both; none is ever used twice): there is no table of nodes. FORGET ends
//!    what is known of a directory that was removed while it was in use.
//! 2. The kernel checks permissions (`default_permissions`, POSIX ACLs); what is created belongs to who asked.
//! 3. What is under no promise goes out with no validity, and files open past the page cache (`DIRECT_IO`): a read sees
//!    every write that returned before it, on whichever mount. What is to be remembered is written to the kernel inside
//!    [`Vfs::hand_out`], which orders it with its recall.
//! 4. An answer with a handle that the kernel does not take gives the handle back.
//! 5. All that is done for one request has one deadline (I8): [`Vfs::bound`].

mod attributes;
mod convert;
mod data;
mod directories;
mod errors;
mod given;
mod keeper;
mod locks;
mod names;
mod opens;
mod pipes;
mod ranges;
mod settings;
mod space;
mod waits;
mod xattrs;

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use braid_vfs::{FileIndex, Keep, Keeper, Kept, User, Vfs};
use rustix::io::Errno;

use self::{errors::Report, given::Locked, keeper::KernelMemory, pipes::Pipes, waits::LockWaits};
use crate::kernel::{
    Call, Forget, Handler, Header, KernelFeatures, Notifier, Operation, Reply, Request, Wanted,
};

/// One mount, as the kernel's requests find it.
#[derive(Debug)]
pub struct FileSystem {
    vfs: Arc<Vfs>,
    report: Arc<Report>,
    lock_waits: Arc<LockWaits>,
    /// What the kernel said at INIT: whether it can be told to forget names. Else it is told to remember none.
    keeps_names: OnceLock<bool>,
    memory: OnceLock<Arc<KernelMemory>>,
    pipes: Pipes,
}

/// What became of a request: an answer that was given, or why there is none.
type Done = Result<(), errors::Refusal>;

impl FileSystem {
    /// The requests of one mount, done by `vfs`.
    pub fn new(vfs: Arc<Vfs>) -> Self {
        Self {
            vfs,
            report: Arc::default(),
            lock_waits: LockWaits::new(waits::WAITS_MAX),
            keeps_names: OnceLock::new(),
            memory: OnceLock::new(),
            pipes: Pipes::default(),
        }
    }

    /// Reads of the kernel that were answered from a socket through a pipe, since the mount began.
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
        let _ = self.keeps_names.set(kernel.expires_names());
        settings::wanted(kernel, self.vfs.consistency())
    }

    fn started(&self, notifier: Notifier) {
        let keeps_names = self.keeps_names.get().is_some_and(|keeps| *keeps);
        let memory = self.memory.get_or_init(|| Arc::new(KernelMemory::new(notifier, keeps_names)));
        if let Err(error) = self.vfs.serve(Arc::clone(memory) as Arc<dyn Keeper>) {
            tracing::warn!(%error, "nothing is remembered of names and attributes: the mount is slower");
        }
    }

    fn handle(&self, request: Request<'_>, reply: Reply, call: &mut Call<'_>) {
        let mut reply = Some(reply);
        let _bound = has_a_bound(&request.operation).then(|| self.vfs.bound());
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
    /// Hands a name in a directory, and what it leads to, out to the kernel; `give` is told what of it may be remembered.
    fn hand_out_name<R>(
        &self,
        (directory, name): (FileIndex, &[u8]),
        keep: &Keep,
        give: impl FnOnce(Kept) -> R,
    ) -> R {
        self.vfs.hand_out(keep, |kept| {
            let name = kept.name && self.note(directory, Some(name));
            give(Kept { name, attributes: kept.attributes && (name || self.note(directory, None)) })
        })
    }

    /// Whether a name may be given to the kernel as one to be remembered, or without one attributes of what is found in the directory;
    /// within [`Vfs::hand_out`].
    fn note(&self, directory: FileIndex, name: Option<&[u8]>) -> bool {
        let given = self.memory.get().and_then(|memory| memory.given());
        given.is_some_and(|given| given.note(directory, name, Instant::now()))
    }

    /// The kernel has removed a name by itself.
    fn forget(&self, (directory, name): (FileIndex, &[u8])) {
        if let Some(given) = self.memory.get().and_then(|memory| memory.given()) {
            given.forget(directory, name);
        }
    }

    /// A name that the kernel may believe in, with nobody's promise, is to be asked for from now on.
    fn expire_later(&self, (directory, name): (FileIndex, &[u8])) {
        if let Some(memory) = self.memory.get() {
            memory.expire_later(directory, name);
        }
    }

    /// For requests that the kernel sends while it holds the locks of directories, shared or alone.
    fn locked(&self, node: FileIndex, operation: &Operation<'_>) -> Option<Locked<'_>> {
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
            // By its handle: no directory's lock is held.
            return None;
        }
        Some(self.memory.get()?.given()?.locked(directories, Instant::now()))
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
            Op::StatFs => self.space(node, answer),

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
                // A program's own read names the owner of its locks; a page for the kernel's cache nobody's.
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
                self.set_xattr(node, (name, value), flags, acl_kill_sgid, answer)
            }
            Op::RemoveXattr { name } => self.remove_xattr(node, name, answer),

            Op::TestLock(lock) => self.test_lock(&lock, answer),
            Op::SetLock { lock, wait } => {
                self.set_lock(header, (&lock, wait), call.interrupt, answer)
            }

            Op::Ioctl { .. } => Err(Errno::NOTTY.into()),
            _ => Err(Errno::NOSYS.into()),
        }
    }
}

/// Whether a request is to end within the mount's time bound, whatever is done for it. A lock is waited for as long as it takes. No call
/// waits for pages that the kernel writes back, and they would be lost: each step of that has a time of its own.
fn has_a_bound(operation: &Operation<'_>) -> bool {
    !matches!(
        operation,
        Operation::SetLock { wait: true, .. } | Operation::Write { from_cache: true, .. }
    )
}

/// Who asks. What it may do the kernel has decided; what it makes is its own.
fn user(header: &Header) -> User {
    User { uid: header.uid.into(), gid: header.gid.into() }
}

/// Whether setuid and setgid go with a change of the bytes, where the request does not say so: a write says whether the process has
/// `CAP_FSETID`, `fallocate` and `copy_file_range` do not. Taken to have it is root.
fn kills_privileges(header: &Header) -> bool {
    header.uid != 0
}

/// The reply while nobody has used it: an error that comes before has it still.
struct Answer<'r>(&'r mut Option<Reply>);

impl Answer<'_> {
    /// Gives the one answer.
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
