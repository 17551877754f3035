//! Bytes that results need. RFC 8881 2.10.6.4.

use braid_nfs_wire::nfs4::OpNumber;

/// Number and status of an operation that failed.
pub const FAILURE_BYTES: usize = 8;

/// Longest result of an operation that changes something, so that it does not begin if the reply
/// might be too big; `None` for operations that change nothing.
pub fn longest_result(op: OpNumber) -> Option<usize> {
    use OpNumber::*;
    Some(match op {
        // State id, change of the directory, flags, attributes set, a delegation with one ACE.
        Open => 320,
        // Limits of two channels.
        CreateSession => 128,
        // Names of the server and the implementation.
        ExchangeId => 1536,
        // A layout with its file handle; LAYOUTGET itself compares with `loga_maxcount`.
        LayoutGet => 512,
        // Owner of a conflicting lock.
        Lock => 1088,
        Close | Commit | Create | DelegReturn | Link | LockUnlock | OpenDowngrade | Remove
        | Rename | SetAttr | Write | LayoutCommit | LayoutReturn | Allocate | Copy | Deallocate
        | Clone | SetXattr | RemoveXattr | FreeStateId | ReclaimComplete | DestroySession
        | DestroyClientId | BindConnToSession | BackchannelCtl => 64,
        _ => return None,
    })
}
