//! The admission check: whether a slice of a request may touch objects. It refuses fenced sessions,
//! abandoned connections, old epochs, and all clients while the metadata server does not answer.
//!
//! ```text
//!   slice:     count it as running ── read the rules ── read or write objects ── count it as ended
//!   fence:     change the rules ── wait for running slices that they refuse ── acknowledge
//!   abandon:   mark the connections ── wait for their running slices ── acknowledge
//! ```
//!
//! Invariants:
//! 1. When [`SliceAdmission::fence`] returns, no slice of a fenced session runs and none will start
//!    (I4).
//! 2. No slice of a client starts at or after the moment that [`SliceAdmission::serve_until`] last
//!    set. That moment counts from when the answered heartbeat was *sent*, so that the daemon stops
//!    before the metadata server relies on it.
//! 3. The lowest accepted epoch never falls.
//! 4. When [`SliceAdmission::abandon`] returns, no slice of those connections runs and none will
//!    start. What a client retries over another connection is therefore not overwritten by its
//!    first attempt. A slice reads only its own connection's mark, which costs neither a lock nor a
//!    search.
//! 5. A slice that blocks on the disk holds no lock. It delays its own fence and nothing else: no
//!    other slice and no heartbeat. A slice is counted before it reads the rules, and a fence
//!    changes the rules before it reads the counts. So at least one of the two sees the other.
//!
//! `begin_fence` names 3 where it obeys it. Not asserted: 1 and 4, since a refused slice is counted
//! for a moment after the fence holds; 2, since the clock goes on while a slice runs; and 5, since
//! locks do not record who holds them.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use braid_types::{Failure, MdsEpoch, RangeMap, SessionId, Status};

use crate::connections::{ConnectionEntry, ConnectionTable};

/// Ranges of fenced sessions, 24 bytes each. The metadata server fences at most one range more than
/// there are live sessions (131,072), and the ranges that it pushes touch those. Beyond twice as
/// many, the oldest become one range: every session up to the newest of them is refused, whether it
/// was fenced or not.
pub const FENCED_RANGES_MAX: usize = 262_144;

/// Decides whether a slice of a request may touch objects.
#[derive(Debug)]
pub struct SliceAdmission {
    /// The lock is never held while a thread waits.
    rules: RwLock<AdmissionRules>,
    /// In nanoseconds; 0 serves no clients.
    serve_until: AtomicU64,
    callers: ConnectionTable,
    /// Callers that the rules refuse and that had running slices at the last look.
    draining: Mutex<Vec<Arc<ConnectionEntry>>>,
    /// A slice has ended for which a thread may wait.
    slice_ended: Condvar,
    /// Threads that wait for slices to end.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct AdmissionRules {
    fenced: RangeMap<()>,
    epoch_min: MdsEpoch,
}

/// While it lives, no fence or abandonment of its callers is acknowledged. Held for one slice only.
#[must_use = "a guard that is dropped protects nothing"]
#[derive(Debug)]
pub struct AdmissionGuard<'a> {
    admission: &'a SliceAdmission,
    inside: SliceOwner,
}

/// The callers of a slice: one, or all tasks of a collective write.
#[derive(Debug)]
enum SliceOwner {
    One(Arc<ConnectionEntry>),
    All(Vec<Arc<ConnectionEntry>>),
}

impl SliceOwner {
    fn callers(&self) -> &[Arc<ConnectionEntry>] {
        match self {
            Self::One(caller) => std::slice::from_ref(caller),
            Self::All(callers) => callers,
        }
    }
}

impl Drop for AdmissionGuard<'_> {
    fn drop(&mut self) {
        self.inside.callers().iter().for_each(|caller| caller.end_slice());
        if self.admission.waiting.load(SeqCst) > 0 {
            // A waiting thread has read the counts under this lock, or reads them after it.
            drop(self.admission.draining());
            self.admission.slice_ended.notify_all();
        }
    }
}

