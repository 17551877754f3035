//! A run of the cluster as the recorder saw it.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::Path,
};

use anyhow::{Context, Result, bail, ensure};
use braid_testbed::braid::Braid;

use super::load::operations;
use crate::{
    disk::{Change, Event, History},
    load::{Model, Operation},
    trace::{self, READERS_TABLE},
};
use braid_types::Random;

/// The operations and their effects on the disk.
pub struct Recording {
    pub(super) braid: Braid,
    pub(super) port: u16,
    /// The recorded history.
    pub history: History,
    /// The client's operations.
    pub operations: Vec<Operation>,
    /// Events at which each operation began and was done.
    marks: Vec<(usize, usize)>,
    ready: usize,
}

/// A point at which the power fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutPoint {
    /// The first event that does not happen.
    pub at: usize,
    /// Operations acknowledged before.
    pub done: usize,
    /// Operations begun before.
    pub begun: usize,
}

impl Recording {
    /// Records the load of a seed in `dir`, which is created. `own` is the program whose `--load`
    /// is the load.
    pub fn make(
        braid: &Braid,
        own: &Path,
        dir: &Path,
        seed: u64,
        count: usize,
        port: u16,
    ) -> Result<Self> {
        let cluster = dir.join("cluster");
        fs::create_dir_all(&cluster)?;
        let arguments = [
            OsString::from("--load"),
            dir.into(),
            "--seed".into(),
            seed.to_string().into(),
            "--operations".into(),
            count.to_string().into(),
            "--port".into(),
            port.to_string().into(),
            "--braid".into(),
            braid.path().into(),
        ];
        let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
        let trace = dir.join("trace");
        trace::record(&trace, own, &arguments)?;
        let history = trace::read(&trace, &cluster, &dir.join("marks"))?;
        let differences = history.end().differences(&cluster, &[READERS_TABLE])?;
        ensure!(
            differences.is_empty(),
            "the recorder missed something: {}",
            differences.join("; ")
        );
        fs::remove_file(&trace)?;
        fs::remove_dir_all(&cluster)?;
        let (ready, marks) = marks(&history, count)?;
        Ok(Self {
            braid: braid.clone(),
            port,
            history,
            operations: operations(seed, count),
            marks,
            ready,
        })
    }

    /// The point just before an event. Before the cluster was ready nothing was promised.
    pub fn cut_point(&self, at: usize) -> CutPoint {
        let at = at.max(self.ready + 1);
        let done = self.marks.iter().filter(|(_, done)| *done < at).count();
        let begun = self.marks.iter().filter(|(begun, _)| *begun < at).count();
        CutPoint { at, done, begun }
    }

    /// The point right after an operation was acknowledged.
    pub fn after(&self, operation: usize) -> CutPoint {
        self.cut_point(self.marks[operation].1 + 1)
    }

    /// Operations that made something durable.
    pub fn syncs(&self) -> Vec<usize> {
        (0..self.operations.len()).filter(|number| self.operations[*number].forces()).collect()
    }

    /// The point for an image: every second image right after a sync, one sync after the other; the
    /// rest anywhere.
    pub fn choose(&self, image: usize, random: &mut Random) -> CutPoint {
        let syncs = self.syncs();
        if image.is_multiple_of(2) && !syncs.is_empty() {
            return self.after(syncs[(image / 2) % syncs.len()]);
        }
        let span = self.history.events.len() - self.ready;
        self.cut_point(self.ready + 1 + random.below(span as u64) as usize)
    }

    /// Operations up to the last one that was forced at a point.
    pub(super) fn forced(&self, place: CutPoint) -> usize {
        self.operations[..place.done].iter().rposition(Operation::forces).map_or(0, |last| last + 1)
    }

    /// Required and allowed bytes of every file at a point.
    pub(super) fn contents(&self, place: CutPoint) -> Model {
        let mut model = Model::default();
        for (number, operation) in self.operations[..place.begun].iter().enumerate() {
            if let (Operation::Sync(path), true) = (operation, number < place.done)
                && let Some(file) = model.file(path)
            {
                model.make_certain(file);
            }
            model.apply(operation);
        }
        model
    }

    /// Writes below an entry of the cluster's directory while an operation was in progress.
    pub fn writes_during(&self, operation: usize, volume: &str) -> Vec<usize> {
        let end = self.history.end();
        let (begun, done) = self.marks[operation];
        let ours = |node: crate::disk::Node| {
            let name = end.name_of(self.history.volumes[node.0]).unwrap_or_default();
            name.starts_with(volume.as_bytes())
        };
        let writes = (begun..done).filter(|event| match &self.history.events[*event] {
            Event::Change(Change::Write { node, .. }) => ours(*node),
            _ => false,
        });
        writes.collect()
    }
}

fn marks(history: &History, count: usize) -> Result<(usize, Vec<(usize, usize)>)> {
    let (mut ready, mut marks) = (None, Vec::<(usize, usize)>::new());
    for (at, text) in history.marks() {
        match text.split_once(' ') {
            None if text == "ready" => ready = Some(at),
            Some(("begin", number)) if number.parse() == Ok(marks.len()) => {
                marks.push((at, usize::MAX))
            }
            Some(("done", number)) if number.parse() == Ok(marks.len().wrapping_sub(1)) => {
                if let Some(last) = marks.last_mut() {
                    last.1 = at;
                }
            }
            _ => bail!("unknown mark `{text}`"),
        }
    }
    ensure!(marks.len() == count, "{} of {count} operations were marked", marks.len());
    Ok((ready.context("no mark `ready`")?, marks))
}
