//! What all clients of a run have done and seen, held against the models.
//!
//! Calls overlap. Names of one tree are touched by one call at a time; a file may be written, cut and read by
//! several clients at once: then what overlaps may have happened in any order, and a read is held against what
//! was possible when it began with everything that overlapped it possible too.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
};

use braid_layout::Layout;
use braid_types::{FileOffset, IodId};

use crate::{
    model::{
        Violation,
        data::{Change, Data, Handle},
        names::{Names, Op},
    },
    world::lock,
};

/// Stripes of the workload are multiples of this: bytes of one piece lie on one daemon.
pub const PIECE: u64 = 4096;

/// The judge of one run. Clones are the same.
#[derive(Clone, Default)]
pub struct Judge(Arc<Mutex<State>>);

/// What the judge knows.
#[derive(Default)]
pub struct State {
    /// Trees of names, each used by one call at a time.
    pub trees: Vec<Tree>,
    files: BTreeMap<u64, File>,
    next: u64,
    /// The first thing that no rule allows.
    pub violation: Option<Violation>,
    /// Hosts that lost power, in order: a call compares before and after.
    losses: Vec<Loss>,
    /// Calls done, and those of them whose fate is not known.
    pub calls: u64,
    /// Calls whose fate is not known.
    pub unknown: u64,
}

/// One tree.
pub struct Tree {
    /// Its directory in the root.
    pub root: String,
    /// What is possible.
    pub names: Names,
    busy: bool,
}

struct File {
    data: Data,
    layout: Option<Layout>,
    active: BTreeMap<u64, Active>,
    /// Who has it open for writing.
    open: BTreeMap<Handle, String>,
    /// Those of them that had it open when the metadata server's host lost power, until one of them is known to have
    /// told the server so again: then its size is in the objects.
    untold: BTreeSet<Handle>,
}

#[derive(Clone)]
struct Active {
    /// What it changes; `None` for a call that looks.
    change: Option<Change>,
    overlapped: bool,
    /// The file when it began, for a call that looks.
    before: Option<Data>,
    /// What overlapped it.
    others: Vec<Change>,
    losses: usize,
}

#[derive(Clone, Copy)]
enum Loss {
    Iod(IodId),
    Mds,
}

/// How a call on a file ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It was acknowledged.
    Done,
    /// It failed half-way: nothing more of it will happen.
    Partly,
    /// It was cut off, and a server may still carry it out.
    Unknown,
}

impl Judge {
    /// Everything that is known.
    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// A tree begins with nothing but its root.
    pub fn add_tree(&self, root: &str, mode: u32) {
        self.state().trees.push(Tree { root: root.into(), names: Names::new(mode), busy: false });
    }

    /// A fresh number.
    pub fn number(&self) -> u64 {
        let mut state = self.state();
        state.next += 1;
        state.calls += 1;
        state.next
    }

    /// Takes the right to touch a tree's names; `None` while another call has it.
    pub fn enter(&self, tree: usize) -> Option<Entered> {
        let mut state = self.state();
        let entry = &mut state.trees[tree];
        if entry.busy {
            return None;
        }
        entry.busy = true;
        drop(state);
        Some(Entered { judge: self.clone(), tree, number: 0, op: None })
    }

