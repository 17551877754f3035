//! Names and attributes that a client caches under leases, as a mount does. Answers from this cache
//! are checked like answers of the server. ADR 0009.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use braid_client::{
    Error, FileIndex, LeaseHolder, LeaseMode, LeaseOf, LeaseTicket, Status,
    message::types::{Attributes, PathRef},
};

use super::{ClientWorkload, names::seen};
use crate::{
    model::names::{Kind, SeenAttributes},
    world::lock,
};

/// A client's own change with an unknown outcome may still happen and recalls no lease of this
/// client. For this time the client caches nothing.
const PAUSE_AFTER_UNKNOWN: Duration = Duration::from_secs(60);

/// The name cache of one client.
#[derive(Debug)]
pub struct CachedNames(Mutex<CacheState>);

#[derive(Debug, Default)]
struct CacheState {
    directories: BTreeMap<FileIndex, Directory>,
    rests_until: Duration,
    /// Answers from the cache.
    answered: u64,
    /// The client ignores recalls: a broken client that the checker must detect.
    ignores_recalls: bool,
}

/// What is cached under one names lease.
#[derive(Debug, Default)]
struct Directory {
    /// The directory's own attributes.
    own: Option<SeenAttributes>,
    /// Its entries, with the attributes of those that are not directories; `None` for a negative
    /// entry.
    entries: BTreeMap<String, Option<SeenAttributes>>,
}

impl LeaseHolder for CachedNames {
    fn recall_names(&self, dir: FileIndex) {
        let mut state = lock(&self.0);
        if !state.ignores_recalls {
            state.directories.remove(&dir);
        }
    }

    fn recall_data(&self, _: FileIndex, _: LeaseMode) -> LeaseMode {
        LeaseMode::None
    }

    fn lost_all(&self) {
        lock(&self.0).directories.clear();
    }
}

impl CachedNames {
    /// An empty cache.
    pub fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::default()))
    }

    /// Ignores recalls from now on.
    pub fn ignore_recalls(&self) {
        lock(&self.0).ignores_recalls = true;
    }

    /// Number of answers from the cache.
    pub fn hits(&self) -> u64 {
        lock(&self.0).answered
    }

    /// The client has changed something, or the outcome of a change is unknown.
    pub(crate) fn changed(&self, paths: &[&str], known: bool, now: Duration) {
        let mut state = lock(&self.0);
        let names: Vec<&str> = paths.iter().filter_map(|path| path.rsplit('/').next()).collect();
        for directory in state.directories.values_mut() {
            directory.own = None;
            directory.entries.retain(|name, _| !names.contains(&name.as_str()));
        }
        if !known {
            state.directories.clear();
            state.rests_until = now + PAUSE_AFTER_UNKNOWN;
        }
    }

    fn entry(&self, dir: FileIndex, name: &str) -> Option<Option<SeenAttributes>> {
        let mut state = lock(&self.0);
        let found = state.directories.get(&dir)?.entries.get(name).copied()?;
        state.answered += 1;
        Some(found)
    }

    fn own(&self, dir: FileIndex) -> Option<SeenAttributes> {
        lock(&self.0).directories.get(&dir)?.own
    }

    fn keep(
        &self,
        ticket: &LeaseTicket,
        now: Duration,
        still: bool,
        keep: impl FnOnce(&mut Directory),
    ) {
        let mut state = lock(&self.0);
        if still && now >= state.rests_until {
            keep(state.directories.entry(ticket.of().file()).or_default());
        }
    }
}

impl ClientWorkload {
    /// Attributes of a path, looked up a component at a time, from the cache where possible.
    pub(super) async fn look_up(&self, path: &str) -> Result<SeenAttributes, Error> {
        let mut at = FileIndex::ROOT;
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        for (place, name) in names.iter().enumerate() {
            let found = self.entry(at, name).await?;
            let Some(found) = found else { return Err(not_found()) };
            match (found.kind, place + 1 == names.len()) {
                (Kind::Directory, _) => at = FileIndex(found.index),
                (_, true) => return Ok(found),
                // A link or a file as an inner component: the server decides what that means.
                (_, false) => {
                    return Ok(seen(&self.client.lstat(PathRef::root(path.as_bytes())).await?));
                }
            }
        }
        self.own(at).await
    }

    async fn entry(&self, dir: FileIndex, name: &str) -> Result<Option<SeenAttributes>, Error> {
        if let Some(known) = self.cached.entry(dir, name) {
            return Ok(known);
        }
        let ticket = self.ticket(dir).await?;
        let at = PathRef { dir, path: name.as_bytes().to_vec() };
        let found = match self.client.lstat(at).await {
            Ok(found) => Some(found),
            Err(error) if error.status() == Status::NotFound => None,
            Err(error) => return Err(error),
        };
        let shown = found.as_ref().map(seen);
        if found.as_ref().is_none_or(|found: &Attributes| !found.uncacheable) {
            self.keep(ticket, |directory| {
                directory.entries.insert(name.to_owned(), shown);
            });
        }
        Ok(shown)
    }

    async fn own(&self, dir: FileIndex) -> Result<SeenAttributes, Error> {
        if let Some(known) = self.cached.own(dir) {
            return Ok(known);
        }
        let ticket = self.ticket(dir).await?;
        let found = self.client.lstat(PathRef::file(dir)).await?;
        let shown = seen(&found);
        if !found.uncacheable {
            self.keep(ticket, |directory| directory.own = Some(shown));
        }
        Ok(shown)
    }

    async fn ticket(&self, dir: FileIndex) -> Result<Option<LeaseTicket>, Error> {
        match self.client.lease_ticket(LeaseOf::Names(dir)) {
            Some(ticket) => Ok(Some(ticket)),
            None => self.client.ask_names(dir).await,
        }
    }

    fn keep(&self, ticket: Option<LeaseTicket>, keep: impl FnOnce(&mut Directory)) {
        if let Some(ticket) = ticket {
            self.cached.keep(&ticket, self.world.now(), self.client.is_lease_valid(&ticket), keep);
        }
    }
}

fn not_found() -> Error {
    Error::new(Status::NotFound, "cached as a negative entry")
}
