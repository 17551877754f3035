//! SESSION_SETUP and LOGOFF. MS-SMB2 3.3.5.5, 3.3.5.6.

use std::sync::Arc;

use braid_share::Share;
use braid_smb_wire::NtStatus;
use braid_smb_wire::auth::ntlm::{Authenticated, ServerNames};
use braid_smb_wire::protect::{PreauthHash, SessionKeys};
use braid_smb_wire::smb2::Empty;
use braid_smb_wire::smb2::negotiate::SecurityMode;
use braid_smb_wire::smb2::session_setup::{
    SessionFlags, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse,
};
use bytes::Bytes;
use tokio::task::spawn_blocking;

use super::negotiate::now;
use crate::connection::LOGONS_MAX;
use crate::connection::negotiated::Negotiated;
use crate::context::{Context, OpResult, Reply};
use crate::logon::{Outcome, PendingLogon, Refused, Step};
use crate::protection::Protection;
use crate::session::{Logon, Session};
use crate::status::failed;
use crate::users::{NoUser, User};

/// One step of a logon.
pub async fn session_setup<S: Share>(
    context: &Context<S>,
    request: SessionSetupRequest,
) -> OpResult {
    // Several connections of a session come with step 10 of ADR 0052 (3.3.5.5, 4).
    if request.flags.has(SessionSetupFlags::BINDING) {
        return Err(NtStatus::REQUEST_NOT_ACCEPTED);
    }
    let (id, mut logon) = pending(context)?;
    logon.hash(&[&context.message]);
    // Guesses of a password wait for their turn, before they are checked.
    let address = context.connection.peer().ip();
    let mut turn = None;
    if logon.checks_password() {
        turn = context.server.throttle.turn(address).await.ok_or(NtStatus::LOGON_FAILURE)?;
    }
    let (step, found) = take_step(context, logon, &request.security_buffer).await?;
    match step {
        Step::Continue(logon, token) => {
            context.connection.logons().insert(id, *logon);
            let body = SessionSetupResponse { security_buffer: token.into(), ..Default::default() };
            let reply = Reply::new(&body).with_status(NtStatus::MORE_PROCESSING_REQUIRED);
            Ok(Reply { session_id: Some(id), ..reply })
        }
        Step::End(Outcome { result, token, preauth }) => {
            let accepted = accept(context, result, found);
            // A failure counts before the next guess is checked.
            drop(turn);
            let who = match accepted {
                Ok(who) => who,
                Err(status) => {
                    // 3.3.5.5.3: a session whose user fails to log on once more ends.
                    end(context, id).await;
                    return Err(status);
                }
            };
            let flags = begin(context, id, who, &preauth, &request).await?;
            let body = SessionSetupResponse { flags, security_buffer: token.into() };
            Ok(Reply { session_id: Some(id), ..Reply::new(&body) })
        }
    }
}

/// Reads a token; returns the user that it names.
async fn take_step<S: Share>(
    context: &Context<S>,
    logon: Box<PendingLogon>,
    token: &Bytes,
) -> Result<(Step, Result<User, NoUser>), NtStatus> {
    let checks_password = logon.checks_password();
    let (users, token) = (Arc::clone(&context.server.config.users), token.clone());
    let step = move || {
        let mut found = Err(NoUser::Unknown);
        let step = logon.step(&token, |name| {
            let (hash, user) = users.user(name).map_err(|why| found = Err(why)).ok()?;
            found = Ok(user);
            Some(hash)
        });
        (step, found)
    };
    // Only this one looks for a user. The database may be that of a network.
    if !checks_password {
        return Ok(step());
    }
    let _permit = context.server.lookups.acquire().await.expect("it is never closed");
    spawn_blocking(step).await.map_err(|error| {
        tracing::error!(%error, "a look-up of a user");
        NtStatus::LOGON_FAILURE
    })
}

/// The logon that a request continues or begins, which is taken out of the connection.
fn pending<S: Share>(context: &Context<S>) -> Result<(u64, Box<PendingLogon>), NtStatus> {
    let id = context.header.session_id;
    let mut logons = context.connection.logons();
    if let Some(logon) = logons.remove(&id) {
        return Ok((id, Box::new(logon)));
    }
    // 3.3.5.5: a session that there is logs on once more; another number is refused.
    if id != 0 && context.session.is_none() {
        return Err(NtStatus::USER_SESSION_DELETED);
    }
    let limits = &context.server.config.limits;
    if id == 0 && context.connection.session_count() >= limits.sessions_per_connection {
        return Err(NtStatus::INSUFFICIENT_RESOURCES);
    }
    if logons.len() >= LOGONS_MAX {
        let oldest = logons.iter().min_by_key(|(_, logon)| logon.begun).map(|(id, _)| *id);
        oldest.and_then(|id| logons.remove(&id));
    }
    let random = |_| NtStatus::INSUFFICIENT_RESOURCES;
    let id = match id {
        0 => context.server.new_session_id().map_err(random)?,
        id => id,
    };
    let challenge = getrandom::u64().map_err(random)?.to_le_bytes();
    let config = &context.server.config;
    let names = ServerNames {
        netbios_computer: config.server_name.to_uppercase(),
        netbios_domain: config.workgroup.to_uppercase(),
        dns_computer: config.server_name.to_lowercase(),
        dns_domain: String::new(),
    };
    let preauth = context.connection.preauth();
    Ok((id, Box::new(PendingLogon::new(names, challenge, now().0, preauth))))
}

