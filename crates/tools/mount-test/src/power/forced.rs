//! Data forced by a call is there after a loss of power, whatever call made the change.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

use anyhow::{Context, Result, ensure};
use rustix::fs::{FallocateFlags, fallocate};

use crate::{cases::Outcome, scratch_cluster::ScratchCluster};

/// Over the stripes of every daemon, and not to the end of one.
const LENGTH: u64 = 300_000;
const LAYOUT: &str = "stripe-size=65536 iod-count=4";
/// Files of each kind of change; their first parts are on each daemon in turn.
const FILES: usize = 6;
/// Number of losses of power, each after all kinds of changes.
const LOSSES: u8 = 2;
const LOSSES_FULL: u8 = 30;

/// A change of a file that was written and synced, and the expected content.
struct ChangeKind {
    name: &'static str,
    change: fn(&Path, u8) -> Result<()>,
    wanted: fn(u8) -> Vec<u8>,
}

const CHANGE_KINDS: &[ChangeKind] = &[
    ChangeKind { name: "written", change: written, wanted: |number| vec![number; LENGTH as usize] },
    ChangeKind {
        name: "written through O_DSYNC",
        change: written_through,
        wanted: |number| vec![number; LENGTH as usize],
    },
    ChangeKind {
        name: "appended",
        change: appended,
        wanted: |number| [vec![255; LENGTH as usize], vec![number; 1000]].concat(),
    },
    ChangeKind { name: "emptied", change: emptied, wanted: |_| vec![] },
    ChangeKind {
        name: "emptied and written",
        change: emptied_and_written,
        wanted: |number| vec![number; 10],
    },
    ChangeKind { name: "cut", change: cut, wanted: |_| vec![255; 100_000] },
    ChangeKind {
        name: "made longer",
        change: longer,
        wanted: |_| [vec![255; LENGTH as usize], vec![0; 200_000]].concat(),
    },
    ChangeKind { name: "punched", change: punched, wanted: |_| vec![0; LENGTH as usize] },
    ChangeKind { name: "replaced", change: replaced, wanted: |number| vec![number; 5_000] },
];

pub(super) fn there(yard: &ScratchCluster) -> Result<Outcome> {
    let mut stage = match yard.on_disks(1)? {
        Ok(stage) => stage,
        Err(skipped) => return Ok(skipped),
    };
    let dir = stage.dirs("forced")?.remove(0);
    rustix::fs::setxattr(
        &dir,
        "user.braid.layout",
        LAYOUT.as_bytes(),
        rustix::fs::XattrFlags::empty(),
    )?;
    let losses = if yard.full { LOSSES_FULL } else { LOSSES };
    for number in 1..=losses {
        let place = dir.join(number.to_string());
        fs::create_dir(&place)?;
        each(|way, file| prepare(&place.join(path(way, file))))?;
        each(|way, file| (way.change)(&place.join(path(way, file)), number))?;
        // An fsync of its directory forces the removal of a name, and the directory's own name.
        let gone = place.join(path(&CHANGE_KINDS[0], FILES));
        prepare(&gone)?;
        fs::remove_file(&gone)?;
        File::open(&place)?.sync_all()?;
        stage.power_off()?;
        each(|way, file| judge(&place.join(path(way, file)), &(way.wanted)(number)))?;
        ensure!(!gone.exists(), "a name whose removal was forced is there again");
    }
    stage.check()?;
    Ok(Outcome::Passed(format!(
        "{losses} losses, {} ways, {FILES} files of each",
        CHANGE_KINDS.len()
    )))
}

fn each(act: impl Fn(&ChangeKind, usize) -> Result<()>) -> Result<()> {
    let mut all = CHANGE_KINDS.iter().flat_map(|way| (0..FILES).map(move |file| (way, file)));
    all.try_for_each(|(way, file)| act(way, file).with_context(|| path(way, file)))
}

fn path(way: &ChangeKind, file: usize) -> String {
    format!("{} {file}", way.name)
}

fn prepare(path: &Path) -> Result<()> {
    let file = File::create_new(path)?;
    file.write_all_at(&vec![255; LENGTH as usize], 0)?;
    Ok(file.sync_all()?)
}

fn judge(path: &Path, wanted: &[u8]) -> Result<()> {
    let found = fs::read(path).context("reading it after the loss")?;
    let differs = found.iter().zip(wanted).position(|(found, wanted)| found != wanted);
    let same = found.len() == wanted.len() && differs.is_none();
    ensure!(same, "{} bytes, of which byte {differs:?} differs, not {}", found.len(), wanted.len());
    Ok(())
}

fn open(path: &Path) -> Result<File> {
    Ok(OpenOptions::new().read(true).write(true).open(path)?)
}

fn written(path: &Path, number: u8) -> Result<()> {
    let file = open(path)?;
    file.write_all_at(&vec![number; LENGTH as usize], 0)?;
    Ok(file.sync_all()?)
}

fn written_through(path: &Path, number: u8) -> Result<()> {
    let file = OpenOptions::new().write(true).custom_flags(libc::O_DSYNC).open(path)?;
    Ok(file.write_all_at(&vec![number; LENGTH as usize], 0)?)
}

fn appended(path: &Path, number: u8) -> Result<()> {
    use std::io::Write;
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.write_all(&[number; 1000])?;
    Ok(file.sync_data()?)
}

fn emptied(path: &Path, _: u8) -> Result<()> {
    let file = open(path)?;
    file.set_len(0)?;
    Ok(file.sync_all()?)
}

fn emptied_and_written(path: &Path, number: u8) -> Result<()> {
    let file = open(path)?;
    file.set_len(0)?;
    file.write_all_at(&[number; 10], 0)?;
    Ok(file.sync_all()?)
}

fn cut(path: &Path, _: u8) -> Result<()> {
    let file = open(path)?;
    file.set_len(100_000)?;
    Ok(file.sync_data()?)
}

fn longer(path: &Path, _: u8) -> Result<()> {
    let file = open(path)?;
    file.set_len(LENGTH + 200_000)?;
    Ok(file.sync_all()?)
}

fn punched(path: &Path, _: u8) -> Result<()> {
    let file = open(path)?;
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, LENGTH)?;
    Ok(file.sync_all()?)
}

/// As editors and package managers do it.
fn replaced(path: &Path, number: u8) -> Result<()> {
    let new = path.with_extension("new");
    let file = File::create_new(&new)?;
    file.write_all_at(&[number; 5_000], 0)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    Ok(File::open(path.parent().context("a directory")?)?.sync_all()?)
}