    /// Notes the first violation.
    pub fn check<T>(&self, outcome: Result<T, Violation>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(violation) => {
                self.state().violation.get_or_insert(violation);
                None
            }
        }
    }

    /// Something is wrong that no model is needed for.
    pub fn violated(&self, rule: &'static str, what: String) {
        self.check::<()>(Err(Violation::new(rule, what)));
    }

    /// Whether something was wrong.
    pub fn has_failed(&self) -> bool {
        self.state().violation.is_some()
    }

    /// Where a file's bytes lie.
    pub fn learn_layout(&self, file: u64, layout: Layout) {
        self.state().file(file).layout = Some(layout);
    }

    /// A call on a file begins: one that changes it, or one that looks.
    pub fn begin(&self, file: u64, change: Option<Change>) -> OnFile {
        let number = self.number();
        let mut state = self.state();
        let losses = state.losses.len();
        let known = state.file(file);
        let mut active =
            Active { change, overlapped: false, before: None, others: Vec::new(), losses };
        for other in known.active.values_mut() {
            if let Some(theirs) = &other.change {
                active.overlapped = true;
                active.others.push(theirs.clone());
            }
            if let Some(ours) = &active.change {
                other.overlapped = true;
                other.others.push(ours.clone());
            }
        }
        if active.change.is_none() {
            active.before = Some(known.data.clone());
        }
        known.active.insert(number, active);
        drop(state);
        OnFile { judge: self.clone(), file, number, ended: false }
    }

    /// An fsync through an open file was acknowledged.
    pub fn synced(&self, file: u64, by: Handle) {
        self.state().file(file).data.synced(by);
    }

    /// An fsync or close through an open file said that data is lost.
    pub fn disclaimed(&self, file: u64, by: Handle) {
        self.state().file(file).data.disclaimed(by);
    }

    /// A client has a file open for writing.
    pub fn opened(&self, file: u64, by: Handle, client: &str) {
        self.state().file(file).open.insert(by, client.to_owned());
    }

    /// A client closes it: from now on it tells no server any more that it has it open.
    pub fn closed(&self, file: u64, by: Handle) {
        self.state().file(file).close(by);
    }

    /// The process of a client died.
    pub fn client_died(&self, client: &str) {
        for file in self.state().files.values_mut() {
            let dead: Vec<Handle> =
                file.open.iter().filter(|(_, of)| *of == client).map(|(by, _)| *by).collect();
            dead.into_iter().for_each(|by| file.close(by));
        }
    }

    /// How often the host of the metadata server has lost power.
    pub fn mds_losses(&self) -> usize {
        self.state().losses.iter().filter(|loss| matches!(loss, Loss::Mds)).count()
    }

    /// The metadata server answered a call that began after `losses` of its losses of power, through an open file
    /// that it did not refuse: it was told that the file is open.
    pub fn told(&self, file: u64, losses: usize) {
        if losses == self.mds_losses() {
            self.state().file(file).untold.clear();
        }
    }

    /// As [`Judge::disclaimed`], if it did.
    pub fn disclaimed_if(&self, lost: bool, file: u64, by: Handle) {
        if lost {
            self.disclaimed(file, by);
        }
    }

    /// A file index was given out.
    pub fn learn_index(&self, file: u64) {
        self.state().file(file);
    }

    /// A file that a new one must not be: its index was seen before.
    pub fn is_known(&self, file: u64) -> bool {
        self.state().files.contains_key(&file)
    }

    /// The host of an I/O daemon lost power.
    pub fn iod_lost_power(&self, iod: IodId) {
        self.state().lose(Loss::Iod(iod));
    }

    /// The host of the metadata server lost power.
    pub fn mds_lost_power(&self) {
        let mut state = self.state();
        state.trees.iter_mut().for_each(|tree| tree.names.power_lost());
        state.lose(Loss::Mds);
    }
}

impl State {
    /// Whether names that were not forced may be gone.
    pub fn has_mds_lost_power(&self) -> bool {
        self.losses.iter().any(|loss| matches!(loss, Loss::Mds))
    }

    fn file(&mut self, file: u64) -> &mut File {
        self.files.entry(file).or_insert_with(|| File {
            data: Data::default(),
            layout: None,
            active: BTreeMap::new(),
            open: BTreeMap::new(),
            untold: BTreeSet::new(),
        })
    }

    fn lose(&mut self, loss: Loss) {
        self.losses.push(loss);
        self.files.values_mut().for_each(|file| file.lose(loss));
    }
}

impl File {
    fn lose(&mut self, loss: Loss) {
        match loss {
            Loss::Iod(iod) => lose(&mut self.data, self.layout.as_ref(), iod),
            Loss::Mds if self.open.is_empty() => self.data.record_lost(),
            Loss::Mds => self.untold = self.open.keys().copied().collect(),
        }
    }

    fn close(&mut self, by: Handle) {
        self.open.remove(&by);
        if self.untold.remove(&by) && self.untold.is_empty() {
            self.data.record_lost();
        }
    }
}

