//! The command-line interface of `braid`, in one place: help, man pages and completions are made
//! from it.

mod smb;
mod union;

use std::path::PathBuf;

use braid_client::settings::{Tls, size as parse_size};
use clap::{Args, Parser, Subcommand, ValueEnum};

pub use smb::*;
pub use union::*;

/// BraidFS: one file system out of many disks and machines.
#[derive(Parser, Debug)]
#[command(
    name = "braid",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_help = AFTER_HELP
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Exit codes and first steps, below the help and in the man page.
pub const AFTER_HELP: &str = "Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, \
3 no such file, 4 refused (permission or key), 5 server not reached, 6 no space, \
7 fsck found problems.\n\nFirst steps: braid up DIR";

/// Examples below the help of `braid up`.
const UP_EXAMPLES: &str = "Examples:
  braid up /tmp/b --detach          four I/O daemons in the background, mounted on /tmp/b/mnt
  braid up /tmp/b --port 0          use any free port
  braid down /tmp/b                 stop the cluster and keep its data";
const IOD_EXAMPLES: &str = "Examples:
  braid iod --config braid.toml --dir /disk1 --init --listen 10.0.0.2:7701
                                    the first start, on an empty directory of a disk
  braid iod --config braid.toml --dir /disk1 --listen 10.0.0.2:7701
                                    every later start
  braid iod remove 3                remove a daemon without objects from the cluster
  braid iod remove 3 --lost         remove a daemon that is lost with its data";
const KEY_EXAMPLES: &str = "Examples:
  braid key add host7 --out host7.key           a key for a host
  braid key add guest --read-only --subtree /pub
  braid key list
  braid key revoke 4";
const PUT_EXAMPLES: &str = "Examples:
  braid put -r data /               a directory with its contents
  braid put a.bin b.bin /d          files into a directory
  braid put --stripe-size 64K --iod-count 2 a.bin /a.bin
  braid put -r --resume data /      continue after an interruption";
const GET_EXAMPLES: &str = "Examples:
  braid get /a.bin .                a file into the current directory
  braid get -r /data backup         a directory with its contents";
const LAYOUT_EXAMPLES: &str = "Examples:
  braid layout show /a.bin                      the I/O daemons of a file
  braid layout set /d --stripe-size 64K         for new files in a directory
  braid layout set /d                           back to the default of the file system";
const MOUNT_EXAMPLES: &str = "Examples:
  braid mount /mnt
  braid mount /mnt -o ro,mds=10.0.0.1:7700,key=/etc/braid/host.key
  braid umount /mnt";
const NFS_EXAMPLES: &str = "Examples:
  braid nfs --listen 10.0.0.5:2049 --export '/=10.0.0.0/24,sec=sys'
  braid nfs --export '/home=*,sec=sys,ro' --export '/lab=fd00::/8,sec=sys,squash=none'
  braid nfs --keytab /etc/braid/nfs.keytab --export '/lab=*,sec=krb5p:krb5i'
  braid nfs --tls-cert gw.pem --tls-key gw.key --export '/=*,sec=sys,xprtsec=tls'
  mount -t nfs4 -o vers=4.2 10.0.0.5:/ /mnt       on a client

An export is PATH=ADDRESSES[:ADDRESSES...][,OPTION...] with the options sec=FLAVOUR[:FLAVOUR...]
(sys, krb5, krb5i, krb5p), xprtsec=MODE[:MODE...] (none, tls, mtls), ro, squash=root|all|none,
anonuid=N, anongid=N, pnfs, nopnfs, pnfsmin=BYTES. Without --export, those of [[nfs.export]] in
braid.toml are used; without any, nothing is exported.";
const SMB_EXAMPLES: &str = "Examples:
  braid smb user add alice                        asks for a password
  braid smb --share projects=/projects
  braid smb --share 'pub=/pub,ro,guest' --share 'lab=/lab,users=alice:@staff,comment=The lab'
  smbclient //10.0.0.5/projects -U alice          on a client
  net use * \\\\10.0.0.5\\projects /user:alice     on Windows

