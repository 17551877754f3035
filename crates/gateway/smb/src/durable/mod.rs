//! Durable opens: those that outlive the connection of their client for a time. MS-SMB2 3.3.1.10,
//! 3.3.2.2, 3.3.7.1; ADR 0056.
//!
//! ```text
//!   open of a session ─> the connection ends ─> disconnected ─┬─> open of another session
//!                                                             └─> closed: time, break, end
//! ```
//!
//! Invariants:
//! 1. A disconnected open is in the table of [`DisconnectedOpens`] once. The task or request that
//!    takes it out of there either closes it or gives it to a session.
//! 2. The table has at most as many opens, and keeps at most as many sessions of the metadata
//!    server, as [`Limits`] says, of all users and of each one.
//! 3. While it is disconnected no request of it runs, except those of its lost connection, which
//!    end before it is given to another session.

pub mod app_instance;
pub mod channel;
pub mod replay;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braid_share::Share;
use braid_smb_wire::NtStatus;
use tokio::sync::oneshot;

use crate::client::Machine;
use crate::config::Limits;
use crate::open::Open;
use crate::ops::close::close_open;
use crate::ops::lock;
use crate::server::SmbServer;
use crate::session::Session;

/// How long an open of version 1 is kept: that of Windows (MS-SMB2 3.3.5.9.6).
pub const V1_MAX: Duration = Duration::from_secs(16 * 60);
/// How long one of version 2 is kept at most (MS-SMB2 3.3.5.9.10).
pub const V2_MAX: Duration = Duration::from_secs(300);
/// The same if the client leaves it to the server: that of Windows.
pub const V2_DEFAULT: Duration = Duration::from_secs(60);

/// What makes an open durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Durable {
    /// The name of the user to whom it is given back.
    pub owner: String,
    /// How long it is kept.
    pub timeout: Duration,
}

/// An open whose client is disconnected.
#[derive(Debug)]
pub struct Disconnected<S: Share> {
    /// The open.
    pub open: Arc<Open<S>>,
    /// The session that it was an open of, which has ended.
    pub session: Arc<Session<S>>,
    serial: u64,
    /// Dropped when it is taken out of the table, which ends the task with its timer.
    _taken: oneshot::Sender<()>,
}

/// How much of the bounds is used.
#[derive(Debug, Default)]
struct Usage {
    opens: usize,
    /// The sessions of the metadata server, by their address in memory, with their opens.
    machines: HashMap<usize, usize>,
}

impl Usage {
    fn has_room(&self, machine: usize, (opens, machines): (usize, usize)) -> bool {
        self.opens < opens
            && (self.machines.len() < machines || self.machines.contains_key(&machine))
    }

    fn add(&mut self, machine: usize) {
        self.opens += 1;
        *self.machines.entry(machine).or_default() += 1;
    }

    fn remove(&mut self, machine: usize) {
        self.opens -= 1;
        if let Some(count) = self.machines.get_mut(&machine) {
            *count -= 1;
            if *count == 0 {
                self.machines.remove(&machine);
            }
        }
    }
}

/// The opens whose client is disconnected, by their persistent number.
#[derive(Debug)]
pub struct DisconnectedOpens<S: Share>(Mutex<Table<S>>);

#[derive(Debug)]
struct Table<S: Share> {
    opens: HashMap<u64, Disconnected<S>>,
    all: Usage,
    by_user: HashMap<String, Usage>,
    last_serial: u64,
}

impl<S: Share> Default for DisconnectedOpens<S> {
    fn default() -> Self {
        Self(Mutex::new(Table {
            opens: HashMap::new(),
            all: Usage::default(),
            by_user: HashMap::new(),
            last_serial: 0,
        }))
    }
}

fn address<S: Share>(machine: &Arc<Machine<S>>) -> usize {
    Arc::as_ptr(machine).addr()
}

impl<S: Share> Table<S> {
    /// Invariant 1.
    fn take(&mut self, id: u64) -> Option<Disconnected<S>> {
        let one = self.opens.remove(&id)?;
        let Open::File(file) = &*one.open else { return Some(one) };
        let machine = address(&file.machine);
        self.all.remove(machine);
        let user = &one.session.user.name;
        if let Some(usage) = self.by_user.get_mut(user) {
            usage.remove(machine);
            if usage.opens == 0 {
                self.by_user.remove(user);
            }
        }
        Some(one)
    }
}

