//! The switch from the old file to its copy, and what is left of one after a kill.

use std::{
    os::fd::OwnedFd,
    sync::{Arc, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::fs::{AtFlags, Mode, OFlags, Statx};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{
    NotMoved,
    copy::{NewCopy, unused_name},
    full::{exchange, open_copies},
    split,
};
use crate::{
    OpenFile, Result, Union,
    attributes::{Time, copy_of, stat_at},
    intents::{InodeThen, Step},
    place::{link_path, rename_new, stat_path, unlink_path},
};

/// Old files whose copies have got their names. Not removed without an intent that names them.
pub(crate) const OLD_PREFIX: &str = ".braid-moved-";
/// A change within this time may have the same change time as an earlier one: that of many kernels
/// has the granularity of a timer tick, up to 10 ms.
const SETTLED: Duration = Duration::from_millis(20);

/// A move as an intent has it. Paths are relative to the root of the branch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Move {
    /// Number of the old branch, and the file there.
    from: u8,
    from_inode: InodeThen,
    /// Its name while it waits for its removal.
    hidden: Vec<u8>,
    /// All names of the file.
    names: Vec<Vec<u8>>,
    /// Number of the new branch, and the file there.
    to: u8,
    to_inode: InodeThen,
    /// Its name before it has the others.
    temporary: Vec<u8>,
}

/// One system call of a switch.
#[derive(Debug)]
enum Action<'m> {
    /// The copy gets its first name, and another one.
    Place(&'m [u8], &'m [u8]),
    Link(&'m [u8], &'m [u8]),
    /// The old file loses its first name, and another one.
    Hide(&'m [u8], &'m [u8]),
    Unlink(&'m [u8]),
}

impl Move {
    /// The names that it changes: number of the branch, and path.
    pub(crate) fn places(&self) -> Vec<(u8, &[u8])> {
        let names = |branch| self.names.iter().map(move |name| (branch, &name[..]));
        let own = [(self.from, &self.hidden[..]), (self.to, &self.temporary)];
        names(self.from).chain(names(self.to)).chain(own).collect()
    }

    fn actions(&self) -> Vec<Action<'_>> {
        let (first, others) = (&self.names[0], &self.names[1..]);
        let mut actions = vec![Action::Place(&self.temporary, first)];
        actions.extend(others.iter().map(|name| Action::Link(first, name)));
        actions.push(Action::Hide(first, &self.hidden));
        actions.extend(others.iter().map(|name| Action::Unlink(name)));
        actions
    }
}

impl Action<'_> {
    fn carry_out(&self, from: &OwnedFd, to: &OwnedFd) -> Result<()> {
        match *self {
            Self::Place(temporary, name) => rename_new(to, temporary, name),
            Self::Link(first, name) => link_path(to, first, name),
            Self::Hide(name, hidden) => rename_new(from, name, hidden),
            Self::Unlink(name) => unlink_path(from, name, AtFlags::empty()),
        }
    }
}

/// A file that is to be moved: all of its names on one branch.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) branch: usize,
    pub(super) stat: Statx,
    pub(super) names: Vec<Vec<u8>>,
    /// Its open files come along. Nobody reads, writes or changes it meanwhile.
    pub(super) with_open: bool,
}

/// A file with its copy.
#[derive(Debug)]
pub(super) struct Prepared {
    source: Source,
    target: usize,
    copy: NewCopy,
}

impl Prepared {
    pub(super) fn name(&self) -> &[u8] {
        &self.source.names[0]
    }

    pub(super) fn branch(&self) -> usize {
        self.source.branch
    }

    pub(super) fn is_inode(&self, branch: usize, inode: u64) -> bool {
        self.source.branch == branch && self.source.stat.stx_ino == inode
    }

    pub(super) fn bytes(&self) -> u64 {
        self.copy.bytes
    }
}

