//! What every command starts from: where the workspace is, what is in it, how long a run may be.

use crate::metadata::Metadata;
use crate::process::Process;
use crate::test_binaries::{self, TestBinary};
use anyhow::{Context as _, Result};
use std::cell::OnceCell;
use std::path::PathBuf;

/// Made once a run; the test binaries are built when first asked for and only then.
pub struct Context {
    /// The root of the workspace.
    pub root: PathBuf,
    /// What `cargo metadata` says.
    pub metadata: Metadata,
    /// The long form of each suite.
    pub full: bool,
    test_binaries: OnceCell<Result<Vec<TestBinary>, String>>,
}

impl Context {
    /// Reads the metadata of the workspace that this binary was built from.
    pub fn new(full: bool) -> Result<Self> {
        let output = cargo().args(["metadata", "--format-version", "1", "--locked"]).run();
        let output = output.context("cargo metadata --locked (does Cargo.lock lack a new dependency?)")?;
        let metadata: Metadata = serde_json::from_str(&output.stdout).context("cargo metadata")?;
        Ok(Self { root: metadata.workspace_root.clone(), metadata, full, test_binaries: OnceCell::new() })
    }

    /// `cargo ARGS` in the root.
    pub fn cargo<const N: usize>(&self, args: [&str; N]) -> Process {
        cargo().dir(&self.root).args(args)
    }

    /// Every test binary of the workspace, built once.
    pub fn test_binaries(&self) -> Result<&[TestBinary]> {
        let built = self.test_binaries.get_or_init(|| test_binaries::build(self).map_err(|error| format!("{error:#}")));
        built.as_deref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// The package that has this binary, or an error that says what is missing.
    pub fn package_of_binary(&self, binary: &str) -> Result<String> {
        let package = self.metadata.package_of_binary(binary);
        Ok(package.with_context(|| format!("no crate of the workspace has a binary `{binary}`"))?.name.clone())
    }
}

/// The `cargo` that runs us, as it was called.
fn cargo() -> Process {
    as_called(Process::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())))
}

/// A program that runs `cargo`, without what `cargo` told us about ourselves: a build script that watches these variables would
/// run again.
pub fn as_called(program: Process) -> Process {
    let own = |key: &String| key.starts_with("CARGO_PKG_") || key.starts_with("CARGO_MANIFEST_");
    std::env::vars().map(|(key, _)| key).filter(own).fold(program, |program, key| program.env_remove(&key))
}
