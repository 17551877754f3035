//! Benchmarks with targets, in one form: a table with the command of each row, `--json`, and
//! `--check`, which exits 1 and names each missed target.
//!
//! ```text
//!   main ── mount/        a mount as users use it, and other systems
//!     ├──── papers/       the papers' figures, on hosts and links of a lab
//!     ├──── growth/       curves of growth, and the exponents of their cost
//!     ├──── parallel/     tasks that share a file
//!     ├──── nfs/          NFSv4.1 and pNFS, beside nfs-ganesha and the native protocol
//!     ├──── smb/          SMB 3.1.1, beside Samba
//!     ├──── union/        a union of local disks, beside mergerfs and the disks themselves
//!     ├──── page/         docs/results and docs/plots, from stored results
//!     └──── rows/ ──┬── references/   raw TCP stream, 1-byte round trip, local file
//!                   ├── daemons/      one metadata server and four I/O daemons, processes
//!                   └── workers/      this program again, as a process that echoes or creates
//!             │
//!             └── measure ── report/   table, JSON, the bars that do not hold
//! ```
//!
//! Invariants:
//!
//! 1. A reference and its subject are measured in turn, A B A B, in one run.
//! 2. CPU is user + system of every process of the row together.
//! 3. A target that could not be measured is an error, not a target that is reached.
//!
//! No assertion checks these: the loops of `measure.rs` have the order of 1, 2 is a sum, and the
//! report returns the error of 3.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod cpu;
mod daemons;
mod free_memory;
mod growth;
mod machine;
mod measure;
mod mount;
mod nfs;
mod page;
mod papers;
mod parallel;
mod pinning;
mod references;
mod report;
mod rows;
mod smb;
mod steal;
mod union;
mod workers;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Parser;

use crate::{
    args::{Args, Command, CoreArgs, UnionArgs},
    bench::Bench,
    measure::Measure,
    rows::Row,
};

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Core(args) => run("core", rows::ROWS, &args, None),
        Command::Parallel(args) => run("parallel", parallel::ROWS, &args, None),
        Command::Nfs(args) => run("nfs", nfs::ROWS, &args, None),
        Command::Smb(args) => run("smb", smb::ROWS, &args, None),
        Command::Union(UnionArgs { core, mergerfs }) => run("union", union::ROWS, &core, mergerfs),
        Command::Mount(args) => mount::run(&args),
        Command::Papers(args) => papers::run(&args),
        Command::Growth(args) => growth::run(&args),
        Command::Tables(args) => page::run(&args),
        Command::Clients(args) => workers::clients::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Echo => workers::echo::run().map(|()| ExitCode::SUCCESS),
        Command::Create(args) => workers::create::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Opens(args) => workers::opens::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Hard(args) => workers::ior_hard::run(&args).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("bench: {error:#}");
        ExitCode::from(2)
    })
}

fn run(
    name: &str,
    rows: &'static [Row],
    args: &CoreArgs,
    mergerfs: Option<PathBuf>,
) -> Result<ExitCode> {
    if args.list {
        rows.iter().for_each(|row| println!("{:16} {}", row.name, row.about));
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = rows::chosen(rows, &args.rows)?;
    let mut bench = Bench::new(args)?;
    bench.mergerfs = mergerfs;
    let machine = machine::describe(&bench.scratch);
    let (mut measures, mut failed) = (Vec::new(), Vec::new());
    for row in chosen {
        eprintln!("bench: {} ({})", row.name, row.about);
        let (load, notes) = (machine::load(), bench.notes().len());
        let command = args.command_of(name, row.name);
        let own: Vec<Measure> = match (row.run)(&bench) {
            Ok(own) => own.into_iter().map(|measure| measure.made_by(&command)).collect(),
            Err(error) => {
                // The other rows are measured nevertheless.
                eprintln!("bench: {} failed: {error:#}", row.name);
                failed.push(row.name);
                continue;
            }
        };
        if let Some(file) = &args.keep {
            let when = machine::when(&machine, load, &bench.steal);
            let new_notes = bench.notes().split_off(notes);
            let when = [vec![when], new_notes].concat().join("; ");
            papers::store::store_row(file, row.name, &when, args.quick, &own)?;
        }
        measures.extend(own);
    }
    print(args, &bench, &measures);
    anyhow::ensure!(
        failed.is_empty(),
        "these rows failed: {}; try: cargo xtask bench {name} {}",
        failed.join(", "),
        failed.join(" ")
    );
    Ok(report::verdict(args.check, &measures))
}

fn print(args: &CoreArgs, bench: &Bench, measures: &[Measure]) {
    let machine = machine::describe(&bench.scratch);
    if args.json {
        println!("{}", report::json::render(&machine, &bench.notes(), measures));
    } else {
        print!("{}", report::table::render(&machine, &bench.notes(), measures));
    }
}
