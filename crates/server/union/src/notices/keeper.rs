//! The thread that reads events.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{
    NoticedChanges, Pending,
    fanotify::{Event, Group},
    mounts::Mounts,
    systems::System,
};
use crate::{
    KernelHandle, NodeId, Union,
    branch::Branch,
    node::{Node, lock},
    remove::RESERVED_PREFIX,
};

/// Between two reads of events: the kernel merges equal ones meanwhile, so that a program that
/// writes all the time does not wake this thread all the time.
const PAUSE: Duration = Duration::from_millis(10);
/// Events that are handled together at most.
const EVENTS_MAX: usize = 16 << 10;

/// Notices direct changes on the branches of a union until it is dropped.
#[derive(Debug)]
pub struct NoticeKeeper {
    union: Arc<Union>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NoticeKeeper {
    /// Branches whose file systems do not tell of changes go on without it; `braid union status`
    /// names them.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(union: Arc<Union>) -> std::io::Result<Self> {
        let stopped = Arc::new(AtomicBool::new(false));
        let mut keeper =
            Self { union: Arc::clone(&union), stopped: Arc::clone(&stopped), thread: None };
        let group = match Group::new() {
            Ok(group) => Arc::new(group),
            Err(error) => {
                let why = match error {
                    Errno::PERM => "it needs root".to_owned(),
                    Errno::INVAL | Errno::NOSYS => "it needs Linux 5.17".to_owned(),
                    error => error.to_string(),
                };
                union.branches.iter().for_each(|branch| branch.set_not_noticed(why.clone()));
                return Ok(keeper);
            }
        };
        let mut mounts = Mounts::open()?;
        mounts.changed(union.branches.iter().map(|branch| &*branch.path));
        union.notices.begin(&group)?;
        let own = std::process::id();
        let mut watcher = Watcher { union, group, mounts, systems: Vec::new(), own };
        // Before the union is mounted.
        watcher.watch_branches();
        let builder = thread::Builder::new().name("union-notices".to_owned());
        let stopped = Arc::clone(&keeper.stopped);
        keeper.thread = Some(builder.spawn(move || watcher.run(&stopped))?);
        Ok(keeper)
    }

    /// Direct changes are not to be noticed.
    pub fn switched_off(union: &Union) {
        let why = "switched off";
        union.branches.iter().for_each(|branch| branch.set_not_noticed(why.to_owned()));
    }
}

impl Drop for NoticeKeeper {
    fn drop(&mut self) {
        self.union.notices.is_running.store(false, Ordering::SeqCst);
        self.stopped.store(true, Ordering::SeqCst);
        self.union.notices.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Without its thread nothing is noticed, however it ended.
struct Ends<'u>(&'u Union);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.notices.is_running.store(false, Ordering::SeqCst);
    }
}

struct Watcher {
    union: Arc<Union>,
    group: Arc<Group>,
    mounts: Mounts,
    systems: Vec<System>,
    /// The number of this process.
    own: u32,
}

impl Watcher {
    fn run(mut self, stopped: &AtomicBool) {
        let union = Arc::clone(&self.union);
        let _ends = Ends(&union);
        let mut events = Vec::new();
        loop {
            let mounts_changed = self.wait();
            if stopped.load(Ordering::SeqCst) {
                return;
            }
            self.watch_branches();
            if mounts_changed && self.mounts.changed(self.union.branches.iter().map(path)) {
                self.union.notices.everything_changed();
            }
            while events.len() < EVENTS_MAX && self.group.read(&mut events).unwrap_or(false) {}
            if events.iter().any(Event::is_overflow) {
                tracing::warn!("too many direct changes in a short time: everything is read again");
                self.union.notices.everything_changed();
            }
            let mut changes = self.changes(&events);
            events.clear();
            self.add_pending(&mut changes);
            self.tell(changes);
            self.tell_again();
            thread::sleep(PAUSE);
        }
    }

