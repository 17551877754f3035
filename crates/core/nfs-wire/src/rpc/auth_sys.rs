//! `AUTH_SYS` (RFC 5531 appendix A): the user and groups that the client states, without a proof.

#[cfg(test)]
mod tests;

use bytes::Bytes;

use super::auth::{AUTH_SYS, AuthStatus, OpaqueAuth};
use crate::xdr::{Xdr, xdr_struct};

/// Longest name of a client. RFC 5531 appendix A.
pub const MACHINE_NAME_BYTES_MAX: usize = 255;

/// Most groups besides the first. RFC 5531 appendix A. A user with more groups has the others only
/// if the server looks them up.
pub const GROUPS_MAX: usize = 16;

xdr_struct! {
    /// The body of an `AUTH_SYS` credential. RFC 5531 appendix A: `authsys_parms`.
    pub struct AuthSys {
        /// Any number; Linux sends 0.
        pub stamp: u32,
        /// The client's host name, of any bytes.
        pub machine_name: Bytes [MACHINE_NAME_BYTES_MAX],
        /// The user.
        pub uid: u32,
        /// The user's first group.
        pub gid: u32,
        /// The user's other groups.
        pub gids: Vec<u32> [GROUPS_MAX],
    }
}

impl AuthSys {
    /// The user of a credential.
    ///
    /// # Errors
    /// [`AuthStatus::BadCredential`] for another flavour, a malformed body, or bytes after it.
    pub fn from_credential(credential: &OpaqueAuth) -> Result<Self, AuthStatus> {
        if credential.flavor != AUTH_SYS {
            return Err(AuthStatus::BadCredential);
        }
        Self::from_bytes(credential.body.clone()).map_err(|_| AuthStatus::BadCredential)
    }

    /// The credential for a call in this user's name.
    pub fn to_credential(&self) -> OpaqueAuth {
        OpaqueAuth { flavor: AUTH_SYS, body: self.to_bytes().into() }
    }
}
