//! Random changes made directly on the branches while the union is in use. After each group of them
//! the union shows what docs/union.md says, and no call through the union loses what it was not
//! asked to remove.
//!
//! `BRAID_DIRECT_SEEDS=1000..2000` runs these seeds instead of a few.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    ops::ControlFlow,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use braid_types::Random;
use braid_union::{NodeId, OpenFile};
use rustix::fs::{OFlags, RenameFlags};
use rustix::io::Errno;

use crate::{
    direct_view::{
        Shown, View, contents, expected, is_directory, is_of_two_kinds, shown, write_to,
    },
    harness::{Fixture, union_over},
};

/// Seeds in a normal run.
const SEEDS: u64 = 12;
const GROUPS: usize = 12;
const CALLS: u64 = 8;
const NAMES: &[&str] = &["a", "b", "c"];
/// The union knows of a direct change after one second.
const SEEN_IN: Duration = Duration::from_secs(5);

struct Run {
    random: Random,
    union: Option<Fixture>,
    /// Each file has bytes of its own.
    written: u64,
    log: Vec<String>,
    held: Vec<std::sync::Arc<OpenFile>>,
    nodes: Vec<NodeId>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let count = 1 + random.below(4) as usize;
        let placement = random.pick(&["round-robin", "first", "same-path,first", "user"]).unwrap();
        let union = Some(union_over(count, placement, |_| {}));
        Self { random, union, written: 0, log: Vec::new(), held: Vec::new(), nodes: Vec::new() }
    }

    fn union(&self) -> &Fixture {
        self.union.as_ref().unwrap()
    }

    fn branches(&self) -> Vec<PathBuf> {
        self.union().branches.clone()
    }

    /// Few names, so that changes meet; half of the time one that is there.
    fn path(&mut self) -> String {
        if self.random.below(2) == 0 {
            let there: Vec<String> = expected(&self.branches()).into_keys().collect();
            if let Some(path) = self.random.pick(&there) {
                return path.clone();
            }
        }
        let depth = 1 + self.random.below(3);
        let parts: Vec<&str> = (0..depth).map(|_| *self.random.pick(NAMES).unwrap()).collect();
        parts.join("/")
    }

    fn bytes(&mut self) -> Vec<u8> {
        self.written += 1;
        format!("content {}", self.written).into_bytes()
    }

    /// One change on a branch. Errors are those of the branch's file system.
    fn change_directly(&mut self) {
        let branches = self.branches();
        let branch = self.random.pick(&branches).unwrap().clone();
        let (one, other) = (self.path(), self.path());
        let (from, to) = (branch.join(&one), branch.join(&other));
        let kind = self.random.below(16);
        let done = match kind {
            0..=2 => fs::write(&from, self.bytes()),
            3 => fs::File::options().write(true).open(&from).and_then(|file| file.set_len(3)),
            4 | 5 => fs::rename(&from, &to),
            6 => fs::remove_file(&from),
            7 => fs::hard_link(&from, &to),
            8 => {
                // As an editor saves.
                let new = branch.join(".new");
                fs::write(&new, self.bytes()).and_then(|()| match is_directory(&to) {
                    true => fs::remove_file(&new),
                    false => fs::rename(&new, &to),
                })
            }
            9 | 10 => fs::create_dir_all(&from),
            11 => fs::remove_dir(&from),
            12 => std::os::unix::fs::symlink(&other, &from),
            13 => self.copy_tree(&from, &one),
            14 => replace_directory(&from, &branch),
            _ => fs::copy(branch.join(".braid-branch"), &from).map(drop),
        };
        let at = branch.file_name().unwrap().to_string_lossy().into_owned();
        self.log.push(format!("direct {kind} on {at}: {one} {other}: {done:?}"));
    }

    /// `cp -a` to another branch, with the union's own xattr.
    fn copy_tree(&mut self, from: &Path, path: &str) -> io::Result<()> {
        let branches = self.branches();
        let to = self.random.pick(&branches).unwrap().join(path);
        if !is_directory(from) || to.symlink_metadata().is_ok() {
            return Ok(());
        }
        fs::create_dir(&to)?;
        let name = "trusted.braid.index";
        let mut value = [0; 256];
        if let Ok(bytes) = rustix::fs::getxattr(from, name, &mut value[..]) {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(&to, name, &value[..bytes], flags)?;
        }
        Ok(())
    }

    /// The union shows what the branches have: immediately, or when its answers are too old.
    fn check_view(&self) {
        let wanted = expected(&self.branches());
        let start = Instant::now();
        loop {
            let found = shown(self.union());
            if found.as_ref() == Ok(&wanted) {
                return;
            }
            assert!(start.elapsed() < SEEN_IN, "{found:#?} instead of {wanted:#?}");
            std::thread::yield_now();
        }
    }

    /// A call through the union, compared with the same call on one directory with the same names.
    fn call(&mut self, settled: bool) {
        let (one, other) = (self.path(), self.path());
        let call = match self.random.below(12) {
            0..=2 => Call::Create(one, self.bytes()),
            3 => Call::Overwrite(one, self.bytes()),
            4 => Call::MakeDir(one),
            5 => Call::Unlink(one),
            6 => Call::RemoveDir(one),
            7..=9 => Call::Rename(one, other),
            10 => Call::Link(one, other),
            _ => Call::Move(one, self.random.below(self.branches().len() as u64) as u8),
        };
        let branches = self.branches();
        let (before, view) = (contents(&branches), expected(&branches));
        let plain = tempfile::tempdir().unwrap();
        write_to(&view, &branches, plain.path());
        if call.refused_by_vfs(&view) {
            return;
        }
        let two_kinds = call.paths().iter().any(|path| is_of_two_kinds(&branches, path));
        let wanted = call.on_plain(plain.path());
        let done = call.on_union(self.union());
        self.log.push(format!("{call:?}: {done:?}"));
        let after = contents(&branches);
        self.check_losses(&call, done, &before, &after);
        if !settled || two_kinds {
            return;
        }
        assert_eq!(done, wanted, "{call:?}");
        let plain = shown_plain(plain.path());
        if !matches!(call, Call::Move(..)) {
            assert_eq!(kinds(&expected(&branches)), kinds(&plain), "after {call:?}");
        }
        if done.is_err() || matches!(call, Call::Move(..)) {
            assert_eq!(expected(&branches), view, "{call:?} changed what is shown");
        }
    }

    /// A call removes and replaces only what it names.
    fn check_losses(
        &self,
        call: &Call,
        done: Result<(), Errno>,
        before: &BTreeMap<(usize, String), Vec<u8>>,
        after: &BTreeMap<(usize, String), Vec<u8>>,
    ) {
        let left: BTreeSet<&Vec<u8>> = after.values().collect();
        let named = |bytes, named: &String| {
            let mut places = before.iter().filter(|(_, other)| *other == bytes);
            places.any(|((_, path), _)| path == named)
        };
        for ((branch, path), bytes) in before.iter().filter(|(_, bytes)| !left.contains(bytes)) {
            let may = match call {
                Call::Unlink(at) | Call::Rename(_, at) => path == at,
                // All of its links.
                Call::Overwrite(at, _) => named(bytes, at),
                _ => false,
            };
            assert!(may && done.is_ok(), "{call:?} lost {path} of branch {branch}");
        }
        if done.is_err() {
            assert_eq!(before, after, "{call:?} failed with {done:?} and changed something");
        }
    }

    /// Open files and known directories, as a program holds them over direct changes.
    fn hold(&mut self) {
        let path = self.path();
        let Ok(node) = self.union().node(&path) else { return };
        self.nodes.push(node);
        if let Ok(file) = self.union().union.open_file(node, OFlags::RDWR) {
            self.held.push(file);
        }
    }

    /// Calls on what is held give an answer, whatever happened to it.
    fn use_held(&mut self) {
        let Some(&node) = self.random.pick(&self.nodes) else { return };
        let branches = self.branches();
        let before = contents(&branches);
        let union = &self.union().union;
        let name = *Random::new(self.written).pick(NAMES).unwrap();
        let _ = union.attributes(node);
        let _ = union.list(node);
        let _ = union.xattr(node, b"user.mergerfs.allpaths");
        let created = union.create(node, name.as_bytes(), OFlags::RDWR, (0o600, 0), me());
        if let Ok((_, file)) = created {
            union.close(&file);
        }
        let _ = union.look_up(node, name.as_bytes());
        let removed = union.unlink(node, name.as_bytes());
        let after = contents(&branches);
        let left: BTreeSet<&Vec<u8>> = after.values().collect();
        for ((branch, path), _) in before.iter().filter(|(_, bytes)| !left.contains(bytes)) {
            let named = path.rsplit('/').next() == Some(name);
            assert!(removed.is_ok() && named, "lost {path} of branch {branch}");
        }
        if let Some(file) = self.held.last() {
            let mut bytes = [0; 64];
            assert!(union.read(file, 0, &mut bytes).is_ok(), "an open file can be read");
        }
    }

    fn restart(&mut self) {
        self.log.push("restart".to_owned());
        self.held.clear();
        self.nodes.clear();
        let before = contents(&self.branches());
        self.union = Some(self.union.take().unwrap().reopened(|_| {}));
        assert_eq!(contents(&self.branches()), before, "a start changes no file");
    }

    fn all(&mut self) {
        for _ in 0..GROUPS {
            (0..self.random.below(CALLS)).for_each(|_| self.change_directly());
            if self.random.below(3) == 0 {
                // Without a look at what was changed.
                (0..self.random.below(CALLS)).for_each(|_| self.call(false));
                self.use_held();
            }
            self.check_view();
            self.hold();
            for _ in 0..self.random.below(CALLS) {
                self.call(true);
                self.check_view();
            }
            if self.random.below(3) == 0 {
                self.restart();
                self.check_view();
            }
        }
    }
}

