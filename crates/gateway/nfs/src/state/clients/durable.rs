//! What is recorded about a client at the metadata server, so that it is recognised after a
//! restart.
//!
//! ```text
//!   version 1 · owner · verifier (8) · principal: 0 | 1 uid | 2 name           (XDR)
//! ```

use braid_nfs_wire::nfs4::{OPAQUE_BYTES_MAX, Verifier};
use braid_nfs_wire::xdr::{Decoder, Encoder, XdrError};
use bytes::Bytes;

use super::Client;
use crate::state::Principal;

const VERSION: u32 = 1;
/// Longest principal; a client's record has at most 4096 bytes.
const PRINCIPAL_BYTES_MAX: usize = 1024;

/// A client as it was recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DurableClient {
    /// `co_ownerid`.
    pub owner: Bytes,
    /// `co_verifier`.
    pub verifier: Verifier,
    /// The principal of EXCHANGE_ID.
    pub principal: Principal,
}

/// The record of a client.
pub fn encode_record<D>(client: &Client<D>) -> Vec<u8> {
    let mut to = Encoder::new();
    to.u32(VERSION);
    to.opaque(client.owner());
    to.opaque_fixed(&client.verifier().0);
    match client.principal() {
        Principal::Nobody => to.u32(0),
        Principal::Unix { uid } => {
            to.u32(1);
            to.u32(*uid);
        }
        Principal::Gss { name } => {
            to.u32(2);
            to.opaque(name);
        }
    }
    to.to_vec()
}

/// Reads a record.
///
/// # Errors
/// [`XdrError`] if a gateway of another version wrote it, or it is damaged.
pub fn decode_record(record: Bytes) -> Result<DurableClient, XdrError> {
    let mut from = Decoder::new(record);
    match from.u32()? {
        VERSION => {}
        value => return Err(XdrError::Invalid { what: "version of a client record", value }),
    }
    let owner = from.opaque(OPAQUE_BYTES_MAX)?;
    let verifier = Verifier(from.opaque_fixed()?);
    let principal = match from.u32()? {
        0 => Principal::Nobody,
        1 => Principal::Unix { uid: from.u32()? },
        2 => Principal::Gss { name: from.opaque(PRINCIPAL_BYTES_MAX)? },
        value => return Err(XdrError::Invalid { what: "principal", value }),
    };
    from.finish()?;
    Ok(DurableClient { owner, verifier, principal })
}
