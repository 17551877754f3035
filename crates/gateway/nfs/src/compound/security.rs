//! Which operations return `WRONGSEC`. RFC 8881 2.6.3.1.

use braid_nfs_wire::nfs4::{NfsResult, NfsStatus, OpNumber};
use braid_share::Share;

use super::CompoundState;
use crate::config::Security;
use crate::export::{Export, Node};

/// Whether `op` sets the current file handle without following a name.
fn puts_handle(op: OpNumber) -> bool {
    use OpNumber::*;
    matches!(op, PutFh | PutRootFh | PutPubFh | RestoreFh)
}

/// Whether `op` itself checks the flavour of what it arrives at, or returns the flavours. After
/// such an operation follows a file handle operation must not fail.
fn checks_itself(op: OpNumber) -> bool {
    use OpNumber::*;
    puts_handle(op) || matches!(op, SaveFh | Lookup | LookupParent | Open | SecInfo | SecInfoNoName)
}

/// Checks the caller's flavour against the current file's export after `op` succeeded.
pub(super) fn check<S: Share>(state: &CompoundState<'_, S>, op: OpNumber) -> NfsResult<()> {
    use OpNumber::*;
    let concerned = if puts_handle(op) {
        // RFC 8881 2.6.3.1.1.7: nothing follows, so nothing is accessed.
        !state.is_last_op() && !state.next_op.is_some_and(checks_itself)
    } else {
        matches!(op, Lookup | LookupParent | Open)
    };
    if !concerned {
        return Ok(());
    }
    match state.current()? {
        Node::Pseudo(_) => Ok(()),
        Node::File(file) => check_export(state, &file.export),
    }
}

/// Checks flavour and connection of the caller. The operator sees the first refusal of each
/// connection. Clients also meet one while they look for the flavour of an export.
fn check_export<S: Share>(state: &CompoundState<'_, S>, export: &Export) -> NfsResult<()> {
    let (security, transport) = (state.caller.security, state.connection.transport());
    let config = export.config();
    let (peer, path) = (state.connection.peer(), &config.path);
    if !export.allows_security(security) {
        if state.connection.is_first_mistake() {
            let used = security.map_or("none", Security::keyword);
            let named: Vec<_> = config.security.iter().map(|flavour| flavour.keyword()).collect();
            let named = named.join(":");
            tracing::info!(%peer, "export {path}: a client used sec={used}; it has sec={named}");
        }
        return Err(NfsStatus::WrongSec);
    }
    if !export.allows_transport(transport) {
        if state.connection.is_first_mistake() {
            let used = transport.keyword();
            let named: Vec<_> = config.transports.iter().map(|mode| mode.keyword()).collect();
            let named = named.join(":");
            tracing::info!(
                %peer,
                "export {path}: a client used xprtsec={used}; it has xprtsec={named}"
            );
        }
        // As Linux's server answers; RFC 8881 has no status of its own for it.
        return Err(NfsStatus::WrongSec);
    }
    Ok(())
}
