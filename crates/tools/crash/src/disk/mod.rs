//! A disk under a loss of power: what was done to it, which changes must last, and what may be
//! left.
//!
//! ```text
//!   History   events in order: Change (nodes, names) · Sync · Mark
//!      │ cut at an event
//!   PowerCut  durable: covered by a sync that had returned          always in the image
//!             the rest: kept, lost, torn, out of order              by the seed
//!      │
//!   Tree      nodes and names after those changes ──> directories on the real disk
//! ```
//!
//! A sync promises this and no more (POSIX, and what `store` and `meta` state that they rely on):
//!
//! 1. `fsync` of a file: its bytes, size and attributes, not its name. `fdatasync`, `O_DSYNC`:
//!    bytes and size.
//! 2. `fsync` of a directory: the names in it, not the files they name, and not its own name in its
//!    parent.
//! 3. `syncfs`: everything below the top directory that the descriptor is in (each stands for a
//!    disk).
//! 4. A rename happens completely or not at all. Any other change without a sync may be there, be
//!    missing, or be there before earlier ones. Writes may be torn at sectors, and a file may have
//!    grown without its bytes.
//! 5. A name leads to a node with the attributes that it had when it got the name. POSIX does not
//!    promise that; the journals of ext4, XFS and btrfs do. [`Loss::strict`] does without it.

mod power_cut;
mod tree;

pub use power_cut::{Loss, PowerCut, SurvivingShare};
pub use tree::Tree;

/// A file, directory or symbolic link; never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Node(pub usize);

impl Node {
    /// The directory that was recorded.
    pub const ROOT: Self = Self(0);
}

/// The kind of a node, which never changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A file, with its permission bits.
    File(u32),
    /// A directory, with its permission bits.
    Directory(u32),
    /// A symbolic link and its target.
    Link(Vec<u8>),
}

/// One change. It is atomic, except for [`Change::Write`], which may be torn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Bytes at an offset.
    Write {
        /// The file.
        node: Node,
        /// In bytes.
        offset: u64,
        /// The bytes written.
        bytes: Vec<u8>,
        /// Through a descriptor with `O_DSYNC`: durable without a further sync.
        synchronous: bool,
    },
    /// A new size; new bytes are zeros.
    Resize(Node, u64),
    /// Zeros in a range (offset, bytes); the size stays.
    Punch(Node, u64, u64),
    /// An extended attribute; `None` removes it.
    Attribute(Node, Vec<u8>, Option<Vec<u8>>),
    /// Several names together: (directory, name, the node that it names now). A rename has two.
    Names(Vec<(Node, Vec<u8>, Option<Node>)>),
}

impl Change {
    /// The file whose content or attribute changes; `None` for names.
    pub fn node(&self) -> Option<Node> {
        match self {
            Self::Write { node, .. } | Self::Resize(node, _) | Self::Punch(node, _, _) => {
                Some(*node)
            }
            Self::Attribute(node, _, _) => Some(*node),
            Self::Names(_) => None,
        }
    }
}

/// What was synced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Synced {
    /// A file or directory; with `data_only` without attributes.
    Node {
        /// The node.
        node: Node,
        /// `fdatasync`.
        data_only: bool,
    },
    /// Everything below this entry of the root (the root's own files: [`Node::ROOT`]).
    Volume(Node),
}

/// An event that the recorder saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A change whose call has returned.
    Change(Change),
    /// A sync that has returned.
    Sync {
        /// What was synced.
        synced: Synced,
        /// It covers the events before this one, which had happened when it began.
        since: usize,
    },
    /// A mark that the load wrote.
    Mark(String),
}

/// Everything that was done to a directory that was empty at first.
#[derive(Clone, Default, Debug)]
pub struct History {
    /// The kind of each node. The first is the root.
    pub nodes: Vec<Kind>,
    /// The entry of the root that each node was created below ([`Node::ROOT`] for the root and
    /// files in it).
    pub volumes: Vec<Node>,
    /// In the order of the kernel.
    pub events: Vec<Event>,
}

impl History {
    /// An empty directory.
    pub fn new() -> Self {
        Self { nodes: vec![Kind::Directory(0o755)], volumes: vec![Node::ROOT], events: Vec::new() }
    }

    /// All marks with their event numbers.
    pub fn marks(&self) -> impl Iterator<Item = (usize, &str)> {
        self.events.iter().enumerate().filter_map(|(at, event)| match event {
            Event::Mark(text) => Some((at, text.as_str())),
            _ => None,
        })
    }

    /// The contents of the disk after all events.
    pub fn end(&self) -> Tree {
        let mut tree = Tree::new(&self.nodes);
        for event in &self.events {
            if let Event::Change(change) = event {
                tree.apply(change);
            }
        }
        tree
    }
}
