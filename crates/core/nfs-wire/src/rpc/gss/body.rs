//! Arguments and results with a service: plain, with a MIC, or encrypted. RFC 2203 5.3.2.

use bytes::Bytes;
use thiserror::Error;

use super::credential::Service;
use super::mechanism::{GssContext, GssFailure};
use crate::xdr::{Decoder, Encoder, Segment, UNIT_BYTES, XdrError};

/// Longest MIC. Those of Kerberos have 28 to 40 bytes.
const MIC_BYTES_MAX: usize = 1024;

/// Why protected arguments or results are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is not what the service prescribes.
    #[error("malformed protected body: {0}")]
    Malformed(#[from] XdrError),
    /// The mechanism refuses the MIC or the encrypted data, or cannot make it.
    #[error("protected body: {0}")]
    Mechanism(#[from] GssFailure),
    /// The body belongs to another call. RFC 2203 5.3.2.2.
    #[error("protected body of call {body} in call {header}")]
    WrongSequence {
        /// Sequence number in the body.
        body: u32,
        /// Sequence number in the header.
        header: u32,
    },
    /// The results are external data, which has no bytes here that can be protected.
    #[error("external data cannot be protected")]
    External,
}

/// Protects arguments or results of the call `sequence`.
///
/// # Errors
/// [`BodyError::Mechanism`], and [`BodyError::External`].
pub fn wrap_body<C: GssContext>(
    context: &C,
    service: Service,
    sequence: u32,
    items: Encoder,
) -> Result<Encoder, BodyError> {
    if service == Service::None {
        return Ok(items);
    }
    let plain = with_sequence(sequence, items)?;
    let mut to = Encoder::new();
    match service {
        Service::None => {}
        // RFC 2203 5.3.2.2: the MIC is over the sequence number and the items.
        Service::Integrity => {
            let mic = context.get_mic(&plain)?;
            to.payload(plain);
            to.opaque(&mic);
        }
        // RFC 2203 5.3.2.3.
        Service::Privacy => to.payload(context.wrap(&plain)?),
    }
    Ok(to)
}

/// Checks arguments or results of the call `sequence`, and returns the items in them.
///
/// # Errors
/// See [`BodyError`].
pub fn unwrap_body<C: GssContext>(
    context: &C,
    service: Service,
    sequence: u32,
    body: Bytes,
) -> Result<Bytes, BodyError> {
    let limit = body.len();
    let mut from = Decoder::new(body);
    let plain = match service {
        Service::None => return Ok(from.rest()),
        Service::Integrity => {
            let (plain, mic) = (from.opaque(limit)?, from.opaque(MIC_BYTES_MAX)?);
            context.verify_mic(&plain, &mic)?;
            plain
        }
        Service::Privacy => context.unwrap(&from.opaque(limit)?)?,
    };
    from.finish()?;
    let mut items = Decoder::new(plain);
    match items.u32()? {
        found if found == sequence => Ok(items.rest()), // gss invariant 3
        found => Err(BodyError::WrongSequence { body: found, header: sequence }),
    }
}

/// The sequence number and the items in one piece.
fn with_sequence(sequence: u32, items: Encoder) -> Result<Bytes, BodyError> {
    let mut plain = Vec::with_capacity(UNIT_BYTES + items.len());
    plain.extend_from_slice(&sequence.to_be_bytes());
    for segment in items.into_segments() {
        match segment {
            Segment::Bytes(bytes) => plain.extend_from_slice(&bytes),
            Segment::External(_) => return Err(BodyError::External),
        }
    }
    Ok(plain.into())
}
