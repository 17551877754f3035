//! The workload: random calls of the clients on a few small trees, each checked.

mod cached_names;
mod call;
mod data;
mod names;

use std::{sync::Arc, time::Duration};

pub use cached_names::CachedNames;
pub(crate) use names::seen;

use braid_client::asynchronous::{Client, File};

use crate::{
    checker::Checker, driver::SimDriver, model::data::Handle, random::Random, world::Simulation,
};

/// Maximum number of files that one client has open at a time.
const OPEN_MAX: usize = 4;
/// The longest pause between two calls.
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// One client's part of the workload.
pub struct ClientWorkload {
    pub(crate) name: String,
    pub(crate) world: Simulation,
    pub(crate) judge: Checker,
    pub(crate) random: Arc<Random>,
    pub(crate) client: Client<SimDriver>,
    /// Whether every call that the model allows must succeed.
    pub(crate) calm: bool,
    pub(crate) open: Vec<OpenFile>,
    /// Names and attributes cached under leases.
    pub(crate) cached: Arc<CachedNames>,
}

/// An open file.
pub(crate) struct OpenFile {
    pub(crate) file: File<SimDriver>,
    pub(crate) index: u64,
    pub(crate) handle: Handle,
}

impl ClientWorkload {
    /// A client without open files.
    pub fn new(
        name: &str,
        world: &Simulation,
        judge: &Checker,
        random: &Arc<Random>,
        client: Client<SimDriver>,
        cached: Arc<CachedNames>,
        calm: bool,
    ) -> Self {
        let (world, judge, random) = (world.clone(), judge.clone(), Arc::clone(random));
        Self { name: name.to_owned(), world, judge, random, client, calm, open: Vec::new(), cached }
    }

    /// Works until `end`, then closes its open files.
    pub async fn run(mut self, end: Duration) {
        while self.world.now() < end && !self.judge.has_failed() {
            self.step().await;
            let pause = self.random.time(Duration::ZERO..PAUSE_MAX);
            // Most calls come in bursts, so that they overlap.
            self.world.sleep(if self.random.chance(700_000) { pause / 100 } else { pause }).await;
        }
        while let Some(open) = self.open.pop() {
            // What it wrote must be there, although servers may have restarted meanwhile.
            self.size(&open).await;
            self.close(open).await;
        }
        let _ = self.client.flush_closes().await;
    }

    async fn step(&mut self) {
        let data = !self.open.is_empty() && self.random.chance(650_000);
        if data { self.data_step().await } else { self.names_step().await }
    }
}
