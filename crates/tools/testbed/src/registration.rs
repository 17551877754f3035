//! Waiting for I/O daemons: each listens before it has registered with the metadata server.

use std::time::Duration;

use anyhow::{Context, Result};
use braid_client::{Client, message::types::IodState};

use crate::wait::until;

/// Number of I/O daemons that the cluster map shows as up.
///
/// # Errors
/// The metadata server is not reached.
pub fn count_up(client: &Client) -> Result<usize> {
    let map = client.cluster_map()?;
    Ok(map.iods.iter().filter(|iod| iod.state == IodState::Up).count())
}

/// Waits until the cluster map shows at least `wanted` I/O daemons as up.
///
/// # Errors
/// After `limit`, with the number of daemons that are up, or if the metadata server is not reached.
pub fn wait_until_up(client: &Client, wanted: usize, limit: Duration) -> Result<()> {
    let mut up = 0;
    let all = until("all I/O daemons are up", limit, || {
        up = count_up(client)?;
        Ok(up >= wanted)
    });
    all.map(drop).with_context(|| format!("{up} of {wanted} I/O daemons are up; try: their logs"))
}
