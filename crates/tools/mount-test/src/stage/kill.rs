//! Processes killed while histories are made: what was answered stays true, nothing hangs, fsck finds nothing.

use std::time::Duration;

use anyhow::{Context, Result};
use braid_types::Random;

use super::{Stage, Target};
use crate::history::{Options, play_round};

/// Threads and calls of each in a round.
const THREADS: usize = 6;
const CALLS: u64 = 250;
/// The default stripe size, around whose end words lie.
const STRIPE: u64 = 1 << 20;
/// The longest that a call may take: I8's 30 s, and what the answer itself needs on a busy machine.
const LIMIT: Duration = Duration::from_secs(45);
/// The moment of the kill and the length of the outage are drawn below these.
const KILL_AFTER_MS: u64 = 1500;
const DOWN_MS: u64 = 1500;

/// One round with one victim; words about it.
pub fn round(stage: &mut Stage, seed: u64) -> Result<String> {
    let mut random = Random::new(seed);
    let target = *random.pick(&stage.victims()).context("nobody to kill")?;
    let killed = play(stage, seed, target, random).with_context(|| format!("{target:?} killed"))?;
    stage.check().with_context(|| format!("after {target:?} was killed"))?;
    Ok(format!("{target:?}: {killed}"))
}

fn play(stage: &mut Stage, seed: u64, target: Target, mut random: Random) -> Result<String> {
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
            // Objects that cannot be made are no round; nothing is killed then.
            if begun.recv().is_err() {
                return Ok(());
            }
            // The moment is drawn, nothing is waited for.
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

fn kill(stage: &mut Stage, target: Target) {
    match target {
        Target::Server(victim) => stage.cluster.kill(victim),
        Target::Mount(at) => stage.mounts[at].kill(),
    }
}

fn restart(stage: &mut Stage, target: Target) -> Result<()> {
    match target {
        Target::Server(victim) => stage.cluster.restart(victim),
        Target::Mount(at) => stage.mounts[at].restart(),
    }
}
