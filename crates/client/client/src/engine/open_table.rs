//! The handles that the metadata server returned: the open ones, and those whose close is not sent
//! yet.
//!
//! ```text
//!   open reply ──> open ──close, drop──> pending close ──Close──> removed
//!                   | new epoch: named in Reclaim          ^ dropped: the server closes
//!                   |   └── refused ──> the file is stale  | what is not named
//!                   `── new session: all are stale ────────'
//! ```
//!
//! Invariants:
//! 1. A handle is in the table only while the server epoch in `reclaimed` knows it, or will know
//!    it after the reclaim.
//! 2. A close is sent only in the session of its handle: another session uses the same numbers.
//! 3. A handle that was named in a `Reclaim` and closed since stays in `pending_closes`.
//!
//! `to_reclaim` asserts the session of 1, and `add` refuses handles of other epochs. `take_closes`
//! asserts 2. The table does not record what a `Reclaim` named, so 3 is not asserted.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU16, Ordering},
    },
};

use braid_types::{FileIndex, MdsEpoch, SessionId, Status};
use braid_wire::{
    Deny, Rights,
    message::mds::{ReclaimedOpen, SizeReport},
};

use super::{identities::IdentityNumber, semaphore::lock, size_report::SizeReportState};
use crate::error::Error;

/// The pending closes that are remembered while a server is away; the end of the session covers the
/// rest (I9).
const CLOSES_MAX: usize = 65_536;

const REFUSED: &str = "the metadata server restarted and could not reclaim the open file: \
                       it was deleted, or the right to open it was removed; \
                       unsynced writes may be lost";
const ENDED: &str = "the session that had the file open has ended; unsynced writes may be lost";

/// One epoch of the metadata server, as known by one session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ServerEpoch {
    /// The session.
    pub session: SessionId,
    /// The epoch.
    pub epoch: MdsEpoch,
}

/// An open file as the metadata server knows it.
#[derive(Debug)]
pub(crate) struct OpenHandle {
    pub(crate) open_id: u64,
    pub(crate) file: FileIndex,
    modes: AtomicU16,
    pub(crate) identity: IdentityNumber,
    pub(crate) session: SessionId,
    /// The size report of the file, if this handle is its sole writer.
    pub(crate) size_report: SizeReportState,
    stale_reason: OnceLock<&'static str>,
    closed: AtomicBool,
}

type Key = (SessionId, u64);

#[derive(Debug, Default)]
pub(crate) struct OpenTable(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    open: HashMap<Key, Arc<OpenHandle>>,
    /// Pending closes, in the session that was reclaimed last.
    pending_closes: Vec<Arc<OpenHandle>>,
    /// Sole writers with a valid size report, open or with a pending close.
    sole_writers: HashMap<FileIndex, Arc<OpenHandle>>,
    reclaimed: Option<ReclaimState>,
}

/// The epoch that was last sent the open files, and whether it has received all of them.
#[derive(Clone, Copy, Debug)]
struct ReclaimState {
    run: ServerEpoch,
    complete: bool,
}

impl OpenHandle {
    pub(crate) fn new(
        run: ServerEpoch,
        identity: IdentityNumber,
        named: ReclaimedOpen,
        size_report: SizeReportState,
    ) -> Self {
        let ReclaimedOpen { open_id, file, rights, deny } = named;
        let (refused, closed) = (OnceLock::new(), AtomicBool::new(false));
        let modes = AtomicU16::new(packed(rights, deny));
        Self {
            open_id,
            file,
            modes,
            identity,
            session: run.session,
            size_report,
            stale_reason: refused,
            closed,
        }
    }

    /// The rights that it is open with.
    pub(crate) fn rights(&self) -> Rights {
        Rights(self.modes.load(Ordering::Acquire).to_le_bytes()[0])
    }

    /// What it denies to other opens.
    pub(crate) fn deny(&self) -> Deny {
        Deny(self.modes.load(Ordering::Acquire).to_le_bytes()[1])
    }

