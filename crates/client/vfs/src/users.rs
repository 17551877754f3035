//! Who a call is made as. The caller of this layer has checked what the user may do; the user matters where something is
//! created, since it then belongs to somebody.

use braid_client::{Client, Identity};

use crate::error::Result;

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

/// Clients of users, over one session. None is kept: the client remembers who was met last (I9).
#[derive(Debug)]
pub(crate) struct Users {
    /// As the connection itself.
    own: Client,
    /// As root, whose rights were checked.
    root: Client,
    /// Whether the connection may speak for others. If not everything is done in its own name, and the metadata server
    /// checks it.
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

    /// For a call that creates something which is to be this user's.
    pub(crate) fn creator(&self, user: User) -> Result<Client> {
        self.client(user.checked())
    }

    /// For a call that nobody has checked yet.
    pub(crate) fn asker(&self, user: User) -> Result<Client> {
        self.client(user.unchecked())
    }

    fn client(&self, identity: Identity) -> Result<Client> {
        if self.vouches { Ok(self.own.with_identity(identity)?) } else { Ok(self.own.clone()) }
    }
}
