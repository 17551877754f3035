//! Resident memory of the daemons.

use anyhow::Result;
use braid_client::{OpenOptions, TlsPolicy};
use braid_testbed::stats::Summary;

use super::{
    create_parallel::create_with_threads,
    target::{self, CALL_BYTES},
};
use crate::{
    bench::Bench,
    daemons::{Resident, resident_bytes},
    measure::Measure,
};

/// Number of connected clients, each with its own connections.
const CLIENTS: u32 = 16;
/// Bytes that each writes and reads.
const CLIENT_BYTES: u64 = 64 << 20;
/// Maximum memory of an I/O daemon, and the addition for each connection.
const IOD_BYTES_MAX: u64 = 32 << 20;
const CONNECTION_BYTES_MAX: u64 = 2 << 20;
/// Maximum memory of the metadata server, and the addition for each inode in its memory.
const MDS_BYTES_MAX: u64 = 64 << 20;
const INODE_BYTES_MAX: u64 = 400;
const MIB: f64 = 1_048_576.0;

/// `memory`.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let mut measures = mds(bench)?;
    measures.extend(iods(bench)?);
    Ok(measures)
}

/// Measured while clients are connected that have all written and read.
fn iods(bench: &Bench) -> Result<Vec<Measure>> {
    let cluster = bench.cluster()?;
    let clients =
        (0..CLIENTS).map(|_| cluster.client(TlsPolicy::default())).collect::<Result<Vec<_>>>()?;
    let mut buffer = vec![0x5a; CALL_BYTES];
    let mut files = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        let options = OpenOptions::new().read(true).write(true).create(true);
        let file = client.open(format!("/memory{number}"), &options)?;
        target::write(&file, CLIENT_BYTES, &buffer)?;
        target::read(&file, CLIENT_BYTES, &mut buffer)?;
        files.push(file);
    }
    let connections = cluster.iod_metric("braid_iod_connections")?;
    let mut measures = Vec::new();
    for (ordinal, (pid, connections)) in cluster.iod_pids().into_iter().zip(connections).enumerate()
    {
        let limit = IOD_BYTES_MAX + connections * CONNECTION_BYTES_MAX;
        let Resident { own, mapped } = resident_bytes(pid)?;
        let resident = Summary::once((own + mapped) as f64 / MIB);
        measures.push(
            Measure::new(format!("memory.iod{ordinal}"), "MiB", resident)
                .at_most(limit as f64 / MIB, format!("32 MiB + {connections} connections x 2 MiB")),
        );
    }
    Ok(measures)
}

/// Measured after inodes were created. The server reports how many are in memory; the pages of its
/// base are page cache, and shown separately.
fn mds(bench: &Bench) -> Result<Vec<Measure>> {
    let cluster = bench.cluster()?;
    let client = cluster.client(TlsPolicy::default())?;
    client.mkdir("/memory", 0o755)?;
    create_with_threads(&client, "/memory", "", 16, bench.size(20_000_u32, 1_000))?;
    let Resident { own, mapped } = resident_bytes(cluster.mds_pid())?;
    let inodes = cluster.mds_metric("braid_mds_inodes_cached")?;
    let limit = MDS_BYTES_MAX + inodes * INODE_BYTES_MAX;
    let once = |bytes: u64| Summary::once(bytes as f64 / MIB);
    Ok(vec![
        Measure::new("memory.mds", "MiB", once(own))
            .at_most(limit as f64 / MIB, format!("64 MiB + {inodes} cached inodes x 400 B")),
        Measure::new("memory.mds.mapped_base", "MiB", once(mapped)),
    ])
}