fn me() -> braid_union::User {
    crate::harness::me()
}

/// Another directory in the place of this one.
fn replace_directory(directory: &Path, branch: &Path) -> io::Result<()> {
    if !is_directory(directory) {
        return Ok(());
    }
    let aside = branch.join(NAMES[0]);
    if aside.symlink_metadata().is_ok() {
        return Ok(());
    }
    fs::rename(directory, aside)?;
    fs::create_dir(directory)
}

#[derive(Clone, Debug)]
enum Call {
    Create(String, Vec<u8>),
    Overwrite(String, Vec<u8>),
    MakeDir(String),
    Unlink(String),
    RemoveDir(String),
    Rename(String, String),
    Link(String, String),
    Move(String, u8),
}

impl Call {
    fn paths(&self) -> Vec<&String> {
        match self {
            Self::Create(path, _) | Self::Overwrite(path, _) => vec![path],
            Self::MakeDir(path) | Self::Unlink(path) | Self::RemoveDir(path) => vec![path],
            Self::Rename(from, to) | Self::Link(from, to) => vec![from, to],
            Self::Move(path, _) => vec![path],
        }
    }

    /// What the VFS decides before it calls a file system.
    fn refused_by_vfs(&self, view: &View) -> bool {
        let kind = |path: &String| view.get(path);
        // The harness does not follow symbolic links, and the branch must not either.
        let follows = |path: &String| {
            let above = path.match_indices('/').map(|(at, _)| path[..at].to_owned());
            above.into_iter().any(|path| matches!(view.get(&path), Some(Shown::Link(_))))
        };
        if self.paths().into_iter().any(follows) {
            return true;
        }
        match self {
            Self::Rename(from, to) => {
                let (from, to) = (format!("{from}/"), format!("{to}/"));
                to.starts_with(&from) || from.starts_with(&to)
            }
            Self::Link(from, _) => matches!(kind(from), Some(Shown::Directory)),
            Self::Overwrite(path, _) => !matches!(kind(path), Some(Shown::File(..))),
            _ => false,
        }
    }

