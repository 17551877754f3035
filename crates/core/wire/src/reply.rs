//! The body of a final frame: `status u16`, then the reply (status 0) or a detail string (else).

use braid_types::{Failure, Status};

use crate::codec::{Decoder, Wire, WireError};

/// Capacity that fits most replies, including one to an open (attributes, layout and capability:
/// 700 bytes). A vector that grows is copied each time.
const REPLY_BYTES_USUAL: usize = 768;

/// The body of a final frame that carries `reply`.
pub fn encode_success<R: Wire>(reply: &R) -> Vec<u8> {
    let mut out = Vec::with_capacity(REPLY_BYTES_USUAL);
    Status::Ok.encode(&mut out);
    reply.encode(&mut out);
    out
}

/// The body of a final frame that carries `failure`.
pub fn encode_failure(failure: &Failure) -> Vec<u8> {
    let mut out = failure.status.to_bytes();
    failure.detail.encode(&mut out);
    out
}

/// Reads the body of a final frame.
///
/// # Errors
/// The outer error when the bytes are not a reply; the inner one when the server reported a
/// failure.
pub fn decode_outcome<R: Wire>(body: &[u8]) -> Result<Result<R, Failure>, WireError> {
    let mut from = Decoder::new(body);
    let outcome = match Status::decode(&mut from)? {
        Status::Ok => Ok(R::decode(&mut from)?),
        status => Err(Failure { status, detail: String::decode(&mut from)? }),
    };
    from.finish()?;
    Ok(outcome)
}
