//! Delegations that the clients' sessions hold at the metadata server, and their recalls.
//! Invariant 1 of [`super`]; ADR 0038.

use std::sync::{Arc, Weak};

use braid_share::{DelegationRecall, FileIndex, SessionId, Share, ShareClient};
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::smb2::create::LeaseState;

use super::entry::{Effects, FileEntry};
use super::rules::{self, Conflict};
use super::{Blocked, Granted, LeasedOpen, Leases, RECALL_MAX, spawn};
use crate::client::Machine;

/// What a delegation allows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Mode {
    Nothing,
    Read,
    Write,
}

/// What the metadata server wants back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Recalled {
    /// The right to write.
    Writing,
    /// Everything.
    All,
}

/// A session's delegation of a file.
#[derive(Debug)]
pub(super) struct Delegation<S: Share> {
    session: SessionId,
    client: S::Client,
    mode: Mode,
    /// Grants that run: it is not returned under them.
    pins: usize,
    recalled: Option<Recalled>,
    /// Whether it is being returned or reduced. Nothing is granted by it meanwhile.
    is_answering: bool,
}

/// How the metadata server is answered.
#[derive(Debug)]
pub(super) struct Answer<S: Share> {
    session: SessionId,
    client: S::Client,
    returns: bool,
}

impl<S: Share> FileEntry<S> {
    fn delegation(&mut self, session: SessionId) -> Option<&mut Delegation<S>> {
        self.delegations.iter_mut().find(|one| one.session == session)
    }

    /// Begins to return what is not needed any more, or was recalled and is not used.
    pub fn settle(&mut self, effects: &mut Effects<S>) {
        let Self { holders, delegations, .. } = self;
        let is_there = |one: &&mut Delegation<S>| {
            let is_idle = one.pins == 0 && !one.is_answering;
            is_idle && (one.mode > Mode::Nothing || one.recalled.is_some())
        };
        for one in delegations.iter_mut().filter(is_there) {
            let of_it = holders.iter().filter(|holder| holder.session == one.session);
            let used = of_it.fold(LeaseState::NONE, |all, holder| all.with(holder.state));
            let reduces = one.recalled == Some(Recalled::Writing);
            let returns = match used {
                LeaseState::NONE => true,
                used if reduces && !used.has(LeaseState::WRITE) => false,
                _ => continue,
            };
            one.is_answering = true;
            let (session, client) = (one.session, one.client.clone());
            effects.answers.push(Answer { session, client, returns });
        }
        // A grant that was refused.
        delegations.retain(|one| one.pins > 0 || one.mode > Mode::Nothing || one.is_answering);
    }
}

impl<S: Share> Leases<S> {
    /// Lets the owner of an open cache as much of its wish as others allow, and as its session is
    /// delegated. Returns what it may cache.
    pub async fn grant(
        self: &Arc<Self>,
        open: &LeasedOpen<S>,
        machine: &Machine<S>,
        wish: LeaseState,
    ) -> Granted {
        let (file, owner, client) = (open.file, open.owner, machine.client());
        let session = client.session();
        if machine.is_silent() {
            return self.granted(file, owner);
        }
        let mut begun = self.begin_grant(open, client, wish);
        while let Some(Err(answered)) = begun {
            answered.changed().await;
            begun = self.begin_grant(open, client, wish);
        }
        let Some(Ok((most, had))) = begun else { return self.granted(file, owner) };
        machine.receive_recalls(self);
        let mode = ask(client, file, most.has(LeaseState::WRITE), had).await;
        self.change(file, |entry, _| {
            let Some(one) = entry.delegation(session) else { return };
            one.pins -= 1;
            one.mode = one.mode.max(mode);
            let most = match (one.mode, one.recalled) {
                // Missed breaks have overtaken the grant (invariant 5).
                _ if machine.is_silent() => LeaseState::NONE,
                (Mode::Write, None) => rules::ALL,
                (Mode::Read, None) => rules::READ_HANDLE,
                // A recall has overtaken the grant.
                _ => LeaseState::NONE,
            };
            let is_oplock = entry.holder(owner).is_some_and(|holder| holder.is_oplock());
            let wish = match is_oplock && !wish.common(most).has(LeaseState::WRITE) {
                true => wish.common(most).common(rules::READ),
                false => wish.common(most),
            };
            let state = entry.grantable(owner, wish);
            if let Some(holder) = entry.holder(owner) {
                holder.grant(state);
            }
        });
        self.granted(file, owner)
    }

    /// Pins the delegation for a grant. Returns the most that may be granted, and the delegation's
    /// mode; `None` if nothing is to be granted. An error while the delegation is being returned,
    /// as after the close before this open: then it is asked for again.
    fn begin_grant(
        self: &Arc<Self>,
        open: &LeasedOpen<S>,
        client: &S::Client,
        wish: LeaseState,
    ) -> Option<Result<(LeaseState, Mode), Blocked>> {
        let session = client.session();
        let begun = self.change(open.file, |entry, _| {
            let granted = entry.holder(open.owner)?.state;
            let most = entry.grantable(open.owner, wish);
            if most == granted {
                return None;
            }
            if entry.delegation(session).is_some_and(|one| one.is_answering) {
                return Some(Err(entry.blocked()));
            }
            if entry.delegation(session).is_none() {
                entry.delegations.push(Delegation {
                    session,
                    client: client.clone(),
                    mode: Mode::Nothing,
                    pins: 0,
                    recalled: None,
                    is_answering: false,
                });
            }
            let one = entry.delegation(session).filter(|one| one.recalled.is_none())?;
            one.pins += 1;
            Some(Ok((most, one.mode)))
        });
        begun.flatten()
    }

