//! The host of one I/O daemon loses its power while a mount has files open whose bytes were only in
//! its memory.

use std::{
    fs::{File, OpenOptions},
    io::{Error, Result as IoResult},
    os::{fd::IntoRawFd, unix::fs::FileExt},
    path::Path,
};

use anyhow::{Context, Result, ensure};
use braid_testbed::cluster::Victim;

use crate::{
    cases::Outcome,
    scratch_cluster::ScratchCluster,
    stage::{IODS, TestCluster},
};

/// A part on each daemon, and one more: the default stripes are of 1 MiB.
const BYTES: usize = (IODS + 1) << 20;
/// The daemon that loses its power.
const IOD: usize = 1;

/// The files at the time of the loss.
struct Open {
    /// Two open file descriptions of one file, which both wrote.
    first: File,
    second: File,
    /// Two descriptors of one description.
    closed: File,
    duplicate: File,
    again: File,
    synced: File,
    reader: File,
}

impl Open {
    fn write(dir: &Path) -> Result<Self> {
        let (first, second) = (open(dir, "twice")?, open(dir, "twice")?);
        fill(&first, 1)?;
        fill(&second, 2)?;
        let closed = open(dir, "closed")?;
        fill(&closed, 3)?;
        let duplicate = closed.try_clone()?;
        let again = open(dir, "again")?;
        fill(&again, 4)?;
        let synced = open(dir, "synced")?;
        fill(&synced, 5)?;
        synced.sync_all().context("syncing")?;
        let reader = File::open(dir.join("twice"))?;
        Ok(Self { first, second, closed, duplicate, again, synced, reader })
    }
}

pub(super) fn reported(yard: &ScratchCluster) -> Result<Outcome> {
    let mut stage = match yard.on_disks(1)? {
        Ok(stage) => stage,
        Err(skipped) => return Ok(skipped),
    };
    let dir = stage.dirs("lost")?.remove(0);
    let Open { first, second, closed, duplicate, again, synced, reader } = Open::write(&dir)?;
    stage.power_off_iod(IOD)?;
    lost("fsync of the first description", first.sync_all())?;
    ok("fsync of it again", first.sync_all())?;
    ok("close of it", close(first))?;
    lost("fdatasync of the second description", second.sync_data())?;
    ok("fsync of it", second.sync_all())?;
    ok("close of it", close(second))?;
    lost("close of one descriptor of an unsynced file", close(duplicate))?;
    ok("close of the other one", close(closed))?;
    ok("fsync by a reader", reader.sync_all())?;
    ok("close of it", close(reader))?;
    ok("fsync of a file synced before", synced.sync_all())?;
    ok("close of it", close(synced))?;
    written_again(&mut stage, &dir, &again)?;
    ok("close of a file written again", close(again))?;
    holds(&dir, "synced", 5)?;
    stage.check()?;
    Ok(Outcome::Passed(format!("{} MiB in each of 4 files", BYTES >> 20)))
}

/// After the error the program writes its bytes again; then they are permanent.
fn written_again(stage: &mut TestCluster, dir: &Path, again: &File) -> Result<()> {
    fill(again, 6)?;
    lost("fsync after writes before and after the loss", again.sync_all())?;
    fill(again, 7)?;
    ok("fsync of bytes written again", again.sync_all())?;
    stage.power_off_iod(IOD)?;
    ok("fsync with nothing left to lose", again.sync_all())?;
    holds(dir, "again", 7)
}

pub(super) fn nothing_lost(yard: &ScratchCluster) -> Result<Outcome> {
    let mut stage = TestCluster::start(&yard.braid, &yard.dir, 1)?;
    let dir = stage.dirs("kept")?.remove(0);
    let Open { first, second, closed, duplicate, again, synced, reader } = Open::write(&dir)?;
    stage.cluster.kill(Victim::Iod(IOD));
    stage.cluster.restart(Victim::Iod(IOD))?;
    for (at, file) in [&first, &again, &synced, &reader].into_iter().enumerate() {
        ok("fsync after a daemon was killed", file.sync_all())
            .with_context(|| format!("file {at}"))?;
    }
    for (at, file) in
        [first, second, closed, duplicate, again, synced, reader].into_iter().enumerate()
    {
        ok("close after a daemon was killed", close(file)).with_context(|| format!("file {at}"))?;
    }
    for (name, number) in [("twice", 2), ("closed", 3), ("again", 4), ("synced", 5)] {
        holds(&dir, name, number)?;
    }
    stage.check()?;
    Outcome::passed()
}

fn open(dir: &Path, name: &str) -> Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(dir.join(name));
    file.with_context(|| format!("opening {name}"))
}

fn fill(file: &File, number: u8) -> Result<()> {
    file.write_all_at(&vec![number; BYTES], 0).context("writing")
}

fn holds(dir: &Path, name: &str, number: u8) -> Result<()> {
    let found = std::fs::read(dir.join(name)).with_context(|| format!("reading {name}"))?;
    let other = found.iter().position(|byte| *byte != number);
    ensure!(
        found.len() == BYTES && other.is_none(),
        "{name}: {} bytes, not {number} at {other:?}",
        found.len()
    );
    Ok(())
}

/// `close` with its result, which `File` ignores.
fn close(file: File) -> IoResult<()> {
    // SAFETY: only this file had the descriptor, and it is not used again.
    let done = unsafe { libc::close(file.into_raw_fd()) };
    if done == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

fn ok(what: &str, outcome: IoResult<()>) -> Result<()> {
    outcome.with_context(|| format!("{what} should succeed"))
}

fn lost(what: &str, outcome: IoResult<()>) -> Result<()> {
    let code = outcome.as_ref().err().and_then(Error::raw_os_error);
    ensure!(code == Some(libc::EIO), "{what} should report the loss (EIO): {outcome:?}");
    Ok(())
}
