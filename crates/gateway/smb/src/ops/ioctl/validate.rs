//! FSCTL_VALIDATE_NEGOTIATE_INFO: nobody has changed the negotiation on its way. MS-SMB2
//! 3.3.5.15.12.

use braid_share::Share;
use braid_smb_wire::NtStatus;
use braid_smb_wire::fscc::Information;
use braid_smb_wire::fsctl::{ValidateNegotiateRequest, ValidateNegotiateResponse};
use braid_smb_wire::smb2::Dialect;
use braid_smb_wire::smb2::ioctl::IoctlRequest;

use crate::connection::negotiated::Negotiated;
use crate::context::{Context, malformed};

/// Compares what the client says that it has sent with what has arrived. A difference ends the
/// connection.
pub(super) fn validate<S: Share>(
    context: &Context<S>,
    request: &IoctlRequest,
) -> Result<Vec<u8>, NtStatus> {
    let negotiated = context.connection.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
    let mut input = braid_smb_wire::Reader::new(request.input.clone());
    let sent = ValidateNegotiateRequest::decode(&mut input).map_err(malformed)?;
    if !is_same(negotiated, &sent) {
        tracing::warn!(peer = %context.connection.peer(), "the negotiation was changed on its way");
        context.connection.close();
        return Err(NtStatus::ACCESS_DENIED);
    }
    let response = ValidateNegotiateResponse {
        capabilities: negotiated.capabilities.0,
        guid: context.server.guid,
        security_mode: negotiated.security_mode.0,
        dialect: negotiated.dialect.number(),
    };
    let output = response.to_bytes();
    if output.len() > request.max_output as usize {
        return Err(NtStatus::BUFFER_TOO_SMALL);
    }
    Ok(output)
}

fn is_same(negotiated: &Negotiated, sent: &ValidateNegotiateRequest) -> bool {
    let offered = |dialect: &Dialect| sent.dialects.contains(&dialect.number());
    let greatest = Dialect::ALL.into_iter().rev().find(offered);
    // A client of 3.1.1 has the hash over the negotiation, and sends no such request.
    negotiated.dialect != Dialect::Smb311
        && greatest == Some(negotiated.dialect)
        && sent.capabilities == negotiated.client_capabilities.0
        && sent.guid == negotiated.client_guid
        && sent.security_mode == negotiated.client_security_mode.0
}
