//! Changes that somebody makes directly on a branch, as they happen (docs/adr/0049).
//!
//! ```text
//!   program ──> file system of a branch ── events (fanotify) ──> NoticeKeeper
//!                                                                  |  1. what the union keeps
//!                                                                  |  2. listener: the mount drops
//!                                                                  v     what the kernel keeps
//! ```
//!
//! 1. An answer that was found on the branches before a change is dropped by the event of the
//!    change, which comes later: the kernel queues it after the change was made. So first the union
//!    drops what it keeps, then the listener is called. An answer that is on its way meanwhile is
//!    the listener's concern.
//! 2. Changes through the union come as events of this process. Its callers know them. They count
//!    for kept listings and for the attributes of the directory alone.
//! 3. A directory that got or lost a copy, as a lookup finds, may have other names than before
//!    without an event of them. All names in it are notified as changed.
//! 4. Where events were lost, where a branch comes or goes and where a file system is mounted below
//!    a branch, all names and attributes are notified as changed.
//! 5. A directory whose copies are not all on file systems that tell, or on other file systems
//!    that are mounted below a branch, is not noticed: see [`Union::notices_names`].

mod fanotify;
mod keeper;
mod mounts;
mod systems;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::event::{EventfdFlags, eventfd};

use self::fanotify::Group;
pub use self::keeper::NoticeKeeper;
use crate::{
    NodeId, Union,
    node::{Node, lock},
};

/// After this time changes are notified once more: a program may have received an answer from
/// before the change when it was notified first, and have kept it afterwards.
const AGAIN: Duration = Duration::from_secs(1);
/// Changes that are notified together then: each call wakes the mount's threads.
const TOGETHER: Duration = Duration::from_millis(100);
/// Absent names of one directory that are remembered at most.
const ABSENT_MAX: usize = 128;
/// Their names may be dropped by the kernel silently; it keeps none for longer.
const ABSENT_VALID: Duration = Duration::from_secs(3600);

/// Names and attributes that were changed by something else than a call of the kernel.
#[derive(Clone, Debug, Default)]
pub struct NoticedChanges {
    /// Names that may lead to another file, or to none, by their directory.
    pub names: HashMap<NodeId, HashSet<Box<[u8]>>>,
    /// Files and directories whose attributes may have changed.
    pub attributes: HashSet<NodeId>,
    /// Somebody else than this process has changed a name, possibly one that nobody knows.
    pub direct_names: bool,
    /// The same of a file's attributes.
    pub direct_files: bool,
}

impl NoticedChanges {
    fn is_empty(&self) -> bool {
        self.names.is_empty()
            && self.attributes.is_empty()
            && !self.direct_names
            && !self.direct_files
    }

    fn merge(&mut self, other: Self) {
        for (directory, names) in other.names {
            self.names.entry(directory).or_default().extend(names);
        }
        self.attributes.extend(other.attributes);
        self.direct_names |= other.direct_names;
        self.direct_files |= other.direct_files;
    }
}

/// Learns of changes. It returns whether to be called once more, when answers that are on their
/// way have arrived.
type Listener = Box<dyn Fn(&NoticedChanges) -> bool + Send + Sync>;

/// What the keeper is to tell.
#[derive(Default)]
pub(crate) struct Notices {
    listener: OnceLock<Listener>,
    is_running: AtomicBool,
    wake: OnceLock<OwnedFd>,
    group: OnceLock<Arc<Group>>,
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    everything: bool,
    /// Directories that got or lost a copy.
    copies: HashSet<NodeId>,
    changes: NoticedChanges,
    again: VecDeque<(Instant, NoticedChanges)>,
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notices").field("pending", &self.pending).finish_non_exhaustive()
    }
}

impl Notices {
    fn begin(&self, group: &Arc<Group>) -> rustix::io::Result<()> {
        if self.wake.get().is_none() {
            let _ = self.wake.set(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        }
        let _ = self.group.set(Arc::clone(group));
        self.is_running.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// The first program opens a file to write through the union. Until the last one has closed it,
    /// what is known of it is valid for a short time, so events of its writes are of no use: one
    /// costs as much as the write.
    pub(crate) fn opened_to_write(&self, file: impl AsFd) {
        // Without the mark there are events.
        self.group.get().into_iter().for_each(|group| _ = group.ignore_writes(&file));
    }

    /// The last one closes it.
    pub(crate) fn closed_to_write(&self, file: impl AsFd) {
        self.group.get().into_iter().for_each(|group| _ = group.notice_writes(&file));
    }

    fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
        }
    }

    fn add(&self, add: impl FnOnce(&mut Pending)) {
        if self.is_running.load(Ordering::SeqCst) {
            add(&mut lock(&self.pending));
            self.wake();
        }
    }

    /// Anything may have changed.
    pub(crate) fn everything_changed(&self) {
        self.add(|pending| pending.everything = true);
    }

    /// A lookup found other copies of a directory than before.
    pub(crate) fn copies_changed(&self, directory: NodeId) {
        self.add(|pending| _ = pending.copies.insert(directory));
    }

