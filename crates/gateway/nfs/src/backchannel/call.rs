//! One callback: CB_COMPOUND with CB_SEQUENCE and one operation.

use std::sync::Arc;

use braid_nfs_wire::nfs4::args::CallbackSecurity;
use braid_nfs_wire::nfs4::callback::{
    CALLBACK_VERSION, CallbackArgOp, CallbackHeader, CallbackResOp, CallbackSequenceArgs,
    ReferringCalls,
};
use braid_nfs_wire::nfs4::{
    CompoundReplyHeader, NfsStatus, PROCEDURE_COMPOUND, SequenceId, SlotId,
};
use braid_nfs_wire::rpc::auth::OpaqueAuth;
use braid_nfs_wire::rpc::message::{AcceptStatus, CallHeader, ReplyBody, ReplyHeader};
use braid_nfs_wire::xdr::{Decoder, Encoder, Xdr};
use bytes::Bytes;
use tokio::time::{sleep, timeout};

use super::{BackChannel, CALL_MAX, CallbackError, DELAY_PAUSE, REPLY_MAX};
use crate::connection::{Connection, ConnectionLost};

/// What the client answered.
enum Answer {
    /// CB_SEQUENCE succeeded: the result of the operation.
    Result(CallbackResOp),
    /// The status of CB_SEQUENCE.
    Sequence(NfsStatus),
}

impl BackChannel {
    /// Calls the client and returns the result of `op`. All callbacks may reach the client twice.
    ///
    /// # Errors
    /// [`CallbackError`]; SEQUENCE then reports that the path is down.
    pub async fn call(&self, op: &CallbackArgOp) -> Result<CallbackResOp, CallbackError> {
        self.call_after(op, &[]).await
    }

    /// As [`BackChannel::call`]. The client processes the replies to `referring` first.
    ///
    /// # Errors
    /// As [`BackChannel::call`].
    pub async fn call_after(
        &self,
        op: &CallbackArgOp,
        referring: &[ReferringCalls],
    ) -> Result<CallbackResOp, CallbackError> {
        let result = timeout(CALL_MAX, self.call_without_limit(op, referring)).await;
        result.unwrap_or(Err(CallbackError::NoReply))
    }

    async fn call_without_limit(
        &self,
        op: &CallbackArgOp,
        referring: &[ReferringCalls],
    ) -> Result<CallbackResOp, CallbackError> {
        let slot = self.slot().await?;
        // A client that misses an earlier callback's reply is one number ahead, once.
        let mut skipped = false;
        loop {
            let connection = self.connection().await?;
            let message = |xid| self.message(xid, slot.number, op, referring);
            let Some(record) = self.exchange(&connection, message).await? else {
                continue;
            };
            match parse(record)? {
                // The cached reply to an earlier callback with this number, which was given up.
                Answer::Result(result) if result.number() != op.number() && !skipped => {
                    skipped = true;
                    self.lock().slots.advance(slot.number);
                }
                Answer::Result(result) => {
                    self.lock().slots.advance(slot.number);
                    return Ok(result);
                }
                Answer::Sequence(NfsStatus::Delay) => sleep(DELAY_PAUSE).await,
                // The client had accepted this number; the reply was lost.
                Answer::Sequence(
                    NfsStatus::RetryUncachedRep
                    | NfsStatus::SeqFalseRetry
                    | NfsStatus::SeqMisordered,
                ) if !skipped => {
                    skipped = true;
                    self.lock().slots.advance(slot.number);
                }
                Answer::Sequence(status) => {
                    self.lock().faulty = true;
                    return Err(CallbackError::Refused(status));
                }
            }
        }
    }

    /// Sends the callback and waits for its reply. `None`: try again on another connection.
    async fn exchange(
        &self,
        connection: &Arc<Connection>,
        message: impl FnOnce(u32) -> Bytes,
    ) -> Result<Option<Bytes>, CallbackError> {
        let call = connection.call(message);
        let replied = tokio::select! {
            replied = timeout(REPLY_MAX, call) => replied,
            () = self.ended() => return Err(CallbackError::SessionEnded),
        };
        match replied {
            Ok(Ok(record)) => Ok(Some(record)),
            Ok(Err(ConnectionLost)) | Err(_) => {
                // The client binds it again when SEQUENCE reports that the path is down.
                self.lock().remove(connection);
                Ok(None)
            }
        }
    }

