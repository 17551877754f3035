//! `braid-model`: explores every scenario, and each broken variant until it is caught.

use std::{process::ExitCode, time::Instant};

use braid_model::{Outcome, SCENARIOS, Scenario, Variant, explore};

/// States of one scenario, unless `--states N` says otherwise.
const STATES_MAX: usize = 20_000_000;
const BROKEN: &[Variant] =
    &[Variant::NoNumbers, Variant::GrantWhileDone, Variant::OneClock, Variant::NoGrace, Variant::NoContinuity];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let states_max = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => STATES_MAX,
        ["--states", number] if number.parse::<usize>().is_ok() => number.parse().unwrap_or(STATES_MAX),
        _ => {
            eprintln!("usage: braid-model [--states N]");
            return ExitCode::from(2);
        }
    };
    let (mut passed, mut failed) = (0, 0);
    for scenario in SCENARIOS {
        let holds = holds(scenario, states_max);
        *(if holds { &mut passed } else { &mut failed }) += 1;
    }
    for variant in BROKEN {
        let caught = caught(*variant, states_max);
        *(if caught { &mut passed } else { &mut failed }) += 1;
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn holds(scenario: &Scenario, states_max: usize) -> bool {
    let started = Instant::now();
    let Outcome { states, depth, ends, complete, wrong } = explore(scenario, Variant::Sound, states_max);
    let how = if complete { "all states" } else { "NOT all states" };
    let took = started.elapsed().as_secs_f64();
    println!("{}: {how}: {states}, {depth} steps deep, {ends} ends, {took:.1} s", scenario.name);
    if let Some((why, steps)) = &wrong {
        println!("FAILED {}: {why}", scenario.name);
        steps.iter().for_each(|step| println!("    {step}"));
    }
    wrong.is_none()
}

fn caught(variant: Variant, states_max: usize) -> bool {
    for scenario in SCENARIOS {
        if let Outcome { states, wrong: Some((why, steps)), .. } = explore(scenario, variant, states_max / 10) {
            println!("{variant:?} is caught after {states} states, in {} steps: {why}", steps.len());
            return true;
        }
    }
    println!("FAILED {variant:?}: it is not caught");
    false
}
