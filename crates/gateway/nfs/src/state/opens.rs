//! Opens, locks, layouts and delegations of one client: what its state ids stand for. RFC 8881 8.2,
//! 9, 10.4 and 12.5.
//!
//! ```text
//!   (open owner, file) ──> open: one state id, one open file of the share
//!                            └──> (lock owner, file) ──> lock state: one state id
//!   file ──> layout: one state id, the device of the newest layout
//!   file ──> delegation: one state id; one to write has an open file of the share
//! ```
//!
//! Invariants:
//! 1. One state id for each pair of open owner and file, and of lock owner and file. For each file
//!    at most one layout, and one delegation that is not revoked.
//! 2. The sequence number of a state id rises with each change of it, and skips 0 (RFC 8881
//!    8.2.2). That of a delegation never changes.
//! 3. FREE_STATEID frees no lock state that a LOCK, a LOCKU or a wait for a lock uses. CLOSE
//!    removes it in any case.
//! 4. At most [`STATES_MAX`] state ids of a client (I9).

mod delegations;
mod locks;
mod write_delegations;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_nfs_wire::nfs4::{DeviceId, NfsResult, NfsStatus, StateId};
use braid_share::{Deny, FileIndex, OpenMode, Rights};
use bytes::Bytes;

use crate::export::ExportedFile;
use crate::handle::long_hash;

pub use delegations::{DELEGATIONS_MAX, DelegationState, GrantingCall};
pub(crate) use locks::subtract;
pub use locks::{LockState, LockUse};
pub use write_delegations::{HolderAnswers, WriteDelegations};

/// State ids of one client: about 512 bytes each.
pub const STATES_MAX: usize = 262_144;
const KIND_OPEN: u8 = 1;
const KIND_LOCK: u8 = 2;
const KIND_LAYOUT: u8 = 3;
const KIND_DELEGATION: u8 = 4;

/// Sequence number of every delegation's state id: it never changes.
const DELEGATION_SEQUENCE: u32 = 1;

/// The changing part of a state id.
#[derive(Debug, Default)]
struct Sequence(u32);

impl Sequence {
    fn rise(&mut self) -> u32 {
        // Invariant 2.
        self.0 = self.0.checked_add(1).unwrap_or(1);
        self.0
    }
}

/// An open.
#[derive(Debug)]
pub struct OpenState<F> {
    other: [u8; 12],
    /// The owner that the client named.
    pub owner: Bytes,
    /// The file.
    pub file: ExportedFile,
    /// The open file of the share.
    pub share_file: F,
    /// One change of access and denial at a time.
    pub change: tokio::sync::Mutex<()>,
    inner: Mutex<OpenInner>,
}

#[derive(Debug)]
struct OpenInner {
    sequence: Sequence,
    mode: OpenMode,
    /// Modes that were opened, which a downgrade may return to. RFC 8881 18.18.3.
    history: Vec<OpenMode>,
    closed: bool,
}

/// A layout of a client.
#[derive(Debug)]
pub struct LayoutState {
    other: [u8; 12],
    /// The file.
    pub file: ExportedFile,
    inner: Mutex<LayoutInner>,
}

#[derive(Debug)]
struct LayoutInner {
    sequence: Sequence,
    /// The device of the newest layout.
    device: DeviceId,
    /// Whether the client was asked to return it.
    recalled: bool,
}

/// What a state id stands for.
#[derive(Debug)]
pub enum Known<F> {
    /// An open.
    Open(Arc<OpenState<F>>),
    /// Locks.
    Lock(Arc<LockState<F>>),
    /// A layout.
    Layout(Arc<LayoutState>),
    /// A delegation that is not revoked.
    Delegation(Arc<DelegationState<F>>),
}

/// The result of [`States::insert_open`].
#[derive(Debug)]
pub enum InsertedOpen<F> {
    /// The state id of a new open.
    Added(StateId),
    /// The open of the owner and file that exists, and the open file that was not added.
    Known(Arc<OpenState<F>>, F),
}

/// All state ids of a client.
#[derive(Debug)]
pub struct States<F> {
    epoch: u32,
    inner: Mutex<Inner<F>>,
}

