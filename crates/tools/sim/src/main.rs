//! `braid-sim --seeds N` runs the seeds `0..N`. `braid-sim --seed S` runs one seed and prints its
//! whole trace if it fails.

use std::{process::ExitCode, time::Instant};

use braid_sim::run::{RunOutcome, run};

const USAGE: &str = "usage: braid-sim --seeds N | --seed S [--trace]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--seeds", count] => count.parse().map_or_else(|_| usage(), |count| many(0..count)),
        ["--seeds", first, last] => match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) => many(first..last),
            _ => usage(),
        },
        ["--seed", seed] => seed.parse().map_or_else(|_| usage(), |seed| one(seed, false)),
        ["--seed", seed, "--trace"] => {
            seed.parse().map_or_else(|_| usage(), |seed| one(seed, true))
        }
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn many(seeds: std::ops::Range<u64>) -> ExitCode {
    let started = Instant::now();
    let (mut passed, mut failed, mut calls, mut unknown) = (0_u64, 0_u64, 0_u64, 0_u64);
    for seed in seeds {
        let outcome = run(seed, false);
        (calls, unknown) = (calls + outcome.calls.0, unknown + outcome.calls.1);
        match &outcome.violation {
            None => passed += 1,
            Some(violation) => {
                failed += 1;
                println!("FAILED seed {seed}: {violation}; reproduce: cargo xtask sim {seed}");
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{calls} calls in {seconds:.1} s; {unknown} of unknown outcome");
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(seed: u64, trace_all: bool) -> ExitCode {
    let RunOutcome { violation, hash, events, calls, took, trace, .. } = run(seed, trace_all);
    println!(
        "seed {seed}: {} calls, {} of unknown outcome, {events} events, \
         {:.3} s of virtual time, trace {hash:016x}",
        calls.0,
        calls.1,
        took.as_secs_f64()
    );
    match violation {
        None => {
            println!("1 passed, 0 failed");
            ExitCode::SUCCESS
        }
        Some(violation) => {
            println!("{trace}{violation}\nreproduce: cargo xtask sim {seed}");
            println!("0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}
