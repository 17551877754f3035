//! The agent's message to a program, sent immediately after the program connected.
//!
//! ```text
//!   "BRDA" · version u16 = 1 · the body of a final frame: status, then
//!                              ticket · key · addresses · cluster
//! ```
#![cfg(unix)]

use std::{
    io::{self, Read},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use braid_types::{ClusterUuid, Failure, Status};
use braid_wire::{
    Credential, Decoder, KEY_BYTES, Role, Secret, Ticket, Wire, decode_outcome, encode_failure,
    encode_success,
};

use crate::{
    config::Proof,
    error::{Error, Result},
};

const MAGIC: [u8; 4] = *b"BRDA";
const VERSION: u16 = 1;
/// The kernel's maximum of groups (65,536) takes 512 KiB (I9).
const MESSAGE_BYTES_MAX: u64 = 1 << 20;
/// How long to wait for the agent, which gives up its call of the metadata server before this.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// Ticket, its key, addresses of the metadata server, cluster.
pub(super) type TicketReply = ((Ticket, [u8; KEY_BYTES]), (Vec<String>, Option<ClusterUuid>));

pub(super) fn message(outcome: &Result<TicketReply, Failure>) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    VERSION.encode(&mut out);
    out.extend(match outcome {
        Ok(given) => encode_success(given),
        Err(failure) => encode_failure(failure),
    });
    out
}

pub(super) fn ask(socket: &Path) -> Result<Proof> {
    let mut message = Vec::new();
    UnixStream::connect(socket)
        .and_then(|stream| {
            stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
            stream.take(MESSAGE_BYTES_MAX).read_to_end(&mut message)
        })
        .map_err(|error| from_io(error).at(format!("agent at {}", socket.display())))?;
    let ((ticket, secret), (mds, cluster)) = parse(&message)?;
    let credential = Credential::Ticket(ticket);
    Ok(Proof { role: Role::Client, credential, secret: Secret::from_bytes(secret), mds, cluster })
}

fn parse(message: &[u8]) -> Result<TicketReply> {
    let strange = |what: &str| Error::new(Status::Malformed, format!("not an agent: {what}"));
    let mut from = Decoder::new(message);
    if from.array() != Ok(MAGIC) {
        return Err(strange("its reply has an unknown format"));
    }
    match u16::decode(&mut from) {
        Ok(VERSION) => {}
        Ok(version) => {
            let why = format!("the agent speaks version {version}, this program {VERSION}");
            return Err(Error::new(Status::Unsupported, why)
                .with_hint("the same version of braid for both"));
        }
        Err(_) => return Err(strange("its reply ends early")),
    }
    let body = from.take(from.remaining()).unwrap_or_default();
    match decode_outcome::<TicketReply>(body) {
        Ok(Ok(given)) => Ok(given),
        Ok(Err(failure)) => Err(Error::new(failure.status, failure.to_string())),
        Err(error) => Err(strange(&error.to_string())),
    }
}

fn from_io(error: io::Error) -> Error {
    let status = match error.kind() {
        io::ErrorKind::PermissionDenied => Status::PermissionDenied,
        _ => Status::Unreachable,
    };
    // No socket, or one left behind by a process.
    let absent = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
    Error::new(status, error.to_string())
        .absent(absent)
        .with_hint("braid agent, as the owner of the client key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_is_not_from_an_agent_is_refused() {
        for bad in [
            &b""[..],
            b"BR",
            b"BRDA",
            b"HTTP/1.1 400",
            b"BRDA\x01\x00",
            b"BRDA\x01\x00\x00\x00\x05",
        ] {
            assert_eq!(parse(bad).unwrap_err().status(), Status::Malformed, "{bad:?}");
        }
        assert_eq!(parse(b"BRDA\x02\x00").unwrap_err().status(), Status::Unsupported);
        let refusal = message(&Err(Failure::new(Status::TryAgain, "busy")));
        assert_eq!(parse(&refusal).unwrap_err().status(), Status::TryAgain);
    }
}
