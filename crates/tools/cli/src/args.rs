//! The one tree of commands: help, man pages and completions all come from it.

use std::path::PathBuf;

use braid_client::settings::{Tls, size as parse_size};
use clap::{Args, Parser, Subcommand, ValueEnum};

/// BraidFS: one file system out of many disks and machines.
#[derive(Parser, Debug)]
#[command(name = "braid", version, propagate_version = true, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Cli {
    /// Flags that every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Exit codes and first steps, under the help and in the man page.
pub const AFTER_HELP: &str = "Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 no such file, 4 refused \
(permission or key), 5 server not reached, 6 no space, 7 fsck found problems.\n\nFirst steps: braid up DIR";

/// Under the help of `braid up`.
const UP_EXAMPLES: &str = "Examples:
  braid up /tmp/b --detach          a cluster of four I/O daemons in the background, mounted on /tmp/b/mnt
  braid up /tmp/b --port 0          with any free port
  braid down /tmp/b                 stop it; everything is kept";
const IOD_EXAMPLES: &str = "Examples:
  braid iod --config braid.toml --dir /disk1 --init --listen 10.0.0.2:7701
                                    the first start, on an empty directory of a disk
  braid iod --config braid.toml --dir /disk1 --listen 10.0.0.2:7701
                                    every later one
  braid iod remove 3                take out a daemon that has nothing
  braid iod remove 3 --lost         give up what lies on a daemon that does not come back";
const KEY_EXAMPLES: &str = "Examples:
  braid key add host7 --out host7.key           a key for a host
  braid key add guest --read-only --subtree /pub
  braid key list
  braid key revoke 4";
const PUT_EXAMPLES: &str = "Examples:
  braid put -r data /               a directory with all that is in it
  braid put a.bin b.bin /d          files into a directory
  braid put --stripe-size 64K --iod-count 2 a.bin /a.bin
  braid put -r --resume data /      go on after an interruption";
const GET_EXAMPLES: &str = "Examples:
  braid get /a.bin .                a file into this directory
  braid get -r /data backup         a directory with all that is in it";
const LAYOUT_EXAMPLES: &str = "Examples:
  braid layout show /a.bin                      where its bytes lie
  braid layout set /d --stripe-size 64K         for new files in a directory
  braid layout set /d                           back to the default of the file system";
const MOUNT_EXAMPLES: &str = "Examples:
  braid mount /mnt
  braid mount /mnt -o ro,mds=10.0.0.1:7700,key=/etc/braid/host.key
  braid umount /mnt";
const FSCK_EXAMPLES: &str = "Examples:
  braid fsck                        look, and change nothing
  braid fsck --mend
  braid fsck --affected-by 3        files of which I/O daemon 3 has a part";
const QUOTA_EXAMPLES: &str = "Examples:
  braid quota set --user alice --bytes 10G --soft-bytes 8G --grace 7d
  braid quota set --dir /projects/x --inodes 1M
  braid quota list";

/// Heading of the options that say which cluster is meant and who asks. `-h` shows the two that are needed; `--help` all.
const CLUSTER: &str = "Which cluster (--help shows more)";
/// Heading of the options about what is printed.
const OUTPUT: &str = "Output";

