//! The keys that an I/O daemon accepts: a session's key from the metadata server, or the server
//! key.

use braid_net::server::Authorizer;
use braid_types::{Failure, Status};
use braid_wire::{Credential, Role, Secret};

#[derive(Debug)]
pub(super) struct Keys {
    server_key: Secret,
}

impl Keys {
    pub(super) fn new(server_key: Secret) -> Self {
        Self { server_key }
    }
}

impl Authorizer for Keys {
    fn secret(&self, role: Role, credential: &Credential) -> Result<Secret, Failure> {
        match (role, credential) {
            (Role::Client, Credential::Session { .. })
            | (Role::Mds | Role::Admin, Credential::Server) => {
                Ok(credential.secret(&self.server_key))
            }
            (Role::Client, _) => Err(Failure::new(
                Status::AuthenticationFailed,
                "a client must prove its session to an I/O daemon",
            )),
            _ => {
                Err(Failure::new(Status::AuthenticationFailed, "this key does not have this role"))
            }
        }
    }
}
