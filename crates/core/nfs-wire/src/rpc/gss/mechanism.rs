//! What this module needs of a GSS-API mechanism (RFC 2743), so that it is tested without one.

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

/// Major status: the context is established. RFC 2744 3.9.1.
pub const GSS_S_COMPLETE: u32 = 0;
/// Major status: the peer is to send another token. RFC 2744 3.9.1.
pub const GSS_S_CONTINUE_NEEDED: u32 = 1;
/// Major status: a MIC is wrong. RFC 2744 3.9.1.
pub const GSS_S_BAD_SIG: u32 = 6 << 16;
/// Major status: a token is malformed. RFC 2744 3.9.1.
pub const GSS_S_DEFECTIVE_TOKEN: u32 = 9 << 16;
/// Major status: another failure, named by the minor status. RFC 2744 3.9.1.
pub const GSS_S_FAILURE: u32 = 13 << 16;

/// A failure of the mechanism. Its text, if any, is for the log of this side only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("GSS-API failure {major:#010x}, minor status {minor}")]
pub struct GssFailure {
    /// Major status, an error. RFC 2744 3.9.1.
    pub major: u32,
    /// Minor status, a number of the mechanism.
    pub minor: u32,
}

/// What one token of context creation leads to.
#[derive(Debug)]
pub enum AcceptStep<P, C> {
    /// The context can be used.
    Established {
        /// The context.
        context: C,
        /// Token for the client; may be empty.
        token: Bytes,
        /// How long the context is valid from now on.
        lifetime: Duration,
    },
    /// The client is to send another token.
    Continue {
        /// State for the next step.
        pending: P,
        /// Token for the client.
        token: Bytes,
    },
    /// There will be no context.
    Failed {
        /// The reason, which the client receives.
        failure: GssFailure,
        /// Token for the client; may be empty.
        token: Bytes,
    },
}

/// A mechanism as a server uses it, with the server's key.
pub trait GssMechanism {
    /// A context whose creation needs more tokens.
    type Pending;
    /// An established context.
    type Context: GssContext;

    /// Handles one token: `gss_accept_sec_context`. `pending` is `None` for a client's first.
    fn accept(
        &self,
        pending: Option<Self::Pending>,
        token: &[u8],
    ) -> AcceptStep<Self::Pending, Self::Context>;
}

/// An established context. Calls of one context run at the same time.
pub trait GssContext {
    /// The client's name, such as `alice@EXAMPLE.ORG`.
    fn principal(&self) -> &str;

    /// The MIC of `message`: `gss_get_mic`.
    ///
    /// # Errors
    /// [`GssFailure`], for instance when the context has expired.
    fn get_mic(&self, message: &[u8]) -> Result<Bytes, GssFailure>;

    /// Checks the peer's MIC of `message`: `gss_verify_mic`.
    ///
    /// # Errors
    /// [`GssFailure`] when it is wrong, or the context has expired.
    fn verify_mic(&self, message: &[u8], mic: &[u8]) -> Result<(), GssFailure>;

    /// Encrypts `message`: `gss_wrap` with confidentiality.
    ///
    /// # Errors
    /// [`GssFailure`], also when the mechanism cannot encrypt.
    fn wrap(&self, message: &[u8]) -> Result<Bytes, GssFailure>;

    /// Decrypts the peer's `message`: `gss_unwrap`. What is authentic but not encrypted is
    /// refused.
    ///
    /// # Errors
    /// [`GssFailure`] when it was changed or not encrypted, or the context has expired.
    fn unwrap(&self, message: &[u8]) -> Result<Bytes, GssFailure>;
}
