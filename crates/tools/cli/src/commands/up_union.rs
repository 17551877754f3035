//! `braid up DIR --union DISK…`: a union to try, with its metadata in `DIR/union`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::{
    args::UpArgs,
    output::{Fault, Printer},
};

fn meta(dir: &Path) -> PathBuf {
    dir.join("union")
}

/// Whether `up` has made a union in the directory.
pub fn is_of(dir: &Path) -> bool {
    meta(dir).join("pool.toml").exists()
}

/// Only Linux has FUSE.
#[cfg(not(target_os = "linux"))]
pub fn up(_: &UpArgs, _: Printer) -> Result<ExitCode, Fault> {
    Err(Fault::usage("using a union", "it needs Linux").hint("braid up DIR"))
}

/// Only Linux has FUSE.
#[cfg(not(target_os = "linux"))]
pub fn down(_: &Path, _: Printer) -> Result<(), Fault> {
    Err(Fault::usage("using a union", "it needs Linux").hint("braid down DIR"))
}

/// Makes the pool, unless there is one of the same disks, and mounts it.
///
/// # Errors
/// The directory is that of a cluster, or of a union of other disks; a disk cannot be a branch; the
/// union cannot be mounted.
#[cfg(target_os = "linux")]
pub fn up(args: &UpArgs, out: Printer) -> Result<ExitCode, Fault> {
    use braid_union::Pool;

    use crate::commands::union::{
        self,
        linux::{branches, fault, shown},
    };
    let doing = || format!("starting a union in {}", args.dir.display());
    if args.dir.join("braid.toml").exists() {
        return Err(
            Fault::usage(doing(), "there is a cluster in this directory").hint("a new directory")
        );
    }
    let disks = branches(&args.union)?;
    let meta = meta(&args.dir);
    if is_of(&args.dir) {
        let pool = Pool::open(&meta).map_err(fault)?;
        if disks.len() != pool.config.branches.len()
            || disks.iter().any(|(disk, _)| pool.branch(disk).is_err())
        {
            return Err(Fault::usage(doing(), "the one that is there has other disks")
                .hint(format!("braid union add {} DISK, or a new directory", shown(&meta))));
        }
    } else {
        Pool::create(&meta, "union", &disks, None).map_err(fault)?;
    }
    let point = args.mount.clone().unwrap_or_else(|| args.dir.join("mnt"));
    std::fs::create_dir_all(&point)
        .map_err(|error| Fault::failed(format!("making {}", point.display()), error))?;
    union::mount(&meta, &point, args, out)
}

/// Unmounts it.
///
/// # Errors
/// A program uses it.
#[cfg(target_os = "linux")]
pub fn down(dir: &Path, out: Printer) -> Result<(), Fault> {
    let points = vec![dir.join("mnt")];
    crate::commands::mount::umount(&crate::args::UmountArgs { points, lazy: false }, out)
}
