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
//! 1. A handle is in the table only while the server epoch in `known` knows it, or will know it
//!    after the reclaim.
//! 2. A close is sent only in the session of its handle: another session uses the same numbers.
//! 3. A handle that was named in a `Reclaim` and closed since stays in `closes`.

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

use super::{gate::lock, identities::Named, told::Told};
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
pub struct Run {
    /// The session.
    pub session: SessionId,
    /// The epoch.
    pub epoch: MdsEpoch,
}

/// An open file as the metadata server knows it.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) open_id: u64,
    pub(crate) file: FileIndex,
    modes: AtomicU16,
    pub(crate) identity: Named,
    pub(crate) session: SessionId,
    /// The size report of the file, if this handle is its sole writer.
    pub(crate) told: Told,
    refused: OnceLock<&'static str>,
    closed: AtomicBool,
}

type Key = (SessionId, u64);

#[derive(Debug, Default)]
pub(crate) struct Handles(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    open: HashMap<Key, Arc<Handle>>,
    /// Pending closes, in the session that was reclaimed last.
    closes: Vec<Arc<Handle>>,
    /// Sole writers with a valid size report, open or with a pending close.
    made: HashMap<FileIndex, Arc<Handle>>,
    known: Option<Known>,
}

/// The epoch that was last sent the open files, and whether it has received all of them.
#[derive(Clone, Copy, Debug)]
struct Known {
    run: Run,
    complete: bool,
}