/// Flags that every command takes.
#[derive(Args, Debug, Clone, Default)]
pub struct Global {
    /// The configuration file [default: braid.toml here, ~/.config/braid/braid.toml, /etc/braid/braid.toml]
    #[arg(long, short = 'c', global = true, help_heading = CLUSTER, env = "BRAID_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The metadata server, HOST:PORT (may be given several times)
    #[arg(long, global = true, help_heading = CLUSTER, env = "BRAID_MDS", value_delimiter = ',', value_name = "ADDR")]
    pub mds: Vec<String>,
    /// The key to prove: a client key file, or the server key for administration
    #[arg(long, global = true, help_heading = CLUSTER, hide_short_help = true, env = "BRAID_KEY", value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// The agent's socket, in place of a key
    #[arg(long, global = true, help_heading = CLUSTER, hide_short_help = true, env = "BRAID_AGENT", value_name = "SOCKET")]
    pub agent: Option<PathBuf>,
    /// How long a call may wait for a server, such as 30s or 500ms
    #[arg(long, global = true, help_heading = CLUSTER, hide_short_help = true, env = "BRAID_TIMEOUT", value_parser = braid_client::settings::duration, value_name = "TIME")]
    pub timeout: Option<std::time::Duration>,
    /// TLS to servers: unless-loopback, always, never
    #[arg(long, global = true, help_heading = CLUSTER, hide_short_help = true, env = "BRAID_TLS", value_name = "WHEN")]
    pub tls: Option<TlsArg>,
    /// Print facts as JSON
    #[arg(long, global = true, help_heading = OUTPUT, hide_short_help = true)]
    pub json: bool,
    /// Say less: no progress, no hints
    #[arg(long, short = 'q', global = true, help_heading = OUTPUT, hide_short_help = true)]
    pub quiet: bool,
    /// Log more (-v info, -vv debug, -vvv trace); BRAID_LOG takes a filter
    #[arg(long, short = 'v', global = true, help_heading = OUTPUT, hide_short_help = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// When connections use TLS.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TlsArg {
    /// Unless both ends are on this machine
    #[default]
    UnlessLoopback,
    /// Always
    Always,
    /// Never
    Never,
}

