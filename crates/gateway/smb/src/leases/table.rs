//! The table: for each file the owners of its opens, with what they may cache.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braid_share::{FileIndex, SessionId, Share, ShareClient};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::smb2::FileId;
use braid_smb_wire::smb2::create::{LeaseState, LeaseV2, OplockLevel};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::delegations::{Answer, Delegation};
use super::disconnected::Presence;
use super::notice::Notice;
use super::rules::{self, Cached, Conflict, Others};
use super::spawn;
use super::{
    BREAK_MAX, Blocked, Form, Granted, LeaseName, LeasedOpen, NewOpen, Owner, Peer, Refusal,
};

/// The leases and oplocks of all opens of this gateway.
#[derive(Debug)]
pub struct Leases<S: Share>(Mutex<Inner<S>>);

#[derive(Debug)]
struct Inner<S: Share> {
    files: HashMap<FileIndex, FileEntry<S>>,
    /// The file of each lease.
    names: HashMap<LeaseName, FileIndex>,
}

/// A file.
#[derive(Debug)]
pub(super) struct FileEntry<S: Share> {
    pub holders: Vec<Holder<S>>,
    /// What the clients' sessions have of it at the metadata server.
    pub delegations: Vec<Delegation<S>>,
    changed: watch::Sender<()>,
}

/// An owner, with its opens.
#[derive(Debug)]
pub(super) struct Holder<S: Share> {
    pub owner: Owner,
    pub session: SessionId,
    pub state: LeaseState,
    form: Form,
    pub breaking: Option<Breaking>,
    pub opens: Vec<OpenEntry<S>>,
}

#[derive(Debug)]
pub(super) struct OpenEntry<S: Share> {
    pub id: FileId,
    access: AccessMask,
    pub peer: Peer<S>,
    pub presence: Presence,
}

/// A break that the client has not acknowledged.
#[derive(Debug)]
pub(super) struct Breaking {
    to: LeaseState,
    /// What others need meanwhile: there is another break after the acknowledgement.
    then: LeaseState,
    until: Instant,
    /// Whether the metadata server waits for it.
    is_recall: bool,
    /// Whether it follows another one: those that waited for that one wait for both.
    follows: bool,
    /// Ends the timer when it is dropped.
    timer: oneshot::Sender<()>,
}

/// What is to be done after the mutex is released.
#[derive(Debug)]
pub(super) struct Effects<S: Share> {
    pub notices: Vec<Notice<S>>,
    pub answers: Vec<Answer<S>>,
    timers: Vec<Timer>,
}

#[derive(Debug)]
struct Timer {
    owner: Owner,
    until: Instant,
    ended: oneshot::Receiver<()>,
}

impl<S: Share> Default for Leases<S> {
    fn default() -> Self {
        Self(Mutex::new(Inner { files: HashMap::new(), names: HashMap::new() }))
    }
}

impl<S: Share> Default for FileEntry<S> {
    fn default() -> Self {
        let (changed, _) = watch::channel(());
        Self { holders: Vec::new(), delegations: Vec::new(), changed }
    }
}

impl<S: Share> Leases<S> {
    fn inner(&self) -> MutexGuard<'_, Inner<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a file, if it has an entry, and does what follows from it. Waiting requests then
    /// look again.
    pub(super) fn change<T>(
        self: &Arc<Self>,
        file: FileIndex,
        change: impl FnOnce(&mut FileEntry<S>, &mut Effects<S>) -> T,
    ) -> Option<T> {
        self.run(file, None, |entry, effects| {
            entry.changed.send_replace(());
            change(entry, effects)
        })
    }