    fn on_plain(&self, root: &Path) -> Result<(), Errno> {
        let at = |path: &String| root.join(path);
        let done = match self {
            Self::Create(path, bytes) => fs::File::create_new(at(path))
                .and_then(|mut file| io::Write::write_all(&mut file, bytes)),
            Self::Overwrite(path, bytes) => fs::write(at(path), bytes),
            Self::MakeDir(path) => fs::create_dir(at(path)),
            Self::Unlink(path) => fs::remove_file(at(path)),
            Self::RemoveDir(path) => fs::remove_dir(at(path)),
            Self::Rename(from, to) => return rename(&at(from), &at(to)),
            Self::Link(from, to) => fs::hard_link(at(from), at(to)),
            Self::Move(..) => Ok(()),
        };
        done.map_err(|error| Errno::from_io_error(&error).unwrap())
    }

    fn on_union(&self, union: &Fixture) -> Result<(), Errno> {
        match self {
            Self::Create(path, bytes) => union.write(path, bytes),
            Self::Overwrite(path, bytes) => overwrite(union, path, bytes),
            Self::MakeDir(path) => union.make_dir(path),
            Self::Unlink(path) => union.unlink(path),
            Self::RemoveDir(path) => union.remove_dir(path),
            Self::Rename(from, to) => union.rename(from, to),
            Self::Link(from, to) => union.link(from, to),
            Self::Move(path, branch) => {
                // Files may stay, for example beside a file of the same name.
                let progress = &mut |_: &_| ControlFlow::Continue(());
                let _ = union.union.move_to(path.as_bytes(), *branch, progress);
                Ok(())
            }
        }
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), Errno> {
    rustix::fs::renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, RenameFlags::empty())
}

