//! Limits on the connections of a listener (I9).
//!
//! ```text
//!   accepted ──> unauthenticated ── proved its key ──> authenticated ──> closed
//!                    │                             └─ over a limit: refused with a reason
//!                    └─ `unauthenticated_max` newer ones have arrived: closed
//! ```
//!
//! Invariants:
//! 1. A peer that has not proved a key takes no place from one that has. Unauthenticated
//!    connections have a limit of their own; when it is reached, the oldest is closed. So silence
//!    gains nothing.
//! 2. Clients leave some connections to servers and administrators, so that an I/O daemon that lost
//!    its metadata server can reconnect.
//! 3. No user and no session exceeds its share.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
    time::Instant,
};

use braid_types::{Failure, KeyId, SessionId, Status};
use braid_wire::{Credential, Role};

use super::listener::lock;
use crate::transport::Transport;

/// One of this many connections is reserved for servers and administrators.
const KEPT: usize = 16;
/// A user may have 1 of 2 connections (at an I/O daemon, with all its sessions together), a session
/// 1 of 4.
const SHARE_OF_USER: usize = 2;
const SHARE_OF_SESSION: usize = 4;

/// The connection limits of a listener.
pub(super) struct Places {
    places_max: usize,
    newcomers_max: usize,
    table: Mutex<Table>,
    left: Condvar,
}

#[derive(Default)]
struct Table {
    is_closed: bool,
    next: u64,
    /// By number, so the oldest comes first.
    newcomers: BTreeMap<u64, Weak<Transport>>,
    open: HashMap<u64, (Weak<Transport>, Owners)>,
    shares: HashMap<Owner, usize>,
    /// Connections that were shut down and whose threads have not ended yet.
    leaving: usize,
}

/// A user or session with a share of the connections.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Owner {
    User { key: KeyId, uid: u64 },
    Session(SessionId),
}

/// The one or two owners whose shares a connection counts in.
type Owners = [Option<Owner>; 2];

impl Owner {
    /// The owners of a connection. A client key belongs to a host, which acts for all its users, so
    /// it has no share.
    fn of(role: Role, credential: &Credential) -> Owners {
        let user = |key: &KeyId, uid: u64| Self::User { key: *key, uid };
        match (role, credential) {
            (Role::Client, Credential::Ticket(ticket)) => {
                [Some(user(&ticket.key, ticket.uid)), None]
            }
            (Role::Client, Credential::Session { session, key, user: uid, .. }) => {
                [Some(Self::Session(*session)), uid.map(|uid| user(key, uid))]
            }
            _ => [None, None],
        }
    }

    fn share(self, places_max: usize) -> usize {
        let part = match self {
            Self::User { .. } => SHARE_OF_USER,
            Self::Session(_) => SHARE_OF_SESSION,
        };
        places_max.div_ceil(part)
    }
}

impl Places {
    pub(super) fn new(places_max: usize, newcomers_max: usize) -> Self {
        Self { places_max, newcomers_max, table: Mutex::default(), left: Condvar::new() }
    }

    /// Present connections, including those in their handshake.
    pub(super) fn taken(&self) -> usize {
        lock(&self.table).taken()
    }

    /// Admits an unauthenticated connection. Waits while too many that were shut down have not
    /// ended. `None` when the listener stops.
    pub(super) fn newcomer(self: &Arc<Self>, transport: &Arc<Transport>) -> Option<Place> {
        let mut table = lock(&self.table);
        while table.leaving >= self.newcomers_max && !table.is_closed {
            table = self.left.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        if table.is_closed {
            return None;
        }
        if table.newcomers.len() >= self.newcomers_max
            && let Some((_, oldest)) = table.newcomers.pop_first()
        {
            table.leaving += 1;
            if let Some(transport) = oldest.upgrade() {
                transport.shutdown();
            }
        }
        table.next += 1;
        let number = table.next;
        table.newcomers.insert(number, Arc::downgrade(transport));
        debug_assert!(
            table.newcomers.len() <= self.newcomers_max.max(1),
            "invariant 1: unauthenticated connections exceed their own limit"
        );
        Some(Place { number, places: Arc::clone(self) })
    }

    /// Admits no more, and shuts down all connections. Returns whether all ended before `deadline`.
    pub(super) fn close(&self, deadline: Instant) -> bool {
        let mut table = lock(&self.table);
        table.is_closed = true;
        self.left.notify_all();
        let open = table.open.values().map(|(transport, _)| transport);
        open.chain(table.newcomers.values())
            .filter_map(Weak::upgrade)
            .for_each(|transport| transport.shutdown());
        while table.taken() > 0 {
            let time_left = deadline.saturating_duration_since(Instant::now());
            if time_left.is_zero() {
                return false;
            }
            table =
                self.left.wait_timeout(table, time_left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Table {
    fn taken(&self) -> usize {
        self.newcomers.len() + self.open.len() + self.leaving
    }

    fn has_room(&self, places_max: usize, role: Role, owners: Owners) -> Result<(), Failure> {
        let kept = if role == Role::Client { places_max / KEPT } else { 0 };
        if self.open.len() >= places_max - kept {
            let why = format!(
                "the server has {} connections, its limit; try: repeat it later",
                self.open.len()
            );
            return Err(Failure::new(Status::TooManyOpen, why));
        }
        for owner in owners.into_iter().flatten() {
            let (has, share) =
                (self.shares.get(&owner).copied().unwrap_or(0), owner.share(places_max));
            if has >= share {
                let whose = match owner {
                    Owner::User { .. } => "this user",
                    Owner::Session(_) => "this session",
                };
                let why = format!(
                    "{whose} has {has} connections here, its limit; try: close some of them"
                );
                return Err(Failure::new(Status::TooManyOpen, why));
            }
        }
        Ok(())
    }
}

/// The right of one connection to exist. Dropping it frees its place.
pub(super) struct Place {
    number: u64,
    places: Arc<Places>,
}

impl Place {
    /// Number of the connection, unique in the listener's lifetime.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The peer has proved its key: the connection counts as authenticated from now on.
    ///
    /// # Errors
    /// [`Status::TooManyOpen`]: a limit is reached.
    pub(super) fn prove(&self, role: Role, credential: &Credential) -> Result<(), Failure> {
        let mut table = lock(&self.places.table);
        let owners = Owner::of(role, credential);
        table.has_room(self.places.places_max, role, owners)?;
        let Some(transport) = table.newcomers.remove(&self.number) else {
            return Err(Failure::new(
                Status::TooManyOpen,
                "too many newer connections arrived during the handshake; try: repeat it later",
            ));
        };
        table.open.insert(self.number, (transport, owners));
        for owner in owners.into_iter().flatten() {
            let has = table.shares.entry(owner).or_default();
            *has += 1;
            debug_assert!(
                *has <= owner.share(self.places.places_max),
                "invariant 3: {owner:?} exceeds its share"
            );
        }
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = lock(&self.places.table);
        if let Some((_, owners)) = table.open.remove(&self.number) {
            for owner in owners.into_iter().flatten() {
                if let Some(has) = table.shares.get_mut(&owner) {
                    *has -= 1;
                    if *has == 0 {
                        table.shares.remove(&owner);
                    }
                }
            }
        } else if table.newcomers.remove(&self.number).is_none() {
            table.leaving -= 1;
        }
        drop(table);
        self.places.left.notify_all();
    }
}
