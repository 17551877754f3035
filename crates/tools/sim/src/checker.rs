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
        data::{Change, FileModel, Handle},
        names::{NamesModel, Op},
    },
    world::lock,
};

/// Stripes of the workload are multiples of this, so all bytes of such a unit are on one daemon.
pub const PIECE: u64 = 4096;

/// The checker of one run. Clones share its state.
#[derive(Clone, Default)]
pub struct Checker(Arc<Mutex<CheckerState>>);

/// The state of the checker.
#[derive(Default)]
pub struct CheckerState {
    /// Trees of names; only one call at a time uses a tree.
    pub trees: Vec<CheckedTree>,
    files: BTreeMap<u64, CheckedFile>,
    next: u64,
    /// The first violation of a rule.
    pub violation: Option<Violation>,
    /// Losses of power, in order: a call compares their number before and after.
    losses: Vec<PowerLoss>,
    /// Calls made.
    pub calls: u64,
    /// Calls whose outcome is unknown.
    pub unknown: u64,
}

/// A tree of names.
pub struct CheckedTree {
    /// Its directory below the root.
    pub root: String,
    /// The model of its names.
    pub names: NamesModel,
    busy: bool,
}

struct CheckedFile {
    data: FileModel,
    layout: Option<Layout>,
    active: BTreeMap<u64, ActiveCall>,
    /// The clients that have it open for writing.
    open: BTreeMap<Handle, String>,
    /// Opens for writing at the time when the metadata server's host lost power. Cleared as soon as
    /// one of them is known to have been reclaimed: then the size is in the objects.
    not_reclaimed: BTreeSet<Handle>,
}

#[derive(Clone)]
struct ActiveCall {
    /// The change that it makes; `None` for a call that reads.
    change: Option<Change>,
    overlapped: bool,
    /// The file when the call began, for a call that reads.
    before: Option<FileModel>,
    /// Changes that overlapped the call.
    others: Vec<Change>,
    losses: usize,
}

#[derive(Clone, Copy)]
enum PowerLoss {
    Iod(IodId),
    Mds,
}

/// The outcome of a call on a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallOutcome {
    /// It was acknowledged.
    Done,
    /// It failed partly, and nothing more of it will happen.
    Partly,
    /// The connection was lost, and a server may still execute it.
    Unknown,
}

impl Checker {
    /// Locks the state.
    pub fn state(&self) -> MutexGuard<'_, CheckerState> {
        lock(&self.0)
    }

    /// Adds a tree that has only its root.
    pub fn add_tree(&self, root: &str, mode: u32) {
        self.state().trees.push(CheckedTree {
            root: root.into(),
            names: NamesModel::new(mode),
            busy: false,
        });
    }

    /// A new number.
    pub fn number(&self) -> u64 {
        let mut state = self.state();
        state.next += 1;
        state.calls += 1;
        state.next
    }

    /// Locks a tree's names for one call; `None` while another call uses them.
    pub fn enter(&self, tree: usize) -> Option<TreeCall> {
        let mut state = self.state();
        let entry = &mut state.trees[tree];
        if entry.busy {
            return None;
        }
        entry.busy = true;
        drop(state);
        Some(TreeCall { judge: self.clone(), tree, number: 0, op: None })
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
    pub fn add_violation(&self, rule: &'static str, what: String) {
        self.check::<()>(Err(Violation::new(rule, what)));
    }

    /// Whether a violation was found.
    pub fn has_failed(&self) -> bool {
        self.state().violation.is_some()
    }

    /// Records which daemons hold a file's bytes.
    pub fn set_layout(&self, file: u64, layout: Layout) {
        self.state().file(file).layout = Some(layout);
    }

    /// A call on a file begins: a change, or `None` for a read.
    pub fn begin(&self, file: u64, change: Option<Change>) -> FileCall {
        let number = self.number();
        let mut state = self.state();
        let losses = state.losses.len();
        let known = state.file(file);
        let mut active =
            ActiveCall { change, overlapped: false, before: None, others: Vec::new(), losses };
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
        FileCall { judge: self.clone(), file, number, ended: false }
    }

    /// An fsync through an open file was acknowledged.
    pub fn synced(&self, file: u64, by: Handle) {
        self.state().file(file).data.synced(by);
    }

    /// An fsync or close of an open file reported lost data.
    pub fn loss_reported(&self, file: u64, by: Handle) {
        self.state().file(file).data.loss_reported(by);
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
        self.state().losses.iter().filter(|loss| matches!(loss, PowerLoss::Mds)).count()
    }

    /// The metadata server answered a call on this open file, which began after `losses` losses of
    /// its power. Since it did not refuse the call, it knows that the file is open.
    pub fn mds_knows_open(&self, file: u64, losses: usize) {
        if losses == self.mds_losses() {
            self.state().file(file).not_reclaimed.clear();
        }
    }

    /// [`Checker::loss_reported`] if `lost`.
    pub fn loss_reported_if(&self, lost: bool, file: u64, by: Handle) {
        if lost {
            self.loss_reported(file, by);
        }
    }

    /// A file index was assigned.
    pub fn add_index(&self, file: u64) {
        self.state().file(file);
    }

    /// Whether a file index was seen before; a new file must not have it.
    pub fn is_known(&self, file: u64) -> bool {
        self.state().files.contains_key(&file)
    }

    /// The host of an I/O daemon lost power.
    pub fn iod_lost_power(&self, iod: IodId) {
        self.state().lose(PowerLoss::Iod(iod));
    }

    /// The host of the metadata server lost power.
    pub fn mds_lost_power(&self) {
        let mut state = self.state();
        state.trees.iter_mut().for_each(|tree| tree.names.power_lost());
        state.lose(PowerLoss::Mds);
    }
}

