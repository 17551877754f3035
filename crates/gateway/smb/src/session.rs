//! Sessions: a logged-on user, the trees and the opens. MS-SMB2 3.3.1.8.
//!
//! A session belongs to the server, not to a connection: a second connection can be bound to it
//! later (ADR 0052, 4).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_share::{Identity, Share};
use braid_smb_wire::NtStatus;
use braid_smb_wire::smb2::FileId;

use crate::client::Machine;
use crate::config::Limits;
use crate::open::Open;
use crate::protection::Protection;
use crate::tree::Tree;
use crate::users::User;

/// How a user has logged on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Logon {
    /// With a password or ticket.
    User,
    /// With the name of no user, or a wrong password where guests are allowed.
    Guest,
    /// Without a name.
    Anonymous,
}

/// The opens of a session.
#[derive(Debug)]
struct Opens<S: Share> {
    by_number: HashMap<u64, Arc<Open<S>>>,
    /// Opens that are being made.
    reserved: usize,
}

/// A session.
#[derive(Debug)]
pub struct Session<S: Share> {
    /// Its number in the server.
    pub id: u64,
    /// The connection that it began on.
    pub connection: u64,
    /// The user.
    pub user: User,
    /// How the user has logged on.
    pub logon: Logon,
    /// Signatures and encryption.
    pub protection: Protection,
    machine: Arc<Machine<S>>,
    trees: Mutex<HashMap<u32, Arc<Tree>>>,
    next_tree: AtomicU32,
    opens: Mutex<Opens<S>>,
    /// The number of directories that its opens watch.
    pub watches: Arc<AtomicUsize>,
    ended: AtomicBool,
}

impl<S: Share> Session<S> {
    /// A session without trees and opens.
    pub fn new(
        id: u64,
        connection: u64,
        (user, logon): (User, Logon),
        protection: Protection,
        machine: Arc<Machine<S>>,
    ) -> Self {
        Self {
            id,
            connection,
            user,
            logon,
            protection,
            machine,
            trees: Mutex::default(),
            next_tree: AtomicU32::new(1),
            opens: Mutex::new(Opens { by_number: HashMap::new(), reserved: 0 }),
            watches: Arc::default(),
            ended: AtomicBool::new(false),
        }
    }

    /// What the user is to the file system.
    pub fn who(&self) -> &Identity {
        &self.user.identity
    }

    /// The session of the metadata server.
    pub fn client(&self) -> &S::Client {
        self.machine.client()
    }

    /// The session of the metadata server, with what counts its users.
    pub fn machine(&self) -> &Arc<Machine<S>> {
        &self.machine
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Adds a tree, which `tree` makes for its number.
    ///
    /// # Errors
    /// The session has as many as it may have.
    pub fn add_tree(
        &self,
        limits: &Limits,
        tree: impl FnOnce(u32) -> Tree,
    ) -> Result<Arc<Tree>, NtStatus> {
        let mut trees = lock(&self.trees);
        if trees.len() >= limits.trees_per_session {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        let id = loop {
            let id = self.next_tree.fetch_add(1, Ordering::Relaxed);
            // 0 is in requests without a tree, and all ones mean the tree of the request before.
            if id != 0 && id != u32::MAX && !trees.contains_key(&id) {
                break id;
            }
        };
        let tree = Arc::new(tree(id));
        trees.insert(id, Arc::clone(&tree));
        Ok(tree)
    }

    /// A tree.
    pub fn tree(&self, id: u32) -> Option<Arc<Tree>> {
        lock(&self.trees).get(&id).cloned()
    }

    /// Removes a tree, with its opens, which the caller closes.
    pub fn remove_tree(&self, id: u32) -> Option<Vec<Arc<Open<S>>>> {
        lock(&self.trees).remove(&id)?;
        let opens = &mut lock(&self.opens).by_number;
        Some(opens.extract_if(|_, open| open.tree_id() == id).map(|(_, open)| open).collect())
    }

    /// Reserves the place of an open, before a file is changed for it.
    ///
    /// # Errors
    /// The session has as many as it may have, or has ended.
    pub fn reserve_open(self: &Arc<Self>, limits: &Limits) -> Result<OpenSlot<S>, NtStatus> {
        let mut opens = lock(&self.opens);
        if opens.by_number.len() + opens.reserved >= limits.opens_per_session {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        if self.has_ended() {
            return Err(NtStatus::USER_SESSION_DELETED);
        }
        opens.reserved += 1;
        Ok(OpenSlot(Arc::clone(self)))
    }

    /// An open. MS-SMB2 3.3.5.10: both halves of its number are checked.
    pub fn open(&self, id: FileId) -> Option<Arc<Open<S>>> {
        lock(&self.opens).by_number.get(&id.volatile).filter(|open| open.id() == id).cloned()
    }

    /// Removes an open, which the caller closes.
    pub fn remove_open(&self, id: FileId) -> Option<Arc<Open<S>>> {
        let opens = &mut lock(&self.opens).by_number;
        if opens.get(&id.volatile)?.id() != id {
            return None;
        }
        opens.remove(&id.volatile)
    }

    /// Ends the session: no further open is added. Returns those that it has, which the caller
    /// closes.
    pub fn end(&self) -> Vec<Arc<Open<S>>> {
        let mut opens = lock(&self.opens);
        self.ended.store(true, Ordering::Release);
        lock(&self.trees).clear();
        opens.by_number.drain().map(|(_, open)| open).collect()
    }
}

/// The reserved place of an open.
#[derive(Debug)]
pub struct OpenSlot<S: Share>(Arc<Session<S>>);

impl<S: Share> OpenSlot<S> {
    /// Adds the open.
    ///
    /// # Errors
    /// The session or the tree has ended: the open is closed by the caller.
    pub fn fill(self, open: Arc<Open<S>>) -> Result<(), NtStatus> {
        let session = &self.0;
        let mut opens = lock(&session.opens);
        if session.has_ended() {
            return Err(NtStatus::USER_SESSION_DELETED);
        }
        if session.tree(open.tree_id()).is_none() {
            return Err(NtStatus::NETWORK_NAME_DELETED);
        }
        opens.by_number.insert(open.id().volatile, open);
        Ok(())
    }
}

impl<S: Share> Drop for OpenSlot<S> {
    fn drop(&mut self) {
        lock(&self.0.opens).reserved -= 1;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
