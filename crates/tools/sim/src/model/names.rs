//! The model of names and attributes: a set of possible trees.
//!
//! A call with an unknown outcome stays pending in every possible tree and may happen once, at any
//! later moment. Each result that a client sees keeps the trees in which it is possible. The trees
//! are small, and only one call at a time uses them.

use std::collections::{BTreeMap, BTreeSet};

use braid_client::{
    Status,
    message::mds::{RenameMode, XattrMode},
};

use super::Violation;

/// With more possible trees than this the model gives up: the tree's state is then unknown.
const POSSIBLE_TREES_MAX: usize = 256;

/// Names a node before its file index is known: the number of the call that created it.
pub type NodeId = u64;

/// The type of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Node {
    kind: Kind,
    mode: u32,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    target: Vec<u8>,
    /// Its file index, once a client saw it.
    index: Option<u64>,
}

/// One possible state of a tree. Paths are relative to its root, whose path is empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct PossibleTree {
    names: BTreeMap<String, NodeId>,
    nodes: BTreeMap<NodeId, Node>,
    /// Calls that may still happen, by number.
    pending: BTreeMap<u64, Op>,
}

/// A call that changes names or attributes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Op {
    /// Create a file; it must not exist when exclusive.
    Create {
        /// The path.
        path: String,
        /// Permission bits.
        mode: u32,
        /// Fail when it exists.
        exclusive: bool,
    },
    /// Create a directory.
    Mkdir {
        /// The path.
        path: String,
        /// Permission bits.
        mode: u32,
    },
    /// Create a symbolic link.
    Symlink {
        /// The path.
        path: String,
        /// The target.
        target: Vec<u8>,
    },
    /// Remove a name of a file.
    Unlink {
        /// The path.
        path: String,
    },
    /// Remove an empty directory.
    Rmdir {
        /// The path.
        path: String,
    },
    /// Rename.
    Rename {
        /// Old name.
        from: String,
        /// New name.
        to: String,
        /// 1 replace, 2 no-replace, 3 exchange.
        mode: u8,
    },
    /// Hard link.
    Link {
        /// The file.
        from: String,
        /// Its new name.
        to: String,
    },
    /// Change the mode.
    Chmod {
        /// The path.
        path: String,
        /// Permission bits.
        mode: u32,
    },
    /// Set an extended attribute.
    SetXattr {
        /// The path.
        path: String,
        /// Its name.
        name: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// 1 either, 2 create, 3 replace.
        mode: u8,
    },
    /// Remove an extended attribute.
    RemoveXattr {
        /// The path.
        path: String,
        /// Its name.
        name: Vec<u8>,
    },
}

/// What a client saw of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenAttributes {
    /// Its file index.
    pub index: u64,
    /// Its type.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Number of links.
    pub links: u32,
}

/// The possible states of one tree.
#[derive(Clone, Debug)]
pub struct NamesModel {
    worlds: BTreeSet<PossibleTree>,
    /// Every possible tree since the last time when everything was forced to disk.
    since_sync: BTreeSet<PossibleTree>,
    lost: bool,
}

impl Op {
    /// The paths that the call names.
    pub fn paths(&self) -> Vec<&str> {
        match self {
            Self::Rename { from, to, .. } | Self::Link { from, to } => vec![from, to],
            Self::Create { path, .. }
            | Self::Mkdir { path, .. }
            | Self::Symlink { path, .. }
            | Self::Unlink { path }
            | Self::Rmdir { path }
            | Self::Chmod { path, .. }
            | Self::SetXattr { path, .. }
            | Self::RemoveXattr { path, .. } => vec![path],
        }
    }
}

impl NamesModel {
    /// A tree that has only its root.
    pub fn new(root_mode: u32) -> Self {
        let root = Node {
            kind: Kind::Directory,
            mode: root_mode,
            xattrs: BTreeMap::new(),
            target: vec![],
            index: None,
        };
        let world = PossibleTree {
            names: BTreeMap::from([(String::new(), 0)]),
            nodes: BTreeMap::from([(0, root)]),
            pending: BTreeMap::new(),
        };
        let worlds = BTreeSet::from([world]);
        Self { since_sync: worlds.clone(), worlds, lost: false }
    }