impl SliceAdmission {
    /// Admits no client before the first [`SliceAdmission::serve_until`]. It need not remember the
    /// fences of an earlier process: the reply to a registration brings all of them before service
    /// begins. Fences wait for slices of `callers` only.
    pub(crate) fn not_serving(callers: ConnectionTable) -> Self {
        Self {
            rules: RwLock::default(),
            serve_until: AtomicU64::new(0),
            callers,
            draining: Mutex::default(),
            slice_ended: Condvar::new(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Admits one slice. A caller without a session is the metadata server: it cannot be fenced,
    /// and its request shows that it lives.
    ///
    /// # Errors
    /// [`Status::NotServing`], [`Status::StaleEpoch`], [`Status::Fenced`], [`Status::Cancelled`].
    pub(crate) fn begin_slice(
        &self,
        caller: &Arc<ConnectionEntry>,
        epoch: MdsEpoch,
        now: Duration,
    ) -> Result<AdmissionGuard<'_>, Failure> {
        caller.begin_slice();
        let pass = AdmissionGuard { admission: self, inside: SliceOwner::One(caller.clone()) };
        self.check(caller, epoch, now).map(|()| pass)
    }

    /// Admits one slice that belongs to all these callers.
    ///
    /// # Errors
    /// As [`SliceAdmission::begin_slice`], of the first caller that is refused.
    pub(crate) fn begin_shared_slice<'c>(
        &self,
        callers: impl Iterator<Item = (&'c Arc<ConnectionEntry>, MdsEpoch)> + Clone,
        now: Duration,
    ) -> Result<AdmissionGuard<'_>, Failure> {
        let all: Vec<_> = callers.clone().map(|(caller, _)| caller.clone()).collect();
        all.iter().for_each(|caller| caller.begin_slice());
        let pass = AdmissionGuard { admission: self, inside: SliceOwner::All(all) };
        for (caller, epoch) in callers {
            self.check(caller, epoch, now)?;
        }
        Ok(pass)
    }

    /// Checks a slice that changes nothing, so that no fence need wait for it.
    ///
    /// # Errors
    /// As [`SliceAdmission::begin_slice`].
    pub(crate) fn check(
        &self,
        caller: &ConnectionEntry,
        epoch: MdsEpoch,
        now: Duration,
    ) -> Result<(), Failure> {
        if caller.is_abandoned() {
            return Err(abandoned());
        }
        let rules = self.rules();
        rules.check_epoch(epoch)?;
        caller.session().map_or(Ok(()), |session| self.check_session(&rules, session, now))
    }

    /// Refuses old epochs.
    ///
    /// # Errors
    /// [`Status::StaleEpoch`].
    pub fn check_epoch(&self, epoch: MdsEpoch) -> Result<(), Failure> {
        self.rules().check_epoch(epoch)
    }

    /// Refuses these sessions and older epochs from now on. Waits for their running slices.
    pub fn fence(&self, sessions: &[SessionId], epoch_min: MdsEpoch) {
        self.fence_ranges(sessions.iter().map(|session| (*session, *session)), epoch_min);
    }

    /// As [`SliceAdmission::fence`], for ranges of sessions, each given by its first and last.
    pub fn fence_ranges(
        &self,
        ranges: impl Iterator<Item = (SessionId, SessionId)>,
        epoch_min: MdsEpoch,
    ) {
        self.begin_fence(ranges, epoch_min);
        self.wait_until(|draining| draining.is_empty());
    }

    /// As [`SliceAdmission::fence_ranges`], without waiting. Returns whether no slice of a refused
    /// session runs any more. If one still runs, call again to learn whether it has ended.
    pub fn try_fence_ranges(
        &self,
        ranges: impl Iterator<Item = (SessionId, SessionId)>,
        epoch_min: MdsEpoch,
    ) -> bool {
        self.begin_fence(ranges, epoch_min);
        let mut draining = self.draining();
        draining.retain(|caller| caller.has_running_slice());
        draining.is_empty()
    }

    fn begin_fence(
        &self,
        ranges: impl Iterator<Item = (SessionId, SessionId)>,
        epoch_min: MdsEpoch,
    ) {
        let ranges: Vec<_> = ranges.map(|(first, last)| (first, last.max(first))).collect();
        let raised = self.rules().epoch_min < epoch_min;
        if ranges.is_empty() && !raised {
            return;
        }
        let mut rules = self.rules.write().unwrap_or_else(braid_types::poisoned);
        for (first, last) in &ranges {
            rules.fenced.set(first.0, last.0, ());
        }
        if rules.fenced.len() > FENCED_RANGES_MAX {
            let newest =
                rules.fenced.iter().nth(FENCED_RANGES_MAX / 2).map_or(0, |(_, last, ())| last);
            rules.fenced.set(0, newest, ());
        }
        debug_assert!(rules.fenced.len() <= FENCED_RANGES_MAX, "the oldest half became one range");
        rules.epoch_min = rules.epoch_min.max(epoch_min); // invariant 3
        drop(rules);
        // An older epoch may belong to a slice of any session.
        let is_refused =
            |session| ranges.iter().any(|(first, last)| *first <= session && session <= *last);
        let inside = self.callers.all().into_iter().filter(|caller| caller.has_running_slice());
        let refused = inside.filter(|caller| raised || caller.session().is_some_and(is_refused));
        let mut draining = self.draining();
        for caller in refused {
            if !draining.iter().any(|known| Arc::ptr_eq(known, &caller)) {
                draining.push(caller);
            }
        }
    }

    /// Waits until `done` holds for the refused callers that still have running slices.
    fn wait_until(&self, mut done: impl FnMut(&[Arc<ConnectionEntry>]) -> bool) {
        self.waiting.fetch_add(1, SeqCst);
        let mut draining = self.draining();
        loop {
            draining.retain(|caller| caller.has_running_slice());
            if done(&draining) {
                break;
            }
            draining = self.slice_ended.wait(draining).unwrap_or_else(braid_types::poisoned);
        }
        drop(draining);
        self.waiting.fetch_sub(1, SeqCst);
    }

    /// Checks a request that carries no capability: its caller is not fenced and not abandoned.
    ///
    /// # Errors
    /// As [`SliceAdmission::begin_slice`].
    pub fn check_without_capability(
        &self,
        caller: &ConnectionEntry,
        now: Duration,
    ) -> Result<(), Failure> {
        if caller.is_abandoned() {
            return Err(abandoned());
        }
        caller.session().map_or(Ok(()), |session| self.check_session(&self.rules(), session, now))
    }

    /// Refuses these connections from now on. Waits for their running slices.
    pub(crate) fn abandon(&self, callers: &[Arc<ConnectionEntry>]) {
        callers.iter().for_each(|caller| caller.abandon());
        self.wait_until(|_| !callers.iter().any(|caller| caller.has_running_slice()));
    }

    /// Serves clients until this moment; `None` stops immediately.
    pub fn serve_until(&self, until: Option<Duration>) {
        self.serve_until.store(until.map_or(0, nanos), SeqCst);
    }

    /// Whether clients are served at `now`.
    pub fn serves(&self, now: Duration) -> bool {
        nanos(now) < self.serve_until.load(SeqCst)
    }

    fn check_session(
        &self,
        rules: &AdmissionRules,
        session: SessionId,
        now: Duration,
    ) -> Result<(), Failure> {
        if !self.serves(now) {
            return Err(Failure::new(
                Status::NotServing,
                "the I/O daemon received no reply from the metadata server for too long",
            ));
        }
        if rules.fenced.covers(session.0, session.0, ()) {
            return Err(Failure::new(Status::Fenced, format!("session {session} was fenced")));
        }
        Ok(())
    }

    fn rules(&self) -> RwLockReadGuard<'_, AdmissionRules> {
        self.rules.read().unwrap_or_else(braid_types::poisoned)
    }

