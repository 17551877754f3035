//! Recall of layouts whose data servers have gone or moved. RFC 8881 12.5.5 and 20.3.
//!
//! ```text
//!   every CHECK_INTERVAL: data servers of the cluster ─> devices that name another one or address
//!                          ─> layouts of these devices ─> CB_LAYOUTRECALL ─> LAYOUTRETURN
//! ```
//!
//! Only the cluster's change of its data servers is recalled. Everything else that makes a layout
//! stale is answered `NFS4ERR_STALE` by the data server, and costs the client no more messages than
//! a recall. A data server that is gone answers nothing: Linux then waits for its connection, and
//! uses no layout of the file for 120 s (ADR 0039).
//!
//! Nothing waits for a LAYOUTRETURN. A client that sends none runs into what it would have run into
//! without a recall.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use braid_nfs_wire::nfs4::callback::{
    CallbackArgOp, CallbackResOp, LayoutRecallArgs, LayoutRecallFile, LayoutRecallWhat,
};
use braid_nfs_wire::nfs4::{
    ClientId, DeviceId, LENGTH_TO_END, LayoutIoMode, LayoutType, NfsStatus, StateId,
};
use braid_share::Share;
use tokio::time::{Instant, sleep};

use crate::export::{ExportedFile, Node};
use crate::ops::filehandle::handle_of;
use crate::server::{Client, NfsServer};

/// How often a gateway whose clients have layouts asks for the data servers: one call of the
/// metadata server.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// How long a client may answer DELAY: it has requests in flight that change the layout.
const DELAY_MAX: Duration = Duration::from_secs(10);
/// Pause before a recall is repeated.
const DELAY_PAUSE: Duration = Duration::from_millis(200);

/// Checks the data servers, until it is dropped.
pub async fn watch<S: Share>(server: Arc<NfsServer<S>>) {
    loop {
        sleep(CHECK_INTERVAL).await;
        check(&server).await;
    }
}

/// Recalls all layouts with a data server that is gone, or has other addresses.
async fn check<S: Share>(server: &Arc<NfsServer<S>>) {
    let clients: Vec<_> = server.clients().all_confirmed().cloned().collect();
    let has_layouts =
        |client: &Arc<Client<S>>| client.data().is_some_and(|state| state.states.has_layouts());
    let clients: Vec<_> = clients.into_iter().filter(has_layouts).collect();
    if clients.is_empty() {
        return;
    }
    let servers = match server.share.data_servers().await {
        Ok(servers) => servers,
        Err(error) => {
            tracing::debug!(%error, "the data servers are not known");
            return;
        }
    };
    let stale: HashSet<DeviceId> = server.devices.without(&servers).into_iter().collect();
    if stale.is_empty() {
        return;
    }
    for client in clients {
        let Some(state) = client.data() else { continue };
        let recalled = state.states.recall_layouts(|device| stale.contains(device));
        if !recalled.is_empty() {
            tracing::info!(
                client = client.id().0,
                layouts = recalled.len(),
                "layouts are recalled"
            );
            tokio::spawn(recall_all(Arc::clone(server), client.clone(), recalled));
        }
    }
}

/// One after the other: the client's other callbacks need slots too.
async fn recall_all<S: Share>(
    server: Arc<NfsServer<S>>,
    client: Arc<Client<S>>,
    recalled: Vec<(StateId, ExportedFile)>,
) {
    for (id, file) in recalled {
        let Some(status) = recall(&server, client.id(), id, &file).await else { return };
        // RFC 8881 20.3.3: the client has no such layout, as if it had returned it.
        if status == NfsStatus::NoMatchingLayout
            && let Some(state) = client.data()
        {
            state.states.remove_recalled_layout(&file, id);
        }
    }
}

/// The client's answer; `None` if it cannot be called.
async fn recall<S: Share>(
    server: &Arc<NfsServer<S>>,
    client: ClientId,
    state_id: StateId,
    file: &ExportedFile,
) -> Option<NfsStatus> {
    let handle = handle_of(server, &Node::File(file.clone()));
    let op = CallbackArgOp::LayoutRecall(LayoutRecallArgs {
        layout_type: LayoutType::FILES,
        io_mode: LayoutIoMode::Any,
        // The layout changes, so the client sends what it has buffered elsewhere (RFC 8881 20.3.3).
        changed: true,
        what: LayoutRecallWhat::File(LayoutRecallFile {
            handle,
            offset: 0,
            length: LENGTH_TO_END,
            state_id,
        }),
    });
    let until = Instant::now() + DELAY_MAX;
    loop {
        let status = match server.call_client(client, &op).await {
            Ok(CallbackResOp::LayoutRecall(result)) => result.err().unwrap_or(NfsStatus::Ok),
            Ok(other) => other.status(),
            Err(error) => {
                tracing::debug!(client = client.0, %error, "CB_LAYOUTRECALL");
                return None;
            }
        };
        if status != NfsStatus::Delay || Instant::now() >= until {
            return Some(status);
        }
        sleep(DELAY_PAUSE).await;
    }
}
