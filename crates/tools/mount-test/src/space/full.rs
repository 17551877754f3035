//! Disks that fill up: the right error, no loss of acknowledged data, and normal operation when
//! there is space again.

use std::{
    fs::{self, File, OpenOptions},
    io::{Error, ErrorKind, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use braid_testbed::wait::until;
use braid_types::Random;

use crate::{cases::Outcome, scratch_cluster::ScratchCluster};

/// Files that are synced in between, and the size of each write to them, in bytes; small files then
/// use the remaining space.
const LARGE: u64 = 7 << 20;
const CALL: usize = 1 << 20;
const SMALL: usize = 5_000;
/// More than the disks can store: the loop must end before.
const FILES_MAX: u64 = 100_000;
/// Consecutive refusals until the disks count as full: they do not fill up at the same moment.
pub(super) const REFUSED_MIN: u32 = 8;
/// Maximum time of a call (I8), and until the space of removed files is free.
const CALL_MAX: Duration = Duration::from_secs(45);
pub(super) const FREED_MAX: Duration = Duration::from_secs(60);

/// A file, and its acknowledged bytes: written, and synced.
struct StoredFiles {
    name: String,
    seed: u64,
    written: u64,
    synced: u64,
}

pub(super) fn full(yard: &ScratchCluster) -> Result<Outcome> {
    let mut stage = match yard.on_disks(2)? {
        Ok(stage) => stage,
        Err(skipped) => return Ok(skipped),
    };
    let dirs = stage.dirs("full")?;
    let mut filling =
        FillingRun { dirs: dirs.clone(), seed: yard.seed, kept: vec![], refused: vec![] };
    filling.fill("large", LARGE as usize)?;
    filling.fill("small", SMALL)?;
    filling.judge()?;
    filling.goes_on_while_full()?;
    let freed = filling.free_and_write()?;
    filling.judge()?;
    stage.check()?;
    let (files, refused) = (filling.kept.len(), filling.refused.join(", "));
    Ok(Outcome::Passed(format!(
        "{files} files, then ENOSPC at {refused}; space again after {:.1} s",
        freed.as_secs_f64()
    )))
}

struct FillingRun {
    dirs: Vec<PathBuf>,
    seed: u64,
    kept: Vec<StoredFiles>,
    /// The calls that failed with ENOSPC.
    refused: Vec<String>,
}

impl FillingRun {
    /// Writes files of this size through alternating mounts, until there is no space through
    /// either.
    fn fill(&mut self, kind: &str, bytes: usize) -> Result<()> {
        let mut in_a_row = 0;
        for number in 0.. {
            ensure!(number < FILES_MAX, "{number} files, but the disks are not full");
            let refused = self.write(&format!("{kind}{number}"), bytes)?;
            in_a_row = if refused { in_a_row + 1 } else { 0 };
            if in_a_row == REFUSED_MIN {
                break;
            }
        }
        Ok(())
    }

    /// Writes and syncs one file; true when there was no space for it.
    fn write(&mut self, name: &str, bytes: usize) -> Result<bool> {
        let at = self.kept.len();
        let path = self.dirs[at % self.dirs.len()].join(name);
        let mut kept = StoredFiles {
            name: name.to_owned(),
            seed: self.seed ^ at as u64,
            written: 0,
            synced: 0,
        };
        let outcome = write(&path, bytes, &mut kept);
        self.kept.push(kept);
        let Err((call, error)) = outcome else { return Ok(false) };
        ensure!(
            error.kind() == ErrorKind::StorageFull,
            "{call} of {name}: {error}, where the disk is full"
        );
        if !self.refused.contains(&call) {
            self.refused.push(call);
        }
        Ok(true)
    }

    /// Every mount reads what was written, and the sizes are correct.
    fn judge(&self) -> Result<()> {
        for (kept, dir) in
            self.kept.iter().flat_map(|kept| self.dirs.iter().map(move |dir| (kept, dir)))
        {
            let path = dir.join(&kept.name);
            let found = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            let (length, least) = (found.len() as u64, kept.written);
            ensure!(
                length >= least,
                "{} has {length} bytes of {least}, {} synced",
                path.display(),
                kept.synced
            );
            let wanted = bytes(kept.seed, least as usize);
            let wrong = found.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
            ensure!(
                wrong.is_none(),
                "{}: byte {wrong:?} of {least}, {} synced",
                path.display(),
                kept.synced
            );
        }
        Ok(())
    }

    /// Calls that need no space succeed as before.
    fn goes_on_while_full(&mut self) -> Result<()> {
        let kept =
            self.kept.iter_mut().find(|kept| kept.synced > 0).context("nothing was synced")?;
        let path = self.dirs[1].join(&kept.name);
        let file = OpenOptions::new().write(true).open(&path)?;
        kept.seed ^= 0xffff;
        file.write_all_at(&bytes(kept.seed, kept.synced as usize), 0)
            .context("overwrite existing bytes")?;
        file.sync_all().context("sync the overwritten bytes")?;
        let moved = format!("{}.moved", kept.name);
        fs::rename(&path, self.dirs[1].join(&moved)).context("renaming")?;
        kept.name = moved;
        fs::create_dir(self.dirs[0].join("made while full")).context("make a directory")
    }

    /// Removes every second file; then there is space, and until then the same error.
    fn free_and_write(&mut self) -> Result<Duration> {
        let mut number = 0;
        for kept in &self.kept {
            number += 1;
            if number % 2 == 0 {
                fs::remove_file(self.dirs[0].join(&kept.name))
                    .with_context(|| format!("removing {}", kept.name))?;
            }
        }
        let mut number = 0;
        self.kept.retain(|_| {
            number += 1;
            number % 2 == 1
        });
        let mut attempts = 0;
        until("there is space again", FREED_MAX, || {
            attempts += 1;
            Ok(!self.write(&format!("again{attempts}"), LARGE as usize)?)
        })
    }
}

/// The content of a file with this seed.
pub(super) fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    // No byte is zero: a hole in its place would show.
    (0..count.div_ceil(8))
        .flat_map(|_| (random.next_u64() | 0x0101_0101_0101_0101).to_le_bytes())
        .take(count)
        .collect()
}

/// The call that failed, and its error.
pub(super) type Refused = (String, Error);

fn write(path: &Path, count: usize, kept: &mut StoredFiles) -> Result<(), Refused> {
    let wanted = bytes(kept.seed, count);
    let mut file = in_time("create", || File::create_new(path))?;
    for part in wanted.chunks(CALL) {
        let mut left = part;
        while !left.is_empty() {
            let written = in_time("write", || file.write(left))?;
            kept.written += written as u64;
            left = &left[written..];
        }
    }
    in_time("fsync", || file.sync_all())?;
    kept.synced = kept.written;
    Ok(())
}

/// A call that takes too long is an error.
pub(super) fn in_time<T>(
    call: &str,
    run: impl FnOnce() -> std::io::Result<T>,
) -> Result<T, Refused> {
    let started = Instant::now();
    let outcome = run();
    if started.elapsed() > CALL_MAX {
        return Err((
            call.to_owned(),
            Error::other(format!("it took {} s", started.elapsed().as_secs())),
        ));
    }
    outcome.map_err(|error| (call.to_owned(), error))
}