impl TlsArg {
    /// As it is typed.
    pub fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl From<Tls> for TlsArg {
    fn from(tls: Tls) -> Self {
        match tls {
            Tls::UnlessLoopback => Self::UnlessLoopback,
            Tls::Always => Self::Always,
            Tls::Never => Self::Never,
        }
    }
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Start a whole cluster in one process: a metadata server and I/O daemons under DIR
    #[command(after_help = UP_EXAMPLES)]
    Up(UpArgs),
    /// Stop a cluster that `braid up --detach` started
    Down {
        /// The directory given to `up`
        dir: PathBuf,
    },
    /// Make the directory of a metadata server: cluster UUID, keys, configuration
    Init(InitArgs),
    /// Run the metadata server
    Mds(MdsArgs),
    /// Run an I/O daemon, or take one out of the cluster for good
    #[command(after_help = IOD_EXAMPLES)]
    Iod(IodArgs),
    /// Run the agent of this host: it vouches for the host's users
    Agent(AgentArgs),
    /// Client keys
    #[command(subcommand, after_help = KEY_EXAMPLES)]
    Key(KeyCommand),
    /// One row per daemon: state, space, load, connections, errors
    Status,
    /// List a directory
    #[command(disable_help_flag = true)]
    Ls(LsArgs),
    /// Attributes of files
    Stat {
        /// Paths in the file system
        #[arg(required = true)]
        paths: Vec<String>,
        /// Do not follow a final symbolic link
        #[arg(long, short = 'P')]
        no_follow: bool,
    },
    /// Copy local files and directories into the file system
    #[command(override_usage = "braid put [OPTIONS] <SOURCE>... <DESTINATION>", after_help = PUT_EXAMPLES)]
    Put(TransferArgs),
    /// Copy files and directories out of the file system
    #[command(override_usage = "braid get [OPTIONS] <SOURCE>... <DESTINATION>", after_help = GET_EXAMPLES)]
    Get(TransferArgs),
    /// Print files
    Cat {
        /// Paths in the file system
        #[arg(required = true)]
        paths: Vec<String>,
    },
    /// Make directories
    Mkdir {
        /// Paths in the file system
        #[arg(required = true)]
        paths: Vec<String>,
        /// Make parents too; no error when it exists
        #[arg(long, short = 'p')]
        parents: bool,
        /// Permission bits, octal
        #[arg(long, short = 'm', default_value = "755", value_parser = parse_mode)]
        mode: u32,
    },
    /// Remove files, and directories with -r
    Rm {
        /// Paths in the file system
        #[arg(required = true)]
        paths: Vec<String>,
        /// Remove directories and what is in them
        #[arg(long, short = 'r')]
        recursive: bool,
        /// No error when a path does not exist
        #[arg(long, short = 'f')]
        force: bool,
    },
    /// Rename; into an existing directory moves into it
    Mv {
        /// Old path
        from: String,
        /// New path
        to: String,
        /// Fail when the new path exists
        #[arg(long, short = 'n', conflicts_with = "exchange")]
        no_replace: bool,
        /// Exchange the two
        #[arg(long)]
        exchange: bool,
    },
    /// Make a hard link, or with -s a symbolic link
    Ln {
        /// The file, or what the symbolic link says
        target: String,
        /// The new name
        link: String,
        /// Symbolic
        #[arg(long, short = 's')]
        symbolic: bool,
    },
    /// Copy inside the file system
    #[command(override_usage = "braid cp [OPTIONS] <SOURCE>... <DESTINATION>")]
    Cp {
        /// Sources and, last, the destination
        #[arg(required = true, num_args = 2.., value_name = "PATH")]
        paths: Vec<String>,
        /// Copy directories
        #[arg(long, short = 'r')]
        recursive: bool,
        /// Layout of new files
        #[command(flatten)]
        layout: LayoutArgs,
    },
    /// Bytes and files below a path
    #[command(disable_help_flag = true)]
    Du(DuArgs),
    /// Room in the file system and on each disk
    #[command(disable_help_flag = true)]
    Df(HumanArgs),
    /// What users, groups and directories may have, and what they have
    #[command(subcommand, after_help = QUOTA_EXAMPLES)]
    Quota(QuotaCommand),
    /// Where the bytes of files lie, and defaults of directories
    #[command(subcommand, after_help = LAYOUT_EXAMPLES)]
    Layout(LayoutCommand),
    /// Mount the file system on a directory; it goes on in the background when it is ready
    #[command(after_help = MOUNT_EXAMPLES)]
    Mount(MountArgs),
    /// Unmount, also when its servers or its own process are gone
    Umount(UmountArgs),
    /// Make everything durable that was written: through the mounts that the paths are on; without a path, all that the servers
    /// have acknowledged
    Sync {
        /// Mount points, or paths on mounts
        #[arg(value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
    /// Check the file system while it runs; reports only, unless told to mend
    #[command(after_help = FSCK_EXAMPLES)]
    Fsck {
        /// Mend what can be mended. Nothing is deleted: objects without a file go to lost+found
        #[arg(long)]
        mend: bool,
        /// Check nothing: list the files of which this I/O daemon has a part, or may have one. They lose it with the daemon
        #[arg(long, value_name = "ID", conflicts_with = "mend")]
        affected_by: Option<u32>,
    },
    /// Measure what the cluster does, each result beside the limit that binds it; `bench compare A B` sets two runs side by side
    Bench(BenchArgs),
    /// The configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Shell completions on standard output
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
    /// Man pages: one on standard output, or all into a directory
    Man {
        /// Write a page per command into this directory
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// `braid up`.
#[derive(Args, Debug, Clone)]
pub struct UpArgs {
    /// An empty or new directory, or one that `up` made before
    pub dir: PathBuf,
    /// I/O daemons [default: 4, or those that there are]; more than there are: the others are added
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub iods: Option<u16>,
    /// Port of the metadata server [default: 7700, or the one it had]; 0: the one it had, else any free one. Kept in
    /// DIR/braid.toml. I/O daemons take any free ports
    #[arg(long)]
    pub port: Option<u16>,
    /// Go on in the background when the cluster is ready
    #[arg(long, short = 'd')]
    pub detach: bool,
    /// Mount the file system there [default: DIR/mnt, where this user may mount]
    #[arg(long, value_name = "POINT", conflicts_with = "no_mount")]
    pub mount: Option<PathBuf>,
    /// Do not mount it
    #[arg(long)]
    pub no_mount: bool,
}

/// `braid mount`. As mount.braid it is the helper of mount(8) for `mount -t braid` and /etc/fstab.
#[derive(Args, Debug, Clone)]
pub struct MountArgs {
    /// The directory to mount on
    pub point: PathBuf,
    /// Options: ro, noatime, noexec, suid, dev, noallow_other, detach_dead, flush_on_close;
    /// consistency=posix, close-to-open or commit; io_uring=auto, on or off; key=FILE and the like
    /// for the client's settings
    #[arg(long, short = 'o', value_delimiter = ',', value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// Stay in the foreground
    #[arg(long, short = 'f')]
    pub foreground: bool,
    /// Where the log goes [default: standard error in the foreground, else the system's log; where none
    /// listens, a file that the mount names]
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// What the table of mounts shows as the source
    #[arg(long, hide = true, value_name = "TEXT")]
    pub source: Option<String>,
    /// Pass over options that are not known
    #[arg(long, hide = true)]
    pub sloppy: bool,
}

/// `braid umount`.
#[derive(Args, Debug, Clone)]
pub struct UmountArgs {
    /// Where it is mounted
    #[arg(required = true)]
    pub points: Vec<PathBuf>,
    /// Take it out of the tree now, although it is in use; it ends with its last user
    #[arg(long, short = 'l')]
    pub lazy: bool,
}

/// `braid bench`.
#[derive(Args, Debug, Clone)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    /// What else there is
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    /// In under a minute: shorter samples, and fewer rows
    #[arg(long)]
    pub quick: bool,
    /// Only these rows
    #[arg(long, value_delimiter = ',', value_name = "ROWS")]
    pub only: Vec<String>,
    /// The rows of a paper: pvfs-1996, wpvfs-2008, cifs-2007, united-fs-2007, direct-pnfs-2007
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Tasks of the rows that have several [default: 4, or the preset's]
    #[arg(long, value_name = "N")]
    pub tasks: Option<u32>,
    /// Time of each row, all its samples together
    #[arg(long, default_value = "3s", value_parser = braid_client::settings::duration, value_name = "TIME")]
    pub seconds: std::time::Duration,
    /// Samples of each row [default: 5, with --quick 4]
    #[arg(long, value_name = "N")]
    pub samples: Option<usize>,
    /// Bytes of the files of a row, such as 256M; never more than a thirtieth of the free space [default: 1G, with --quick 128M]
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub size: Option<u64>,
    /// The directory of the file system in which the run makes its own, which it removes at its end
    #[arg(long, default_value = "/", value_name = "PATH")]
    pub at: String,
    /// Keep the report there, as JSON, for `braid bench compare`
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Write the report there, as a page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// What else `braid bench` does.
#[derive(Subcommand, Debug, Clone)]
pub enum BenchCommand {
    /// What changed from one saved report to another, beyond noise
    Compare {
        /// The earlier report
        first: PathBuf,
        /// The later report
        second: PathBuf,
    },
    /// The rows that --only takes, and the presets
    Rows,
}

/// `braid init`.
#[derive(Args, Debug, Clone)]
pub struct InitArgs {
    /// An empty or new directory for the metadata server
    pub dir: PathBuf,
    /// Where the metadata server will listen
    #[arg(long, default_value = "127.0.0.1:7700", value_name = "ADDR")]
    pub listen: Vec<String>,
}

/// `braid mds`.
#[derive(Args, Debug, Clone, Default)]
pub struct MdsArgs {
    /// What else can be done with its directory
    #[command(subcommand)]
    pub command: Option<MdsCommand>,
    /// Its directory, made by `braid init`
    #[arg(long, global = true, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Where to listen, HOST:PORT (may be given several times)
    #[arg(long, value_delimiter = ',', value_name = "ADDR")]
    pub listen: Vec<String>,
    /// The server key file
    #[arg(long, value_name = "FILE")]
    pub server_key: Option<PathBuf>,
    /// Where to serve Prometheus metrics, HOST:PORT
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<String>,
}

/// `braid iod remove`.
#[derive(Subcommand, Debug, Clone)]
pub enum IodCommand {
    /// Take an I/O daemon out of the cluster for good. Refused while it is up, or while files have parts on it
    Remove {
        /// Its id, as `braid status` shows it
        id: u32,
        /// Give up what lies on it: it does not come back. Files lose their parts there; everything else goes on
        #[arg(long)]
        lost: bool,
    },
}

/// `braid du`.
#[derive(Args, Debug, Clone)]
pub struct DuArgs {
    /// Paths in the file system
    #[arg(default_value = "/")]
    pub paths: Vec<String>,
    /// As others have it
    #[command(flatten)]
    pub human: HumanArgs,
}

/// Of commands whose `-h` is about sizes, as everywhere.
#[derive(Args, Debug, Clone)]
pub struct HumanArgs {
    /// Sizes for people. They always are; for numbers of bytes: --json
    #[arg(short = 'h', long = "human-readable")]
    pub human: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

/// What else `braid mds` does.
#[derive(Subcommand, Debug, Clone)]
pub enum MdsCommand {
    /// Make a damaged directory one that starts: take over what can be read, say what is lost, keep the damaged files
    Salvage,
    /// Write all metadata into a file, also while the server runs
    Dump {
        /// The file; - for standard output
        file: PathBuf,
    },
    /// Make a directory that holds none of what `dump` wrote
    Load {
        /// The file; - for standard input
        file: PathBuf,
    },
}

/// `braid iod`.
#[derive(Args, Debug, Clone, Default)]
#[command(args_conflicts_with_subcommands = true)]
pub struct IodArgs {
    /// What else there is
    #[command(subcommand)]
    pub command: Option<IodCommand>,
    /// Its directory, one per disk
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Make the directory an I/O daemon's first (it must be empty)
    #[arg(long)]
    pub init: bool,
    /// Where to listen, HOST:PORT, one per network card
    #[arg(long, value_delimiter = ',', value_name = "ADDR")]
    pub listen: Vec<String>,
    /// Addresses told to clients, when they are not the ones listened on
    #[arg(long, value_delimiter = ',', value_name = "ADDR")]
    pub advertise: Vec<String>,
    /// Labels for placement, KEY=VALUE
    #[arg(long, value_delimiter = ',', value_name = "LABEL")]
    pub label: Vec<String>,
    /// The server key file
    #[arg(long, value_name = "FILE")]
    pub server_key: Option<PathBuf>,
    /// Where to serve Prometheus metrics, HOST:PORT
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<String>,
}

/// `braid agent`.
#[derive(Args, Debug, Clone, Default)]
pub struct AgentArgs {
    /// The Unix socket to listen on
    #[arg(long, value_name = "SOCKET")]
    pub socket: Option<PathBuf>,
}

/// `braid key`.
#[derive(Subcommand, Debug)]
pub enum KeyCommand {
    /// Make a client key and write it to a file
    Add {
        /// What you call it: a host or a group
        name: String,
        /// Where the key goes (mode 0600) [default: NAME.key]
        #[arg(long, short = 'o', value_name = "FILE")]
        out: Option<PathBuf>,
        /// No changes with this key
        #[arg(long)]
        read_only: bool,
        /// Everybody acts as UID:GID with this key
        #[arg(long, value_name = "UID:GID", value_parser = parse_pair)]
        squash: Option<(u64, u64)>,
        /// Only this directory and what is below it
        #[arg(long, value_name = "PATH")]
        subtree: Option<String>,
        /// The key may administrate the cluster too
        #[arg(long)]
        admin: bool,
    },
    /// All client keys
    List,
    /// Revoke a client key; its sessions end at once
    Revoke {
        /// Its id, as `braid key list` shows it
        id: u64,
    },
}

/// `braid ls`.
#[derive(Args, Debug, Clone)]
pub struct LsArgs {
    /// Paths in the file system
    #[arg(default_value = "/")]
    pub paths: Vec<String>,
    /// Mode, links, owner, group, size, time
    #[arg(long, short = 'l')]
    pub long: bool,
    /// Names that begin with a dot too
    #[arg(long, short = 'a')]
    pub all: bool,
    /// Directories below too
    #[arg(long, short = 'R')]
    pub recursive: bool,
    /// The directory itself, not what is in it
    #[arg(long, short = 'd')]
    pub directory: bool,
    /// With -l: sizes such as 1.5 MiB
    #[arg(short = 'h', long = "human-readable")]
    pub human: bool,
    /// With -l: numbers of users and groups, not names
    #[arg(long = "numeric-uid-gid", short = 'n')]
    pub numeric: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

/// `braid put` and `braid get`.
#[derive(Args, Debug, Clone)]
pub struct TransferArgs {
    /// Sources and, last, the destination
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    pub paths: Vec<String>,
    /// Copy directories
    #[arg(long, short = 'r')]
    pub recursive: bool,
    /// Files copied at the same time
    #[arg(long, short = 'j', default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
    /// Skip files whose size and time already agree; go on in files that are partly there
    #[arg(long)]
    pub resume: bool,
    /// Keep owner and group (needs root), besides mode and times
    #[arg(long)]
    pub owner: bool,
    /// Force everything to disk before saying that it is done
    #[arg(long)]
    pub sync: bool,
    /// Layout of new files (put)
    #[command(flatten)]
    pub layout: LayoutArgs,
}

/// Wishes about the layout of new files.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Layout of new files")]
pub struct LayoutArgs {
    /// Bytes in one strip, such as 64K or 1M
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub stripe_size: Option<u64>,
    /// I/O daemons that the file is spread over, at most as many as there are
    #[arg(long, value_name = "N")]
    pub iod_count: Option<u16>,
    /// Parts of the file; more than there are I/O daemons: some hold several
    #[arg(long, value_name = "N", conflicts_with = "iod_count")]
    pub parts: Option<u16>,
    /// Ordinal of the I/O daemon that gets the first part
    #[arg(long, value_name = "N")]
    pub first_iod: Option<u16>,
    /// How bytes are spread
    #[arg(long, value_name = "KIND")]
    pub distribution: Option<DistributionArg>,
    /// For varstrip: PART:SIZE,PART:SIZE,…
    #[arg(long, value_delimiter = ',', value_parser = parse_strip, value_name = "STRIPS")]
    pub strips: Vec<(u16, u64)>,
    /// For grouped: parts in a group
    #[arg(long, value_name = "N")]
    pub group_width: Option<u16>,
    /// For grouped: rows in a group before the next one
    #[arg(long, value_name = "N")]
    pub group_depth: Option<u32>,
    /// How I/O daemons are picked
    #[arg(long, value_name = "KIND")]
    pub placement: Option<PlacementArg>,
    /// Only I/O daemons with this label, KEY=VALUE (may be given several times)
    #[arg(long = "only", value_name = "LABEL")]
    pub labels: Vec<String>,
}

/// Distributions by name.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DistributionArg {
    /// Round robin over all parts
    SimpleStripe,
    /// The whole file in one part
    Single,
    /// A cycle of strips of different sizes
    Varstrip,
    /// Groups of parts, one group after the other
    Grouped,
}

/// Placements by name.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlacementArg {
    /// One I/O daemon after the other
    RoundRobin,
    /// Those with the most room first
    FreeSpace,
    /// By the owner's user id
    Owner,
}

/// `braid layout`.
#[derive(Subcommand, Debug)]
pub enum LayoutCommand {
    /// Show where a file's bytes lie, or a directory's default
    Show {
        /// Paths in the file system
        #[arg(required = true)]
        paths: Vec<String>,
    },
    /// Set the default of a directory (new files and directories in it inherit it), or the layout of an unwritten file
    Set {
        /// Path in the file system
        path: String,
        /// The wishes; none at all removes the default
        #[command(flatten)]
        layout: LayoutArgs,
    },
}

/// `braid quota`.
#[derive(Subcommand, Debug)]
pub enum QuotaCommand {
    /// Set limits; what is not named stays as it is, and 0 is no limit
    Set {
        /// Whose
        #[command(flatten)]
        who: QuotaWho,
        /// The limits
        #[command(flatten)]
        limits: QuotaLimitArgs,
    },
    /// Limits and usage of one
    Get {
        /// Whose
        #[command(flatten)]
        who: QuotaWho,
    },
    /// Limits and usage of all who have limits
    List {
        /// Also of those who have none
        #[arg(long, short = 'a')]
        all: bool,
    },
    /// Remove all limits of one
    Remove {
        /// Whose
        #[command(flatten)]
        who: QuotaWho,
    },
}

/// Whose quota.
#[derive(Args, Debug, Clone)]
#[group(required = true, multiple = false)]
pub struct QuotaWho {
    /// A user, by name or number
    #[arg(long, short = 'u', value_name = "NAME")]
    pub user: Option<String>,
    /// A group, by name or number
    #[arg(long, short = 'g', value_name = "NAME")]
    pub group: Option<String>,
    /// A directory, with everything below it
    #[arg(long, short = 'd', value_name = "PATH")]
    pub dir: Option<String>,
}

/// Limits.
#[derive(Args, Debug, Clone)]
#[group(required = true, multiple = true)]
pub struct QuotaLimitArgs {
    /// Sizes of files, together, at most, such as 10G
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub bytes: Option<u64>,
    /// Files and directories at most, such as 100K or 1M (powers of 1024)
    #[arg(long, value_parser = parse_size, value_name = "N")]
    pub inodes: Option<u64>,
    /// Sizes that may be exceeded for the grace time
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub soft_bytes: Option<u64>,
    /// A count that may be exceeded for the grace time
    #[arg(long, value_parser = parse_size, value_name = "N")]
    pub soft_inodes: Option<u64>,
    /// How long a soft limit may be exceeded, such as 7d, 12h or 30m [default: 7d]
    #[arg(long, value_parser = parse_grace, value_name = "TIME")]
    pub grace: Option<u64>,
}

/// `braid config`.
#[derive(Subcommand, Debug)]
pub enum ConfigCommand {
    /// Every setting, its value, and where the value comes from
    Explain,
}

/// The usage that an error shows, without flags that nobody typed: those that the environment sets count as given.
pub fn without_surroundings(mut error: clap::Error) -> clap::Error {
    use clap::error::{ContextKind, ContextValue};
    const FLAGS: [&str; 6] = [
        "--config <FILE>",
        "--mds <ADDR>",
        "--key <FILE>",
        "--agent <SOCKET>",
        "--timeout <TIME>",
        "--tls <WHEN>",
    ];
    if let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) {
        let usage = FLAGS
            .iter()
            .fold(usage.to_string(), |usage, flag| usage.replace(&format!(" {flag}"), ""));
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage.into()));
    }
    error
}

/// Parses permission bits in octal.
fn parse_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o7777 => Ok(mode),
        _ => Err("a mode is up to four octal digits, such as 755".into()),
    }
}

