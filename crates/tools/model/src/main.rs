//! `braid-model`: explores every scenario, and each broken variant until it is caught.

use std::{fmt::Debug, process::ExitCode, time::Instant};

use braid_model::{Outcome, SCENARIOS, Variant, explore, pages};

/// States of one scenario, unless `--states N` says otherwise.
const STATES_MAX: usize = 20_000_000;
/// Worlds of pages get this fraction: a step does more, and more threads take steps.
const PAGES_OF: usize = 3;
const BROKEN: &[Variant] = &[
    Variant::NoNumbers,
    Variant::GrantWhileDone,
    Variant::OneClock,
    Variant::NoGrace,
    Variant::NoContinuity,
];
/// Each with a world in which it is caught.
const BROKEN_PAGES: &[(pages::Variant, &str)] = &[
    (pages::Variant::AsksInPageThread, "pages: opened with a lease while one is asked for"),
    (pages::Variant::PagesWaitForDrops, "pages: one reads, the other writes"),
    (pages::Variant::KeepForWriters, "pages: both read, both write"),
    (pages::Variant::NoDropAfterWrite, "pages: both write, both map"),
    (pages::Variant::OneRound, "pages: one reads, the other writes"),
    (pages::Variant::RecallsAtOnce, "pages: recalled twice"),
    (pages::Variant::SameTicket, "pages: recalled while more is granted"),
    (pages::Variant::GivesUpAfter, "pages: cached, then dropped"),
    (pages::Variant::NoFlushOnDrain, "buffered: one writes, the other reads and queries"),
    (pages::Variant::FlushesAfterReturn, "buffered: one writes, the other reads and queries"),
    (pages::Variant::BuffersInsisted, "buffered: appends beside a client without leases"),
    (pages::Variant::NoFlushBeforePage, "buffered: pages, reads and sizes of the same mount"),
    (pages::Variant::NoFlushBeforeRead, "buffered: pages, reads and sizes of the same mount"),
    (pages::Variant::NoFlushBeforeSize, "buffered: pages, reads and sizes of the same mount"),
    (pages::Variant::NoFlushOnClose, "buffered: closed and opened"),
    (pages::Variant::ReturnsLeaseAtClose, "buffered: closed with bytes left"),
    (pages::Variant::ForgetsClosedLoss, "buffered: lost after a close"),
    (pages::Variant::EndsBefore, "buffered: one writes, the other reads and queries"),
    (pages::Variant::NoFlushBeforeWrite, "buffered: requested"),
    (pages::Variant::StampsAfterBuffering, "buffered: cached sizes"),
    (pages::Variant::ReducesHeldLease, "buffered: opened beside a client without leases"),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (states_max, only) =
        match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [] => (STATES_MAX, ""),
            ["--states", number] if number.parse::<usize>().is_ok() => {
                (number.parse().unwrap_or(STATES_MAX), "")
            }
            ["--states", number, only] if number.parse::<usize>().is_ok() => {
                (number.parse().unwrap_or(STATES_MAX), *only)
            }
            _ => {
                eprintln!("usage: braid-model [--states N [NAME]]");
                return ExitCode::from(2);
            }
        };
    let (mut passed, mut failed) = (0, 0);
    let mut count = |holds| *(if holds { &mut passed } else { &mut failed }) += 1;
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.name.contains(only)) {
        count(holds(scenario.name, || explore(scenario, Variant::Sound, states_max)));
    }
    for scenario in pages::SCENARIOS.iter().filter(|scenario| scenario.name.contains(only)) {
        count(holds(scenario.name, || {
            pages::explore(scenario, pages::Variant::Sound, states_max / PAGES_OF)
        }));
    }
    let states = states_max / 10;
    if only.is_empty() {
        for variant in BROKEN {
            count(caught(
                variant,
                SCENARIOS.iter().map(|scenario| explore(scenario, *variant, states)),
            ));
        }
    }
    if only.is_empty() || only == "pages" {
        for (variant, name) in BROKEN_PAGES {
            let worlds = pages::SCENARIOS.iter().filter(|world| world.name == *name);
            count(caught(variant, worlds.map(|world| pages::explore(world, *variant, states_max))));
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn holds(name: &str, explore: impl FnOnce() -> Outcome) -> bool {
    let started = Instant::now();
    let Outcome { states, depth, ends, complete, wrong } = explore();
    let how = if complete { "all states" } else { "NOT all states" };
    let took = started.elapsed().as_secs_f64();
    println!("{name}: {how}: {states}, {depth} steps deep, {ends} ends, {took:.1} s");
    if let Some((why, steps)) = &wrong {
        println!("FAILED {name}: {why}");
        steps.iter().for_each(|step| println!("    {step}"));
    }
    wrong.is_none()
}

fn caught(variant: &impl Debug, mut outcomes: impl Iterator<Item = Outcome>) -> bool {
    let found =
        outcomes.find_map(|Outcome { states, wrong, .. }| wrong.map(|wrong| (states, wrong)));
    match &found {
        Some((states, (why, steps))) => {
            println!(
                "{variant:?} is caught after {states} states, in {} steps: {why}",
                steps.len()
            );
        }
        None => println!("FAILED {variant:?}: not caught"),
    }
    found.is_some()
}