    /// As [`Leases::change`], for a change that ends no wait. A file gets an entry for a new open's
    /// owner. `None` also if the owner is a lease of another file.
    fn run<T>(
        self: &Arc<Self>,
        file: FileIndex,
        new: Option<Owner>,
        change: impl FnOnce(&mut FileEntry<S>, &mut Effects<S>) -> T,
    ) -> Option<T> {
        let mut effects = Effects { notices: Vec::new(), answers: Vec::new(), timers: Vec::new() };
        let result = {
            let mut inner = self.inner();
            let Inner { files, names } = &mut *inner;
            let name = match new {
                Some(Owner::Lease(name)) => Some(name),
                _ => None,
            };
            if name.is_some_and(|name| names.get(&name).is_some_and(|other| *other != file)) {
                return None;
            }
            let entry = match new {
                Some(_) => files.entry(file).or_default(),
                None => files.get_mut(&file)?,
            };
            let result = change(entry, &mut effects);
            entry.close_disconnected();
            if let Some(name) = name.filter(|name| entry.holder(Owner::Lease(*name)).is_some()) {
                names.insert(name, file);
            }
            for gone in entry.holders.extract_if(.., |holder| holder.opens.is_empty()) {
                if let Owner::Lease(name) = gone.owner {
                    names.remove(&name);
                }
            }
            entry.settle(&mut effects);
            if entry.holders.is_empty() && entry.delegations.is_empty() {
                files.remove(&file);
            }
            result
        };
        self.carry_out(file, effects);
        Some(result)
    }

    fn carry_out(self: &Arc<Self>, file: FileIndex, effects: Effects<S>) {
        effects.notices.into_iter().for_each(Notice::send);
        for Timer { owner, until, ended } in effects.timers {
            let leases = Arc::downgrade(self);
            spawn(async move {
                tokio::select! {
                    () = sleep_until(until) => {}
                    _ = ended => return,
                }
                if let Some(leases) = leases.upgrade() {
                    leases.expire(file, owner);
                }
            });
        }
        effects.answers.into_iter().for_each(|answer| self.answer(file, answer));
    }

    /// Takes a state away whose break was not acknowledged in time (invariant 2). MS-SMB2 3.3.6.1,
    /// 3.3.6.5.
    fn expire(self: &Arc<Self>, file: FileIndex, owner: Owner) {
        self.change(file, |entry, _| {
            let Some(holder) = entry.holder(owner) else { return };
            let is_over = |breaking: &Breaking| Instant::now() >= breaking.until;
            if holder.breaking.as_ref().is_some_and(is_over) {
                tracing::info!(?file, "a client does not acknowledge a break: it loses its lease");
                (holder.breaking, holder.state) = (None, LeaseState::NONE);
            }
        });
    }

    /// The file of a lease, if there is one with this name.
    pub fn file_of(&self, name: LeaseName) -> Option<FileIndex> {
        self.inner().names.get(&name).copied()
    }

    /// Adds an open, unless others must acknowledge a break first.
    ///
    /// # Errors
    /// [`Refusal::Blocked`]; `INVALID_PARAMETER` if the lease is of another file.
    pub fn begin(
        self: &Arc<Self>,
        file: FileIndex,
        new: NewOpen<S>,
    ) -> Result<LeasedOpen<S>, Refusal> {
        let (owner, id) = (new.owner, new.id.volatile);
        let begun = self.run(file, Some(owner), |entry, effects| {
            let blocked = entry.make_way(new.owner, new.conflict, effects);
            if blocked.is_none() {
                entry.add(new);
            }
            blocked
        });
        match begun {
            Some(None) => Ok(LeasedOpen { leases: Arc::clone(self), file, owner, id }),
            Some(Some(blocked)) => Err(Refusal::Blocked(blocked)),
            // MS-SMB2 3.3.5.9.8.
            None => Err(Refusal::Status(NtStatus::INVALID_PARAMETER)),
        }
    }

