//! RPC calls: programs, versions, procedures, and who calls. RFC 5531.

mod caller;

use std::sync::Arc;

use braid_nfs_wire::nfs4::{NFS_PROGRAM, NFS_VERSION, PROCEDURE_COMPOUND, PROCEDURE_NULL};
use braid_nfs_wire::rpc::auth::{AUTH_TLS, OpaqueAuth, check_starttls};
use braid_nfs_wire::rpc::message::{AcceptStatus, CallHeader, ReplyHeader};
use braid_nfs_wire::xdr::{Decoder, Segment, Xdr};
use braid_share::Share;
use bytes::Bytes;

pub use caller::Caller;

use crate::compound::{self, Request};
use crate::connection::Connection;
use crate::server::NfsServer;

/// A reply to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RpcReply {
    /// The header of the RPC reply.
    pub header: Bytes,
    /// The results of the procedure.
    pub results: Vec<Segment>,
}

impl RpcReply {
    fn new(header: &ReplyHeader, results: Vec<Segment>) -> Self {
        Self { header: header_bytes(header), results }
    }

    /// Bytes of the whole message.
    pub fn len(&self) -> usize {
        self.header.len() + self.results.iter().map(Segment::len).sum::<usize>()
    }

    /// Never: a reply has a header.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn header_bytes(header: &ReplyHeader) -> Bytes {
    header.to_vec().into()
}

/// Executes a call. `None`: the message is no call, and the connection is to be closed.
pub async fn execute<S: Share>(
    server: &Arc<NfsServer<S>>,
    connection: &Arc<Connection>,
    record: Bytes,
) -> Option<RpcReply> {
    let bytes = record.len();
    let mut from = Decoder::new(record);
    let call = match CallHeader::decode(&mut from) {
        Ok(call) => call,
        Err(error) => {
            tracing::debug!(peer = %connection.peer(), %error, "call refused");
            return error.reply().map(|reply| RpcReply::new(&reply, Vec::new()));
        }
    };
    let status = match (call.program, call.version, call.procedure) {
        (NFS_PROGRAM, NFS_VERSION, PROCEDURE_NULL) => return Some(null(&call)),
        (NFS_PROGRAM, NFS_VERSION, PROCEDURE_COMPOUND) => {
            return Some(compound(server, connection, &call, bytes, from).await);
        }
        (NFS_PROGRAM, NFS_VERSION, _) => AcceptStatus::ProcedureUnavailable,
        (NFS_PROGRAM, version, _) => {
            if connection.is_first_mistake() {
                tracing::info!(
                peer = %connection.peer(),
                "a client asked for NFS version {version}; this server has 4.1 and 4.2 only \
                 (mount option vers=4.2)"
                );
            }
            AcceptStatus::ProgramMismatch { low: NFS_VERSION, high: NFS_VERSION }
        }
        _ => AcceptStatus::ProgramUnavailable,
    };
    Some(RpcReply::new(&call.accepted(OpaqueAuth::none(), status), Vec::new()))
}

fn null(call: &CallHeader) -> RpcReply {
    if call.credential.flavor == AUTH_TLS
        && let Err(status) = check_starttls(call)
    {
        return RpcReply::new(&call.denied(status), Vec::new());
    }
    // RFC 9289 4.1: a server without TLS answers with a verifier of AUTH_NONE.
    RpcReply::new(&call.accepted(OpaqueAuth::none(), AcceptStatus::Success), Vec::new())
}

async fn compound<S: Share>(
    server: &Arc<NfsServer<S>>,
    connection: &Arc<Connection>,
    call: &CallHeader,
    bytes: usize,
    arguments: Decoder,
) -> RpcReply {
    let caller = match Caller::authenticate(call, connection.peer().ip()) {
        Ok(caller) => caller,
        Err(status) => {
            if connection.is_first_mistake() {
                let (peer, flavor) = (connection.peer(), call.credential.flavor);
                tracing::info!(%peer, flavor, ?status, "a call's credential was refused");
            }
            return RpcReply::new(&call.denied(status), Vec::new());
        }
    };
    let header = header_bytes(&call.accepted(OpaqueAuth::none(), AcceptStatus::Success));
    let request = Request { caller: &caller, bytes, reply_header_bytes: header.len(), arguments };
    match compound::run(server, connection, request).await {
        Ok(results) => RpcReply { header, results },
        Err(compound::BadArguments) => {
            let status = AcceptStatus::GarbageArguments;
            RpcReply::new(&call.accepted(OpaqueAuth::none(), status), Vec::new())
        }
    }
}
