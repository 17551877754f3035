//! NFSv4.1 and pNFS: the gateway and the data servers beside the native protocol, nfs-ganesha, and
//! the lines of a lab. The load is made by [`client`], the same for all servers.
//!
//! ```text
//!   rows on loopback ── data_server, metadata, proxied, memory ──> servers.rs (processes)
//!   rows in a lab ───── fast_client, slow_lines ─────────────────> lines.rs (hosts, links)
//!                                └──────── client/ ────────┘
//! ```

mod client;
mod data_server;
mod lines;
mod memory;
mod metadata;
mod proxied;
mod servers;

use crate::rows::Row;

/// In the order of a whole run.
pub const ROWS: &[Row] = &[
    Row {
        name: "data_server",
        about: "1 data server, 1 MiB reads and writes: CPU beside the native protocol",
        run: data_server::run,
    },
    Row {
        name: "metadata",
        about: "16 clients of one gateway: lookups and creates, beside nfs-ganesha",
        run: metadata::run,
    },
    Row {
        name: "proxied",
        about: "1 client of one gateway without pNFS: CPU beside nfs-ganesha",
        run: proxied::run,
    },
    Row { name: "memory", about: "resident memory of a gateway", run: memory::run },
    Row {
        name: "fast_client",
        about: "client of 4 Gbit/s, 1 to 4 data servers of 1 Gbit/s, pNFS; 4 through the gateway",
        run: lines::fast_client,
    },
    Row {
        name: "slow_lines",
        about: "8 clients, 6 data servers of 100 Mbit/s, pNFS: separate files, one file; 2 MiB, \
            8 KiB",
        run: lines::slow_lines,
    },
];
