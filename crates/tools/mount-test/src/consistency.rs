//! Mounts with a weaker consistency than POSIX: what their reads see, and that other mounts are not
//! affected.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::{
    append,
    cases::{Case, Outcome, TestDirs},
};

/// The mount options for the directories of a [`TestDirs`] of these cases, in this order.
pub const OPTIONS: [&str; 3] =
    ["consistency=posix", "consistency=close-to-open", "consistency=commit"];

const TURNS: u64 = 100;
const TURNS_FULL: u64 = 10_000;
/// Not a divisor of a page: files end within a page.
const GROWS_BY: usize = 777;

pub const CASES: &[Case] = &[
    Case { name: "consistency::an_open_sees_writes_closed_before_it", run: closed_before },
    Case {
        name: "consistency::a_posix_mount_sees_writes_of_a_weak_mount_immediately",
        run: posix_beside,
    },
    Case { name: "consistency::fsync_on_a_commit_mount_shows_commits_of_others", run: committed },
    Case { name: "consistency::o_direct_on_a_weak_mount_reads_current_data", run: direct },
    Case { name: "consistency::bytes_added_by_another_mount_are_never_zeros", run: grown },
    Case {
        name: "consistency::no_record_appended_by_weak_and_posix_mounts_is_torn_or_lost",
        run: append::appended,
    },
];

struct SameDir {
    posix: PathBuf,
    weak: [PathBuf; 2],
}

impl SameDir {
    fn of(ground: &TestDirs, name: &str) -> Result<Self> {
        let [posix, close_to_open, commit] = ground.dirs.as_slice() else {
            anyhow::bail!("three mounts are needed")
        };
        Ok(Self { posix: posix.join(name), weak: [close_to_open.join(name), commit.join(name)] })
    }
}

fn rewrite(path: &Path, word: u64) -> Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    Ok(file.write_all_at(&word.to_le_bytes(), 0)?)
}

fn word(file: &File) -> Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(u64::from_le_bytes(bytes))
}

fn opened(path: &Path) -> Result<File> {
    File::open(path).with_context(|| format!("opening {}", path.display()))
}

fn closed_before(ground: &TestDirs) -> Result<Outcome> {
    let places = SameDir::of(ground, "closed")?;
    let (turns, mut older) = (ground.size(TURNS, TURNS_FULL), 0);
    for turn in 1..=turns {
        rewrite(&places.posix, turn)?;
        for path in &places.weak {
            let file = opened(path)?;
            let found = word(&file)?;
            ensure!(
                found == turn,
                "{turn} was written and closed, but {} opened later reads {found}",
                path.display()
            );
        }
        let open = [opened(&places.weak[0])?, opened(&places.weak[1])?];
        // Fills the cache with pages that may stay.
        open.iter().try_for_each(|file| word(file).map(drop))?;
        rewrite(&places.posix, turn + 1)?;
        for file in &open {
            let found = word(file)?;
            ensure!(
                found == turn || found == turn + 1,
                "{turn}, then {} was written, but {found} is read",
                turn + 1
            );
            older += u64::from(found == turn);
        }
    }
    ensure!(older > 0, "every read saw every write: these mounts cache nothing");
    Ok(Outcome::Passed(format!(
        "{turns} turns; {older} reads of files open since before were older"
    )))
}

fn posix_beside(ground: &TestDirs) -> Result<Outcome> {
    let places = SameDir::of(ground, "beside")?;
    rewrite(&places.posix, 0)?;
    let reads = opened(&places.posix)?;
    let write = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
    let writes = [write(&places.weak[0])?, write(&places.weak[1])?];
    let turns = ground.size(TURNS, TURNS_FULL);
    for turn in 1..=turns {
        writes[turn as usize % 2].write_all_at(&turn.to_le_bytes(), 0)?;
        for file in [&reads, &writes[0], &writes[1]] {
            let found = word(file)?;
            ensure!(
                found == turn,
                "turn {turn}: {turn} was written on a weak mount, but {found} is read"
            );
        }
    }
    Ok(Outcome::Passed(format!("{turns} turns")))
}

fn committed(ground: &TestDirs) -> Result<Outcome> {
    let places = SameDir::of(ground, "committed")?;
    rewrite(&places.posix, 0)?;
    let (writes, reads) =
        (OpenOptions::new().write(true).open(&places.posix)?, opened(&places.weak[1])?);
    let turns = ground.size(TURNS, TURNS_FULL);
    for turn in 1..=turns {
        writes.write_all_at(&turn.to_le_bytes(), 0)?;
        writes.sync_all()?;
        reads.sync_all()?;
        let found = word(&reads)?;
        ensure!(found == turn, "{turn} was committed, but after fsync the reader has {found}");
    }
    Ok(Outcome::Passed(format!("{turns} turns")))
}

fn direct(ground: &TestDirs) -> Result<Outcome> {
    let places = SameDir::of(ground, "direct")?;
    rewrite(&places.posix, 0)?;
    let writes = OpenOptions::new().write(true).open(&places.posix)?;
    let direct =
        OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&places.weak[0])?;
    let cached = opened(&places.weak[0])?;
    let turns = ground.size(TURNS, TURNS_FULL);
    for turn in 1..=turns {
        // Fills the cache with a page that becomes stale.
        word(&cached)?;
        writes.write_all_at(&turn.to_le_bytes(), 0)?;
        let found = word(&direct)?;
        ensure!(found == turn, "{turn} was written, but O_DIRECT reads {found}");
    }
    Ok(Outcome::Passed(format!("{turns} turns")))
}

fn grown(ground: &TestDirs) -> Result<Outcome> {
    let places = SameDir::of(ground, "grown")?;
    let mut writes = File::create(&places.posix)?;
    let open = [opened(&places.weak[0])?, opened(&places.weak[1])?];
    let turns = ground.size(TURNS, TURNS_FULL);
    let mut found = vec![0; usize::try_from(turns)? * GROWS_BY];
    for turn in 1..=turns {
        writes.write_all(&[7; GROWS_BY])?;
        for file in &open {
            let bytes = file.read_at(&mut found, 0)?;
            let wrong = found[..bytes].iter().position(|byte| *byte != 7);
            ensure!(wrong.is_none(), "turn {turn}: byte {wrong:?} of {bytes} was never written");
        }
    }
    for file in &open {
        let size = file.metadata()?.len();
        ensure!(
            size == found.len() as u64,
            "{} bytes were written, but the size is {size}",
            found.len()
        );
        ensure!(file.read_at(&mut found, 0)? == found.len(), "bytes within the size are missing");
    }
    Ok(Outcome::Passed(format!("{turns} turns")))
}
