//! A client process: the real engine over the simulated network.

use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use braid_client::{Config, Credential, LeaseHolder, TlsPolicy, asynchronous::Client};

use super::{CLUSTER, MDS_ADDRESS, server_key};
use crate::{
    driver::SimDriver,
    network::{Host, Network},
    random::Random,
    workload::CachedNames,
    world::{ProcessLife, lock},
};

/// How long a call may take, in every simulation (I8).
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// A host with one client process.
pub struct ClientNode {
    /// `client1` and so on.
    pub name: String,
    /// Its host in the network.
    pub host: Host,
    network: Network,
    seed: u64,
    keeps: bool,
    running: Mutex<Option<Running>>,
}

struct Running {
    life: ProcessLife,
    client: Client<SimDriver>,
    cached: Arc<CachedNames>,
}

impl ClientNode {
    /// A host without a process.
    pub fn new(network: &Network, number: u32, seed: u64) -> Arc<Self> {
        let name = format!("client{number}");
        let host = network.add_host(&name, &format!("{name}:0"));
        let keeps = Random::new(seed, &format!("{name} keeps")).chance(800_000);
        Arc::new(Self {
            name,
            host,
            network: network.clone(),
            seed,
            keeps,
            running: Mutex::new(None),
        })
    }

    /// The process, its client and its cached names; starts the process if it does not run.
    pub fn start(&self) -> (ProcessLife, Client<SimDriver>, Arc<CachedNames>) {
        let mut running = lock(&self.running);
        let running = running.get_or_insert_with(|| self.process());
        (running.life.clone(), running.client.clone(), Arc::clone(&running.cached))
    }

    fn process(&self) -> Running {
        let life = ProcessLife::new();
        let mut config = Config::new([MDS_ADDRESS], Credential::ServerKey(server_key()));
        config.tls = TlsPolicy::Never;
        config.timeout = TIMEOUT;
        config.client_name.clone_from(&self.name);
        config.cluster = Some(CLUSTER);
        let client =
            Client::over(SimDriver::new(self.network.clone(), self.host, self.seed), config);
        self.network.world().spawn(&life, client.serve());
        let cached = CachedNames::new();
        // Some clients use no leases: the others must see their changes nevertheless.
        if self.keeps {
            self.network.world().spawn(
                &life,
                client.serve_leases_here(Arc::downgrade(&cached) as Weak<dyn LeaseHolder>),
            );
        }
        Running { life, client, cached }
    }

    /// The process dies in the middle of its calls.
    pub fn kill(&self) {
        let running = lock(&self.running).take();
        self.network.kill(self.host);
        if let Some(running) = running {
            running.life.end();
        }
    }
}

impl std::fmt::Debug for ClientNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}
