//! A file in the table: the owners of its opens, what they may cache, and the breaks that run.

use std::sync::{Arc, Weak};
use std::time::Duration;

use braid_share::{SessionId, Share, ShareClient};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::smb2::FileId;
use braid_smb_wire::smb2::create::{LeaseState, LeaseV2, OplockLevel};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::delegations::{Answer, Delegation};
use super::disconnected::Presence;
use super::names::LeasedName;
use super::notice::Notice;
use super::rules::{self, Cached, Conflict, Others};
use super::silence::Missed;
use super::{BREAK_MAX, Blocked, Form, Granted, NewOpen, Owner, Peer};
use crate::client::Machine;

/// A file.
#[derive(Debug)]
pub(super) struct FileEntry<S: Share> {
    pub holders: Vec<Holder<S>>,
    /// What the clients' sessions have of it at the metadata server.
    pub delegations: Vec<Delegation<S>>,
    pub changed: watch::Sender<()>,
}

/// An owner, with its opens.
#[derive(Debug)]
pub(super) struct Holder<S: Share> {
    pub owner: Owner,
    pub session: SessionId,
    pub state: LeaseState,
    machine: Weak<Machine<S>>,
    form: Form,
    pub breaking: Option<Breaking>,
    pub opens: Vec<OpenEntry<S>>,
}

/// An open of an owner.
#[derive(Debug)]
pub(super) struct OpenEntry<S: Share> {
    pub id: FileId,
    /// The name that it was opened by, if its owner is a lease.
    pub name: Option<Arc<LeasedName>>,
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
    pub timers: Vec<Timer>,
}

/// The time of a break.
#[derive(Debug)]
pub(super) struct Timer {
    pub owner: Owner,
    pub until: Instant,
    /// Ends with the break.
    pub ended: oneshot::Receiver<()>,
}

impl<S: Share> Default for FileEntry<S> {
    fn default() -> Self {
        let (changed, _) = watch::channel(());
        Self { holders: Vec::new(), delegations: Vec::new(), changed }
    }
}

impl<S: Share> Default for Effects<S> {
    fn default() -> Self {
        Self { notices: Vec::new(), answers: Vec::new(), timers: Vec::new() }
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

    /// As [`super::Leases::make_way`].
    pub fn make_way(
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

    /// Adds an open.
    pub fn add(&mut self, new: NewOpen<S>) {
        let access = match new.conflict {
            Conflict::Open { access, .. } => access,
            _ => AccessMask::default(),
        };
        let (id, name, peer) = (new.id, new.name, new.peer);
        let open = OpenEntry { id, name, access, peer, presence: Presence::Connected };
        if let Some(holder) = self.holder(new.owner) {
            holder.opens.push(open);
            return;
        }
        self.holders.push(Holder {
            owner: new.owner,
            session: new.machine.client().session(),
            state: LeaseState::NONE,
            machine: Arc::downgrade(&new.machine),
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
    pub fn is_concerned(&self, by: Owner, conflict: Conflict) -> bool {
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
            self.begin_break(self.state.common(keep), (until, most < BREAK_MAX), false, effects);
        }
    }

    /// Lets it keep nothing. Also R alone is to be acknowledged, so that the caller knows when the
    /// client does not use it any more.
    pub fn take_back(&mut self, effects: &mut Effects<S>) {
        if self.breaking.is_some() || self.state != rules::READ {
            return self.reduce(LeaseState::NONE, BREAK_MAX, effects);
        }
        self.count_change();
        self.begin_break(LeaseState::NONE, (Instant::now() + BREAK_MAX, false), true, effects);
    }

    /// Takes everything away; its client learns of it.
    pub fn void(&mut self, effects: &mut Effects<S>) {
        self.breaking = None;
        if self.state != LeaseState::NONE {
            self.reduce(LeaseState::NONE, BREAK_MAX, effects);
            (self.breaking, self.state) = (None, LeaseState::NONE);
        }
    }

    /// Ends a break that was not acknowledged in time: nothing is cached any more. `None` if there
    /// is none, or its time is not over.
    pub fn miss(&mut self) -> Option<Missed<S>> {
        self.breaking.take_if(|breaking| Instant::now() >= breaking.until)?;
        self.state = LeaseState::NONE;
        let connections = self.opens.iter().filter_map(|open| open.peer.connection.upgrade());
        let peer = connections.map(|connection| connection.peer()).next();
        Some(Missed { machine: Weak::clone(&self.machine), session: self.session, peer })
    }

    /// Its client has acknowledged the break of a lease, and keeps `state`. As
    /// [`super::Leases::acknowledge`].
    pub fn acknowledge(
        &mut self,
        state: LeaseState,
        effects: &mut Effects<S>,
    ) -> Result<(), NtStatus> {
        let breaking = self.breaking.as_ref().ok_or(NtStatus::UNSUCCESSFUL)?;
        if state.without(breaking.to) != LeaseState::NONE {
            return Err(NtStatus::REQUEST_NOT_ACCEPTED);
        }
        self.end_break(state, effects);
        Ok(())
    }

    /// Its client has acknowledged the break of an oplock. As
    /// [`super::Leases::acknowledge_oplock`], `None` for `INVALID_OPLOCK_PROTOCOL`.
    pub fn acknowledge_oplock(
        &mut self,
        level: OplockLevel,
        effects: &mut Effects<S>,
    ) -> Option<OplockLevel> {
        let to = self.breaking.as_ref()?.to;
        let state = rules::state_of(level);
        let is_allowed = state.without(to) == LeaseState::NONE
            && matches!(level, OplockLevel::NONE | OplockLevel::LEVEL_II);
        self.end_break(if is_allowed { state } else { LeaseState::NONE }, effects);
        is_allowed.then_some(level)
    }

    fn begin_break(
        &mut self,
        to: LeaseState,
        (until, is_recall): (Instant, bool),
        is_awaited: bool,
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
        let is_acknowledged = is_awaited || self.state != rules::READ;
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
        if let Some(machine) = self.machine.upgrade() {
            machine.acknowledge();
        }
        let next = state.common(then);
        if next == state {
            return;
        }
        // In steps, as Windows: RH becomes R first.
        let to = if state == rules::READ_HANDLE { rules::READ } else { next };
        // Invariant 2: the metadata server does not wait longer.
        let until = if is_recall { until } else { Instant::now() + BREAK_MAX };
        self.begin_break(to, (until, is_recall), false, effects);
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
