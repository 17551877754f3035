//! The client's side, for calls on the back channel and for tests. RFC 2203 5.2 and 5.3.

use bytes::Bytes;

use super::body::{BodyError, unwrap_body, wrap_body};
use super::credential::{GssCredential, GssProcedure, InitArguments, SEQUENCE_MAX, Service};
use super::mechanism::{GssContext, GssFailure};
use crate::rpc::auth::{OpaqueAuth, RPCSEC_GSS};
use crate::rpc::message::{CallHeader, NULL_PROCEDURE};
use crate::xdr::{Encoder, Xdr};

/// A call of context creation: INIT with an empty handle, CONTINUE_INIT with the server's.
pub fn init_call(xid: u32, program: u32, version: u32, handle: Bytes, token: Bytes) -> Encoder {
    let procedure = if handle.is_empty() { GssProcedure::Init } else { GssProcedure::ContinueInit };
    let credential =
        GssCredential { procedure, sequence: 0, service: Service::None.code(), handle };
    let header = CallHeader {
        xid,
        program,
        version,
        procedure: NULL_PROCEDURE,
        credential: credential.to_credential(),
        verifier: OpaqueAuth::none(),
    };
    let mut to = Encoder::new();
    header.encode(&mut to);
    InitArguments { token }.encode(&mut to);
    to
}

/// An established context of a client.
#[derive(Debug)]
pub struct GssClientContext<C> {
    context: C,
    handle: Bytes,
    service: Service,
    next_sequence: u32,
}

impl<C: GssContext> GssClientContext<C> {
    /// A context that the server has established with this handle and window; `verifier` is that
    /// of its reply.
    ///
    /// # Errors
    /// [`GssFailure`] when the verifier is not the server's. RFC 2203 5.2.3.1.
    pub fn new(
        context: C,
        service: Service,
        handle: Bytes,
        sequence_window: u32,
        verifier: &OpaqueAuth,
    ) -> Result<Self, GssFailure> {
        context.verify_mic(&sequence_window.to_be_bytes(), &verifier.body)?;
        Ok(Self { context, handle, service, next_sequence: 1 })
    }

    /// A call with these arguments, and its sequence number, which
    /// [`GssClientContext::results`] needs. `header` has any credential and verifier. `None` when
    /// the context has no sequence numbers left.
    ///
    /// # Errors
    /// See [`wrap_body`].
    pub fn call(
        &mut self,
        header: CallHeader,
        arguments: Encoder,
    ) -> Result<Option<(Encoder, u32)>, BodyError> {
        let Some(sequence) = self.take_sequence() else { return Ok(None) };
        let body = wrap_body(&self.context, self.service, sequence, arguments)?;
        let mut message = self.header(header, GssProcedure::Data, sequence)?;
        message.append(body);
        Ok(Some((message, sequence)))
    }

    /// The call that ends the context. RFC 2203 5.4.
    ///
    /// # Errors
    /// See [`wrap_body`].
    pub fn destroy(mut self, header: CallHeader) -> Result<Option<Encoder>, BodyError> {
        let Some(sequence) = self.take_sequence() else { return Ok(None) };
        let header = CallHeader { procedure: NULL_PROCEDURE, ..header };
        Ok(Some(self.header(header, GssProcedure::Destroy, sequence)?))
    }

    /// Checks the verifier of an accepted reply to the call `sequence`.
    ///
    /// # Errors
    /// [`GssFailure`] when it is not the server's.
    pub fn check_verifier(&self, sequence: u32, verifier: &OpaqueAuth) -> Result<(), GssFailure> {
        self.context.verify_mic(&sequence.to_be_bytes(), &verifier.body)
    }

    /// The results in a successful reply to the call `sequence`, whose verifier was checked.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub fn results(&self, sequence: u32, body: Bytes) -> Result<Bytes, BodyError> {
        unwrap_body(&self.context, self.service, sequence, body)
    }

    /// Skips the sequence numbers before `sequence`.
    #[cfg(test)]
    pub(super) fn skip_to(&mut self, sequence: u32) {
        self.next_sequence = sequence;
    }

    fn take_sequence(&mut self) -> Option<u32> {
        let sequence = self.next_sequence;
        self.next_sequence = sequence + u32::from(sequence < SEQUENCE_MAX);
        (sequence < SEQUENCE_MAX).then_some(sequence)
    }

    /// The header with this context's credential, and the MIC of both as verifier.
    fn header(
        &self,
        header: CallHeader,
        procedure: GssProcedure,
        sequence: u32,
    ) -> Result<Encoder, GssFailure> {
        let (service, handle) = (self.service.code(), self.handle.clone());
        let credential = GssCredential { procedure, sequence, service, handle }.to_credential();
        let mut to = Encoder::new();
        CallHeader { credential, ..header }.encode_signed_part(&mut to);
        let mic = self.context.get_mic(&to.to_vec())?;
        OpaqueAuth { flavor: RPCSEC_GSS, body: mic }.encode(&mut to);
        Ok(to)
    }
}
