//! CREATE_SESSION. RFC 8881 18.36.

use std::sync::Arc;

use braid_nfs_wire::nfs4::args::{ChannelAttributes, CreateSessionArgs};
use braid_nfs_wire::nfs4::results::CreateSessionResult;
use braid_nfs_wire::nfs4::{
    ClientId, CreateSessionFlags, NfsResult, NfsStatus, OpNumber, SessionId,
};
use braid_nfs_wire::rpc::record::RECORD_BYTES_MAX;
use braid_share::{ClientRecord, Share, ShareClient};

use super::check_protection;
use crate::backchannel::BackChannel;
use crate::compound::CompoundState;
use crate::ops::delegation;
use crate::recovery::Former;
use crate::server::{Client, NfsServer, ServerSession};
use crate::state::client_state::ClientState;
use crate::state::clients::{BeginSession, encode_record};
use crate::state::sessions::{ChannelLimits, Session, negotiate_back, negotiate_fore};
use crate::status::nfs_status;

/// Longest name of a client in `braid status`.
const NAME_CHARS_MAX: usize = 128;

/// CREATE_SESSION: makes a session, and confirms the client.
pub async fn create_session<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: CreateSessionArgs,
) -> NfsResult<CreateSessionResult> {
    let server = state.server;
    let defined = CreateSessionFlags::PERSIST
        | CreateSessionFlags::CONN_BACK_CHAN
        | CreateSessionFlags::CONN_RDMA;
    if args.flags.without(defined) != CreateSessionFlags::empty() {
        return Err(NfsStatus::Inval);
    }
    // Before the sequence number is processed: a refused size does not use it up.
    let slots_max = server.sessions().slots_max();
    let message_max = RECORD_BYTES_MAX as u32;
    let fore = negotiate_fore(limits(&args.fore_channel), message_max, slots_max)?;
    let back = negotiate_back(limits(&args.back_channel))?;

    let (id, principal, now) = (args.client_id, &state.caller.principal, server.now());
    let known = server.clients().client(id).cloned();
    let known = known.ok_or(NfsStatus::StaleClientId)?;
    check_protection::<S>(&known, state.caller, OpNumber::CreateSession)?;
    let begun = server.clients().begin_session(id, args.sequence.0, principal, now)?;
    let client = match begun {
        BeginSession::Replay(result) => return Ok(result),
        BeginSession::Create(client) => client,
    };
    let creation = Creation { server, id, finished: false };
    confirm(server, &client).await?;

    let with_back_channel = args.flags.contains(CreateSessionFlags::CONN_BACK_CHAN);
    let flags = args.flags & CreateSessionFlags::CONN_BACK_CHAN;
    let session_id = new_session_id()?;
    let (program, security) = (args.callback_program, args.callback_security);
    let back_channel = BackChannel::new(session_id, state.minor_version, back, program, security);
    let session = Session::new(session_id, client, fore, back_channel);
    let session: Arc<ServerSession<S>> = Arc::new(session);
    let result = CreateSessionResult {
        session_id: session.id(),
        sequence: args.sequence,
        flags,
        fore_channel: attributes(&fore),
        back_channel: attributes(&back),
    };
    server.sessions().insert(Arc::clone(&session));
    if let Err(status) = creation.finish(session.id(), result) {
        server.remove_session(&session.id());
        return Err(status);
    }
    // RFC 8881 18.36.3: the connection is associated with the new session.
    state.connection.bind(session.id());
    if with_back_channel {
        session.back().bind(state.connection);
    }
    Ok(result)
}

/// Begins the client's session at the metadata server, if this is its first session.
async fn confirm<S: Share>(server: &Arc<NfsServer<S>>, client: &Arc<Client<S>>) -> NfsResult<()> {
    if client.data().is_some() {
        return Ok(());
    }
    let former = server.recovery().take(client.owner(), client.verifier(), client.principal())?;
    let mut is_adopted = false;
    let data = match former {
        // RFC 8881 8.4.2: the instance was confirmed before the restart, and reclaims now.
        Former::Same(adopted) => {
            is_adopted = true;
            ClientState::adopted(adopted, server.epoch)
        }
        Former::Earlier(adopted) => {
            adopted.client.end().await;
            begin(server, client).await?
        }
        Former::None => begin(server, client).await?,
    };
    let now = server.now();
    let confirmed = server.clients().confirm(client.id(), data, now);
    match confirmed {
        Ok(removed) => {
            // RFC 8881 18.36.4: the state of the former instance is gone before the reply.
            for removed in removed {
                server.end_client(removed).await;
            }
            if is_adopted {
                delegation::receive_recalls(server, client);
            }
            Ok(())
        }
        Err((status, state)) => {
            if status == NfsStatus::Delay {
                tracing::warn!("a client was refused: there are too many with valid leases");
            }
            state.end().await;
            Err(status)
        }
    }
}

async fn begin<S: Share>(
    server: &Arc<NfsServer<S>>,
    client: &Arc<Client<S>>,
) -> NfsResult<ClientState<S>> {
    let record = ClientRecord { name: name_of(client.owner()), record: encode_record(client) };
    let begun = server.share.begin_client(record).await.map_err(|error| {
        tracing::warn!(%error, "no session for an NFS client at the metadata server");
        nfs_status(error.status())
    })?;
    Ok(ClientState::new(begun, server.epoch))
}

/// Printable characters of the owner, for people.
fn name_of(owner: &[u8]) -> String {
    let text = String::from_utf8_lossy(owner);
    text.chars().filter(|char| !char.is_control()).take(NAME_CHARS_MAX).collect()
}

/// Random, so that nobody guesses the session of another client.
fn new_session_id() -> NfsResult<SessionId> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|_| NfsStatus::ServerFault)?;
    Ok(SessionId(id))
}

fn limits(channel: &ChannelAttributes) -> ChannelLimits {
    ChannelLimits {
        request_bytes: channel.max_request_size,
        reply_bytes: channel.max_response_size,
        cached_reply_bytes: channel.max_response_size_cached,
        operations: channel.max_operations,
        slots: channel.max_requests,
    }
}

fn attributes(limits: &ChannelLimits) -> ChannelAttributes {
    ChannelAttributes {
        header_pad_size: 0,
        max_request_size: limits.request_bytes,
        max_response_size: limits.reply_bytes,
        max_response_size_cached: limits.cached_reply_bytes,
        max_operations: limits.operations,
        max_requests: limits.slots,
        rdma_ird: None,
    }
}

/// A CREATE_SESSION that runs. Dropped without [`Creation::finish`], it is abandoned.
struct Creation<'a, S: Share> {
    server: &'a Arc<NfsServer<S>>,
    id: ClientId,
    /// Another CREATE_SESSION of the client may run when this is dropped.
    finished: bool,
}

impl<S: Share> Creation<'_, S> {
    fn finish(mut self, session: SessionId, result: CreateSessionResult) -> NfsResult<()> {
        self.finished = true;
        self.server.clients().finish_session(self.id, session, result)
    }
}

impl<S: Share> Drop for Creation<'_, S> {
    fn drop(&mut self) {
        if !self.finished {
            self.server.clients().abandon_session(self.id);
        }
    }
}