A share is NAME=PATH[,OPTION...] with the options ro, guest (users without a password may use it),
hidden (not in lists), encrypt (only encrypted), users=NAME[:NAME...] (@NAME: a group of this host)
and comment=TEXT. Without --share, those of [[smb.share]] in braid.toml are used; without any,
nothing is shared. Each user is the user of this host with the same name.";
const SMB_USER_EXAMPLES: &str = "Examples:
  braid smb user add alice                        a new user, or a new password
  pwgen | braid smb user add bob --password-stdin
  braid smb user remove bob
  braid smb user list

The users file has one line for each user, NAME:HASH. The hash is that of NTLM, which proves the
password by itself: keep the file as secret as the passwords. It has mode 0600; a gateway refuses it
if others can read it, and reads it again when it changes.";
const FSCK_EXAMPLES: &str = "Examples:
  braid fsck                        check only, change nothing
  braid fsck --mend
  braid fsck --affected-by 3        files with a part on I/O daemon 3";
const UNION_EXAMPLES: &str = "\
Examples:
  braid union create media --meta /var/lib/braid-media /mnt/disk1 /mnt/disk2
  braid union up /var/lib/braid-media /media
  braid union where /media/films/one.mkv
  braid umount /media";
const QUOTA_EXAMPLES: &str = "Examples:
  braid quota set --user alice --bytes 10G --soft-bytes 8G --grace 7d
  braid quota set --dir /projects/x --inodes 1M
  braid quota list";

/// Heading of the options that select the cluster and the user. `-h` shows the two most important
/// ones, `--help` shows all.
const CLUSTER: &str = "Which cluster (--help shows more)";
/// Heading of the options that select what is printed.
const OUTPUT: &str = "Output";

