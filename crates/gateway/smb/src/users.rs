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

/// The users of a server.
pub trait Users: fmt::Debug + Send + Sync + 'static {
    /// The hash of a user's password, MD4 of its UTF-16 (MS-NLMP 3.3.2), and the user. Names are
    /// equal without regard to case. Called on a thread that may block, before
    /// the client has proven that it knows the password.
    fn user(&self, name: &str) -> Option<(NtHash, User)>;

    /// What a guest is to the file system.
    fn guest(&self) -> User;
}
