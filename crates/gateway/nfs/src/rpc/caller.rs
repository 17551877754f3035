//! The user that a call acts for.

use std::net::IpAddr;

use braid_nfs_wire::rpc::auth::{AUTH_NONE, AUTH_SYS, AuthStatus};
use braid_nfs_wire::rpc::auth_sys::AuthSys;
use braid_nfs_wire::rpc::message::CallHeader;
use braid_share::Identity;
use bytes::Bytes;

use super::kerberos::{AuthenticatedCall, security_of};
use crate::config::{ANONYMOUS_ID, Security};
use crate::state::Principal;

/// The user that sent a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The address of the connection.
    pub address: IpAddr,
    /// The owner of state.
    pub principal: Principal,
    /// The flavour; `None` is AUTH_NONE.
    pub security: Option<Security>,
    /// User and groups, before squash.
    pub identity: Identity,
}

impl Caller {
    /// The caller of a call.
    ///
    /// # Errors
    /// The status with which the call is denied: `BadCredential` for a credential that is malformed
    /// or of a flavour that this server does not have.
    pub fn authenticate(call: &CallHeader, address: IpAddr) -> Result<Self, AuthStatus> {
        match call.credential.flavor {
            AUTH_NONE => Ok(Self {
                address,
                principal: Principal::Nobody,
                security: None,
                identity: identity(ANONYMOUS_ID, ANONYMOUS_ID, &[]),
            }),
            AUTH_SYS => {
                let user = AuthSys::from_credential(&call.credential)?;
                Ok(Self {
                    address,
                    principal: Principal::Unix { uid: user.uid },
                    security: Some(Security::Sys),
                    identity: identity(user.uid, user.gid, &user.gids),
                })
            }
            _ => Err(AuthStatus::BadCredential),
        }
    }

    /// The caller of a call with RPCSEC_GSS, and the identity of its principal.
    pub(super) fn with_kerberos(
        call: &dyn AuthenticatedCall,
        identity: Identity,
        address: IpAddr,
    ) -> Self {
        let name = Bytes::copy_from_slice(call.principal().as_bytes());
        Self {
            address,
            principal: Principal::Gss { name },
            security: Some(security_of(call.service())),
            identity,
        }
    }

    /// Whether the message was protected against changes: krb5i and krb5p.
    pub fn has_integrity(&self) -> bool {
        matches!(self.security, Some(Security::Krb5i | Security::Krb5p))
    }
}

fn identity(uid: u32, gid: u32, groups: &[u32]) -> Identity {
    Identity {
        uid: uid.into(),
        gid: gid.into(),
        groups: groups.iter().map(|group| u64::from(*group)).collect(),
        checked: false,
    }
}
