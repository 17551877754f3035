//! One sync of the mount point covers everything: closed, open and renamed files, and buffered
//! bytes.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::{FileExt, symlink},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use braid_testbed::cluster::Victim;

use crate::{cases::Outcome, scratch_cluster::ScratchCluster, stage::TestCluster};

/// Small files, a directory of them, and a few files on all daemons.
const SMALL: usize = 100;
const LARGE: usize = 4;
const LARGE_BYTES: usize = 700_000;
const LAYOUT: &str = "stripe-size=65536 iod-count=4";
/// Number of losses of power, each after all of these.
const LOSSES: u8 = 2;
const LOSSES_FULL: u8 = 30;
/// The daemon that loses its power alone.
const IOD: usize = 2;

pub(super) fn there(yard: &ScratchCluster) -> Result<Outcome> {
    let mut stage = match yard.on_disks(1)? {
        Ok(stage) => stage,
        Err(skipped) => return Ok(skipped),
    };
    let point = stage.mounts[0].point().to_owned();
    rustix::fs::setxattr(
        &point,
        "user.braid.layout",
        LAYOUT.as_bytes(),
        rustix::fs::XattrFlags::empty(),
    )?;
    let losses = if yard.full { LOSSES_FULL } else { LOSSES };
    for number in 1..=losses {
        let place = point.join(number.to_string());
        let open = write(&place, number).context("writing")?;
        sync(yard, &point, number).context("sync the mount point")?;
        stage.power_off()?;
        drop(open);
        judge(&place, number).with_context(|| format!("after loss {number}"))?;
    }
    stage.check()?;
    Ok(Outcome::Passed(format!("{losses} losses, {} files before each", SMALL + LARGE + 2)))
}

/// Writes everything; returns a handle that is still open when the power fails, with buffered
/// bytes.
fn write(place: &Path, number: u8) -> Result<File> {
    fs::create_dir_all(place.join("small"))?;
    for file in 0..SMALL {
        fs::write(place.join(format!("small/{file}")), [number; 3000])?;
    }
    for file in 0..LARGE {
        fs::write(place.join(format!("large{file}")), vec![number; LARGE_BYTES])?;
    }
    fs::rename(place.join("small/0"), place.join("renamed"))?;
    fs::remove_file(place.join("small/1"))?;
    fs::hard_link(place.join("small/2"), place.join("linked"))?;
    symlink("renamed", place.join("link"))?;
    let cut = File::options().write(true).open(place.join("large0"))?;
    cut.set_len(100_000)?;
    let mut open = File::create_new(place.join("open"))?;
    (0..50).try_for_each(|_| open.write_all(&[number; 100]))?;
    Ok(open)
}

/// As coreutils, a program and the command do it.
fn sync(yard: &ScratchCluster, point: &Path, number: u8) -> Result<()> {
    match number % 3 {
        0 => {
            let status = Command::new("sync").arg(point).status()?;
            ensure!(status.success(), "sync: {status}");
        }
        1 => File::open(point)?.sync_all()?,
        _ => yard
            .braid
            .run_successfully(["sync".as_ref(), point.join(number.to_string()).as_os_str()])?,
    }
    Ok(())
}

fn judge(place: &Path, number: u8) -> Result<()> {
    for file in (2..SMALL).map(|file| format!("small/{file}")).chain([
        "renamed".into(),
        "linked".into(),
        "link".into(),
    ]) {
        holds(place, &file, number, 3000)?;
    }
    ensure!(
        !place.join("small/1").exists() && !place.join("small/0").exists(),
        "a removed name is there again"
    );
    holds(place, "large0", number, 100_000)?;
    (1..LARGE).try_for_each(|file| holds(place, &format!("large{file}"), number, LARGE_BYTES))?;
    holds(place, "open", number, 5000)
}

fn holds(place: &Path, name: &str, number: u8, bytes: usize) -> Result<()> {
    let found = fs::read(place.join(name)).with_context(|| format!("reading {name}"))?;
    let other = found.iter().position(|byte| *byte != number);
    ensure!(
        found.len() == bytes && other.is_none(),
        "{name}: {} bytes, not {number} at {other:?}",
        found.len()
    );
    Ok(())
}

pub(super) fn reports_loss(yard: &ScratchCluster) -> Result<Outcome> {
    let mut stage = match yard.on_disks(1)? {
        Ok(stage) => stage,
        Err(skipped) => return Ok(skipped),
    };
    let dir = stage.dirs("lost")?.remove(0);
    rustix::fs::setxattr(
        &dir,
        "user.braid.layout",
        LAYOUT.as_bytes(),
        rustix::fs::XattrFlags::empty(),
    )?;
    let root = File::open(stage.mounts[0].point())?;
    closed(&dir, "killed")?;
    stage.cluster.kill(Victim::Iod(IOD));
    stage.cluster.restart(Victim::Iod(IOD))?;
    root.sync_all().context("a daemon that was only killed lost no data")?;
    closed(&dir, "lost")?;
    stage.power_off_iod(IOD)?;
    let outcome = root.sync_all();
    let code = outcome.as_ref().err().and_then(std::io::Error::raw_os_error);
    ensure!(code == Some(libc::EIO), "it should report the loss (EIO): {outcome:?}");
    root.sync_all().context("once")?;
    closed(&dir, "synced")?;
    root.sync_all().context("of what was written again")?;
    stage.power_off_iod(IOD)?;
    root.sync_all().context("with nothing left to lose")?;
    holds(&dir, "synced", 9, LARGE_BYTES)?;
    away(&mut stage, &root)?;
    stage.check()?;
    Outcome::passed()
}

/// A file on all daemons that no process has open.
fn closed(dir: &Path, name: &str) -> Result<()> {
    let file = File::create(dir.join(name))?;
    Ok(file.write_all_at(&[9; LARGE_BYTES], 0)?)
}

/// A sync fails while a daemon is down, and succeeds when it is back.
fn away(stage: &mut TestCluster, root: &File) -> Result<()> {
    stage.cluster.kill(Victim::Iod(IOD));
    let outcome = root.sync_all();
    stage.cluster.restart(Victim::Iod(IOD))?;
    ensure!(outcome.is_err(), "a sync without a daemon succeeded");
    root.sync_all().context("with the daemon back")
}