impl Union {
    /// Copies a file. Nothing is different for programs.
    pub(super) fn prepare(
        &self,
        source: Source,
        target: usize,
    ) -> std::result::Result<Prepared, NotMoved> {
        self.check_writable(source.branch)?;
        let old = copy_of(source.branch, &source.stat);
        if self.is_open(old) && !source.with_open {
            return Err(NotMoved::Open);
        }
        if !is_settled(source.stat.stx_ctime.into()) && !source.with_open {
            return Err(NotMoved::Changed);
        }
        for name in &source.names {
            let (directory, name) = split(name);
            let walked = self.walk(directory)?;
            let directory = self.nodes.get(walked.last())?;
            // No directory is renamed between its copies.
            let _shared = self.shared();
            let made = self.ensure_directory(&directory, target)?;
            if stat_at(&*made, name).is_ok() {
                let branch = self.branches[target].path.display().to_string();
                return Err(NotMoved::NameTaken { branch });
            }
            self.check_order(&directory, name, source.branch, target)?;
        }
        let root = self.branches[source.branch].root()?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let from = rustix::fs::openat(&*root, &*source.names[0], flags, Mode::empty())?;
        if copy_of(source.branch, &crate::attributes::stat_fd(&from)?) != old {
            return Err(NotMoved::Changed);
        }
        let copy = self.copy_to(&from, &source.stat, target)?;
        Ok(Prepared { source, target, copy })
    }

    /// The file that is shown must be the same after the move.
    fn check_order(
        &self,
        directory: &crate::node::Node,
        name: &[u8],
        from: usize,
        to: usize,
    ) -> std::result::Result<(), NotMoved> {
        let found = self.on_branches(directory, name)?.all();
        let shown = found.first().is_some_and(|(branch, _)| *branch == from);
        let mut others = found.iter().map(|(branch, _)| *branch).filter(|at| *at != from);
        let same = if shown { others.all(|at| to < at) } else { others.any(|at| at < to) };
        if same { Ok(()) } else { Err(NotMoved::Order) }
    }

    /// Copies that are not used.
    pub(super) fn discard(&self, prepared: &Prepared) {
        if let Ok(root) = self.branches[prepared.target].root() {
            let _ = rustix::fs::unlinkat(&*root, &*prepared.copy.name, AtFlags::empty());
        }
    }

