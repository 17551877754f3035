//! From a frame to an operation: decoding, roles, sessions and slots; and back to the client.

use std::sync::{Arc, atomic::Ordering};

use braid_meta::Identity;
use braid_net::server::{CallService, Peer, Responder};
use braid_types::{Failure, Status};
use braid_wire::{
    Decoder, Role, Wire, WireError, encode_failure, encode_success,
    message::{
        CommonRequest,
        mds::{Envelope, MdsRequest},
    },
};

use crate::{
    call::{Call, CallOutcome, SlotGuard},
    connection::Connection,
    core::MdsCore,
    ops,
    session::Admission,
    size::check_size_reports,
};

impl CallService for MdsCore {
    type Session = Connection;

    fn connected(&self, peer: &Peer) -> Result<Connection, Failure> {
        let (rights, root) = self.rights_of(&peer.credential)?;
        let connection = Connection::new(peer.clone(), rights, root);
        self.state().keys.register(&connection)?;
        self.counters.connections.fetch_add(1, Ordering::Relaxed);
        Ok(connection)
    }

    fn handle(&self, connection: &Arc<Connection>, op: u16, body: &[u8], responder: Responder) {
        self.counters.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(common) = CommonRequest::decode(op, body) {
            return responder.send(self.common(common));
        }
        match read(op, body) {
            Ok((envelope, request, asked)) => {
                self.admit(connection, envelope, (request, op, asked), responder)
            }
            Err(failure) => self.refuse(responder, &failure),
        }
    }

    fn disconnected(&self, connection: &Arc<Connection>) {
        self.counters.connections.fetch_sub(1, Ordering::Relaxed);
        connection.disconnected();
        self.state().keys.unregister(connection);
    }
}

/// A message, and the bytes of its request.
fn read(op: u16, body: &[u8]) -> Result<(Envelope, MdsRequest, &[u8]), Failure> {
    let malformed =
        |error: WireError| Failure::new(Status::Malformed, format!("message {op:#06x}: {error}"));
    let unknown = || {
        Failure::new(
            Status::UnknownMessage,
            format!("the metadata server knows no message {op:#06x}"),
        )
    };
    let mut from = Decoder::new(body);
    let envelope = Envelope::decode(&mut from).map_err(|error| {
        let known = MdsRequest::CALLS.iter().any(|(number, _)| *number == op);
        if known { malformed(error) } else { unknown() }
    })?;
    check_size_reports(&envelope.size_reports)?;
    let asked = from.rest();
    let request = MdsRequest::decode(op, asked).ok_or_else(unknown)?;
    Ok((envelope, request.map_err(malformed)?, asked))
}

impl MdsCore {
    fn admit(
        &self,
        connection: &Arc<Connection>,
        mut envelope: Envelope,
        (request, op, asked): (MdsRequest, u16, &[u8]),
        responder: Responder,
    ) {
        let now = self.now();
        let needs = ops::needs(&request);
        if !ops::is_answer_kept(&request) {
            envelope.sequence = 0;
        }
        let checked = connection.check_role(needs.roles).and_then(|()| {
            let session = if needs.session || envelope.sequence != 0 {
                Some(connection.session(now)?)
            } else {
                None
            };
            if needs.change && connection.rights.read_only {
                return Err(Failure::new(Status::ReadOnly, "the key of this client may only read"));
            }
            if needs.slot && envelope.sequence == 0 {
                return Err(Failure::new(
                    Status::Malformed,
                    "a call that changes something needs a slot and a sequence",
                ));
            }
            Ok((session, connection.identity(envelope.identity)?))
        });
        let (session, who) = match checked {
            Ok(checked) => checked,
            Err(failure) => return self.refuse(responder, &failure),
        };
        let digest = if envelope.sequence == 0 { 0 } else { self.digest(&who, op, asked) };
        let call = |envelope: Envelope, responder| {
            let connection = connection.clone();
            let slot = SlotGuard::new(&self.unanswered, session, envelope.slot, envelope.sequence);
            Call {
                connection,
                slot,
                envelope,
                session,
                who,
                request: digest,
                received_at: now,
                responder,
                claims: None,
            }
        };
        let Some(id) = session.filter(|_| envelope.sequence != 0) else {
            return self.run(call(envelope, responder), request);
        };
        let admission =
            self.state().sessions.live.admit(id, envelope.slot, envelope.sequence, responder);
        match admission {
            Admission::Do(responder) => self.run(call(envelope, responder), request),
            Admission::Answered(responder, answer) => responder.send(answer.to_vec()),
            Admission::Joined => {}
            Admission::Refused(responder, failure) => self.refuse(responder, &failure),
        }
    }

