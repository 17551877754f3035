//! RPC calls: programs, versions, procedures, and the user that calls. RFC 5531.

mod caller;
pub mod kerberos;

use std::sync::Arc;

use braid_nfs_wire::nfs4::{NFS_PROGRAM, NFS_VERSION, PROCEDURE_COMPOUND, PROCEDURE_NULL};
use braid_nfs_wire::rpc::auth::{AUTH_TLS, OpaqueAuth, RPCSEC_GSS, check_starttls};
use braid_nfs_wire::rpc::gss::HANDLE_BYTES;
use braid_nfs_wire::rpc::message::{AcceptStatus, CallHeader, CallMessage, ReplyHeader};
use braid_nfs_wire::xdr::{Decoder, Encoder, Segment, Xdr};
use braid_share::Share;
use bytes::Bytes;

pub use caller::Caller;
use kerberos::{AuthenticatorOutcome, Kerberos};

use crate::compound::{self, ReplyMemory, Request, Results};
use crate::connection::Connection;
use crate::server::NfsServer;

/// Bytes that RPCSEC_GSS adds to a reply: the header with a MIC, and the MIC or the padding of the
/// results. Kerberos' tokens have 28 to 60 bytes.
const GSS_REPLY_BYTES: usize = 24 + 64 + 80;

/// Clients of NFSv3 ask this program for the first file handle. RFC 1813, appendix I.
const MOUNT_PROGRAM: u32 = 100_005;

/// A message to send.
#[derive(Debug)]
pub struct RpcReply {
    /// The header of the RPC reply.
    pub header: Bytes,
    /// The results of the procedure.
    pub results: Vec<Segment>,
    /// The memory that the results take, until they are sent.
    pub(crate) memory: ReplyMemory,
}

/// What follows a call.
#[derive(Debug)]
pub enum Answer {
    /// This reply.
    Reply(RpcReply),
    /// Nothing: RPCSEC_GSS drops what it has seen before.
    Nothing,
    /// The end of the connection: the message is no call, or its reply cannot be protected.
    Close,
}

impl RpcReply {
    fn without_results(header: &ReplyHeader) -> Answer {
        let header = header.to_bytes().into();
        let memory = ReplyMemory::default();
        Answer::Reply(Self { header, results: Vec::new(), memory })
    }
}

