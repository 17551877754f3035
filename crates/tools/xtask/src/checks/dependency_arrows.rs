//! Which crate may depend on which (docs/architecture.md, the table of parts).
//!
//! A crate may use the crates in its row, and all that those may use. A gateway reaches daemons
//! only through `vfs`, so it may use its row only. Tools may use any crate, and only tools may use
//! a tool. Dev-dependencies are free, except that tests of core need no server. What users run does
//! not contain `testbed`.

use crate::context::Context;
use crate::metadata::{Dependency, Metadata, Package};
use anyhow::{Result, ensure};
use std::collections::BTreeSet;

struct Row {
    krate: &'static str,
    uses: &'static [&'static str],
    /// Only the row is allowed, not what its crates may use.
    closed: bool,
}

const fn row(krate: &'static str, uses: &'static [&'static str]) -> Row {
    Row { krate, uses, closed: false }
}

const fn gateway(krate: &'static str) -> Row {
    Row { krate, uses: &["braid-vfs", "braid-types"], closed: true }
}

/// A gateway of a network protocol does not use `vfs` (design: network gateways).
const fn network_gateway(krate: &'static str, uses: &'static [&'static str]) -> Row {
    Row { krate, uses, closed: true }
}

const TABLE: &[Row] = &[
    row("braid-types", &[]),
    row("braid-layout", &["braid-types"]),
    row("braid-wire", &["braid-types", "braid-layout"]),
    row("braid-net", &["braid-wire"]),
    row("braid-nfs-wire", &[]),
    row("braid-smb-wire", &[]),
    row("braid-store", &["braid-types"]),
    row("braid-iod", &["braid-net", "braid-layout", "braid-nfs-wire", "braid-store"]),
    row("braid-meta", &["braid-types", "braid-layout"]),
    row("braid-mds", &["braid-net", "braid-meta"]),
    row("braid-union", &["braid-types"]),
    row("braid-union-join", &["braid-union", "braid-store", "braid-layout", "braid-wire"]),
    row("braid-union-share", &["braid-union", "braid-share"]),
    row("braid-client", &["braid-net", "braid-layout"]),
    row("braid-vfs", &["braid-client"]),
    row("braid-share", &["braid-client"]),
    // The mount of a union has no client (docs/adr/0044).
    Row { krate: "braid-fuse", uses: &["braid-vfs", "braid-types", "braid-union"], closed: true },
    network_gateway("braid-nfs", &["braid-share", "braid-nfs-wire"]),
    network_gateway("braid-smb", &["braid-share", "braid-smb-wire"]),
    gateway("braid-http"),
    row("braid-gss", &["braid-nfs-wire"]),
    row("braid-capi", &["braid-client"]),
    row("braid-mpiio", &["braid-client", "braid-capi"]),
    row("braid-python", &["braid-client", "braid-capi"]),
];

/// Tools that users run, and the crate that is for tests and developers only.
const FOR_USERS: &[&str] = &["braid-cli", "braid-bench-user"];
const FOR_DEVELOPERS: &str = "braid-testbed";

pub fn check(context: &Context) -> Result<()> {
    let problems = problems(&context.metadata);
    ensure!(problems.is_empty(), "dependencies that are not allowed:\n{}", problems.join("\n"));
    Ok(())
}

fn problems(metadata: &Metadata) -> Vec<String> {
    let ours: BTreeSet<&str> = metadata.members().map(|package| package.name.as_str()).collect();
    metadata.members().flat_map(|package| of_package(metadata, &ours, package)).collect()
}

fn of_package(metadata: &Metadata, ours: &BTreeSet<&str>, package: &Package) -> Vec<String> {
    if shelf(package) == "tools" {
        let mut own = package.dependencies.iter();
        let contains = FOR_USERS.contains(&package.name.as_str())
            && own.any(|used| used.name == FOR_DEVELOPERS && used.kind.as_deref() != Some("dev"));
        return contains
            .then(|| format!("{} -> {FOR_DEVELOPERS}", package.name))
            .into_iter()
            .collect();
    }
    let Some(allowed) = allowed(&package.name) else {
        return vec![format!(
            "{}: not in the table of parts (checks/dependency_arrows.rs)",
            package.name
        )];
    };
    let own =
        package.dependencies.iter().filter(|dependency| ours.contains(dependency.name.as_str()));
    own.filter(|dependency| !may(metadata, package, dependency, &allowed))
        .map(|dependency| format!("{} -> {}", package.name, dependency.name))
        .collect()
}

fn may(
    metadata: &Metadata,
    package: &Package,
    dependency: &Dependency,
    allowed: &BTreeSet<&str>,
) -> bool {
    match dependency.kind.as_deref() {
        Some("dev") => shelf(package) != "core" || shelf_of(metadata, &dependency.name) != "server",
        _ => allowed.contains(dependency.name.as_str()),
    }
}

fn allowed(krate: &str) -> Option<BTreeSet<&'static str>> {
    let row = TABLE.iter().find(|row| row.krate == krate)?;
    let mut all: BTreeSet<_> = row.uses.iter().copied().collect();
    if !row.closed {
        all.extend(row.uses.iter().filter_map(|used| allowed(used)).flatten());
    }
    Some(all)
}

/// `crates/SHELF/name/Cargo.toml`.
fn shelf(package: &Package) -> &str {
    let dir = package.manifest_path.ancestors().nth(2).and_then(|dir| dir.file_name());
    dir.and_then(|name| name.to_str()).unwrap_or_default()
}

fn shelf_of<'m>(metadata: &'m Metadata, name: &str) -> &'m str {
    metadata.members().find(|package| package.name == name).map_or("", shelf)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace from lines `shelf/crate -> used crates, ~dev-used crates`.
    fn workspace(lines: &[&str]) -> Metadata {
        let packages: Vec<Package> = lines.iter().map(|line| package(line)).collect();
        let workspace_members = packages.iter().map(|package| package.id.clone()).collect();
        Metadata {
            packages,
            workspace_members,
            workspace_root: "/w".into(),
            target_directory: "/w/target".into(),
        }
    }

    fn package(line: &str) -> Package {
        let (place, uses) = line.split_once(" ->").unwrap();
        let name = place.split_once('/').unwrap().1.to_owned();
        let dependencies = uses.split_whitespace().map(dependency).collect();
        let manifest_path = format!("/w/crates/{place}/Cargo.toml").into();
        Package { id: name.clone(), name, manifest_path, dependencies, targets: Vec::new() }
    }

    fn dependency(word: &str) -> Dependency {
        let kind = word.starts_with('~').then(|| "dev".to_owned());
        Dependency { name: word.trim_start_matches('~').to_owned(), kind }
    }

    #[test]
    fn arrows_up_the_list_are_allowed_also_over_a_step_between() {
        let lines = [
            "core/braid-types ->",
            "core/braid-wire -> braid-types",
            "server/braid-iod -> braid-wire braid-types",
        ];
        assert_eq!(problems(&workspace(&lines)), [""; 0]);
    }

    #[test]
    fn arrows_down_or_across_are_named() {
        let lines = [
            "core/braid-net -> braid-client",
            "client/braid-client -> braid-store",
            "server/braid-store ->",
        ];
        assert_eq!(
            problems(&workspace(&lines)),
            ["braid-net -> braid-client", "braid-client -> braid-store"]
        );
    }

    #[test]
    fn a_gateway_reaches_daemons_only_through_vfs() {
        let lines = [
            "gateway/braid-fuse -> braid-vfs braid-client",
            "client/braid-client ->",
            "client/braid-vfs -> braid-client",
        ];
        assert_eq!(problems(&workspace(&lines)), ["braid-fuse -> braid-client"]);
    }

    #[test]
    fn tests_of_core_do_without_a_server_and_tests_of_others_may_use_anything() {
        let lines = [
            "core/braid-wire -> ~braid-iod",
            "server/braid-iod -> ~braid-client",
            "client/braid-client -> ~braid-iod",
        ];
        assert_eq!(problems(&workspace(&lines)), ["braid-wire -> braid-iod"]);
    }

    #[test]
    fn what_users_run_has_testbed_only_in_its_tests() {
        let lines = [
            "tools/braid-testbed ->",
            "tools/xtask -> braid-testbed",
            "tools/braid-bench-user -> ~braid-testbed",
            "tools/braid-cli -> braid-testbed",
        ];
        assert_eq!(problems(&workspace(&lines)), ["braid-cli -> braid-testbed"]);
    }

    #[test]
    fn only_tools_use_tools_and_a_crate_outside_the_table_is_named() {
        let lines = [
            "tools/xtask -> braid-sim",
            "tools/braid-sim -> braid-types",
            "core/braid-types -> braid-sim",
            "core/new ->",
        ];
        let found = problems(&workspace(&lines));
        assert_eq!(
            found,
            [
                "braid-types -> braid-sim",
                "new: not in the table of parts (checks/dependency_arrows.rs)"
            ]
        );
    }
}
