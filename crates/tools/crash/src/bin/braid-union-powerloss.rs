//! `braid-union-powerloss --images N [--seed S] [--only I]`: records a union, cuts the power of its
//! disks at N points, and checks what is there at the next start. Prints a line for each image that
//! broke a promise, then `N passed, N failed`.

use std::{path::Path, process::ExitCode};

use anyhow::{Context, Result, bail};
use braid_crash_tests::{
    arguments::Arguments,
    disk::{Loss, PowerCut, SurvivingShare},
    trace,
    union::{Image, Recording, load},
};
use braid_types::Random;

const IMAGES_PER_RECORDING: usize = 200;
const OPERATIONS: usize = 80;
/// Names of one disk stay in order, as its journal keeps them.
const SHARES: [SurvivingShare; 4] = [
    SurvivingShare::Nothing,
    SurvivingShare::Everything,
    SurvivingShare::Before,
    SurvivingShare::BeforeEach,
];

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("braid-union-powerloss: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<usize> {
    let arguments = Arguments::read(&["images", "seed", "load", "operations", "dir", "only"])?;
    let seed = arguments.number("seed", 1)?;
    if let Some(dir) = arguments.text("load") {
        let count = arguments.number("operations", OPERATIONS as u64)?;
        load(Path::new(dir), seed, count as usize)?;
        return Ok(0);
    }
    if let Some(why) = trace::missing() {
        bail!("{why}");
    }
    let images = arguments.number("images", 200)? as usize;
    let only: Option<usize> = arguments.text("only").map(str::parse).transpose()?;
    let (own, dir) = (std::env::current_exe()?, arguments.directory("braid-union-powerloss")?);
    println!("seed {seed}");
    let (mut passed, mut failed) = (0, 0);
    for first in (0..images).step_by(IMAGES_PER_RECORDING) {
        let group = first..images.min(first + IMAGES_PER_RECORDING);
        if only.is_some_and(|only| !group.contains(&only)) {
            continue;
        }
        let number = (first / IMAGES_PER_RECORDING) as u64;
        let recorded = seed.wrapping_mul(1_000_003).wrapping_add(number);
        let at = dir.join(format!("recording{number}"));
        let recording = Recording::make(&own, &at, recorded, OPERATIONS)
            .with_context(|| format!("recording {number} with seed {recorded}"))?;
        for image in group.filter(|image| only.is_none_or(|only| only == *image)) {
            let mut random = Random::new(seed.wrapping_mul(7919).wrapping_add(image as u64));
            let place = recording.nth_cut(random.below(recording.cuts() as u64) as usize);
            let loss = loss(&recording, &mut random);
            let mut cut = PowerCut::new(&recording.history, place.at);
            cut.keep_order_of_names();
            let at = dir.join(format!("image{image}"));
            let made = Image::make(&recording, place, &cut, &loss, &at)?;
            match made.check() {
                Ok(()) => passed += 1,
                Err(why) => {
                    failed += 1;
                    let last = &recording.operations[..place.begun];
                    println!(
                        "FAILED image {image}: {why}\n  at {place:?} in {:?}, {loss:?}\n  kept in \
                         {}; again: braid-union-powerloss --images {images} --seed {seed} --only \
                         {image}",
                        &last[last.len().saturating_sub(12)..],
                        made.keep().display()
                    );
                }
            }
        }
    }
    if failed == 0 {
        std::fs::remove_dir_all(&dir)?;
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed)
}

/// All disks; in one of three images only some of them, as when one cable comes off.
fn loss(recording: &Recording, random: &mut Random) -> Loss {
    let share = *random.pick(&SHARES).unwrap_or(&SurvivingShare::Nothing);
    let volumes: std::collections::BTreeSet<_> =
        recording.history.volumes.iter().copied().collect();
    let some = volumes.into_iter().filter(|_| random.below(2) == 0).collect();
    let volumes = (random.below(3) == 0).then_some(some);
    Loss { share, volumes, seed: random.next_u64(), strict: false }
}