/// Options of every command.
#[derive(Args, Debug, Clone, Default)]
pub struct Global {
    /// Configuration file [default: ./braid.toml, ~/.config/braid/braid.toml,
    /// /etc/braid/braid.toml]
    #[arg(
        long,
        short = 'c',
        global = true,
        help_heading = CLUSTER,
        env = "BRAID_CONFIG",
        value_name = "FILE"
    )]
    pub config: Option<PathBuf>,
    /// Address of the metadata server, HOST:PORT (can be repeated)
    #[arg(
        long,
        global = true,
        help_heading = CLUSTER,
        env = "BRAID_MDS",
        value_delimiter = ',',
        value_name = "ADDR"
    )]
    pub mds: Vec<String>,
    /// Key file: a client key, or the server key for administration
    #[arg(
        long,
        global = true,
        help_heading = CLUSTER,
        hide_short_help = true,
        env = "BRAID_KEY",
        value_name = "FILE"
    )]
    pub key: Option<PathBuf>,
    /// Socket of the agent, instead of a key
    #[arg(
        long,
        global = true,
        help_heading = CLUSTER,
        hide_short_help = true,
        env = "BRAID_AGENT",
        value_name = "SOCKET"
    )]
    pub agent: Option<PathBuf>,
    /// Maximum wait for a server in one call, such as 30s or 500ms
    #[arg(
        long,
        global = true,
        help_heading = CLUSTER,
        hide_short_help = true,
        env = "BRAID_TIMEOUT",
        value_parser = braid_client::settings::duration,
        value_name = "TIME"
    )]
    pub timeout: Option<std::time::Duration>,
    /// When to use TLS to servers: unless-loopback, always, never
    #[arg(
        long,
        global = true,
        help_heading = CLUSTER,
        hide_short_help = true,
        env = "BRAID_TLS",
        value_name = "WHEN"
    )]
    pub tls: Option<TlsArg>,
    /// Print JSON instead of text
    #[arg(long, global = true, help_heading = OUTPUT, hide_short_help = true)]
    pub json: bool,
    /// Print less: no progress, no hints
    #[arg(long, short = 'q', global = true, help_heading = OUTPUT, hide_short_help = true)]
    pub quiet: bool,
    /// Log more (-v info, -vv debug, -vvv trace); BRAID_LOG sets a filter
    #[arg(
        long,
        short = 'v',
        global = true,
        help_heading = OUTPUT,
        hide_short_help = true,
        action = clap::ArgAction::Count
    )]
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
    /// The keyword on the command line.
    pub fn keyword(self) -> String {
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
    /// Start a complete cluster in one process: a metadata server and I/O daemons in DIR
    #[command(after_help = UP_EXAMPLES)]
    Up(UpArgs),
    /// Stop a cluster that `braid up --detach` started
    Down {
        /// The directory given to `up`
        dir: PathBuf,
    },
    /// Create the directory of a metadata server: cluster UUID, keys, configuration
    Init(InitArgs),
    /// Run the metadata server
    Mds(MdsArgs),
    /// Run an I/O daemon, or remove one from the cluster for good
    #[command(after_help = IOD_EXAMPLES)]
    Iod(IodArgs),
    /// Run an NFS gateway: NFSv4.1 and NFSv4.2 clients mount the exports in braid.toml
    #[command(after_help = NFS_EXAMPLES)]
    Nfs(NfsArgs),
    /// Run an SMB gateway, for Windows, macOS and Linux clients, and manage its users
    #[command(after_help = SMB_EXAMPLES)]
    Smb(SmbArgs),
    /// Run the agent of this host, which identifies the host's users to the servers
    Agent(AgentArgs),
    /// Create, list and revoke client keys
    #[command(subcommand, after_help = KEY_EXAMPLES)]
    Key(KeyCommand),
    /// Show one row per daemon: state, space, load, connections, errors
    Status,
    /// List a directory
    #[command(disable_help_flag = true)]
    Ls(LsArgs),
    /// Show attributes of files
    Stat {
        /// Paths in the file system
        #[arg(required = true)]
        paths: Vec<String>,
        /// Do not follow a final symbolic link
        #[arg(long, short = 'P')]
        no_follow: bool,
    },
    /// Copy local files and directories into the file system
    #[command(
        override_usage = "braid put [OPTIONS] <SOURCE>... <DESTINATION>",
        after_help = PUT_EXAMPLES
    )]
    Put(TransferArgs),
    /// Copy files and directories out of the file system
    #[command(
        override_usage = "braid get [OPTIONS] <SOURCE>... <DESTINATION>",
        after_help = GET_EXAMPLES
    )]
    Get(TransferArgs),
    /// Print the contents of files
    Cat {
        /// Paths in the file system
        #[arg(required = true)]
        paths: Vec<String>,
    },
    /// Create directories
    Mkdir {
        /// Paths in the file system
        #[arg(required = true)]
        paths: Vec<String>,
        /// Create missing parents too; an existing directory is no error
        #[arg(long, short = 'p')]
        parents: bool,
        /// Permission bits, octal
        #[arg(long, short = 'm', default_value = "755", value_parser = parse_mode)]
        mode: u32,
    },
    /// Remove files; with -r also directories
    Rm {
        /// Paths in the file system
        #[arg(required = true)]
        paths: Vec<String>,
        /// Remove directories and their contents
        #[arg(long, short = 'r')]
        recursive: bool,
        /// No error when a path does not exist
        #[arg(long, short = 'f')]
        force: bool,
    },
    /// Rename a file, or move it into an existing directory
    Mv {
        /// Old path
        from: String,
        /// New path
        to: String,
        /// Fail when the new path exists
        #[arg(long, short = 'n', conflicts_with = "exchange")]
        no_replace: bool,
        /// Exchange the two paths
        #[arg(long)]
        exchange: bool,
    },
    /// Create a hard link, or with -s a symbolic link
    Ln {
        /// The existing file, or the target of the symbolic link
        target: String,
        /// The new name
        link: String,
        /// Create a symbolic link
        #[arg(long, short = 's')]
        symbolic: bool,
    },
    /// Copy within the file system
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
    /// Show the number of bytes and files below a path
    #[command(disable_help_flag = true)]
    Du(DuArgs),
    /// Show the free space of the file system and of each disk
    #[command(disable_help_flag = true)]
    Df(HumanArgs),
    /// Limits and usage of users, groups and directories
    #[command(subcommand, after_help = QUOTA_EXAMPLES)]
    Quota(QuotaCommand),
    /// The disks of this machine as one file system of plain files, without a cluster
    #[command(subcommand, after_help = UNION_EXAMPLES)]
    Union(UnionCommand),
    /// Show the layout of files, and set the default layout of directories
    #[command(subcommand, after_help = LAYOUT_EXAMPLES)]
    Layout(LayoutCommand),
    /// Mount the file system on a directory, and serve the mount in the background
    #[command(after_help = MOUNT_EXAMPLES)]
    Mount(MountArgs),
    /// Unmount; works also when the servers or the mount process are dead
    Umount(UmountArgs),
    /// Make written data durable: of the mounts that the paths are on, or, without a path,
    /// everything that the servers have acknowledged
    Sync {
        /// Mount points, or paths on mounts
        #[arg(value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
    /// Check the file system while it runs; report only, unless --mend is given
    #[command(after_help = FSCK_EXAMPLES)]
    Fsck {
        /// Repair what can be repaired. Nothing is deleted: objects without a file go to lost+found
        #[arg(long)]
        mend: bool,
        /// Do not check: list the files that have a part on this I/O daemon, or may have one. They
        /// lose it with the daemon
        #[arg(long, value_name = "ID", conflicts_with = "mend")]
        affected_by: Option<u32>,
    },
    /// Measure the cluster, and show each result beside the hardware limit; `bench compare A B`
    /// compares two runs
    Bench(BenchArgs),
    /// Show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print a man page, or write all man pages into a directory
    Man {
        /// Write one page per command into this directory
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// `braid up`.
#[derive(Args, Debug, Clone)]
pub struct UpArgs {
    /// An empty or new directory, or one that `up` created earlier
    pub dir: PathBuf,
    /// Number of I/O daemons [default: 4, or all existing ones]; a larger number adds daemons
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub iods: Option<u16>,
    /// Port of the metadata server [default: 7700, or the previous port]; 0: the previous port,
    /// else any free one. DIR/braid.toml stores it. I/O daemons use any free ports
    #[arg(long)]
    pub port: Option<u16>,
    /// Continue in the background when the cluster is ready
    #[arg(long, short = 'd')]
    pub detach: bool,
    /// Where to mount the file system [default: DIR/mnt, if this user may mount]
    #[arg(long, value_name = "POINT", conflicts_with = "no_mount")]
    pub mount: Option<PathBuf>,
    /// Do not mount the file system
    #[arg(long)]
    pub no_mount: bool,
    /// Also run an NFS gateway on this address, and NFS data servers; exports those of
    /// DIR/braid.toml, or the whole file system to this host only
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:2049")]
    pub nfs: Option<String>,
    /// A directory that the NFS gateway exports, instead of those in braid.toml (can be repeated);
    /// see braid nfs --help
    #[arg(long, value_name = "EXPORT", requires = "nfs")]
    pub nfs_export: Vec<String>,
    /// Also run an SMB gateway on this address; shares those of DIR/braid.toml, or the whole file
    /// system, for the users of DIR/smb-users or /etc/braid/smb-users
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:445")]
    pub smb: Option<String>,
    /// A share of the SMB gateway, instead of those in braid.toml (can be repeated); see
    /// braid smb --help
    #[arg(long, value_name = "SHARE", requires = "smb")]
    pub smb_share: Vec<String>,
    /// Not a cluster, but a union of these directories, usually one for each disk: their files, as
    /// one file system at DIR/mnt (to try; see braid union)
    #[arg(
        long,
        value_name = "DISK",
        num_args = 1..,
        conflicts_with_all = ["iods", "port", "no_mount"]
    )]
    pub union: Vec<String>,
}