    /// Whether there were more possible trees than the model follows.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// A call's outcome: the node that it created or found, or the refusal.
    ///
    /// # Errors
    /// I7 when no possible tree allows it.
    pub fn done(
        &mut self,
        number: u64,
        op: &Op,
        outcome: Result<Option<SeenAttributes>, Status>,
    ) -> Result<(), Violation> {
        let after = |mut world: PossibleTree| {
            let expected = world.apply(number, op);
            match (expected, outcome) {
                (Ok(node), Ok(seen)) => {
                    seen.is_none_or(|seen| world.bind(node, seen)).then_some(world)
                }
                (Err(possible), Err(status)) => possible.contains(&status).then_some(world),
                _ => None,
            }
        };
        self.keep(after, || format!("{op:?} gave {outcome:?}"))
    }

    /// The outcome is unknown: the call may have happened, may happen later, or never.
    pub fn unknown(&mut self, number: u64, op: &Op) {
        let worlds = std::mem::take(&mut self.worlds);
        let pending = |mut world: PossibleTree| {
            world.pending.insert(number, op.clone());
            world
        };
        self.worlds = worlds.into_iter().map(pending).collect();
        self.note();
    }

    /// A client looked a path up.
    ///
    /// # Errors
    /// I7.
    pub fn stat(
        &mut self,
        path: &str,
        outcome: Result<SeenAttributes, Status>,
    ) -> Result<(), Violation> {
        let after = |mut world: PossibleTree| match (world.find(path), outcome) {
            (Ok(node), Ok(seen)) => world.bind(Some(node), seen).then_some(world),
            (Err(possible), Err(status)) => possible.contains(&status).then_some(world),
            _ => None,
        };
        self.keep(after, || format!("stat {path:?} gave {outcome:?}"))
    }

    /// A client opened a file by its path for writing; symbolic links were followed.
    ///
    /// # Errors
    /// I7.
    pub fn open(
        &mut self,
        path: &str,
        outcome: Result<SeenAttributes, Status>,
    ) -> Result<(), Violation> {
        let after = |mut world: PossibleTree| {
            let node = world.find(path).map(|node| (node, world.nodes[&node].kind));
            match (node, outcome) {
                (Ok((node, Kind::File)), Ok(seen)) => world.bind(Some(node), seen).then_some(world),
                (Ok((_, Kind::Directory)), Err(Status::IsDirectory)) => Some(world),
                // The workload's symbolic links have no target.
                (Ok((_, Kind::Symlink)), Err(Status::NotFound)) => Some(world),
                (Err(possible), Err(status)) => possible.contains(&status).then_some(world),
                _ => None,
            }
        };
        self.keep(after, || format!("open {path:?} gave {outcome:?}"))
    }

    /// A client listed a directory while no change of it was in progress.
    ///
    /// # Errors
    /// I7.
    pub fn list(
        &mut self,
        path: &str,
        outcome: Result<&[String], Status>,
    ) -> Result<(), Violation> {
        if let Ok(names) = outcome
            && names.iter().collect::<BTreeSet<_>>().len() != names.len()
        {
            return Err(Violation::new(
                "I7",
                format!("a listing of {path:?} has a name twice: {names:?}"),
            ));
        }
        let after = |world: PossibleTree| match (world.find(path), outcome) {
            (Ok(node), Ok(names)) if world.nodes[&node].kind == Kind::Directory => {
                let seen: BTreeSet<&str> = names.iter().map(String::as_str).collect();
                (world.children(path).collect::<BTreeSet<_>>() == seen).then_some(world)
            }
            (Ok(node), Err(Status::NotDirectory)) if world.nodes[&node].kind == Kind::File => {
                Some(world)
            }
            // The workload's symbolic links have no target.
            (Ok(node), Err(Status::NotFound | Status::NotDirectory))
                if world.nodes[&node].kind == Kind::Symlink =>
            {
                Some(world)
            }
            (Err(possible), Err(status)) => possible.contains(&status).then_some(world),
            _ => None,
        };
        self.keep(after, || format!("a listing of {path:?} gave {outcome:?}"))
    }

