//! A union of temporary directories.

use std::{
    fs,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use braid_union::{BranchMode, NodeId, Placement, Pool, Union, User};
use rustix::fs::OFlags;
use rustix::io::Errno;
use tempfile::TempDir;

pub struct Fixture {
    pub dir: TempDir,
    pub union: Union,
    pub branches: Vec<PathBuf>,
}

pub fn me() -> User {
    User { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
}

/// Empty branches with a placement; no branch is ever "full".
pub fn union_of(count: usize, placement: &str) -> Fixture {
    union_over(count, placement, |_| {})
}

/// As `union_of`; `prepare` fills the branches before they are adopted.
pub fn union_over(count: usize, placement: &str, prepare: impl FnOnce(&[PathBuf])) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let branches: Vec<PathBuf> =
        (0..count).map(|number| dir.path().join(format!("disk{number}"))).collect();
    branches.iter().for_each(|branch| fs::create_dir(branch).unwrap());
    prepare(&branches);
    let disks: Vec<_> = branches.iter().map(|branch| (branch.clone(), BranchMode::Rw)).collect();
    let mut pool = Pool::create(&dir.path().join("meta"), "test", &disks, Some(0)).unwrap();
    pool.set_placement(placement.parse::<Placement>().unwrap()).unwrap();
    let branches = pool.config.branches.iter().map(|branch| branch.path.clone()).collect();
    Fixture { union: Union::open(&pool).unwrap(), dir, branches }
}

impl Fixture {
    /// Ends the union, lets `between` change its files, and opens it again.
    pub fn reopened(self, between: impl FnOnce(&Path)) -> Self {
        let Self { dir, union, branches } = self;
        drop(union);
        let meta = dir.path().join("meta");
        between(&meta);
        let union = Union::open(&Pool::open(&meta).unwrap()).unwrap();
        Self { dir, union, branches }
    }

    /// The node at a path.
    pub fn node(&self, path: &str) -> Result<NodeId, Errno> {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        parts.try_fold(NodeId::ROOT, |at, part| Ok(self.union.look_up(at, part.as_bytes())?.node))
    }

    fn parent<'p>(&self, path: &'p str) -> Result<(NodeId, &'p [u8]), Errno> {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let directory = self.node(directory)?;
        // The kernel walks a path before it calls a file system.
        match self.union.attributes(directory)?.is_directory() {
            true => Ok((directory, name.as_bytes())),
            false => Err(Errno::NOTDIR),
        }
    }

    pub fn write(&self, path: &str, bytes: &[u8]) -> Result<(), Errno> {
        let (directory, name) = self.parent(path)?;
        let (_, file) = self.union.create(directory, name, OFlags::RDWR, (0o644, 0), me())?;
        let written = self.union.write(&file, 0, bytes, false);
        self.union.close(&file);
        assert_eq!(written?, bytes.len());
        Ok(())
    }

    pub fn read(&self, path: &str) -> Result<Vec<u8>, Errno> {
        let file = self.union.open_file(self.node(path)?, OFlags::RDONLY)?;
        let mut bytes = vec![0; 1 << 16];
        let read = self.union.read(&file, 0, &mut bytes)?;
        assert!(rustix::fs::fstat(file.fd().as_fd()).is_ok());
        self.union.close(&file);
        bytes.truncate(read);
        Ok(bytes)
    }

    pub fn make_dir(&self, path: &str) -> Result<(), Errno> {
        let (directory, name) = self.parent(path)?;
        self.union.create_directory(directory, name, (0o755, 0), me()).map(drop)
    }

    pub fn unlink(&self, path: &str) -> Result<(), Errno> {
        let (directory, name) = self.parent(path)?;
        self.union.unlink(directory, name)
    }

    pub fn remove_dir(&self, path: &str) -> Result<(), Errno> {
        let (directory, name) = self.parent(path)?;
        self.union.remove_directory(directory, name)
    }

    pub fn link(&self, path: &str, new: &str) -> Result<(), Errno> {
        // In the order of link(2).
        let node = self.node(path)?;
        let (directory, name) = self.parent(new)?;
        self.union.link(node, directory, name).map(drop)
    }

    pub fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        self.rename_by(from, to, braid_union::RenameMode::Replace)
    }

    pub fn rename_by(
        &self,
        from: &str,
        to: &str,
        mode: braid_union::RenameMode,
    ) -> Result<(), Errno> {
        self.union.rename(self.parent(from)?, self.parent(to)?, mode)
    }

    /// The names in a directory, sorted.
    pub fn names(&self, path: &str) -> Result<Vec<String>, Errno> {
        let listing = self.union.list(self.node(path)?)?;
        let mut names: Vec<String> = listing
            .entries
            .iter()
            .map(|entry| String::from_utf8(entry.name.to_vec()).unwrap())
            .collect();
        names.sort();
        Ok(names)
    }

    /// The branches that have a path.
    pub fn on(&self, path: &str) -> Vec<usize> {
        let has = |at: &usize| self.branches[*at].join(path).symlink_metadata().is_ok();
        (0..self.branches.len()).filter(has).collect()
    }
}

/// A file system in memory, unmounted at the end.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`, and the reason printed, without root.
    pub fn mount(path: &Path, bytes: u64) -> Option<Self> {
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(path)
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(path.to_owned()));
        }
        println!("skipped: mounting a small tmpfs needs root");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