/// The user that has logged on.
struct Who {
    user: User,
    logon: Logon,
    /// Of a user with a password.
    key: Option<[u8; 16]>,
}

/// Decides about the outcome of a logon.
fn accept<S: Share>(
    context: &Context<S>,
    result: Result<Authenticated, Refused>,
    found: Result<User, NoUser>,
) -> Result<Who, NtStatus> {
    let peer = context.connection.peer();
    let config = &context.server.config;
    let guests = config.shares.iter().any(|share| share.guests);
    match (result, found) {
        (Ok(who), _) if who.anonymous && guests => {
            Ok(Who { user: config.users.guest(), logon: Logon::Anonymous, key: None })
        }
        (Ok(who), _) if who.anonymous => {
            tracing::debug!(%peer, "an anonymous logon is refused: no share has guests");
            Err(NtStatus::LOGON_FAILURE)
        }
        (Ok(who), Ok(user)) => {
            context.server.throttle.succeeded(peer.ip(), &who.user);
            tracing::debug!(%peer, user = user.name, "logs on");
            Ok(Who { user, logon: Logon::User, key: Some(who.session_key) })
        }
        // No user of this name, where guests are welcome. A known name needs its password.
        (Err(refused), Err(NoUser::Unknown)) if guests && !refused.user.is_empty() => {
            Ok(Who { user: config.users.guest(), logon: Logon::Guest, key: None })
        }
        (result, found) => {
            let refused = result.err().unwrap_or_else(|| Refused::protocol("no such user"));
            let Refused { user, why } = refused;
            // The password was not compared with anything.
            let why = match found {
                Err(NoUser::Unusable(reason)) => reason,
                _ => why,
            };
            // Without a name, it was no guess of a password.
            let count = match user.is_empty() {
                true => 0,
                false => context.server.throttle.failed(peer.ip(), &user),
            };
            tracing::warn!(%peer, user, why, count, "a logon failed");
            Err(NtStatus::LOGON_FAILURE)
        }
    }
}

/// Begins the session of a user, or goes on with that of a user who has logged on once more.
async fn begin<S: Share>(
    context: &Context<S>,
    id: u64,
    who: Who,
    preauth: &PreauthHash,
    request: &SessionSetupRequest,
) -> Result<SessionFlags, NtStatus> {
    let flags = match who.logon {
        Logon::User => SessionFlags::default(),
        Logon::Guest => SessionFlags::GUEST,
        Logon::Anonymous => SessionFlags::ANONYMOUS,
    };
    if let Some(session) = &context.session {
        // 3.3.5.5.3: the keys stay, and so does the user.
        if session.logon == who.logon && session.user.name == who.user.name {
            return Ok(flags);
        }
        end(context, id).await;
        return Err(NtStatus::ACCESS_DENIED);
    }
    let negotiated = context.connection.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
    let protection = protection(context, negotiated, &who, preauth, request);
    let peer = context.connection.peer().ip().to_string();
    let server = &context.server;
    let machine = server
        .machines
        .session(&server.share, negotiated.client_guid, &peer)
        .await
        .map_err(failed)?;
    let connection = context.connection.number();
    let session =
        Arc::new(Session::new(id, connection, (who.user, who.logon), protection, machine));
    end_previous(context, &session, request.previous_session_id).await;
    server.add_session(session);
    context.connection.add_session(id);
    // The connection may have ended meanwhile, and does not end this session.
    if context.connection.is_closed() {
        end(context, id).await;
        return Err(NtStatus::USER_SESSION_DELETED);
    }
    Ok(flags)
}

fn protection<S: Share>(
    context: &Context<S>,
    negotiated: &Negotiated,
    who: &Who,
    preauth: &PreauthHash,
    request: &SessionSetupRequest,
) -> Protection {
    let Some(key) = who.key else { return Protection::default() };
    let keys = SessionKeys::derive(negotiated.dialect, &key, preauth, negotiated.cipher);
    let mode = SecurityMode(u16::from(request.security_mode));
    // 3.3.5.5.3, Session.SigningRequired.
    let required = context.server.config.require_signing
        || mode.has(SecurityMode::SIGNING_REQUIRED)
        || negotiated.client_security_mode.has(SecurityMode::SIGNING_REQUIRED);
    Protection::new(negotiated, &keys, required)
}

/// Ends the session of a connection that the client has lost. 3.3.5.5.3.
async fn end_previous<S: Share>(context: &Context<S>, new: &Session<S>, previous: u64) {
    let Some(session) = context.server.session(previous) else { return };
    // One of another user is none of the client's, and a guest has proven no name.
    let are_users = session.logon == Logon::User && new.logon == Logon::User;
    if are_users && session.user.name == new.user.name && previous != new.id {
        disconnect(context, previous).await;
    }
}

/// Ends the session.
pub async fn logoff<S: Share>(context: &Context<S>) -> OpResult {
    // 3.3.5.6: durable opens stay.
    disconnect(context, context.session()?.id).await;
    Ok(Reply::new(&Empty))
}

/// Ends a session whose durable opens are kept.
async fn disconnect<S: Share>(context: &Context<S>, id: u64) {
    context.connection.remove_session(id);
    context.server.disconnect_session(id).await;
}

/// Ends a session, which no longer counts for the connection if it is one of it.
async fn end<S: Share>(context: &Context<S>, id: u64) {
    context.connection.remove_session(id);
    context.server.end_session(id).await;
}
