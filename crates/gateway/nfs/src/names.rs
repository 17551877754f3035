//! Names of users and groups, RFC 8881 5.9: `alice@example.org`, `alice`, or a number.
//!
//! ```text
//!   from a client   1000, 1000@anything           the number
//!                   alice, alice@DOMAIN           by the user database of this host
//!   to a client     1000                          without a domain in the configuration
//!                   alice@DOMAIN                  with one, if the database has a name
//! ```
//!
//! Invariants:
//! 1. The database is asked in threads for blocking calls, at most [`LOOKUPS_MAX`] at a time: no
//!    lookup stops the server's event loop.
//! 2. A call waits at most [`LOOKUP_WAIT`] for the database. What it finds later is cached. Calls
//!    in the next [`SILENT_FOR`] do not wait for it.
//! 3. The caches have at most [`NAMES_MAX`] entries each, and no entry is used when it is older
//!    than [`NAME_CACHED`], or [`MISSING_CACHED`] where the database had none.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use braid_nfs_wire::nfs4::{NfsResult, NfsStatus};
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// How long a name is cached, as by Linux's rpc.idmapd(8).
pub const NAME_CACHED: Duration = Duration::from_secs(600);
/// How long it is cached that the database has no such name: a new user waits for it.
pub const MISSING_CACHED: Duration = Duration::from_secs(60);
/// Most entries of each cache.
pub const NAMES_MAX: usize = 4096;
/// Most lookups at the same time: each blocks a thread while a directory service does not answer.
pub const LOOKUPS_MAX: usize = 16;
/// How long an operation waits for the database. A client then tries again, or gets the number.
pub const LOOKUP_WAIT: Duration = Duration::from_secs(5);
/// How long no call asks the database after one got no answer in time.
pub const SILENT_FOR: Duration = Duration::from_secs(5);
/// Longest name of a user or group: LOGIN_NAME_MAX of Linux.
pub const NAME_BYTES_MAX: usize = 256;

/// Users and groups have numbers of their own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NameKind {
    /// A user.
    User,
    /// A group.
    Group,
}

/// The user database of this host. Calls may block.
pub trait UserDatabase: fmt::Debug + Send + Sync + 'static {
    /// The number of a name; `None` if there is none.
    ///
    /// # Errors
    /// The database cannot be asked now.
    fn number(&self, kind: NameKind, name: &str) -> io::Result<Option<u32>>;

    /// The name of a number; `None` if there is none.
    ///
    /// # Errors
    /// The database cannot be asked now.
    fn name(&self, kind: NameKind, number: u32) -> io::Result<Option<String>>;
}

/// Names to numbers and back.
#[derive(Debug)]
pub struct Names {
    domain: Option<String>,
    database: Option<Arc<dyn UserDatabase>>,
    numbers: Arc<Cache<(NameKind, String), u32>>,
    names: Arc<Cache<(NameKind, u32), String>>,
    lookups: Arc<Semaphore>,
    /// When a call got no answer in time.
    silent_since: Mutex<Option<Instant>>,
}

impl Names {
    /// With a domain, names are sent to clients, too, and names of other domains are unknown.
    /// Without a database only numbers and `root` are known.
    pub fn new(domain: Option<String>, database: Option<Arc<dyn UserDatabase>>) -> Self {
        let lookups = Arc::new(Semaphore::new(LOOKUPS_MAX));
        let silent_since = Mutex::default();
        Self {
            domain,
            database,
            numbers: Arc::default(),
            names: Arc::default(),
            lookups,
            silent_since,
        }
    }

    /// The number of an owner or group in a message.
    ///
    /// # Errors
    /// `INVAL` for an empty name and for one that is not UTF-8; `BADOWNER` for an unknown one;
    /// `DELAY` while the database does not answer.
    pub async fn number(&self, kind: NameKind, text: &[u8]) -> NfsResult<u64> {
        let text = std::str::from_utf8(text).map_err(|_| NfsStatus::Inval)?;
        let (name, domain) = match text.split_once('@') {
            Some((name, domain)) => (name, Some(domain)),
            None => (text, None),
        };
        if name.is_empty() {
            return Err(NfsStatus::Inval);
        }
        // RFC 8881 5.9: a number without leading zeros.
        match name.parse::<u32>() {
            Ok(number) if number.to_string() == name => return Ok(u64::from(number)),
            _ if name.bytes().all(|byte| byte.is_ascii_digit()) => return Err(NfsStatus::BadOwner),
            _ => {}
        }
        let is_ours = match (domain, &self.domain) {
            (None, _) => true,
            (Some(domain), Some(own)) => domain.eq_ignore_ascii_case(own),
            // Other hosts may have another `alice`; there is but one root.
            (Some(_), None) => name == "root",
        };
        if !is_ours || name.len() > NAME_BYTES_MAX || name.contains('\0') {
            return Err(NfsStatus::BadOwner);
        }
        if name == "root" {
            return Ok(0);
        }
        let Some(database) = self.database.clone() else { return Err(NfsStatus::BadOwner) };
        let key = (kind, name.to_owned());
        let ask = move |(kind, name): &(NameKind, String)| database.number(*kind, name);
        match self.ask(&self.numbers, key, ask).await {
            Ok(Some(number)) => Ok(u64::from(number)),
            Ok(None) => Err(NfsStatus::BadOwner),
            Err(error) => {
                tracing::warn!(%error, "the user database does not answer");
                Err(NfsStatus::Delay)
            }
        }
    }