    fn draining(&self) -> MutexGuard<'_, Vec<Arc<ConnectionEntry>>> {
        self.draining.lock().unwrap_or_else(braid_types::poisoned)
    }
}

/// A time of a clock that starts with the host: 64 bits last for 584 years.
fn nanos(moment: Duration) -> u64 {
    u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX)
}

impl AdmissionRules {
    fn check_epoch(&self, epoch: MdsEpoch) -> Result<(), Failure> {
        if epoch < self.epoch_min {
            let detail =
                format!("the capability has epoch {epoch}, the lowest valid is {}", self.epoch_min);
            return Err(Failure::new(Status::StaleEpoch, detail));
        }
        Ok(())
    }
}

fn abandoned() -> Failure {
    Failure::new(Status::Cancelled, "the client has abandoned this connection")
}

#[cfg(test)]
mod tests {
    use braid_types::ConnectionId;

    use super::*;
    use crate::connections::ConnectionTable;

    const NOW: Duration = Duration::from_secs(100);

    fn open() -> SliceAdmission {
        let admission = SliceAdmission::not_serving(ConnectionTable::default());
        admission.serve_until(Some(NOW + Duration::from_secs(1)));
        admission
    }

    fn caller(session: Option<u64>) -> Arc<ConnectionEntry> {
        ConnectionTable::default().add(ConnectionId([9; 16]), session.map(SessionId))
    }

