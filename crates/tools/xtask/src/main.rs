//! The project's own tasks: what CI runs is what a developer runs.
//!
//! ```text
//! cargo xtask ci ── checks ──────────────► one line each ┐
//!                └─ test ── suites/*.rs ─► counts        ├─► table, then `N passed, N failed`
//! cargo xtask test [--only SUITE] ───────► counts        ┘
//! ```
//!
//! 1. A new command is a file in `commands/` and a row in its table; a new check likewise in
//!    `checks/`, a new suite likewise in `suites/`.
//! 2. The last line of `ci` and `test` is the closing line, and the exit code is 0 only if it
//!    contains `0 failed`.
//! 3. What could not run prints a reason; nothing passes without a test subject.
#![forbid(unsafe_code)]

mod build;
mod checks;
mod commands;
mod context;
mod external_suites;
mod guest;
mod libtest;
mod metadata;
mod process;
mod progress;
mod report;
mod requirements;
mod suites;
mod tools;
mod walk;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match commands::dispatch(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}