/// `braid mount`. Under the name mount.braid it is the helper of mount(8) for `mount -t braid` and
/// /etc/fstab.
#[derive(Args, Debug, Clone)]
pub struct MountArgs {
    /// The directory to mount on
    pub point: PathBuf,
    /// Options: ro, noatime, noexec, suid, dev, noallow_other, detach_dead, flush_on_close;
    /// consistency=posix, close-to-open or commit; io_uring=auto, on or off; key=FILE and other
    /// client settings
    #[arg(long, short = 'o', value_delimiter = ',', value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// Stay in the foreground
    #[arg(long, short = 'f')]
    pub foreground: bool,
    /// Log file [default: standard error in the foreground, else the system log; without a system
    /// log, a file of the mount's own]
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// The source that the mount table shows
    #[arg(long, hide = true, value_name = "TEXT")]
    pub source: Option<String>,
    /// Ignore unknown options
    #[arg(long, hide = true)]
    pub sloppy: bool,
}

/// `braid umount`.
#[derive(Args, Debug, Clone)]
pub struct UmountArgs {
    /// Mount points
    #[arg(required = true)]
    pub points: Vec<PathBuf>,
    /// Detach the mount point now, although it is in use; the mount ends with its last user
    #[arg(long, short = 'l')]
    pub lazy: bool,
}

