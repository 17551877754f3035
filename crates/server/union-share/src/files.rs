//! From the number of a file to its node in the union, and back.
//!
//! ```text
//!   number ── FileTable ──> inode and generation ── Union::find ──> node
//!      |                                                             ^
//!      +── nodes of the last calls, checked by their handle ─────────+
//! ```
//!
//! 1. Each use of a number checks that the inode still is that file. Where the file system has no
//!    handles, the union compares number and creation time of the inode that the name leads to.
//! 2. A node is looked up once by this share, and forgotten when no call uses it: what the kernel
//!    has looked up is counted apart.
//! 3. A node is held together with the directories above it: its name starts there.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use braid_share::{FileIndex, Status, tables::Outcome};
use braid_union::{BranchInode, Found, NodeId, Union};
use rustix::io::Errno;

use crate::{
    file_table::FileTable,
    record::Place,
    status::{OrStatus, status_of},
};

/// Nodes that are held. Half of them are given up when there are more.
const NODES_MAX: usize = 1 << 14;
/// How long a directory's path is used: a direct rename is seen after this time, as on the mount.
const VALID: Duration = Duration::from_secs(1);
/// Directories above a file, where each is found by its name.
const DEPTH_MAX: usize = 512;

/// A node that this share has looked up. Dropping it forgets the lookup.
#[derive(Debug)]
pub(crate) struct NodeRef {
    union: Arc<Union>,
    pub(crate) node: NodeId,
    above: Vec<NodeId>,
    _parent: Option<Arc<NodeRef>>,
    /// Until when the node is used without finding it again. `None`: as long as its handle is
    /// valid.
    until: Option<Instant>,
}