    /// Breaks what others may not go on to cache beside a request of `owner`. Returns what it must
    /// wait for.
    pub fn make_way(
        self: &Arc<Self>,
        file: FileIndex,
        owner: Owner,
        conflict: Conflict,
    ) -> Option<Blocked> {
        let conflicts = |entry: &FileEntry<S>| {
            let concerned = |one: &Holder<S>| {
                one.is_concerned(owner, conflict) && conflict.keeps(one.cached()) != one.state
            };
            entry.holders.iter().any(concerned) || entry.waits_for_close(conflict)
        };
        // Mostly nobody caches, so that nothing is done.
        if !self.inner().files.get(&file).is_some_and(conflicts) {
            return None;
        }
        self.run(file, None, |entry, effects| entry.make_way(owner, conflict, effects)).flatten()
    }

    /// Looks at a file, if it has an entry.
    pub(super) fn look<T>(
        &self,
        file: FileIndex,
        look: impl FnOnce(&FileEntry<S>) -> T,
    ) -> Option<T> {
        self.inner().files.get(&file).map(look)
    }

    /// An open is closed.
    pub(super) fn end_open(self: &Arc<Self>, file: FileIndex, owner: Owner, id: u64) {
        self.change(file, |entry, _| {
            if let Some(holder) = entry.holder(owner) {
                holder.opens.retain(|open| open.id.volatile != id);
            }
        });
    }

    /// What an owner may cache now.
    pub fn granted(&self, file: FileIndex, owner: Owner) -> Granted {
        let inner = self.inner();
        let mut holders = inner.files.get(&file).into_iter().flat_map(|entry| &entry.holders);
        let holder = holders.find(|holder| holder.owner == owner);
        holder.map_or(
            Granted { state: LeaseState::NONE, is_breaking: false, form: Form::Oplock },
            Holder::granted,
        )
    }

    /// Acknowledges the break of a lease: the state that its client keeps. MS-SMB2 3.3.5.22.2.
    ///
    /// # Errors
    /// `OBJECT_NAME_NOT_FOUND` without such a lease, `UNSUCCESSFUL` if it is not being broken, and
    /// `REQUEST_NOT_ACCEPTED` if the client would keep more than it may; then the break goes on.
    pub fn acknowledge(
        self: &Arc<Self>,
        name: LeaseName,
        state: LeaseState,
    ) -> Result<(), NtStatus> {
        let file = self.file_of(name).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
        let acknowledged = self.change(file, |entry, effects| {
            let holder = entry.holder(Owner::Lease(name)).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
            let breaking = holder.breaking.as_ref().ok_or(NtStatus::UNSUCCESSFUL)?;
            if state.without(breaking.to) != LeaseState::NONE {
                return Err(NtStatus::REQUEST_NOT_ACCEPTED);
            }
            holder.end_break(state, effects);
            Ok(())
        });
        acknowledged.unwrap_or(Err(NtStatus::OBJECT_NAME_NOT_FOUND))
    }

    /// Acknowledges the break of an oplock. Returns the level that its client keeps. MS-SMB2
    /// 3.3.5.22.1.
    ///
    /// # Errors
    /// `INVALID_OPLOCK_PROTOCOL` if it is not being broken, or if the client would keep more than
    /// it may; then it keeps nothing. `INVALID_PARAMETER` for an open with a lease.
    pub fn acknowledge_oplock(
        self: &Arc<Self>,
        open: &LeasedOpen<S>,
        level: OplockLevel,
    ) -> Result<OplockLevel, NtStatus> {
        if matches!(open.owner, Owner::Lease(_)) || level == OplockLevel::LEASE {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let acknowledged = self.change(open.file, |entry, effects| {
            let holder = entry.holder(open.owner)?;
            let to = holder.breaking.as_ref()?.to;
            let state = rules::state_of(level);
            let is_allowed = state.without(to) == LeaseState::NONE
                && matches!(level, OplockLevel::NONE | OplockLevel::LEVEL_II);
            holder.end_break(if is_allowed { state } else { LeaseState::NONE }, effects);
            is_allowed.then_some(level)
        });
        acknowledged.flatten().ok_or(NtStatus::INVALID_OPLOCK_PROTOCOL)
    }

    /// All files with an entry.
    pub(super) fn files(&self) -> Vec<FileIndex> {
        self.inner().files.keys().copied().collect()
    }

    /// The number of files with an entry.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        let inner = self.inner();
        inner.files.len().max(inner.names.len())
    }
}

