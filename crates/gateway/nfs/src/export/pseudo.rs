//! The pseudo file system: the directories above exports.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use braid_share::FileIndex;

use crate::handle::long_hash;

/// A directory of the pseudo file system.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PseudoNode(usize);

impl PseudoNode {
    /// The root of the server's name space.
    pub const ROOT: Self = Self(0);
}

/// What is known about a directory of the pseudo file system.
#[derive(Debug)]
pub struct PseudoDirectory {
    /// Number in file handles and attribute `fileid`.
    pub number: u64,
    /// The directory above; `None` for the root.
    pub parent: Option<PseudoNode>,
    /// Index of the export that begins here.
    pub(super) export: Option<usize>,
    /// Entries by name.
    children: BTreeMap<String, PseudoNode>,
    /// The directory of the file system with this path, as it was last looked up; 0 if it never
    /// was. It changes when somebody replaces the directory.
    file: AtomicU64,
}

/// An entry of a pseudo directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PseudoEntry<'a> {
    /// Cookie after the entry.
    pub cookie: u64,
    /// Its name.
    pub name: &'a str,
    /// The directory.
    pub node: PseudoNode,
}

/// Cookies 0 to 2 are reserved. RFC 8881 18.23.3.
const COOKIE_FIRST: u64 = 3;

impl PseudoDirectory {
    /// The entry with this name.
    pub fn child(&self, name: &[u8]) -> Option<PseudoNode> {
        let name = std::str::from_utf8(name).ok()?;
        self.children.get(name).copied()
    }

    /// Whether this is `file`, as it was last looked up.
    pub(super) fn is(&self, file: FileIndex) -> bool {
        self.file.load(Ordering::Acquire) == file.0
    }

    /// Whether it was ever looked up.
    pub(super) fn is_known(&self) -> bool {
        self.file.load(Ordering::Acquire) != 0
    }

    /// Notes the directory of the file system with this path.
    pub(super) fn set_file(&self, file: FileIndex) {
        self.file.store(file.0, Ordering::Release);
    }

    /// Whether there are entries.
    pub fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// The entries after `cookie`, 0 for all.
    pub fn entries_after(&self, cookie: u64) -> impl Iterator<Item = PseudoEntry<'_>> {
        (COOKIE_FIRST..)
            .zip(&self.children)
            .map(|(cookie, (name, node))| PseudoEntry { cookie, name, node: *node })
            .filter(move |entry| entry.cookie > cookie)
    }
}

/// All directories of the pseudo file system.
#[derive(Debug)]
pub(super) struct PseudoTree {
    directories: Vec<PseudoDirectory>,
    by_number: HashMap<u64, PseudoNode>,
}

impl PseudoTree {
    /// A tree of the root alone.
    pub fn new() -> Self {
        let mut tree = Self { directories: Vec::new(), by_number: HashMap::new() };
        let root = tree.add("/", None);
        tree.directories[root.0].set_file(FileIndex::ROOT);
        tree
    }

    fn add(&mut self, path: &str, parent: Option<PseudoNode>) -> PseudoNode {
        let node = PseudoNode(self.directories.len());
        let number = long_hash(path.as_bytes());
        self.directories.push(PseudoDirectory {
            number,
            parent,
            export: None,
            children: BTreeMap::new(),
            file: AtomicU64::new(0),
        });
        self.by_number.insert(number, node);
        node
    }

    /// Adds the directories of an export's path.
    pub fn insert(&mut self, path: &str, export: usize) -> PseudoNode {
        let mut node = PseudoNode::ROOT;
        let mut end = 0;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            end += 1 + name.len();
            node = match self.directories[node.0].children.get(name) {
                Some(child) => *child,
                None => {
                    let child = self.add(&path[..end], Some(node));
                    self.directories[node.0].children.insert(name.into(), child);
                    child
                }
            };
        }
        self.directories[node.0].export = Some(export);
        node
    }

    /// The directories whose path has this one as a prefix, and itself.
    pub fn below(&self, node: PseudoNode) -> Vec<PseudoNode> {
        let mut nodes = vec![node];
        let mut next = 0;
        while let Some(node) = nodes.get(next) {
            next += 1;
            nodes.extend(self.directories[node.0].children.values());
        }
        nodes
    }

    /// The directory with this number.
    pub fn by_number(&self, number: u64) -> Option<PseudoNode> {
        self.by_number.get(&number).copied()
    }

    /// A directory.
    pub fn directory(&self, node: PseudoNode) -> &PseudoDirectory {
        &self.directories[node.0]
    }
}
