//! Bytes that results need: in the reply (RFC 8881 2.10.6.4), and in memory.

use std::sync::Arc;

use braid_nfs_wire::nfs4::{ArgOp, NfsResult, NfsStatus, OpNumber};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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
        // A layout of one part. LAYOUTGET itself compares a longer one with the space that is left,
        // so that clients with small replies get the layouts that fit.
        LayoutGet => 256,
        // Owner of a conflicting lock.
        Lock => 1088,
        Close | Commit | Create | DelegReturn | Link | LockUnlock | OpenDowngrade | Remove
        | Rename | SetAttr | Write | LayoutCommit | LayoutReturn | Allocate | Copy | Deallocate
        | Clone | SetXattr | RemoveXattr | FreeStateId | ReclaimComplete | DestroySession
        | DestroyClientId | BindConnToSession | BackchannelCtl => 64,
        _ => return None,
    })
}

/// Results below this are not counted: the number of requests limits them.
const COUNTED_BYTES_MIN: usize = 4096;

/// Bytes of memory that the result of `op` needs for long, at most `space`.
fn result_bytes(op: &ArgOp, space: usize) -> usize {
    let wanted = match op {
        ArgOp::Read(args) | ArgOp::ReadPlus(args) => args.count,
        ArgOp::ReadDir(args) => args.max_count,
        _ => 0,
    };
    (wanted as usize).min(space)
}

/// Memory for the results of a compound, until the reply is sent. A client that reads no replies
/// holds at most what its connection may have.
#[derive(Debug, Default)]
pub struct ReplyMemory {
    permits: Vec<OwnedSemaphorePermit>,
}

impl ReplyMemory {
    /// Takes memory for the result of `op` from each of `limits`, whose permits are bytes. The
    /// first operation waits for it. Further ones hold some already, so they must not wait.
    ///
    /// # Errors
    /// `DELAY` if a further operation gets none.
    pub(super) async fn reserve(
        &mut self,
        op: &ArgOp,
        space: usize,
        limits: [&Arc<Semaphore>; 2],
    ) -> NfsResult<()> {
        let bytes = result_bytes(op, space);
        if bytes < COUNTED_BYTES_MIN {
            return Ok(());
        }
        let bytes = u32::try_from(bytes).map_err(|_| NfsStatus::TooSmall)?;
        let waits = self.permits.is_empty();
        for limit in limits {
            let limit = Arc::clone(limit);
            let permit = if waits {
                limit.acquire_many_owned(bytes).await.ok()
            } else {
                limit.try_acquire_many_owned(bytes).ok()
            };
            self.permits.push(permit.ok_or(NfsStatus::Delay)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
