//! SMB 3.1.1: the gateway beside Samba, which exports a mount of the same cluster, and a local
//! directory. The load is made by [`client`], the same for all servers.
//!
//! ```text
//!   rows on loopback ── data, small, memory ──> servers.rs (processes)
//!   row in a lab ────── lines ────────────────> hosts, links (braid-netlab)
//!                         └──── client/
//! ```

mod client;
mod data;
mod lines;
mod memory;
mod servers;
mod small;

use crate::rows::Row;

/// In the order of a whole run.
pub const ROWS: &[Row] = &[
    Row {
        name: "data",
        about: "1 client, 1 MiB reads and writes, plain and encrypted: CPU beside Samba",
        run: data::run,
    },
    Row {
        name: "small",
        about: "1 and 16 clients: create, open+read+close of 4 KiB, stat, beside Samba",
        run: small::run,
    },
    Row { name: "memory", about: "resident memory of a gateway", run: memory::run },
    Row {
        name: "lines",
        about: "4 servers with 2 lines of 1 Gbit/s each, 1 to 64 processes: the paper's tables",
        run: lines::run,
    },
];
