//! A connection: its peer, and what the peer may ask.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use braid_meta::Identity;
use braid_net::server::Peer;
use braid_types::{Failure, FileIndex, IodId, KeyId, SessionId, Status};
use braid_wire::{Credential, Role, message::mds::KeyRights};

use crate::session::Owner;

/// Identities that one connection may define (I9): the users of a host.
pub const IDENTITIES_MAX: usize = 4096;
/// Supplementary groups of one identity. Linux `NGROUPS_MAX`.
pub const GROUPS_MAX: usize = 65_536;
/// Supplementary groups of all identities of one connection (I9), 2 MiB: 64 for each user of a
/// host, or a few of the largest.
pub const GROUPS_ALL_MAX: usize = 4 * GROUPS_MAX;

/// Files with several names that one connection is known to have reached (I9). With more, all are
/// forgotten.
const REACHED_MAX: usize = 4096;

/// A connection.
#[derive(Debug)]
pub struct Connection {
    pub(crate) peer: Peer,
    pub(crate) owner: Owner,
    pub(crate) rights: KeyRights,
    /// The directory at which its absolute paths start: the subtree of its key.
    pub(crate) root: FileIndex,
    own_identity: Arc<Identity>,
    vouches: bool,
    /// Shared with [`RegisteredConnection`].
    revoked: Arc<AtomicBool>,
    session: OnceLock<Arc<SessionActivity>>,
    state: Mutex<ConnectionState>,
}

/// What the server stores of every connection, so that the revocation of a key finds it, also where
/// the connection has no session.
#[derive(Debug)]
pub(crate) struct RegisteredConnection {
    key: KeyId,
    revoked: Arc<AtomicBool>,
}

impl RegisteredConnection {
    /// Revokes the connection if it proved this key.
    pub(crate) fn revoke(&self, key: KeyId) {
        if self.key == key {
            self.revoked.store(true, Ordering::Release);
        }
    }
}

#[derive(Debug, Default)]
struct ConnectionState {
    identities: HashMap<u32, Arc<Identity>>,
    /// The number of groups of all of them.
    groups: usize,
    iod: Option<IodId>,
    /// Files with several names that were reached by a path: an inode records only one of its
    /// directories.
    reached_files: HashSet<FileIndex>,
}

/// The part of a session that every call reads without the server's lock.
#[derive(Debug)]
pub(crate) struct SessionActivity {
    pub(crate) session: SessionId,
    heard_ms: AtomicU64,
    ended: AtomicBool,
    /// Connections that belong to the session and are not known to have ended.
    connections: AtomicU32,
}

impl SessionActivity {
    pub(crate) fn new(session: SessionId, now: Duration) -> Self {
        Self {
            session,
            heard_ms: AtomicU64::new(now.as_millis() as u64),
            ended: AtomicBool::new(false),
            connections: AtomicU32::new(0),
        }
    }

    /// Whether a connection belongs to the session.
    pub(crate) fn is_connected(&self) -> bool {
        self.connections.load(Ordering::Acquire) > 0
    }

    pub(crate) fn note_activity(&self, now: Duration) {
        self.heard_ms.store(now.as_millis() as u64, Ordering::Relaxed);
    }

    /// When the last message of its peer arrived.
    pub(crate) fn last_active(&self, now: Duration) -> Duration {
        now.saturating_sub(Duration::from_millis(self.idle_ms(now)))
    }

    pub(crate) fn idle_ms(&self, now: Duration) -> u64 {
        (now.as_millis() as u64).saturating_sub(self.heard_ms.load(Ordering::Relaxed))
    }

    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }
}

impl Connection {
    /// A connection of a peer whose key has `rights` and reaches what lies below `root`.
    pub(crate) fn new(peer: Peer, rights: KeyRights, root: FileIndex) -> Self {
        let (owner, user) = match &peer.credential {
            Credential::Client(key) => (Owner { key: *key, user: None }, None),
            Credential::Ticket(t) => {
                let user = Identity {
                    uid: t.uid,
                    gid: t.gid,
                    groups: t.groups.clone(),
                    permissions_checked: false,
                };
                (Owner { key: t.key, user: Some(t.uid) }, Some(user))
            }
            _ => (Owner { key: KeyId(0), user: None }, None),
        };
        // The holder of a ticket is the user of the ticket, whatever its messages say.
        let vouches = user.is_none() && matches!(peer.role, Role::Client | Role::Admin);
        let own = Arc::new(squashed(user.unwrap_or_else(Identity::root), &rights));
        let (revoked, session, state) = (Arc::default(), OnceLock::new(), Mutex::default());
        Self { peer, owner, rights, root, own_identity: own, vouches, revoked, session, state }
    }

    pub(crate) fn identity(&self, number: u32) -> Result<Arc<Identity>, Failure> {
        if number == 0 {
            return Ok(self.own_identity.clone());
        }
        self.check_vouches()?;
        let known = self.state().identities.get(&number).cloned();
        known.ok_or_else(|| {
            Failure::new(
                Status::Invalid,
                format!("identity {number} was not defined on this connection"),
            )
        })
    }