    /// A connection in the table of the admission check.
    fn connected(admission: &SliceAdmission, id: u8, session: u64) -> Arc<ConnectionEntry> {
        admission.callers.add(ConnectionId([id; 16]), Some(SessionId(session)))
    }

    fn refusal(
        admission: &SliceAdmission,
        session: u64,
        epoch: u64,
        now: Duration,
    ) -> Option<Status> {
        admission
            .begin_slice(&caller(Some(session)), MdsEpoch(epoch), now)
            .err()
            .map(|failure| failure.status)
    }

    #[test]
    fn clients_are_refused_before_the_first_and_after_the_last_heartbeat() {
        let admission = SliceAdmission::not_serving(ConnectionTable::default());
        assert_eq!(refusal(&admission, 1, 1, NOW), Some(Status::NotServing));
        admission.serve_until(Some(NOW));
        assert_eq!(refusal(&admission, 1, 1, NOW - Duration::from_nanos(1)), None);
        assert_eq!(refusal(&admission, 1, 1, NOW), Some(Status::NotServing));
    }

    #[test]
    fn only_fenced_sessions_and_old_epochs_are_refused() {
        let admission = open();
        admission.fence(&[SessionId(7)], MdsEpoch(2));
        assert_eq!(refusal(&admission, 7, 2, NOW), Some(Status::Fenced));
        assert_eq!(refusal(&admission, 8, 1, NOW), Some(Status::StaleEpoch));
        assert_eq!(refusal(&admission, 8, 2, NOW), None);
        assert!(admission.begin_slice(&caller(None), MdsEpoch(2), NOW).is_ok());
    }

    #[test]
    fn the_least_epoch_never_falls() {
        let admission = open();
        admission.fence(&[], MdsEpoch(9));
        admission.fence(&[], MdsEpoch(1));
        assert_eq!(refusal(&admission, 1, 8, NOW), Some(Status::StaleEpoch));
    }

    #[test]
    fn the_table_of_fences_is_bounded_and_forgets_no_fence() {
        let admission = open();
        let newest = 2 * FENCED_RANGES_MAX as u64 + 2;
        let sessions: Vec<_> = (1..=newest / 2).map(|at| SessionId(2 * at)).collect();
        admission.fence(&sessions, MdsEpoch(1));
        assert!(admission.rules.read().unwrap().fenced.len() <= FENCED_RANGES_MAX);
        for session in [2, 4, newest - 2, newest] {
            assert_eq!(refusal(&admission, session, 1, NOW), Some(Status::Fenced), "{session}");
        }
        for session in [newest - 1, newest + 1] {
            assert_eq!(refusal(&admission, session, 1, NOW), None, "{session}");
        }
    }

    #[test]
    fn sessions_in_a_row_are_fenced_as_one_range() {
        let admission = open();
        let row = |first, last| std::iter::once((SessionId(first), SessionId(last)));
        admission.fence_ranges(row(3, 5), MdsEpoch(1));
        admission.fence_ranges(row(6, 1_000_000), MdsEpoch(1));
        assert_eq!(admission.rules.read().unwrap().fenced.len(), 1);
        let refused = [2, 3, 1_000_000, 1_000_001]
            .map(|session| refusal(&admission, session, 1, NOW).is_some());
        assert_eq!(refused, [false, true, true, false]);
    }

    #[test]
    fn a_call_without_a_capability_is_refused_to_fenced_and_abandoned_callers() {
        let admission = open();
        admission.fence(&[SessionId(7)], MdsEpoch(1));
        let refused = |caller: &ConnectionEntry, now| {
            admission.check_without_capability(caller, now).err().map(|failure| failure.status)
        };
        assert_eq!(refused(&caller(Some(7)), NOW), Some(Status::Fenced));
        assert_eq!(refused(&caller(Some(8)), NOW), None);
        assert_eq!(
            refused(&caller(Some(8)), NOW + Duration::from_secs(1)),
            Some(Status::NotServing)
        );
        assert_eq!(
            refused(&caller(None), NOW + Duration::from_secs(1)),
            None,
            "the metadata server, an administrator"
        );
        let given_up = caller(Some(8));
        admission.abandon(std::slice::from_ref(&given_up));
        assert_eq!(refused(&given_up, NOW), Some(Status::Cancelled));
    }

