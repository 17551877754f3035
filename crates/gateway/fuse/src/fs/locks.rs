//! Locks: `fcntl`, OFD and `flock`.

use braid_vfs::{FileHandle, Lock, LockSpace};
use rustix::io::Errno;

use super::{Answer, Done, FileSystem};
use crate::kernel::{self, Header, Interrupt, LockKind};

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
        header: &Header,
        (wanted, waits): (&kernel::Lock, bool),
        interrupt: &Interrupt,
        answer: Answer<'_>,
    ) -> Done {
        let (handle, space) = (FileHandle(wanted.handle), space(wanted));
        if wanted.kind == LockKind::Unlock {
            let (start, last) = range(wanted);
            self.vfs.unlock(handle, space, wanted.owner, start, last)?;
        } else if waits {
            return self.wait_for_lock(header, (handle, space, lock(wanted)), interrupt, answer);
        } else if self.vfs.try_lock(handle, space, &lock(wanted))?.is_some() {
            return Err(Errno::AGAIN.into());
        }
        answer.ok()
    }
}

fn space(wanted: &kernel::Lock) -> LockSpace {
    if wanted.flock { LockSpace::Whole } else { LockSpace::Range }
}

/// flock(2) has no range; all of its locks cover the same bytes.
fn range(wanted: &kernel::Lock) -> (u64, u64) {
    if wanted.flock { (0, u64::MAX) } else { (wanted.start, wanted.end) }
}

fn lock(wanted: &kernel::Lock) -> Lock {
    let (start, last) = range(wanted);
    let exclusive = wanted.kind == LockKind::Write;
    Lock { owner: wanted.owner, pid: wanted.pid, start, last, exclusive }
}
