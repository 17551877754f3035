//! What is measured: a directory of the plain file system, of a union, or of mergerfs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use braid_testbed::{cleanup::Cleanup, programs, shell::sh};

use super::stage::{Stage, shown};
use crate::{bench::Bench, daemons::release_binary};

pub const PLAIN: &str = "plain";
pub const UNION: &str = "union";
pub const NO_PASSTHROUGH: &str = "union_no_passthrough";
pub const MERGERFS: &str = "mergerfs";
pub const MERGERFS_PASSTHROUGH: &str = "mergerfs_passthrough";
pub const MERGERFS_LONG_CACHES: &str = "mergerfs_long_caches";

/// All of them.
pub const ALL: &[&str] =
    &[PLAIN, UNION, NO_PASSTHROUGH, MERGERFS, MERGERFS_PASSTHROUGH, MERGERFS_LONG_CACHES];
/// Long caches of names do not change the transfer of bytes.
pub const OF_DATA: &[&str] = &[PLAIN, UNION, NO_PASSTHROUGH, MERGERFS, MERGERFS_PASSTHROUGH];

/// The images are smaller than the space that both programs leave free by default.
const MERGERFS_DEFAULT: &str = "minfreespace=0";
const MERGERFS_PASSES: &str = "minfreespace=0,passthrough.io=rw";
const MERGERFS_CACHES: &str = "minfreespace=0,passthrough.io=rw,cache.attr=120,cache.entry=120,\
    cache.negative-entry=120,cache.readdir=true,cache.symlinks=true,cache.statfs=120";

const MOUNT_UNION: &str = r#"
braid=$1; meta=$2; point=$3; option=$4; shift 4
mkdir -p "$point"
"$braid" union create bench --meta "$meta" --min-free 0 --placement random-by-free "$@"
"$braid" union up $option "$meta" "$point"
"#;
const MOUNT_MERGERFS: &str = r#"mkdir -p "$3"; "$1" -o "$2" "$4" "$3""#;
const UNMOUNT: &str = r#"
for try in $(seq 50); do umount "$1" && break; mountpoint -q "$1" || break; sleep 0.1; done
umount -l "$1"
"#;

/// One of them.
pub struct Subject {
    name: &'static str,
    dir: PathBuf,
    _unmount: Option<Cleanup>,
}

impl Subject {
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Where its files are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Starts the wanted subjects on new directories of the stage's disks.
pub fn start(bench: &Bench, stage: &Stage, wanted: &[&'static str]) -> Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    for name in wanted {
        let mergerfs = match name.starts_with(MERGERFS) {
            false => None,
            true => match find_mergerfs(bench) {
                Ok(found) => Some(found),
                Err(error) => {
                    bench.note(format!("left out: {error:#}"));
                    continue;
                }
            },
        };
        let branches = stage.branches(name)?;
        let dir = match *name {
            PLAIN => PathBuf::from(&branches[0]),
            _ => stage.dir().join(format!("mount_{name}")),
        };
        let unmount = (*name != PLAIN).then(|| Cleanup::new(UNMOUNT, &[&shown(&dir)]));
        let unmount = unmount.transpose()?;
        match (*name, &mergerfs) {
            (PLAIN, _) => {}
            (MERGERFS, Some(program)) => mount(program, MERGERFS_DEFAULT, &branches, &dir)?,
            (MERGERFS_PASSTHROUGH, Some(program)) => {
                mount(program, MERGERFS_PASSES, &branches, &dir)?;
            }
            (_, Some(program)) => mount(program, MERGERFS_CACHES, &branches, &dir)?,
            (NO_PASSTHROUGH, None) => union(bench, stage, &["--no-passthrough"], &branches, &dir)?,
            (_, None) => union(bench, stage, &[], &branches, &dir)?,
        }
        subjects.push(Subject { name, dir, _unmount: unmount });
    }
    Ok(subjects)
}

/// Creates a union of the branches and mounts it.
pub fn union(
    bench: &Bench,
    stage: &Stage,
    options: &[&str],
    branches: &[String],
    point: &Path,
) -> Result<()> {
    let braid = bench.braid().map_or_else(release_binary, |given| Ok(given.to_path_buf()))?;
    let name = point.file_name().unwrap_or_default().to_string_lossy();
    let meta = shown(&stage.dir().join(format!("meta_{name}")));
    let (braid, point, options) = (shown(&braid), shown(point), options.join(" "));
    let mut arguments = vec![&*braid, &*meta, &*point, &*options];
    arguments.extend(branches.iter().map(String::as_str));
    sh(MOUNT_UNION, &arguments).map(drop).context("mounting a union")
}

/// Mounts mergerfs.
fn mount(program: &Path, options: &str, branches: &[String], point: &Path) -> Result<()> {
    let branches = branches.join(":");
    sh(MOUNT_MERGERFS, &[&shown(program), options, &shown(point), &branches])
        .map(drop)
        .context("mounting mergerfs")
}

fn find_mergerfs(bench: &Bench) -> Result<PathBuf> {
    let found = bench.mergerfs.clone().or_else(|| programs::find("mergerfs"));
    let found = found.context("mergerfs is not in the search path; try: --mergerfs FILE")?;
    let version = sh("\"$1\" --version | head -1", &[&shown(&found)])?;
    bench.note(format!("beside {}", version.trim()));
    Ok(found)
}