impl Drop for NodeRef {
    fn drop(&mut self) {
        for node in self.above.iter().rev().chain([&self.node]) {
            if *node != NodeId::ROOT {
                self.union.forget(*node, 1);
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Files {
    union: Arc<Union>,
    table: Mutex<FileTable>,
    held: Mutex<Held>,
    root: Arc<NodeRef>,
    /// Whether this process may open files by their handles.
    opens_handles: bool,
}

#[derive(Debug, Default)]
struct Held {
    nodes: HashMap<FileIndex, Arc<NodeRef>>,
    numbers: HashMap<NodeId, FileIndex>,
    /// Open files, which have a node also after their removal; with the number of their opens.
    open: HashMap<FileIndex, (Arc<NodeRef>, usize)>,
}

impl Files {
    /// # Errors
    /// The table cannot be opened.
    pub(crate) fn open(union: Arc<Union>, table: &Path) -> std::io::Result<Self> {
        let table = Mutex::new(FileTable::open(table, union.pool())?);
        let root = union.inodes(NodeId::ROOT).unwrap_or_default();
        let may_open = |inode: &BranchInode| union.check_inode(inode) != Err(Errno::PERM);
        let opens_handles = root.iter().filter(|inode| inode.handle.is_some()).all(may_open);
        let root = NodeRef {
            union: Arc::clone(&union),
            node: NodeId::ROOT,
            above: Vec::new(),
            _parent: None,
            until: None,
        };
        Ok(Self { union, table, held: Mutex::default(), root: Arc::new(root), opens_handles })
    }

    /// The node of a file.
    ///
    /// # Errors
    /// `StaleHandle`: it was removed, or its number is not known.
    pub(crate) fn node(&self, file: FileIndex) -> Outcome<Arc<NodeRef>> {
        self.node_within(file, DEPTH_MAX)
    }

    fn node_within(&self, file: FileIndex, depth: usize) -> Outcome<Arc<NodeRef>> {
        if file == FileIndex::ROOT {
            return Ok(Arc::clone(&self.root));
        }
        let held = {
            let held = self.held();
            if let Some((open, _)) = held.open.get(&file) {
                return Ok(Arc::clone(open));
            }
            held.nodes.get(&file).cloned()
        };
        let places = self.table().places(file);
        let fresh = |held: &Arc<NodeRef>| held.until.is_none_or(|until| Instant::now() < until);
        let Some(held) = held.filter(fresh) else { return self.find(file, &places, depth) };
        let mut failed = Status::StaleHandle;
        for place in places.iter() {
            // The union itself compares what has no handle.
            if place.inode.handle.is_none() {
                return Ok(held);
            }
            match self.union.check_inode(&place.inode) {
                Ok(()) => return Ok(held),
                Err(error) => failed = status_of(error),
            }
        }
        self.let_go(file);
        drop(held);
        if failed == Status::StaleHandle {
            self.table().forget(file);
        }
        Err(failed)
    }

    /// Finds a file that is not held.
    fn find(&self, file: FileIndex, places: &[Place], depth: usize) -> Outcome<Arc<NodeRef>> {
        let mut failed = Status::StaleHandle;
        for place in places {
            match self.find_at(place, depth) {
                Ok(node) => {
                    let node = Arc::new(node);
                    self.hold(file, &node);
                    return Ok(node);
                }
                Err(status) => failed = status,
            }
        }
        let by_handle = places.iter().all(|place| place.inode.handle.is_some());
        if failed == Status::StaleHandle && by_handle {
            self.table().forget(file);
        }
        Err(failed)
    }

    fn find_at(&self, place: &Place, depth: usize) -> Outcome<NodeRef> {
        let union = Arc::clone(&self.union);
        if place.inode.handle.is_some() {
            let found = self.union.find(&place.inode).or_status()?;
            let (node, above) = (found.found.node, found.above);
            let until = found.found.attributes.is_directory().then(|| Instant::now() + VALID);
            return Ok(NodeRef { union, node, above, _parent: None, until });
        }
        // A damaged table could name a directory as its own parent.
        let depth = depth.checked_sub(1).ok_or(Status::StaleHandle)?;
        let (directory, name) = place.name.as_ref().ok_or(Status::StaleHandle)?;
        let parent = self.node_within(*directory, depth)?;
        let found = self.union.look_up(parent.node, name).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => Status::StaleHandle,
            error => status_of(error),
        })?;
        let node = NodeRef {
            union,
            node: found.node,
            above: Vec::new(),
            _parent: Some(parent),
            until: Some(Instant::now() + VALID),
        };
        let same = |inode: &BranchInode| {
            (inode.branch, inode.inode, inode.created)
                == (place.inode.branch, place.inode.inode, place.inode.created)
        };
        match self.union.inodes(found.node).or_status()?.iter().any(same) {
            true => Ok(node),
            false => Err(Status::StaleHandle),
        }
    }

    /// The number and the node of what was just found under a name. It takes over the lookup.
    pub(crate) fn enter(
        &self,
        found: &Found,
        (parent, directory): (&Arc<NodeRef>, FileIndex),
        name: &[u8],
    ) -> Outcome<(FileIndex, Arc<NodeRef>)> {
        let node = NodeRef {
            union: Arc::clone(&self.union),
            node: found.node,
            above: Vec::new(),
            _parent: Some(Arc::clone(parent)),
            until: self.valid_until(found),
        };
        self.enter_node(Arc::new(node), Some((directory, name.into())))
    }

    /// As [`Files::enter`], of the directory above another.
    pub(crate) fn enter_parent(&self, found: &Found) -> Outcome<(FileIndex, Arc<NodeRef>)> {
        if found.node == NodeId::ROOT {
            return Ok((FileIndex::ROOT, Arc::clone(&self.root)));
        }
        let (union, node, above) = (Arc::clone(&self.union), found.node, Vec::new());
        let until = self.valid_until(found);
        self.enter_node(Arc::new(NodeRef { union, node, above, _parent: None, until }), None)
    }

    fn valid_until(&self, found: &Found) -> Option<Instant> {
        let lasts = self.opens_handles && !found.attributes.is_directory();
        (!lasts).then(|| Instant::now() + VALID)
    }

    fn enter_node(
        &self,
        node: Arc<NodeRef>,
        name: Option<(FileIndex, Box<[u8]>)>,
    ) -> Outcome<(FileIndex, Arc<NodeRef>)> {
        if let Some(known) = self.held().numbers.get(&node.node) {
            return Ok((*known, node));
        }
        let mut places = Vec::new();
        for mut inode in self.union.inodes(node.node).or_status()? {
            inode.handle = inode.handle.filter(|_| self.opens_handles);
            let name = name.clone().filter(|_| inode.handle.is_none());
            places.push(Place { inode, name });
        }
        if places.is_empty() {
            return Err(Status::StaleHandle);
        }
        let file = self.table().number(places);
        self.hold(file, &node);
        Ok((file, node))
    }

    /// The number of a listed file, if it is known: `branch` and `inode` are where it is.
    pub(crate) fn known(&self, branch: u8, inode: u64) -> Option<FileIndex> {
        self.table().by_inode(branch, inode)
    }

    /// A file that has no handle has another name now.
    pub(crate) fn renamed(&self, file: FileIndex, directory: FileIndex, name: &[u8]) {
        let mut table = self.table();
        let mut places = table.places(file).to_vec();
        for place in places.iter_mut().filter(|place| place.inode.handle.is_none()) {
            place.name = Some((directory, name.into()));
        }
        table.set(file, places);
    }

    /// A file was moved to another branch: it keeps its number. Nothing here may look up a name.
    pub(crate) fn moved(&self, branch: u8, inode: u64, mut to: BranchInode) {
        let mut table = self.table();
        let Some(file) = table.by_inode(branch, inode) else { return };
        let name = table.places(file).first().and_then(|place| place.name.clone());
        to.handle = to.handle.filter(|_| self.opens_handles);
        let name = name.filter(|_| to.handle.is_none());
        table.set(file, vec![Place { inode: to, name }]);
        table.flush();
        drop(table);
        // It may have been found by its old inode: it is found again.
        self.let_go(file);
    }

    /// A file was removed, or is not found any more.
    pub(crate) fn removed(&self, file: FileIndex) {
        self.let_go(file);
        if !self.held().open.contains_key(&file) {
            self.table().forget(file);
        }
    }

    /// An open of a file begins. It ends with [`Files::closed`].
    pub(crate) fn opened(&self, file: FileIndex, node: &Arc<NodeRef>) {
        let mut held = self.held();
        held.open.entry(file).or_insert_with(|| (Arc::clone(node), 0)).1 += 1;
    }

    /// An open of a file ends.
    pub(crate) fn closed(&self, file: FileIndex) {
        let mut held = self.held();
        let Some((_, opens)) = held.open.get_mut(&file) else { return };
        *opens -= 1;
        if *opens == 0 {
            let last = held.open.remove(&file);
            drop(held);
            drop(last);
        }
    }

    /// Writes the table, so that numbers that were given out are known after a restart.
    pub(crate) fn flush(&self) {
        self.table().flush();
    }

    fn hold(&self, file: FileIndex, node: &Arc<NodeRef>) {
        let mut held = self.held();
        let mut dropped = Vec::new();
        if held.nodes.len() >= NODES_MAX {
            let half: Vec<FileIndex> = held.nodes.keys().step_by(2).copied().collect();
            for file in half {
                dropped.extend(held.remove(file));
            }
        }
        dropped.extend(held.remove(file));
        held.numbers.insert(node.node, file);
        held.nodes.insert(file, Arc::clone(node));
        // Dropping a node takes locks of the union.
        drop(held);
        drop(dropped);
    }

    fn let_go(&self, file: FileIndex) {
        let removed = self.held().remove(file);
        drop(removed);
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> MutexGuard<'_, FileTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn remove(&mut self, file: FileIndex) -> Option<Arc<NodeRef>> {
        let node = self.nodes.remove(&file)?;
        if self.numbers.get(&node.node) == Some(&file) {
            self.numbers.remove(&node.node);
        }
        Some(node)
    }
}
