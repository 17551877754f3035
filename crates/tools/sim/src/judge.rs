//! Compares what all clients of a run did and saw with the models.
//!
//! Only one call at a time touches the names of a tree. Several clients may write, truncate and
//! read a file at the same time. Calls that overlap may have taken effect in any order. A read is
//! checked against what was possible when it began, with every overlapping change as possible.

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

/// Stripes of the workload are multiples of this, so all bytes of such a unit are on one daemon.
pub const PIECE: u64 = 4096;

/// The checker of one run. Clones share its state.
#[derive(Clone, Default)]
pub struct Judge(Arc<Mutex<State>>);

/// The state of the checker.
#[derive(Default)]
pub struct State {
    /// Trees of names; only one call at a time uses a tree.
    pub trees: Vec<Tree>,
    files: BTreeMap<u64, File>,
    next: u64,
    /// The first violation of a rule.
    pub violation: Option<Violation>,
    /// Losses of power, in order: a call compares their number before and after.
    losses: Vec<Loss>,
    /// Calls made.
    pub calls: u64,
    /// Calls whose outcome is unknown.
    pub unknown: u64,
}

/// A tree of names.
pub struct Tree {
    /// Its directory below the root.
    pub root: String,
    /// The model of its names.
    pub names: Names,
    busy: bool,
}

struct File {
    data: Data,
    layout: Option<Layout>,
    active: BTreeMap<u64, Active>,
    /// The clients that have it open for writing.
    open: BTreeMap<Handle, String>,
    /// Opens for writing at the time when the metadata server's host lost power. Cleared as soon as
    /// one of them is known to have been reclaimed: then the size is in the objects.
    untold: BTreeSet<Handle>,
}

#[derive(Clone)]
struct Active {
    /// The change that it makes; `None` for a call that reads.
    change: Option<Change>,
    overlapped: bool,
    /// The file when the call began, for a call that reads.
    before: Option<Data>,
    /// Changes that overlapped the call.
    others: Vec<Change>,
    losses: usize,
}

#[derive(Clone, Copy)]
enum Loss {
    Iod(IodId),
    Mds,
}

/// The outcome of a call on a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It was acknowledged.
    Done,
    /// It failed partly, and nothing more of it will happen.
    Partly,
    /// The connection was lost, and a server may still execute it.
    Unknown,
}

impl Judge {
    /// Locks the state.
    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Adds a tree that has only its root.
    pub fn add_tree(&self, root: &str, mode: u32) {
        self.state().trees.push(Tree { root: root.into(), names: Names::new(mode), busy: false });
    }

    /// A new number.
    pub fn number(&self) -> u64 {
        let mut state = self.state();
        state.next += 1;
        state.calls += 1;
        state.next
    }

    /// Locks a tree's names for one call; `None` while another call uses them.
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

    /// Records the first violation.
    pub fn check<T>(&self, outcome: Result<T, Violation>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(violation) => {
                self.state().violation.get_or_insert(violation);
                None
            }
        }
    }

    /// Records a violation that no model found.
    pub fn violated(&self, rule: &'static str, what: String) {
        self.check::<()>(Err(Violation::new(rule, what)));
    }

    /// Whether a violation was found.
    pub fn has_failed(&self) -> bool {
        self.state().violation.is_some()
    }

    /// Records which daemons hold a file's bytes.
    pub fn learn_layout(&self, file: u64, layout: Layout) {
        self.state().file(file).layout = Some(layout);
    }

    /// A call on a file begins: a change, or `None` for a read.
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

    /// An fsync or close of an open file reported lost data.
    pub fn disclaimed(&self, file: u64, by: Handle) {
        self.state().file(file).data.disclaimed(by);
    }

    /// A client has a file open for writing.
    pub fn opened(&self, file: u64, by: Handle, client: &str) {
        self.state().file(file).open.insert(by, client.to_owned());
    }

    /// A client closes the file: from now on it no longer reclaims this open.
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

    /// How often the metadata server's host has lost power.
    pub fn mds_losses(&self) -> usize {
        self.state().losses.iter().filter(|loss| matches!(loss, Loss::Mds)).count()
    }

    /// The metadata server answered a call on this open file, which began after `losses` losses of
    /// its power. Since it did not refuse the call, it knows that the file is open.
    pub fn told(&self, file: u64, losses: usize) {
        if losses == self.mds_losses() {
            self.state().file(file).untold.clear();
        }
    }

    /// [`Judge::disclaimed`] if `lost`.
    pub fn disclaimed_if(&self, lost: bool, file: u64, by: Handle) {
        if lost {
            self.disclaimed(file, by);
        }
    }

    /// A file index was assigned.
    pub fn learn_index(&self, file: u64) {
        self.state().file(file);
    }

    /// Whether a file index was seen before; a new file must not have it.
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
    /// Whether changes of names that were not forced may be lost.
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

/// Applies a loss of power at the host of one I/O daemon.
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

/// Exclusive use of a tree's names. A call in progress has an unknown outcome when this is dropped.
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

    /// The call ended; `known` is false when its outcome is unknown.
    pub fn end(&mut self, known: bool) {
        let op = self.op.take();
        if let (Some(op), false) = (op, known) {
            let mut state = self.judge.state();
            state.unknown += 1;
            state.trees[self.tree].names.unknown(self.number, &op);
        }
    }

    /// Checks an outcome against the tree's model.
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

/// A call on a file that is in progress.
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

    /// A call that reads the file ended: checks what it saw against what was possible.
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

    /// A call that reads failed and saw nothing.
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