impl<S: Share> FileEntry<S> {
    pub fn holder(&mut self, owner: Owner) -> Option<&mut Holder<S>> {
        self.holders.iter_mut().find(|holder| holder.owner == owner)
    }

    /// Ends with the next change.
    pub fn blocked(&self) -> Blocked {
        Blocked(self.changed.subscribe())
    }

    fn make_way(
        &mut self,
        owner: Owner,
        conflict: Conflict,
        effects: &mut Effects<S>,
    ) -> Option<Blocked> {
        let mut waits = false;
        for holder in self.holders.iter_mut().filter(|one| one.is_concerned(owner, conflict)) {
            let held = holder.cached();
            let keeps = conflict.keeps(held);
            if keeps != held.state {
                holder.reduce(keeps, BREAK_MAX, effects);
                waits |= conflict.waits(held) && holder.breaking.is_some();
            }
            let follows = holder.breaking.as_ref().is_some_and(|breaking| breaking.follows);
            waits |= follows && conflict.is_open_beside(held.is_oplock);
        }
        self.close_disconnected();
        waits |= self.waits_for_close(conflict);
        waits.then(|| self.blocked())
    }

    fn add(&mut self, new: NewOpen<S>) {
        let access = match new.conflict {
            Conflict::Open { access, .. } => access,
            _ => AccessMask::default(),
        };
        let (id, peer) = (new.id, new.peer);
        let open = OpenEntry { id, access, peer, presence: Presence::Connected };
        if let Some(holder) = self.holder(new.owner) {
            holder.opens.push(open);
            return;
        }
        self.holders.push(Holder {
            owner: new.owner,
            session: new.client.session(),
            state: LeaseState::NONE,
            form: new.form,
            breaking: None,
            opens: vec![open],
        });
    }

    /// The most that an owner may be granted of a wish beside the others.
    pub fn grantable(&self, owner: Owner, wish: LeaseState) -> LeaseState {
        let Some(own) = self.holders.iter().find(|holder| holder.owner == owner) else {
            return LeaseState::NONE;
        };
        let mut others = Others::default();
        for other in self.holders.iter().filter(|holder| holder.owner != owner) {
            let is_more = |open: &OpenEntry<S>| !rules::is_stat(open.access, own.is_oplock());
            let caches = other.state != LeaseState::NONE;
            others.are_open |= caches || other.opens.iter().any(is_more);
            others.cache_writes |= other.state.has(LeaseState::WRITE);
            others.lease_handles |= !other.is_oplock() && other.state.has(LeaseState::HANDLE);
            others.have_oplock |= other.is_oplock() && caches;
        }
        let most = rules::grantable(wish, own.is_oplock(), others);
        // MS-SMB2 3.3.5.9.8: a lease that is there grows to the whole wish, or stays.
        match own.state {
            _ if own.breaking.is_some() => own.state,
            LeaseState::NONE => most,
            held if most == wish && wish.has(held) => wish,
            held => held,
        }
    }
}

impl<S: Share> Holder<S> {
    pub fn is_oplock(&self) -> bool {
        self.form == Form::Oplock
    }

    pub fn cached(&self) -> Cached {
        Cached { state: self.state, is_oplock: self.is_oplock() }
    }

    /// Whether a request of an owner may break it. A change of bytes breaks each level II oplock,
    /// also that of the open itself (MS-FSA 2.1.4.12).
    fn is_concerned(&self, by: Owner, conflict: Conflict) -> bool {
        let is_level_2 = self.is_oplock() && self.state == rules::READ;
        self.owner != by || conflict == Conflict::Change && is_level_2
    }

