//! `braid-crash --rounds N [--seed S]`: kills real daemons and clients under load, in N rounds.
//! Prints a broken promise, if any, then `N passed, N failed`.

use std::{path::Path, process::ExitCode};

use anyhow::{Context, Result};
use braid_crash_tests::{
    arguments::Arguments,
    kill::{self, Rounds},
};
use braid_testbed::braid::Braid;

/// Rounds on one cluster; then a new one begins.
const ROUNDS_PER_CLUSTER: u64 = 10;

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("braid-crash: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<u64> {
    let arguments = Arguments::read(&["rounds", "seed", "dir", "client", "mds", "key", "parts"])?;
    if let Some(below) = arguments.text("client") {
        let (mds, key) = arguments
            .text("mds")
            .zip(arguments.text("key"))
            .context("--client needs --mds and --key")?;
        let parts = u16::try_from(arguments.number("parts", 1)?)?;
        kill::run_client(mds, Path::new(key), below, arguments.number("seed", 0)?, parts)?;
        return Ok(0);
    }
    let (rounds, seed) = (arguments.number("rounds", 10)?, arguments.number("seed", 1)?);
    let (braid, own, dir) =
        (Braid::find()?, std::env::current_exe()?, arguments.directory("braid-crash")?);
    println!("seed {seed}");
    let (mut passed, mut failed, mut done, mut cut_off) = (0, 0, 0, 0);
    let mut cluster_number = 0;
    while passed + failed < rounds {
        let cluster_dir = dir.join(format!("cluster{cluster_number}"));
        std::fs::create_dir_all(&cluster_dir)?;
        let mut cluster =
            Rounds::start(&braid, &own, &cluster_dir, seed.wrapping_add(cluster_number << 16))?;
        cluster_number += 1;
        let mut broken = None;
        for _ in 0..ROUNDS_PER_CLUSTER.min(rounds - passed - failed) {
            broken = cluster.round().err();
            if broken.is_some() {
                break;
            }
            passed += 1;
        }
        let (acknowledged, cut) = cluster.counts();
        (done, cut_off) = (done + acknowledged, cut_off + cut);
        drop(cluster);
        match broken {
            Some(why) => {
                failed += 1;
                println!(
                    "FAILED round {}: seed {seed}: {why}; kept in {}",
                    passed + failed,
                    cluster_dir.display()
                );
            }
            None => std::fs::remove_dir_all(&cluster_dir)?,
        }
    }
    if failed == 0 {
        std::fs::remove_dir_all(&dir)?;
    }
    println!("{done} operations acknowledged, {cut_off} cut off");
    println!("{passed} passed, {failed} failed");
    Ok(failed)
}