impl<S: Share> DisconnectedOpens<S> {
    fn table(&self) -> MutexGuard<'_, Table<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an open: its serial number in the table, and what ends when it is taken out. `None`
    /// above a bound (invariant 2).
    fn add(
        &self,
        limits: &Limits,
        open: &Arc<Open<S>>,
        session: &Arc<Session<S>>,
    ) -> Option<(u64, oneshot::Receiver<()>)> {
        let Open::File(file) = &**open else { return None };
        let (machine, user) = (address(&file.machine), &session.user.name);
        let mut table = self.table();
        let by_user = table.by_user.get(user);
        if !table.all.has_room(machine, limits.durable)
            || by_user.is_some_and(|usage| !usage.has_room(machine, limits.durable_of_user))
            || limits.durable_of_user.0 == 0
        {
            return None;
        }
        table.all.add(machine);
        table.by_user.entry(user.clone()).or_default().add(machine);
        table.last_serial += 1;
        let (taken, ends) = oneshot::channel();
        let (open, session, serial) = (Arc::clone(open), Arc::clone(session), table.last_serial);
        let id = open.id().persistent;
        table.opens.insert(id, Disconnected { open, session, serial, _taken: taken });
        Some((serial, ends))
    }

    /// Takes an open out, if `check` allows it.
    ///
    /// # Errors
    /// `OBJECT_NAME_NOT_FOUND` without such an open, and those of `check`.
    pub fn take_if(
        &self,
        id: u64,
        check: impl FnOnce(&Disconnected<S>) -> Result<(), NtStatus>,
    ) -> Result<Disconnected<S>, NtStatus> {
        let mut table = self.table();
        check(table.opens.get(&id).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?)?;
        table.take(id).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)
    }

    /// Looks at an open, without taking it out.
    ///
    /// # Errors
    /// As [`DisconnectedOpens::take_if`].
    pub fn look(
        &self,
        id: u64,
        check: impl FnOnce(&Disconnected<S>) -> Result<(), NtStatus>,
    ) -> Result<(), NtStatus> {
        check(self.table().opens.get(&id).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?)
    }

    /// Takes an open out whose task has ended. It may have been given back meanwhile, and be here
    /// once more.
    fn take_ended(&self, id: u64, serial: u64) -> Option<Disconnected<S>> {
        self.take_if(id, |one| match one.serial == serial {
            true => Ok(()),
            false => Err(NtStatus::OBJECT_NAME_NOT_FOUND),
        })
        .ok()
    }

    /// Takes all out.
    pub fn take_all(&self) -> Vec<Disconnected<S>> {
        let mut table = self.table();
        let ids: Vec<_> = table.opens.keys().copied().collect();
        ids.into_iter().filter_map(|id| table.take(id)).collect()
    }

    /// The number of opens.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        let table = self.table();
        let by_user: usize = table.by_user.values().map(|usage| usage.opens).sum();
        assert_eq!((table.opens.len(), table.all.opens), (by_user, by_user));
        by_user
    }
}

impl<S: Share> SmbServer<S> {
    /// Keeps an open of a session that has ended, if it is durable. Returns one that is not kept,
    /// which the caller closes.
    pub(crate) async fn keep(
        self: &Arc<Self>,
        session: &Arc<Session<S>>,
        open: Arc<Open<S>>,
    ) -> Option<Arc<Open<S>>> {
        let Open::File(file) = &*open else { return Some(open) };
        let Some(durable) = &file.durable else { return Some(open) };
        // Nobody could open a file that waits for its removal.
        if self.files.is_delete_pending(file.key()) {
            return Some(open);
        }
        let Some(lease) = &file.lease else { return Some(open) };
        let Some(revoked) = lease.disconnect() else { return Some(open) };
        // A repetition of its CREATE is a new one from here on.
        file.end_replay();
        lock::cancel_waits(file).await;
        let Some((serial, taken)) = self.disconnected.add(&self.config.limits, &open, session)
        else {
            tracing::info!(user = session.user.name, "too many durable opens: one is closed");
            return Some(open);
        };
        let (server, id, timeout) = (Arc::downgrade(self), open.id().persistent, durable.timeout);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = taken => return,
                Ok(()) = revoked => {}
                () = tokio::time::sleep(timeout) => {}
            }
            let Some(server) = server.upgrade() else { return };
            if let Some(one) = server.disconnected.take_ended(id, serial) {
                close_open(&server, &one.session, &one.open).await;
            }
        });
        None
    }

    /// Ends a session whose client is disconnected or has logged off. Its durable opens are kept,
    /// the others closed. MS-SMB2 3.3.7.1, 3.3.5.6, 3.3.5.5.3.
    pub(crate) async fn disconnect_session(self: &Arc<Self>, id: u64) {
        let Some(session) = self.remove_session(id) else { return };
        let mut others = Vec::new();
        for open in session.end() {
            others.extend(self.keep(&session, open).await);
        }
        for open in others {
            close_open(self, &session, &open).await;
        }
    }
}
