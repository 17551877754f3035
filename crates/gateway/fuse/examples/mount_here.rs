//! A cluster in this process, mounted twice, until Enter or the end of the input: for looking by
//! hand.
//!
//! ```text
//! cargo run --release -p braid-fuse --example mount_here -- IODS POINT [POINT...]
//! ```

#[path = "../../../client/vfs/tests/it/support/cluster.rs"]
mod cluster;

use std::sync::Arc;

use braid_fuse::{
    fs::FileSystem,
    kernel::{
        PoolOptions,
        mount::{MountOptions, Mounted},
    },
};

fn main() {
    let mut words = std::env::args().skip(1);
    let iods = words.next().and_then(|word| word.parse().ok()).expect("how many I/O daemons");
    let cluster = cluster::Cluster::start(iods);
    let mounts: Vec<Mounted> = words
        .map(|point| {
            let mut options = MountOptions::new("braid", point);
            (options.suid, options.dev) = (true, true);
            let handler = Arc::new(FileSystem::new(Arc::new(cluster.mount())));
            Mounted::new(&options, PoolOptions::default(), handler).expect("mounted")
        })
        .collect();
    println!("mounted {}", mounts.len());
    let _ = std::io::stdin().read_line(&mut String::new());
}