    /// A client read an extended attribute.
    ///
    /// # Errors
    /// I7.
    pub fn xattr(
        &mut self,
        path: &str,
        name: &[u8],
        outcome: Result<&[u8], Status>,
    ) -> Result<(), Violation> {
        let after = |world: PossibleTree| match (world.find(path), outcome) {
            (Ok(node), Ok(value)) => (world.nodes[&node].xattrs.get(name).map(Vec::as_slice)
                == Some(value))
            .then_some(world),
            (Ok(node), Err(Status::NotPermitted)) if world.nodes[&node].kind == Kind::Symlink => {
                Some(world)
            }
            (Ok(node), Err(Status::NoAttribute)) => {
                (!world.nodes[&node].xattrs.contains_key(name)).then_some(world)
            }
            (Err(possible), Err(status)) => possible.contains(&status).then_some(world),
            _ => None,
        };
        self.keep(after, || format!("attribute {name:?} of {path:?} gave {outcome:?}"))
    }

    /// Everything so far was forced to disk (I6).
    pub fn synced(&mut self) {
        self.since_sync = self.worlds.clone();
    }

    /// The metadata server's host lost power: changes that were not forced may be lost, the newest
    /// first.
    pub fn power_lost(&mut self) {
        self.worlds = std::mem::take(&mut self.since_sync);
        self.note();
    }

    /// File indices that the tree may have, in every possible state.
    pub fn indices(&self) -> BTreeSet<u64> {
        let of = |world: &PossibleTree| {
            world.names.values().filter_map(|node| world.nodes[node].index).collect::<Vec<_>>()
        };
        self.worlds.iter().flat_map(of).collect()
    }

    /// Every path that exists in some possible state.
    pub fn paths(&self) -> BTreeSet<String> {
        self.worlds.iter().flat_map(|world| world.names.keys().cloned()).collect()
    }

    fn keep(
        &mut self,
        after: impl Fn(PossibleTree) -> Option<PossibleTree>,
        what: impl FnOnce() -> String,
    ) -> Result<(), Violation> {
        if self.lost {
            return Ok(());
        }
        let Some(possible) = self.closure() else { return Ok(()) };
        let cached: BTreeSet<PossibleTree> = possible.iter().cloned().filter_map(after).collect();
        if cached.is_empty() {
            let worlds: Vec<String> =
                possible.iter().take(4).map(PossibleTree::to_string).collect();
            let what =
                format!("{}; possible worlds ({}): {}", what(), possible.len(), worlds.join(" | "));
            return Err(Violation::new("I7", what));
        }
        self.worlds = cached;
        self.note();
        Ok(())
    }

    /// Every state that results when any of the pending calls happen now, in any order.
    fn closure(&mut self) -> Option<BTreeSet<PossibleTree>> {
        let mut all = self.worlds.clone();
        let mut new: Vec<PossibleTree> = all.iter().cloned().collect();
        while let Some(world) = new.pop() {
            for (number, op) in world.pending.clone() {
                let mut next = world.clone();
                next.pending.remove(&number);
                // A pending call that is refused on arrival changes nothing.
                let _ = next.apply(number, &op);
                if all.insert(next.clone()) {
                    new.push(next);
                }
            }
            if all.len() > POSSIBLE_TREES_MAX {
                self.lost = true;
                return None;
            }
        }
        Some(all)
    }

    fn note(&mut self) {
        self.since_sync.extend(self.worlds.iter().cloned());
        if self.worlds.len() > POSSIBLE_TREES_MAX || self.since_sync.len() > 4 * POSSIBLE_TREES_MAX
        {
            self.lost = true;
        }
    }
}

/// The possible refusals.
type Refusals = Vec<Status>;

impl PossibleTree {
    fn children<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a str> {
        self.names.keys().filter(|name| !name.is_empty()).filter_map(move |name| {
            let (parent, last) = split(name);
            (parent == path).then_some(last)
        })
    }

