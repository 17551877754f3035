//! Tests of a POSIX mount: each takes directories, which are one directory seen by one mount or by several.

mod fsx;
mod mapping;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser, Debug)]
#[command(name = "braid-mount-test", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Random operations on one file, held against an image of it
    Fsx(fsx::FsxArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Fsx(args) => {
            let done = fsx::run(&args)?;
            println!("{} operations: {}", args.ops, done.counts());
            println!("refused: {}", done.refused());
            Ok(())
        }
    }
}
