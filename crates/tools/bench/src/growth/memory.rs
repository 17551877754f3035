//! Memory by kind.

use anyhow::Result;

use crate::daemons::{Cluster, resident_bytes};

/// Memory that processes use for themselves; mapped pages of files are page cache and do not count.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Memory {
    /// One client.
    pub client: u64,
    /// The metadata server.
    pub mds: u64,
    /// The I/O daemon with the most memory.
    pub iod: u64,
    /// All I/O daemons together.
    pub iods: u64,
}

/// The current values; the client is this program, less the `buffers` of its calls.
pub fn now(cluster: &Cluster, buffers: u64) -> Result<Memory> {
    let own = |pid| Ok(resident_bytes(pid)?.own);
    let iods = cluster.iod_pids().into_iter().map(own).collect::<Result<Vec<u64>>>()?;
    Ok(Memory {
        client: own(std::process::id())?.saturating_sub(buffers),
        mds: own(cluster.mds_pid())?,
        iod: iods.iter().copied().max().unwrap_or_default(),
        iods: iods.iter().sum(),
    })
}
