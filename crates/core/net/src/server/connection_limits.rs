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
//!
//! Assertions check 1 and 3. `check_limits` refuses clients that would break 2.

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
const RESERVED_DIVISOR: usize = 16;
/// A user may have 1 of 2 connections (at an I/O daemon, with all its sessions together), a session
/// 1 of 4.
const SHARE_OF_USER: usize = 2;
const SHARE_OF_SESSION: usize = 4;

/// The connection limits of a listener.
pub(super) struct ConnectionLimits {
    connections_max: usize,
    unauthenticated_max: usize,
    table: Mutex<ConnectionTable>,
    left: Condvar,
}

#[derive(Default)]
struct ConnectionTable {
    is_closed: bool,
    next: u64,
    /// By number, so the oldest comes first.
    unauthenticated: BTreeMap<u64, Weak<Transport>>,
    authenticated: HashMap<u64, (Weak<Transport>, Owners)>,
    shares: HashMap<ShareOwner, usize>,
    /// Connections that were shut down and whose threads have not ended yet.
    closing: usize,
}

/// A user or session with a share of the connections.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum ShareOwner {
    User { key: KeyId, uid: u64 },
    Session(SessionId),
}

/// The one or two owners whose shares a connection counts in.
type Owners = [Option<ShareOwner>; 2];

impl ShareOwner {
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

    fn share(self, connections_max: usize) -> usize {
        let part = match self {
            Self::User { .. } => SHARE_OF_USER,
            Self::Session(_) => SHARE_OF_SESSION,
        };
        connections_max.div_ceil(part)
    }
}

impl ConnectionLimits {
    pub(super) fn new(connections_max: usize, unauthenticated_max: usize) -> Self {
        Self { connections_max, unauthenticated_max, table: Mutex::default(), left: Condvar::new() }
    }

    /// Present connections, including those in their handshake.
    pub(super) fn connection_count(&self) -> usize {
        lock(&self.table).taken()
    }

    /// Admits an unauthenticated connection. Waits while too many that were shut down have not
    /// ended. `None` when the listener stops.
    pub(super) fn admit(self: &Arc<Self>, transport: &Arc<Transport>) -> Option<ConnectionPermit> {
        let mut table = lock(&self.table);
        while table.closing >= self.unauthenticated_max && !table.is_closed {
            table = self.left.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        if table.is_closed {
            return None;
        }
        if table.unauthenticated.len() >= self.unauthenticated_max
            && let Some((_, oldest)) = table.unauthenticated.pop_first()
        {
            table.closing += 1;
            if let Some(transport) = oldest.upgrade() {
                transport.shutdown();
            }
        }
        table.next += 1;
        let number = table.next;
        table.unauthenticated.insert(number, Arc::downgrade(transport));
        debug_assert!(
            table.unauthenticated.len() <= self.unauthenticated_max.max(1),
            "invariant 1: unauthenticated connections exceed their own limit"
        );
        Some(ConnectionPermit { number, limits: Arc::clone(self) })
    }

    /// Admits no more, and shuts down all connections. Returns whether all ended before `deadline`.
    pub(super) fn close(&self, deadline: Instant) -> bool {
        let mut table = lock(&self.table);
        table.is_closed = true;
        self.left.notify_all();
        let open = table.authenticated.values().map(|(transport, _)| transport);
        open.chain(table.unauthenticated.values())
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

impl ConnectionTable {
    fn taken(&self) -> usize {
        self.unauthenticated.len() + self.authenticated.len() + self.closing
    }

    fn check_limits(
        &self,
        connections_max: usize,
        role: Role,
        owners: Owners,
    ) -> Result<(), Failure> {
        let reserved = if role == Role::Client { connections_max / RESERVED_DIVISOR } else { 0 };
        if self.authenticated.len() >= connections_max - reserved {
            let why = format!(
                "the server has {} connections, its limit; try: repeat it later",
                self.authenticated.len()
            );
            return Err(Failure::new(Status::TooManyOpen, why));
        }
        for owner in owners.into_iter().flatten() {
            let (has, share) =
                (self.shares.get(&owner).copied().unwrap_or(0), owner.share(connections_max));
            if has >= share {
                let whose = match owner {
                    ShareOwner::User { .. } => "this user",
                    ShareOwner::Session(_) => "this session",
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
pub(super) struct ConnectionPermit {
    number: u64,
    limits: Arc<ConnectionLimits>,
}

impl ConnectionPermit {
    /// Number of the connection, unique in the listener's lifetime.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The peer has proved its key: the connection counts as authenticated from now on.
    ///
    /// # Errors
    /// [`Status::TooManyOpen`]: a limit is reached.
    pub(super) fn authenticate(&self, role: Role, credential: &Credential) -> Result<(), Failure> {
        let mut table = lock(&self.limits.table);
        let owners = ShareOwner::of(role, credential);
        table.check_limits(self.limits.connections_max, role, owners)?;
        let Some(transport) = table.unauthenticated.remove(&self.number) else {
            return Err(Failure::new(
                Status::TooManyOpen,
                "too many newer connections arrived during the handshake; try: repeat it later",
            ));
        };
        table.authenticated.insert(self.number, (transport, owners));
        for owner in owners.into_iter().flatten() {
            let has = table.shares.entry(owner).or_default();
            *has += 1;
            debug_assert!(
                *has <= owner.share(self.limits.connections_max),
                "invariant 3: {owner:?} exceeds its share"
            );
        }
        Ok(())
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut table = lock(&self.limits.table);
        if let Some((_, owners)) = table.authenticated.remove(&self.number) {
            for owner in owners.into_iter().flatten() {
                if let Some(has) = table.shares.get_mut(&owner) {
                    *has -= 1;
                    if *has == 0 {
                        table.shares.remove(&owner);
                    }
                }
            }
        } else if table.unauthenticated.remove(&self.number).is_none() {
            table.closing -= 1;
        }
        drop(table);
        self.limits.left.notify_all();
    }
}