    fn find(&self, path: &str) -> Result<NodeId, Refusals> {
        if let Some(node) = self.names.get(path) {
            return Ok(*node);
        }
        let parent = self.find(split(path).0)?;
        match self.nodes[&parent].kind {
            Kind::File => Err(vec![Status::NotDirectory]),
            // The workload's symbolic links have no target.
            Kind::Directory | Kind::Symlink => Err(vec![Status::NotFound]),
        }
    }

    /// The parent exists and is a directory.
    fn parent(&self, path: &str) -> Result<(), Refusals> {
        let parent = self.find(split(path).0)?;
        match self.nodes[&parent].kind {
            Kind::Directory => Ok(()),
            Kind::File => Err(vec![Status::NotDirectory]),
            Kind::Symlink => Err(vec![Status::NotFound]),
        }
    }

    fn kind(&self, path: &str) -> Result<Kind, Refusals> {
        self.find(path).map(|node| self.nodes[&node].kind)
    }

    /// Executes the call; returns the node that it created or found.
    fn apply(&mut self, number: u64, op: &Op) -> Result<Option<NodeId>, Refusals> {
        match op {
            Op::Create { path, mode, exclusive } => match self.find(path) {
                Ok(_) if *exclusive => Err(vec![Status::Exists]),
                Ok(node) if self.nodes[&node].kind == Kind::File => Ok(Some(node)),
                Ok(node) if self.nodes[&node].kind == Kind::Directory => {
                    Err(vec![Status::IsDirectory])
                }
                // The workload's symbolic links have no target.
                Ok(_) => Err(vec![Status::NotFound]),
                Err(_) => self.make(number, path, Kind::File, *mode, &[]),
            },
            Op::Mkdir { path, mode } => self.make_new(number, path, Kind::Directory, *mode, &[]),
            Op::Symlink { path, target } => {
                self.make_new(number, path, Kind::Symlink, 0o777, target)
            }
            Op::Unlink { path } => match self.kind(path)? {
                Kind::Directory => Err(vec![Status::IsDirectory]),
                _ => self.remove(path),
            },
            Op::Rmdir { path } => match self.kind(path)? {
                Kind::Directory if self.children(path).next().is_some() => {
                    Err(vec![Status::NotEmpty])
                }
                Kind::Directory => self.remove(path),
                _ => Err(vec![Status::NotDirectory]),
            },
            Op::Rename { from, to, mode } => self.rename(from, to, *mode),
            Op::Link { from, to } => {
                let node = self.find(from)?;
                self.parent(to)?;
                let mut refused = Vec::new();
                if self.nodes[&node].kind == Kind::Directory {
                    refused.extend([Status::NotPermitted, Status::IsDirectory]);
                }
                if self.names.contains_key(to) {
                    refused.push(Status::Exists);
                }
                if !refused.is_empty() {
                    return Err(refused);
                }
                self.names.insert(to.clone(), node);
                Ok(Some(node))
            }
            Op::Chmod { path, mode } => {
                let node = self.find(path)?;
                self.node(node).mode = *mode;
                Ok(Some(node))
            }
            Op::SetXattr { path, name, value, mode } => {
                let node = self.find(path)?;
                self.takes_xattrs(node)?;
                match (mode, self.nodes[&node].xattrs.contains_key(name)) {
                    (2, true) => return Err(vec![Status::Exists]),
                    (3, false) => return Err(vec![Status::NoAttribute]),
                    _ => {}
                }
                self.node(node).xattrs.insert(name.clone(), value.clone());
                Ok(None)
            }
            Op::RemoveXattr { path, name } => {
                let node = self.find(path)?;
                self.takes_xattrs(node)?;
                let removed = self.node(node).xattrs.remove(name);
                removed.map(|_| None).ok_or_else(|| vec![Status::NoAttribute])
            }
        }
    }

    /// xattr(7): `user.` attributes are for files and directories only.
    fn takes_xattrs(&self, node: NodeId) -> Result<(), Refusals> {
        if self.nodes[&node].kind == Kind::Symlink {
            Err(vec![Status::NotPermitted])
        } else {
            Ok(())
        }
    }

