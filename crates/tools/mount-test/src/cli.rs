//! The command line. Commands take directories: one directory, seen through one or several mounts.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::{
    actor, append, bounds,
    cases::{self, Case, Counts, TestDirs},
    fsx, history, locks, mapped, programs, suite,
};

#[derive(Parser, Debug)]
#[command(name = "braid-mount-test", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Random operations on one file, compared with an image in memory
    Fsx(fsx::FsxArgs),
    /// Random calls by several threads, checked against every order that a coherent file system
    /// allows
    History(history::HistoryArgs),
    /// Locks, appends and mappings by several processes on several mounts
    Shared(CasesArgs),
    /// Real programs: git, SQLite, a C project, tar, rsync, dbench
    Programs(CasesArgs),
    /// All tests, on a cluster of its own that is mounted twice, also while its processes are
    /// killed
    Suite(suite::SuiteArgs),
    /// How long each call takes while a server is gone, on a cluster and mount of its own
    Bounds(bounds::BoundsArgs),
    /// Executes commands of another test
    #[command(hide = true)]
    Actor,
}

/// The cases, and their directories.
#[derive(Args, Clone, Debug)]
struct CasesArgs {
    /// A directory of the file system; several are the same directory through several mounts
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Only cases with this in their names
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
    /// The long form
    #[arg(long)]
    full: bool,
    /// The seed of random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the command.
pub fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<bool> {
    match command {
        Command::Fsx(args) => {
            let done = fsx::run(&args)?;
            println!("{} operations: {}", args.ops, done.counts());
            println!(
                "I/O daemons of the file: {}",
                done.daemons().map_or("none, not BraidFS".to_owned(), |n| n.to_string())
            );
            println!("refused: {}\ntime: {}", done.refused(), done.dearest());
            Ok(true)
        }
        Command::History(args) => {
            let played = history::run(&args)?;
            let (rounds, longest) = (args.rounds, played.longest.as_secs_f64() * 1e3);
            println!(
                "{} calls in {rounds} rounds, coherent; the longest took {longest:.0} ms",
                played.calls
            );
            Ok(true)
        }
        Command::Shared(args) => Ok(run_cases(&[locks::CASES, append::CASES, mapped::CASES], args)),
        Command::Programs(args) => Ok(run_cases(&[programs::CASES], args)),
        Command::Suite(args) => suite::run(&args),
        Command::Bounds(args) => bounds::run(&args),
        Command::Actor => actor::play().map(|()| true),
    }
}

fn run_cases(groups: &[&[Case]], args: CasesArgs) -> bool {
    let ground = TestDirs { dirs: args.dirs, full: args.full, seed: args.seed };
    let mut counts = Counts::default();
    groups.iter().for_each(|cases| cases::run(cases, &args.only, &ground, &mut counts));
    println!("{}", counts.closing_line());
    counts.failed == 0
}