#[derive(Debug)]
struct Inner<F> {
    next: u64,
    by_other: HashMap<[u8; 12], Known<F>>,
    opens: HashMap<(Bytes, FileIndex), Arc<OpenState<F>>>,
    locks: HashMap<(Bytes, FileIndex), Arc<LockState<F>>>,
    layouts: HashMap<FileIndex, Arc<LayoutState>>,
    delegations: HashMap<FileIndex, Arc<DelegationState<F>>>,
    /// Revoked delegations that the client has not freed.
    revoked: usize,
    /// Names of lock owners by their number, and how many lock states each has.
    owners: HashMap<u64, (Bytes, usize)>,
}

impl<F> Clone for Known<F> {
    fn clone(&self) -> Self {
        match self {
            Self::Open(open) => Self::Open(Arc::clone(open)),
            Self::Lock(lock) => Self::Lock(Arc::clone(lock)),
            Self::Layout(layout) => Self::Layout(Arc::clone(layout)),
            Self::Delegation(delegation) => Self::Delegation(Arc::clone(delegation)),
        }
    }
}

impl<F> States<F> {
    /// No state. `epoch` names this start of this gateway.
    pub fn new(epoch: u32) -> Self {
        let inner = Inner {
            next: 1,
            by_other: HashMap::new(),
            opens: HashMap::new(),
            locks: HashMap::new(),
            layouts: HashMap::new(),
            delegations: HashMap::new(),
            revoked: 0,
            owners: HashMap::new(),
        };
        Self { epoch, inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<F>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are opens, locks, layouts or delegations.
    pub fn is_empty(&self) -> bool {
        self.lock().by_other.is_empty()
    }

    /// What a state id stands for.
    ///
    /// # Errors
    /// `OLD_STATEID` for an earlier sequence number, `BAD_STATEID` for anything unknown,
    /// `DELEG_REVOKED` for a delegation that was revoked. RFC 8881 8.2.4.
    pub fn find(&self, id: &StateId) -> NfsResult<Known<F>> {
        let known = self.lock().by_other.get(&id.other).cloned().ok_or(NfsStatus::BadStateId)?;
        let present = match &known {
            Known::Open(open) => open.inner().sequence.0,
            Known::Lock(lock) => lock.inner().sequence.0,
            Known::Layout(layout) => layout.inner().sequence.0,
            Known::Delegation(delegation) if delegation.is_revoked() => {
                return Err(NfsStatus::DelegRevoked);
            }
            Known::Delegation(_) => DELEGATION_SEQUENCE,
        };
        // RFC 8881 8.2.2: 0 is the newest.
        match id.seqid {
            0 => Ok(known),
            seqid if seqid == present => Ok(known),
            seqid if seqid < present => Err(NfsStatus::OldStateId),
            _ => Err(NfsStatus::BadStateId),
        }
    }

    /// The open of a state id.
    ///
    /// # Errors
    /// As [`States::find`].
    pub fn open(&self, id: &StateId) -> NfsResult<Arc<OpenState<F>>> {
        match self.find(id)? {
            Known::Open(open) => Ok(open),
            _ => Err(NfsStatus::BadStateId),
        }
    }

    /// The open of an owner and file.
    pub fn open_of(&self, owner: &Bytes, file: FileIndex) -> Option<Arc<OpenState<F>>> {
        self.lock().opens.get(&(owner.clone(), file)).cloned()
    }

    /// Whether the client has the file open.
    pub fn has_open(&self, file: FileIndex) -> bool {
        self.lock().opens.keys().any(|(_, of)| *of == file)
    }

    /// All opens of a file by the client.
    pub fn opens_of_file(&self, file: FileIndex) -> Vec<Arc<OpenState<F>>> {
        let inner = self.lock();
        inner
            .opens
            .iter()
            .filter(|((_, of), _)| *of == file)
            .map(|(_, open)| open.clone())
            .collect()
    }

    /// Checks whether there may be one more state id.
    ///
    /// # Errors
    /// `RESOURCE`.
    pub fn check_space(&self) -> NfsResult<()> {
        if self.lock().by_other.len() < STATES_MAX { Ok(()) } else { Err(NfsStatus::Delay) }
    }

    /// Adds an open, unless there is one of the owner and file.
    pub fn insert_open(
        &self,
        owner: Bytes,
        file: ExportedFile,
        share_file: F,
        mode: OpenMode,
    ) -> InsertedOpen<F> {
        let mut inner = self.lock();
        let key = (Bytes::copy_from_slice(&owner), file.file);
        if let Some(known) = inner.opens.get(&key) {
            return InsertedOpen::Known(known.clone(), share_file);
        }
        let other = inner.other(self.epoch, KIND_OPEN);
        let open = Arc::new(OpenState {
            other,
            owner: key.0.clone(),
            file,
            share_file,
            change: tokio::sync::Mutex::new(()),
            inner: Mutex::new(OpenInner {
                sequence: Sequence(1),
                mode,
                history: vec![mode],
                closed: false,
            }),
        });
        inner.by_other.insert(other, Known::Open(open.clone()));
        inner.opens.insert(key, open);
        InsertedOpen::Added(StateId { seqid: 1, other })
    }

    /// Removes an open with its locks: the lock states.
    pub fn remove_open(&self, open: &Arc<OpenState<F>>) -> Vec<Arc<LockState<F>>> {
        let mut inner = self.lock();
        open.inner().closed = true;
        inner.by_other.remove(&open.other);
        inner.opens.remove(&(open.owner.clone(), open.file.file));
        let locks: Vec<_> =
            inner.locks.values().filter(|lock| Arc::ptr_eq(&lock.open, open)).cloned().collect();
        for lock in &locks {
            inner.remove_lock(lock);
        }
        locks
    }

    /// The number of a lock owner at the metadata server: a digest, so that it is the same after a
    /// restart of the gateway. If two owners of one client ever had the same, their locks would not
    /// conflict.
    pub fn owner_number(owner: &Bytes) -> u64 {
        long_hash(owner)
    }

    /// Ranges of a file that the lock owner with a number holds.
    pub fn held_ranges(&self, file: FileIndex, number: u64) -> Vec<(u64, u64)> {
        let inner = self.lock();
        let of_owner = inner
            .locks
            .values()
            .filter(|lock| lock.number == number && lock.open.file.file == file);
        of_owner.flat_map(|lock| lock.ranges()).collect()
    }

    /// The name of the lock owner with a number.
    pub fn owner_of_number(&self, number: u64) -> Option<Bytes> {
        self.lock().owners.get(&number).map(|(name, _)| name.clone())
    }

    /// The new state id of the layout of a file, which is made if it does not exist.
    pub fn layout(&self, file: &ExportedFile, device: DeviceId) -> StateId {
        let mut inner = self.lock();
        let layout = match inner.layouts.get(&file.file) {
            Some(layout) => layout.clone(),
            None => {
                let other = inner.other(self.epoch, KIND_LAYOUT);
                let newest = LayoutInner { sequence: Sequence::default(), device, recalled: false };
                let layout = LayoutState { other, file: file.clone(), inner: Mutex::new(newest) };
                let layout = Arc::new(layout);
                inner.by_other.insert(other, Known::Layout(layout.clone()));
                inner.layouts.insert(file.file, layout.clone());
                layout
            }
        };
        let mut newest = layout.inner();
        (newest.device, newest.recalled) = (device, false);
        StateId { seqid: newest.sequence.rise(), other: layout.other }
    }

    /// Whether the client has layouts.
    pub fn has_layouts(&self) -> bool {
        !self.lock().layouts.is_empty()
    }

    /// Notes the recall of the layouts of some devices that were not recalled before: their new
    /// state ids. RFC 8881 12.5.3: a recall raises the sequence number by 1.
    pub fn recall_layouts(
        &self,
        wanted: impl Fn(&DeviceId) -> bool,
    ) -> Vec<(StateId, ExportedFile)> {
        let inner = self.lock();
        let recalled = inner.layouts.values().filter_map(|layout| {
            let mut newest = layout.inner();
            if newest.recalled || !wanted(&newest.device) {
                return None;
            }
            newest.recalled = true;
            let seqid = newest.sequence.rise();
            Some((StateId { seqid, other: layout.other }, layout.file.clone()))
        });
        recalled.collect()
    }

    /// Removes a layout that the client does not have, unless it got another one since the recall.
    pub fn remove_recalled_layout(&self, file: &ExportedFile, recalled: StateId) {
        let mut inner = self.lock();
        let is_same = inner.layouts.get(&file.file).is_some_and(|layout| {
            layout.other == recalled.other && layout.inner().sequence.0 == recalled.seqid
        });
        if is_same {
            inner.layouts.remove(&file.file);
            inner.by_other.remove(&recalled.other);
        }
    }

    /// Removes the layout of a file.
    pub fn remove_layout(&self, file: FileIndex) {
        let mut inner = self.lock();
        if let Some(layout) = inner.layouts.remove(&file) {
            inner.by_other.remove(&layout.other);
        }
    }

    /// Removes all layouts for which `wanted` is true.
    pub fn remove_layouts(&self, wanted: impl Fn(&ExportedFile) -> bool) {
        let mut inner = self.lock();
        let removed: Vec<_> =
            inner.layouts.values().filter(|layout| wanted(&layout.file)).cloned().collect();
        for layout in removed {
            inner.layouts.remove(&layout.file.file);
            inner.by_other.remove(&layout.other);
        }
    }
}

impl<F> Inner<F> {
    fn other(&mut self, epoch: u32, kind: u8) -> [u8; 12] {
        let mut other = [0; 12];
        other[..4].copy_from_slice(&epoch.to_be_bytes());
        other[4..].copy_from_slice(&(u64::from(kind) << 56 | self.next).to_be_bytes());
        self.next += 1;
        other
    }

    fn remove_lock(&mut self, lock: &Arc<LockState<F>>) {
        if self.by_other.remove(&lock.other).is_none() {
            return;
        }
        self.locks.remove(&(lock.owner.clone(), lock.open.file.file));
        if let Some(entry) = self.owners.get_mut(&lock.number) {
            entry.1 -= 1;
            if entry.1 == 0 {
                self.owners.remove(&lock.number);
            }
        }
    }
}

impl<F> OpenState<F> {
    fn inner(&self) -> MutexGuard<'_, OpenInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Access and denial now.
    pub fn mode(&self) -> OpenMode {
        self.inner().mode
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.inner().closed
    }

    /// Access and denial after one more open with `mode`.
    pub fn union(&self, mode: OpenMode) -> OpenMode {
        let now = self.mode();
        OpenMode {
            rights: Rights(now.rights.0 | mode.rights.0),
            deny: Deny(now.deny.0 | mode.deny.0),
        }
    }

    /// Notes one more open: the new state id.
    pub fn upgraded(&self, to: OpenMode, opened: OpenMode) -> StateId {
        let mut inner = self.inner();
        inner.mode = to;
        if !inner.history.contains(&opened) {
            inner.history.push(opened);
        }
        StateId { seqid: inner.sequence.rise(), other: self.other }
    }

    /// Whether access and denial may be reduced to these: the union of some opens. RFC 8881
    /// 18.18.3.
    pub fn may_downgrade(&self, to: OpenMode) -> bool {
        let inner = self.inner();
        let within =
            inner.history.iter().filter(|had| to.rights.allow(had.rights) && to.deny.has(had.deny));
        let (rights, deny) =
            within.fold((0, 0), |(rights, deny), had| (rights | had.rights.0, deny | had.deny.0));
        rights == to.rights.0 && deny == to.deny.0
    }

    /// Notes a downgrade: the new state id.
    pub fn downgraded(&self, to: OpenMode) -> StateId {
        let mut inner = self.inner();
        inner.mode = to;
        inner.history.retain(|had| to.rights.allow(had.rights) && to.deny.has(had.deny));
        StateId { seqid: inner.sequence.rise(), other: self.other }
    }
}

impl LayoutState {
    fn inner(&self) -> MutexGuard<'_, LayoutInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