    fn node(&mut self, node: NodeId) -> &mut Node {
        self.nodes.get_mut(&node).expect("a name leads to a node")
    }

    fn make_new(
        &mut self,
        number: u64,
        path: &str,
        kind: Kind,
        mode: u32,
        target: &[u8],
    ) -> Result<Option<NodeId>, Refusals> {
        if self.find(path).is_ok() {
            return Err(vec![Status::Exists]);
        }
        self.make(number, path, kind, mode, target)
    }

    fn make(
        &mut self,
        number: u64,
        path: &str,
        kind: Kind,
        mode: u32,
        target: &[u8],
    ) -> Result<Option<NodeId>, Refusals> {
        self.parent(path)?;
        let node =
            Node { kind, mode, xattrs: BTreeMap::new(), target: target.to_vec(), index: None };
        self.nodes.insert(number, node);
        self.names.insert(path.to_owned(), number);
        Ok(Some(number))
    }

    fn remove(&mut self, path: &str) -> Result<Option<NodeId>, Refusals> {
        if let Some(node) = self.names.remove(path) {
            self.forget(node);
        }
        Ok(None)
    }

    fn forget(&mut self, node: NodeId) {
        if !self.names.values().any(|named| *named == node) {
            self.nodes.remove(&node);
        }
    }

    fn rename(&mut self, from: &str, to: &str, mode: u8) -> Result<Option<NodeId>, Refusals> {
        let mut refused = Vec::new();
        let source = self.find(from);
        let parent = self.parent(to);
        if let Err(why) = &source {
            refused.extend(why);
        }
        if let Err(why) = &parent {
            refused.extend(why);
        }
        let inside = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
        };
        if source.is_ok() && (inside(to, from) || (mode == 3 && inside(from, to))) {
            refused.push(Status::WouldLoop);
        }
        let target = self.names.get(to).copied();
        match (mode, target) {
            (2, Some(_)) => refused.push(Status::Exists),
            (3, None) => refused.push(Status::NotFound),
            (1, Some(target)) => {
                refused.extend(self.not_replaced(source.as_ref().ok(), target, from, to))
            }
            _ => {}
        }
        let (Ok(source), true) = (source, refused.is_empty()) else { return Err(refused) };
        if target == Some(source) {
            return Ok(None);
        }
        let moved = self.take(from);
        let replaced = self.take(to);
        self.put(to, moved);
        if mode == 3 {
            self.put(from, replaced);
        } else if let Some(target) = target {
            self.forget(target);
        }
        Ok(None)
    }

    /// The reasons to refuse a replacing rename.
    fn not_replaced(
        &self,
        source: Option<&NodeId>,
        target: NodeId,
        from: &str,
        to: &str,
    ) -> Refusals {
        let Some(source) = source else { return Vec::new() };
        if *source == target {
            return Vec::new();
        }
        let directory = |node: &NodeId| self.nodes[node].kind == Kind::Directory;
        let mut refused = Vec::new();
        match (directory(source), directory(&target)) {
            (true, false) => refused.push(Status::NotDirectory),
            (false, true) => refused.push(Status::IsDirectory),
            _ => {}
        }
        if directory(&target) && self.children(to).next().is_some() {
            // A target above the source is not empty: both refusals are correct.
            refused.push(Status::NotEmpty);
            if from.starts_with(to) {
                refused.push(Status::WouldLoop);
            }
        }
        refused
    }

    /// Removes a name and everything below it from the tree.
    fn take(&mut self, path: &str) -> Vec<(String, NodeId)> {
        let below = format!("{path}/");
        let taken: Vec<String> = self
            .names
            .keys()
            .filter(|name| *name == path || name.starts_with(&below))
            .cloned()
            .collect();
        let take = |name: String| {
            let node = self.names.remove(&name)?;
            Some((name[path.len()..].to_owned(), node))
        };
        taken.into_iter().filter_map(take).collect()
    }

    fn put(&mut self, path: &str, taken: Vec<(String, NodeId)>) {
        self.names.extend(taken.into_iter().map(|(rest, node)| (format!("{path}{rest}"), node)));
    }

    /// Whether the node may be the one that was seen; its index is known from then on.
    fn bind(&mut self, node: Option<NodeId>, seen: SeenAttributes) -> bool {
        let Some(node) = node else { return true };
        let links = self.names.values().filter(|named| **named == node).count() as u32;
        let taken = self
            .nodes
            .iter()
            .any(|(other, known)| *other != node && known.index == Some(seen.index));
        let known = self.node(node);
        let same = known.kind == seen.kind
            && known.index.is_none_or(|index| index == seen.index)
            && (known.kind == Kind::Symlink || known.mode == seen.mode)
            && (known.kind == Kind::Directory || links == seen.links);
        known.index = Some(seen.index);
        same && !taken
    }
}

