//! Continues the sessions of an earlier start of the gateway. ADR 0040.

use std::sync::Arc;

use braid_client::{AdoptedSession, LockSpace, message::mds::GatewaySession};
use braid_types::SessionId;
use tokio::task::JoinSet;

use super::{ClusterClient, ClusterShare, session::Session};
use crate::{AdoptedClient, AdoptedOpen, Lock, OpenMode, Result, ShareClient};

/// Sessions that are adopted at the same time: each is some round trips to the metadata server.
const ADOPTIONS_MAX: usize = 32;

/// What became of a session of an earlier start.
type Adopted = Option<AdoptedClient<ClusterClient>>;

pub(super) async fn adopt_clients(
    share: &ClusterShare,
) -> Result<Vec<AdoptedClient<ClusterClient>>> {
    let Some(name) = share.name() else { return Ok(Vec::new()) };
    let holder = share.own().session();
    let mut found = share.own().library().gateway_sessions(name).await?;
    found.retain(|session| session.session < holder);
    let (mut running, mut adopted) = (JoinSet::new(), Vec::new());
    let keep = |done: Option<std::result::Result<Adopted, _>>, adopted: &mut Vec<_>| {
        adopted.extend(done.and_then(std::result::Result::ok).flatten());
    };
    for session in found {
        if running.len() >= ADOPTIONS_MAX {
            keep(running.join_next().await, &mut adopted);
        }
        running.spawn(adopt(share.clone(), session, holder));
    }
    while !running.is_empty() {
        keep(running.join_next().await, &mut adopted);
    }
    Ok(adopted)
}

/// Continues one session. `None` if it cannot be continued: then it ends.
async fn adopt(share: ClusterShare, found: GatewaySession, holder: SessionId) -> Adopted {
    let GatewaySession { session, record } = found;
    let adopted = Some(AdoptedSession { session, holder });
    let client_name = format!("client of the gateway {}", share.name().unwrap_or_default());
    let config = share.client_config(client_name, record.clone(), adopted);
    let begun = match Session::begin(config, Arc::clone(share.losses())).await {
        Ok(begun) => begun,
        Err(error) => {
            tracing::warn!(%session, %error, "a session of the earlier start is not continued");
            return None;
        }
    };
    // The earlier start itself has no clients.
    let listed = if record.is_empty() { None } else { list(&begun).await };
    match listed {
        Some((opens, locks)) if begun.id() == session => {
            Some(AdoptedClient { client: ClusterClient::new(begun), record, opens, locks })
        }
        _ => {
            begun.end().await;
            None
        }
    }
}

type Listed = (Vec<AdoptedOpen>, Vec<(braid_types::FileIndex, Lock)>);

async fn list(session: &Arc<Session>) -> Option<Listed> {
    // The earlier start may have had delegations. They are revoked when something conflicts.
    if let Err(error) = session.receive_recalls() {
        tracing::warn!(%error, "recalls of a session cannot be received; it ends");
        return None;
    }
    let opens = session.client().adopt_opens().await;
    let locks = session.client().adopt_locks().await;
    let (opens, locks) = match opens.and_then(|opens| Ok((opens, locks?))) {
        Ok(listed) => listed,
        Err(error) => {
            tracing::warn!(%error, "what a session has open cannot be listed; it ends");
            return None;
        }
    };
    let opens = opens.into_iter().map(|open| AdoptedOpen {
        number: open.open_id,
        file: open.file,
        mode: OpenMode { rights: open.rights, deny: open.deny },
    });
    let locks = locks.into_iter().filter(|lock| lock.space == LockSpace::Range).map(|lock| {
        let (owner, exclusive) = (lock.owner, lock.exclusive);
        (lock.file, Lock { owner, start: lock.start, last: lock.last, exclusive })
    });
    Some((opens.collect(), locks.collect()))
}
