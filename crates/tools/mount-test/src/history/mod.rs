//! Random calls by several threads on several mounts, recorded with their times and then compared
//! with what a coherent file system could have answered: every read sees every write that returned
//! before it.
//!
//! ```text
//!   thread 0 ── mount A ──┐   calls with times    ┌─ words, attributes: registers ┐
//!   thread 1 ── mount B ──┼───────────────────────┼─ small files, logs, locks     ├─ an order?
//!   thread 2 ── mount A ──┘                       ├─ names: cells of five         ┘
//!                                                 └─ listings: was it there all the time?
//! ```
//!
//! A round has new objects, so that calls in flight when a server died affect one round alone. The
//! seed decides what each thread requests, not when.
//!
//! Invariants:
//!
//! 1. The check of a call uses its start and end, never its duration.
//! 2. A call that failed with an error unrelated to the object has an unknown outcome. Unless
//!    servers are killed, such an error is itself a failure.
//! 3. At the end each mount reads everything once more, and all see the same.
//!
//! No assertion checks these: the checks get the start and the end of each call and no clock (1),
//! and 2 and 3 are steps of `round.rs`.

mod attributes;
mod file_words;
pub mod linearizability;
mod listing;
mod locking;
mod log;
mod names;
mod register;
mod round;
mod small;
mod test_thread;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, ensure};
use clap::Args;

pub use self::round::{Options, RoundResult, play_round};

/// `braid-mount-test history`.
#[derive(Args, Clone, Debug)]
pub struct HistoryArgs {
    /// A directory of the file system; several are the same directory through several mounts
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// The seed of the calls
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Rounds, each with new objects
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub rounds: u64,
    /// Threads, which share the mounts
    #[arg(long, default_value_t = 6, value_name = "N")]
    pub threads: usize,
    /// Calls of each thread in a round
    #[arg(long, default_value_t = 400, value_name = "N")]
    pub calls: u64,
    /// The stripe size: words are around the end of the first stripe
    #[arg(long, default_value_t = 1 << 20, value_name = "BYTES")]
    pub stripe: u64,
    /// Maximum time of a call, in seconds
    #[arg(long, default_value_t = 45, value_name = "SECONDS")]
    pub limit: u64,
    /// Run all rounds, also after one that failed
    #[arg(long)]
    pub keep_going: bool,
    /// Answer one of N reads with an older value, to test that the checker detects it
    #[arg(long, value_name = "N")]
    pub plant: Option<u64>,
}

impl HistoryArgs {
    /// The default sizes.
    pub fn of(dirs: Vec<PathBuf>, seed: u64, rounds: u64) -> Self {
        Self {
            dirs,
            seed,
            rounds,
            threads: 6,
            calls: 400,
            stripe: 1 << 20,
            limit: 45,
            keep_going: false,
            plant: None,
        }
    }
}

/// Runs and checks every round.
pub fn run(args: &HistoryArgs) -> Result<RoundResult> {
    let options = Options {
        threads: args.threads,
        calls: args.calls,
        stripe: args.stripe,
        limit: Duration::from_secs(args.limit),
        plant: args.plant,
        errors_allowed: false,
        durable: false,
    };
    let (mut all, mut wrong) = (RoundResult::default(), Vec::new());
    for number in 0..args.rounds {
        let seed = args.seed.wrapping_add(number);
        let played = play_round(&args.dirs, seed, &options, || {}, || Ok(()));
        match played.with_context(|| format!("round {number}: history --seed {seed} --rounds 1")) {
            Ok(played) => all.absorb(played),
            Err(error) if args.keep_going => wrong.push(format!("{error:#}")),
            Err(error) => return Err(error),
        }
    }
    ensure!(
        wrong.is_empty(),
        "{} of {} rounds failed:\n{}",
        wrong.len(),
        args.rounds,
        wrong.join("\n")
    );
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(dirs: Vec<PathBuf>) -> HistoryArgs {
        HistoryArgs { threads: 4, calls: 200, ..HistoryArgs::of(dirs, 1, 3) }
    }

    #[test]
    fn a_local_file_system_is_coherent() {
        let dir = tempfile::tempdir().unwrap();
        run(&args(vec![dir.path().to_owned(); 2])).unwrap();
    }

    #[test]
    fn a_stale_answer_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let planted = HistoryArgs { plant: Some(20), ..args(vec![dir.path().to_owned(); 2]) };
        let error = format!("{:#}", run(&planted).unwrap_err());
        assert!(error.contains("no order explains it"), "{error}");
    }

    #[test]
    fn mounts_that_see_nothing_of_each_other_are_found() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert!(run(&args(vec![one.path().to_owned(), other.path().to_owned()])).is_err());
    }
}
