//! What the store could not end, its disk full for instance: done again with each tick.

use std::{collections::BTreeSet, sync::Arc};

use braid_meta::{Call as Change, Identity};
use braid_types::SessionId;

use crate::{
    core::{MdsCore, State, report},
    session::OpenFile,
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Unended {
    /// Sessions whose fences hold, if they needed one.
    sessions: BTreeSet<SessionId>,
    /// Handles of opens that were given to nobody.
    handles: BTreeSet<(SessionId, u64)>,
    /// Orphans that nobody took up.
    orphans: bool,
}

impl MdsCore {
    /// Closes what a session had open, and takes it off the record: now, or as soon as the store can.
    pub(crate) fn end_on_record(&self, session: SessionId) {
        let open = self.names.open_files_of(session);
        let ended = self.names.end_session(session, self.env.clock.wall());
        let mut state = self.state();
        match ended {
            Ok(files) => files.into_iter().for_each(|file| state.collector.add(file)),
            Err(failure) => {
                report(&format!("closing what session {session} had open"), &failure);
                // Some are closed. The collector passes over the others.
                open.into_iter().for_each(|open| state.collector.add(open.file));
                state.unended.sessions.insert(session);
            }
        }
    }

    /// After the grace period: orphans that nobody took up go.
    pub(crate) fn reap_orphans(&self) {
        let reaped = self.names.orphans().and_then(|orphans| {
            let who = Identity::root();
            let change = Change { who: &who, now: self.env.clock.wall(), replay: None };
            let mut failed = Ok(());
            for file in orphans {
                failed = self.names.reap_orphan(&change, file).map(drop).and(failed);
            }
            failed
        });
        if let Err(failure) = reaped {
            report("deleting what nobody took up after the restart", &failure);
            self.state().unended.orphans = true;
        }
    }

    /// Tries again what could not be ended.
    pub(crate) fn end_again(self: &Arc<Self>) {
        let Unended { sessions, handles, orphans } = std::mem::take(&mut self.state().unended);
        if sessions.is_empty() && handles.is_empty() && !orphans {
            return;
        }
        sessions.into_iter().for_each(|session| self.end_on_record(session));
        for (session, id) in handles {
            if let Err(failure) = self.close_kept(session, id) {
                report("taking back an open", &failure);
                self.state().unended.handles.insert((session, id));
            }
        }
        if orphans {
            self.reap_orphans();
        }
        self.state().deleter.queued();
    }
}

impl State {
    /// An open that its session was not given, and that the store still counts, is closed with a later tick.
    pub(crate) fn close_later(&mut self, session: SessionId, open: OpenFile) {
        match self.sessions.live_mut(session) {
            Some(live) => drop(self.unended.handles.insert((session, live.keep(open)))),
            // The end of the session closes it, behind its fence; one that is over is done again.
            None if self.endings.iter().any(|ending| ending.is_of(session)) => {}
            None => drop(self.unended.sessions.insert(session)),
        }
    }
}