    /// [`braid_meta::Replay::request`]: a digest of what a client sends in the same way in each
    /// retry. For users who are held to permissions it is made with the server's key, so that they
    /// cannot search for two requests with one digest. Privileged users gain nothing by that.
    fn digest(&self, who: &Identity, op: u16, asked: &[u8]) -> u64 {
        let parts = [&who.uid.to_le_bytes()[..], &who.gid.to_le_bytes(), &op.to_le_bytes(), asked];
        if who.bypasses_permissions() {
            // FNV-1a: a MAC costs a microsecond, and a mount's changes are many.
            let add =
                |digest: u64, byte: &u8| (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            return parts.into_iter().flatten().fold(0xcbf2_9ce4_8422_2325, add);
        }
        self.key.mac("request", &parts)[..8]
            .iter()
            .fold(0, |digest, byte| digest << 8 | u64::from(*byte))
    }

    /// Runs an operation from its beginning.
    pub(crate) fn run(&self, call: Call, request: MdsRequest) {
        let flow = ops::perform(self, call, &request);
        self.settle(flow, request);
    }

    /// Answers or suspends a call that an operation returned.
    pub(crate) fn settle(&self, flow: CallOutcome, request: MdsRequest) {
        match flow {
            CallOutcome::Answer(call, body) => self.answer(call, body),
            CallOutcome::Fail(call, failure) => self.fail(call, &failure),
            CallOutcome::Pending => {}
            CallOutcome::Lease(call, blocked) => self.park(&blocked, (call, request)),
            CallOutcome::Gate(call, file) => {
                let parked = self.state().sizes.wait_at_gate(file, (call, request));
                match parked.map_err(|back| *back) {
                    Ok(()) => {}
                    Err(((call, _), Some(failure))) => self.fail(call, &failure),
                    // It opened in the meantime.
                    Err(((call, request), None)) => self.run(call, request),
                }
            }
        }
    }

    /// Answers a call with a failure.
    pub(crate) fn fail(&self, call: Call, failure: &Failure) {
        self.count(failure);
        self.end(call, encode_failure(failure), false);
    }

    /// Answers a call that an operation took.
    pub(crate) fn finish<R: Wire>(&self, call: Call, outcome: Result<R, Failure>) {
        match outcome {
            Ok(reply) => self.answer(call, encode_success(&reply)),
            Err(failure) => self.fail(call, &failure),
        }
    }

    /// Answers a call with the body of its final frame.
    pub(crate) fn answer(&self, call: Call, body: Vec<u8>) {
        self.end(call, body, true);
    }

    /// Answers a call with the body of its final frame. Retries that wait for it get the same.
    fn end(&self, mut call: Call, body: Vec<u8>, done: bool) {
        // The claims are dropped first: a client that gets the answer and asks for a lease is not
        // refused because of this call.
        drop(call.claims.take());
        if call.envelope.sequence != 0
            && let Some(session) = call.session
        {
            let Envelope { slot, sequence, .. } = call.envelope;
            let waiters = self.state().sessions.live.complete(
                session,
                slot,
                sequence,
                done.then_some(&body[..]),
            );
            call.slot.release();
            waiters.into_iter().for_each(|waiter| waiter.send(body.clone()));
        }
        call.responder.send(body);
    }

    /// Frees the replay slots of calls that were dropped without a reply. Retries that waited for
    /// such a call get an error; a later retry runs it again, and the store knows whether it was
    /// done (I7).
    pub(crate) fn free_unanswered_slots(&self) {
        for (session, slot, sequence) in self.unanswered.take() {
            let waiters = self.state().sessions.live.complete(session, slot, sequence, None);
            let failure = Failure::new(Status::Internal, "the call was dropped without a reply");
            waiters.into_iter().for_each(|waiter| self.refuse(waiter, &failure));
        }
    }

    fn refuse(&self, responder: Responder, failure: &Failure) {
        self.count(failure);
        responder.send(encode_failure(failure));
    }

    fn count(&self, failure: &Failure) {
        let ours = matches!(
            failure.status,
            Status::Internal | Status::DiskError | Status::Corrupted | Status::NoSpace
        );
        if ours {
            self.counters.errors.fetch_add(1, Ordering::Relaxed);
            tracing::error!(%failure, "a call failed");
        }
    }
}

/// Roles that use files.
pub(crate) const USERS: &[Role] = &[Role::Client, Role::Admin];
