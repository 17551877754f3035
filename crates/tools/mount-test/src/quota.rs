//! A directory with a quota, through two mounts: `df` shows it, both mounts together are limited,
//! and space of removed files can be used again.

mod owners;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;

use crate::{cases::Outcome, stage::TestCluster};

pub use owners::{group, user};

const MIB: u64 = 1 << 20;
/// The limit of the directory, the user, the group; the same as an argument of the command.
const LIMIT: u64 = 32 * MIB;
const LIMIT_WORD: &str = "32M";
/// The growth grant of each mount near such a limit: a share of what is left, from the first file
/// on.
const AHEAD: u64 = MIB;
/// Maximum time until the metadata server knows the size of a closed file.
const HEARD_MAX: Duration = Duration::from_secs(30);

/// The case.
pub fn directory(stage: &TestCluster) -> Result<Outcome> {
    let dirs = stage.dirs("quota")?;
    let (here, there) = (&dirs[0], &dirs[dirs.len() - 1]);
    let before = File::create(here.join("before"))?;
    (&before).write_all(&[1; 4096]).and_then(|()| before.sync_all())?;
    drop(before);
    stage
        .cluster
        .administer(["quota", "set", "--dir", "/quota", "--bytes", LIMIT_WORD, "--inodes", "8"])?;
    let room = rustix::fs::statvfs(here)?;
    let (total, free) = (room.f_blocks * room.f_frsize, room.f_bfree * room.f_frsize);
    ensure!(
        (total, free, room.f_files) == (LIMIT, LIMIT - 4096, 8),
        "df: {total} bytes, {free} free, {} files",
        room.f_files
    );

    let (mine, theirs) =
        (fill(&here.join("mine"), LIMIT / 2)?, fill(&there.join("theirs"), LIMIT)?);
    let all = mine + theirs + 4096;
    ensure!(
        (LIMIT - MIB..=LIMIT + 2 * AHEAD).contains(&all),
        "{mine} and {theirs} bytes of {LIMIT}"
    );
    refused(
        File::create(here.join("more")).and_then(|mut file| file.write_all(&[1; MIB as usize])),
    )?;
    OpenOptions::new()
        .write(true)
        .open(there.join("mine"))?
        .write_all_at(&[2; 4096], 0)
        .context("read the existing file")?;
    refused(OpenOptions::new().write(true).open(here.join("mine"))?.set_len(2 * LIMIT))?;

    refused((0..10).try_for_each(|n| File::create(there.join(format!("inode{n}"))).map(drop)))?;
    crosses(fs::rename(here.join("before"), stage.mounts[0].point().join("outside")))?;

    fs::remove_file(there.join("theirs"))?;
    // The metadata server collects the sizes of closed files a moment later.
    let (started, path) = (Instant::now(), here.join("more"));
    while let Err(error) =
        OpenOptions::new().write(true).open(&path)?.write_all_at(&[3; MIB as usize], 0)
    {
        ensure!(
            is(&error, Errno::DQUOT) && started.elapsed() < HEARD_MAX,
            "after the removal: {error}"
        );
    }
    stage.cluster.administer(["quota", "remove", "--dir", "/quota"])?;
    fill(&here.join("mine"), LIMIT).and_then(|bytes| match bytes {
        LIMIT => Ok(()),
        bytes => bail!("{bytes} bytes without a quota"),
    })?;
    Ok(Outcome::Passed(format!("{} KiB over the limit", all.saturating_sub(LIMIT) / 1024)))
}

/// Writes up to `bytes` of a file from its start; returns how many the quota allowed.
fn fill(path: &Path, bytes: u64) -> Result<u64> {
    let file = OpenOptions::new().create(true).write(true).truncate(false).open(path)?;
    let block = vec![7; 256 * 1024];
    let mut done = 0;
    while done < bytes {
        match file.write_all_at(&block, done) {
            Ok(()) => done += block.len() as u64,
            Err(error) if is(&error, Errno::DQUOT) => break,
            Err(error) => return Err(error).context(path.display().to_string()),
        }
    }
    Ok(done)
}

fn refused(outcome: io::Result<()>) -> Result<()> {
    match outcome {
        Err(error) if is(&error, Errno::DQUOT) => Ok(()),
        other => bail!("EDQUOT is expected, not {other:?}"),
    }
}

fn crosses(outcome: io::Result<()>) -> Result<()> {
    match outcome {
        Err(error) if is(&error, Errno::XDEV) => Ok(()),
        other => bail!("EXDEV is expected, not {other:?}"),
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}
