//! The server's side: creates contexts, checks calls, protects replies. RFC 2203 5.2 and 5.3.3.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::body::{BodyError, unwrap_body, wrap_body};
use super::contexts::{Contexts, Established, GssLimits, HANDLE_BYTES, Handle};
use super::credential::{
    GssCredential, GssProcedure, InitArguments, InitResult, SEQUENCE_MAX, Service,
};
use super::mechanism::{
    AcceptStep, GSS_S_COMPLETE, GSS_S_CONTINUE_NEEDED, GssContext, GssFailure, GssMechanism,
};
use super::window::SEQUENCE_WINDOW;
use crate::rpc::auth::{AuthStatus, OpaqueAuth, RPCSEC_GSS};
use crate::rpc::message::{
    AcceptStatus, CallHeader, CallMessage, NULL_PROCEDURE, ReplyBody, ReplyHeader,
};
use crate::xdr::{Encoder, Xdr};

/// What a server does with a call.
#[derive(Debug)]
pub enum GssOutcome<C> {
    /// Execute the procedure with [`ProtectedCall::arguments`].
    Execute(ProtectedCall<C>),
    /// Send this message; there is nothing to execute.
    Reply(Encoder),
    /// Send nothing: the sequence number was used before or is too old. RFC 2203 5.3.3.1.
    Drop,
}

/// A call whose caller is authenticated and whose arguments were checked.
#[derive(Debug)]
pub struct ProtectedCall<C> {
    established: Arc<Established<C>>,
    service: Service,
    sequence: u32,
    xid: u32,
    arguments: Bytes,
}

/// The server's side of `RPCSEC_GSS`, for calls of all connections. Its locks are never held while
/// the mechanism runs.
#[derive(Debug)]
pub struct GssServer<M: GssMechanism> {
    mechanism: M,
    limits: GssLimits,
    contexts: Mutex<Contexts<M::Pending, M::Context>>,
}

impl<M: GssMechanism> GssServer<M> {
    /// A server without contexts.
    pub fn new(mechanism: M, limits: GssLimits) -> Self {
        Self { mechanism, limits, contexts: Mutex::new(Contexts::new()) }
    }

    /// Handles a call with an `RPCSEC_GSS` credential. `now` is the time since any fixed moment,
    /// of a clock that never goes back. `handle` is called for a new context and returns bytes of a
    /// cryptographic random number generator.
    ///
    /// Calls are to be passed in about the order in which they arrive: those that are overtaken by
    /// [`SEQUENCE_WINDOW`] others of their context are dropped.
    pub fn receive(
        &self,
        call: &CallMessage,
        now: Duration,
        handle: impl FnOnce() -> [u8; HANDLE_BYTES],
    ) -> GssOutcome<M::Context> {
        let outcome =
            GssCredential::from_credential(&call.header.credential).and_then(|credential| {
                match credential.procedure {
                    GssProcedure::Init | GssProcedure::ContinueInit => {
                        self.create(call, &credential, now, handle).map(GssOutcome::Reply)
                    }
                    GssProcedure::Data | GssProcedure::Destroy => {
                        self.check(call, &credential, now)
                    }
                }
            });
        outcome.unwrap_or_else(|status| GssOutcome::Reply(encode(&call.header.denied(status))))
    }

    /// Numbers of established contexts and of those in creation.
    pub fn context_counts(&self) -> (usize, usize) {
        self.lock().counts()
    }

    fn lock(&self) -> MutexGuard<'_, Contexts<M::Pending, M::Context>> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One step of a context's creation. RFC 2203 5.2.
    fn create(
        &self,
        call: &CallMessage,
        credential: &GssCredential,
        now: Duration,
        handle: impl FnOnce() -> Handle,
    ) -> Result<Encoder, AuthStatus> {
        let first = credential.procedure == GssProcedure::Init;
        // RFC 2203 5.2.2: the NULL procedure; the first call has no handle.
        if call.header.procedure != NULL_PROCEDURE || first && !credential.handle.is_empty() {
            return Err(AuthStatus::BadCredential);
        }
        if call.header.verifier != OpaqueAuth::none() {
            return Err(AuthStatus::BadVerifier);
        }
        let Ok(InitArguments { token }) = InitArguments::from_bytes(call.arguments.clone()) else {
            let garbage = AcceptStatus::GarbageArguments;
            return Ok(encode(&call.header.accepted(OpaqueAuth::none(), garbage)));
        };
        let (handle, pending) = if first {
            (handle(), None)
        } else {
            let taken = self.lock().take_pending(&credential.handle, now);
            let (handle, state) = taken.ok_or(AuthStatus::GssCredentialProblem)?;
            (handle, Some(state))
        };
        Ok(match self.mechanism.accept(pending, &token) {
            AcceptStep::Established { context, token, lifetime } => {
                // RFC 2203 5.2.3.1: the verifier is the MIC of the window's size.
                match context.get_mic(&SEQUENCE_WINDOW.to_be_bytes()) {
                    Err(failure) => failed(&call.header, failure, Bytes::new()),
                    Ok(mic) => {
                        self.lock().add(handle, context, lifetime, now, &self.limits);
                        let verifier = OpaqueAuth { flavor: RPCSEC_GSS, body: mic };
                        created(&call.header, verifier, handle, GSS_S_COMPLETE, token)
                    }
                }
            }
            AcceptStep::Continue { pending, token } => {
                self.lock().add_pending(handle, pending, now, &self.limits);
                created(&call.header, OpaqueAuth::none(), handle, GSS_S_CONTINUE_NEEDED, token)
            }
            AcceptStep::Failed { failure, token } => failed(&call.header, failure, token),
        })
    }

