//! Arguments of `braid union`.

use std::path::PathBuf;

use braid_client::settings::size as parse_size;
use clap::{Args, Subcommand};

use super::parse_period;

/// `braid union`.
#[derive(Subcommand, Debug)]
pub enum UnionCommand {
    /// Make a pool of directories; nothing in them is moved or copied
    Create(UnionCreateArgs),
    /// Mount a pool, and serve it in the background
    Up(UnionUpArgs),
    /// Show the branches of a pool and their space
    Status {
        /// The pool's metadata directory
        meta: PathBuf,
    },
    /// Add directories to a pool
    Add {
        /// The pool's metadata directory
        meta: PathBuf,
        /// Directories; DIR=ro: read only, DIR=nc: no new files
        #[arg(required = true)]
        disks: Vec<String>,
        /// Put new files elsewhere when less than this is free [default: 4GiB, or a twentieth]
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        min_free: Option<u64>,
    },
    /// Choose the branch of new files, or show how it is chosen
    Placement(UnionPlacementArgs),
    /// Say what a branch is good for: words that a placement can ask for (on=LABEL)
    Label {
        /// The pool's metadata directory
        meta: PathBuf,
        /// The branch: its directory or its number
        branch: PathBuf,
        /// All of its labels, as ssd or raid; none: it has none any more
        labels: Vec<String>,
    },
    /// Change what a branch is used for
    Mode {
        /// The pool's metadata directory
        meta: PathBuf,
        /// The branch: its directory or its number
        branch: PathBuf,
        /// rw: everything; ro: only reads; nc: no new files
        mode: String,
    },
    /// Move all files of a branch to the others; it gets no new files from then on
    Drain {
        /// The pool's metadata directory
        meta: PathBuf,
        /// The branch: its directory or its number
        branch: PathBuf,
        /// Move them only to this branch
        #[arg(long, value_name = "BRANCH")]
        to: Option<PathBuf>,
    },
    /// Take an empty branch out of a pool; its disk can then be unmounted
    Remove {
        /// The pool's metadata directory
        meta: PathBuf,
        /// The branch: its directory or its number
        branch: PathBuf,
        /// Its files leave the union and stay on the disk, which may be lost
        #[arg(long)]
        with_files: bool,
    },
    /// Move all files of a branch to a new one, and take it out of the pool
    Replace {
        /// The pool's metadata directory
        meta: PathBuf,
        /// The old branch: its directory or its number
        old: PathBuf,
        /// The directory of the new one
        new: PathBuf,
        /// Put new files elsewhere when less than this is free [default: 4GiB, or a twentieth]
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        min_free: Option<u64>,
    },
    /// Move files to a branch
    Move {
        /// The pool's metadata directory
        meta: PathBuf,
        /// Files and directories in the mounted union, or relative to its root
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// The branch: its directory or its number; label=LABEL: any branch with this label
        #[arg(long, value_name = "BRANCH")]
        to: PathBuf,
        /// Only files that were neither read nor changed for this time, as 30d or 12h
        #[arg(long, value_name = "TIME", value_parser = parse_period)]
        unused_for: Option<u64>,
    },
    /// Move files to branches with the label that the placement of their directory asks for
    Enforce {
        /// The pool's metadata directory
        meta: PathBuf,
        /// Only these files and directories in the mounted union, or relative to its root
        paths: Vec<PathBuf>,
    },
    /// Limits for users and groups
    #[command(subcommand)]
    Quota(UnionQuotaCommand),
    /// Compare what several branches have under one name
    Fsck {
        /// The pool's metadata directory
        meta: PathBuf,
        /// Give all copies of a directory the owner, mode and xattrs of the first
        #[arg(long)]
        repair: bool,
    },
    /// Remove hidden files that have the same bytes as the file of their name that is shown
    Dedup {
        /// The pool's metadata directory
        meta: PathBuf,
        /// Only these files and directories in the mounted union, or relative to its root
        paths: Vec<PathBuf>,
        /// Only count them
        #[arg(long)]
        dry_run: bool,
    },
    /// Move files from full branches to empty ones
    Balance {
        /// The pool's metadata directory
        meta: PathBuf,
        /// Until the shares of space in use differ by at most this many percent
        #[arg(long, default_value_t = 5, value_name = "PERCENT")]
        within: u8,
    },
    /// Show on which disk a file of a mounted union is
    Where {
        /// Files and directories
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Cut new files of a directory into units over several disks: fast, but not readable without
    /// BraidFS
    Stripe(UnionStripeArgs),
    /// Make the files of a union files of a cluster, without copying them; the pool is not mounted
    Join(UnionJoinArgs),
    /// Find parts of striped files that no file has, and restored files; the pool is not mounted
    Sweep {
        /// The pool's metadata directory
        meta: PathBuf,
        /// Remove these parts, and make restored files writable
        #[arg(long)]
        repair: bool,
    },
}

/// `braid union quota`.
#[derive(Subcommand, Debug)]
pub enum UnionQuotaCommand {
    /// Set limits and count the owner's files; limits that are not named do not change, and 0 means
    /// no limit
    Set {
        /// The pool's metadata directory
        meta: PathBuf,
        /// The owner of the quota.
        #[command(flatten)]
        who: UnionOwnerArgs,
        /// Maximum total length of all files, such as 10G
        #[arg(long, value_parser = parse_size, value_name = "SIZE")]
        bytes: Option<u64>,
        /// Maximum number of files, such as 100K or 1M (powers of 1024)
        #[arg(long, value_parser = parse_size, value_name = "N")]
        inodes: Option<u64>,
    },
    /// Show the owners with limits and what they have
    List {
        /// The pool's metadata directory
        meta: PathBuf,
    },
    /// Take the limits of an owner away
    Remove {
        /// The pool's metadata directory
        meta: PathBuf,
        /// The owner of the quota.
        #[command(flatten)]
        who: UnionOwnerArgs,
    },
}

/// The owner of a quota of a union.
#[derive(Args, Debug, Clone)]
#[group(required = true, multiple = false)]
pub struct UnionOwnerArgs {
    /// A user, by name or number
    #[arg(long, short = 'u', value_name = "NAME")]
    pub user: Option<String>,
    /// A group, by name or number
    #[arg(long, short = 'g', value_name = "NAME")]
    pub group: Option<String>,
}

/// `braid union join`.
#[derive(Args, Debug, Clone)]
pub struct UnionJoinArgs {
    /// The pool's metadata directory
    pub meta: PathBuf,
    /// The directory of the cluster that gets the files; it must be empty or new
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub to: String,
    /// Change nothing: count what would join, and show what would stay
    #[arg(long)]
    pub dry_run: bool,
    /// End the union although files stay on its disks
    #[arg(long)]
    pub leave: bool,
}

/// `braid union placement`.
#[derive(Args, Debug, Clone)]
pub struct UnionPlacementArgs {
    /// The pool's metadata directory; or a directory in a mounted union, for new files in it and
    /// below it
    pub target: PathBuf,
    /// most-free, least-free, round-robin, user, random, random-by-free or first. Before it, with a
    /// comma: same-path, only branches that have the directory; on=LABEL, only branches with this
    /// label. Words of mergerfs too. Without it, what holds now is shown
    pub placement: Option<String>,
    /// The directory has no placement of its own any more
    #[arg(long, conflicts_with = "placement")]
    pub off: bool,
}

/// `braid union stripe`.
#[derive(Args, Debug, Clone)]
pub struct UnionStripeArgs {
    /// A directory in a mounted union; its new directories do the same
    pub directory: PathBuf,
    /// Bytes on one disk before the next one [default: 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub unit: Option<u64>,
    /// Disks for each file [default: all]
    #[arg(long, value_name = "NUMBER")]
    pub branches: Option<usize>,
    /// New files are plain again; existing ones stay as they are
    #[arg(long, conflicts_with_all = ["unit", "branches"])]
    pub off: bool,
}

/// `braid union create`.
#[derive(Args, Debug, Clone)]
pub struct UnionCreateArgs {
    /// The name of the pool
    pub name: String,
    /// The pool's metadata directory: some kilobytes, on any disk
    #[arg(long, value_name = "DIR")]
    pub meta: PathBuf,
    /// Directories; DIR=ro: read only, DIR=nc: no new files
    #[arg(required = true)]
    pub disks: Vec<String>,
    /// Put new files elsewhere when less than this is free [default: 4GiB, or a twentieth]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub min_free: Option<u64>,
    /// The branch of new files; see: braid union placement --help
    #[arg(long, default_value = "most-free")]
    pub placement: String,
}

/// `braid union up`.
#[derive(Args, Debug, Clone)]
pub struct UnionUpArgs {
    /// The pool's metadata directory
    pub meta: PathBuf,
    /// The directory to mount on; with --nfs or --smb it may be left out
    #[arg(required_unless_present_any = ["nfs", "smb"])]
    pub point: Option<PathBuf>,
    /// Options of mount(8): ro, noatime, noexec, suid, dev, noallow_other; and degraded,
    /// no_passthrough, no_notices, as below
    #[arg(long, short = 'o', value_delimiter = ',', value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// What the mount table shows as the source
    #[arg(long, hide = true)]
    pub source: Option<String>,
    /// Also serve the same files to NFS clients on this address; to this host only, without
    /// --nfs-export
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:2049")]
    pub nfs: Option<String>,
    /// A directory of the union that NFS clients may mount (can be repeated); see braid nfs --help
    #[arg(long, value_name = "EXPORT", requires = "nfs")]
    pub nfs_export: Vec<String>,
    /// Also serve the same files to SMB clients on this address; without --smb-share, as one share
    /// `union`. The users are those of the file smb-users in the metadata directory, or of
    /// /etc/braid/smb-users
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:445")]
    pub smb: Option<String>,
    /// A share of the SMB gateway (can be repeated); see braid smb --help
    #[arg(long, value_name = "SHARE", requires = "smb")]
    pub smb_share: Vec<String>,
    /// Start although disks are missing: their files give errors until they are back
    #[arg(long)]
    pub degraded: bool,
    /// Stay in the foreground
    #[arg(long, short = 'f')]
    pub foreground: bool,
    /// Read and write all files through this process, not by the kernel itself
    #[arg(long)]
    pub no_passthrough: bool,
    /// Ask the disks for names and attributes every second, instead of noticing what is changed
    /// directly on them
    #[arg(long)]
    pub no_notices: bool,
}
