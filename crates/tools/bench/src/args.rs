//! The arguments.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

/// Benchmarks with targets.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask bench", max_term_width = 100)]
pub struct Args {
    /// The benchmark.
    #[command(subcommand)]
    pub command: Command,
}

/// The benchmarks, and the helper processes that they start from this program.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Reading, writing, metadata and memory of one cluster over loopback, compared with this
    /// machine's own limits
    Core(CoreArgs),
    /// The mount as users use it: dd, fio, cp, tar, git; compared with the local and other
    /// networked file systems
    Mount(MountArgs),
    /// Tasks that share a file: views, lists and mismatched stripes, compared with one call for
    /// each block
    Parallel(CoreArgs),
    /// The NFSv4.1 gateway and the pNFS data servers, compared with nfs-ganesha, the native
    /// protocol and the lines of a lab (root)
    Nfs(CoreArgs),
    /// The SMB gateway, compared with Samba on a mount and on a local directory (root)
    Smb(CoreArgs),
    /// A union of local disks, beside mergerfs and the disks themselves (root)
    Union(UnionArgs),
    /// The papers' figures on a cluster of hosts whose links have the papers' rates (root)
    Papers(PapersArgs),
    /// Growth with daemons, clients, files, directories, stripes and requests: CPU, memory and
    /// rates as curves
    Growth(GrowthArgs),
    /// Measure nothing: write `docs/results` and `docs/plots` from the results in `docs/*.json`
    Tables(TablesArgs),
    /// Many clients of one process
    #[command(hide = true)]
    Clients(ClientsArgs),
    /// Answers each byte with a byte
    #[command(hide = true)]
    Echo,
    /// Creates files on command
    #[command(hide = true)]
    Create(CreateArgs),
    /// Many clients of one process that hold files open
    #[command(hide = true)]
    Opens(OpensArgs),
    /// One task of `mount`'s hard loads
    #[command(hide = true)]
    Hard(HardArgs),
}

/// `cargo xtask bench core`, `parallel`, `nfs`, `smb` and `union`.
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
    /// Print JSON: name, value, unit, spread, bar (the target), holds
    #[arg(long)]
    pub json: bool,
    /// Store the results in this file, in place of older ones of the same rows
    #[arg(long, value_name = "FILE", conflicts_with = "quick")]
    pub keep: Option<PathBuf>,
    /// Exit 1 and name each target that is missed
    #[arg(long)]
    pub check: bool,
    /// Repetitions of which the median is taken [default: 5, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: Option<u32>,
    /// The `braid` binary [default: the one that `cargo build --release` makes, which is built]
    #[arg(long, value_name = "FILE")]
    pub braid: Option<PathBuf>,
    /// Parent of the daemons' directories, which are removed [default: the system's temporary
    /// directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Without the measurements over TLS
    #[arg(long)]
    pub no_tls: bool,
}