/// `braid bench`.
#[derive(Args, Debug, Clone)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    /// Another command of `braid bench`.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    /// Take less than a minute: shorter samples and fewer rows
    #[arg(long)]
    pub quick: bool,
    /// Measure only these rows
    #[arg(long, value_delimiter = ',', value_name = "ROWS")]
    pub only: Vec<String>,
    /// Measure the rows of a paper: pvfs-1996, wpvfs-2008, cifs-2007, united-fs-2007,
    /// direct-pnfs-2007
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Number of tasks in rows with several tasks [default: 4, or as the preset says]
    #[arg(long, value_name = "N")]
    pub tasks: Option<u32>,
    /// Time of each row, all samples together
    #[arg(
        long,
        default_value = "3s",
        value_parser = braid_client::settings::duration,
        value_name = "TIME"
    )]
    pub seconds: std::time::Duration,
    /// Number of samples of each row [default: 5; with --quick 4]
    #[arg(long, value_name = "N")]
    pub samples: Option<usize>,
    /// Size of the files of a row, such as 256M; at most a thirtieth of the free space [default:
    /// 1G; with --quick 128M]
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub size: Option<u64>,
    /// Directory for the files of the run; the run removes them at its end
    #[arg(long, default_value = "/", value_name = "PATH")]
    pub at: String,
    /// Save the report to this file as JSON, for `braid bench compare`
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Write the report to this file as an HTML page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Commands of `braid bench`.
#[derive(Subcommand, Debug, Clone)]
pub enum BenchCommand {
    /// Show what changed between two saved reports, beyond noise
    Compare {
        /// The earlier report
        first: PathBuf,
        /// The later report
        second: PathBuf,
    },
    /// List the rows for --only, and the presets
    Rows,
}

/// `braid init`.
#[derive(Args, Debug, Clone)]
pub struct InitArgs {
    /// An empty or new directory for the metadata server
    pub dir: PathBuf,
    /// Address for the metadata server to listen on, HOST:PORT
    #[arg(long, default_value = "127.0.0.1:7700", value_name = "ADDR")]
    pub listen: Vec<String>,
}

/// `braid mds`.
#[derive(Args, Debug, Clone, Default)]
pub struct MdsArgs {
    /// A command on its directory.
    #[command(subcommand)]
    pub command: Option<MdsCommand>,
    /// Directory of the metadata server, created by `braid init`
    #[arg(long, global = true, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Address to listen on, HOST:PORT (can be repeated)
    #[arg(long, value_delimiter = ',', value_name = "ADDR")]
    pub listen: Vec<String>,
    /// Server key file
    #[arg(long, value_name = "FILE")]
    pub server_key: Option<PathBuf>,
    /// Address for Prometheus metrics, HOST:PORT
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<String>,
}

