//! A loss of power at one event: the changes that must survive, and a choice among those that may.

use std::collections::{HashMap, HashSet};

use super::{Change, Event, History, Kind, Node, Synced, Tree};
use braid_types::Random;

/// Writes are torn at these units, in bytes: old disks write 512 atomically, new disks and page
/// caches 4096.
const SECTORS: [u64; 2] = [512, 4096];
/// One in this many surviving writes is torn.
const TORN_ONE_IN: u64 = 3;
/// One in this many lost writes that would have extended its file leaves the new length.
const GROWN_ONE_IN: u64 = 3;

/// How much survives of what no sync covered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SurvivingShare {
    /// Nothing: the disk wrote nothing on its own.
    Nothing,
    /// Everything: all processes were killed, the disk was not.
    Everything,
    /// Everything before one moment, for all nodes.
    Before,
    /// Everything before a moment that differs for each node; names of one disk stay in order.
    BeforeEach,
    /// Anything: some writes torn, names out of order.
    Scattered,
}

impl SurvivingShare {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Nothing, Self::Everything, Self::Before, Self::BeforeEach, Self::Scattered];
}

/// The effect of a loss of power.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// How much survives of what was not synced.
    pub share: SurvivingShare,
    /// The disks that lost power, by their entry of the root; the others keep everything. `None`:
    /// all.
    pub volumes: Option<HashSet<Node>>,
    /// For all random choices.
    pub seed: u64,
    /// Whether attributes may be lost that a file had before it got a name that survived.
    pub strict: bool,
}

/// The moment just before an event.
pub struct PowerCut<'h> {
    history: &'h History,
    at: usize,
    durable: HashSet<usize>,
}

impl<'h> PowerCut<'h> {
    /// A cut at an event: the events before it have happened.
    pub fn new(history: &'h History, at: usize) -> Self {
        Self { history, at, durable: durable(history, at) }
    }

    /// Whether the change at this event must be in every image.
    pub fn is_durable(&self, event: usize) -> bool {
        self.durable.contains(&event)
    }

    /// Withdraws a promise: the change now counts as never synced, and is lost wherever it may be.
    /// For tests that show that a lost write is noticed.
    pub fn forget(&mut self, event: usize) {
        self.durable.remove(&event);
    }

    /// From now on, names of a disk last in their order: one that must be in the image brings all
    /// earlier ones. POSIX does not promise it; journals of ext4 and XFS do, and btrfs does for a
    /// synced file and what leads to it.
    pub fn keep_order_of_names(&mut self) {
        let names: Vec<(usize, Node)> = self
            .changes()
            .filter(|(_, change)| change.node().is_none())
            .map(|(event, change)| (event, self.volume(change)))
            .collect();
        let mut lasting = HashSet::new();
        for (event, volume) in names.iter().rev() {
            if self.durable.contains(event) {
                lasting.insert(*volume);
            }
            if lasting.contains(volume) {
                self.durable.insert(*event);
            }
        }
    }

    /// The disk after the loss.
    pub fn image(&self, loss: &Loss) -> Tree {
        let mut random = Random::new(loss.seed);
        let mut tree = Tree::new(&self.history.nodes);
        for (change, fate) in self.fates(loss, &mut random) {
            match fate {
                Fate::Sure => tree.apply(change),
                Fate::Kept => keep(&mut tree, change, loss.share, &mut random),
                Fate::Lost => lose(&mut tree, change, loss.share, &mut random),
            }
        }
        tree
    }

    fn fates(&self, loss: &Loss, random: &mut Random) -> Vec<(&'h Change, Fate)> {
        let chance = Chance::new(self.at, loss.share, random);
        let mut moments = HashMap::new();
        let mut fates = Vec::new();
        for (event, change) in self.changes() {
            let spared =
                loss.volumes.as_ref().is_some_and(|lost| !lost.contains(&self.volume(change)));
            let fate = if spared || self.durable.contains(&event) {
                Fate::Sure
            } else if chance.keeps(event, self.group(change), &mut moments, random) {
                Fate::Kept
            } else {
                Fate::Lost
            };
            fates.push((change, fate));
        }
        if !loss.strict {
            attributes_with_names(&mut fates);
        }
        fates
    }

    fn changes(&self) -> impl Iterator<Item = (usize, &'h Change)> {
        self.history.events[..self.at].iter().enumerate().filter_map(|(at, event)| match event {
            Event::Change(change) => Some((at, change)),
            _ => None,
        })
    }

    fn volume(&self, change: &Change) -> Node {
        self.history.volumes[subject(change).0]
    }