    /// This process has changed a file without a call of the kernel.
    pub(crate) fn attributes_changed(&self, node: NodeId) {
        self.add(|pending| _ = pending.changes.attributes.insert(node));
    }
}

impl Union {
    /// Calls `listener` when names or attributes were changed by something else than a call of the
    /// kernel, on a thread of its own that holds no lock. Only the first call counts.
    pub fn set_on_notice(
        &self,
        listener: impl Fn(&NoticedChanges) -> bool + Send + Sync + 'static,
    ) {
        let _ = self.notices.listener.set(Box::new(listener));
    }

    /// Whether the listener will learn of each direct change of the names in a directory.
    pub fn notices_names(&self, directory: NodeId) -> bool {
        self.nodes.get(directory).is_ok_and(|node| self.is_noticed(&node))
    }

    /// The same for the attributes of a file or a directory. A file that is open to write can be
    /// changed through a mapping without an event.
    pub fn notices_attributes(&self, node: NodeId) -> bool {
        let Ok(node) = self.nodes.get(node) else { return false };
        self.is_noticed(&node)
            && (node.is_directory
                || !node.state().open.iter().any(|file| file.writes()) && self.is_plain(&node))
    }

    /// The bytes of striped files are in several files of the branches.
    fn is_plain(&self, node: &Node) -> bool {
        !self.striped.exist() || self.is_known_plain(node)
    }

    pub(crate) fn is_noticed(&self, node: &Node) -> bool {
        !node.is_elsewhere()
            && self.notices.is_running.load(Ordering::Relaxed)
            && node.state().copies.iter().all(|copy| self.branches[copy.branch].is_noticed())
    }

    /// The kernel gets the answer that a name is absent. Whether that is remembered: only then the
    /// kernel is notified when the directory gets a copy with the name.
    pub fn note_absent_in_kernel(&self, directory: NodeId, name: &[u8]) -> bool {
        self.nodes.get(directory).is_ok_and(|node| lock(&node.names.told_absent).add(name))
    }

    /// The directories in which a file was found.
    pub fn directories_of(&self, node: NodeId) -> Vec<NodeId> {
        let node = self.nodes.get(node);
        node.map_or_else(
            |_| Vec::new(),
            |node| node.state().names.iter().map(|name| name.directory).collect(),
        )
    }

    /// Has changes notified once more a second later.
    pub fn tell_again(&self, changes: NoticedChanges) {
        self.notices.add(|pending| {
            let due = Instant::now() + AGAIN;
            match pending.again.back_mut() {
                Some((then, others)) if *then >= due => others.merge(changes),
                _ => pending.again.push_back((due + TOGETHER, changes)),
            }
        });
    }

    /// All names in these directories that the kernel may know.
    fn names_below(&self, directories: &HashSet<NodeId>) -> NoticedChanges {
        let mut changes = NoticedChanges { direct_names: true, ..NoticedChanges::default() };
        let mut add = |directory, name: Box<[u8]>| {
            changes.names.entry(directory).or_default().insert(name);
        };
        for node in self.nodes.all() {
            let names = node.state().names.clone();
            for name in names.into_iter().filter(|name| directories.contains(&name.directory)) {
                add(name.directory, name.name);
            }
        }
        for directory in directories.iter().filter_map(|id| self.nodes.get(*id).ok()) {
            directory.names.note_noticed();
            for name in lock(&directory.names.told_absent).take() {
                add(directory.id, name);
            }
        }
        changes.attributes.extend(directories);
        changes
    }

    /// All names and attributes that the kernel may know.
    fn all_known(&self) -> NoticedChanges {
        let nodes = self.nodes.all();
        let directories = nodes.iter().filter(|node| node.is_directory).map(|node| node.id);
        let mut changes = self.names_below(&directories.collect());
        changes.attributes.extend(nodes.iter().map(|node| node.id));
        changes.direct_files = true;
        changes
    }
}

/// Absent names of a directory that the kernel keeps.
#[derive(Debug, Default)]
pub(crate) struct ToldAbsent {
    names: HashSet<Box<[u8]>>,
    since: Option<Instant>,
}

impl ToldAbsent {
    fn add(&mut self, name: &[u8]) -> bool {
        if self.since.is_some_and(|since| since.elapsed() > ABSENT_VALID) {
            self.names.clear();
        }
        if self.names.is_empty() {
            self.since = Some(Instant::now());
        }
        if self.names.contains(name) {
            return true;
        }
        if self.names.len() >= ABSENT_MAX {
            return false;
        }
        self.names.insert(name.into())
    }

    fn take(&mut self) -> HashSet<Box<[u8]>> {
        std::mem::take(&mut self.names)
    }

    fn remove(&mut self, name: &[u8]) {
        self.names.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_names_are_bounded_and_come_once() {
        let mut told = ToldAbsent::default();
        let name = |n: usize| n.to_string().into_bytes();
        assert!((0..ABSENT_MAX).all(|n| told.add(&name(n))));
        assert!(!told.add(b"one more") && told.add(b"0"));
        told.remove(b"0");
        assert!(told.add(b"one more"));
        assert_eq!(told.take().len(), ABSENT_MAX);
        assert!(told.add(b"0"));
    }
}
