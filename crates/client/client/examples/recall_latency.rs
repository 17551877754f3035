//! The time of a change that recalls names leases, of one that recalls none, and of a stat. Run it
//! on a cluster that nothing else uses:
//!
//! ```sh
//! cargo run --release -p braid-client --example recall_latency -- MDS KEYFILE
//! ```

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use braid_client::{Client, Config, Credential, FileIndex, LeaseHolder, LeaseMode, Leases};

/// Holds names leases and caches nothing.
struct Empty;

impl LeaseHolder for Empty {
    fn recall_names(&self, _: FileIndex) {}

    fn recall_data(&self, _: FileIndex, _: LeaseMode) -> LeaseMode {
        LeaseMode::None
    }

    fn lost_all(&self) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mds, key] = arguments.as_slice() else {
        return Err("usage: recall_latency MDS KEYFILE".into());
    };
    let connect = || Client::connect(Config::new([mds.as_str()], Credential::from_key_file(key)?));
    let one = connect()?;
    let dir = one.mkdir("/recall_latency", 0o755)?.file;
    one.mkdir("/recall_latency/d", 0o755)?;
    print("stat", timed(2000, || one.stat("/recall_latency/d").map(drop)));
    let chmod = |turn: &mut u32| {
        *turn += 1;
        one.chmod((dir, ""), 0o700 + *turn % 8).map(drop)
    };
    let mut turn = 0;
    print("change, nobody holds the lease", timed(2000, || chmod(&mut turn)));
    let holder: Arc<dyn LeaseHolder> = Arc::new(Empty);
    for count in [1, 16, 256] {
        let clients: Vec<Client> = (0..count).map(|_| connect()).collect::<Result<_, _>>()?;
        let leases: Vec<Leases> = clients.iter().map(Client::leases).collect();
        for lease in &leases {
            lease.serve(Arc::downgrade(&holder) as Weak<dyn LeaseHolder>)?;
        }
        let mut times = Vec::new();
        for _ in 0..2000 / count {
            for lease in &leases {
                while lease.ask_names(dir)?.is_none() {}
            }
            let started = Instant::now();
            chmod(&mut turn)?;
            times.push(started.elapsed());
        }
        print(&format!("change, recalled from {count}"), times);
    }
    Ok(())
}

fn timed<E: std::fmt::Debug>(
    count: usize,
    mut call: impl FnMut() -> Result<(), E>,
) -> Vec<Duration> {
    let one = |_| {
        let started = Instant::now();
        call().expect("the call");
        started.elapsed()
    };
    (0..count).map(one).collect()
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_micros();
    println!("{what}: median {} µs, 90 % {} µs, {} times", at(50), at(90), times.len());
}
