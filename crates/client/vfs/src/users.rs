//! Who a call is made as. The caller of this layer has checked what the user may do; the user matters where something is
//! created, since it then belongs to somebody.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use braid_client::{Client, Identity, Status};

use crate::error::{Error, Result};

/// Users of one mount that it has met. The metadata server remembers at most 4,096 identities of a connection (I9).
const USERS_MAX: usize = 4_000;

/// Who a new file belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct User {
    /// Owner.
    pub uid: u64,
    /// Group.
    pub gid: u64,
}

impl User {
    /// The superuser.
    pub const ROOT: Self = Self { uid: 0, gid: 0 };

    /// What the metadata server is told: the caller has checked what the user may do.
    fn checked(self) -> Identity {
        Identity { checked: true, ..self.unchecked() }
    }

    /// The user without its supplementary groups: what it may do is for the metadata server to say.
    fn unchecked(self) -> Identity {
        Identity { uid: self.uid, gid: self.gid, groups: Vec::new(), checked: false }
    }
}

/// Clients of the users met, over one session.
#[derive(Debug)]
pub(crate) struct Users {
    /// As the connection itself.
    own: Client,
    /// As root, whose rights were checked.
    root: Client,
    /// Whether the connection may speak for others. If not everything is done in its own name, and the metadata server
    /// checks it.
    vouches: bool,
    checked: RwLock<HashMap<User, Client>>,
    unchecked: RwLock<HashMap<User, Client>>,
}

impl Users {
    pub(crate) fn new(own: Client) -> Result<Self> {
        let vouches = own.vouches()?;
        let root = if vouches { own.with_identity(User::ROOT.checked())? } else { own.clone() };
        Ok(Self { own, root, vouches, checked: RwLock::default(), unchecked: RwLock::default() })
    }

    /// For calls that create nothing.
    pub(crate) fn root(&self) -> &Client {
        &self.root
    }

    /// For a call that creates something which is to be this user's.
    pub(crate) fn creator(&self, user: User) -> Result<Client> {
        self.client(&self.checked, user, User::checked)
    }

    /// For a call that nobody has checked yet.
    pub(crate) fn asker(&self, user: User) -> Result<Client> {
        self.client(&self.unchecked, user, User::unchecked)
    }

    fn client(
        &self,
        known: &RwLock<HashMap<User, Client>>,
        user: User,
        identity: fn(User) -> Identity,
    ) -> Result<Client> {
        if !self.vouches {
            return Ok(self.own.clone());
        }
        if let Some(client) = known.read().unwrap_or_else(PoisonError::into_inner).get(&user) {
            return Ok(client.clone());
        }
        let client = self.own.with_identity(identity(user))?;
        let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= USERS_MAX / 2 && !known.contains_key(&user) {
            return Err(Error::of(Status::LimitExceeded));
        }
        Ok(known.entry(user).or_insert(client).clone())
    }
}