/// `braid iod remove`.
#[derive(Subcommand, Debug, Clone)]
pub enum IodCommand {
    /// Remove an I/O daemon from the cluster for good. Fails while it is up, or while files have
    /// parts on it
    Remove {
        /// Id of the daemon, as `braid status` shows it
        id: u32,
        /// Give up its data, since it does not come back. Files lose their parts there; everything
        /// else stays
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
    /// Options as `du` and `df` have them.
    #[command(flatten)]
    pub human: HumanArgs,
}

/// For commands whose `-h` means human-readable sizes, as in coreutils.
#[derive(Args, Debug, Clone)]
pub struct HumanArgs {
    /// Human-readable sizes. Always on; use --json for numbers of bytes
    #[arg(short = 'h', long = "human-readable")]
    pub human: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

/// Commands on the directory of a metadata server.
#[derive(Subcommand, Debug, Clone)]
pub enum MdsCommand {
    /// Repair a damaged directory so that it starts: recover all readable data, report what is
    /// lost, and keep the damaged files
    Salvage,
    /// Write all metadata to a file, also while the server runs
    Dump {
        /// The file; - for standard output
        file: PathBuf,
    },
    /// Restore the metadata that `dump` wrote, into a directory without metadata
    Load {
        /// The file; - for standard input
        file: PathBuf,
    },
}

/// `braid iod`.
#[derive(Args, Debug, Clone, Default)]
#[command(args_conflicts_with_subcommands = true)]
pub struct IodArgs {
    /// A command about a daemon.
    #[command(subcommand)]
    pub command: Option<IodCommand>,
    /// Directory of the daemon, one per disk
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Prepare an empty directory for an I/O daemon first
    #[arg(long)]
    pub init: bool,
    /// Address to listen on, HOST:PORT, one per network interface
    #[arg(long, value_delimiter = ',', value_name = "ADDR")]
    pub listen: Vec<String>,
    /// Addresses for clients, if they differ from the addresses to listen on
    #[arg(long, value_delimiter = ',', value_name = "ADDR")]
    pub advertise: Vec<String>,
    /// Address for NFS clients with layouts, HOST:PORT, one per network interface
    #[arg(long, value_delimiter = ',', value_name = "ADDR")]
    pub nfs_listen: Vec<String>,
    /// Addresses for NFS clients, if they differ from the addresses to listen on
    #[arg(long, value_delimiter = ',', value_name = "ADDR")]
    pub nfs_advertise: Vec<String>,
    /// Labels for placement, KEY=VALUE
    #[arg(long, value_delimiter = ',', value_name = "LABEL")]
    pub label: Vec<String>,
    /// Server key file
    #[arg(long, value_name = "FILE")]
    pub server_key: Option<PathBuf>,
    /// Address for Prometheus metrics, HOST:PORT
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<String>,
}

/// `braid nfs`.
#[derive(Args, Debug, Clone, Default)]
pub struct NfsArgs {
    /// Address to listen on, HOST:PORT [default: 0.0.0.0:2049]
    #[arg(long, value_delimiter = ',', value_name = "ADDR")]
    pub listen: Vec<String>,
    /// A directory to export, instead of those in braid.toml (can be repeated)
    #[arg(long, value_name = "EXPORT")]
    pub export: Vec<String>,
    /// Keytab with the key of nfs/HOST, for sec=krb5, krb5i and krb5p [default: /etc/krb5.keytab]
    #[arg(long, value_name = "FILE")]
    pub keytab: Option<PathBuf>,
    /// The only principal of the keytab to use, nfs/HOST@REALM [default: all of nfs/]
    #[arg(long, value_name = "PRINCIPAL")]
    pub principal: Option<String>,
    /// Certificate for RPC-over-TLS, in PEM, with those between it and its CA
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Certificates of the CAs whose clients are known, for xprtsec=mtls, in PEM
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
    /// Give delegations to clients
    #[arg(long, overrides_with = "no_delegations")]
    pub delegations: bool,
    /// Give no delegations to clients
    #[arg(long, overrides_with = "delegations")]
    pub no_delegations: bool,
}

/// `braid agent`.
#[derive(Args, Debug, Clone, Default)]
pub struct AgentArgs {
    /// Unix socket to listen on
    #[arg(long, value_name = "SOCKET")]
    pub socket: Option<PathBuf>,
}

/// `braid key`.
#[derive(Subcommand, Debug)]
pub enum KeyCommand {
    /// Create a client key and write it to a file
    Add {
        /// Name of the key: a host or a group
        name: String,
        /// Key file to write, mode 0600 [default: NAME.key]
        #[arg(long, short = 'o', value_name = "FILE")]
        out: Option<PathBuf>,
        /// Allow no changes with this key
        #[arg(long)]
        read_only: bool,
        /// Map all users of this key to UID:GID
        #[arg(long, value_name = "UID:GID", value_parser = parse_pair)]
        squash: Option<(u64, u64)>,
        /// Allow only this directory and everything below it
        #[arg(long, value_name = "PATH")]
        subtree: Option<String>,
        /// Allow administration of the cluster too
        #[arg(long)]
        admin: bool,
    },
    /// List all client keys
    List,
    /// Revoke a client key; its sessions end immediately
    Revoke {
        /// Id of the key, as `braid key list` shows it
        id: u64,
    },
}

/// `braid ls`.
#[derive(Args, Debug, Clone)]
pub struct LsArgs {
    /// Paths in the file system
    #[arg(default_value = "/")]
    pub paths: Vec<String>,
    /// Show mode, links, owner, group, size, time
    #[arg(long, short = 'l')]
    pub long: bool,
    /// Show names that start with a dot too
    #[arg(long, short = 'a')]
    pub all: bool,
    /// List subdirectories too
    #[arg(long, short = 'R')]
    pub recursive: bool,
    /// Show the directory itself, not its contents
    #[arg(long, short = 'd')]
    pub directory: bool,
    /// With -l: human-readable sizes, such as 1.5 MiB
    #[arg(short = 'h', long = "human-readable")]
    pub human: bool,
    /// With -l: numeric user and group ids
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
    /// Number of files to copy at the same time
    #[arg(
        long,
        short = 'j',
        default_value_t = 8,
        value_parser = clap::value_parser!(u16).range(1..=256)
    )]
    pub jobs: u16,
    /// Skip files with the same size and time; complete files that are partly there
    #[arg(long)]
    pub resume: bool,
    /// Preserve owner and group too (needs root); mode and times are always preserved
    #[arg(long)]
    pub owner: bool,
    /// Force all data to disk before the command ends
    #[arg(long)]
    pub sync: bool,
    /// Layout of new files (put)
    #[command(flatten)]
    pub layout: LayoutArgs,
}

