//! The kernel's NFS client in a guest: programs of third parties and our own run on its mount of a
//! server.
//!
//! ```text
//!  cthon-basic … cthon-lock   Connectathon's four parts, from a built checkout
//!  pjdfstest                  the crate, each of its cases; nfs/pjdfstest.txt lists exceptions
//!  fsx, programs              those of braid-mount-test
//!  pnfs                       256 MiB to and from the data servers, by /proc/self/mountstats
//! ```
//!
//! Each case boots a guest of its own. Its output and its files stay in
//! `target/suite/guest-nfs/CASE`.

mod mountstats;
mod pjdfstest;

use super::{Options, nfs_server::NfsServer};
use crate::context::Context;
use crate::guest::{Guest, GuestNetwork, GuestOutput, Image};
use crate::report::SuiteResult;
use crate::tools;
use anyhow::{Context as _, Result, ensure};
use mountstats::MountStats;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SCRIPT: &str = include_str!("../../../guest/nfs-cases.sh");
const CASES: [&str; 8] = [
    "cthon-basic",
    "cthon-general",
    "cthon-special",
    "cthon-lock",
    "pjdfstest",
    "fsx",
    "programs",
    "pnfs",
];
/// Cases of Connectathon begin so.
const CTHON: &str = "cthon-";
/// An emulated processor needs minutes for the compilations of `cthon-general`.
const LIMIT: Duration = Duration::from_secs(900);
/// Operations of fsx.
const OPERATIONS: &str = "5000";
/// Length of the file of the case `pnfs`.
const PNFS_BYTES: u64 = 256 << 20;
const MOUNT_TEST: &str = "braid-mount-test";
/// What `cthon-general` runs in the guest: programs of the host.
const PROGRAMS: [(&str, &str); 5] =
    [("cc", "gcc"), ("make", "make"), ("tbl", "groff"), ("nroff", "groff"), ("time", "time")];

pub fn run(context: &Context, options: &Options) -> Result<SuiteResult> {
    let cases: Vec<&str> = match options.cases.as_slice() {
        [] => CASES.to_vec(),
        named => named.iter().map(String::as_str).collect(),
    };
    if let Some(unknown) = cases.iter().find(|case| !CASES.contains(case)) {
        anyhow::bail!("suite guest-nfs: no case {unknown}; there are {}", CASES.join(", "));
    }
    if cases.iter().any(|case| case.starts_with(CTHON)) {
        ensure!(
            options.checkout.join("basic/test1").is_file(),
            "suite guest-nfs: {} is no built checkout of cthon04; try: make there",
            options.checkout.display()
        );
        for (program, package) in PROGRAMS {
            tools::need(program, package)?;
        }
    }
    let tools = Tools::find(context, &cases)?;
    let network = network(options)?;
    let server = match options.is_local {
        true => None,
        false => Some(NfsServer::start(context, options, &network)?),
    };
    let guest = Guest { image: Image::build(context)?, network: &network };
    let mut result = SuiteResult::default();
    for case in cases {
        let share = context.root.join("target/suite/guest-nfs").join(case);
        let started = Instant::now();
        let limit = options.limit.unwrap_or(LIMIT);
        let variables = variables(options, &tools, &network, server.as_ref(), case);
        let files: &[(&str, &str)] = &[("pjdfstest.toml", pjdfstest::CONFIG)];
        let output = guest.run(&share, SCRIPT, files, &variables, limit)?;
        let one = judge(case, &output, &share, server.as_ref(), options)?;
        println!("       {:<7} {case} ({:.0} s)", one.status(), started.elapsed().as_secs_f64());
        result.merge(one);
    }
    Ok(result)
}

/// A tap device where data servers have addresses of their own, which pNFS needs: for a cluster of
/// our own, and where the caller names a namespace.
fn network(options: &Options) -> Result<GuestNetwork> {
    match (&options.namespace, &options.server) {
        (Some(name), _) => GuestNetwork::tap(name),
        (None, None) if !options.is_local => {
            GuestNetwork::tap(&format!("braid-guest-{}", std::process::id()))
        }
        (None, _) => Ok(GuestNetwork::User),
    }
}

/// Programs that the guest runs, by their paths on the host.
struct Tools {
    pjdfstest: PathBuf,
    mount_test: PathBuf,
}

impl Tools {
    fn find(context: &Context, cases: &[&str]) -> Result<Self> {
        let (name, version) = crate::suites::PJDFSTEST;
        let pjdfstest = match cases.contains(&"pjdfstest") {
            true => tools::need_crate(context, name, version)?,
            false => PathBuf::new(),
        };
        let mount_test = match cases.contains(&"fsx") || cases.contains(&"programs") {
            true => context.beside_braid(MOUNT_TEST)?,
            false => PathBuf::new(),
        };
        Ok(Self { pjdfstest, mount_test })
    }
}

fn variables(
    options: &Options,
    tools: &Tools,
    network: &GuestNetwork,
    server: Option<&NfsServer>,
    case: &str,
) -> Vec<(&'static str, String)> {
    let path = |path: &Path| path.display().to_string();
    let address = server.map_or("", |server| network.seen_by_guest(&server.host));
    vec![
        ("case", case.to_owned()),
        ("subject", if options.is_local { "ext4" } else { "nfs" }.to_owned()),
        ("address", address.to_owned()),
        ("guest", network.guest_address().to_owned()),
        ("port", server.map_or(0, |server| server.port).to_string()),
        ("export", options.export.clone()),
        ("options", options.mount_options.clone()),
        ("layouts", if options.no_layouts { "off" } else { "on" }.to_owned()),
        ("checkout", path(&options.checkout)),
        ("pjdfstest", path(&tools.pjdfstest)),
        ("mount_test", path(&tools.mount_test)),
        ("operations", OPERATIONS.to_owned()),
    ]
}

/// The result of one case, by its exit status and what it left.
fn judge(
    case: &str,
    output: &GuestOutput,
    share: &Path,
    server: Option<&NfsServer>,
    options: &Options,
) -> Result<SuiteResult> {
    match (case, output.status) {
        (_, None) => Ok(SuiteResult::fail(case, format!("the guest did not end\n{}", output.text))),
        (_, Some(status)) if status != 0 => {
            Ok(SuiteResult::fail(case, format!("exit status {status}\n{}", output.text)))
        }
        ("pjdfstest", _) => pjdfstest::judge(&output.text, server.is_none()),
        ("pnfs", _) => {
            let Some(server) = server else {
                return Ok(SuiteResult::skip(case, "a local file system has no layouts"));
            };
            let file = share.join("mountstats");
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            Ok(judge_pnfs(case, &MountStats::parse(&text, "/mnt/nfs")?, server, options))
        }
        _ => Ok(SuiteResult { passed: 1, ..SuiteResult::default() }),
    }
}

/// The data went to the data servers and came from them. A server of others may have no layouts.
fn judge_pnfs(
    case: &str,
    stats: &MountStats,
    server: &NfsServer,
    options: &Options,
) -> SuiteResult {
    println!("       {stats}");
    if options.no_layouts || (!server.is_own && !stats.has_layouts()) {
        return SuiteResult::skip(case, "the mount has no layouts; the data was correct");
    }
    match stats.check_all_by_layouts(PNFS_BYTES) {
        Ok(()) => SuiteResult { passed: 1, ..SuiteResult::default() },
        Err(why) => SuiteResult::fail(case, format!("{why:#}\n{stats}")),
    }
}
