//! One crash image: created, started, checked.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use braid_client::{Client, OpenOptions};
use braid_testbed::{
    braid::{Daemon, output_summary},
    cluster,
};

use super::{BELOW, CutPoint, IODS, READY, Recording};
use crate::{
    disk::{Loss, PowerCut},
    load::{FoundTree, check_prefix},
};

/// Files created after the recovery: their indexes must be new, their holes empty.
const NEW_FILES: usize = 12;
/// The offset of the single byte of each.
const NEW_OFFSET: usize = 150_000;
/// The exit status of `braid fsck` if it found problems.
const FOUND_PROBLEMS: i32 = 7;

/// The result for an image: how many operations the namespace has, or the promise that was broken.
pub type Verdict = Result<usize, String>;

/// A cluster's directory as a loss of power leaves it.
pub struct Image<'r> {
    recording: &'r Recording,
    place: CutPoint,
    dir: PathBuf,
}

impl<'r> Image<'r> {
    /// Writes the image into a new directory.
    pub fn make(
        recording: &'r Recording,
        place: CutPoint,
        cut: &PowerCut<'_>,
        loss: &Loss,
        dir: &Path,
    ) -> Result<Self> {
        cut.image(loss).write_to(dir)?;
        Ok(Self { recording, place, dir: dir.to_owned() })
    }

    /// Starts the cluster on it and compares what clients see with what was promised.
    pub fn check(&self) -> Verdict {
        let daemon = self.start()?;
        let (done, losses) = self.check_tree()?;
        new_files(&self.client()?)?;
        self.fsck(losses)?;
        drop(daemon);
        Ok(done)
    }

    fn start(&self) -> Result<Daemon, String> {
        let dir = self.dir.as_os_str().to_owned();
        let up = ["up".into(), dir, "--no-mount".into(), "--iods".into(), IODS.to_string().into()];
        let started = self.recording.braid.daemon(up, READY, &self.dir.with_extension("log"));
        started.map_err(|why| format!("the daemons do not start on what is left: {why:#}"))
    }

    /// How many operations the namespace has, and whether it lacks bytes that were never synced.
    fn check_tree(&self) -> Result<(usize, bool), String> {
        let place = self.place;
        let found = if place.begun == 0 { FoundTree::default() } else { see(&self.client()?)? };
        let operations = &self.recording.operations[..place.begun];
        let contents = self.recording.contents(place);
        let done =
            check_prefix(operations, self.recording.forced(place), &contents, BELOW, &found)?;
        Ok((done, found.has_losses()))
    }

    fn client(&self) -> Result<Client, String> {
        let address = format!("127.0.0.1:{}", self.recording.port);
        cluster::connect(&address, &self.dir.join("keys/client.key"))
            .map_err(|why| format!("connecting: {why:#}"))
    }

    /// fsck may report problems. After mending it must report none, except for losses that cannot
    /// be mended, and nothing promised may have changed.
    fn fsck(&self, losses: bool) -> Result<(), String> {
        let fsck = |mend: Option<&str>| {
            let at = |name: &str| self.dir.join(name).into_os_string();
            let arguments = [
                "fsck".into(),
                "--config".into(),
                at("braid.toml"),
                "--key".into(),
                at("keys/server.key"),
            ];
            let output =
                self.recording.braid.run(arguments.into_iter().chain(mend.map(Into::into)));
            output.context("fsck").map_err(|why| format!("{why:#}"))
        };
        let report = fsck(None)?;
        if !matches!(report.status.code(), Some(0 | FOUND_PROBLEMS)) {
            return Err(format!("fsck failed: {}", output_summary(&report)));
        }
        let mended = fsck(Some("--mend"))?;
        if report.status.success() && mended.status.success() {
            return Ok(());
        }
        let after = fsck(None)?;
        if !(after.status.success() || losses && after.status.code() == Some(FOUND_PROBLEMS)) {
            return Err(format!(
                "fsck --mend: {}\nand left: {}",
                output_summary(&mended),
                output_summary(&after)
            ));
        }
        self.check_tree().map(drop).map_err(|why| format!("after fsck --mend: {why}"))
    }
}

/// The tree; empty if even its first directory was not forced yet.
fn see(client: &Client) -> Result<FoundTree, String> {
    match client.stat(BELOW) {
        Err(why) if why.status() == braid_client::Status::NotFound => Ok(FoundTree::default()),
        _ => FoundTree::see(client, BELOW),
    }
}

/// New files must not contain remains of an old one: an index is never reused.
fn new_files(client: &Client) -> Result<(), String> {
    let fail = |path: &str, why: braid_client::Error| format!("the new file {path}: {why}");
    for number in 0..NEW_FILES {
        let path = format!("/new{number}");
        let options = OpenOptions::new().read(true).write(true).create_new(true);
        let options = options.stripe_size(16 << 10).iod_count(IODS);
        let file = client.open(&*path, &options).map_err(|why| fail(&path, why))?;
        file.write_at(b"x", NEW_OFFSET as u64).map_err(|why| fail(&path, why))?;
        file.sync().map_err(|why| fail(&path, why))?;
        let mut bytes = vec![1; NEW_OFFSET + 1];
        let read = file.read_at(&mut bytes, 0).map_err(|why| fail(&path, why))?;
        if read != bytes.len()
            || bytes[NEW_OFFSET] != b'x'
            || bytes[..NEW_OFFSET].iter().any(|byte| *byte != 0)
        {
            return Err(format!(
                "the new file {path} (file {}) holds bytes of an old one",
                file.index()
            ));
        }
        file.close().map_err(|why| fail(&path, why))?;
    }
    Ok(())
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
        let _ = fs::remove_file(self.dir.with_extension("log"));
    }
}

impl Image<'_> {
    /// Leaves the directory where it is.
    pub fn keep(self) -> PathBuf {
        let image = std::mem::ManuallyDrop::new(self);
        image.dir.clone()
    }
}
