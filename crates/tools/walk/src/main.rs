//! One operation on a small cluster, captured by the compiler's coverage counters.
//!
//! ```text
//! braid-walk capture DIR (client, mount) ──pipe──► braid-walk servers DIR (mds, 4 iods)
//!        │ DIR/client.read.operation.0.profraw           │ DIR/servers.read.operation.0.profraw
//!        └───────────────► `cargo xtask walk` reads both ◄┘
//! ```
//!
//! 1. The client and the servers are two processes, since they share `core`: a function of `wire`
//!    belongs to the process in which it runs.
//! 2. Each operation is warm: it ran often enough that connections, caches and leases are there.
//! 3. An operation is captured several times, and as often nothing is done for the same time. The
//!    reader takes what most captures of the operation have and most idle ones have not.
#![deny(unsafe_code)] // the counters' runtime has C functions: `counters.rs`

#[cfg(target_os = "linux")]
mod cluster;
#[cfg(target_os = "linux")]
mod counters;
#[cfg(target_os = "linux")]
mod operations;
#[cfg(target_os = "linux")]
mod servers;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        #[cfg(target_os = "linux")]
        ["capture", dir] => operations::capture(std::path::Path::new(dir)),
        #[cfg(target_os = "linux")]
        ["servers", dir] => servers::serve(std::path::Path::new(dir)),
        _ => bail!("braid-walk is a part of a command; try, on Linux: cargo xtask walk"),
    }
}
