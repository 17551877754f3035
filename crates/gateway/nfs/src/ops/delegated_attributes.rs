//! Attributes of a file whose write delegation another client of this gateway holds: the holder is
//! asked with CB_GETATTR, and keeps the delegation. RFC 8881 10.4.3 and 20.1.
//!
//! ```text
//!   GETATTR ─> holder: CB_GETATTR ─> change is that of the grant ─> attributes of the server
//!                 │                └─ change is higher ─> server's mtime is set to now, which
//!                 │                                       raises change; size of the holder
//!                 └─ no usable answer in `answer_limit` ─> as without: recalled by the call
//! ```
//!
//! Invariants:
//! 1. Change numbers come from the metadata server only. So they never fall, at any gateway or
//!    mount, whatever the holder says: also when it loses what it has buffered.
//! 2. An answer is used only if the holder has the delegation after the server's attributes were
//!    read. So nobody else has changed the file since the question.
//! 3. A wait for the holder is bounded (`ANSWER_MAX`), and a holder that fails once is not asked
//!    again. The recall that follows has its own bound.

use std::sync::Arc;
use std::time::Duration;

use braid_nfs_wire::nfs4::NfsStatus;
use braid_nfs_wire::nfs4::callback::{
    CallbackArgOp, CallbackGetAttrArgs, CallbackResOp, HOLDER_ATTRIBUTES, HolderAttributes,
};
use braid_share::{
    AttributeChanges, Attributes, ByteCount, FILE_BYTES_MAX, FileIndex, SetTime, Share, ShareClient,
};
use tokio::time::{Instant, sleep, timeout_at};

use crate::compound::CompoundState;
use crate::export::{Node, ROOT};
use crate::ops::filehandle::handle_of;
use crate::ops::stateid::FileOf;
use crate::server::{Client, NfsServer};
use crate::state::opens::DelegationState;

/// Longest wait for the answers of a holder. With the recall that follows, others wait for 23 s at
/// most (I8).
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Pause before a holder is asked again that may not know its delegation yet, or answers DELAY.
const REPEAT_PAUSE: Duration = Duration::from_millis(50);

/// How long a holder may take. With the recall that follows, which takes 2/3 of the lease, the
/// client that waits keeps its own lease.
fn answer_limit(lease: Duration) -> Duration {
    ANSWER_MAX.min(lease / 6)
}

/// The attributes of a file by the holder of its write delegation. `None`: no other client of this
/// gateway holds one, or it gives no usable answer. The caller asks the share, which recalls the
/// delegation.
pub async fn of_holder<S: Share>(
    state: &CompoundState<'_, S>,
    file: FileIndex,
) -> Option<Attributes> {
    let server = state.server;
    let (holder, delegation) = server.write_delegations().of_file(file)?;
    let granted_change = delegation.granted_change()?;
    if state.client().is_ok_and(|client| client.id() == holder) {
        return None;
    }
    let client = server.clients().client(holder).cloned()?;
    // RFC 8881 8.4.2.4: the state of a client whose lease has passed gives way immediately.
    let is_expired = client.is_expired(server.now(), server.config.lease);
    if is_expired || delegation.is_recalled() || delegation.has_ended() {
        return None;
    }
    let until = Instant::now() + answer_limit(server.config.lease);
    let ask = ask(server, &client, &delegation, granted_change);
    match timeout_at(until, delegation.answers.after_now(ask)).await {
        // Invariant 2.
        Ok(Some(found)) if !delegation.has_ended() => Some(found),
        Ok(Some(_)) => None,
        Ok(None) | Err(_) => {
            // Invariant 3.
            delegation.answers.set_failed();
            tracing::debug!(client = holder.0, "no usable answer to CB_GETATTR");
            None
        }
    }
}

/// The attributes of a delegated file by the answer of its holder.
async fn ask<S: Share>(
    server: &Arc<NfsServer<S>>,
    client: &Arc<Client<S>>,
    delegation: &DelegationState<FileOf<S>>,
    granted_change: u64,
) -> Option<Attributes> {
    let file = delegation.file.file;
    let answer = holder_attributes(server, client, delegation).await?;
    // RFC 8881 10.4.3: the change number of a client never falls below that of the grant.
    if answer.change < granted_change || answer.size > FILE_BYTES_MAX {
        return None;
    }
    // By the session of the holder, for which its own delegation need not be recalled. Nobody
    // needs a permission to see attributes.
    let share = &client.data()?.share;
    if answer.change == granted_change {
        return share.attributes(&ROOT, file).await.ok();
    }
    // RFC 8881 10.4.3: the file is modified at the holder. The server constructs new times and a
    // new change number, and records them, so that they do not seem to go backward.
    let mtime = Some(SetTime { time: None });
    let changes = AttributeChanges { mtime, ..AttributeChanges::none() };
    let recorded = share.set_attributes(&ROOT, file, changes).await.ok()?;
    Some(Attributes { bytes: ByteCount(answer.size), ..recorded })
}

/// CB_GETATTR.
async fn holder_attributes<S: Share>(
    server: &Arc<NfsServer<S>>,
    client: &Arc<Client<S>>,
    delegation: &DelegationState<FileOf<S>>,
) -> Option<HolderAttributes> {
    let op = CallbackArgOp::GetAttr(CallbackGetAttrArgs {
        handle: handle_of(server, &Node::File(delegation.file.clone())),
        attributes: HOLDER_ATTRIBUTES,
    });
    loop {
        let call = server.call_client_after(client.id(), delegation.granted_by.as_ref(), &op);
        let answer = tokio::select! {
            biased;
            () = delegation.ended() => return None,
            answer = call => answer,
        };
        match answer {
            Ok(CallbackResOp::GetAttr(Ok(answer))) => {
                return HolderAttributes::from_encoded(&answer.attributes).ok();
            }
            // The reply to its OPEN may be in flight, and the client ignores referring calls.
            Ok(CallbackResOp::GetAttr(Err(NfsStatus::BadHandle | NfsStatus::Delay))) => {}
            other => {
                tracing::debug!(client = client.id().0, ?other, "CB_GETATTR");
                return None;
            }
        }
        sleep(REPEAT_PAUSE).await;
    }
}