/// Parses a time in seconds with an optional s, m, h or d.
fn parse_grace(text: &str) -> Result<u64, String> {
    let error = || format!("'{text}' is not a time such as 7d, 12h, 30m or 90s");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| error())?;
    let unit = match &text[digits..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(error()),
    };
    number.checked_mul(unit).filter(|seconds| *seconds <= i64::MAX as u64).ok_or_else(error)
}

fn parse_strip(text: &str) -> Result<(u16, u64), String> {
    let (part, size) = text.split_once(':').ok_or("a strip is PART:SIZE, such as 0:64K")?;
    Ok((part.parse().map_err(|_| format!("'{part}' is not a part number"))?, parse_size(size)?))
}

fn parse_pair(text: &str) -> Result<(u64, u64), String> {
    let number = |s: &str| s.parse().map_err(|_| format!("'{s}' is not a number"));
    let (uid, gid) = text.split_once(':').ok_or("UID:GID, such as 1000:1000")?;
    Ok((number(uid)?, number(gid)?))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_tree_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn grace_times_are_read_and_wrong_ones_refused() {
        assert_eq!((parse_grace("7d"), parse_grace("30")), (Ok(604_800), Ok(30)));
        for wrong in ["", "d", "1w", "-1", "9223372036854775808"] {
            assert!(parse_grace(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_read_and_wrong_ones_refused() {
        assert_eq!(parse_size("64K"), Ok(65536));
        assert_eq!(parse_size("1MiB"), Ok(1 << 20));
        assert_eq!(parse_size("12"), Ok(12));
        for wrong in ["", "K", "1X", "-1", "1.5G", "99999999999T", "18446744073709551616"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