impl CheckerState {
    /// Whether changes of names that were not forced may be lost.
    pub fn has_mds_lost_power(&self) -> bool {
        self.losses.iter().any(|loss| matches!(loss, PowerLoss::Mds))
    }

    fn file(&mut self, file: u64) -> &mut CheckedFile {
        self.files.entry(file).or_insert_with(|| CheckedFile {
            data: FileModel::default(),
            layout: None,
            active: BTreeMap::new(),
            open: BTreeMap::new(),
            not_reclaimed: BTreeSet::new(),
        })
    }

    fn lose(&mut self, loss: PowerLoss) {
        self.losses.push(loss);
        self.files.values_mut().for_each(|file| file.lose(loss));
    }
}

impl CheckedFile {
    fn lose(&mut self, loss: PowerLoss) {
        match loss {
            PowerLoss::Iod(iod) => lose(&mut self.data, self.layout.as_ref(), iod),
            PowerLoss::Mds if self.open.is_empty() => self.data.record_may_be_older(),
            PowerLoss::Mds => self.not_reclaimed = self.open.keys().copied().collect(),
        }
    }

    fn close(&mut self, by: Handle) {
        self.open.remove(&by);
        if self.not_reclaimed.remove(&by) && self.not_reclaimed.is_empty() {
            self.data.record_may_be_older();
        }
    }
}

/// Applies a loss of power at the host of one I/O daemon.
fn lose(data: &mut FileModel, layout: Option<&Layout>, iod: IodId) {
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
pub struct TreeCall {
    judge: Checker,
    tree: usize,
    number: u64,
    op: Option<Op>,
}

impl TreeCall {
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
    pub fn check_names<T>(
        &self,
        check: impl FnOnce(&mut NamesModel) -> Result<T, Violation>,
    ) -> Option<T> {
        let outcome = check(&mut self.judge.state().trees[self.tree].names);
        self.judge.check(outcome)
    }
}

impl Drop for TreeCall {
    fn drop(&mut self) {
        self.end(false);
        self.judge.state().trees[self.tree].busy = false;
    }
}

/// A call on a file that is in progress.
pub struct FileCall {
    judge: Checker,
    file: u64,
    number: u64,
    ended: bool,
}

impl FileCall {
    /// A call that changes the file ended.
    pub fn changed(mut self, fate: CallOutcome) {
        self.finish(fate);
    }

    /// A call that reads the file ended: checks what it saw against what was possible.
    pub fn check_seen(mut self, look: impl Fn(&mut FileModel) -> Result<(), Violation>) {
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
                    active.others.iter().for_each(|change| possible.may_have_happened(change));
                    for loss in since {
                        match loss {
                            PowerLoss::Iod(iod) => lose(&mut possible, file.layout.as_ref(), *iod),
                            PowerLoss::Mds if file.not_reclaimed.is_empty() => {
                                possible.record_may_be_older()
                            }
                            PowerLoss::Mds => {}
                        }
                    }
                    active.others.iter().for_each(|change| possible.may_have_happened(change));
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
    pub fn failed(mut self) {
        self.ended = true;
        self.judge.state().file(self.file).active.remove(&self.number);
    }

    fn finish(&mut self, fate: CallOutcome) {
        self.ended = true;
        let mut state = self.judge.state();
        let losses = state.losses.clone();
        if fate != CallOutcome::Done {
            state.unknown += 1;
        }
        let file = state.file(self.file);
        let Some(active) = file.active.remove(&self.number) else { return };
        let Some(change) = active.change else { return };
        match fate {
            CallOutcome::Done if !active.overlapped => file.data.happened(&change),
            CallOutcome::Done | CallOutcome::Partly => file.data.may_have_happened(&change),
            CallOutcome::Unknown => file.data.outcome_unknown(change),
        }
        losses[active.losses..].iter().for_each(|loss| file.lose(*loss));
    }
}

impl Drop for FileCall {
    fn drop(&mut self) {
        if !self.ended {
            self.finish(CallOutcome::Unknown);
        }
    }
}