    pub fn granted(&self) -> Granted {
        let is_breaking = self.breaking.is_some();
        Granted { state: self.state, is_breaking, form: self.form }
    }

    /// Sets what it may cache, which is more than before.
    pub fn grant(&mut self, state: LeaseState) {
        if state != self.state {
            self.state = state;
            self.count_change();
        }
    }

    fn count_change(&mut self) {
        if let Form::Lease(Some(LeaseV2 { epoch, .. })) = &mut self.form {
            *epoch = epoch.wrapping_add(1);
        }
    }

    /// Lets it keep no more than `keep`, within a time. If a break runs, another one follows.
    pub fn reduce(&mut self, keep: LeaseState, most: Duration, effects: &mut Effects<S>) {
        let until = Instant::now() + most;
        if let Some(breaking) = &mut self.breaking {
            breaking.then = breaking.then.common(keep);
            breaking.is_recall |= most < BREAK_MAX;
            if until < breaking.until {
                breaking.until = until;
                breaking.timer = effects.timer(self.owner, until);
            }
        } else if self.state.common(keep) != self.state {
            self.count_change();
            self.begin_break(self.state.common(keep), (until, most < BREAK_MAX), effects);
        }
    }

    /// Takes everything away; its client learns of it.
    pub fn void(&mut self, effects: &mut Effects<S>) {
        self.breaking = None;
        if self.state != LeaseState::NONE {
            self.reduce(LeaseState::NONE, BREAK_MAX, effects);
            (self.breaking, self.state) = (None, LeaseState::NONE);
        }
    }

    fn begin_break(
        &mut self,
        to: LeaseState,
        (until, is_recall): (Instant, bool),
        effects: &mut Effects<S>,
    ) {
        let is_there = |open: &&OpenEntry<S>| {
            let connection =
                open.peer.connection.upgrade().filter(|_| open.presence.is_connected());
            connection.is_some_and(|connection| !connection.is_closed())
        };
        let Some(open) = self.opens.iter().find(is_there) else {
            // MS-SMB2 3.3.4.6, 3.3.4.7: no client receives it.
            self.state = self.left_without_client(to, is_recall);
            return;
        };
        // MS-SMB2 3.3.4.7: R alone is not acknowledged.
        let is_acknowledged = self.state != rules::READ;
        effects.notices.push(match (self.owner, self.form) {
            (Owner::Lease((_, key)), Form::Lease(v2)) => {
                let epoch = v2.map_or(0, |v2| v2.epoch);
                let states = (self.state, to);
                Notice::of_lease(&open.peer, key, epoch, states, is_acknowledged)
            }
            _ => Notice::of_oplock(&open.peer, open.id, rules::level_of(to)),
        });
        if is_acknowledged {
            let timer = effects.timer(self.owner, until);
            self.breaking =
                Some(Breaking { to, then: to, until, is_recall, follows: false, timer });
        } else {
            self.state = to;
        }
    }

    /// Its client has acknowledged, and keeps `state`.
    fn end_break(&mut self, state: LeaseState, effects: &mut Effects<S>) {
        let Some(Breaking { then, until, is_recall, .. }) = self.breaking.take() else { return };
        self.state = state;
        let next = state.common(then);
        if next == state {
            return;
        }
        // In steps, as Windows: RH becomes R first.
        let to = if state == rules::READ_HANDLE { rules::READ } else { next };
        // Invariant 2: the metadata server does not wait longer.
        let until = if is_recall { until } else { Instant::now() + BREAK_MAX };
        self.begin_break(to, (until, is_recall), effects);
        if let Some(breaking) = &mut self.breaking {
            (breaking.then, breaking.follows) = (next, true);
        }
    }
}

impl<S: Share> Effects<S> {
    fn timer(&mut self, owner: Owner, until: Instant) -> oneshot::Sender<()> {
        let (timer, ended) = oneshot::channel();
        self.timers.push(Timer { owner, until, ended });
        timer
    }
}
