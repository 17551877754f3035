//! Clients, sessions and connections. RFC 8881 18.33 to 18.37, 18.50, 18.51.

mod connection;
mod create;
mod destroy;
mod exchange;

pub use connection::{backchannel_ctl, bind_conn_to_session};
pub use create::create_session;
pub use destroy::{destroy_client_id, destroy_session, reclaim_complete};
pub use exchange::exchange_id;

use braid_nfs_wire::nfs4::{NfsResult, NfsStatus, OpNumber};
use braid_share::Share;

use crate::rpc::Caller;
use crate::server::Client;
use crate::state::clients::Protection;

/// RFC 8881 2.10.8.3: with `SP4_MACH_CRED`, operations that the client named need its machine
/// credential, protected against changes.
fn check_protection<S: Share>(client: &Client<S>, caller: &Caller, op: OpNumber) -> NfsResult<()> {
    let Protection::MachineCredential { enforced, .. } = client.protection() else {
        return Ok(());
    };
    if !enforced.has(op.code())
        || (caller.has_integrity() && caller.principal == *client.principal())
    {
        return Ok(());
    }
    Err(NfsStatus::WrongCred)
}
