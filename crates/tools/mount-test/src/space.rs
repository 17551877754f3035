//! Free space: the numbers of `statvfs`, and calls on full disks.

mod full;
mod metadata;

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use braid_testbed::wait::until;
use rustix::fs::{StatVfs, statvfs};

use crate::{
    cases::Outcome,
    scratch_cluster::{ScratchCase, ScratchCluster},
    stage::TestCluster,
};

pub const CASES: &[ScratchCase] = &[
    ScratchCase { name: "space::statvfs_and_df_report_the_free_space", run: reported },
    ScratchCase { name: "space::a_full_disk_is_enospc_and_keeps_what_was_synced", run: full::full },
    ScratchCase {
        name: "space::a_full_disk_of_the_metadata_server_is_enospc_and_keeps_every_name",
        run: metadata::full,
    },
];

/// The unit of space, and the longest name, in bytes.
const UNIT: u64 = 4096;
const NAME_MAX: u64 = 255;
/// Bytes that are written and removed.
const WRITTEN: u64 = 24 << 20;
/// Maximum overhead of a file: names, records and the blocks with the positions of data.
const BESIDE_MAX: u64 = 1 << 20;
/// Maximum age of the numbers: daemons report their space once a second (`HEARTBEAT_MS`), and
/// removed objects are deleted in the background.
const OLD_MAX: Duration = Duration::from_secs(30);

fn reported(yard: &ScratchCluster) -> Result<Outcome> {
    let stage = match yard.on_disks(2)? {
        Ok(stage) => stage,
        Err(skipped) => return Ok(skipped),
    };
    let dirs = stage.dirs("room")?;
    dirs.iter().try_for_each(|dir| is_sound(dir, &stage))?;
    let before = available(&dirs[0])?;
    let mut file = File::create(dirs[0].join("large"))?;
    (0..WRITTEN >> 20).try_for_each(|_| file.write_all(&[1; 1 << 20]))?;
    file.sync_all()?;
    let mut took = vec![];
    for dir in &dirs {
        let less = || Ok(available(dir)? + WRITTEN <= before);
        took.push(until("free space is less by the written bytes", OLD_MAX, less)?);
        until("free space is that of the disks", OLD_MAX, || {
            Ok(available(dir)? == of_disks(&stage)?.1)
        })?;
    }
    drop(file);
    fs::remove_file(dirs[1].join("large"))?;
    for dir in &dirs {
        let back = || Ok(available(dir)? + BESIDE_MAX >= before);
        took.push(until("the space of a removed file is free again", OLD_MAX, back)?);
    }
    let words =
        took.iter().map(|took| format!("{:.1}", took.as_secs_f64())).collect::<Vec<_>>().join(", ");
    Ok(Outcome::Passed(format!("known after {words} s")))
}

/// Constant values: units, limits, the sum of the disks; and the output of `df`.
fn is_sound(dir: &Path, stage: &TestCluster) -> Result<()> {
    until("every daemon has reported its free space", OLD_MAX, || {
        Ok(total(&statvfs(dir)?) == of_disks(stage)?.0)
    })?;
    let room = statvfs(dir)?;
    ensure!(
        (room.f_frsize, room.f_namemax) == (UNIT, NAME_MAX),
        "unit {}, name {}",
        room.f_frsize,
        room.f_namemax
    );
    // Many programs compute with this one.
    ensure!(room.f_bsize == room.f_frsize, "f_bsize {}, f_frsize {}", room.f_bsize, room.f_frsize);
    ensure!(
        room.f_bavail <= room.f_bfree && room.f_bfree <= room.f_blocks,
        "{} free",
        room.f_bfree
    );
    ensure!(room.f_ffree > 0 && room.f_ffree <= room.f_files, "{} files free", room.f_ffree);
    let output = Command::new("df")
        .args(["--block-size=4096", "--output=size,used,avail"])
        .arg(dir)
        .output()?;
    let said = String::from_utf8(output.stdout)?;
    let numbers = said.lines().nth(1).context("df has no second line")?.split_whitespace();
    let numbers: Vec<u64> =
        numbers.map(str::parse).collect::<Result<_, _>>().with_context(|| said.clone())?;
    // Space that the disks reserve for root is neither used nor available.
    let sum = numbers[1] + numbers[2] + (room.f_bfree - room.f_bavail);
    ensure!(
        output.status.success()
            && numbers.len() == 3
            && numbers[0] == room.f_blocks
            && sum == numbers[0],
        "{said}"
    );
    Ok(())
}

fn total(room: &StatVfs) -> u64 {
    room.f_blocks * room.f_frsize
}

fn available(dir: &Path) -> Result<u64> {
    let room = statvfs(dir)?;
    Ok(room.f_bavail * room.f_frsize)
}

/// Total and available space of the I/O daemons' disks together.
fn of_disks(stage: &TestCluster) -> Result<(u64, u64)> {
    stage.data_disks().iter().try_fold((0, 0), |sum, disk| {
        let room = statvfs(disk.point())?;
        Ok((sum.0 + total(&room), sum.1 + room.f_bavail * room.f_frsize))
    })
}
