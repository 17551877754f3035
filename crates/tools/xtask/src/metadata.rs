//! `cargo metadata`, as much of it as the checks need.

use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The whole answer.
#[derive(Deserialize)]
pub struct Metadata {
    /// Every package, ours and others'.
    pub packages: Vec<Package>,
    /// The ids of ours.
    pub workspace_members: BTreeSet<String>,
    /// Where the workspace is.
    pub workspace_root: PathBuf,
    /// Where it builds.
    pub target_directory: PathBuf,
}

/// One package.
#[derive(Deserialize)]
pub struct Package {
    /// What other parts of the metadata call it.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// What it declares.
    pub dependencies: Vec<Dependency>,
    /// What it builds.
    pub targets: Vec<Target>,
}

/// One declared dependency.
#[derive(Deserialize)]
pub struct Dependency {
    /// The package it names.
    pub name: String,
    /// None for a normal one, else `dev` or `build`.
    pub kind: Option<String>,
}

/// One library, binary, test or example.
#[derive(Deserialize)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// `lib`, `bin`, `test`, …
    pub kind: Vec<String>,
}

impl Metadata {
    /// Our own packages.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The package of ours that has a binary of this name.
    pub fn package_of_binary(&self, binary: &str) -> Option<&Package> {
        self.members().find(|package| package.has_target(binary, "bin"))
    }
}

impl Package {
    /// Whether it builds a target of this name and kind.
    pub fn has_target(&self, name: &str, kind: &str) -> bool {
        self.targets
            .iter()
            .any(|target| target.name == name && target.kind.iter().any(|found| found == kind))
    }
}
