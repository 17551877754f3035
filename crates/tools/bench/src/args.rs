//! The arguments.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

/// Benchmarks with bars.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask bench", max_term_width = 100)]
pub struct Args {
    /// Which benchmark.
    #[command(subcommand)]
    pub command: Command,
}

/// The benchmarks, and the processes that they start from this same program.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Reading, writing, metadata and memory of one cluster over loopback, against this machine's own limits
    Core(CoreArgs),
    /// The mount as users drive it: dd, fio, cp, tar, git; against the local file system and other networked ones
    Mount(MountArgs),
    /// Tasks that share a file: views, lists and mismatched stripes, against one call for each block
    Parallel(CoreArgs),
    /// The papers' figures on a cluster of hosts whose links have the papers' rates (root)
    Papers(PapersArgs),
    /// What grows with daemons, clients, files, directories, stripes and requests: CPU, memory, rates, as curves
    Growth(GrowthArgs),
    /// Measure nothing: write `docs/results` and `docs/plots` from the results in `docs/*.json`
    Tables(TablesArgs),
    /// Many clients of one process
    #[command(hide = true)]
    Clients(ClientsArgs),
    /// Answers each byte with a byte
    #[command(hide = true)]
    Echo,
    /// Creates files when told to
    #[command(hide = true)]
    Create(CreateArgs),
    /// Many clients of one process that keep files open
    #[command(hide = true)]
    Opens(OpensArgs),
    /// One task of `mount`'s hard loads
    #[command(hide = true)]
    Hard(HardArgs),
}

/// `cargo xtask bench core` and `parallel`.
#[derive(ClapArgs, Debug, Clone, Default)]
pub struct CoreArgs {
    /// Rows to measure [default: all]
    #[arg(value_name = "ROW")]
    pub rows: Vec<String>,
    /// Print the rows and what each measures
    #[arg(long)]
    pub list: bool,
    /// Fewer repetitions and smaller sizes: for trying, not for publishing
    #[arg(long)]
    pub quick: bool,
    /// Print JSON: name, value, unit, spread, bar, holds
    #[arg(long)]
    pub json: bool,
    /// Keep what was measured in this file, in place of what it has of the same rows
    #[arg(long, value_name = "FILE", conflicts_with = "quick")]
    pub keep: Option<PathBuf>,
    /// Exit 1 and name each bar that does not hold
    #[arg(long)]
    pub check: bool,
    /// Repetitions of which the median is taken [default: 5, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: Option<u32>,
    /// The `braid` binary [default: the one that `cargo build --release` makes, which is built]
    #[arg(long, value_name = "FILE")]
    pub braid: Option<PathBuf>,
    /// Where the daemons' directories are made, and removed [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Without the column of TLS
    #[arg(long)]
    pub no_tls: bool,
}

impl CoreArgs {
    /// The command that measures one row of `bench` as this run does.
    pub fn command_of(&self, bench: &str, row: &str) -> String {
        let mut command = format!("cargo xtask bench {bench} {row}");
        if self.quick {
            command += " --quick";
        }
        if let Some(count) = self.repetitions {
            command += &format!(" --repetitions {count}");
        }
        if self.no_tls {
            command += " --no-tls";
        }
        command
    }
}