impl Handle {
    pub(crate) fn new(run: Run, identity: Named, named: ReclaimedOpen, told: Told) -> Self {
        let ReclaimedOpen { open_id, file, rights, deny } = named;
        let (refused, closed) = (OnceLock::new(), AtomicBool::new(false));
        let modes = AtomicU16::new(packed(rights, deny));
        Self { open_id, file, modes, identity, session: run.session, told, refused, closed }
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
        match self.refused.get() {
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

    fn named(&self) -> ReclaimedOpen {
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

impl Handles {
    /// Adds an open file that epoch `run` returned.
    ///
    /// # Errors
    /// [`Status::ConnectionLost`] if another epoch was sent the open files meanwhile, without this
    /// one.
    pub(crate) fn add(&self, run: Run, handle: Handle) -> Result<Arc<Handle>, Error> {
        let mut table = lock(&self.0);
        if table.known.is_some_and(|known| known.run != run) {
            let why = "the metadata server restarted while the file was opened: \
                       it is unknown whether it was made";
            return Err(Error::new(Status::ConnectionLost, why).with_hint("open it again"));
        }
        let handle = Arc::new(handle);
        table.open.insert(handle.key(), Arc::clone(&handle));
        if handle.told.is_known() {
            table.made.insert(handle.file, Arc::clone(&handle));
        }
        Ok(handle)
    }

    /// Epoch `run` has changed the rights and denials of an open file. False if another epoch was
    /// sent the previous modes meanwhile.
    pub(crate) fn change(&self, run: Run, handle: &Handle, rights: Rights, deny: Deny) -> bool {
        let table = lock(&self.0);
        let known = table.known.is_none_or(|known| known.run == run);
        if known {
            handle.set_modes(rights, deny);
        }
        known
    }

    /// The handle was closed: queues its close.
    pub(crate) fn close(&self, handle: &Handle) {
        let mut table = lock(&self.0);
        if let Some(handle) = table.open.remove(&handle.key()) {
            table.remember(handle);
        }
    }

    /// The size report to send with a call about the file.
    pub(crate) fn tell(&self, file: FileIndex) -> Option<SizeReport> {
        let handle = lock(&self.0).made.get(&file).map(Arc::clone)?;
        handle.told.tell(handle.open_id)
    }

    /// The number of pending closes.
    pub(crate) fn closes(&self) -> usize {
        lock(&self.0).closes.len()
    }

    /// Takes some of the pending closes, newest first, with their session.
    pub(crate) fn take_closes(&self, count_max: usize) -> Option<(SessionId, Vec<Arc<Handle>>)> {
        let mut table = lock(&self.0);
        let session = table.known?.run.session;
        let rest = table.closes.len().saturating_sub(count_max);
        let taken = table.closes.split_off(rest);
        (!taken.is_empty()).then_some((session, taken))
    }

    /// Puts back closes that could not be sent, unless their session has ended.
    pub(crate) fn put_back(&self, session: SessionId, handles: Vec<Arc<Handle>>) {
        let mut table = lock(&self.0);
        match table.known.is_some_and(|known| known.run.session == session) {
            true => handles.into_iter().for_each(|handle| table.remember(handle)),
            false => handles.iter().for_each(|handle| table.forget_made(handle)),
        }
    }

    /// The server has received these closes and their size reports.
    pub(crate) fn closed(&self, handles: &[Arc<Handle>]) {
        let mut table = lock(&self.0);
        handles.iter().for_each(|handle| table.forget_made(handle));
    }

    /// A connection to epoch `run` was made. Returns the open files to send before any other call,
    /// by identity and handle; `None` if the epoch knows them.
    pub(crate) fn to_tell(&self, run: Run) -> Option<Vec<(u32, ReclaimedOpen)>> {
        let mut table = lock(&self.0);
        match table.known {
            Some(known) if known.run == run && known.complete => return None,
            Some(known) if known.run == run => {}
            Some(known) if known.run.session == run.session => {
                // The server closes what is not named. A handle closed later may have been named in
                // an attempt that failed.
                table.closes.clear();
                // The new epoch knows no sole writers.
                table.made.clear();
                table.known = Some(Known { run, complete: false });
            }
            _ => {
                table.closes.clear();
                table.made.clear();
                for (_, handle) in std::mem::take(&mut table.open) {
                    let _ = handle.refused.set(ENDED);
                }
                table.known = Some(Known { run, complete: true });
                return None;
            }
        }
        let mut open: Vec<_> =
            table.open.values().map(|handle| (handle.identity.number(), handle.named())).collect();
        open.sort_unstable_by_key(|(identity, named)| (*identity, named.open_id));
        Some(open)
    }

    /// The server refused to reclaim these handles.
    pub(crate) fn refused(&self, session: SessionId, open_ids: &[u64]) {
        let mut table = lock(&self.0);
        for open_id in open_ids {
            if let Some(handle) = table.open.remove(&(session, *open_id)) {
                let _ = handle.refused.set(REFUSED);
            }
        }
    }

    /// Epoch `run` has received all open files.
    pub(crate) fn told_all(&self, run: Run) {
        if let Some(known) = lock(&self.0).known.as_mut().filter(|known| known.run == run) {
            known.complete = true;
        }
    }
}

impl Table {
    fn remember(&mut self, handle: Arc<Handle>) {
        match self.closes.len() < CLOSES_MAX {
            true => self.closes.push(handle),
            false => self.forget_made(&handle),
        }
    }

    fn forget_made(&mut self, handle: &Arc<Handle>) {
        if self.made.get(&handle.file).is_some_and(|made| Arc::ptr_eq(made, handle)) {
            self.made.remove(&handle.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(session: u64, epoch: u64) -> Run {
        Run { session: SessionId(session), epoch: MdsEpoch(epoch) }
    }

    fn open(handles: &Handles, run: Run, open_id: u64) -> Arc<Handle> {
        let named =
            ReclaimedOpen { open_id, file: FileIndex(5), rights: Rights::WRITE, deny: Deny::NONE };
        handles.add(run, Handle::new(run, Named::default(), named, Told::default())).unwrap()
    }

    fn named(told: Option<Vec<(u32, ReclaimedOpen)>>) -> Vec<u64> {
        told.expect("something to tell").into_iter().map(|(_, named)| named.open_id).collect()
    }

    #[test]
    fn only_a_new_epoch_is_sent_the_open_files_until_it_has_all() {
        let handles = Handles::default();
        assert!(handles.to_tell(run(1, 1)).is_none(), "a new session has nothing open");
        for open_id in [3, 1, 2] {
            open(&handles, run(1, 1), open_id);
        }
        assert!(handles.to_tell(run(1, 1)).is_none());
        assert_eq!(named(handles.to_tell(run(1, 2))), [1, 2, 3]);
        assert_eq!(named(handles.to_tell(run(1, 2))), [1, 2, 3], "the answer was lost");
        handles.told_all(run(1, 2));
        assert!(handles.to_tell(run(1, 2)).is_none());
    }

    #[test]
    fn a_new_epoch_is_sent_the_current_modes_of_a_file() {
        let handles = Handles::default();
        handles.to_tell(run(1, 1));
        let file = open(&handles, run(1, 1), 1);
        assert!(handles.change(run(1, 1), &file, Rights::READ, Deny::WRITE));
        let (_, named) = handles.to_tell(run(1, 2)).unwrap().remove(0);
        assert_eq!((named.rights, named.deny), (Rights::READ, Deny::WRITE));
        assert!(
            !handles.change(run(1, 1), &file, Rights::WRITE, Deny::NONE),
            "the new run was told the other ones"
        );
        assert_eq!((file.rights(), file.deny()), (Rights::READ, Deny::WRITE));
    }

    #[test]
    fn a_new_epoch_drops_older_closes_but_not_those_of_named_handles() {
        let handles = Handles::default();
        handles.to_tell(run(1, 1));
        let (before, after) = (open(&handles, run(1, 1), 1), open(&handles, run(1, 1), 2));
        handles.close(&before);
        assert_eq!(named(handles.to_tell(run(1, 2))), [2]);
        handles.close(&after);
        assert_eq!(named(handles.to_tell(run(1, 2))), [0; 0], "an attempt failed, another is made");
        let (session, closes) = handles.take_closes(9).unwrap();
        assert_eq!(
            (session, closes.iter().map(|handle| handle.open_id).collect()),
            (SessionId(1), vec![2])
        );
    }

    #[test]
    fn a_new_session_ends_every_handle_of_the_old_one() {
        let handles = Handles::default();
        handles.to_tell(run(1, 1));
        let (held, closed) = (open(&handles, run(1, 1), 1), open(&handles, run(1, 1), 2));
        handles.close(&closed);
        assert!(handles.to_tell(run(2, 1)).is_none());
        assert_eq!(held.check().unwrap_err().status(), Status::StaleHandle);
        let same_number = open(&handles, run(2, 1), 1);
        handles.close(&held);
        handles.put_back(SessionId(1), vec![closed]);
        assert_eq!(handles.closes(), 0, "they would close what the new session has open");
        assert!(same_number.check().is_ok());
    }

    #[test]
    fn an_open_that_an_older_run_answered_is_not_taken_for_one_of_the_new() {
        let handles = Handles::default();
        handles.to_tell(run(1, 1));
        handles.to_tell(run(1, 2));
        let late = ReclaimedOpen {
            open_id: 7,
            file: FileIndex(5),
            rights: Rights::READ,
            deny: Deny::NONE,
        };
        let error = handles
            .add(run(1, 1), Handle::new(run(1, 1), Named::default(), late, Told::default()))
            .unwrap_err();
        assert_eq!(error.status(), Status::ConnectionLost);
    }
}
