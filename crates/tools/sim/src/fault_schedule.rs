//! The faults of a run, drawn from its seed. Each seed has a profile, so that some seeds have many
//! faults of one kind.

use std::{sync::Arc, time::Duration};

use braid_store::{DiskOp, Fault};

use crate::{
    checker::Checker,
    cluster::{Cluster, Node},
    network::LinkConditions,
    random::Random,
    world::{ProcessLife, Simulation},
};

/// How often each kind of fault happens in one run, as weights; 0 for never.
#[derive(Clone, Debug, Default)]
pub struct FaultProfile {
    /// No faults at all.
    pub without_faults: bool,
    kill_iod: u64,
    kill_mds: u64,
    kill_client: u64,
    power_iod: u64,
    power_mds: u64,
    cut: u64,
    reset: u64,
    slow: u64,
    disk: u64,
    weather: u64,
}

impl FaultProfile {
    /// The profile of a seed. Every eighth seed has no faults: there every call must succeed.
    pub fn of(seed: u64) -> Self {
        if seed.is_multiple_of(8) {
            return Self { without_faults: true, ..Self::default() };
        }
        let random = Random::new(seed, "profile");
        let weight = || if random.chance(450_000) { random.within(1..10) } else { 0 };
        Self {
            without_faults: false,
            kill_iod: weight(),
            kill_mds: weight(),
            kill_client: weight(),
            power_iod: weight(),
            power_mds: weight() / 3,
            cut: weight(),
            reset: weight() + 1,
            slow: weight() / 2,
            disk: weight() / 2,
            weather: weight(),
        }
    }

    fn kinds(&self) -> [(FaultKind, u64); 10] {
        [
            (FaultKind::KillIod, self.kill_iod),
            (FaultKind::KillMds, self.kill_mds),
            (FaultKind::KillClient, self.kill_client),
            (FaultKind::PowerIod, self.power_iod),
            (FaultKind::PowerMds, self.power_mds),
            (FaultKind::Cut, self.cut),
            (FaultKind::Reset, self.reset),
            (FaultKind::Slow, self.slow),
            (FaultKind::Disk, self.disk),
            (FaultKind::Weather, self.weather),
        ]
    }
}

#[derive(Clone, Copy, Debug)]
enum FaultKind {
    KillIod,
    KillMds,
    KillClient,
    PowerIod,
    PowerMds,
    Cut,
    Reset,
    Slow,
    Disk,
    Weather,
}

/// Injects faults into a cluster.
pub struct FaultSchedule {
    cluster: Arc<Cluster>,
    judge: Checker,
    random: Random,
    profile: FaultProfile,
    world: Simulation,
    /// Starts a client's work again after its process died.
    respawn: Arc<dyn Fn(usize) + Send + Sync>,
}

impl FaultSchedule {
    /// Faults of this profile.
    pub fn new(
        cluster: &Arc<Cluster>,
        judge: &Checker,
        seed: u64,
        profile: FaultProfile,
        respawn: Arc<dyn Fn(usize) + Send + Sync>,
    ) -> Self {
        let random = Random::new(seed, "chaos");
        let (world, cluster) = (cluster.world.clone(), Arc::clone(cluster));
        Self { cluster, judge: judge.clone(), random, profile, world, respawn }
    }

    /// Injects faults until `end`.
    pub async fn run(self, life: ProcessLife, end: Duration) {
        let total: u64 = self.profile.kinds().iter().map(|(_, weight)| weight).sum();
        if total == 0 {
            return;
        }
        while self.world.now() < end {
            self.pause(50..4000).await;
            self.inject(&life, self.draw(total));
        }
    }

    fn draw(&self, total: u64) -> FaultKind {
        let mut at = self.random.below(total);
        for (trouble, weight) in self.profile.kinds() {
            match at.checked_sub(weight) {
                Some(rest) => at = rest,
                None => return trouble,
            }
        }
        FaultKind::Reset
    }

