//! The tests of library and command again, as a user without any privilege: root passes every
//! permission check, so a run as root alone proves nothing about an ordinary user.
//!
//! ```text
//! root ── unshare (own mounts, when the tree is in a closed directory)
//!           └─ setpriv (uid, gid 65534, no groups, no capabilities) ── test binary
//! ```

use super::unit::run_binary;
use crate::context::Context;
use crate::process::Process;
use crate::report::SuiteResult;
use crate::test_binaries::TestBinary;
use crate::tools;
use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};

pub const ABOUT: &str = "tests of library and command again, as an unprivileged user";

/// The crates whose tests an ordinary user's program depends on.
const CRATES: &[&str] = &["braid-client", "braid-cli", "braid-vfs", "braid-fuse", "braid-capi", "braid-mpiio"];

/// `nobody` on Debian and nearly everywhere.
const USER: &str = "65534";

pub fn subject(context: &Context) -> Result<()> {
    ensure!(!binaries(context)?.is_empty(), "no test in {}", CRATES.join(", "));
    Ok(())
}

pub fn run(context: &Context) -> Result<SuiteResult> {
    if !tools::is_root() {
        return Ok(SuiteResult::skip("all", "the suite `unit` has run them as this user, who is not root"));
    }
    tools::need("setpriv", "util-linux")?;
    let scratch = Scratch::new()?;
    let Some(runner) = runner(context, &scratch)? else {
        return Ok(SuiteResult::skip("all", format!("uid {USER} cannot reach {}", context.root.display())));
    };
    let mut result = SuiteResult::default();
    for binary in binaries(context)? {
        result.absorb(run_binary(binary, &runner)?);
    }
    Ok(result)
}

fn binaries(context: &Context) -> Result<Vec<&TestBinary>> {
    let chosen = context.test_binaries()?.iter().filter(|binary| CRATES.contains(&binary.package.as_str()));
    let with_tests = chosen.map(|binary| Ok((binary, binary.list(false)?.is_empty())));
    let with_tests: Vec<(&TestBinary, bool)> = with_tests.collect::<Result<_>>()?;
    Ok(with_tests.into_iter().filter(|(_, empty)| !empty).map(|(binary, _)| binary).collect())
}

/// The first way to become the user that reaches the tree.
fn runner(context: &Context, scratch: &Scratch) -> Result<Option<Vec<String>>> {
    let plain = become_user(scratch);
    let opened = [open_tree(&context.root), plain.clone()].concat();
    for runner in [plain, opened] {
        if reaches(&runner, &context.root)? {
            return Ok(Some(runner));
        }
    }
    Ok(None)
}

fn become_user(scratch: &Scratch) -> Vec<String> {
    let scratch = scratch.0.display();
    let words =
        ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--inh-caps=-all", "--no-new-privs", "env"];
    let places = [format!("HOME={scratch}"), format!("TMPDIR={scratch}"), "USER=nobody".to_owned()];
    words.iter().map(|word| (*word).to_owned()).chain(places).collect()
}

/// In mounts of our own, puts an open directory over the closed one and the tree back into it.
/// Test binaries have the paths of the commands they start compiled in: a copy elsewhere would
/// not find them.
fn open_tree(root: &Path) -> Vec<String> {
    let top = root.components().take(2).collect::<PathBuf>();
    let script = "hold=$(mktemp -d) && mount --bind \"$1\" \"$hold\" && mount -t tmpfs -o mode=755 none \"$2\" \
                  && mkdir -p \"$1\" && mount --bind \"$hold\" \"$1\" && shift 2 && exec \"$@\"";
    let words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "open"];
    let paths = [root.to_string_lossy().into_owned(), top.to_string_lossy().into_owned()];
    words.iter().map(|word| (*word).to_owned()).chain(paths).collect()
}

fn reaches(runner: &[String], root: &Path) -> Result<bool> {
    let (program, args) = runner.split_first().context("no way to become another user")?;
    let probe = Process::new(program).args(args).args(["test", "-r"]).args([root.join("Cargo.toml")]);
    Ok(probe.finish()?.status.success())
}

/// A home and a place for scratch files that the user owns; gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("braid-nonroot-{}", std::process::id()));
        std::fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        let scratch = Self(dir);
        Process::new("chown").args([&format!("{USER}:{USER}"), &*scratch.0.to_string_lossy()]).run()?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