    #[test]
    fn a_fence_waits_for_the_slice_that_is_inside() {
        let admission = open();
        let (started, has_started) = std::sync::mpsc::channel();
        let (fenced, is_fenced) = std::sync::mpsc::channel();
        let writer = connected(&admission, 1, 7);
        let pass = admission.begin_slice(&writer, MdsEpoch(1), NOW).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                started.send(()).unwrap();
                admission.fence(&[SessionId(7)], MdsEpoch(1));
                fenced.send(()).unwrap();
            });
            has_started.recv().unwrap();
            assert!(is_fenced.try_recv().is_err(), "the slice is still inside");
            drop(pass);
            is_fenced.recv().unwrap();
        });
        assert_eq!(refusal(&admission, 7, 1, NOW), Some(Status::Fenced));
    }

    #[test]
    fn abandoning_a_connection_waits_for_its_slice_and_lets_no_other_in() {
        let admission = open();
        let (given_up, other) = (connected(&admission, 1, 7), connected(&admission, 2, 7));
        let (started, has_started) = std::sync::mpsc::channel();
        let (abandoned, is_abandoned) = std::sync::mpsc::channel();
        let pass = admission.begin_slice(&given_up, MdsEpoch(1), NOW).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                started.send(()).unwrap();
                admission.abandon(std::slice::from_ref(&given_up));
                abandoned.send(()).unwrap();
            });
            has_started.recv().unwrap();
            assert!(is_abandoned.try_recv().is_err(), "the slice is still inside");
            drop(pass);
            is_abandoned.recv().unwrap();
        });
        let refused = admission.begin_slice(&given_up, MdsEpoch(1), NOW).unwrap_err();
        assert_eq!(refused.status, Status::Cancelled);
        assert!(
            admission.begin_slice(&other, MdsEpoch(1), NOW).is_ok(),
            "the session's other connections continue"
        );
    }

    #[test]
    fn a_slice_that_is_stuck_holds_up_its_own_fence_and_nothing_else() {
        let admission = open();
        admission.fence(&[], MdsEpoch(1));
        let (stuck, reader) = (connected(&admission, 1, 7), connected(&admission, 2, 8));
        let pass = admission.begin_slice(&stuck, MdsEpoch(1), NOW).unwrap();
        let row = |first, last| std::iter::once((SessionId(first), SessionId(last)));
        // Heartbeats, with and without fences of others, all on this thread: it would wait for
        // itself.
        admission.serve_until(Some(NOW + Duration::from_secs(9)));
        assert!(admission.try_fence_ranges(std::iter::empty(), MdsEpoch(1)));
        admission.fence(&[SessionId(9)], MdsEpoch(1));
        assert!(
            admission.begin_slice(&reader, MdsEpoch(1), NOW).is_ok(),
            "reads and writes of others continue"
        );
        // Its own fence refuses it immediately, and holds when the slice has ended.
        assert!(!admission.try_fence_ranges(row(6, 7), MdsEpoch(1)));
        assert_eq!(admission.check(&stuck, MdsEpoch(1), NOW).unwrap_err().status, Status::Fenced);
        assert!(!admission.try_fence_ranges(row(6, 7), MdsEpoch(1)), "asked again while it runs");
        assert!(admission.begin_slice(&reader, MdsEpoch(1), NOW).is_ok());
        drop(pass);
        assert!(admission.try_fence_ranges(row(6, 7), MdsEpoch(1)));
    }

    #[test]
    fn a_new_epoch_waits_for_the_slices_of_all_before_it() {
        let admission = open();
        let (one, two) = (connected(&admission, 1, 7), connected(&admission, 2, 8));
        let passes = [
            admission.begin_slice(&one, MdsEpoch(1), NOW).unwrap(),
            admission.begin_slice(&two, MdsEpoch(1), NOW).unwrap(),
        ];
        for pass in passes {
            assert!(!admission.try_fence_ranges(std::iter::empty(), MdsEpoch(2)));
            drop(pass);
        }
        assert!(admission.try_fence_ranges(std::iter::empty(), MdsEpoch(2)));
        let together = [(&one, MdsEpoch(2)), (&two, MdsEpoch(2))];
        let both = admission.begin_shared_slice(together.into_iter(), NOW).unwrap();
        assert!(one.has_running_slice() && two.has_running_slice());
        drop(both);
        assert!(!one.has_running_slice() && !two.has_running_slice());
        assert!(
            admission
                .begin_shared_slice([(&one, MdsEpoch(2)), (&two, MdsEpoch(1))].into_iter(), NOW)
                .is_err()
        );
        assert!(!one.has_running_slice() && !two.has_running_slice(), "refused: no slice runs");
    }
}
