//! Who is let through to the objects: fenced sessions, abandoned connections, old epochs, and a daemon that lost its
//! metadata server.
//!
//! ```text
//!   slice of a job:   pass() ──── read or write objects ──── drop(Pass)
//!   fence:            lock out passes ── wait for those inside ── add sessions ── acknowledge
//!   abandon:          lock out passes ── wait for those inside ── mark the connections ── acknowledge
//! ```
//!
//! Invariants:
//! 1. When [`Gate::fence`] returns, no slice of a fenced session runs and none will start (I4).
//! 2. Nothing passes at or after the moment that [`Gate::serve_until`] last set; that moment is counted from
//!    when the answered heartbeat was *sent*, so that the daemon stops before the metadata server counts on it.
//! 3. The least epoch never falls.
//! 4. When [`Gate::abandon`] returns, no slice of those connections runs and none will start: what a client repeats
//!    over another connection is not overwritten by its first attempt. A slice looks at its own connection's mark
//!    only, so that this costs the passes neither a lock nor a search.

use std::{
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

use braid_types::{Failure, MdsEpoch, RangeMap, SessionId, Status};

use crate::callers::Caller;

/// Ranges of fenced sessions, 24 bytes each. The metadata server's fences are at most one range more than sessions live,
/// 131,072, and those that it pushes touch them; past twice as many the oldest become one range: every session up to
/// the newest of them is refused, fenced or not.
pub const FENCED_RANGES_MAX: usize = 262_144;

/// Decides whether a slice of a job may touch objects.
#[derive(Debug)]
pub struct Gate {
    rules: RwLock<Rules>,
}

#[derive(Debug, Default)]
struct Rules {
    fenced: RangeMap<()>,
    epoch_min: MdsEpoch,
    serve_until: Option<Duration>,
}

/// As long as it lives, no fence is acknowledged. Held for one slice only.
#[must_use = "a pass that is dropped protects nothing"]
#[derive(Debug)]
pub struct Pass<'a> {
    _rules: RwLockReadGuard<'a, Rules>,
}

impl Gate {
    /// A gate that lets no client through before the first [`Gate::serve_until`]. It need not remember the fences of an
    /// earlier run: the answer to a registration brings all of them, before service begins.
    pub fn closed() -> Self {
        Self { rules: RwLock::default() }
    }

    /// Lets one slice through. A caller without a session is the metadata server: it cannot be fenced, and that it asks
    /// shows that it is there.
    ///
    /// # Errors
    /// [`Status::NotServing`], [`Status::StaleEpoch`], [`Status::Fenced`], [`Status::Cancelled`].
    pub fn pass(&self, caller: &Caller, epoch: MdsEpoch, now: Duration) -> Result<Pass<'_>, Failure> {
        self.pass_together([(caller, epoch)], now)
    }

    /// Lets one slice through that is of all these callers.
    ///
    /// # Errors
    /// As [`Gate::pass`], of the first that is not let through.
    pub fn pass_together<'c>(
        &self,
        callers: impl IntoIterator<Item = (&'c Caller, MdsEpoch)>,
        now: Duration,
    ) -> Result<Pass<'_>, Failure> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        for (caller, epoch) in callers {
            if caller.is_abandoned() {
                return Err(abandoned());
            }
            rules.check_epoch(epoch)?;
            if let Some(session) = caller.session() {
                rules.check_session(session, now)?;
            }
        }
        Ok(Pass { _rules: rules })
    }

    /// Refuses old epochs.
    ///
    /// # Errors
    /// [`Status::StaleEpoch`].
    pub fn check_epoch(&self, epoch: MdsEpoch) -> Result<(), Failure> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).check_epoch(epoch)
    }

    /// Refuses these sessions and older epochs from now on. Waits for the slices that are inside.
    pub fn fence(&self, sessions: &[SessionId], epoch_min: MdsEpoch) {
        self.fence_ranges(sessions.iter().map(|session| (*session, *session)), epoch_min);
    }

    /// As [`Gate::fence`], of sessions in a row, first and last.
    pub fn fence_ranges(&self, ranges: impl Iterator<Item = (SessionId, SessionId)>, epoch_min: MdsEpoch) {
        let mut rules = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        for (first, last) in ranges {
            rules.fenced.set(first.0, last.0.max(first.0), ());
        }
        if rules.fenced.len() > FENCED_RANGES_MAX {
            let newest = rules.fenced.iter().nth(FENCED_RANGES_MAX / 2).map_or(0, |(_, last, ())| last);
            rules.fenced.set(0, newest, ());
        }
        rules.epoch_min = rules.epoch_min.max(epoch_min);
    }

    /// Lets a call through that shows no capability: its caller lives, as far as is known.
    ///
    /// # Errors
    /// As [`Gate::pass`].
    pub fn admit(&self, caller: &Caller, now: Duration) -> Result<(), Failure> {
        if caller.is_abandoned() {
            return Err(abandoned());
        }
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        caller.session().map_or(Ok(()), |session| rules.check_session(session, now))
    }

    /// Lets nothing more of these connections through. Waits for the slices that are inside.
    pub fn abandon(&self, callers: &[Arc<Caller>]) {
        let _no_pass_is_out = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        callers.iter().for_each(|caller| caller.abandon());
    }

    /// Serves until this moment, or not at all.
    pub fn serve_until(&self, until: Option<Duration>) {
        self.rules.write().unwrap_or_else(PoisonError::into_inner).serve_until = until;
    }

    /// Whether data is served at `now`.
    pub fn serves(&self, now: Duration) -> bool {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).serves(now)
    }
}

