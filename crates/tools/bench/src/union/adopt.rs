//! Disks with many files become a union.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use braid_testbed::{cleanup::Cleanup, shell::sh, stats::Summary};

use super::{
    stage::{DiskKind, Stage, shown},
    subject,
};
use crate::{bench::Bench, measure::Measure};

const DISKS: usize = 8;
/// The bar of issue 27.
const SECONDS_MAX: f64 = 60.0;
const FILES_A_DIRECTORY: u64 = 1000;

/// From disks with files to a complete listing through the mount.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let stage = Stage::mount(&bench.scratch, DiskKind::Ext4, DISKS)?;
    let files: u64 = bench.size(1_000_000, 16_000);
    eprintln!("bench: creating {files} files");
    stage
        .disks()
        .iter()
        .enumerate()
        .try_for_each(|(number, disk)| plant(disk, number as u64, files / DISKS as u64))?;
    let before = stage.disks().iter().map(|disk| digest(disk)).collect::<Result<Vec<_>>>()?;
    sh("sync; echo 2 > /proc/sys/vm/drop_caches", &[])?;
    let point = stage.dir().join("mount");
    let unmount = Cleanup::new("umount -l \"$1\"", &[&shown(&point)])?;
    let branches: Vec<String> = stage.disks().iter().map(|disk| shown(disk)).collect();
    let mounted = bench.take(|| subject::union(bench, &stage, &[], &branches, &point))?;
    let listed = bench.take(|| {
        let output = Command::new("find").arg(&point).args(["-type", "f"]).output();
        let output = output.context("running find")?.stdout;
        let found = output.iter().filter(|byte| **byte == b'\n').count() as u64;
        ensure!(found == files, "the union shows {found} of {files} files");
        Ok(())
    })?;
    drop(unmount);
    let after = stage.disks().iter().map(|disk| digest(disk)).collect::<Result<Vec<_>>>()?;
    let changed = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    let seconds = |value| Summary::once(value);
    let (mounted, listed) = (mounted.time.as_secs_f64(), listed.time.as_secs_f64());
    let of = format!("{files} files on {DISKS} disks, inodes not cached");
    Ok(vec![
        Measure::new("adopt.time", "s", seconds(mounted + listed)).at_most(SECONDS_MAX, of),
        Measure::new("adopt.mount", "s", seconds(mounted)),
        Measure::new("adopt.list", "s", seconds(listed)),
        Measure::new("adopt.changed", "disks", seconds(changed as f64))
            .at_most(0.0, "inodes, sizes and change times of all files"),
    ])
}

fn plant(disk: &Path, number: u64, files: u64) -> Result<()> {
    for at in 0..files {
        let dir = disk.join(format!("films/{}", at / FILES_A_DIRECTORY));
        if at % FILES_A_DIRECTORY == 0 {
            fs::create_dir_all(&dir)?;
        }
        File::create_new(dir.join(format!("film {number} {at}")))?;
    }
    Ok(())
}

/// Of all inodes below `films`: number, size and change time.
fn digest(disk: &Path) -> Result<u64> {
    let (mut sum, mut pending) = (0_u64, vec![disk.join("films")]);
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            let mut own = meta.ino();
            for part in [meta.size(), meta.ctime() as u64, meta.ctime_nsec() as u64] {
                own = own.wrapping_mul(0x0100_0000_01b3) ^ part;
            }
            sum = sum.wrapping_add(own.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            if meta.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    Ok(sum)
}
