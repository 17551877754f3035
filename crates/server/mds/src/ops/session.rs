//! Sessions: begin, join, reclaim, renew and close.

use std::sync::Arc;

use braid_types::{Failure, SessionId, Status, limits::SESSION_SILENT_MS};
use braid_wire::{
    Credential,
    message::{
        mds::{AgentCheckReply, DefineIdentity, OpenSession, OpenSessionReply, RenewReply},
        types::ClusterMap,
    },
};

use crate::{
    call::{Call, CallOutcome},
    convert,
    core::MdsCore,
    session::{ClientSession, Owner, SESSION_SLOTS},
};

/// Bytes of a client's name.
pub(super) const CLIENT_BYTES_MAX: usize = 256;

impl MdsCore {
    pub(super) fn open_session(&self, call: Call, r: &OpenSession) -> CallOutcome {
        let opened = match r.session {
            None => self.begin_session(&call, &r.client),
            Some(session) => self.take_part(&call, session, &r.client),
        };
        let reply = opened.map(|session| self.session_reply(&call, session));
        CallOutcome::from(call, reply)
    }

    fn begin_session(&self, call: &Call, client: &str) -> Result<SessionId, Failure> {
        call.connection.check_unbound()?;
        let client: String = client.chars().take(CLIENT_BYTES_MAX / 4).collect();
        let owner = call.connection.owner;
        self.state().sessions.live.check_limit(owner)?;
        let id = self.namespace.begin_session(owner.key, owner.user, &client)?.session;
        // After a loss of power, an id that was returned must not be assigned to another client.
        self.namespace.sync()?;
        let session = ClientSession::new(id, owner, client, call.received_at, false);
        let begun = self.live(call, session, false);
        if begun.is_err() {
            self.fence_unused(id);
            self.end_in_store(id);
        }
        begun
    }

    /// Joins a live session with another connection, or reclaims one from before the restart.
    fn take_part(&self, call: &Call, id: SessionId, client: &str) -> Result<SessionId, Failure> {
        let gone =
            || Failure::new(Status::NoSession, format!("session {id} has ended; open a new one"));
        let owner = call.connection.owner;
        let state = self.state();
        if let Some(session) = state.sessions.live.get(id) {
            let activity = session.activity.clone();
            // The next start of the gateway has adopted it: this is the earlier one.
            if session.owner != owner || session.is_adopted() {
                return Err(gone());
            }
            call.connection.check_key()?;
            activity.note_activity(call.received_at);
            call.connection.bind(activity)?;
            return Ok(id);
        }
        // The same answer for a session that does not exist and for that of another owner.
        if state.sessions.live.recorded(id) != Some(owner) || !state.sessions.is_in_grace() {
            return Err(gone());
        }
        drop(state);
        let session = ClientSession::new(
            id,
            owner,
            client.chars().take(CLIENT_BYTES_MAX / 4).collect(),
            call.received_at,
            true,
        );
        self.live(call, session, true)
    }

    pub(super) fn live(
        &self,
        call: &Call,
        session: ClientSession<braid_net::server::Responder>,
        is_reclaimed: bool,
    ) -> Result<SessionId, Failure> {
        let session = session.with_handles_since(self.epoch);
        let id = session.id;
        let mut state = self.state();
        // A revocation ends the sessions that it finds. For one that begins later, the key is
        // checked here.
        call.connection.check_key()?;
        // Another connection of the client may have reclaimed the session meanwhile. It is not
        // replaced, because that connection reports its activity to it.
        let reclaimed = state.sessions.live.get(id).filter(|live| live.owner == session.owner);
        match reclaimed.map(|live| (live.activity.clone(), live.holder())) {
            Some((_, holder)) if holder != session.holder() => {
                let why = format!("another start of the gateway has session {id}");
                return Err(Failure::new(Status::NoSession, why));
            }
            Some((activity, _)) => call.connection.bind(activity)?,
            None => {
                // The grace period, or the session, may have ended since it was looked up.
                let recorded = state.sessions.live.recorded(id) == Some(session.owner);
                if is_reclaimed && !(recorded && state.sessions.is_in_grace()) {
                    let why = format!("session {id} has ended; open a new one");
                    return Err(Failure::new(Status::NoSession, why));
                }
                call.connection.bind(session.activity.clone())?;
                state.sessions.begin(session);
            }
        }
        Ok(id)
    }

    pub(super) fn session_reply(&self, call: &Call, session: SessionId) -> OpenSessionReply {
        let Owner { key, user } = call.connection.owner;
        let credential = Credential::Session { session, key, user, epoch: self.epoch };
        OpenSessionReply {
            session,
            key,
            user,
            epoch: self.epoch,
            secret: credential.secret(&self.key).to_bytes(),
            slots: SESSION_SLOTS,
            identity: convert::wire_identity(&call.who),
            vouches: call.connection.vouches(),
            silent_ms_max: SESSION_SILENT_MS as u32,
            map: self.state().cluster.map(),
        }
    }

    pub(super) fn close_session(&self, call: Call) -> CallOutcome {
        if let (Some(session), Some(me)) = (call.session, self.arc()) {
            Arc::clone(&me).close_session_now(session);
        }
        CallOutcome::from(call, Ok(()))
    }

    pub(super) fn define_identity(&self, call: Call, r: &DefineIdentity) -> CallOutcome {
        let defined = call.connection.define(r.number, convert::stored_identity(&r.identity));
        CallOutcome::from(call, defined)
    }

    pub(super) fn renew(&self, call: Call) -> CallOutcome {
        let map_epoch = self.state().cluster.epoch();
        CallOutcome::from(call, Ok(RenewReply { epoch: self.epoch, map_epoch }))
    }

    pub(super) fn cluster_map(&self, call: Call) -> CallOutcome {
        let map: ClusterMap = self.state().cluster.map();
        CallOutcome::from(call, Ok(map))
    }

    pub(super) fn agent_check(&self, call: Call) -> CallOutcome {
        let (session, key, epoch) =
            (call.session.unwrap_or_default(), call.connection.owner.key, self.epoch);
        let vouches = call.connection.vouches();
        let check = vouches.then_some(AgentCheckReply { session, key, epoch });
        CallOutcome::from(
            call,
            check.ok_or_else(|| {
                Failure::new(Status::NotPermitted, "only the holder of a client key is an agent")
            }),
        )
    }
}