/// The host of one I/O daemon lost power.
fn lose(data: &mut Data, layout: Option<&Layout>, iod: IodId) {
    let map = layout.and_then(|layout| layout.map().ok());
    let (Some(layout), Some(map)) = (layout, map) else {
        return data.power_lost(PIECE, |_| true);
    };
    if layout.parts_on(iod).is_empty() {
        return;
    }
    let on = |offset: u64| {
        let location = map.locate(FileOffset(offset)).ok();
        let placement = location.and_then(|location| layout.placement(location.part));
        placement.is_none_or(|placement| placement.iods.contains(&iod))
    };
    data.power_lost(PIECE, on);
}

/// The right to touch a tree's names. What is under way when it is dropped has a fate that nobody knows.
pub struct Entered {
    judge: Judge,
    tree: usize,
    number: u64,
    op: Option<Op>,
}

impl Entered {
    /// A call begins.
    pub fn begin(&mut self, op: &Op) -> u64 {
        (self.number, self.op) = (self.judge.number(), Some(op.clone()));
        self.number
    }

    /// Its outcome is known, or it is known that it is not.
    pub fn end(&mut self, known: bool) {
        let op = self.op.take();
        if let (Some(op), false) = (op, known) {
            let mut state = self.judge.state();
            state.unknown += 1;
            state.trees[self.tree].names.unknown(self.number, &op);
        }
    }

    /// Holds something against the tree's model.
    pub fn judge<T>(&self, check: impl FnOnce(&mut Names) -> Result<T, Violation>) -> Option<T> {
        let outcome = check(&mut self.judge.state().trees[self.tree].names);
        self.judge.check(outcome)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.end(false);
        self.judge.state().trees[self.tree].busy = false;
    }
}

/// A call on a file under way.
pub struct OnFile {
    judge: Judge,
    file: u64,
    number: u64,
    ended: bool,
}

impl OnFile {
    /// A call that changes the file ended.
    pub fn changed(mut self, fate: Fate) {
        self.finish(fate);
    }

    /// A call that looks at the file ended: holds what it saw against what was possible.
    pub fn saw(mut self, look: impl Fn(&mut Data) -> Result<(), Violation>) {
        self.ended = true;
        let outcome = {
            let mut state = self.judge.state();
            let losses = state.losses.clone();
            let file = state.file(self.file);
            let Some(active) = file.active.remove(&self.number) else { return };
            let since = &losses[active.losses..];
            let before = active.before.filter(|_| active.overlapped || !since.is_empty());
            match before {
                None => look(&mut file.data),
                Some(mut possible) => {
                    active.others.iter().for_each(|change| possible.maybe(change));
                    for loss in since {
                        match loss {
                            Loss::Iod(iod) => lose(&mut possible, file.layout.as_ref(), *iod),
                            Loss::Mds if file.untold.is_empty() => possible.record_lost(),
                            Loss::Mds => {}
                        }
                    }
                    active.others.iter().for_each(|change| possible.maybe(change));
                    look(&mut possible)
                }
            }
        };
        let file = self.file;
        self.judge.check(
            outcome.map_err(|v| Violation { what: format!("file {file:x}: {}", v.what), ..v }),
        );
    }

    /// A call that looks failed: it saw nothing.
    pub fn saw_nothing(mut self) {
        self.ended = true;
        self.judge.state().file(self.file).active.remove(&self.number);
    }

    fn finish(&mut self, fate: Fate) {
        self.ended = true;
        let mut state = self.judge.state();
        let losses = state.losses.clone();
        if fate != Fate::Done {
            state.unknown += 1;
        }
        let file = state.file(self.file);
        let Some(active) = file.active.remove(&self.number) else { return };
        let Some(change) = active.change else { return };
        match fate {
            Fate::Done if !active.overlapped => file.data.done(&change),
            Fate::Done | Fate::Partly => file.data.maybe(&change),
            Fate::Unknown => file.data.unknown(change),
        }
        losses[active.losses..].iter().for_each(|loss| file.lose(*loss));
    }
}

impl Drop for OnFile {
    fn drop(&mut self) {
        if !self.ended {
            self.finish(Fate::Unknown);
        }
    }
}
