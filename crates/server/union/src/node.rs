//! The files that the kernel knows: a node for each.
//!
//! 1. A node is known by its inode on a branch. A directory has several; they are all its copies.
//! 2. The names of a node are those by which it was found, the latest first. A file with two links
//!    has two names in one node once both were looked up.
//! 3. A number of a node is never used again while the union runs.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::io::Errno;

use crate::{
    KernelHandle, Result, attributes::Time, directory_names::DirectoryNames,
    directory_placement::KnownPlacement, open_files::OpenFile, saved_names::Inode,
    striped::NodeStriping,
};

/// The number of a node. The root is 1, as in FUSE.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root of the union.
    pub const ROOT: Self = Self(1);
}

/// A lock whose holder panicked is still usable: each change under these locks is one assignment or
/// one call of a map.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where an inode is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Copy {
    /// Position of the branch in the pool.
    pub(crate) branch: usize,
    /// The inode there.
    pub(crate) inode: u64,
    /// When it was created: an inode's number is used again after it was removed.
    pub(crate) created: Time,
}

impl Copy {
    pub(crate) fn of(branch: usize, inode: Inode) -> Self {
        Self { branch, inode: inode.number, created: inode.created }
    }

    /// A directory may be on a branch whose disk is missing, and its inode there is not known.
    pub(crate) fn unknown(branch: usize) -> Self {
        Self::of(branch, Inode::default())
    }

    /// Whether the inode is known: only then it stands for one node.
    fn is_known(&self) -> bool {
        *self != Self::unknown(self.branch)
    }
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    pub(crate) directory: NodeId,
    pub(crate) name: Box<[u8]>,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    /// `st_ino`.
    pub(crate) index: u64,
    pub(crate) is_directory: bool,
    /// Reads, writes and changes of the file hold it shared; a move of the open file, exclusive. It
    /// is taken before [`crate::Union::renames`].
    pub(crate) io: Arc<RwLock<()>>,
    /// Of a directory.
    pub(crate) names: DirectoryNames,
    /// Another file system is mounted on it, or above it on its branch: no events of it come.
    elsewhere: AtomicBool,
    state: Mutex<NodeState>,
}

#[derive(Debug, Default)]
pub(crate) struct NodeState {
    /// In the order of the branches; one, unless it is a directory.
    pub(crate) copies: Vec<Copy>,
    pub(crate) names: Vec<Name>,
    /// How the inode is found without a name; only of nodes that were found by it.
    pub(crate) handle: Option<Arc<KernelHandle>>,
    /// Open files of the node. They serve calls on a file that has no name any more.
    pub(crate) open: Vec<Arc<OpenFile>>,
    pub(crate) striping: NodeStriping,
    /// Of a directory: where its new files are created.
    pub(crate) placement: Option<KnownPlacement>,
}

impl Node {
    /// Held by a call that changes the file.
    pub(crate) fn changes(&self) -> RwLockReadGuard<'_, ()> {
        self.io.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, NodeState> {
        lock(&self.state)
    }

    pub(crate) fn is_elsewhere(&self) -> bool {
        self.elsewhere.load(Ordering::Relaxed)
    }

    pub(crate) fn set_elsewhere(&self, elsewhere: bool) {
        self.elsewhere.store(elsewhere, Ordering::Relaxed);
    }

    pub(crate) fn copies(&self) -> Vec<Copy> {
        self.state().copies.clone()
    }

    pub(crate) fn copy_on(&self, branch: usize) -> Option<Copy> {
        self.state().copies.iter().find(|copy| copy.branch == branch).copied()
    }

    /// The name by which it was found last.
    ///
    /// # Errors
    /// `ESTALE`: it has none any more.
    pub(crate) fn first_name(&self) -> Result<Name> {
        self.state().names.first().cloned().ok_or(Errno::STALE)
    }

    /// The directory has a copy on the branch from now on.
    pub(crate) fn add_copy(&self, copy: Copy) {
        let mut state = self.state();
        state.copies.retain(|known| known.branch != copy.branch);
        state.insert_copy(copy);
    }
}

