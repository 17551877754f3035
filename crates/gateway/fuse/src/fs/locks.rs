//! Locks: `fcntl`, OFD and `flock`.

use std::{sync::Arc, thread};

use braid_vfs::{Error, FileHandle, Lock, LockSpace, LockWait};
use rustix::io::Errno;

use super::{Answer, Done, FileSystem};
use crate::kernel::{self, Interrupt, LockKind, SignalGuard};

impl FileSystem {
    pub(super) fn test_lock(&self, wanted: &kernel::Lock, answer: Answer<'_>) -> Done {
        let found = self.vfs.test_lock(FileHandle(wanted.handle), space(wanted), &lock(wanted))?;
        let shown = found.map(|found| kernel::Lock {
            owner: found.owner,
            start: found.start,
            end: found.last,
            kind: if found.exclusive { LockKind::Write } else { LockKind::Read },
            pid: found.pid,
            ..*wanted
        });
        answer.with(|reply| reply.lock(shown.as_ref()))
    }

    pub(super) fn set_lock(
        &self,
        wanted: &kernel::Lock,
        waits: bool,
        interrupt: &Interrupt,
        answer: Answer<'_>,
    ) -> Done {
        let (handle, space) = (FileHandle(wanted.handle), space(wanted));
        if wanted.kind == LockKind::Unlock {
            let (start, last) = range(wanted);
            self.vfs.unlock(handle, space, wanted.owner, start, last)?;
        } else if !waits {
            if self.vfs.try_lock(handle, space, &lock(wanted))?.is_some() {
                return Err(Errno::AGAIN.into());
            }
        } else {
            let wait = LockWait::new();
            let _guard = self.ends_with(interrupt, &wait);
            if interrupt.signalled() {
                return Err(Error::Interrupted.into());
            }
            self.vfs.lock(handle, space, &lock(wanted), &wait)?;
        }
        answer.ok()
    }

    /// Has a signal to the process end its wait. The server is told on a thread of its own: who tells of signals must not
    /// wait for a server.
    fn ends_with(&self, interrupt: &Interrupt, wait: &LockWait) -> SignalGuard {
        let (vfs, wait) = (Arc::clone(&self.vfs), wait.clone());
        interrupt.on_signal(move || {
            let (vfs, wait) = (Arc::clone(&vfs), wait.clone());
            let told = thread::Builder::new().name("fuse-unwait".into()).spawn(move || vfs.cancel(&wait));
            if told.is_err() {
                tracing::error!("no thread could be had to end the wait for a lock: it goes on");
            }
        })
    }
}

fn space(wanted: &kernel::Lock) -> LockSpace {
    if wanted.flock { LockSpace::Whole } else { LockSpace::Range }
}

/// flock(2) has no range; all of its locks meet on the same bytes.
fn range(wanted: &kernel::Lock) -> (u64, u64) {
    if wanted.flock { (0, u64::MAX) } else { (wanted.start, wanted.end) }
}

fn lock(wanted: &kernel::Lock) -> Lock {
    let (start, last) = range(wanted);
    let exclusive = wanted.kind == LockKind::Write;
    Lock { owner: wanted.owner, pid: wanted.pid, start, last, exclusive }
}