/// Layout hints for new files.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Layout of new files")]
pub struct LayoutArgs {
    /// Bytes in one strip, such as 64K or 1M
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub stripe_size: Option<u64>,
    /// Number of I/O daemons for the file, at most as many as the cluster has
    #[arg(long, value_name = "N")]
    pub iod_count: Option<u16>,
    /// Number of parts; if it exceeds the number of I/O daemons, some hold several parts
    #[arg(long, value_name = "N", conflicts_with = "iod_count")]
    pub parts: Option<u16>,
    /// Ordinal of the I/O daemon of the first part
    #[arg(long, value_name = "N")]
    pub first_iod: Option<u16>,
    /// How bytes are distributed over parts
    #[arg(long, value_name = "KIND")]
    pub distribution: Option<DistributionArg>,
    /// For varstrip: PART:SIZE,PART:SIZE,…
    #[arg(long, value_delimiter = ',', value_parser = parse_strip, value_name = "STRIPS")]
    pub strips: Vec<(u16, u64)>,
    /// For grouped: number of parts in a group
    #[arg(long, value_name = "N")]
    pub group_width: Option<u16>,
    /// For grouped: number of rows in a group before the next one
    #[arg(long, value_name = "N")]
    pub group_depth: Option<u32>,
    /// How I/O daemons are chosen
    #[arg(long, value_name = "KIND")]
    pub placement: Option<PlacementArg>,
    /// Only I/O daemons with this label, KEY=VALUE (can be repeated)
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
    /// I/O daemons in turn
    RoundRobin,
    /// I/O daemons with the most free space first
    FreeSpace,
    /// By the owner's user id
    Owner,
}