    /// Waits for anything to do. Returns whether the table of mounts has changed.
    fn wait(&self) -> bool {
        let notices = &self.union.notices;
        let Some(wake) = notices.wake.get() else { return false };
        let due = lock(&notices.pending).again.front().map(|(due, _)| *due);
        let time = due.map(|due| due.saturating_duration_since(Instant::now()));
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        let mut fds = [
            PollFd::new(self.group.fd(), PollFlags::IN),
            PollFd::new(wake, PollFlags::IN),
            PollFd::new(&self.mounts.table, PollFlags::PRI),
        ];
        let _ = poll(&mut fds, time.as_ref());
        let mounts_changed = fds[2].revents().intersects(PollFlags::PRI | PollFlags::ERR);
        let _ = rustix::io::read(wake, &mut [0; 8]);
        mounts_changed
    }

    /// Watches the branches that are new, or back.
    fn watch_branches(&mut self) {
        for (at, branch) in self.union.branches.iter().enumerate() {
            if !branch.is_open() || !branch.wants_notices() {
                continue;
            }
            match System::watch(&self.group, at, branch) {
                Ok(new) => match self.systems.iter_mut().find(|known| known.id == new.id) {
                    Some(known) if known.branches.contains(&at) => {}
                    Some(known) => known.branches.push(at),
                    None => self.systems.push(new),
                },
                Err(why) => {
                    let disk = branch.path.display();
                    tracing::info!(%disk, why, "direct changes are seen after a second");
                    branch.set_not_noticed(why);
                }
            }
        }
    }

    fn nodes(&self, system: &System, handle: &KernelHandle) -> Vec<Arc<Node>> {
        let root = system.branches.iter().find_map(|at| self.union.branches[*at].root().ok());
        // Of a file that is gone, the name in its directory is notified.
        let inode = root.and_then(|root| system.inode(handle, &*root).ok());
        let at = |branch: &usize| self.union.nodes.at_inode(*branch, inode?);
        system.branches.iter().filter_map(at).collect()
    }

    /// Drops what the union keeps, and says what the kernel must drop.
    fn changes(&self, events: &[Event]) -> NoticedChanges {
        let mut changes = NoticedChanges::default();
        for event in events {
            let system = self.systems.iter().find(|system| system.id == event.file_system);
            let Some(system) = system else { continue };
            let own = event.is_by(self.own);
            changes.direct_names |= !own && event.is_of_names();
            changes.direct_files |= !own;
            if let Some((directory, name)) = &event.name
                && (event.is_of_names() || **name == *b"." && !own)
            {
                for node in self.nodes(system, directory) {
                    changes.attributes.insert(node.id);
                    if event.is_of_names() {
                        note_name(&node, name, own, &mut changes);
                    }
                }
            }
            if let Some(file) = event.file.as_ref().filter(|_| !own) {
                changes.attributes.extend(self.nodes(system, file).iter().map(|node| node.id));
            }
        }
        changes
    }

    fn add_pending(&self, changes: &mut NoticedChanges) {
        let Pending { everything, copies, changes: more, .. } = {
            let mut pending = lock(&self.union.notices.pending);
            let again = std::mem::take(&mut pending.again);
            let taken = std::mem::take(&mut *pending);
            pending.again = again;
            taken
        };
        changes.merge(more);
        if everything {
            changes.merge(self.union.all_known());
        } else if !copies.is_empty() {
            changes.merge(self.union.names_below(&copies));
        }
    }

    fn tell(&self, changes: NoticedChanges) {
        if let Some(listener) = self.union.notices.listener.get()
            && !changes.is_empty()
            && listener(&changes)
        {
            self.union.tell_again(changes);
        }
    }

    /// Notifies the listener of what is due once more.
    fn tell_again(&self) {
        let now = Instant::now();
        let due: Vec<_> = {
            let mut pending = lock(&self.union.notices.pending);
            let due = pending.again.iter().take_while(|(due, _)| *due <= now).count();
            pending.again.drain(..due).collect()
        };
        for (_, changes) in due {
            self.union.notices.listener.get().into_iter().for_each(|tell| _ = tell(&changes));
        }
    }
}

fn path(branch: &Branch) -> &std::path::Path {
    &branch.path
}

fn note_name(directory: &Node, name: &[u8], own: bool, changes: &mut NoticedChanges) {
    if directory.id == NodeId::ROOT && name.starts_with(RESERVED_PREFIX) {
        return;
    }
    if own {
        directory.names.note_changed();
        return;
    }
    directory.names.note_noticed();
    lock(&directory.names.told_absent).remove(name);
    let names: &mut HashSet<Box<[u8]>> = changes.names.entry(directory.id).or_default();
    names.insert(name.into());
}