    fn set_modes(&self, rights: Rights, deny: Deny) {
        self.modes.store(packed(rights, deny), Ordering::Release);
    }

    /// Fails if the server does not have it open any more.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.stale_reason.get() {
            None => Ok(()),
            Some(why) => {
                Err(Error::new(Status::StaleHandle, *why).with_hint("open the file again"))
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Marks it closed. Returns whether this was the first time.
    pub(crate) fn mark_closed(&self) -> bool {
        !self.closed.swap(true, Ordering::Relaxed)
    }

    fn key(&self) -> Key {
        (self.session, self.open_id)
    }

    fn reclaim_entry(&self) -> ReclaimedOpen {
        ReclaimedOpen {
            open_id: self.open_id,
            file: self.file,
            rights: self.rights(),
            deny: self.deny(),
        }
    }
}

/// Both in one word, so that a reclaim never names a combination that was never open.
fn packed(rights: Rights, deny: Deny) -> u16 {
    u16::from_le_bytes([rights.0, deny.0])
}

impl OpenTable {
    /// Adds an open file that epoch `run` returned.
    ///
    /// # Errors
    /// [`Status::ConnectionLost`] if another epoch was sent the open files meanwhile, without this
    /// one.
    pub(crate) fn add(
        &self,
        run: ServerEpoch,
        handle: OpenHandle,
    ) -> Result<Arc<OpenHandle>, Error> {
        let mut table = lock(&self.0);
        if table.reclaimed.is_some_and(|known| known.run != run) {
            let why = "the metadata server restarted while the file was opened: \
                       it is unknown whether it was made";
            return Err(Error::new(Status::ConnectionLost, why).with_hint("open it again"));
        }
        let handle = Arc::new(handle);
        table.open.insert(handle.key(), Arc::clone(&handle));
        if handle.size_report.is_known() {
            table.sole_writers.insert(handle.file, Arc::clone(&handle));
        }
        Ok(handle)
    }

    /// Epoch `run` has changed the rights and denials of an open file. False if another epoch was
    /// sent the previous modes meanwhile.
    pub(crate) fn change_modes(
        &self,
        run: ServerEpoch,
        handle: &OpenHandle,
        rights: Rights,
        deny: Deny,
    ) -> bool {
        let table = lock(&self.0);
        let known = table.reclaimed.is_none_or(|known| known.run == run);
        if known {
            handle.set_modes(rights, deny);
        }
        known
    }

    /// The handle was closed: queues its close.
    pub(crate) fn close(&self, handle: &OpenHandle) {
        let mut table = lock(&self.0);
        if let Some(handle) = table.open.remove(&handle.key()) {
            table.queue_close(handle);
        }
    }

    /// Closes the handle with this number, if it is open.
    pub(crate) fn close_number(&self, session: SessionId, open_id: u64) {
        let mut table = lock(&self.0);
        if let Some(handle) = table.open.remove(&(session, open_id)) {
            table.queue_close(handle);
        }
    }

    /// The size report to send with a call about the file.
    pub(crate) fn size_report(&self, file: FileIndex) -> Option<SizeReport> {
        let handle = lock(&self.0).sole_writers.get(&file).map(Arc::clone)?;
        handle.size_report.report(handle.open_id)
    }

    /// The number of pending closes.
    pub(crate) fn pending_closes(&self) -> usize {
        lock(&self.0).pending_closes.len()
    }

    /// Takes some of the pending closes, newest first, with their session.
    pub(crate) fn take_closes(
        &self,
        count_max: usize,
    ) -> Option<(SessionId, Vec<Arc<OpenHandle>>)> {
        let mut table = lock(&self.0);
        let session = table.reclaimed?.run.session;
        let rest = table.pending_closes.len().saturating_sub(count_max);
        let taken = table.pending_closes.split_off(rest);
        debug_assert!(
            taken.iter().all(|handle| handle.session == session),
            "2: a close is sent in the session of its handle"
        );
        (!taken.is_empty()).then_some((session, taken))
    }