    /// Gives the names of files to their copies, and removes the old files. All copies are on one
    /// branch.
    pub(super) fn switch(
        &self,
        batch: Vec<Prepared>,
    ) -> Vec<(Prepared, std::result::Result<(), NotMoved>)> {
        let synced = self.sync_copies(&batch).and_then(|()| self.sync_sources(&batch));
        let begun = synced.and_then(|()| self.record(&batch));
        let (intent, moves) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                batch.iter().for_each(|prepared| self.discard(prepared));
                return batch.into_iter().map(|one| (one, Err(error.into()))).collect();
            }
        };
        let alone = self.renames.write().unwrap_or_else(PoisonError::into_inner);
        let mut done: Vec<std::result::Result<(), NotMoved>> = Vec::new();
        let mut finished = true;
        for (prepared, step) in batch.iter().zip(&moves) {
            let switched = self.switch_one(prepared, step);
            if switched.is_err() {
                // Before anybody opens a copy that is taken back.
                finished &= self.finish_move(step).is_ok();
            }
            done.push(switched);
        }
        drop(alone);
        let synced = self.sync_copies_names(&batch, &done);
        for (step, done) in moves.iter().zip(&mut done).filter(|(_, done)| done.is_ok()) {
            let ended = synced.and_then(|()| self.finish_move(step));
            finished &= ended.is_ok();
            *done = ended.map_err(NotMoved::from);
        }
        // The old names are gone from their disk too: they would be those of another file, or come
        // back.
        let steps: Vec<Step> = moves.into_iter().map(Step::Move).collect();
        if finished && self.sync_steps(&steps).is_ok() {
            intent.end();
        } else {
            tracing::error!("a move is not finished: the next start of the union finishes it");
        }
        self.branches[batch[0].source.branch].space_changed();
        self.branches[batch[0].target].space_changed();
        batch.into_iter().zip(done).collect()
    }

    /// The bytes of the copies, before anything refers to them.
    fn sync_copies(&self, batch: &[Prepared]) -> Result<()> {
        match batch {
            [Prepared { copy: NewCopy { file: Some(file), .. }, .. }] => rustix::fs::fsync(file),
            [first, ..] => rustix::fs::syncfs(&*self.branches[first.target].root()?),
            [] => Ok(()),
        }
    }

    /// Writes down the moves and the numbers of the files.
    fn record(&self, batch: &[Prepared]) -> Result<(crate::intents::Intent, Vec<Move>)> {
        let moves: Vec<Move> = batch.iter().map(|prepared| self.describe(prepared)).collect();
        let numbers = moves.iter().zip(batch).map(|(step, prepared)| {
            let number = self.index_of(prepared.source.branch, prepared.source.stat.stx_ino);
            (step.to, step.to_inode.number(), number)
        });
        let numbers: Vec<_> = numbers.collect();
        self.numbers.set(numbers.into_iter())?;
        let steps: Vec<Step> = moves.iter().cloned().map(Step::Move).collect();
        match self.intents.begin(&steps) {
            Ok(intent) => Ok((intent, moves)),
            Err(error) => {
                self.numbers.forget(moves.iter().map(|step| (step.to, step.to_inode.number())));
                Err(error)
            }
        }
    }

    fn describe(&self, prepared: &Prepared) -> Move {
        let Prepared { source, target, copy } = prepared;
        Move {
            from: self.branches[source.branch].number,
            from_inode: InodeThen::of(&source.stat),
            hidden: unused_name(OLD_PREFIX, source.stat.stx_ino, 0),
            names: source.names.clone(),
            to: self.branches[*target].number,
            to_inode: InodeThen::of(&copy.stat),
            temporary: copy.name.clone(),
        }
    }

    /// The steps between which nobody may look up a name.
    fn switch_one(&self, prepared: &Prepared, step: &Move) -> std::result::Result<(), NotMoved> {
        let Prepared { source, target, copy } = prepared;
        let old = copy_of(source.branch, &source.stat);
        let (open, descriptors) = self.open_files_of(prepared)?;
        let (from, to) = (self.branches[source.branch].root()?, self.branches[*target].root()?);
        let mut changed = None;
        for name in &step.names {
            match stat_path(&from, name) {
                Ok(stat) if is_unchanged(&source.stat, &stat) => changed = Some(stat),
                _ => return Err(NotMoved::Changed),
            }
        }
        // A link that somebody made meanwhile would be left behind.
        if changed.is_none_or(|stat| stat.stx_nlink as usize != step.names.len()) {
            return Err(NotMoved::Changed);
        }
        for action in step.actions() {
            action.carry_out(&from, &to)?;
        }
        for name in &step.names {
            if let Ok(stat) = stat_path(&to, name) {
                self.save_path(*target, name, Some((&stat).into()));
            }
            self.save_path(source.branch, name, None);
        }
        let new = copy_of(*target, &stat_path(&to, &step.names[0])?);
        debug_assert_eq!(new.inode, copy.stat.stx_ino);
        self.nodes.moved(old, new);
        self.count_moved(old, new);
        if let Some(node) = self.nodes.of_inode(new) {
            self.notices.attributes_changed(node.id);
        }
        self.tell_move(old, new, &to, &step.names[0]);
        exchange(&open, descriptors);
        Ok(())
    }

    /// The open files that come along, and a descriptor of the copy for each.
    fn open_files_of(
        &self,
        prepared: &Prepared,
    ) -> std::result::Result<(Vec<Arc<OpenFile>>, Vec<OwnedFd>), NotMoved> {
        let old = copy_of(prepared.source.branch, &prepared.source.stat);
        let node = self.nodes.of_inode(old);
        let open = node.map_or_else(Vec::new, |node| node.state().open.clone());
        let comes = prepared.source.with_open && !open.iter().any(|file| file.is_passed_through());
        match &prepared.copy.file {
            _ if open.is_empty() => Ok((open, Vec::new())),
            Some(copy) if comes => {
                let descriptors = open_copies(&open, copy)?;
                Ok((open, descriptors))
            }
            _ => Err(NotMoved::Open),
        }
    }

    /// The names of the copies, before the old files are removed.
    fn sync_copies_names(
        &self,
        batch: &[Prepared],
        done: &[std::result::Result<(), NotMoved>],
    ) -> Result<()> {
        let [only] = batch else {
            return match batch.first() {
                Some(first) => rustix::fs::syncfs(&*self.branches[first.target].root()?),
                None => Ok(()),
            };
        };
        if done[0].is_err() {
            return Ok(());
        }
        let target = self.branches[only.target].number;
        self.sync_names(only.source.names.iter().map(|name| (target, &name[..])))
    }

    /// The names of the old files, which the intent relies on: one may be from a rename that is not
    /// on the disk yet.
    fn sync_sources(&self, batch: &[Prepared]) -> Result<()> {
        let names = batch.iter().flat_map(|prepared| {
            let branch = self.branches[prepared.source.branch].number;
            prepared.source.names.iter().map(move |name| (branch, &name[..]))
        });
        self.sync_names(names)
    }

    /// Finishes a move whose copy has all of its names and whose old file has none, and undoes
    /// another one. Doing it again does nothing.
    pub(crate) fn finish_move(&self, step: &Move) -> Result<()> {
        let branch = |number| self.branches.with_number(number).ok_or(Errno::NODEV);
        let (from, to) = (branch(step.from)?, branch(step.to)?);
        let (from, to) = (self.branches[from].root()?, self.branches[to].root()?);
        let is_old = |name: &[u8]| is_inode(&from, name, step.from_inode);
        let is_new = |name: &[u8]| is_inode(&to, name, step.to_inode);
        let all_placed = all(&step.names, is_new)?;
        let hidden = is_old(&step.hidden)?;
        let any_old = any(&step.names, is_old)?;
        if all_placed && !any_old {
            if hidden {
                rustix::fs::unlinkat(&*from, &*step.hidden, AtFlags::empty())?;
                self.numbers.forget(std::iter::once((step.from, step.from_inode.number())));
            }
            return remove_if(&to, &step.temporary, is_new);
        }
        // The old file comes back first: it is complete, whatever happens to the copy. If it is
        // nowhere, somebody has removed or renamed it.
        if hidden || any_old {
            self.restore_old(&from, step, hidden)?;
            step.names.iter().try_for_each(|name| remove_if(&to, name, is_new))?;
        }
        remove_if(&to, &step.temporary, is_new)?;
        if !any(&step.names, is_new)? {
            self.numbers.forget(std::iter::once((step.to, step.to_inode.number())));
        }
        Ok(())
    }

    fn restore_old(&self, from: &OwnedFd, step: &Move, hidden: bool) -> Result<()> {
        let is_old = |name: &[u8]| is_inode(from, name, step.from_inode);
        let mut holder = if hidden { Some(&step.hidden) } else { None };
        for name in &step.names {
            if holder.is_none() && is_old(name)? {
                holder = Some(name);
            }
        }
        let Some(holder) = holder else { return Ok(()) };
        for name in &step.names {
            match link_path(from, holder, name) {
                // It has the name; or somebody has made another file of the name since.
                Ok(()) | Err(Errno::EXIST) => {}
                // A file system without links: the file has one name.
                Err(Errno::PERM | Errno::OPNOTSUPP) if hidden => {
                    return rename_new(from, &step.hidden, name);
                }
                Err(error) => return Err(error),
            }
        }
        let restored = any(&step.names, is_old)?;
        if hidden && restored {
            rustix::fs::unlinkat(from, &*step.hidden, AtFlags::empty())?;
        }
        Ok(())
    }
}