    /// The RPC message.
    fn message(
        &self,
        xid: u32,
        slot: u32,
        op: &CallbackArgOp,
        referring: &[ReferringCalls],
    ) -> Bytes {
        let mut inner = self.lock();
        inner.slots.sent(slot);
        let mut to = Encoder::new();
        let header = CallHeader {
            xid,
            program: inner.program,
            version: CALLBACK_VERSION,
            procedure: PROCEDURE_COMPOUND,
            credential: credential(&inner.security),
            verifier: OpaqueAuth::none(),
        };
        header.encode(&mut to);
        let compound = CallbackHeader {
            tag: Bytes::new(),
            minor_version: self.minor_version,
            callback_ident: 0,
            op_count: 2,
        };
        compound.encode(&mut to);
        let sequence = CallbackArgOp::Sequence(CallbackSequenceArgs {
            session_id: self.session,
            sequence_id: SequenceId(inner.slots.next(slot)),
            slot_id: SlotId(slot),
            highest_slot_id: SlotId(inner.slots.highest_used()),
            cache_this: false,
            referring_calls: referring.to_vec(),
        });
        sequence.encode(&mut to);
        op.encode(&mut to);
        to.to_vec().into()
    }

    /// A free slot, as soon as there is one.
    async fn slot(&self) -> Result<SlotInUse<'_>, CallbackError> {
        self.wait_for(|channel| {
            let number = channel.lock().slots.take()?;
            Some(SlotInUse { channel, number })
        })
        .await
    }

    /// An open connection, as soon as there is one.
    async fn connection(&self) -> Result<Arc<Connection>, CallbackError> {
        self.wait_for(|channel| channel.lock().connection()).await
    }

    /// Waits until `get` returns something, or the session ends.
    async fn wait_for<'a, T>(
        &'a self,
        get: impl Fn(&'a Self) -> Option<T>,
    ) -> Result<T, CallbackError> {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // Before the check, so that no notification is missed.
            changed.as_mut().enable();
            if self.lock().closed {
                return Err(CallbackError::SessionEnded);
            }
            if let Some(got) = get(self) {
                return Ok(got);
            }
            changed.await;
        }
    }

    /// Waits for the end of the session.
    async fn ended(&self) {
        // The only value is an error.
        let _ = self.wait_for(|_| None::<()>).await;
    }
}

/// A slot with a callback in flight.
struct SlotInUse<'a> {
    channel: &'a BackChannel,
    number: u32,
}

impl Drop for SlotInUse<'_> {
    fn drop(&mut self) {
        self.channel.lock().slots.release(self.number);
        self.channel.changed.notify_waiters();
    }
}

/// The best credential of those that the client accepts. RPCSEC_GSS for callbacks is not
/// supported: AUTH_NONE is tried, which the client may refuse.
fn credential(accepted: &[CallbackSecurity]) -> OpaqueAuth {
    let user = accepted.iter().find_map(|security| match security {
        CallbackSecurity::Sys(user) => Some(user),
        _ => None,
    });
    match user {
        Some(user) => user.to_credential(),
        None => OpaqueAuth::none(),
    }
}

fn parse(record: Bytes) -> Result<Answer, CallbackError> {
    let mut from = Decoder::new(record);
    let malformed = |_| CallbackError::Malformed;
    let header = ReplyHeader::decode(&mut from).map_err(malformed)?;
    let ReplyBody::Accepted { status: AcceptStatus::Success, .. } = header.body else {
        return Err(CallbackError::Malformed);
    };
    let compound = CompoundReplyHeader::decode(&mut from).map_err(malformed)?;
    if compound.op_count == 0 {
        return Ok(Answer::Sequence(compound.status));
    }
    let sequence = CallbackResOp::decode(&mut from).map_err(malformed)?;
    if sequence.status() != NfsStatus::Ok {
        return Ok(Answer::Sequence(sequence.status()));
    }
    // A reply without a second result is that of a client that cannot do the operation.
    if compound.op_count == 1 {
        return Err(CallbackError::Malformed);
    }
    CallbackResOp::decode(&mut from).map(Answer::Result).map_err(malformed)
}
