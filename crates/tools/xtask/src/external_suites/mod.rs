//! Third-party suites, each run by one command on an embedded cluster: on a mount of it, or on its
//! NFS or SMB gateway.

mod cluster;
mod guest_nfs;
mod known_failures;
mod ltp;
mod nfs_server;
mod pynfs;
mod reader;
mod smbtorture;
mod stress;
mod xfstests;

use crate::context::Context;
use crate::report::SuiteResult;
use anyhow::Result;
use std::path::PathBuf;
use std::time::Duration;

/// Time after which a case is ended and counted as failed, by default.
const LIMIT_CASE: Duration = Duration::from_secs(300);

/// Options of the kernel's NFS mount, beside address and port.
const MOUNT_OPTIONS: &str = "vers=4.1,hard";

/// The caller's options.
pub struct Options {
    /// The directory where the suite was built or installed.
    pub checkout: PathBuf,
    /// Another directory to run in, such as one of ext4, to compare with.
    pub on: Option<PathBuf>,
    /// Whether a second mount of the same cluster reads all files meanwhile.
    pub second_mount: bool,
    /// Time after which a case is ended and counted as failed; `None`: the suite's default.
    pub limit: Option<Duration>,
    /// Cases or groups, as the suite names them; empty: its default list.
    pub cases: Vec<String>,
    /// Suites of NFS and SMB: a server that runs already, instead of a cluster of the suite's own.
    pub server: Option<(String, u16)>,
    /// Suites of NFS and SMB: the exported path, or the name of the share.
    pub export: String,
    /// Suites of NFS: the network namespace in which the clients run.
    pub namespace: Option<String>,
    /// Suites of NFS: options of the kernel's mount.
    pub mount_options: String,
    /// Suites of NFS: whether the kernel's client has no layout driver.
    pub no_layouts: bool,
    /// The guest's suite: an ext4 of the guest instead of a server, to compare with.
    pub is_local: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            checkout: PathBuf::new(),
            on: None,
            second_mount: false,
            limit: None,
            cases: Vec::new(),
            server: None,
            export: "/".to_owned(),
            namespace: None,
            mount_options: MOUNT_OPTIONS.to_owned(),
            no_layouts: false,
            is_local: false,
        }
    }
}

impl Options {
    fn limit_case(&self) -> Duration {
        self.limit.unwrap_or(LIMIT_CASE)
    }
}

/// What a third-party suite tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A mount or another directory.
    Mount,
    /// An NFS server.
    Nfs,
    /// An SMB server.
    Smb,
}

/// A third-party suite.
pub struct ExternalSuite {
    /// Its name on the command line.
    pub name: &'static str,
    /// Whether the caller must name its directory.
    pub wants_checkout: bool,
    /// What it tests.
    pub subject: Subject,
    /// Runs it.
    pub run: fn(&Context, &Options) -> Result<SuiteResult>,
}

const EXTERNAL_SUITES: [ExternalSuite; 6] = [
    suite("xfstests", true, Subject::Mount, xfstests::run),
    suite("ltp", true, Subject::Mount, ltp::run),
    suite("stress-ng", false, Subject::Mount, stress::run),
    suite("pynfs", true, Subject::Nfs, pynfs::run),
    suite("guest-nfs", true, Subject::Nfs, guest_nfs::run),
    suite("smbtorture", false, Subject::Smb, smbtorture::run),
];

const fn suite(
    name: &'static str,
    wants_checkout: bool,
    subject: Subject,
    run: fn(&Context, &Options) -> Result<SuiteResult>,
) -> ExternalSuite {
    ExternalSuite { name, wants_checkout, subject, run }
}

/// The suite of this name.
pub fn by_name(name: &str) -> Option<&'static ExternalSuite> {
    EXTERNAL_SUITES.iter().find(|other| other.name == name)
}

pub use nfs_server::parse_address;