impl std::fmt::Display for PossibleTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, node) in &self.names {
            let known = &self.nodes[node];
            let index = known.index.map_or("?".to_owned(), |index| format!("{index:x}"));
            write!(f, "/{name}={:?}:{index}:{:o} ", known.kind, known.mode)?;
        }
        if self.pending.is_empty() { Ok(()) } else { write!(f, "pending {:?}", self.pending) }
    }
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The wire's mode of a rename.
pub fn rename_mode(mode: u8) -> RenameMode {
    match mode {
        2 => RenameMode::NoReplace,
        3 => RenameMode::Exchange,
        _ => RenameMode::Replace,
    }
}

/// The wire's mode of setting an attribute.
pub fn xattr_mode(mode: u8) -> XattrMode {
    match mode {
        2 => XattrMode::Create,
        3 => XattrMode::Replace,
        _ => XattrMode::Either,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(path: &str) -> Op {
        Op::Create { path: path.into(), mode: 0o644, exclusive: true }
    }

    fn seen(index: u64) -> SeenAttributes {
        SeenAttributes { index, kind: Kind::File, mode: 0o644, links: 1 }
    }

    #[test]
    fn an_unknown_create_may_show_later_but_not_vanish_again() {
        let mut names = NamesModel::new(0o755);
        names.unknown(1, &create("a"));
        assert_eq!(names.stat("a", Err(Status::NotFound)), Ok(()));
        assert_eq!(names.stat("a", Ok(seen(7))), Ok(()));
        assert!(names.stat("a", Err(Status::NotFound)).is_err());
    }

    #[test]
    fn a_call_is_not_done_twice() {
        let mut names = NamesModel::new(0o755);
        names.unknown(1, &create("a"));
        assert_eq!(names.stat("a", Ok(seen(7))), Ok(()));
        assert_eq!(names.done(2, &Op::Unlink { path: "a".into() }, Ok(None)), Ok(()));
        assert_eq!(names.stat("a", Ok(seen(8))).unwrap_err().rule, "I7");
    }

    #[test]
    fn a_rename_is_whole() {
        let mut names = NamesModel::new(0o755);
        names.done(1, &create("a"), Ok(Some(seen(7)))).unwrap();
        names.unknown(2, &Op::Rename { from: "a".into(), to: "b".into(), mode: 1 });
        assert_eq!(names.stat("b", Ok(seen(7))), Ok(()));
        assert!(names.clone().stat("a", Ok(seen(7))).is_err());
        assert_eq!(names.list("", Ok(&["b".to_owned()])), Ok(()));
    }

    #[test]
    fn power_takes_back_only_what_was_not_forced() {
        let mut names = NamesModel::new(0o755);
        names.done(1, &create("a"), Ok(Some(seen(7)))).unwrap();
        names.synced();
        names.done(2, &create("b"), Ok(Some(seen(8)))).unwrap();
        names.power_lost();
        assert!(names.clone().stat("a", Err(Status::NotFound)).is_err());
        assert_eq!(names.clone().stat("b", Err(Status::NotFound)), Ok(()));
        assert_eq!(names.stat("b", Ok(seen(8))), Ok(()));
    }
}