fn overwrite(union: &Fixture, path: &str, bytes: &[u8]) -> Result<(), Errno> {
    let node = union.node(path)?;
    let file = union.union.open_file(node, OFlags::WRONLY)?;
    let size = braid_union::NewAttributes { size: Some(0), ..Default::default() };
    let truncated = union.union.set_attributes(node, &size).map(drop);
    let done = truncated.and_then(|()| union.union.write(&file, 0, bytes, false));
    union.union.close(&file);
    done.map(drop)
}

fn shown_plain(root: &Path) -> View {
    expected(&[root.to_owned()])
}

/// The view without the numbers of links: a hidden file has none in a plain directory.
fn kinds(view: &View) -> BTreeMap<&String, (bool, Option<&Vec<u8>>)> {
    let kind = |shown: &Shown| matches!(shown, Shown::Directory);
    view.iter().map(|(path, shown)| (path, (kind(shown), shown.bytes()))).collect()
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(given) = std::env::var("BRAID_DIRECT_SEEDS") else { return 0..SEEDS };
    let (first, end) = given.split_once("..").expect("BRAID_DIRECT_SEEDS is like 10..20");
    first.parse().unwrap()..end.parse().unwrap()
}

/// Runs the seeds on several threads, most of which wait until answers are too old.
#[test]
fn a_union_shows_what_was_changed_directly_and_loses_none_of_it() {
    let (seeds, next) = (seeds(), AtomicU64::new(0));
    let one = |seed| {
        let mut run = Run::new(seed);
        if std::panic::catch_unwind(AssertUnwindSafe(|| run.all())).is_err() {
            panic!("seed {seed}:\n{}", run.log.join("\n"));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let seed = seeds.start + next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    one(seed);
                }
            });
        }
    });
}