    /// A call in an established context. RFC 2203 5.3.3.1.
    fn check(
        &self,
        call: &CallMessage,
        credential: &GssCredential,
        now: Duration,
    ) -> Result<GssOutcome<M::Context>, AuthStatus> {
        let found = self.lock().find(&credential.handle, now);
        let established = found.ok_or(AuthStatus::GssCredentialProblem)?;
        let service = Service::from_code(credential.service).ok_or(AuthStatus::BadCredential)?;
        let CallHeader { verifier, procedure, xid, .. } = &call.header;
        if verifier.flavor != RPCSEC_GSS {
            return Err(AuthStatus::BadVerifier);
        }
        established
            .context
            .verify_mic(call.signed_part(), &verifier.body)
            .map_err(|_| AuthStatus::GssCredentialProblem)?;
        // RFC 2203 5.3.3.1: the client is to make another context.
        if credential.sequence >= SEQUENCE_MAX {
            return Err(AuthStatus::GssContextProblem);
        }
        let sequence = credential.sequence;
        let fresh =
            established.window.lock().unwrap_or_else(PoisonError::into_inner).accept(sequence);
        if !fresh {
            return Ok(GssOutcome::Drop); // gss invariant 1
        }
        let mut protected =
            ProtectedCall { established, service, sequence, xid: *xid, arguments: Bytes::new() };
        if credential.procedure == GssProcedure::Destroy {
            // RFC 2203 5.4: the NULL procedure, whose body has no results.
            if *procedure != NULL_PROCEDURE {
                return Err(AuthStatus::BadCredential);
            }
            self.lock().remove(&credential.handle);
            return Ok(protected.reply_or_drop(AcceptStatus::Success));
        }
        let arguments =
            unwrap_body(&protected.established.context, service, sequence, call.arguments.clone());
        match arguments {
            Ok(arguments) => {
                protected.arguments = arguments;
                Ok(GssOutcome::Execute(protected))
            }
            // RFC 2203 5.3.3.4.2 and 5.3.3.4.3.
            Err(_) => Ok(protected.reply_or_drop(AcceptStatus::GarbageArguments)),
        }
    }
}

impl<C: GssContext> ProtectedCall<C> {
    /// The caller's name, such as `alice@EXAMPLE.ORG`.
    pub fn principal(&self) -> &str {
        self.established.context.principal()
    }

    /// The caller's context.
    pub fn context(&self) -> &C {
        &self.established.context
    }

    /// How the call is protected; the reply is protected in the same way.
    pub fn service(&self) -> Service {
        self.service
    }

    /// The procedure's arguments, checked and decrypted.
    pub fn arguments(&self) -> &Bytes {
        &self.arguments
    }

    /// The reply with these results of the procedure.
    ///
    /// # Errors
    /// [`BodyError::Mechanism`], for instance when the context has expired since, and
    /// [`BodyError::External`] for external data with integrity or privacy. There is no reply
    /// then (RFC 2203 5.3.3.4.1 and 5.3.3.4.4); the connection may be closed.
    pub fn reply(&self, results: Encoder) -> Result<Encoder, BodyError> {
        let body = wrap_body(&self.established.context, self.service, self.sequence, results)?;
        let mut message = self.reply_without_results(AcceptStatus::Success)?;
        message.append(body);
        Ok(message)
    }

    /// The reply to a call that has no results.
    ///
    /// # Errors
    /// [`BodyError::Mechanism`], as [`ProtectedCall::reply`].
    pub fn reply_without_results(&self, status: AcceptStatus) -> Result<Encoder, BodyError> {
        // RFC 2203 5.3.3.2: the verifier is the MIC of the sequence number.
        let mic = self.established.context.get_mic(&self.sequence.to_be_bytes())?;
        let verifier = OpaqueAuth { flavor: RPCSEC_GSS, body: mic };
        let body = ReplyBody::Accepted { verifier, status };
        Ok(encode(&ReplyHeader { xid: self.xid, body }))
    }

    fn reply_or_drop(&self, status: AcceptStatus) -> GssOutcome<C> {
        self.reply_without_results(status).map_or(GssOutcome::Drop, GssOutcome::Reply)
    }
}

/// The reply to a step that was successful. RFC 2203 5.2.3.1.
fn created(
    call: &CallHeader,
    verifier: OpaqueAuth,
    handle: Handle,
    major: u32,
    token: Bytes,
) -> Encoder {
    let handle = Bytes::copy_from_slice(&handle);
    let result = InitResult { handle, major, minor: 0, sequence_window: SEQUENCE_WINDOW, token };
    let mut to = encode(&call.accepted(verifier, AcceptStatus::Success));
    result.encode(&mut to);
    to
}

/// The reply to a step that failed. RFC 2203 5.2.3.2: no handle, and a verifier of `AUTH_NONE`.
fn failed(call: &CallHeader, failure: GssFailure, token: Bytes) -> Encoder {
    let GssFailure { major, minor } = failure;
    let result = InitResult { handle: Bytes::new(), major, minor, sequence_window: 0, token };
    let mut to = encode(&call.accepted(OpaqueAuth::none(), AcceptStatus::Success));
    result.encode(&mut to);
    to
}

fn encode(header: &ReplyHeader) -> Encoder {
    let mut to = Encoder::new();
    header.encode(&mut to);
    to
}
