//! The simulation itself: it repeats, it passes, and it can fail.

use std::{sync::Arc, time::Duration};

use braid_sim::{
    cluster::Cluster,
    run::{run, run_with},
};
use braid_store::ObjectStore;
use braid_types::ObjectOffset;

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 5, 8] {
        let (first, second) = (run(seed, false), run(seed, false));
        assert_eq!((first.hash, first.events), (second.hash, second.events), "seed {seed}");
    }
    assert_ne!(run(3, false).hash, run(5, false).hash);
}

#[test]
fn some_seeds_pass() {
    for seed in 0..12 {
        let outcome = run(seed, false);
        assert!(
            outcome.violation.is_none(),
            "seed {seed}: {:?}\n{}",
            outcome.violation,
            outcome.trace
        );
        assert!(outcome.calls.0 > 10, "seed {seed} did nothing");
    }
}

/// Seeds without faults: a violation there is a bug of the simulation or of BraidFS.
const CALM: [u64; 6] = [0, 8, 16, 24, 32, 40];
/// Seeds without faults among which one must use a stale cached name.
const DEAF_SEEDS: u64 = 40;

fn noticed(rule: &str, spoil: impl Fn(&Arc<Cluster>)) -> usize {
    let found = |seed: &&u64| {
        run_with(**seed, false, &spoil).violation.is_some_and(|found| found.rule == rule)
    };
    CALM.iter().filter(found).count()
}

#[test]
fn the_judge_notices_bytes_that_a_disk_forgets() {
    let forget = |cluster: &Arc<Cluster>| {
        for second in 1..4 {
            let spoiled = Arc::clone(cluster);
            cluster.world.after(Duration::from_secs(second), move || forget_everything(&spoiled));
        }
    };
    assert!(noticed("I6", forget) >= CALM.len() / 2);
}

fn forget_everything(cluster: &Cluster) {
    for iod in &cluster.iods {
        for id in iod.store.list(None, usize::MAX).unwrap().objects {
            let object = iod.store.open(id).unwrap();
            let stat = object.stat().unwrap();
            object
                .write_at(&vec![0; stat.size as usize], ObjectOffset(0), stat.size_generation)
                .unwrap();
        }
    }
}

#[test]
fn the_judge_notices_a_name_that_somebody_else_removes() {
    let remove = |cluster: &Arc<Cluster>| {
        let (life, client, _) = cluster.clients[0].start();
        let world = cluster.world.clone();
        cluster.world.spawn(&life, async move {
            for _ in 0..20 {
                world.sleep(Duration::from_millis(300)).await;
                for name in ["a", "b", "c"] {
                    let _ = client.unlink(format!("/t0/{name}").as_str()).await;
                }
            }
        });
    };
    assert!(noticed("I7", remove) >= CALM.len() / 2);
}

#[test]
fn the_judge_notices_a_client_that_forgets_nothing_that_is_recalled() {
    let deafen = |cluster: &Arc<Cluster>| {
        cluster.clients.iter().for_each(|client| client.start().2.ignore_recalls())
    };
    let caught = (0..DEAF_SEEDS)
        .map(|seed| 8 * seed)
        .find(|seed| run_with(*seed, false, deafen).violation.is_some());
    assert!(caught.is_some());
}

#[test]
fn clients_answer_from_what_they_keep() {
    let mut kept = Vec::new();
    let outcome = run_with(CALM[1], false, |cluster| {
        kept.extend(cluster.clients.iter().map(|client| client.start().2));
    });
    assert!(outcome.violation.is_none());
    assert!(kept.iter().map(|kept| kept.hits()).sum::<u64>() > 0);
}
