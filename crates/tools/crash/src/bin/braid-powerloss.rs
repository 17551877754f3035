//! `braid-powerloss --images N [--seed S] [--only I] [--strict 1]`: records the daemons, cuts their
//! power at N points, and checks what starts again. Prints a line for each image that broke a
//! promise, then `N passed, N failed`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Mutex,
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context, Result, bail};
use braid_crash_tests::{
    arguments::Arguments,
    disk::{Loss, PowerCut, SurvivingShare},
    power::{self, Image, Recording},
    trace,
};
use braid_testbed::{braid::Braid, ports::Ports};
use braid_types::Random;

/// Images of one recording.
const IMAGES_PER_RECORDING: usize = 25;
/// Operations of one recording.
const OPERATIONS: usize = 160;
/// Recordings checked at the same time.
const SIDE_BY_SIDE: usize = 2;

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("braid-powerloss: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<usize> {
    let arguments = Arguments::read(&[
        "images",
        "seed",
        "load",
        "operations",
        "port",
        "braid",
        "dir",
        "only",
        "strict",
    ])?;
    if let Some(dir) = arguments.text("load") {
        let braid = Braid::at(arguments.text("braid").context("--load needs --braid")?.into());
        let (seed, count) =
            (arguments.number("seed", 0)?, arguments.number("operations", OPERATIONS as u64)?);
        power::load(
            &braid,
            Path::new(dir),
            seed,
            count as usize,
            u16::try_from(arguments.number("port", 0)?)?,
        )?;
        return Ok(0);
    }
    let images = arguments.number("images", 50)? as usize;
    if let Some(why) = trace::missing() {
        bail!("{why}");
    }
    let run = Run {
        braid: Braid::find()?,
        own: std::env::current_exe()?,
        dir: arguments.directory("braid-powerloss")?,
        seed: arguments.number("seed", 1)?,
        only: arguments.text("only").map(str::parse).transpose()?,
        images,
        passed: AtomicUsize::new(0),
        failed: Mutex::new(0),
        next: AtomicUsize::new(0),
        strict: arguments.number("strict", 0)? != 0,
    };
    println!("seed {}", run.seed);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..SIDE_BY_SIDE).map(|_| scope.spawn(|| run.work())).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a worker panicked")))
    })?;
    let failed = *run.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if failed == 0 {
        std::fs::remove_dir_all(&run.dir)?;
    }
    println!("{} passed, {failed} failed", run.passed.load(Ordering::Relaxed));
    Ok(failed)
}

struct Run {
    braid: Braid,
    own: PathBuf,
    dir: PathBuf,
    seed: u64,
    images: usize,
    /// Only this image, to check it again.
    only: Option<usize>,
    passed: AtomicUsize,
    failed: Mutex<usize>,
    next: AtomicUsize,
    /// Only what POSIX promises, without what every journal does.
    strict: bool,
}

impl Run {
    /// Takes recordings until none is left.
    fn work(&self) -> Result<()> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let first = number * IMAGES_PER_RECORDING;
            let images = first..self.images.min(first + IMAGES_PER_RECORDING);
            if images.is_empty() {
                return Ok(());
            }
            if self.only.is_none_or(|only| images.contains(&only)) {
                self.recording(number, images)?;
            }
        }
    }

    fn recording(&self, number: usize, images: std::ops::Range<usize>) -> Result<()> {
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
        let ports = Ports::take(1)?;
        let dir = self.dir.join(format!("recording{number}"));
        let recording =
            Recording::make(&self.braid, &self.own, &dir, seed, OPERATIONS, ports.all()[0])
                .with_context(|| format!("recording {number} with seed {seed}"))?;
        for image in images.filter(|image| self.only.is_none_or(|only| only == *image)) {
            self.image(&recording, image)?;
        }
        Ok(())
    }

    fn image(&self, recording: &Recording, image: usize) -> Result<()> {
        let mut random = Random::new(self.seed.wrapping_mul(7919).wrapping_add(image as u64));
        let place = recording.choose(image % IMAGES_PER_RECORDING, &mut random);
        let loss = Loss { strict: self.strict, ..loss(recording, &mut random) };
        let cut = PowerCut::new(&recording.history, place.at);
        let made =
            Image::make(recording, place, &cut, &loss, &self.dir.join(format!("image{image}")))?;
        match made.check() {
            Ok(_) => drop(self.passed.fetch_add(1, Ordering::Relaxed)),
            Err(why) => {
                *self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
                let dir = made.keep();
                let lines: Vec<String> =
                    recording.operations.iter().map(|operation| format!("{operation:?}")).collect();
                std::fs::write(dir.with_extension("operations"), lines.join("\n"))?;
                let last = place.done.checked_sub(1).map(|last| &recording.operations[last]);
                println!(
                    "FAILED image {image}: {why}\n  at {place:?} after {last:?}, {loss:?}\n  \
                     kept in {}; again: braid-powerloss --images {} --seed {} --only {image}",
                    dir.display(),
                    self.images,
                    self.seed
                );
            }
        }
        Ok(())
    }
}

/// All disks; in one of three images only some of them: one host lost power, the others did not.
fn loss(recording: &Recording, random: &mut Random) -> Loss {
    let share = *random.pick(&SurvivingShare::ALL).unwrap_or(&SurvivingShare::Nothing);
    let volumes: std::collections::BTreeSet<_> =
        recording.history.volumes.iter().copied().collect();
    let some = volumes.into_iter().filter(|_| random.below(2) == 0).collect();
    let volumes = (random.below(3) == 0).then_some(some);
    Loss { share, volumes, seed: random.next_u64(), strict: false }
}
