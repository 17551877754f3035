//! The user in whose name a call is made. The caller of this crate has checked what the user may
//! do. The user matters where something is created, which then belongs to the user.

use braid_client::{Client, Identity};

use crate::error::Result;

/// The owner of a new file.
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

    /// An identity for the metadata server: the caller has checked what the user may do.
    fn checked(self) -> Identity {
        Identity { checked: true, ..self.unchecked() }
    }

    /// An identity without supplementary groups: the metadata server checks what the user may do.
    fn unchecked(self) -> Identity {
        Identity { uid: self.uid, gid: self.gid, groups: Vec::new(), checked: false }
    }
}

/// Clients of users, over one session. They are not stored here: the client library caches recently
/// used identities (I9).
#[derive(Debug)]
pub(crate) struct Users {
    /// In the name of the connection itself.
    own: Client,
    /// In the name of root, whose rights were checked.
    root: Client,
    /// Whether the connection may act for other users. If not, everything is done in its own name,
    /// and the metadata server checks it.
    vouches: bool,
}

impl Users {
    pub(crate) fn new(own: Client) -> Result<Self> {
        let vouches = own.vouches()?;
        let root = if vouches { own.with_identity(User::ROOT.checked())? } else { own.clone() };
        Ok(Self { own, root, vouches })
    }

    /// For calls that create nothing.
    pub(crate) fn root(&self) -> &Client {
        &self.root
    }

    /// For a call that creates something that belongs to this user.
    pub(crate) fn creator(&self, user: User) -> Result<Client> {
        self.client(user.checked())
    }

    /// For a call whose rights are not checked yet.
    pub(crate) fn asker(&self, user: User) -> Result<Client> {
        self.client(user.unchecked())
    }

    fn client(&self, identity: Identity) -> Result<Client> {
        if self.vouches { Ok(self.own.with_identity(identity)?) } else { Ok(self.own.clone()) }
    }
}