/// Whether a change now would have a later change time.
fn is_settled(changed: Time) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed = Duration::new(u64::try_from(changed.seconds).unwrap_or(0), changed.nanoseconds);
    // A change time in the future is that of another clock.
    now.checked_sub(changed).is_none_or(|age| age >= SETTLED)
}

fn is_unchanged(before: &Statx, now: &Statx) -> bool {
    before.stx_ino == now.stx_ino
        && Time::from(before.stx_ctime) == Time::from(now.stx_ctime)
        && Time::from(before.stx_mtime) == Time::from(now.stx_mtime)
        && before.stx_size == now.stx_size
        && before.stx_nlink == now.stx_nlink
}

fn is_inode(root: &OwnedFd, path: &[u8], inode: InodeThen) -> Result<bool> {
    match stat_path(root, path) {
        Ok(stat) => Ok(inode.is(&stat)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(error) => Err(error),
    }
}

fn all(names: &[Vec<u8>], is: impl Fn(&[u8]) -> Result<bool>) -> Result<bool> {
    names.iter().try_fold(true, |so_far, name| Ok(so_far && is(name)?))
}

fn any(names: &[Vec<u8>], is: impl Fn(&[u8]) -> Result<bool>) -> Result<bool> {
    names.iter().try_fold(false, |so_far, name| Ok(so_far || is(name)?))
}

fn remove_if(root: &OwnedFd, name: &[u8], is: impl Fn(&[u8]) -> Result<bool>) -> Result<()> {
    if is(name)? { unlink_path(root, name, AtFlags::empty()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{BranchMode, Pool, moves::links::Links};

    fn union(dir: &Path) -> Union {
        let meta = dir.join("meta");
        if !meta.exists() {
            let disks = ["a", "b"].map(|name| dir.join(name));
            disks.iter().for_each(|disk| fs::create_dir(disk).unwrap());
            fs::create_dir(disks[0].join("d")).unwrap();
            fs::write(disks[0].join("d/one"), "content").unwrap();
            fs::hard_link(disks[0].join("d/one"), disks[0].join("two")).unwrap();
            std::thread::sleep(2 * SETTLED);
            Pool::create(&meta, "test", &disks.map(|disk| (disk, BranchMode::Rw)), Some(0))
                .unwrap();
        }
        Union::open(&Pool::open(&meta).unwrap()).unwrap()
    }

    fn source(union: &Union) -> Source {
        let root = union.branches[0].root().unwrap();
        let stat = stat_at(&*root, b"d/one").unwrap();
        let names = union.all_names(0, b"d/one".to_vec(), &stat, &Links::default()).unwrap();
        assert_eq!(names.len(), 2);
        Source { branch: 0, stat, names, with_open: false }
    }

    fn number(union: &Union) -> u64 {
        let walked = union.walk(b"d/one").unwrap();
        union.attributes(walked.last()).unwrap().index
    }

    /// On one of the disks only, with both names, and nothing else.
    fn check(dir: &Path, moved: bool) {
        let (has, lacks) = if moved { ("b", "a") } else { ("a", "b") };
        for name in ["d/one", "two"] {
            assert_eq!(fs::read_to_string(dir.join(has).join(name)).unwrap(), "content");
            assert!(!dir.join(lacks).join(name).exists(), "{name} is on {lacks} too");
        }
        for disk in ["a", "b"] {
            let names = fs::read_dir(dir.join(disk)).unwrap();
            let left = |name: &str| name.starts_with(".braid-mov");
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            assert_eq!(names.filter(|name| left(name)).count(), 0, "on {disk}");
        }
    }

    #[test]
    fn a_move_that_is_killed_at_any_step_is_finished_or_undone() {
        let mut outcomes = Vec::new();
        for steps in 0..=5 {
            let dir = tempfile::tempdir().unwrap();
            let opened = union(dir.path());
            let before = number(&opened);
            let prepared = opened.prepare(source(&opened), 1).unwrap();
            let batch = vec![prepared];
            opened.sync_copies(&batch).unwrap();
            let (_, moves) = opened.record(&batch).unwrap();
            let roots = [0, 1].map(|at: usize| opened.branches[at].root().unwrap());
            let actions = moves[0].actions();
            for action in actions.iter().take(steps) {
                action.carry_out(&roots[0], &roots[1]).unwrap();
            }
            if steps > actions.len() {
                opened.finish_move(&moves[0]).unwrap();
            }
            drop(opened);
            let opened = union(dir.path());
            let moved = steps >= 4;
            check(dir.path(), moved);
            assert_eq!(number(&opened), before, "the number after {steps} steps");
            outcomes.push(moved);
            assert_eq!(fs::read_dir(dir.path().join("meta/renames")).unwrap().count(), 0);
        }
        assert_eq!(outcomes, [false, false, false, false, true, true]);
    }

    #[test]
    fn a_copy_that_a_loss_of_power_took_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let opened = union(dir.path());
        let batch = vec![opened.prepare(source(&opened), 1).unwrap()];
        let (_, moves) = opened.record(&batch).unwrap();
        let roots = [0, 1].map(|at: usize| opened.branches[at].root().unwrap());
        for action in moves[0].actions() {
            action.carry_out(&roots[0], &roots[1]).unwrap();
        }
        // One name of the copy did not reach the disk.
        fs::remove_file(dir.path().join("b/two")).unwrap();
        drop(opened);
        drop(union(dir.path()));
        check(dir.path(), false);
    }

    #[test]
    fn a_file_that_changes_or_is_opened_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let opened = union(dir.path());
        let stays = |change: &dyn Fn()| {
            std::thread::sleep(2 * SETTLED);
            let prepared = opened.prepare(source(&opened), 1).unwrap();
            change();
            let (_, done) = opened.switch(vec![prepared]).pop().unwrap();
            done.unwrap_err()
        };
        let disk = dir.path().join("a/d/one");
        assert_eq!(stays(&|| fs::write(&disk, "CONTENT").unwrap()), NotMoved::Changed);
        fs::write(&disk, "content").unwrap();
        let link = dir.path().join("a/three");
        assert_eq!(stays(&|| fs::hard_link(&disk, &link).unwrap()), NotMoved::Changed);
        fs::remove_file(link).unwrap();
        check(dir.path(), false);
        let walked = opened.walk(b"two").unwrap();
        let file = std::cell::RefCell::new(None);
        let open = || {
            *file.borrow_mut() = Some(opened.open_file(walked.last(), OFlags::RDWR).unwrap());
        };
        assert_eq!(stays(&open), NotMoved::Open);
        check(dir.path(), false);
        opened.close(file.borrow().as_ref().unwrap());
        assert_eq!(opened.prepare(source(&opened), 1).map(drop), Ok(()));
    }
}
