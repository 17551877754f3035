//! Opens of applications that move to another machine. MS-SMB2 3.3.5.9.13.
//!
//! The application opens its files there with the same number; the opens of the machine that it has
//! left are closed, whether that one is connected or not.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use braid_share::{FileIndex, Share};
use braid_smb_wire::NtStatus;

use crate::open::Open;
use crate::ops::close::close_open;
use crate::server::SmbServer;
use crate::session::Session;

/// The application that an open belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppInstance {
    /// Its number.
    pub id: [u8; 16],
    /// Its version: the high half, then the low one.
    pub version: Option<(u64, u64)>,
    /// The machine of its client.
    pub client_guid: [u8; 16],
    /// The user.
    pub owner: String,
}

/// The opens that belong to applications: memory is bounded by the limits of opens.
#[derive(Debug)]
pub struct AppInstances<S: Share>(Mutex<Table<S>>);

/// The opens of each file by each application.
type Table<S> = HashMap<AppFile, HashMap<u64, AppOpen<S>>>;

/// An open, and the session that it belongs to.
type SessionOpen<S> = (Arc<Open<S>>, Weak<Session<S>>);

/// The number of an application, and a file.
type AppFile = ([u8; 16], FileIndex);

#[derive(Debug)]
struct AppOpen<S: Share> {
    app: AppInstance,
    open: Weak<Open<S>>,
    session: Weak<Session<S>>,
}

/// An open in the table, until it is dropped.
#[derive(Debug)]
pub struct AppRecord<S: Share> {
    apps: Arc<AppInstances<S>>,
    key: AppFile,
    /// The number of the open.
    number: u64,
}

impl<S: Share> Default for AppInstances<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: Share> AppInstances<S> {
    fn table(&self) -> MutexGuard<'_, Table<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves the record of an open with this number.
    pub fn record(self: &Arc<Self>, key: AppFile, number: u64) -> AppRecord<S> {
        AppRecord { apps: Arc::clone(self), key, number }
    }

    /// The opens of a file by an application on other machines, with their sessions; only those
    /// of which `is_it` holds.
    ///
    /// # Errors
    /// `FILE_FORCED_CLOSED` if one of them belongs to the same or a later version.
    fn of_others(
        &self,
        (app, file): (&AppInstance, FileIndex),
        is_it: impl Fn(&Open<S>) -> bool,
    ) -> Result<Vec<SessionOpen<S>>, NtStatus> {
        // The standard does not ask for the same user: ADR 0056, 9.
        let is_other = |one: &&AppOpen<S>| {
            one.app.client_guid != app.client_guid && one.app.owner == app.owner
        };
        let found = |one: &AppOpen<S>| {
            Some((one.open.upgrade()?, Weak::clone(&one.session), one.app.version))
        };
        // No open is dropped under the mutex: that would lock it once more.
        let candidates: Vec<_> = {
            let table = self.table();
            let all = table.get(&(app.id, file)).into_iter().flat_map(HashMap::values);
            all.filter(is_other).filter_map(found).collect()
        };
        let mut others = Vec::new();
        for (open, session, version) in candidates {
            if !is_it(&open) {
                continue;
            }
            // 3.3.5.9.13: compared only where both have a version.
            if version.zip(app.version).is_some_and(|(theirs, ours)| theirs >= ours) {
                return Err(NtStatus::FILE_FORCED_CLOSED);
            }
            others.push((open, session));
        }
        Ok(others)
    }
}

impl<S: Share> AppRecord<S> {
    /// Adds the open, or notes that it belongs to another session now.
    pub fn enter(&self, app: &AppInstance, open: &Arc<Open<S>>, session: &Arc<Session<S>>) {
        let (open, session) = (Arc::downgrade(open), Arc::downgrade(session));
        let one = AppOpen { app: app.clone(), open, session };
        self.apps.table().entry(self.key).or_default().insert(self.number, one);
    }
}

impl<S: Share> Drop for AppRecord<S> {
    fn drop(&mut self) {
        let mut table = self.apps.table();
        if let Some(all) = table.get_mut(&self.key) {
            all.remove(&self.number);
            if all.is_empty() {
                table.remove(&self.key);
            }
        }
    }
}

impl<S: Share> SmbServer<S> {
    /// Closes the opens of a file that an application has on other machines, in a share that begins
    /// at the directory `root`.
    ///
    /// # Errors
    /// `FILE_FORCED_CLOSED` if one of them belongs to the same or a later version.
    pub(crate) async fn close_app(
        &self,
        app: &AppInstance,
        file: FileIndex,
        root: FileIndex,
    ) -> Result<(), NtStatus> {
        let is_it = |open: &Open<S>| match open {
            Open::File(open) => open.stream.is_none() && open.tree.root() == Some(root),
            Open::Pipe(_) => false,
        };
        for (open, session) in self.apps.of_others((app, file), is_it)? {
            let connected = session.upgrade().and_then(|session| {
                let open = session.remove_open(open.id())?;
                Some((open, session))
            });
            let id = open.id().persistent;
            let taken = || self.disconnected.take_if(id, |_| Ok(())).ok();
            let found = connected.or_else(|| taken().map(|one| (one.open, one.session)));
            // None: it is being closed already.
            if let Some((open, session)) = found {
                close_open(self, &session, &open).await;
            }
        }
        Ok(())
    }
}
