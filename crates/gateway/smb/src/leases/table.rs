//! The table: for each file the owners of its opens, with what they may cache.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_share::{FileIndex, Share};
use braid_smb_wire::NtStatus;
use braid_smb_wire::smb2::create::{LeaseState, OplockLevel};
use tokio::time::sleep_until;

use super::entry::{Effects, FileEntry, Holder, Timer};
use super::notice::Notice;
use super::rules::Conflict;
use super::{Blocked, Form, Granted, LeaseName, LeasedOpen, NewOpen, Owner, Refusal, spawn};

/// The leases and oplocks of all opens of this gateway.
#[derive(Debug)]
pub struct Leases<S: Share>(Mutex<Inner<S>>);

#[derive(Debug)]
struct Inner<S: Share> {
    files: HashMap<FileIndex, FileEntry<S>>,
    /// The file of each lease.
    names: HashMap<LeaseName, FileIndex>,
}

impl<S: Share> Default for Leases<S> {
    fn default() -> Self {
        Self(Mutex::new(Inner { files: HashMap::new(), names: HashMap::new() }))
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
    pub(super) fn run<T>(
        self: &Arc<Self>,
        file: FileIndex,
        new: Option<Owner>,
        change: impl FnOnce(&mut FileEntry<S>, &mut Effects<S>) -> T,
    ) -> Option<T> {
        let mut effects = Effects::default();
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

    /// Takes a state away whose break was not acknowledged in time (invariants 2 and 5). MS-SMB2
    /// 3.3.6.1, 3.3.6.5.
    fn expire(self: &Arc<Self>, file: FileIndex, owner: Owner) {
        let missed = self.change(file, |entry, _| entry.holder(owner).and_then(Holder::miss));
        if let Some(missed) = missed.flatten() {
            self.miss(missed);
        }
    }

    /// The file of a lease, if there is one with this name.
    fn file_of(&self, name: LeaseName) -> Option<FileIndex> {
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
            holder.acknowledge(state, effects)
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
            entry.holder(open.owner)?.acknowledge_oplock(level, effects)
        });
        acknowledged.flatten().ok_or(NtStatus::INVALID_OPLOCK_PROTOCOL)
    }

    /// The files whose entry fulfils a condition.
    pub(super) fn files(&self, is_wanted: impl Fn(&FileEntry<S>) -> bool) -> Vec<FileIndex> {
        let inner = self.inner();
        let wanted = inner.files.iter().filter(|(_, entry)| is_wanted(entry));
        wanted.map(|(file, _)| *file).collect()
    }

    /// Looks at the file of a lease, if there is one with this name.
    pub(super) fn look_at<T>(
        &self,
        name: LeaseName,
        look: impl FnOnce(FileIndex, &FileEntry<S>) -> T,
    ) -> Option<T> {
        let inner = self.inner();
        let file = inner.names.get(&name)?;
        inner.files.get(file).map(|entry| look(*file, entry))
    }

    /// The number of files with an entry.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        let inner = self.inner();
        inner.files.len().max(inner.names.len())
    }
}