impl Rules {
    fn check_epoch(&self, epoch: MdsEpoch) -> Result<(), Failure> {
        if epoch < self.epoch_min {
            let detail = format!("the capability is of epoch {epoch}, the least is {}", self.epoch_min);
            return Err(Failure::new(Status::StaleEpoch, detail));
        }
        Ok(())
    }

    fn check_session(&self, session: SessionId, now: Duration) -> Result<(), Failure> {
        if !self.serves(now) {
            return Err(Failure::new(Status::NotServing, "it has not heard the metadata server for too long"));
        }
        if self.fenced.covers(session.0, session.0, ()) {
            return Err(Failure::new(Status::Fenced, format!("session {session} was fenced")));
        }
        Ok(())
    }

    fn serves(&self, now: Duration) -> bool {
        self.serve_until.is_some_and(|until| now < until)
    }
}

fn abandoned() -> Failure {
    Failure::new(Status::Cancelled, "its client has given this connection up")
}

#[cfg(test)]
mod tests {
    use braid_types::ConnectionId;

    use super::*;
    use crate::callers::Callers;

    const NOW: Duration = Duration::from_secs(100);

    fn open() -> Gate {
        let gate = Gate::closed();
        gate.serve_until(Some(NOW + Duration::from_secs(1)));
        gate
    }

    fn caller(session: Option<u64>) -> Arc<Caller> {
        Callers::default().add(ConnectionId([9; 16]), session.map(SessionId))
    }

    fn refusal(gate: &Gate, session: u64, epoch: u64, now: Duration) -> Option<Status> {
        gate.pass(&caller(Some(session)), MdsEpoch(epoch), now).err().map(|failure| failure.status)
    }

    #[test]
    fn closed_until_the_metadata_server_was_heard_and_again_when_it_falls_silent() {
        let gate = Gate::closed();
        assert_eq!(refusal(&gate, 1, 1, NOW), Some(Status::NotServing));
        gate.serve_until(Some(NOW));
        assert_eq!(refusal(&gate, 1, 1, NOW - Duration::from_nanos(1)), None);
        assert_eq!(refusal(&gate, 1, 1, NOW), Some(Status::NotServing));
    }

    #[test]
    fn fenced_sessions_and_old_epochs_are_refused_and_the_metadata_server_is_not() {
        let gate = open();
        gate.fence(&[SessionId(7)], MdsEpoch(2));
        assert_eq!(refusal(&gate, 7, 2, NOW), Some(Status::Fenced));
        assert_eq!(refusal(&gate, 8, 1, NOW), Some(Status::StaleEpoch));
        assert_eq!(refusal(&gate, 8, 2, NOW), None);
        assert!(gate.pass(&caller(None), MdsEpoch(2), NOW).is_ok());
    }

