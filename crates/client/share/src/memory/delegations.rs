//! Delegations of all sessions, and calls that wait until they are returned.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use braid_types::{FileIndex, SessionId, Status};
use tokio::sync::Notify;

use super::{
    CallKind,
    share::{SharedState, failed},
    state::{Outcome, State},
};
use crate::{DelegationRecall, Deny, OpenTarget, Result, Rights};

/// How long a call waits for delegations (I8).
const WAIT_MAX: Duration = Duration::from_secs(30);

/// What a call needs of the delegations of other sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// Nobody has one to write.
    Look,
    /// Nobody has one.
    Change,
}

/// The delegations of a file system.
#[derive(Debug, Default)]
pub(super) struct DelegationTable {
    /// Sessions with a delegation of a file, and whether it is to write.
    held: HashMap<FileIndex, BTreeMap<SessionId, bool>>,
    /// Files of which one was recalled. They get none any more.
    recalled: BTreeSet<FileIndex>,
    queues: HashMap<SessionId, Queue>,
    /// Notified when one is returned.
    returned: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Queue {
    recalls: VecDeque<DelegationRecall>,
    /// Recalls that were not answered, and whether each one is of the whole delegation.
    sent: BTreeMap<FileIndex, bool>,
    added: Arc<Notify>,
}

impl DelegationTable {
    pub(super) fn return_one(&mut self, session: SessionId, file: FileIndex) {
        if let Some(holders) = self.held.get_mut(&file) {
            holders.remove(&session);
        }
        if let Some(queue) = self.queues.get_mut(&session) {
            queue.sent.remove(&file);
        }
        self.returned.notify_waiters();
    }

    /// Keeps a delegation to read, unless all of it was recalled. Whether the session has it then.
    pub(super) fn reduce_one(&mut self, session: SessionId, file: FileIndex) -> bool {
        let is_whole = |queue: &Queue| queue.sent.get(&file) == Some(&true);
        if self.queues.get(&session).is_some_and(is_whole) {
            self.return_one(session, file);
            return false;
        }
        let held = self.held.get_mut(&file).and_then(|holders| holders.get_mut(&session));
        let has = held.is_some();
        held.into_iter().for_each(|write| *write = false);
        if let Some(queue) = self.queues.get_mut(&session) {
            queue.sent.remove(&file);
        }
        self.returned.notify_waiters();
        has
    }

    pub(super) fn return_all(&mut self, session: SessionId) {
        self.held.retain(|_, holders| {
            holders.remove(&session);
            !holders.is_empty()
        });
        if let Some(queue) = self.queues.get_mut(&session) {
            queue.sent.clear();
        }
        self.returned.notify_waiters();
    }

    pub(super) fn end_session(&mut self, session: SessionId) {
        self.return_all(session);
        if let Some(queue) = self.queues.remove(&session) {
            queue.added.notify_waiters();
        }
    }

    pub(super) fn count(&self) -> usize {
        self.held.values().map(BTreeMap::len).sum()
    }

    /// All delegations of a session are lost.
    pub(super) fn lose(&mut self, session: SessionId) {
        let queue = self.queues.entry(session).or_default();
        queue.recalls.push_back(DelegationRecall::All);
        queue.added.notify_waiters();
    }

    /// Recalls what conflicts with a need; whether something does.
    fn recall(&mut self, session: SessionId, file: FileIndex, need: Need) -> bool {
        let holders = self.held.get(&file).into_iter().flatten();
        let conflicting = holders
            .filter(|(holder, write)| **holder != session && (**write || need == Need::Change));
        let conflicting: Vec<SessionId> = conflicting.map(|(holder, _)| *holder).collect();
        for holder in &conflicting {
            self.recalled.insert(file);
            let queue = self.queues.entry(*holder).or_default();
            let whole = need == Need::Change;
            let before = queue.sent.get(&file).copied();
            if before.is_none_or(|before| whole && !before) {
                queue.sent.insert(file, whole);
                queue.recalls.push_back(match whole {
                    true => DelegationRecall::File(file),
                    false => DelegationRecall::Reduce(file),
                });
                queue.added.notify_waiters();
            }
        }
        !conflicting.is_empty()
    }