    /// Puts back closes that could not be sent, unless their session has ended.
    pub(crate) fn put_back(&self, session: SessionId, handles: Vec<Arc<OpenHandle>>) {
        let mut table = lock(&self.0);
        match table.reclaimed.is_some_and(|known| known.run.session == session) {
            true => handles.into_iter().for_each(|handle| table.queue_close(handle)),
            false => handles.iter().for_each(|handle| table.remove_sole_writer(handle)),
        }
    }

    /// The server has received these closes and their size reports.
    pub(crate) fn closes_sent(&self, handles: &[Arc<OpenHandle>]) {
        let mut table = lock(&self.0);
        handles.iter().for_each(|handle| table.remove_sole_writer(handle));
    }

    /// A connection to epoch `run` was made. Returns the open files to send before any other call,
    /// by identity and handle; `None` if the epoch knows them.
    pub(crate) fn to_reclaim(&self, run: ServerEpoch) -> Option<Vec<(u32, ReclaimedOpen)>> {
        let mut table = lock(&self.0);
        match table.reclaimed {
            Some(known) if known.run == run && known.complete => return None,
            Some(known) if known.run == run => {}
            Some(known) if known.run.session == run.session => {
                // The server closes what is not named. A handle closed later may have been named in
                // an attempt that failed.
                table.pending_closes.clear();
                // The new epoch knows no sole writers.
                table.sole_writers.clear();
                table.reclaimed = Some(ReclaimState { run, complete: false });
            }
            _ => {
                table.pending_closes.clear();
                table.sole_writers.clear();
                for (_, handle) in std::mem::take(&mut table.open) {
                    let _ = handle.stale_reason.set(ENDED);
                }
                table.reclaimed = Some(ReclaimState { run, complete: true });
                return None;
            }
        }
        debug_assert!(
            table.open.values().all(|handle| handle.session == run.session),
            "1: a handle of another session is in the table"
        );
        let mut open: Vec<_> = table
            .open
            .values()
            .map(|handle| (handle.identity.number(), handle.reclaim_entry()))
            .collect();
        open.sort_unstable_by_key(|(identity, named)| (*identity, named.open_id));
        Some(open)
    }

    /// The server refused to reclaim these handles.
    pub(crate) fn reclaim_refused(&self, session: SessionId, open_ids: &[u64]) {
        let mut table = lock(&self.0);
        for open_id in open_ids {
            if let Some(handle) = table.open.remove(&(session, *open_id)) {
                let _ = handle.stale_reason.set(REFUSED);
            }
        }
    }

    /// Epoch `run` has received all open files.
    pub(crate) fn reclaim_done(&self, run: ServerEpoch) {
        if let Some(known) = lock(&self.0).reclaimed.as_mut().filter(|known| known.run == run) {
            known.complete = true;
        }
    }
}

impl Table {
    fn queue_close(&mut self, handle: Arc<OpenHandle>) {
        match self.pending_closes.len() < CLOSES_MAX {
            true => self.pending_closes.push(handle),
            false => self.remove_sole_writer(&handle),
        }
    }