impl NodeState {
    /// The file was found by this name, or has got it. It comes first: one that was found earlier
    /// may be that of another file by now.
    pub(crate) fn note_name(&mut self, name: Name) {
        self.names.retain(|known| *known != name);
        self.names.insert(0, name);
    }

    fn insert_copy(&mut self, copy: Copy) {
        let at = self.copies.partition_point(|known| known.branch < copy.branch);
        self.copies.insert(at, copy);
    }
}

/// All nodes.
#[derive(Debug)]
pub(crate) struct NodeTable {
    tables: Mutex<Tables>,
}

#[derive(Debug)]
struct Tables {
    nodes: HashMap<NodeId, Known>,
    by_inode: HashMap<(usize, u64), NodeId>,
    next: u64,
}

#[derive(Debug)]
struct Known {
    node: Arc<Node>,
    /// Replies with this node that the kernel has not dropped.
    lookups: u64,
}

impl NodeTable {
    pub(crate) fn new(root: Vec<Copy>, index: u64) -> Self {
        let state = NodeState { copies: root, ..NodeState::default() };
        let known = state.copies.iter().filter(|copy| copy.is_known());
        let by_inode = known.map(|copy| ((copy.branch, copy.inode), NodeId::ROOT)).collect();
        let (id, io, state) = (NodeId::ROOT, Arc::default(), Mutex::new(state));
        let elsewhere = AtomicBool::new(false);
        let names = DirectoryNames::default();
        let root = Node { id, index, is_directory: true, io, names, elsewhere, state };
        let nodes = HashMap::from([(root.id, Known { node: Arc::new(root), lookups: 1 })]);
        Self { tables: Mutex::new(Tables { nodes, by_inode, next: 2 }) }
    }

    /// # Errors
    /// `ESTALE`: the kernel was never given this node, or has forgotten it.
    pub(crate) fn get(&self, id: NodeId) -> Result<Arc<Node>> {
        let tables = lock(&self.tables);
        tables.nodes.get(&id).map(|known| Arc::clone(&known.node)).ok_or(Errno::STALE)
    }

    /// The node of the inode, if the kernel knows it.
    pub(crate) fn of_inode(&self, copy: Copy) -> Option<Arc<Node>> {
        if !copy.is_known() {
            return None;
        }
        let tables = lock(&self.tables);
        let id = tables.by_inode.get(&(copy.branch, copy.inode))?;
        let node = &tables.nodes.get(id)?.node;
        node.copy_on(copy.branch).is_some_and(|known| known == copy).then(|| Arc::clone(node))
    }

    /// The node of an inode's number, whichever file that is by now.
    pub(crate) fn at_inode(&self, branch: usize, inode: u64) -> Option<Arc<Node>> {
        let tables = lock(&self.tables);
        let id = tables.by_inode.get(&(branch, inode))?;
        tables.nodes.get(id).map(|known| Arc::clone(&known.node))
    }

    /// All nodes.
    pub(crate) fn all(&self) -> Vec<Arc<Node>> {
        lock(&self.tables).nodes.values().map(|known| Arc::clone(&known.node)).collect()
    }

