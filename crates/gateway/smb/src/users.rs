//! The users that may log on.

use std::fmt;

use braid_share::Identity;
use braid_smb_wire::auth::ntlm::NtHash;

/// A user that the server knows.
#[derive(Clone, Debug)]
pub struct User {
    /// The name as the server has it.
    pub name: String,
    /// What the user is to the file system.
    pub identity: Identity,
    /// Names of the user's groups, for shares that allow `@group`.
    pub groups: Vec<String>,
}

/// Why a name leads to no user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoUser {
    /// No user has the name. Where shares have guests, it is the name of a guest.
    Unknown,
    /// The user cannot log on, or nobody knows now whether there is one: the reason, for the log.
    /// Such a name is no guest's.
    Unusable(String),
}

/// The users of a server.
pub trait Users: fmt::Debug + Send + Sync + 'static {
    /// The hash of a user's password, MD4 of its UTF-16 (MS-NLMP 3.3.2), and the user. Names are
    /// equal without regard to case. Called on a thread that may block, before
    /// the client has proven that it knows the password.
    ///
    /// # Errors
    /// There is no such user.
    fn user(&self, name: &str) -> Result<(NtHash, User), NoUser>;

    /// What a guest is to the file system.
    fn guest(&self) -> User;
}
