//! The compiled test binaries of the workspace: built once, then run as often as the suites
//! want (as we are, as another user), listed for the requirements.

use crate::context::Context;
use crate::libtest;
use crate::process::Process;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::path::PathBuf;

/// One binary with tests in it.
pub struct TestBinary {
    /// The crate it tests, as cargo spells it.
    pub package: String,
    /// For an integration test that is not [`MERGED`] its own name: its tests are `package::target::test`.
    pub integration: Option<String>,
    /// The file.
    pub executable: PathBuf,
    /// Where cargo would run it.
    pub dir: PathBuf,
    /// What its property tests draw their cases from; `None`: as they like.
    pub seed: Option<String>,
}

/// The one binary of most crates' integration tests. Its tests are `package::module::test`, as if each
/// module were a binary of its own.
const MERGED: &str = "it";

/// What property tests draw their cases from.
const SEED: &str = "PROPTEST_RNG_SEED";

/// Each state of the crates has cases of its own, the same wherever it is tested: what passes here passes there, and what fails
/// fails again. With `--full`, or a seed that is set already, no seed of ours.
fn seed(context: &Context) -> Option<String> {
    if context.full || std::env::var_os(SEED).is_some() {
        return None;
    }
    let tree = Process::new("git").args(["rev-parse", "HEAD:crates"]).dir(&context.root).run().ok();
    // Without a repository they are the same for all.
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

/// Builds all of them.
pub fn build(context: &Context) -> Result<Vec<TestBinary>> {
    // Not `--lib`, which asks for a test of a library that says it has none: Python's extension module cannot be linked into one.
    let build = ["test", "--workspace", "--no-run", "--locked", "--tests"];
    let format = "--message-format=json-render-diagnostics";
    let finished = context.cargo(build).args([format]).run().context("building the tests")?;
    let messages = finished.stdout.lines().map(serde_json::from_str::<Message>);
    let messages: Vec<Message> = messages.collect::<Result<_, _>>().context("messages of cargo test --no-run")?;
    let seed = seed(context);
    Ok(messages.into_iter().filter_map(|message| from_message(context, message, &seed)).collect())
}

fn from_message(context: &Context, message: Message, seed: &Option<String>) -> Option<TestBinary> {
    if message.reason != "compiler-artifact" || !message.profile?.test {
        return None;
    }
    let (id, target) = (message.package_id?, message.target?);
    let package = context.metadata.packages.iter().find(|package| package.id == id)?;
    let integration =
        target.kind.iter().any(|kind| kind == "test").then_some(target.name).filter(|name| name != MERGED);
    let dir = package.manifest_path.parent()?.to_owned();
    Some(TestBinary {
        package: package.name.clone(),
        integration,
        executable: message.executable?,
        dir,
        seed: seed.clone(),
    })
}

impl TestBinary {
    /// What the tests of this binary are called in reports and in docs/requirements.toml.
    pub fn full_name(&self, test: &str) -> String {
        match &self.integration {
            Some(target) => format!("{}::{target}::{test}", self.package),
            None => format!("{}::{test}", self.package),
        }
    }

    /// The binary in the surroundings that `cargo test` gives it, run by `runner` (a program and
    /// its arguments) if there is one.
    pub fn process(&self, runner: &[String]) -> Process {
        let mut words = runner.iter().cloned().chain([self.executable.to_string_lossy().into_owned()]);
        let program = words.next().unwrap_or_default();
        let process = Process::new(program).args(words).dir(&self.dir);
        let process = process.env("CARGO_MANIFEST_DIR", &self.dir).env("CARGO_PKG_NAME", &self.package);
        self.seed.iter().fold(process, |process, seed| process.env(SEED, seed))
    }

    /// The names of its tests; only those that are ignored if so asked.
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
