//! What every command needs: the workspace's root, its packages, and whether runs are long.

use crate::build::{self, BRAID_BIN, Build, TestBinary};
use crate::metadata::Metadata;
use crate::process::Process;
use anyhow::{Context as _, Result};

use std::path::PathBuf;
use std::sync::OnceLock;

/// Made once in a run; programs and tests are built when they are first needed.
pub struct Context {
    /// The root of the workspace.
    pub root: PathBuf,
    /// The output of `cargo metadata`.
    pub metadata: Metadata,
    /// Whether each suite runs its long form.
    pub full: bool,
    /// Whether the check `words` prints the number of findings in each directory.
    pub summary: bool,
    build: OnceLock<Result<Build, String>>,
}

impl Context {
    /// Reads the metadata of the workspace that this binary was built from.
    pub fn new(full: bool) -> Result<Self> {
        let output = cargo().args(["metadata", "--format-version", "1", "--locked"]).run();
        let output = output
            .context("cargo metadata --locked failed: does Cargo.lock lack a new dependency?")?;
        let metadata: Metadata = serde_json::from_str(&output.stdout).context("cargo metadata")?;
        let root = metadata.workspace_root.clone();
        Ok(Self { root, metadata, full, summary: false, build: OnceLock::new() })
    }

    /// `cargo ARGS` in the root directory.
    pub fn cargo<const N: usize>(&self, args: [&str; N]) -> Process {
        cargo().dir(&self.root).args(args)
    }

    /// Every test and program of the workspace, built once.
    pub fn build(&self) -> Result<&Build> {
        let built =
            self.build.get_or_init(|| build::build(self).map_err(|error| format!("{error:#}")));
        built.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// Every test binary of the workspace.
    pub fn test_binaries(&self) -> Result<&[TestBinary]> {
        Ok(&self.build()?.tests)
    }

    /// A program of the workspace, ready to run; it and its children use the `braid` that was built
    /// with it.
    pub fn program(&self, name: &str) -> Result<Process> {
        let build = self.build()?;
        Ok(Process::new(build.program(name)?)
            .dir(&self.root)
            .env(BRAID_BIN, build.program("braid")?))
    }

    /// The `braid` that third-party suites run: the one that `BRAID_BIN` names, such as an
    /// optimized build, else that of this build.
    pub fn braid(&self) -> Result<PathBuf> {
        match std::env::var_os(BRAID_BIN) {
            Some(named) => std::fs::canonicalize(&named)
                .with_context(|| format!("{BRAID_BIN}={}", named.display())),
            None => self.build()?.program("braid"),
        }
    }

    /// Another program of the workspace: the one beside [`Self::braid`], from the same build.
    pub fn beside_braid(&self, name: &str) -> Result<PathBuf> {
        let Some(named) = std::env::var_os(BRAID_BIN) else { return self.build()?.program(name) };
        let program = std::path::Path::new(&named).with_file_name(name);
        std::fs::canonicalize(&program).with_context(|| {
            format!("{}, beside {BRAID_BIN}={}", program.display(), named.display())
        })
    }

    /// The package that has this binary, or an error that names the missing binary.
    pub fn package_of_binary(&self, binary: &str) -> Result<String> {
        let package = self.metadata.package_of_binary(binary);
        Ok(package
            .with_context(|| format!("no crate of the workspace has a binary `{binary}`"))?
            .name
            .clone())
    }
}

/// The `cargo` that runs us, as it was called.
fn cargo() -> Process {
    as_called(Process::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())))
}

/// A program that runs `cargo`, without the variables that `cargo` set for us: a build script that
/// watches these variables would run again.
pub fn as_called(program: Process) -> Process {
    let own = |key: &String| key.starts_with("CARGO_PKG_") || key.starts_with("CARGO_MANIFEST_");
    std::env::vars()
        .map(|(key, _)| key)
        .filter(own)
        .fold(program, |program, key| program.env_remove(&key))
}
