//! Processes are killed while histories run: acknowledged results stay true, nothing hangs, and
//! fsck finds nothing.

use std::time::Duration;

use anyhow::{Context, Result};
use braid_types::Random;

use super::{Target, TestCluster};
use crate::history::{Options, play_round};

/// Threads and calls of each in a round.
const THREADS: usize = 6;
const CALLS: u64 = 250;
/// The default stripe size; the words are around the stripe's end.
const STRIPE: u64 = 1 << 20;
/// Maximum time of a call: I8's 30 s and a reserve for a busy machine.
const LIMIT: Duration = Duration::from_secs(45);
/// Upper limits of the moment of the kill and of the length of the outage.
const KILL_AFTER_MS: u64 = 1500;
const DOWN_MS: u64 = 1500;

/// Runs one round with one victim; returns a summary.
pub fn round(stage: &mut TestCluster, seed: u64) -> Result<String> {
    let mut random = Random::new(seed);
    let target = *random.pick(&stage.victims()).context("there is no process to kill")?;
    let killed = play(stage, seed, target, random).with_context(|| format!("{target:?} killed"))?;
    stage.check().with_context(|| format!("after {target:?} was killed"))?;
    Ok(format!("{target:?}: {killed}"))
}

fn play(stage: &mut TestCluster, seed: u64, target: Target, mut random: Random) -> Result<String> {
    let dirs = stage.dirs("killed")?;
    if let Target::Server(victim) = target {
        stage.cluster.prepare(victim)?;
    }
    let options = Options {
        threads: THREADS,
        calls: CALLS,
        stripe: STRIPE,
        limit: LIMIT,
        plant: None,
        errors_allowed: true,
        durable: matches!(target, Target::Mount(_)),
    };
    let (after, down) = (random.below(KILL_AFTER_MS), random.below(DOWN_MS));
    let played = std::thread::scope(|scope| {
        let (begin, begun) = std::sync::mpsc::channel();
        let killer = scope.spawn(move || {
            // If the objects cannot be created, there is no round and nothing is killed.
            if begun.recv().is_err() {
                return Ok(());
            }
            // A random moment, not one that depends on the calls.
            std::thread::sleep(Duration::from_millis(after));
            kill(stage, target);
            std::thread::sleep(Duration::from_millis(down));
            restart(stage, target)
        });
        let settle = || killer.join().map_err(|_| anyhow::anyhow!("the killer panicked"))?;
        play_round(&dirs, seed, &options, move || _ = begin.send(()), settle)
    })?;
    let failed: u64 = played.errors.values().sum();
    let longest = played.longest.as_secs_f64();
    Ok(format!(
        "after {after} ms for {down} ms; {} calls, {failed} failed, the longest {longest:.1} s",
        played.calls
    ))
}

fn kill(stage: &mut TestCluster, target: Target) {
    match target {
        Target::Server(victim) => stage.cluster.kill(victim),
        Target::Mount(at) => stage.mounts[at].kill(),
    }
}

fn restart(stage: &mut TestCluster, target: Target) -> Result<()> {
    match target {
        Target::Server(victim) => stage.cluster.restart(victim),
        Target::Mount(at) => stage.mounts[at].restart(),
    }
}
