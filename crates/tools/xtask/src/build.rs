//! Builds everything of the workspace that the suites run in one command: the test binaries, the
//! programs (`braid`, `braid-sim`, …) and the libraries.
//!
//! One command, since cargo chooses the features of dependencies for the packages that it builds:
//! `--package braid-cli` alone would compile most dependencies a second time.

use crate::context::Context;
use crate::libtest;
use anyhow::{Context as _, Result};
use braid_testbed::{braid::BRAID_BIN, process::Process};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The whole workspace from nothing took 26 minutes on two busy cores.
const LIMIT: Duration = Duration::from_secs(80 * 60);

/// The built files.
pub struct Build {
    /// Every binary with tests in it.
    pub tests: Vec<TestBinary>,
    programs: BTreeMap<String, PathBuf>,
}

/// One binary with tests in it.
pub struct TestBinary {
    /// The crate it tests, as cargo spells it.
    pub package: String,
    /// The name of an integration test other than [`MERGED`]: its tests are
    /// `package::target::test`.
    pub integration: Option<String>,
    /// The file.
    pub executable: PathBuf,
    /// Where cargo would run it.
    pub dir: PathBuf,
    /// The seed of its property tests; `None`: a random one.
    pub seed: Option<String>,
    /// The `braid` that its tests start.
    pub braid: PathBuf,
}

/// The single binary of most crates' integration tests. Its tests are `package::module::test`, as
/// if each module were a binary of its own.
const MERGED: &str = "it";

/// The environment variable with the seed of property tests.
const SEED: &str = "PROPTEST_RNG_SEED";

/// Each state of the crates has property test cases of its own, the same on every machine: a
/// failure repeats. `None` with `--full`, or when the caller has set a seed.
fn seed(context: &Context) -> Option<String> {
    if context.full || std::env::var_os(SEED).is_some() {
        return None;
    }
    let tree = Process::new("git").args(["rev-parse", "HEAD:crates"]).dir(&context.root).run().ok();
    // Without a repository the seed is always the same.
    Some(tree.and_then(|tree| of_tree(&tree.stdout)).unwrap_or(0).to_string())
}

fn of_tree(hash: &str) -> Option<u64> {
    u64::from_str_radix(hash.trim().get(..16)?, 16).ok()
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    package_id: Option<String>,
    target: Option<MessageTarget>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct MessageTarget {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds everything; cargo's own progress lines are shown.
pub fn build(context: &Context) -> Result<Build> {
    println!("       building every program and test");
    let started = Instant::now();
    let build = ["build", "--workspace", "--locked", "--lib", "--bins", "--tests"];
    let format = "--message-format=json-render-diagnostics";
    let finished = context
        .cargo(build)
        .args([format])
        .limit(LIMIT)
        .show_errors()
        .run()
        .context("building the tests")?;
    let messages = finished.stdout.lines().map(serde_json::from_str::<Message>);
    let messages: Vec<Message> =
        messages.collect::<Result<_, _>>().context("messages of cargo build")?;
    println!("ok     {:<14} {:>7.1} s", "build", started.elapsed().as_secs_f64());
    let programs = messages.iter().filter_map(Message::program).collect();
    let seed = seed(context);
    let tests =
        messages.into_iter().filter_map(|message| from_message(context, message, &seed)).collect();
    let mut build = Build { tests, programs };
    let braid = build.program("braid")?;
    build.tests.iter_mut().for_each(|test| test.braid = braid.clone());
    Ok(build)
}

impl Build {
    /// The program of this name.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        self.programs
            .get(name)
            .cloned()
            .with_context(|| format!("no crate of the workspace has a binary `{name}`"))
    }
}

impl Message {
    fn program(&self) -> Option<(String, PathBuf)> {
        let target = self.target.as_ref()?;
        let program = target.kind.iter().any(|kind| kind == "bin") && !self.profile.as_ref()?.test;
        program.then(|| Some((target.name.clone(), self.executable.clone()?)))?
    }
}

fn from_message(context: &Context, message: Message, seed: &Option<String>) -> Option<TestBinary> {
    if message.reason != "compiler-artifact" || !message.profile?.test {
        return None;
    }
    let (id, target) = (message.package_id?, message.target?);
    let package = context.metadata.packages.iter().find(|package| package.id == id)?;
    let integration = target
        .kind
        .iter()
        .any(|kind| kind == "test")
        .then_some(target.name)
        .filter(|name| name != MERGED);
    let dir = package.manifest_path.parent()?.to_owned();
    Some(TestBinary {
        package: package.name.clone(),
        integration,
        executable: message.executable?,
        dir,
        seed: seed.clone(),
        braid: PathBuf::new(),
    })
}

impl TestBinary {
    /// The name of a test in reports and in docs/requirements.toml.
    pub fn full_name(&self, test: &str) -> String {
        match &self.integration {
            Some(target) => format!("{}::{target}::{test}", self.package),
            None => format!("{}::{test}", self.package),
        }
    }

    /// The name of the binary while it runs: its package, and its target if that has a name.
    pub fn short_name(&self) -> String {
        let file = self.executable.file_stem().unwrap_or_default().to_string_lossy();
        let target = file.rsplit_once('-').map_or(&*file, |(target, _)| target);
        format!("{} {target}", self.package)
    }

    /// The binary with the environment that `cargo test` gives it, run by `runner` (a program and
    /// its arguments) if there is one.
    pub fn process(&self, runner: &[String]) -> Process {
        let mut words =
            runner.iter().cloned().chain([self.executable.to_string_lossy().into_owned()]);
        let program = words.next().unwrap_or_default();
        let process = Process::new(program).args(words).dir(&self.dir);
        let process =
            process.env("CARGO_MANIFEST_DIR", &self.dir).env("CARGO_PKG_NAME", &self.package);
        let process = process.env(BRAID_BIN, &self.braid);
        self.seed.iter().fold(process, |process, seed| process.env(SEED, seed))
    }

    /// The names of its tests, or only of the ignored ones.
    pub fn list(&self, ignored: bool) -> Result<Vec<String>> {
        let only = if ignored { vec!["--ignored"] } else { vec![] };
        let output = self.process(&[]).args(["--list"]).args(only).run()?;
        Ok(libtest::parse_list(&output.stdout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_the_beginning_of_a_trees_hash() {
        assert_eq!(of_tree("00000000000000ff0123456789abcdef01234567\n"), Some(255));
        assert_eq!((of_tree(""), of_tree("not a hash, but long")), (None, None));
    }
}