    fn inject(&self, life: &ProcessLife, trouble: FaultKind) {
        match trouble {
            FaultKind::KillIod => self.stop(life, self.iod(), false),
            FaultKind::KillMds => self.stop(life, Node::Mds, false),
            FaultKind::PowerIod => self.stop(life, self.iod(), true),
            FaultKind::PowerMds => self.stop(life, Node::Mds, true),
            FaultKind::KillClient => self.kill_client(),
            FaultKind::Cut => self.cut(life),
            FaultKind::Reset => {
                let (a, b) = self.pair();
                self.world.trace_event(format_args!("reset connections between {a:?} and {b:?}"));
                self.cluster.network.reset_between(self.cluster.host(a), self.cluster.host(b));
            }
            FaultKind::Slow => {
                let (host, times) =
                    (self.cluster.host(self.pair().0), self.random.within(1..300) as u32);
                self.world.trace_event(format_args!(
                    "{} is {times} times slower",
                    self.cluster.network.name(host)
                ));
                self.cluster.network.set_slowness(host, times);
            }
            FaultKind::Disk => self.disk(),
            FaultKind::Weather => {
                let resets_per_million = self.random.below(15_000) as u32;
                let delay_max = Duration::from_micros(self.random.within(100..5000));
                self.world.trace_event(format_args!(
                    "weather: {resets_per_million} resets per million, {delay_max:?}"
                ));
                self.cluster.network.set_link_conditions(LinkConditions {
                    resets_per_million,
                    delay_max,
                    ..LinkConditions::default()
                });
            }
        }
    }

    fn iod(&self) -> Node {
        Node::Iod(self.random.below(self.cluster.iods.len() as u64) as usize)
    }

    fn stop(&self, life: &ProcessLife, node: Node, power: bool) {
        if !self.cluster.is_running(node) {
            return;
        }
        match node {
            Node::Iod(iod) if power => {
                let id = self.cluster.iods[iod].id();
                self.cluster.power_loss(node);
                self.judge.iod_lost_power(id);
                // Until the metadata server has learned of the loss, it reports the sizes that it
                // received before.
                let judge = self.judge.clone();
                self.cluster.iods[iod].when_joined(move || judge.iod_lost_power(id));
            }
            Node::Mds if power => {
                self.cluster.power_loss(node);
                self.judge.mds_lost_power();
            }
            _ => self.cluster.kill(node),
        }
        self.later(life, move |cluster| cluster.restart(node));
    }

    fn kill_client(&self) {
        let client = self.random.below(self.cluster.clients.len() as u64) as usize;
        self.cluster.kill(Node::Client(client));
        self.judge.client_died(&self.cluster.clients[client].name);
        (self.respawn)(client);
    }

    fn pair(&self) -> (Node, Node) {
        let client = Node::Client(self.random.below(self.cluster.clients.len() as u64) as usize);
        match self.random.below(3) {
            0 => (client, Node::Mds),
            1 => (self.iod(), client),
            _ => (self.iod(), Node::Mds),
        }
    }

    fn cut(&self, life: &ProcessLife) {
        let (a, b) = self.pair();
        self.cluster.partition(a, b);
        self.later(life, move |cluster| cluster.heal(a, b));
    }

    fn disk(&self) {
        let iod = self.random.below(self.cluster.iods.len() as u64) as usize;
        let ops = [
            DiskOp::Open,
            DiskOp::Create,
            DiskOp::Read,
            DiskOp::Write,
            DiskOp::Sync,
            DiskOp::SetRecord,
        ];
        let fault = if self.random.chance(300_000) { Fault::NoSpace } else { Fault::Eio };
        let (op, nth) = (*self.random.pick(&ops), self.random.within(1..20));
        self.world
            .trace_event(format_args!("iod{}: the {nth}th next {op:?} fails: {fault:?}", iod + 1));
        self.cluster.iods[iod].store.faults().fail_nth(op, nth, fault);
    }

    /// Mostly soon; sometimes only after every process has noticed the fault.
    fn later(&self, life: &ProcessLife, what: impl FnOnce(&Cluster) + Send + 'static) {
        let longest = if self.random.chance(300_000) { 90_000 } else { 6000 };
        let time = Duration::from_millis(self.random.within(5..longest));
        let (world, cluster) = (self.world.clone(), Arc::clone(&self.cluster));
        self.world.spawn(life, async move {
            world.sleep(time).await;
            what(&cluster);
        });
    }

    async fn pause(&self, millis: std::ops::Range<u64>) {
        let time = Duration::from_millis(self.random.within(millis));
        self.world.sleep(time).await;
    }
}
