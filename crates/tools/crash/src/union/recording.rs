//! A run of a union as the recorder saw it.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{Model, Operation, POOL, operations};
use crate::{
    disk::{Event, History, Node, Tree},
    trace,
};

/// An inode and when it was created: seconds and nanoseconds.
pub(super) type InodeThen = (u64, i64, u32);

/// The operations and their effects on the disks.
pub struct Recording {
    /// The recorded history.
    pub history: History,
    /// In their order.
    pub operations: Vec<Operation>,
    /// Events at which each operation began and was done.
    marks: Vec<(usize, usize)>,
    ready: usize,
    pub(super) inodes: HashMap<InodeThen, Node>,
    /// Where the union was: its configuration names this path.
    pub(super) root: PathBuf,
}

/// What the union shows after an operation.
pub(super) struct State<'r> {
    pub(super) model: Model,
    pub(super) after: Option<&'r Operation>,
    /// Otherwise the power failed during the operation.
    pub(super) done: bool,
}

/// A point at which the power fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutPoint {
    /// The first event that does not happen.
    pub at: usize,
    /// Operations that were done before.
    pub done: usize,
    /// Operations begun before: as many, or one more.
    pub begun: usize,
}

impl Recording {
    /// Records the load of a seed in `dir`, which is created. `own` is the program whose `--load`
    /// is the load.
    ///
    /// # Errors
    /// Nothing can be recorded here, or an operation failed.
    pub fn make(own: &Path, dir: &Path, seed: u64, count: usize) -> Result<Self> {
        let root = dir.join(POOL);
        fs::create_dir_all(&root)?;
        let arguments = [
            OsString::from("--load"),
            dir.into(),
            "--seed".into(),
            seed.to_string().into(),
            "--operations".into(),
            count.to_string().into(),
        ];
        let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
        let text = dir.join("trace");
        trace::record(&text, own, &arguments)?;
        let history = trace::read(&text, &root, &dir.join("marks"))?;
        let differences = history.end().differences(&root, &[])?;
        ensure!(
            differences.is_empty(),
            "the recorder missed something: {}",
            differences.join("; ")
        );
        fs::remove_file(&text)?;
        fs::remove_dir_all(&root)?;
        let operations = operations(seed, count);
        let mut recording =
            Self { history, operations, marks: Vec::new(), ready: 0, inodes: HashMap::new(), root };
        recording.read_marks()?;
        Ok(recording)
    }

    fn read_marks(&mut self) -> Result<()> {
        let mut tree = Tree::new(&self.history.nodes);
        for (at, event) in self.history.events.iter().enumerate() {
            let text = match event {
                Event::Change(change) => {
                    tree.apply(change);
                    continue;
                }
                Event::Sync { .. } => continue,
                Event::Mark(text) => text,
            };
            let words: Vec<&str> = text.splitn(5, ' ').collect();
            match words[..] {
                ["ready"] => self.ready = at,
                ["begin", _] => self.marks.push((at, usize::MAX)),
                ["done", _] => self.marks.last_mut().context("nothing was begun")?.1 = at,
                ["inode", number, seconds, nanoseconds, path] => {
                    let key = (number.parse()?, seconds.parse()?, nanoseconds.parse()?);
                    let parts = path.split('/').map(str::as_bytes);
                    let node = parts
                        .into_iter()
                        .try_fold(Node::ROOT, |directory, name| tree.lookup(directory, name));
                    self.inodes.insert(key, node.with_context(|| format!("no {path}"))?);
                }
                _ => anyhow::bail!("unknown mark `{text}`"),
            }
        }
        ensure!(self.marks.len() == self.operations.len(), "an operation was not marked");
        Ok(())
    }

    /// The point just before an event. Before the union was ready nothing was promised.
    pub fn cut_point(&self, at: usize) -> CutPoint {
        let at = at.max(self.ready + 1);
        let done = self.marks.iter().filter(|(_, done)| *done < at).count();
        let begun = self.marks.iter().filter(|(begun, _)| *begun < at).count();
        CutPoint { at, done, begun }
    }

    /// How many events there are to cut at.
    pub fn cuts(&self) -> usize {
        self.history.events.len() - self.ready
    }

    /// The point before the event of this number after the beginning.
    pub fn nth_cut(&self, number: usize) -> CutPoint {
        self.cut_point(self.ready + 1 + number)
    }

    /// The point right after an operation was done.
    pub fn after(&self, operation: usize) -> CutPoint {
        self.cut_point(self.marks[operation].1 + 1)
    }

    /// What the union showed since the last `syncfs`, one after the other, each with the operation
    /// before it. The first is what it has to show at least.
    pub(super) fn states(&self, place: CutPoint) -> Vec<State<'_>> {
        let mut model = Model::default();
        let mut states = vec![State { model: model.clone(), after: None, done: true }];
        for (number, operation) in self.operations[..place.begun].iter().enumerate() {
            model.apply(operation);
            let done = number < place.done;
            if done && *operation == Operation::SyncAll {
                states.clear();
            }
            states.push(State { model: model.clone(), after: Some(operation), done });
        }
        states
    }
}