    /// Answers the metadata server.
    pub(super) fn answer(self: &Arc<Self>, file: FileIndex, answer: Answer<S>) {
        let Answer { session, client, returns } = answer;
        let leases = Arc::clone(self);
        spawn(async move {
            let kept = match returns {
                true => client.return_delegation(file).await.map(|()| false),
                false => client.reduce_delegation(file).await,
            };
            if let Err(error) = &kept {
                // The metadata server repeats the recall, or has ended the session.
                tracing::debug!(%error, "a delegation could not be returned");
            }
            leases.answered(file, session, kept.unwrap_or(false));
        });
    }

    fn answered(self: &Arc<Self>, file: FileIndex, session: SessionId, kept: bool) {
        self.change(file, |entry, effects| {
            if !kept {
                return entry.lose(session, effects);
            }
            if let Some(one) = entry.delegation(session) {
                (one.mode, one.is_answering) = (Mode::Read, false);
                one.recalled = one.recalled.filter(|recalled| *recalled == Recalled::All);
            }
        });
    }

    /// The metadata server recalls a delegation: clients have [`RECALL_MAX`].
    fn recall(self: &Arc<Self>, client: &S::Client, file: FileIndex, recalled: Recalled) {
        let session = client.session();
        let is_known = self.change(file, |entry, effects| {
            let Some(one) = entry.delegation(session) else { return false };
            one.recalled = one.recalled.max(Some(recalled));
            for holder in entry.holders.iter_mut().filter(|holder| holder.session == session) {
                let keeps = match recalled {
                    // As if another client opened the file to read.
                    Recalled::Writing => {
                        let access = AccessMask::READ_DATA;
                        Conflict::Open { access, overwrites: false }.keeps(holder.cached())
                    }
                    Recalled::All => LeaseState::NONE,
                };
                holder.reduce(keeps, RECALL_MAX, effects);
            }
            true
        });
        if is_known != Some(true) {
            // It was returned meanwhile, or is of an earlier start.
            let client = client.clone();
            spawn(async move {
                if let Err(error) = client.return_delegation(file).await {
                    tracing::debug!(%error, "a recall could not be answered");
                }
            });
        }
    }

    /// All delegations of a session are lost.
    fn lose_all(self: &Arc<Self>, session: SessionId) {
        for file in self.files(|_| true) {
            self.change(file, |entry, effects| entry.lose(session, effects));
        }
    }
}

impl<S: Share> FileEntry<S> {
    /// A session has no delegation any more: its clients may cache nothing.
    fn lose(&mut self, session: SessionId, effects: &mut Effects<S>) {
        for holder in self.holders.iter_mut().filter(|holder| holder.session == session) {
            holder.void(effects);
        }
        // One under a grant that runs stays, without effect.
        self.delegations.retain_mut(|one| {
            if one.session != session {
                return true;
            }
            (one.mode, one.is_answering) = (Mode::Nothing, false);
            one.recalled = Some(Recalled::All);
            one.pins > 0
        });
    }
}

/// Asks for a delegation: to read if there is none to write.
async fn ask<C: ShareClient>(client: &C, file: FileIndex, write: bool, had: Mode) -> Mode {
    let wanted =
        if write { [Some(Mode::Write), Some(Mode::Read)] } else { [Some(Mode::Read), None] };
    for mode in wanted.into_iter().flatten() {
        if had >= mode {
            return had;
        }
        match client.delegate(file, mode == Mode::Write).await {
            Ok(true) => return mode,
            Ok(false) => {}
            // The session has no bytes of the file open in this way.
            Err(error) => tracing::debug!(%error, "a file is not delegated"),
        }
    }
    had
}

/// Receives the recalls of a session's delegations until it ends.
pub(super) async fn receive<S: Share>(leases: Weak<Leases<S>>, client: S::Client) {
    while let Some(recall) = client.next_recall().await {
        let Some(leases) = leases.upgrade() else { return };
        match recall {
            DelegationRecall::File(file) => leases.recall(&client, file, Recalled::All),
            DelegationRecall::Reduce(file) => leases.recall(&client, file, Recalled::Writing),
            DelegationRecall::All => {
                leases.lose_all(client.session());
                client.drop_delegations().await;
            }
        }
    }
}

impl<S: Share> Machine<S> {
    /// Receives the recalls of its delegations, in one task.
    fn receive_recalls(&self, leases: &Arc<Leases<S>>) {
        if self.begin_recalls() {
            spawn(receive(Arc::downgrade(leases), self.client().clone()));
        }
    }
}