    pub(crate) fn define(&self, number: u32, identity: Identity) -> Result<(), Failure> {
        self.check_vouches()?;
        if number == 0 || identity.groups.len() > GROUPS_MAX {
            return Err(Failure::new(
                Status::Invalid,
                "identity numbers begin at 1, and the number of groups is limited",
            ));
        }
        let identity = Arc::new(squashed(identity, &self.rights));
        let mut state = self.state();
        if state.identities.len() >= IDENTITIES_MAX && !state.identities.contains_key(&number) {
            return Err(Failure::new(
                Status::LimitExceeded,
                format!("at most {IDENTITIES_MAX} identities"),
            ));
        }
        let before = state.identities.get(&number).map_or(0, |known| known.groups.len());
        let groups = state.groups - before + identity.groups.len();
        if groups > GROUPS_ALL_MAX {
            let why =
                format!("at most {GROUPS_ALL_MAX} groups of all identities of one connection");
            return Err(Failure::new(Status::LimitExceeded, why));
        }
        state.groups = groups;
        state.identities.insert(number, identity);
        Ok(())
    }

    pub(crate) fn vouches(&self) -> bool {
        self.vouches
    }

    fn check_vouches(&self) -> Result<(), Failure> {
        if self.vouches {
            return Ok(());
        }
        Err(Failure::new(Status::NotPermitted, "only a client key can name other users"))
    }

    /// Binds the connection to a session; once.
    pub(crate) fn bind(&self, activity: Arc<SessionActivity>) -> Result<(), Failure> {
        if self.session.set(activity.clone()).is_ok() {
            activity.connections.fetch_add(1, Ordering::AcqRel);
            return Ok(());
        }
        let again = self.session.get().is_some_and(|known| known.session == activity.session);
        if again { Ok(()) } else { Err(already_in_session()) }
    }

    /// The connection has ended. Called once.
    pub(crate) fn disconnected(&self) {
        if let Some(activity) = self.session.get() {
            activity.connections.fetch_sub(1, Ordering::AcqRel);
        }
    }

    pub(crate) fn check_unbound(&self) -> Result<(), Failure> {
        if self.session.get().is_none() { Ok(()) } else { Err(already_in_session()) }
    }

    /// The session, which must be live. Notes that it was active `now`.
    pub(crate) fn session(&self, now: Duration) -> Result<SessionId, Failure> {
        let activity = self
            .session
            .get()
            .ok_or_else(|| Failure::new(Status::NoSession, "open a session first"))?;
        if activity.ended.load(Ordering::Acquire) {
            return Err(Failure::new(
                Status::NoSession,
                format!("session {} has ended", activity.session),
            ));
        }
        activity.note_activity(now);
        Ok(activity.session)
    }

    /// The session that it belongs to, live or not.
    pub(crate) fn session_id(&self) -> Option<SessionId> {
        self.session.get().map(|activity| activity.session)
    }

    pub(crate) fn check_role(&self, wanted: &[Role]) -> Result<(), Failure> {
        self.check_key()?;
        if wanted.contains(&self.peer.role) {
            return Ok(());
        }
        Err(Failure::new(
            Status::WrongRole,
            format!("the connection has the role {:?}", self.peer.role),
        ))
    }

    /// Checks that the key was not revoked since the connection began. Under the server's lock that
    /// stays true until the lock is released.
    pub(crate) fn check_key(&self) -> Result<(), Failure> {
        if self.revoked.load(Ordering::Acquire) {
            return Err(Failure::new(Status::AuthenticationFailed, "the key was revoked"));
        }
        Ok(())
    }

    pub(crate) fn registered(&self) -> RegisteredConnection {
        RegisteredConnection { key: self.owner.key, revoked: self.revoked.clone() }
    }

    pub(crate) fn note_reached(&self, file: FileIndex) {
        let reached = &mut self.state().reached_files;
        if reached.len() >= REACHED_MAX {
            reached.clear();
        }
        reached.insert(file);
    }

    pub(crate) fn has_reached(&self, file: FileIndex) -> bool {
        self.state().reached_files.contains(&file)
    }

    pub(crate) fn registered_iod(&self) -> Option<IodId> {
        self.state().iod
    }

    pub(crate) fn set_registered_iod(&self, iod: IodId) {
        self.state().iod = Some(iod);
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(braid_types::poisoned)
    }
}

fn already_in_session() -> Failure {
    Failure::new(Status::Invalid, "the connection already belongs to a session")
}

/// A squashing key maps all users, root too, to one user, whose permissions the server checks.
fn squashed(identity: Identity, rights: &KeyRights) -> Identity {
    match rights.squash {
        Some((uid, gid)) => Identity { uid, gid, groups: Vec::new(), permissions_checked: false },
        None => identity,
    }
}
