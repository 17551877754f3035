//! Sessions of gateways: their records, and how the next start of a gateway continues them. ADR
//! 0040; `session/adoption.rs` has the rules.

use braid_types::{
    Failure, SessionId, Status,
    limits::{
        GATEWAY_NAME_BYTES_MAX, GATEWAY_RECORD_BYTES_MAX, RECLAIM_LOCKS_MAX, RECLAIM_OPENS_MAX,
    },
};
use braid_wire::message::{
    lock::LockRequest,
    mds::{
        AdoptSession, GatewaySession, ListGatewaySessions, ListLocks, ListOpens, OpenSessionReply,
        ReclaimedOpen, SetGatewayRecord,
    },
};

use super::{
    open::{ended, session_of},
    session::CLIENT_BYTES_MAX,
};
use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
    session::{Adoption, ClientSession, GatewayRecord},
};

/// Bytes of the records in one reply. A listing of more has several.
const LISTED_BYTES_MAX: usize = 256 << 10;

impl MdsCore {
    pub(super) fn set_gateway_record(&self, call: Call, r: &SetGatewayRecord) -> CallOutcome {
        let set = check_gateway(&call, &r.gateway).and_then(|()| {
            if r.record.len() > GATEWAY_RECORD_BYTES_MAX {
                let why = format!("a record has at most {GATEWAY_RECORD_BYTES_MAX} bytes");
                return Err(Failure::new(Status::LimitExceeded, why));
            }
            let record =
                GatewayRecord { gateway: r.gateway.as_str().into(), record: r.record[..].into() };
            let (session, owner) = (session_of(&call)?, call.connection.owner);
            self.state().sessions.set_gateway(session, owner, record, call.received_at)
        });
        CallOutcome::from(call, set)
    }

    pub(super) fn list_gateway_sessions(&self, call: Call, r: &ListGatewaySessions) -> CallOutcome {
        let listed = check_gateway(&call, &r.gateway).map(|()| {
            let owner = call.connection.owner;
            let all = self.state().sessions.gateway_sessions(owner, &r.gateway, r.after);
            let mut bytes = 0;
            let some = all.into_iter().take_while(|(_, record)| {
                let fits = bytes < LISTED_BYTES_MAX;
                bytes += record.len() + size_of::<GatewaySession>();
                fits
            });
            some.map(|(session, record)| GatewaySession { session, record: record.to_vec() })
                .collect::<Vec<_>>()
        });
        CallOutcome::from(call, listed)
    }

    pub(super) fn adopt_session(&self, call: Call, r: &AdoptSession) -> CallOutcome {
        let adopted = self.adopt(&call, r);
        let reply: Result<OpenSessionReply, _> =
            adopted.map(|session| self.session_reply(&call, session));
        CallOutcome::from(call, reply)
    }

    fn adopt(
        &self,
        call: &Call,
        AdoptSession { session, holder, again, client }: &AdoptSession,
    ) -> Result<SessionId, Failure> {
        let (session, holder) = (*session, *holder);
        check_gateway_key(call)?;
        call.connection.check_key()?;
        let (owner, now) = (call.connection.owner, call.received_at);
        let mut state = self.state();
        match state.sessions.adopt(session, holder, owner, now)? {
            Adoption::Again(activity) => call.connection.bind(activity).map(|()| session),
            Adoption::Adopted(activity) => {
                let answers = state.locks.end_waits(session);
                drop(state);
                self.answer_locks(answers);
                call.connection.bind(activity).map(|()| session)
            }
            Adoption::NotLive => {
                // The holder reclaims after a restart of this server, as any other client. Another
                // one does not know what to reclaim.
                let recorded = state.sessions.live.recorded(session) == Some(owner);
                if !again || !recorded || !state.sessions.is_in_grace() {
                    let why = format!("session {session} has ended");
                    return Err(Failure::new(Status::NoSession, why));
                }
                drop(state);
                let client = client.chars().take(CLIENT_BYTES_MAX / 4).collect();
                let reclaimed = ClientSession::new(session, owner, client, now, true);
                self.live(call, reclaimed.held_by(holder), true)
            }
        }
    }

    pub(super) fn list_opens(&self, call: Call, r: &ListOpens) -> CallOutcome {
        let listed = session_of(&call).and_then(|session| {
            let state = self.state();
            let live = state.sessions.live.get(session).ok_or_else(|| ended(session))?;
            check_adopted(live.is_adopted())?;
            let opens = live.opens_after(r.after, RECLAIM_OPENS_MAX).into_iter();
            let opens = opens.map(|(open_id, open)| ReclaimedOpen {
                open_id,
                file: open.file,
                rights: open.rights,
                deny: open.deny,
            });
            Ok(opens.collect::<Vec<_>>())
        });
        CallOutcome::from(call, listed)
    }

    pub(super) fn list_locks(&self, call: Call, r: &ListLocks) -> CallOutcome {
        let listed: Result<Vec<LockRequest>, _> = session_of(&call).and_then(|session| {
            let state = self.state();
            let live = state.sessions.live.get(session).ok_or_else(|| ended(session))?;
            check_adopted(live.is_adopted())?;
            Ok(state.locks.locks_after(session, r.after.as_ref(), RECLAIM_LOCKS_MAX))
        });
        CallOutcome::from(call, listed)
    }
}

/// A client knows what it has opened and locked itself. The listings are long.
fn check_adopted(is_adopted: bool) -> Result<(), Failure> {
    let why = "only a session that was continued lists what it has";
    if is_adopted { Ok(()) } else { Err(Failure::new(Status::NotPermitted, why)) }
}

fn check_gateway(call: &Call, gateway: &str) -> Result<(), Failure> {
    check_gateway_key(call)?;
    if gateway.is_empty() || gateway.len() > GATEWAY_NAME_BYTES_MAX {
        let why = format!("the name of a gateway has 1 to {GATEWAY_NAME_BYTES_MAX} bytes");
        return Err(Failure::new(Status::Invalid, why));
    }
    Ok(())
}

/// A gateway acts for all users.
fn check_gateway_key(call: &Call) -> Result<(), Failure> {
    if call.connection.vouches() {
        return Ok(());
    }
    let why = "only the holder of a client key that may act for all users is a gateway";
    Err(Failure::new(Status::NotPermitted, why))
}
