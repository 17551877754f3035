//! Byte-range locks. They hold between clients of this share; programs on the mount have those of
//! the kernel.

use std::sync::Arc;

use braid_share::{
    FileIndex, Lock, LockCancelHandle, LockConflict, Result, SessionId, Status,
    tables::{Outcome, Wanted},
};

use crate::service::{Service, failed};

/// Removes a wait from the table when its caller goes away.
struct WaitGuard<'s> {
    service: &'s Service,
    wait: u64,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.service.sessions().locks.abandon(self.wait);
    }
}

impl Service {
    pub(crate) fn lock(
        &self,
        session: SessionId,
        file: FileIndex,
        lock: Lock,
    ) -> Outcome<Option<LockConflict>> {
        self.files.node(file)?;
        self.sessions().locks.request(Wanted { file, session, lock })
    }

    pub(crate) fn test_lock(
        &self,
        session: SessionId,
        file: FileIndex,
        lock: Lock,
    ) -> Outcome<Option<LockConflict>> {
        self.files.node(file)?;
        self.sessions().locks.test(&Wanted { file, session, lock })
    }

    pub(crate) async fn lock_wait(
        self: &Arc<Self>,
        session: SessionId,
        file: FileIndex,
        lock: Lock,
        cancel: &LockCancelHandle,
    ) -> Result<()> {
        self.run(session, "lock", move |service| service.files.node(file).map(drop)).await?;
        // Here, and not on another thread: there is no wait without its guard.
        let begun = {
            let mut sessions = self.sessions();
            // Under the mutex: a cancel after this finds the wait.
            let live = sessions.check(session).and_then(|()| match cancel.is_cancelled() {
                true => Err(Status::Interrupted),
                false => Ok(()),
            });
            live.and_then(|()| sessions.locks.begin_wait(Wanted { file, session, lock }, cancel))
        };
        let (wait, notify) = begun.map_err(|status| failed("lock", status))?;
        let guard = WaitGuard { service: self, wait };
        loop {
            let result = self.sessions().locks.take_result(wait);
            match result {
                Some(result) => {
                    // The wait is not in the table any more.
                    drop(guard);
                    return result.map_err(|status| failed("lock", status));
                }
                // The notification is kept if it comes before this.
                None => notify.notified().await,
            }
        }
    }
}
