//! The part of `cargo metadata` that the checks need.

use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The whole output.
#[derive(Deserialize)]
pub struct Metadata {
    /// Every package, also third-party ones.
    pub packages: Vec<Package>,
    /// The ids of the workspace's packages.
    pub workspace_members: BTreeSet<String>,
    /// The root directory of the workspace.
    pub workspace_root: PathBuf,
    /// The build directory.
    pub target_directory: PathBuf,
}

/// One package.
#[derive(Deserialize)]
pub struct Package {
    /// The id that other parts of the metadata use.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// Its declared dependencies.
    pub dependencies: Vec<Dependency>,
    /// The targets that it builds.
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
    /// The packages of the workspace.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The package of the workspace that has a binary of this name.
    pub fn package_of_binary(&self, binary: &str) -> Option<&Package> {
        self.members().find(|package| package.has_target(binary, "bin"))
    }
}

impl Package {
    /// Whether it has a target of this name and kind.
    pub fn has_target(&self, name: &str, kind: &str) -> bool {
        self.targets
            .iter()
            .any(|target| target.name == name && target.kind.iter().any(|found| found == kind))
    }
}