/// `braid layout`.
#[derive(Subcommand, Debug)]
pub enum LayoutCommand {
    /// Show where a file's bytes are stored, or the default of a directory
    Show {
        /// Paths in the file system
        #[arg(required = true)]
        paths: Vec<String>,
    },
    /// Set the default of a directory (new files and directories in it inherit it), or the layout
    /// of an unwritten file
    Set {
        /// Path in the file system
        path: String,
        /// The layout hints; none at all removes the default
        #[command(flatten)]
        layout: LayoutArgs,
    },
}

/// `braid quota`.
#[derive(Subcommand, Debug)]
pub enum QuotaCommand {
    /// Set limits; limits that are not named do not change, and 0 means no limit
    Set {
        /// The owner of the quota.
        #[command(flatten)]
        who: QuotaTargetArgs,
        /// The limits
        #[command(flatten)]
        limits: QuotaLimitArgs,
    },
    /// Show the limits and usage of one owner
    Get {
        /// The owner of the quota.
        #[command(flatten)]
        who: QuotaTargetArgs,
    },
    /// Show the limits and usage of all owners with limits
    List {
        /// Show owners without limits too
        #[arg(long, short = 'a')]
        all: bool,
    },
    /// Remove all limits of one owner
    Remove {
        /// The owner of the quota.
        #[command(flatten)]
        who: QuotaTargetArgs,
    },
}

/// The owner of a quota.
#[derive(Args, Debug, Clone)]
#[group(required = true, multiple = false)]
pub struct QuotaTargetArgs {
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
    /// Maximum total size of all files, such as 10G
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub bytes: Option<u64>,
    /// Maximum number of files and directories, such as 100K or 1M (powers of 1024)
    #[arg(long, value_parser = parse_size, value_name = "N")]
    pub inodes: Option<u64>,
    /// Soft limit of the size; it may be exceeded for the grace time
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    pub soft_bytes: Option<u64>,
    /// Soft limit of the number; it may be exceeded for the grace time
    #[arg(long, value_parser = parse_size, value_name = "N")]
    pub soft_inodes: Option<u64>,
    /// How long a soft limit may be exceeded, such as 7d, 12h or 30m [default: 7d]
    #[arg(long, value_parser = parse_period, value_name = "TIME")]
    pub grace: Option<u64>,
}

/// `braid config`.
#[derive(Subcommand, Debug)]
pub enum ConfigCommand {
    /// Show every setting, its value and the source of the value
    Explain,
}

/// Removes options that nobody typed from the usage in an error: clap counts those that the
/// environment sets.
pub fn without_environment_flags(mut error: clap::Error) -> clap::Error {
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
        _ => Err("a mode has up to four octal digits, such as 755".into()),
    }
}

/// Parses a time in seconds with an optional s, m, h or d.
fn parse_period(text: &str) -> Result<u64, String> {
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
        assert_eq!((parse_period("7d"), parse_period("30")), (Ok(604_800), Ok(30)));
        for wrong in ["", "d", "1w", "-1", "9223372036854775808"] {
            assert!(parse_period(wrong).is_err(), "{wrong}");
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
