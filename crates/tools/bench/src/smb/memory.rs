//! Resident memory of a gateway: without clients, with clients, and with open files.

use anyhow::Result;
use braid_testbed::stats::Summary;

use super::{
    client::{Connection, Protection},
    servers::Servers,
};
use crate::{bench::Bench, daemons::resident_bytes, measure::Measure};

const BASE_BYTES_MAX: u64 = 64 << 20;
const CLIENT_BYTES_MAX: u64 = 128 << 10;
const OPEN_BYTES_MAX: u64 = 1 << 10;
/// Clients that hold the open files.
const OPENERS: u64 = 10;
const MIB: f64 = (1_u64 << 20) as f64;

/// `memory`: each client has a connection, a session and a share, and has asked for a file.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let servers = Servers::start(bench, 1)?;
    let (steps, opens) = bench.size(([0, 100, 1000], 10_000), ([0, 20, 100], 1000));
    let mut clients = Vec::new();
    let mut all = Vec::new();
    for wanted in steps {
        for number in clients.len() as u64..wanted {
            let mut client = Connection::new(servers.address, number, Protection::None)?;
            client.make_directory("memory")?;
            client.stat("memory")?;
            clients.push(client);
        }
        all.push(measure(&servers, wanted, 0)?);
    }
    for (at, client) in (0..opens).zip((0..OPENERS as usize).cycle()) {
        // Open until the connections end.
        clients[client].create(&format!(r"memory\f{at}"), true)?;
    }
    all.push(measure(&servers, clients.len() as u64, opens)?);
    Ok(all)
}

fn measure(servers: &Servers, clients: u64, opens: u64) -> Result<Measure> {
    let resident = resident_bytes(servers.gateway_pid())?;
    let limit = limit(clients, opens);
    let name = format!("memory.{clients}_clients_{opens}_opens");
    let value = Summary::once((resident.own + resident.mapped) as f64 / MIB);
    let reason = format!("64 MiB + {clients} clients x 128 KiB + {opens} opens x 1 KiB");
    Ok(Measure::new(name, "MiB", value).at_most(limit as f64 / MIB, reason))
}

fn limit(clients: u64, opens: u64) -> u64 {
    BASE_BYTES_MAX + clients * CLIENT_BYTES_MAX + opens * OPEN_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_grows_with_clients_and_opens() {
        assert_eq!(limit(0, 0), 64 << 20);
        assert_eq!(limit(512, 2048), (64 << 20) + (64 << 20) + (2 << 20));
    }
}
