//! The commands, one file each.

mod bench;
mod ci;
mod netlab;
mod requirements;
mod sim;
mod suite;
mod test;
mod up;
mod walk;

use anyhow::{Result, bail};

/// One `cargo xtask NAME`.
pub struct Command {
    /// The name on the command line.
    pub name: &'static str,
    /// Its arguments, for the help.
    pub usage: &'static str,
    /// One line for the help.
    pub about: &'static str,
    /// Runs it; `Ok(false)` when it ran and found a failure.
    pub run: fn(&[String]) -> Result<bool>,
}

/// All commands.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "ci",
        usage: "[CHECK]... [--summary]",
        about: "every check, then every suite: what CI runs",
        run: ci::run,
    },
    Command {
        name: "test",
        usage: "[--only SUITE]... [--full] [--list]",
        about: "the test suites (--full: the long form of each)",
        run: test::run,
    },
    Command {
        name: "up",
        usage: "[--once] [--json] [--dir DIR]",
        about: "start a cluster, store real data in it, read it back, print the next steps",
        run: up::run,
    },
    Command { name: "sim", usage: "SEED", about: "reproduce one simulation seed", run: sim::run },
    Command {
        name: "suite",
        usage: "xfstests|ltp|stress-ng|pynfs|guest-nfs [DIR]",
        about: "a third-party suite, on a mount or over NFS (root); DIR: its built checkout",
        run: suite::run,
    },
    Command {
        name: "bench",
        usage: "NAME [ARGS]...",
        about: "a benchmark, built for release",
        run: bench::run,
    },
    Command {
        name: "netlab",
        usage: "[OPTIONS] run CMD...",
        about: "hosts on one machine, links of a known rate; runs CMD on the first client (root)",
        run: netlab::run,
    },
    Command {
        name: "walk",
        usage: "[--list]",
        about: "the functions and files that one operation crosses, counted (root)",
        run: walk::run,
    },
    Command {
        name: "requirements",
        usage: "[--check]",
        about: "what the issues require: shown and open (--check: whether each named test exists)",
        run: requirements::run,
    },
];

/// Finds the command and runs it.
pub fn dispatch(args: &[String]) -> Result<bool> {
    let Some((name, rest)) = args.split_first() else {
        help();
        return Ok(true);
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        help();
        return Ok(true);
    }
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(rest),
        None => bail!("no command `{name}`; try: cargo xtask help"),
    }
}

fn help() {
    println!("usage: cargo xtask COMMAND\n");
    for Command { name, usage, about, .. } in COMMANDS {
        println!("  {:<42} {about}", format!("{name} {usage}"));
    }
}