    /// Counts a lookup of the node with these copies, which is new or known. `gone`: copies of a
    /// known directory that are not there any more; its other copies stay. `index`: the `st_ino`
    /// of a new one.
    pub(crate) fn enter(
        &self,
        is_directory: bool,
        copies: Vec<Copy>,
        gone: &[Copy],
        name: Option<Name>,
        index: u64,
    ) -> Arc<Node> {
        let mut tables = lock(&self.tables);
        let tables = &mut *tables;
        let known = copies.iter().filter(|copy| copy.is_known()).find_map(|copy| {
            let id = tables.by_inode.get(&(copy.branch, copy.inode))?;
            let known = tables.nodes.get(id)?;
            let same = known.node.is_directory == is_directory
                && known.node.copy_on(copy.branch).is_some_and(|ours| ours == *copy);
            same.then_some(*id)
        });
        let id = known.unwrap_or_else(|| {
            let id = NodeId(tables.next);
            tables.next += 1;
            let (io, names, state) = (Arc::default(), DirectoryNames::default(), Mutex::default());
            let elsewhere = AtomicBool::new(false);
            let node = Arc::new(Node { id, index, is_directory, io, names, elsewhere, state });
            tables.nodes.insert(id, Known { node, lookups: 0 });
            id
        });
        for copy in copies.iter().filter(|copy| copy.is_known()) {
            tables.by_inode.insert((copy.branch, copy.inode), id);
        }
        let known = tables.nodes.get_mut(&id).expect("entered above");
        known.lookups += 1;
        let mut state = known.node.state();
        for old in std::mem::replace(&mut state.copies, copies) {
            if state.copies.iter().any(|copy| copy.branch == old.branch && copy.inode == old.inode)
            {
                continue;
            }
            let replaced = state.copies.iter().any(|copy| copy.branch == old.branch);
            if is_directory && !replaced && !gone.contains(&old) {
                // Another thread created the directory there after this lookup asked the branch.
                state.insert_copy(old);
                continue;
            }
            // The directory was removed from a branch by somebody else.
            if tables.by_inode.get(&(old.branch, old.inode)) == Some(&id) {
                tables.by_inode.remove(&(old.branch, old.inode));
            }
        }
        if let Some(name) = name {
            if is_directory {
                state.names.clear();
            }
            state.note_name(name);
        }
        drop(state);
        Arc::clone(&known.node)
    }

    /// Counts a lookup of a node that is known.
    ///
    /// # Errors
    /// `ESTALE`: it is not known any more.
    pub(crate) fn look_up_again(&self, id: NodeId) -> Result<()> {
        let mut tables = lock(&self.tables);
        tables.nodes.get_mut(&id).ok_or(Errno::STALE)?.lookups += 1;
        Ok(())
    }

    /// A directory was created on another branch.
    pub(crate) fn add_copy(&self, node: &Node, copy: Copy) {
        lock(&self.tables).by_inode.insert((copy.branch, copy.inode), node.id);
        node.add_copy(copy);
    }

    /// The directory was removed from a branch.
    pub(crate) fn remove_copy(&self, node: &Node, branch: usize) {
        let mut tables = lock(&self.tables);
        let mut state = node.state();
        let Some(at) = state.copies.iter().position(|copy| copy.branch == branch) else { return };
        let copy = state.copies.remove(at);
        if tables.by_inode.get(&(copy.branch, copy.inode)) == Some(&node.id) {
            tables.by_inode.remove(&(copy.branch, copy.inode));
        }
    }

    /// A branch left the pool: nothing is there any more.
    pub(crate) fn remove_branch(&self, branch: usize) {
        let mut tables = lock(&self.tables);
        let tables = &mut *tables;
        tables.by_inode.retain(|(at, _), _| *at != branch);
        for known in tables.nodes.values() {
            known.node.state().copies.retain(|copy| copy.branch != branch);
        }
    }

    /// The file is on another branch from now on.
    pub(crate) fn moved(&self, old: Copy, new: Copy) {
        let mut tables = lock(&self.tables);
        let tables = &mut *tables;
        let Some(id) = tables.by_inode.remove(&(old.branch, old.inode)) else { return };
        let Some(known) = tables.nodes.get(&id) else { return };
        if known.node.copy_on(old.branch) == Some(old) {
            known.node.state().copies = vec![new];
            tables.by_inode.insert((new.branch, new.inode), id);
        }
    }

    /// The kernel has dropped lookups. Returns whether it does not know the node any more.
    pub(crate) fn forget(&self, id: NodeId, lookups: u64) -> bool {
        let mut tables = lock(&self.tables);
        let Some(known) = tables.nodes.get_mut(&id) else { return false };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups > 0 || id == NodeId::ROOT {
            return false;
        }
        let Some(known) = tables.nodes.remove(&id) else { return false };
        for copy in known.node.copies() {
            if tables.by_inode.get(&(copy.branch, copy.inode)) == Some(&id) {
                tables.by_inode.remove(&(copy.branch, copy.inode));
            }
        }
        true
    }

    /// How many nodes the kernel knows.
    pub(crate) fn len(&self) -> usize {
        lock(&self.tables).nodes.len()
    }
}