    /// The changes that stay in order among themselves: those of a file, or all names of one disk,
    /// which has one journal.
    fn group(&self, change: &Change) -> (bool, Node) {
        (change.node().is_none(), change.node().unwrap_or_else(|| self.volume(change)))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Sure,
    Kept,
    Lost,
}

/// A name that survived leads to a node with the attributes that it had when it got the name: one
/// journal holds both, in order. POSIX does not promise it.
fn attributes_with_names(fates: &mut [(&Change, Fate)]) {
    let mut named = HashSet::new();
    for (change, fate) in fates.iter_mut().rev() {
        match change {
            Change::Names(edits) if *fate != Fate::Lost => {
                named.extend(edits.iter().filter_map(|edit| edit.2))
            }
            Change::Attribute(node, ..) if *fate == Fate::Lost && named.contains(node) => {
                *fate = Fate::Kept
            }
            _ => {}
        }
    }
}

/// The file, or the directory that a name lies in.
fn subject(change: &Change) -> Node {
    match change {
        Change::Names(edits) => edits.last().map_or(Node::ROOT, |(directory, _, _)| *directory),
        other => other.node().unwrap_or(Node::ROOT),
    }
}

struct Chance {
    share: SurvivingShare,
    at: usize,
    moment: usize,
    percent: u64,
}

impl Chance {
    fn new(at: usize, share: SurvivingShare, random: &mut Random) -> Self {
        Self {
            share,
            at,
            moment: random.below(at as u64 + 1) as usize,
            percent: 10 + random.below(81),
        }
    }

    fn keeps(
        &self,
        event: usize,
        group: (bool, Node),
        moments: &mut HashMap<(bool, Node), usize>,
        random: &mut Random,
    ) -> bool {
        match self.share {
            SurvivingShare::Nothing => false,
            SurvivingShare::Everything => true,
            SurvivingShare::Before => event < self.moment,
            SurvivingShare::BeforeEach => {
                event
                    < *moments
                        .entry(group)
                        .or_insert_with(|| random.below(self.at as u64 + 1) as usize)
            }
            SurvivingShare::Scattered => random.below(100) < self.percent,
        }
    }
}

fn keep(tree: &mut Tree, change: &Change, share: SurvivingShare, random: &mut Random) {
    match change {
        Change::Write { node, offset, bytes, .. }
            if share == SurvivingShare::Scattered && random.below(TORN_ONE_IN) == 0 =>
        {
            tear(tree, *node, *offset, bytes, random);
        }
        _ => tree.apply(change),
    }
}

/// Some sectors of a write, the first ones or any.
fn tear(tree: &mut Tree, node: Node, offset: u64, bytes: &[u8], random: &mut Random) {
    let sector = SECTORS[random.below(2) as usize];
    let end = offset + bytes.len() as u64;
    let sectors = end.div_ceil(sector) - offset / sector;
    let first = (random.below(2) == 0).then(|| random.below(sectors));
    for index in 0..sectors {
        let kept = first.map_or_else(|| random.below(2) == 0, |first| index < first);
        if kept {
            let from = ((offset / sector + index) * sector).max(offset);
            let to = ((offset / sector + index + 1) * sector).min(end);
            tree.write(node, from, &bytes[(from - offset) as usize..(to - offset) as usize]);
        }
    }
}

fn lose(tree: &mut Tree, change: &Change, share: SurvivingShare, random: &mut Random) {
    if let (Change::Write { node, offset, bytes, .. }, SurvivingShare::Scattered) = (change, share)
        && random.below(GROWN_ONE_IN) == 0
    {
        tree.grow(*node, offset + bytes.len() as u64);
    }
}

/// The changes before `at` that some sync before `at` covers.
fn durable(history: &History, at: usize) -> HashSet<usize> {
    let mut pending: HashMap<Node, Vec<usize>> = HashMap::new();
    let mut durable = HashSet::new();
    for (index, event) in history.events[..at].iter().enumerate() {
        match event {
            Event::Change(Change::Write { synchronous: true, .. }) => drop(durable.insert(index)),
            Event::Change(change) => pending.entry(subject(change)).or_default().push(index),
            Event::Sync { synced: Synced::Node { node, data_only }, since } => {
                cover(history, pending.get_mut(node), *since, *data_only, &mut durable);
            }
            Event::Sync { synced: Synced::Volume(volume), since } => {
                let nodes =
                    pending.iter_mut().filter(|(node, _)| history.volumes[node.0] == *volume);
                nodes.for_each(|(_, changes)| {
                    cover(history, Some(changes), *since, false, &mut durable)
                });
            }
            Event::Mark(_) => {}
        }
    }
    durable
}

fn cover(
    history: &History,
    pending: Option<&mut Vec<usize>>,
    since: usize,
    data_only: bool,
    to: &mut HashSet<usize>,
) {
    let covered = |index: usize| {
        let attribute = matches!(history.events[index], Event::Change(Change::Attribute(..)));
        index < since && !(attribute && data_only)
    };
    if let Some(pending) = pending {
        to.extend(pending.iter().copied().filter(|index| covered(*index)));
        pending.retain(|index| !covered(*index));
    }
}

impl History {
    /// Whether a node is a directory.
    pub fn is_directory(&self, node: Node) -> bool {
        matches!(self.nodes[node.0], Kind::Directory(_))
    }
}