impl CoreArgs {
    /// The command that measures one row of `bench` like this run.
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
    /// Measure libfuse's examples over the local file system, as with `--rivals`, but no other
    /// system
    #[arg(long)]
    pub passthrough: bool,
    /// Enable FUSE over io_uring in the kernel for this run, and restore it at its end (needs root)
    #[arg(long)]
    pub io_uring: bool,
    /// libfuse's built example `passthrough`, version 3.18 or newer with io_uring: measured over
    /// io_uring
    #[arg(long, value_name = "FILE", env = "BRAID_BENCH_PASSTHROUGH_URING")]
    pub passthrough_uring: Option<PathBuf>,
    /// Directory of `ior` and `mdtest`, run by `mpirun` [default: the search path; else this
    /// program's own loop]
    #[arg(long, value_name = "DIR", env = "BRAID_BENCH_IOR")]
    pub ior: Option<PathBuf>,
    /// Smaller sizes, once: for trying, not for publishing
    #[arg(long)]
    pub quick: bool,
    /// Print JSON: name, value, unit, spread, bar (the target), holds
    #[arg(long)]
    pub json: bool,
    /// Store the results in this file, in place of older ones of the same groups
    #[arg(long, value_name = "FILE", conflicts_with = "quick")]
    pub keep: Option<PathBuf>,
    /// Exit 1 and name each target that is missed
    #[arg(long)]
    pub check: bool,
    /// Repetitions of which the median is taken [default: 3, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: Option<u32>,
    /// The `braid` binary [default: the one that `cargo build --release` makes, which is built]
    #[arg(long, value_name = "FILE")]
    pub braid: Option<PathBuf>,
    /// Where all file systems store their data: a directory of the local one, which is measured too
    /// [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

impl MountArgs {
    /// The command that measures one group like this run.
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

/// `cargo xtask bench union`.
#[derive(ClapArgs, Debug, Clone, Default)]
pub struct UnionArgs {
    /// The options of all rows.
    #[command(flatten)]
    pub core: CoreArgs,
    /// The `mergerfs` binary [default: the search path; without it the rows are without mergerfs]
    #[arg(long, value_name = "FILE", env = "BRAID_BENCH_MERGERFS")]
    pub mergerfs: Option<PathBuf>,
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
    /// Exit 1 and name each target that is missed
    #[arg(long)]
    pub check: bool,
    /// Do not repeat each row with encrypted connections
    #[arg(long)]
    pub no_tls: bool,
    /// Store the results in this file, in place of older ones of the same rows
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Measure nothing: write the tables of this file to `docs/results/papers.md`, and its plots to
    /// `docs/plots`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rows", "json", "check"])]
    pub tables: Option<PathBuf>,
    /// Run at this fraction of the rates [default: 1, 4 or 10, the first that leaves 30 % of the
    /// machine]
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
    /// Parent of the daemons' directories, which are removed [default: /dev/shm, so that no disk is
    /// measured]
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
    /// Store the results in this file, in place of older ones of the same curves
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Measure nothing: write the tables of this file to `docs/results/growth.md`, and its plots to
    /// `docs/plots`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["curves", "json", "check"])]
    pub tables: Option<PathBuf>,
    /// Repetitions of which the median is taken [default: 3, with --quick 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: Option<u32>,
    /// The `braid` binary [default: the one that `cargo build --release` makes, which is built]
    #[arg(long, value_name = "FILE")]
    pub braid: Option<PathBuf>,
    /// Parent of the daemons' directories, which are removed [default: /dev/shm, so that no disk is
    /// measured]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `cargo xtask bench tables`.
#[derive(ClapArgs, Debug, Clone)]
pub struct TablesArgs {
    /// Change nothing: exit 1 and name each file that the stored results do not produce
    #[arg(long)]
    pub check: bool,
}

/// Arguments of a process of many clients.
#[derive(ClapArgs, Debug, Clone)]
pub struct ClientsArgs {
    /// Address of the metadata server.
    pub mds: String,
    /// The client key.
    pub key: PathBuf,
    /// The number of the first client's file.
    pub first: u32,
    /// Number of clients.
    pub count: u32,
}

/// Arguments of a process that creates files.
#[derive(ClapArgs, Debug, Clone)]
pub struct CreateArgs {
    /// Address of the metadata server.
    pub mds: String,
    /// The client key.
    pub key: PathBuf,
    /// The directory of the new files.
    pub directory: String,
    /// Prefix of their names.
    pub prefix: String,
    /// Number of files.
    pub count: u32,
}

/// Arguments of a process of clients with open files.
#[derive(ClapArgs, Debug, Clone)]
pub struct OpensArgs {
    /// Address of the metadata server.
    pub mds: String,
    /// The client key.
    pub key: PathBuf,
    /// The number of the first client.
    pub first: u32,
    /// Number of clients.
    pub count: u32,
    /// Files of each client.
    pub opens: u32,
}

/// Arguments of a task of the hard loads.
#[derive(ClapArgs, Debug, Clone)]
pub struct HardArgs {
    /// Its operation.
    pub phase: HardPhase,
    /// The shared file, or the directory of the files.
    pub path: PathBuf,
    /// Its number among the tasks.
    pub rank: u64,
    /// Number of records or files of each task.
    pub count: u64,
}

/// The operation of all tasks of a hard load.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum HardPhase {
    /// Writes records into one file, alternating with the other task.
    WriteRecords,
    /// Reads the other task's records.
    ReadRecords,
    /// Creates and writes small files.
    Create,
    /// Reads the attributes of the other task's files.
    Stat,
    /// Reads the other task's files.
    Read,
    /// Removes its own files.
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
    fn the_command_of_a_group_names_its_subjects_and_no_local_path() {
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
