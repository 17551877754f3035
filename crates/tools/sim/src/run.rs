//! One run: a cluster, its clients' work, its faults, and the verdict. It is a function of the
//! seed.

use std::{sync::Arc, time::Duration};

use crate::{
    checker::Checker,
    cluster::{Cluster, ClusterSize, Node},
    fault_schedule::{FaultProfile, FaultSchedule},
    final_check,
    model::Violation,
    random::Random,
    workload::ClientWorkload,
    world::ProcessLife,
};

/// The result of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// The seed.
    pub seed: u64,
    /// The first violation of a rule.
    pub violation: Option<Violation>,
    /// A hash of every event: the same for the same seed.
    pub hash: u64,
    /// Events in the trace.
    pub events: u64,
    /// Calls of the clients, and how many of them have an unknown outcome.
    pub calls: (u64, u64),
    /// Virtual time.
    pub took: Duration,
    /// The last events, for a person; only of a run that failed.
    pub trace: String,
}

/// Runs one seed. With `trace_all`, a failure's trace has every event.
pub fn run(seed: u64, trace_all: bool) -> RunOutcome {
    run_with(seed, trace_all, |_| {})
}

/// Like [`run`]; `spoil` may break the cluster before the work begins, to show that the checker
/// notices.
pub fn run_with(seed: u64, trace_all: bool, spoil: impl FnOnce(&Arc<Cluster>)) -> RunOutcome {
    let random = Random::new(seed, "shape");
    let shape =
        ClusterSize { iods: random.within(2..6) as u32, clients: random.within(2..5) as u32 };
    let profile = FaultProfile::of(seed);
    let cluster = Arc::new(Cluster::start(seed, shape, trace_all));
    let judge = Checker::default();
    cluster.world.trace_event(format_args!("{shape:?} {profile:?}"));
    prepare(&cluster, &judge, random.within(1..4));
    spoil(&cluster);
    work(&cluster, &judge, seed, &profile, &random);
    if !judge.has_failed() {
        let strict = !judge.state().has_mds_lost_power();
        final_check::final_check(&cluster, &judge, strict);
    }
    let (violation, calls) = {
        let state = judge.state();
        (state.violation.clone(), (state.calls, state.unknown))
    };
    let trace = cluster.world.trace();
    let (hash, events) = (trace.hash(), trace.events());
    let trace = if violation.is_some() { trace.to_string() } else { String::new() };
    RunOutcome { seed, violation, hash, events, calls, took: cluster.world.now(), trace }
}

/// Creates the trees durably.
fn prepare(cluster: &Cluster, judge: &Checker, trees: u64) {
    for tree in 0..trees {
        let root = format!("t{tree}");
        let path = format!("/{root}");
        cluster.client(0, |client| async move {
            client
                .mkdir(path.as_str(), 0o755)
                .await
                .expect("a directory is created without faults");
            client.sync_directory("/").await.expect("the root is forced without faults");
        });
        judge.add_tree(&root, 0o755);
    }
}

fn work(
    cluster: &Arc<Cluster>,
    judge: &Checker,
    seed: u64,
    profile: &FaultProfile,
    random: &Random,
) {
    let trouble = Duration::from_millis(random.within(2000..40_000));
    let end = cluster.world.now() + trouble;
    let respawn = respawner(cluster, judge, seed, profile.without_faults, end);
    (0..cluster.clients.len()).for_each(|client| respawn(client));
    let troublemaker = ProcessLife::new();
    let chaos = FaultSchedule::new(cluster, judge, seed, profile.clone(), respawn);
    cluster.world.spawn(&troublemaker, chaos.run(troublemaker.clone(), end));
    run_until(cluster, judge, end);
    troublemaker.end();
    final_check::end_faults(cluster);
    // Every call in flight ends within its time; then everything is closed, each within its own
    // time.
    run_until(cluster, judge, cluster.world.now() + Duration::from_secs(300));
}

fn run_until(cluster: &Cluster, judge: &Checker, end: Duration) {
    while !judge.has_failed() && cluster.world.step(end) {}
}

/// Starts a client's work, and starts it again after its process died.
fn respawner(
    cluster: &Arc<Cluster>,
    judge: &Checker,
    seed: u64,
    calm: bool,
    end: Duration,
) -> Arc<dyn Fn(usize) + Send + Sync> {
    let weak = Arc::downgrade(cluster);
    let judge = judge.clone();
    let randoms: Vec<Arc<Random>> = (0..cluster.clients.len())
        .map(|n| Arc::new(Random::new(seed, &format!("client {n}"))))
        .collect();
    Arc::new(move |client| {
        let Some(cluster) = weak.upgrade() else { return };
        cluster.restart(Node::Client(client));
        let (life, api, cached) = cluster.clients[client].start();
        let node = &cluster.clients[client];
        let actor = ClientWorkload::new(
            &node.name,
            &cluster.world,
            &judge,
            &randoms[client],
            api,
            cached,
            calm,
        );
        cluster.world.spawn(&life, actor.run(end));
    })
}
