//! Session ends and closes that the store could not record, for instance because its disk was full:
//! tried again with each tick.

use std::{collections::BTreeSet, sync::Arc};

use braid_meta::{Call as Change, Identity};
use braid_types::SessionId;

use crate::core::{MdsCore, report};

/// What is to be tried again.
#[derive(Debug, Default)]
pub(super) struct CleanupRetry {
    /// Sessions whose fences hold, where they needed one.
    sessions: BTreeSet<SessionId>,
    /// Handles of opens that no client was given.
    handles: BTreeSet<(SessionId, u64)>,
    /// Orphans that nobody reclaimed.
    orphans: bool,
}

impl CleanupRetry {
    pub(super) fn add_session(&mut self, session: SessionId) {
        self.sessions.insert(session);
    }

    pub(super) fn add_handle(&mut self, session: SessionId, id: u64) {
        self.handles.insert((session, id));
    }
}

impl MdsCore {
    /// Closes what a session had open and removes its record: now, or as soon as the store can.
    pub(crate) fn end_in_store(&self, session: SessionId) {
        let open = self.namespace.open_files_of(session);
        let ended = self.namespace.end_session(session, self.env.clock.wall());
        let mut state = self.state();
        match ended {
            Ok(files) => files.into_iter().for_each(|file| state.sizes.last_writer_closed(file)),
            Err(failure) => {
                report(&format!("closing what session {session} had open"), &failure);
                // Some are closed. The size table skips the others.
                open.into_iter().for_each(|open| state.sizes.last_writer_closed(open.file));
                state.sessions.cleanup.add_session(session);
            }
        }
    }

    /// After the grace period: deletes orphans that nobody reclaimed.
    pub(super) fn reap_orphans(&self) {
        let reaped = self.namespace.orphans().and_then(|orphans| {
            let who = Identity::root();
            let change = Change { who: &who, now: self.env.clock.wall(), replay: None };
            let mut failed = Ok(());
            for file in orphans {
                failed = self.namespace.reap_orphan(&change, file).map(drop).and(failed);
            }
            failed
        });
        if let Err(failure) = reaped {
            report("deleting orphans that nobody reclaimed after the restart", &failure);
            self.state().sessions.cleanup.orphans = true;
        }
    }

    /// Tries again what could not be ended.
    pub(crate) fn retry_cleanup(self: &Arc<Self>) {
        let CleanupRetry { sessions, handles, orphans } =
            std::mem::take(&mut self.state().sessions.cleanup);
        if sessions.is_empty() && handles.is_empty() && !orphans {
            return;
        }
        sessions.into_iter().for_each(|session| self.end_in_store(session));
        for (session, id) in handles {
            if let Err(failure) = self.close_unclaimed(session, id) {
                report("undoing an open", &failure);
                self.state().sessions.cleanup.add_handle(session, id);
            }
        }
        if orphans {
            self.reap_orphans();
        }
        self.state().deletions.note_queued();
    }
}