    fn remove_sole_writer(&mut self, handle: &Arc<OpenHandle>) {
        if self.sole_writers.get(&handle.file).is_some_and(|made| Arc::ptr_eq(made, handle)) {
            self.sole_writers.remove(&handle.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(session: u64, epoch: u64) -> ServerEpoch {
        ServerEpoch { session: SessionId(session), epoch: MdsEpoch(epoch) }
    }

    fn open(handles: &OpenTable, run: ServerEpoch, open_id: u64) -> Arc<OpenHandle> {
        let named =
            ReclaimedOpen { open_id, file: FileIndex(5), rights: Rights::WRITE, deny: Deny::NONE };
        handles
            .add(
                run,
                OpenHandle::new(run, IdentityNumber::default(), named, SizeReportState::default()),
            )
            .unwrap()
    }

    fn named(size_report: Option<Vec<(u32, ReclaimedOpen)>>) -> Vec<u64> {
        size_report
            .expect("something to tell")
            .into_iter()
            .map(|(_, named)| named.open_id)
            .collect()
    }

    #[test]
    fn only_a_new_epoch_is_sent_the_open_files_until_it_has_all() {
        let handles = OpenTable::default();
        assert!(handles.to_reclaim(run(1, 1)).is_none(), "a new session has nothing open");
        for open_id in [3, 1, 2] {
            open(&handles, run(1, 1), open_id);
        }
        assert!(handles.to_reclaim(run(1, 1)).is_none());
        assert_eq!(named(handles.to_reclaim(run(1, 2))), [1, 2, 3]);
        assert_eq!(named(handles.to_reclaim(run(1, 2))), [1, 2, 3], "the answer was lost");
        handles.reclaim_done(run(1, 2));
        assert!(handles.to_reclaim(run(1, 2)).is_none());
    }

    #[test]
    fn a_new_epoch_is_sent_the_current_modes_of_a_file() {
        let handles = OpenTable::default();
        handles.to_reclaim(run(1, 1));
        let file = open(&handles, run(1, 1), 1);
        assert!(handles.change_modes(run(1, 1), &file, Rights::READ, Deny::WRITE));
        let (_, named) = handles.to_reclaim(run(1, 2)).unwrap().remove(0);
        assert_eq!((named.rights, named.deny), (Rights::READ, Deny::WRITE));
        assert!(
            !handles.change_modes(run(1, 1), &file, Rights::WRITE, Deny::NONE),
            "the new epoch was sent the modes from before this change"
        );
        assert_eq!((file.rights(), file.deny()), (Rights::READ, Deny::WRITE));
    }

    #[test]
    fn a_new_epoch_drops_older_closes_but_not_those_of_named_handles() {
        let handles = OpenTable::default();
        handles.to_reclaim(run(1, 1));
        let (before, after) = (open(&handles, run(1, 1), 1), open(&handles, run(1, 1), 2));
        handles.close(&before);
        assert_eq!(named(handles.to_reclaim(run(1, 2))), [2]);
        handles.close(&after);
        assert_eq!(
            named(handles.to_reclaim(run(1, 2))),
            [0; 0],
            "an attempt failed, another is made"
        );
        let (session, closes) = handles.take_closes(9).unwrap();
        assert_eq!(
            (session, closes.iter().map(|handle| handle.open_id).collect()),
            (SessionId(1), vec![2])
        );
    }

    #[test]
    fn a_new_session_ends_every_handle_of_the_old_one() {
        let handles = OpenTable::default();
        handles.to_reclaim(run(1, 1));
        let (held, closed) = (open(&handles, run(1, 1), 1), open(&handles, run(1, 1), 2));
        handles.close(&closed);
        assert!(handles.to_reclaim(run(2, 1)).is_none());
        assert_eq!(held.check().unwrap_err().status(), Status::StaleHandle);
        let same_number = open(&handles, run(2, 1), 1);
        handles.close(&held);
        handles.put_back(SessionId(1), vec![closed]);
        assert_eq!(handles.pending_closes(), 0, "they would close what the new session has open");
        assert!(same_number.check().is_ok());
    }

    #[test]
    fn an_open_that_an_older_run_answered_is_not_taken_for_one_of_the_new() {
        let handles = OpenTable::default();
        handles.to_reclaim(run(1, 1));
        handles.to_reclaim(run(1, 2));
        let late = ReclaimedOpen {
            open_id: 7,
            file: FileIndex(5),
            rights: Rights::READ,
            deny: Deny::NONE,
        };
        let error = handles
            .add(
                run(1, 1),
                OpenHandle::new(
                    run(1, 1),
                    IdentityNumber::default(),
                    late,
                    SizeReportState::default(),
                ),
            )
            .unwrap_err();
        assert_eq!(error.status(), Status::ConnectionLost);
    }
}