    /// An owner or group for a message. A client understands a number, too, so that one without a
    /// name, or of a database that does not answer, is sent as it is.
    pub async fn text(&self, kind: NameKind, number: u64) -> Bytes {
        self.name(kind, number).await.unwrap_or_else(|| number.to_string()).into()
    }

    /// Whether names are sent to clients.
    pub fn sends_names(&self) -> bool {
        self.domain.is_some() && self.database.is_some()
    }

    async fn name(&self, kind: NameKind, number: u64) -> Option<String> {
        let domain = self.domain.as_deref()?;
        let database = self.database.clone()?;
        let key = (kind, u32::try_from(number).ok()?);
        let ask = move |(kind, number): &(NameKind, u32)| {
            // What would be read as a number or as a name with a domain is not sent.
            let is_name = |name: &String| {
                !name.is_empty()
                    && name.len() <= NAME_BYTES_MAX
                    && !name.contains(['@', '\0'])
                    && !name.bytes().all(|byte| byte.is_ascii_digit())
            };
            database.name(*kind, *number).map(|name| name.filter(is_name))
        };
        match self.ask(&self.names, key, ask).await {
            Ok(name) => Some(format!("{}@{domain}", name?)),
            Err(error) => {
                tracing::warn!(%error, "the user database does not answer: sending numbers");
                None
            }
        }
    }

    /// Answers from a cache, or asks the database.
    async fn ask<K, V>(
        &self,
        cache: &Arc<Cache<K, V>>,
        key: K,
        ask: impl FnOnce(&K) -> io::Result<Option<V>> + Send + 'static,
    ) -> io::Result<Option<V>>
    where
        K: Clone + Eq + Hash + Send + 'static,
        V: Clone + Send + 'static,
    {
        if let Some(found) = cache.get(&key) {
            return Ok(found);
        }
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
        let silent_since = || self.silent_since.lock().unwrap_or_else(PoisonError::into_inner);
        if silent_since().is_some_and(|since| since.elapsed() < SILENT_FOR) {
            return Err(late());
        }
        let asked = async {
            let permit = Arc::clone(&self.lookups).acquire_owned().await;
            let permit = permit.map_err(io::Error::other)?;
            // Another request may have asked for it meanwhile.
            if let Some(found) = cache.get(&key) {
                return Ok(found);
            }
            let cache = Arc::clone(cache);
            tokio::task::spawn_blocking(move || {
                // Held until the database has answered, also if nobody waits for it any more.
                let _permit = permit;
                let found = ask(&key)?;
                cache.insert(key, found.clone());
                Ok(found)
            })
            .await
            .map_err(io::Error::other)?
        };
        match timeout(LOOKUP_WAIT, asked).await {
            Ok(answer) => answer,
            Err(_) => {
                *silent_since() = Some(Instant::now());
                Err(late())
            }
        }
    }
}

/// Answers of the database, `None` where it had none, and when they arrived.
#[derive(Debug)]
struct Cache<K, V>(Mutex<HashMap<K, (Option<V>, Instant)>>);

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

fn is_fresh<V>((answer, since): &(Option<V>, Instant)) -> bool {
    since.elapsed() < if answer.is_some() { NAME_CACHED } else { MISSING_CACHED }
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    fn get(&self, key: &K) -> Option<Option<V>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(key).filter(|entry| is_fresh(entry)).map(|(answer, _)| answer.clone())
    }

    /// Adds an answer. A full cache loses what is old and what the database did not have, so that
    /// names that a client invents do not displace those of users; and everything if that is not
    /// enough.
    fn insert(&self, key: K, answer: Option<V>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= NAMES_MAX {
            all.retain(|_, entry| entry.0.is_some() && is_fresh(entry));
        }
        if all.len() >= NAMES_MAX {
            all.clear();
        }
        all.insert(key, (answer, Instant::now()));
    }
}

#[cfg(test)]
mod tests;
