//! What all clients share, and how a call runs.

use std::{
    hash::Hasher,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use braid_share::{DirectoryChange, Error, FileIndex, Result, SessionId, Status, tables::Outcome};
use braid_union::{NameChangeCount, NodeId, Union};
use siphasher::sip::SipHasher13;

use crate::{
    changes::Changes,
    files::{Files, NodeRef},
    listing::Listings,
    sessions::Sessions,
    status::OrStatus,
};

/// Locks of directories. Two directories may have the same one.
const DIRECTORY_LOCKS: usize = 256;

/// A change that a mount of the same union may have cached otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Attributes of a node.
    Attributes(NodeId),
    /// A name in a directory, which is or was that of a file.
    Name {
        /// The directory.
        directory: NodeId,
        /// The name.
        name: Box<[u8]>,
    },
}

/// Called after each change.
pub(crate) type OnChange = Box<dyn Fn(Change) + Send + Sync>;

pub(crate) struct Service {
    pub(crate) union: Arc<Union>,
    pub(crate) files: Files,
    pub(crate) changes: Changes,
    pub(crate) listings: Listings,
    pub(crate) start: u64,
    sessions: Mutex<Sessions>,
    directories: Vec<Mutex<()>>,
    on_change: OnceLock<OnChange>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("union", &self.union).finish_non_exhaustive()
    }
}

impl Service {
    pub(crate) fn new(union: Arc<Union>, files: Files, start: u64) -> Self {
        Self {
            union,
            files,
            changes: Changes::default(),
            listings: Listings::default(),
            start,
            sessions: Mutex::new(Sessions::new(start)),
            directories: (0..DIRECTORY_LOCKS).map(|_| Mutex::default()).collect(),
            on_change: OnceLock::new(),
        }
    }

    pub(crate) fn set_on_change(&self, on_change: OnChange) {
        let _ = self.on_change.set(on_change);
    }

    /// Runs a call of a session on a thread that may block: local disks answer when they can.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        session: SessionId,
        call: &'static str,
        run: impl FnOnce(&Self) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        let service = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            service.sessions().check(session)?;
            let done = run(&service);
            // Before the client has the answer with a new handle.
            service.files.flush();
            done
        });
        done.await.unwrap_or(Err(Status::Internal)).map_err(|status| failed(call, status))
    }

    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        // Each change of the tables is whole when a panic can happen.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the names of a directory by `step`. No other client of this share changes them
    /// meanwhile.
    pub(crate) fn changing<T>(
        &self,
        directory: FileIndex,
        step: impl FnOnce(&Arc<NodeRef>) -> Outcome<T>,
    ) -> Outcome<(T, DirectoryChange)> {
        let node = self.directory(directory)?;
        let _alone = self.lock_directory(directory);
        let before = self.look_at(directory, &node)?;
        let done = step(&node)?;
        Ok((done, self.change_since(before, directory, &node)?))
    }

    /// Locks two directories, in an order that all callers use.
    pub(crate) fn lock_two(
        &self,
        one: FileIndex,
        other: FileIndex,
    ) -> (MutexGuard<'_, ()>, Option<MutexGuard<'_, ()>>) {
        let (low, high) = (lock_of(one).min(lock_of(other)), lock_of(one).max(lock_of(other)));
        let lock = |at: usize| self.directories[at].lock().unwrap_or_else(PoisonError::into_inner);
        let first = lock(low);
        (first, (low != high).then(|| lock(high)))
    }

    fn lock_directory(&self, directory: FileIndex) -> MutexGuard<'_, ()> {
        let lock = &self.directories[lock_of(directory)];
        lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The change counter of a directory, and how many names were changed in the whole union.
    pub(crate) fn look_at(
        &self,
        directory: FileIndex,
        node: &NodeRef,
    ) -> Outcome<(u64, NameChangeCount)> {
        let count = self.union.name_changes();
        let attributes = self.union.attributes(node.node).or_status()?;
        Ok((self.changes.counter(directory, attributes.changed), count))
    }

    pub(crate) fn change_since(
        &self,
        (before, count): (u64, NameChangeCount),
        directory: FileIndex,
        node: &NodeRef,
    ) -> Outcome<DirectoryChange> {
        let (after, now) = self.look_at(directory, node)?;
        Ok(DirectoryChange { atomic: now.only_one_since(count), before, after })
    }

    /// The node of a directory.
    pub(crate) fn directory(&self, directory: FileIndex) -> Outcome<Arc<NodeRef>> {
        let node = self.files.node(directory)?;
        match self.union.attributes(node.node).or_status()?.is_directory() {
            true => Ok(node),
            false => Err(Status::NotDirectory),
        }
    }

    /// A file was changed through this share: its attributes or bytes.
    pub(crate) fn file_changed(&self, file: FileIndex, node: NodeId) {
        self.changes.changed(file);
        if let Some(tell) = self.on_change.get() {
            tell(Change::Attributes(node));
        }
    }

    /// A name was created, removed, or leads to another file.
    pub(crate) fn name_changed(&self, directory: FileIndex, node: NodeId, name: &[u8]) {
        self.changes.changed(directory);
        if let Some(tell) = self.on_change.get() {
            tell(Change::Name { directory: node, name: name.into() });
            tell(Change::Attributes(node));
        }
    }
}

fn lock_of(directory: FileIndex) -> usize {
    let mut hasher = SipHasher13::new();
    hasher.write_u64(directory.0);
    hasher.finish() as usize % DIRECTORY_LOCKS
}

/// The error of a call.
pub(crate) fn failed(call: &str, status: Status) -> Error {
    Error::new(status, format!("{call}: {}", status.text()))
}