/// `cargo xtask bench mount`.
#[derive(ClapArgs, Debug, Clone, Default)]
pub struct MountArgs {
    /// Groups to measure [default: all]
    #[arg(value_name = "GROUP")]
    pub groups: Vec<String>,
    /// Print the groups and what each measures
    #[arg(long)]
    pub list: bool,
    /// Measure GlusterFS and MooseFS too, from Debian's packages, which are installed (needs root)
    #[arg(long)]
    pub rivals: bool,
    /// Measure libfuse's examples over the local file system, as with `--rivals`, and no rival
    #[arg(long)]
    pub passthrough: bool,
    /// Switch FUSE over io_uring on in the kernel for this run, and back at its end (needs root)
    #[arg(long)]
    pub io_uring: bool,
    /// libfuse's built example `passthrough`, of version 3.18 or newer with io_uring: measured over io_uring
    #[arg(long, value_name = "FILE", env = "BRAID_BENCH_PASSTHROUGH_URING")]
    pub passthrough_uring: Option<PathBuf>,
    /// Where `ior` and `mdtest` are, run by `mpirun` [default: the search path; else a loop of this program's own]
    #[arg(long, value_name = "DIR", env = "BRAID_BENCH_IOR")]
    pub ior: Option<PathBuf>,
    /// Smaller sizes, once: for trying, not for publishing
    #[arg(long)]
    pub quick: bool,
    /// Print JSON: name, value, unit, spread, bar, holds
    #[arg(long)]
    pub json: bool,
    /// Keep what was measured in this file, in place of what it has of the same groups
    #[arg(long, value_name = "FILE", conflicts_with = "quick")]
    pub keep: Option<PathBuf>,
    /// Exit 1 and name each bar that does not hold
    #[arg(long)]
    pub check: bool,
    /// Repetitions of which the median is taken [default: 3, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: Option<u32>,
    /// The `braid` binary [default: the one that `cargo build --release` makes, which is built]
    #[arg(long, value_name = "FILE")]
    pub braid: Option<PathBuf>,
    /// Where all file systems keep their data: a directory of the local one that is measured too [default: the system's
    /// temporary directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

impl MountArgs {
    /// The command that measures one group as this run does.
    pub fn command_of(&self, group: &str) -> String {
        let rivals = match (self.rivals, self.passthrough) {
            (true, _) => " --rivals",
            (false, true) => " --passthrough",
            (false, false) => "",
        };
        let uring = if self.io_uring { " --io-uring" } else { "" };
        let quick = if self.quick { " --quick" } else { "" };
        let count =
            self.repetitions.map(|count| format!(" --repetitions {count}")).unwrap_or_default();
        format!("cargo xtask bench mount {group}{rivals}{uring}{quick}{count}")
    }
}

/// `cargo xtask bench papers`.
#[derive(ClapArgs, Debug, Clone, Default)]
pub struct PapersArgs {
    /// Rows to measure [default: all]
    #[arg(value_name = "ROW")]
    pub rows: Vec<String>,
    /// Print the rows and what each measures
    #[arg(long)]
    pub list: bool,
    /// Shorter samples: for trying, not for publishing
    #[arg(long)]
    pub quick: bool,
    /// Exit 1 and name each bar that does not hold
    #[arg(long)]
    pub check: bool,
    /// Without measuring each row once more with encrypted connections
    #[arg(long)]
    pub no_tls: bool,
    /// Keep what was measured in this file, in place of what it has of the same rows
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Measure nothing: write the tables of this file to `docs/results/papers.md`, and its plots to `docs/plots`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rows", "json", "check"])]
    pub tables: Option<PathBuf>,
    /// Run at this part of the rates [default: 1, 4 or 10, as iperf3 leaves 30 % of the machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub divide: Option<u64>,
    /// TCP congestion control of the hosts [default: the machine's]
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Repetitions of which the median is taken [default: 3, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: Option<u32>,
    /// The `braid` binary [default: the one that `cargo build --release` makes, which is built]
    #[arg(long, value_name = "FILE")]
    pub braid: Option<PathBuf>,
    /// Where the daemons' directories are made, and removed [default: /dev/shm, so that no disk is measured]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `cargo xtask bench growth`.
#[derive(ClapArgs, Debug, Clone, Default)]
pub struct GrowthArgs {
    /// Curves to measure [default: all]
    #[arg(value_name = "CURVE")]
    pub curves: Vec<String>,
    /// Print the curves and what each measures
    #[arg(long)]
    pub list: bool,
    /// Fewer points and repetitions: for trying, not for publishing
    #[arg(long)]
    pub quick: bool,
    /// The first point of each curve, with a hundredth of its work: for tests
    #[arg(long, hide = true)]
    pub smallest: bool,
    /// Exit 1 and name what grows faster than allowed
    #[arg(long)]
    pub check: bool,
    /// Keep what was measured in this file, in place of what it has of the same curves
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Measure nothing: write the tables of this file to `docs/results/growth.md`, and its plots to `docs/plots`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["curves", "json", "check"])]
    pub tables: Option<PathBuf>,
    /// Repetitions of which the median is taken [default: 3, with --quick 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: Option<u32>,
    /// The `braid` binary [default: the one that `cargo build --release` makes, which is built]
    #[arg(long, value_name = "FILE")]
    pub braid: Option<PathBuf>,
    /// Where the daemons' directories are made, and removed [default: /dev/shm, so that no disk is measured]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `cargo xtask bench tables`.
#[derive(ClapArgs, Debug, Clone)]
pub struct TablesArgs {
    /// Change nothing: exit 1 and name each file that is not what was kept makes
    #[arg(long)]
    pub check: bool,
}

/// What a process of many clients is told.
#[derive(ClapArgs, Debug, Clone)]
pub struct ClientsArgs {
    /// Address of the metadata server.
    pub mds: String,
    /// The client key.
    pub key: PathBuf,
    /// The number of the first client's file.
    pub first: u32,
    /// How many clients.
    pub count: u32,
}

/// What a creating process is told.
#[derive(ClapArgs, Debug, Clone)]
pub struct CreateArgs {
    /// Address of the metadata server.
    pub mds: String,
    /// The client key.
    pub key: PathBuf,
    /// The directory of the new files.
    pub directory: String,
    /// Their names begin so.
    pub prefix: String,
    /// How many.
    pub count: u32,
}

/// What a process of clients with open files is told.
#[derive(ClapArgs, Debug, Clone)]
pub struct OpensArgs {
    /// Address of the metadata server.
    pub mds: String,
    /// The client key.
    pub key: PathBuf,
    /// The number of the first client.
    pub first: u32,
    /// How many clients.
    pub count: u32,
    /// Files of each.
    pub opens: u32,
}

/// What a task of the hard loads is told.
#[derive(ClapArgs, Debug, Clone)]
pub struct HardArgs {
    /// What it does.
    pub phase: HardPhase,
    /// The shared file, or the directory of the files.
    pub path: PathBuf,
    /// Its number among the tasks.
    pub rank: u64,
    /// How many records, or files, each task has.
    pub count: u64,
}

/// What the tasks of a hard load do together.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum HardPhase {
    /// Records into one file, in turn.
    WriteRecords,
    /// The other task's records out of it.
    ReadRecords,
    /// Small files, made and written.
    Create,
    /// The other task's files looked at.
    Stat,
    /// The other task's files read.
    Read,
    /// Own files removed.
    Remove,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_row_measures_it_in_the_same_way() {
        let args =
            CoreArgs { quick: true, repetitions: Some(7), check: true, ..CoreArgs::default() };
        assert_eq!(
            args.command_of("core", "read"),
            "cargo xtask bench core read --quick --repetitions 7"
        );
        assert_eq!(
            CoreArgs::default().command_of("parallel", "lists"),
            "cargo xtask bench parallel lists"
        );
    }

    #[test]
    fn the_command_of_a_group_has_the_subjects_of_this_run_and_no_path_of_this_machine() {
        let args = MountArgs {
            rivals: true,
            io_uring: true,
            ior: Some("/x".into()),
            ..MountArgs::default()
        };
        assert_eq!(args.command_of("names"), "cargo xtask bench mount names --rivals --io-uring");
    }

    #[test]
    fn the_tree_of_arguments_is_sound() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