    fn next(&mut self, session: SessionId) -> std::result::Result<DelegationRecall, Arc<Notify>> {
        let queue = self.queues.entry(session).or_default();
        queue.recalls.pop_front().ok_or_else(|| Arc::clone(&queue.added))
    }
}

impl State {
    pub(super) fn delegate(
        &mut self,
        session: SessionId,
        file: FileIndex,
        write: bool,
    ) -> Outcome<bool> {
        let inode = self.inode(file)?;
        let is_open = match write {
            true => self.opens.writes(session, file),
            false => self.opens.has_open(session, file),
        };
        if !is_open {
            return Err(Status::Invalid);
        }
        let conflicts = self.delegations.held.get(&file).into_iter().flatten();
        let mut conflicts =
            conflicts.filter(|(holder, held)| **holder != session && (write || **held));
        let opened = match write {
            true => self.opens.open_besides(session, file),
            false => self.opens.written_besides(session, file),
        };
        if inode.links == 0
            || opened
            || self.opens.denied_besides(session, file) & (Deny::READ | Deny::WRITE) != Deny::NONE
            || conflicts.next().is_some()
            || self.delegations.recalled.contains(&file)
        {
            return Ok(false);
        }
        let holders = self.delegations.held.entry(file).or_default();
        let had = holders.get(&session).copied().unwrap_or(false);
        if had && !write {
            return Ok(false);
        }
        holders.insert(session, write);
        Ok(true)
    }

    /// The file that an open is for, if it exists.
    fn target_of(&self, target: &OpenTarget) -> Option<FileIndex> {
        match target {
            OpenTarget::File(file) => Some(*file),
            OpenTarget::Name { dir, name } | OpenTarget::Create { dir, name, .. } => {
                self.named(*dir, name)
            }
        }
    }

    /// The file with a name, without a check of permissions.
    pub(super) fn named(&self, dir: FileIndex, name: &[u8]) -> Option<FileIndex> {
        self.directory(dir).ok().and_then(|(_, directory)| directory.find(name))
    }
}

impl SharedState {
    /// Waits until no other session has a delegation that conflicts.
    pub(super) async fn recall(
        &self,
        session: SessionId,
        call: CallKind,
        needs: impl Fn(&mut State) -> Vec<(FileIndex, Need)>,
    ) -> Result<()> {
        let all = async {
            loop {
                let returned = Arc::clone(&self.lock().delegations.returned);
                let returned = returned.notified();
                let mut returned = std::pin::pin!(returned);
                // Before the check, so that no return is missed.
                returned.as_mut().enable();
                {
                    let mut state = self.lock();
                    let needs = needs(&mut state);
                    let table = &mut state.delegations;
                    let wait = needs.iter().fold(false, |wait, (file, need)| {
                        table.recall(session, *file, *need) | wait
                    });
                    if !wait {
                        return;
                    }
                }
                returned.await;
            }
        };
        let waited = tokio::time::timeout(WAIT_MAX, all).await;
        waited.map_err(|_| failed(call, Status::TryAgain))
    }

    /// The same for an open.
    pub(super) async fn recall_for_open(
        &self,
        session: SessionId,
        target: &OpenTarget,
        mode: crate::OpenMode,
    ) -> Result<()> {
        let truncates = matches!(target, OpenTarget::Create { truncate: true, .. });
        let changes = truncates || mode.rights.allow(Rights::WRITE) || mode.deny != Deny::NONE;
        let need = if changes { Need::Change } else { Need::Look };
        self.recall(session, CallKind::Open, |state| {
            state.target_of(target).map(|file| (file, need)).into_iter().collect()
        })
        .await
    }

    pub(super) async fn next_recall(&self, session: SessionId) -> Option<DelegationRecall> {
        loop {
            let added = {
                let mut state = self.lock();
                if !state.sessions.contains_key(&session) {
                    return None;
                }
                match state.delegations.next(session) {
                    Ok(recall) => return Some(recall),
                    Err(added) => added,
                }
            };
            let added = added.notified();
            let mut added = std::pin::pin!(added);
            added.as_mut().enable();
            {
                let mut state = self.lock();
                let ended = !state.sessions.contains_key(&session);
                if ended {
                    return None;
                }
                if let Ok(recall) = state.delegations.next(session) {
                    return Some(recall);
                }
            }
            added.await;
        }
    }
}