    #[test]
    fn the_least_epoch_never_falls() {
        let gate = open();
        gate.fence(&[], MdsEpoch(9));
        gate.fence(&[], MdsEpoch(1));
        assert_eq!(refusal(&gate, 1, 8, NOW), Some(Status::StaleEpoch));
    }

    #[test]
    fn the_table_of_fences_is_bounded_and_forgets_no_fence() {
        let gate = open();
        let newest = 2 * FENCED_RANGES_MAX as u64 + 2;
        let sessions: Vec<_> = (1..=newest / 2).map(|at| SessionId(2 * at)).collect();
        gate.fence(&sessions, MdsEpoch(1));
        assert!(gate.rules.read().unwrap().fenced.len() <= FENCED_RANGES_MAX);
        for session in [2, 4, newest - 2, newest] {
            assert_eq!(refusal(&gate, session, 1, NOW), Some(Status::Fenced), "{session}");
        }
        for session in [newest - 1, newest + 1] {
            assert_eq!(refusal(&gate, session, 1, NOW), None, "{session}");
        }
    }

    #[test]
    fn sessions_in_a_row_are_fenced_as_one_range() {
        let gate = open();
        let row = |first, last| std::iter::once((SessionId(first), SessionId(last)));
        gate.fence_ranges(row(3, 5), MdsEpoch(1));
        gate.fence_ranges(row(6, 1_000_000), MdsEpoch(1));
        assert_eq!(gate.rules.read().unwrap().fenced.len(), 1);
        let refused = [2, 3, 1_000_000, 1_000_001].map(|session| refusal(&gate, session, 1, NOW).is_some());
        assert_eq!(refused, [false, true, true, false]);
    }

    #[test]
    fn a_call_without_a_capability_is_refused_to_fenced_and_abandoned_callers() {
        let gate = open();
        gate.fence(&[SessionId(7)], MdsEpoch(1));
        let refused = |caller: &Caller, now| gate.admit(caller, now).err().map(|failure| failure.status);
        assert_eq!(refused(&caller(Some(7)), NOW), Some(Status::Fenced));
        assert_eq!(refused(&caller(Some(8)), NOW), None);
        assert_eq!(refused(&caller(Some(8)), NOW + Duration::from_secs(1)), Some(Status::NotServing));
        assert_eq!(refused(&caller(None), NOW + Duration::from_secs(1)), None, "the metadata server, an administrator");
        let given_up = caller(Some(8));
        gate.abandon(std::slice::from_ref(&given_up));
        assert_eq!(refused(&given_up, NOW), Some(Status::Cancelled));
    }

    #[test]
    fn a_fence_waits_for_the_slice_that_is_inside() {
        let gate = open();
        let (started, has_started) = std::sync::mpsc::channel();
        let (fenced, is_fenced) = std::sync::mpsc::channel();
        let writer = caller(Some(7));
        let pass = gate.pass(&writer, MdsEpoch(1), NOW).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                started.send(()).unwrap();
                gate.fence(&[SessionId(7)], MdsEpoch(1));
                fenced.send(()).unwrap();
            });
            has_started.recv().unwrap();
            assert!(is_fenced.try_recv().is_err(), "the slice is still inside");
            drop(pass);
            is_fenced.recv().unwrap();
        });
        assert_eq!(refusal(&gate, 7, 1, NOW), Some(Status::Fenced));
    }

    #[test]
    fn abandoning_a_connection_waits_for_its_slice_and_lets_no_other_in() {
        let gate = open();
        let (given_up, other) = (caller(Some(7)), caller(Some(7)));
        let (started, has_started) = std::sync::mpsc::channel();
        let (abandoned, is_abandoned) = std::sync::mpsc::channel();
        let pass = gate.pass(&given_up, MdsEpoch(1), NOW).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                started.send(()).unwrap();
                gate.abandon(std::slice::from_ref(&given_up));
                abandoned.send(()).unwrap();
            });
            has_started.recv().unwrap();
            assert!(is_abandoned.try_recv().is_err(), "the slice is still inside");
            drop(pass);
            is_abandoned.recv().unwrap();
        });
        let refused = gate.pass(&given_up, MdsEpoch(1), NOW).unwrap_err();
        assert_eq!(refused.status, Status::Cancelled);
        assert!(gate.pass(&other, MdsEpoch(1), NOW).is_ok(), "the session's other connections go on");
    }
}
