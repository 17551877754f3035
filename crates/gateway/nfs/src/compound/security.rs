//! Which operations return `WRONGSEC`. RFC 8881 2.6.3.1.

use braid_nfs_wire::nfs4::{NfsResult, NfsStatus, OpNumber};
use braid_share::Share;

use super::CompoundState;
use crate::export::Node;

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
        Node::File(file) if file.export.allows_security(state.caller.security) => Ok(()),
        Node::File(_) => Err(NfsStatus::WrongSec),
    }
}