/// Executes a call.
pub async fn execute<S: Share>(
    server: &Arc<NfsServer<S>>,
    connection: &Arc<Connection>,
    record: Bytes,
) -> Answer {
    let bytes = record.len();
    let call = match CallMessage::decode(record) {
        Ok(call) => call,
        Err(error) => {
            tracing::debug!(peer = %connection.peer(), %error, "call refused");
            return error.reply().map_or(Answer::Close, |reply| RpcReply::without_results(&reply));
        }
    };
    let header = &call.header;
    let status = match (header.program, header.version, header.procedure) {
        (NFS_PROGRAM, NFS_VERSION, PROCEDURE_NULL | PROCEDURE_COMPOUND) => {
            return authenticate(server, connection, call, bytes).await;
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
        (program, ..) => {
            if program == MOUNT_PROGRAM && connection.is_first_mistake() {
                tracing::info!(
                    peer = %connection.peer(),
                    "a client asked for the MOUNT protocol of NFS version 3; this server has 4.1 \
                     and 4.2 only (mount option vers=4.2)"
                );
            }
            AcceptStatus::ProgramUnavailable
        }
    };
    RpcReply::without_results(&header.accepted(OpaqueAuth::none(), status))
}

/// Finds the caller, and executes the procedure.
async fn authenticate<S: Share>(
    server: &Arc<NfsServer<S>>,
    connection: &Arc<Connection>,
    call: CallMessage,
    bytes: usize,
) -> Answer {
    if call.header.credential.flavor == RPCSEC_GSS
        && let Some(kerberos) = server.kerberos()
    {
        return protected(server, kerberos, connection, call, bytes).await;
    }
    if call.header.procedure == PROCEDURE_NULL {
        return null(&call.header);
    }
    let caller = match Caller::authenticate(&call.header, connection.peer().ip()) {
        Ok(caller) => caller,
        Err(status) => {
            if connection.is_first_mistake() {
                let (peer, flavor) = (connection.peer(), call.header.credential.flavor);
                tracing::info!(%peer, flavor, ?status, "a call's credential was refused");
            }
            return RpcReply::without_results(&call.header.denied(status));
        }
    };
    let accepted = call.header.accepted(OpaqueAuth::none(), AcceptStatus::Success);
    let header: Bytes = accepted.to_bytes().into();
    let request = Request {
        caller: &caller,
        bytes,
        reply_header_bytes: header.len(),
        arguments: Decoder::new(call.arguments),
    };
    match compound::run(server, connection, request).await {
        Ok(Results { segments: results, memory }) => {
            Answer::Reply(RpcReply { header, results, memory })
        }
        Err(compound::BadArguments) => {
            let status = AcceptStatus::GarbageArguments;
            RpcReply::without_results(&call.header.accepted(OpaqueAuth::none(), status))
        }
    }
}

fn null(call: &CallHeader) -> Answer {
    if call.credential.flavor == AUTH_TLS
        && let Err(status) = check_starttls(call)
    {
        return RpcReply::without_results(&call.denied(status));
    }
    // RFC 9289 4.1: a server without TLS answers with a verifier of AUTH_NONE.
    RpcReply::without_results(&call.accepted(OpaqueAuth::none(), AcceptStatus::Success))
}

/// A call with RPCSEC_GSS. RFC 2203 5.3.
async fn protected<S: Share>(
    server: &Arc<NfsServer<S>>,
    kerberos: &Kerberos,
    connection: &Arc<Connection>,
    call: CallMessage,
    bytes: usize,
) -> Answer {
    let procedure = call.header.procedure;
    let now = std::time::Duration::from_millis(server.now().0);
    let authenticator = Arc::clone(kerberos.authenticator());
    let outcome = if procedure == PROCEDURE_NULL {
        let mut handle = [0; HANDLE_BYTES];
        if getrandom::fill(&mut handle).is_err() {
            return Answer::Close;
        }
        // The creation of a context reads the keytab and the replay cache.
        let created = move || authenticator.receive(&call, now, handle);
        match tokio::task::spawn_blocking(created).await {
            Ok(outcome) => outcome,
            Err(_) => return Answer::Close,
        }
    } else {
        // RFC 2203 5.2.2: contexts are created with the NULL procedure only.
        authenticator.receive(&call, now, [0; HANDLE_BYTES])
    };
    let call = match outcome {
        AuthenticatorOutcome::Execute(call) => call,
        AuthenticatorOutcome::Reply(message) => return send(message, ReplyMemory::default()),
        AuthenticatorOutcome::Drop => return Answer::Nothing,
    };
    let mut memory = ReplyMemory::default();
    let message = if procedure == PROCEDURE_NULL {
        call.reply(Encoder::new())
    } else {
        let address = connection.peer().ip();
        let identity = kerberos.identity(call.principal()).await;
        let caller = Caller::with_kerberos(&*call, identity, address);
        let request = Request {
            caller: &caller,
            bytes,
            reply_header_bytes: GSS_REPLY_BYTES,
            arguments: Decoder::new(call.arguments().clone()),
        };
        match compound::run(server, connection, request).await {
            Ok(results) => {
                memory = results.memory;
                call.reply(encoder_of(results.segments))
            }
            Err(compound::BadArguments) => {
                call.reply_without_results(AcceptStatus::GarbageArguments)
            }
        }
    };
    match message {
        Ok(message) => send(message, memory),
        Err(error) => {
            // RFC 2203 5.3.3.4: there is no reply. The client repeats the call with a new context.
            tracing::debug!(peer = %connection.peer(), %error, "a reply was not protected");
            Answer::Close
        }
    }
}

fn send(message: Encoder, memory: ReplyMemory) -> Answer {
    Answer::Reply(RpcReply { header: Bytes::new(), results: message.into_segments(), memory })
}

/// The results as RPCSEC_GSS takes them.
fn encoder_of(results: Vec<Segment>) -> Encoder {
    let mut to = Encoder::new();
    for segment in results {
        // This server makes no external segments.
        if let Segment::Bytes(bytes) = segment {
            to.raw(bytes);
        }
    }
    to
}
