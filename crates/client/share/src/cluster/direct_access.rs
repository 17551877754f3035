//! File handles and addresses for clients that reach the stripes of a file by NFS (ADR 0037).

use braid_client::asynchronous::File;
use braid_net::Tokio;
use braid_types::{ByteCount, Status};
use braid_wire::{
    NFS_ADDRESS_LABEL, NFS_STRIPE_UNIT, Rights,
    message::{
        mds::DataServerHandlesReply,
        types::{ClusterMap, IodInfo, IodState},
    },
    nfs_layout,
};

use super::session::Client;
use crate::{DataServer, DirectAccess, Result};

/// Handles and addresses for an open file; `None` where its layout cannot be expressed, or where a
/// daemon does not serve NFS now.
pub(super) async fn get(
    client: &Client,
    file: &File<Tokio>,
    write: bool,
) -> Result<Option<DirectAccess>> {
    let Some(reply) = handles(file, write).await? else { return Ok(None) };
    let Some(access) = described(reply, &client.cluster_map().await?) else { return Ok(None) };
    if write {
        // Name, inode and size mark are durable before the first byte is written past this gateway,
        // so that COMMIT at a data server is enough (I6).
        file.sync().await?;
    }
    Ok(Some(access))
}

async fn handles(file: &File<Tokio>, write: bool) -> Result<Option<DataServerHandlesReply>> {
    // One layout serves a client's reads and writes, as far as its open allows both.
    let wanted: &[Rights] =
        if write { &[Rights::READ_WRITE, Rights::WRITE] } else { &[Rights::READ] };
    for rights in wanted {
        match file.data_server_handles(*rights).await {
            Ok(reply) => return Ok(Some(reply)),
            Err(error) if error.status() == Status::Unsupported => return Ok(None),
            Err(error) if error.status() == Status::Invalid && *rights == Rights::READ_WRITE => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn described(reply: DataServerHandlesReply, map: &ClusterMap) -> Option<DirectAccess> {
    let DataServerHandlesReply { handles, layout } = reply;
    let (units, first_part) = nfs_layout(&layout)?;
    let mut servers = Vec::with_capacity(handles.len());
    for (_, placement) in layout.placements() {
        let iod = *placement.iods.first()?;
        servers.push(data_server(map.iods.iter().find(|known| known.id == iod)?)?);
    }
    // The unit of a file in one part has no meaning but must be one.
    let stripe_bytes = ByteCount(u64::from(units.max(1)) * NFS_STRIPE_UNIT);
    Some(DirectAccess { stripe_bytes, servers, first_part: first_part.into(), handles })
}

/// All daemons that serve NFS now.
pub(super) async fn data_servers(client: &Client) -> Result<Vec<DataServer>> {
    Ok(client.cluster_map().await?.iods.iter().filter_map(data_server).collect())
}

/// A daemon that serves NFS now.
fn data_server(known: &IodInfo) -> Option<DataServer> {
    let is_up = matches!(known.state, IodState::Up | IodState::Draining);
    let addresses: Vec<String> = known
        .labels
        .iter()
        .filter_map(|label| label.strip_prefix(NFS_ADDRESS_LABEL)?.strip_prefix('='))
        .map(str::to_owned)
        .collect();
    (is_up && !addresses.is_empty()).then_some(DataServer { iod: known.id, addresses })
}
