//! The tests of library and command again, as a user without any privilege. Root passes every
//! permission check, so a run as root alone proves nothing about an ordinary user.
//!
//! ```text
//! root ── unshare (own mounts, when the tree is in a closed directory)
//!           └─ setpriv (uid, gid 65534, no groups, no capabilities) ── test binary
//! ```

use super::unit::run_binaries;
use crate::build::TestBinary;
use crate::context::Context;
use crate::report::SuiteResult;
use anyhow::{Context as _, Result, ensure};
use braid_testbed::process::Process;
use braid_testbed::programs;
use std::path::{Path, PathBuf};

pub const ABOUT: &str = "tests of library and command again, as an unprivileged user";

/// The crates that programs of an ordinary user depend on.
const CRATES: &[&str] =
    &["braid-client", "braid-cli", "braid-vfs", "braid-fuse", "braid-capi", "braid-mpiio"];

/// Crates whose tests take minutes: MPI programs and a mount differ by little for an ordinary user,
/// by the agent and by the owner. One test in this many runs, other ones for each state of the
/// sources; all with `--full`. The suite `unit` runs all.
const SAMPLED: &[(&str, u64)] = &[("braid-cli", 2), ("braid-mpiio", 4), ("braid-vfs", 4)];

/// `nobody` on Debian and most other systems.
const USER: &str = "65534";

pub fn subject(context: &Context) -> Result<()> {
    ensure!(!binaries(context)?.is_empty(), "no test in {}", CRATES.join(", "));
    Ok(())
}

pub fn run(context: &Context) -> Result<SuiteResult> {
    if !programs::is_root() {
        return Ok(SuiteResult::skip(
            "all",
            "the suite `unit` has run them already: this user is not root",
        ));
    }
    programs::need("setpriv", &["util-linux"])?;
    let scratch = Scratch::new()?;
    let Some(runner) = runner(context, &scratch)? else {
        return Ok(SuiteResult::skip(
            "all",
            format!("uid {USER} cannot reach {}", context.root.display()),
        ));
    };
    run_binaries("nonroot", &binaries(context)?, &runner, &|binary| sample(context, binary))
}

fn binaries(context: &Context) -> Result<Vec<&TestBinary>> {
    let chosen =
        context.test_binaries()?.iter().filter(|binary| CRATES.contains(&binary.package.as_str()));
    let with_tests = chosen.map(|binary| Ok((binary, binary.list(false)?.is_empty())));
    let with_tests: Vec<(&TestBinary, bool)> = with_tests.collect::<Result<_>>()?;
    Ok(with_tests.into_iter().filter(|(_, empty)| !empty).map(|(binary, _)| binary).collect())
}

/// The tests of a binary that run; `None`: all.
fn sample(context: &Context, binary: &TestBinary) -> Result<Vec<String>> {
    let sampled = SAMPLED.iter().find(|(package, _)| *package == binary.package);
    let Some(&(_, of)) = sampled.filter(|_| !context.full) else { return Ok(Vec::new()) };
    let first =
        binary.seed.as_deref().and_then(|seed| seed.parse::<u64>().ok()).unwrap_or_default() % of;
    let tests = binary.list(false)?.into_iter();
    Ok(tests.skip(first as usize).step_by(of as usize).collect())
}

/// The topmost directory above the tree that other users may not enter.
fn closed_directory(root: &Path) -> Option<&Path> {
    let way: Vec<&Path> = root.ancestors().collect();
    way.into_iter().rev().find(|dir| !others_may_enter(dir))
}

#[cfg(unix)]
fn others_may_enter(dir: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    dir.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
}

#[cfg(not(unix))]
fn others_may_enter(_: &Path) -> bool {
    true
}

/// How to run a program as the user, if the user can then reach the tree.
fn runner(context: &Context, scratch: &Scratch) -> Result<Option<Vec<String>>> {
    let plain = become_user(scratch);
    let runner = match closed_directory(&context.root) {
        Some(closed) => [open_tree(&context.root, closed, scratch), plain].concat(),
        None => plain,
    };
    Ok(reaches(&runner, &context.root)?.then_some(runner))
}

fn become_user(scratch: &Scratch) -> Vec<String> {
    let scratch = scratch.0.display();
    let words = [
        "setpriv",
        "--reuid",
        USER,
        "--regid",
        USER,
        "--clear-groups",
        "--inh-caps=-all",
        "--no-new-privs",
        "env",
    ];
    let places = [format!("HOME={scratch}"), format!("TMPDIR={scratch}"), "USER=nobody".to_owned()];
    words.iter().map(|word| (*word).to_owned()).chain(places).collect()
}

/// In mounts of our own, mounts an open directory over the closed one and the tree again inside it.
/// Test binaries contain the paths of the commands that they start, so a copy elsewhere would not
/// find them.
fn open_tree(root: &Path, closed: &Path, scratch: &Scratch) -> Vec<String> {
    let script = "here=$PWD && mkdir -p \"$3\" && mount --bind \"$1\" \"$3\" \
         && mount -t tmpfs -o mode=755 none \"$2\" \
                  && mkdir -p \"$1\" && mount --bind \"$3\" \"$1\" \
         && cd \"$here\" && shift 3 && exec \"$@\"";
    let words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "open"];
    let paths =
        [root, closed, &scratch.0.join("tree")].map(|path| path.to_string_lossy().into_owned());
    words.iter().map(|word| (*word).to_owned()).chain(paths).collect()
}

fn reaches(runner: &[String], root: &Path) -> Result<bool> {
    let (program, args) = runner.split_first().context("no way to become another user")?;
    let probe =
        Process::new(program).args(args).args(["test", "-r"]).args([root.join("Cargo.toml")]);
    Ok(probe.finish()?.status.success())
}

/// A home directory for the user, with space for scratch files; removed afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("braid-nonroot-{}", std::process::id()));
        std::fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        let scratch = Self(dir);
        Process::new("chown")
            .args([&format!("{USER}:{USER}"), &*scratch.0.to_string_lossy()])
            .run()?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
