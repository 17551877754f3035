//! New files: on which branch, and the directories that they need there.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use rustix::fs::{
    AtFlags, CWD, Dev, FileType, Mode, OFlags, RenameFlags, Statx, Timespec, Timestamps,
    UTIME_OMIT, XattrFlags,
};
use rustix::io::Errno;

use crate::{
    Found, NodeId, Result, Union, User,
    attributes::{copy_of, path_of, set_mode, stat_at, stat_fd},
    credentials::as_user,
    directory_names::Adding,
    lookup::{OnBranches, is_directory},
    node::Node,
    open_files::OpenFile,
    remove::{RESERVED_PREFIX, TEMPORARY_PREFIX},
    striped::NewFile,
};

/// The xattr of a directory that was created on a second branch: its index. Not shown in the union.
pub(crate) const INDEX_XATTR: &str = "trusted.braid.index";
pub(crate) const DEFAULT_ACL: &str = "system.posix_acl_default";
/// Names of temporary directories that are tried.
const TEMPORARY_TRIES: u32 = 100;

impl Union {
    /// Creates and opens a regular file. `flags` are `O_*` of open(2).
    ///
    /// # Errors
    /// `EEXIST`; `ENOSPC`: no branch has space; others of open(2).
    pub fn create(
        &self,
        directory: NodeId,
        name: &[u8],
        flags: OFlags,
        (mode, umask): (u32, u32),
        user: User,
    ) -> Result<(Found, Arc<OpenFile>)> {
        let _shared = self.shared();
        let flags = OpenFile::flags(flags) | OFlags::CREATE | OFlags::EXCL;
        let parent = self.nodes.get(directory)?;
        self.check_quota_of_new(&parent, user)?;
        if let Some(choice) = self.stripe_choice(&parent)? {
            let new = NewFile { directory, name, mode: (mode, umask), user, flags };
            if let Some(created) = self.create_striped(&new, choice)? {
                return Ok(created);
            }
        }
        let (found, fd) = self.add(directory, name, user, umask, |parent, umask| {
            let mode = Mode::from_raw_mode(mode & !umask);
            rustix::fs::openat(parent, name, flags, mode).map(Some)
        })?;
        let fd = fd.ok_or(Errno::IO)?;
        let node = self.nodes.get(found.node)?;
        Ok((found, self.enter_open(&node, fd, flags, None)))
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// Those of mkdir(2).
    pub fn create_directory(
        &self,
        directory: NodeId,
        name: &[u8],
        (mode, umask): (u32, u32),
        user: User,
    ) -> Result<Found> {
        let shared = self.shared();
        let made = self.add(directory, name, user, umask, |parent, umask| {
            let mode = Mode::from_raw_mode(mode & !umask);
            rustix::fs::mkdirat(parent, name, mode).map(|()| None)
        })?;
        drop(shared);
        self.inherit_choice(directory, made.0.node);
        Ok(made.0)
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// Those of symlink(2).
    pub fn create_symlink(
        &self,
        directory: NodeId,
        name: &[u8],
        target: &[u8],
        user: User,
    ) -> Result<Found> {
        let _shared = self.shared();
        self.check_quota_of_new(&*self.nodes.get(directory)?, user)?;
        let made = self.add(directory, name, user, 0, |parent, _| {
            rustix::fs::symlinkat(target, parent, name).map(|()| None)
        })?;
        Ok(made.0)
    }

    /// Creates a FIFO, a socket, a device node or an empty file. `mode` has its kind, `device` the
    /// number of a device node.
    ///
    /// # Errors
    /// Those of mknod(2).
    pub fn create_node(
        &self,
        directory: NodeId,
        name: &[u8],
        (mode, umask): (u32, u32),
        device: Dev,
        user: User,
    ) -> Result<Found> {
        let _shared = self.shared();
        self.check_quota_of_new(&*self.nodes.get(directory)?, user)?;
        let kind = FileType::from_raw_mode(mode);
        let made = self.add(directory, name, user, umask, |parent, umask| {
            let mode = Mode::from_raw_mode(mode & 0o7777 & !umask);
            rustix::fs::mknodat(parent, name, kind, mode, device).map(|()| None)
        })?;
        Ok(made.0)
    }

    /// Gives a file another name, on its branch: the directory is created there if it is not yet.
    ///
    /// # Errors
    /// Those of link(2), but never `EXDEV`.
    pub fn link(&self, id: NodeId, directory: NodeId, name: &[u8]) -> Result<Found> {
        let _shared = self.shared();
        let _change = self.name_changes.begin();
        self.check_name(directory, name)?;
        let (node, parent) = (self.nodes.get(id)?, self.nodes.get(directory)?);
        let branch = node.state().copies.first().ok_or(Errno::STALE)?.branch;
        self.check_writable(branch)?;
        let adding = parent.names.begin_adding();
        self.check_absent(&adding, &parent, name)?;
        let to = self.ensure_directory(&parent, branch)?;
        let from = self.reference(&node, branch)?;
        let _links = self.hold_links(copy_of(branch, &stat_fd(&from)?))?;
        rustix::fs::linkat(CWD, path_of(&from), &*to, name, AtFlags::SYMLINK_FOLLOW)?;
        self.entered(directory, name, branch, &to)
    }

    /// Creates something by `make(directory, umask)`, which runs as the user. The caller holds
    /// [`Union::renames`] shared, until an open file is known too.
    fn add(
        &self,
        directory: NodeId,
        name: &[u8],
        user: User,
        umask: u32,
        make: impl Fn(&OwnedFd, u32) -> Result<Option<OwnedFd>>,
    ) -> Result<(Found, Option<OwnedFd>)> {
        let _change = self.name_changes.begin();
        self.check_name(directory, name)?;
        let parent = self.nodes.get(directory)?;
        let adding = parent.names.begin_adding();
        self.check_absent(&adding, &parent, name)?;
        let (branch, to, fd) = self.place(&parent, user, umask, make)?;
        Ok((self.entered(directory, name, branch, &to)?, fd))
    }

    /// Makes something on the first branch that takes it, in the order of the placement.
    pub(crate) fn place<T>(
        &self,
        parent: &Node,
        user: User,
        umask: u32,
        make: impl Fn(&OwnedFd, u32) -> Result<T>,
    ) -> Result<(usize, Arc<OwnedFd>, T)> {
        let mut failed = Errno::ROFS;
        let has = |branch| parent.copy_on(branch).is_some();
        let placement = self.placement_of(parent)?;
        if placement.label.is_some() {
            // Its branches are full, or none of them can be written.
            failed = Errno::NOSPC;
        }
        for branch in self.placer.order(&placement, &self.branches, user.uid, has) {
            let made = self.ensure_directory(parent, branch).and_then(|to| {
                let umask = if umask == 0 || !is_masked(parent, &to) { 0 } else { umask };
                Ok((as_user(user, || make(&to, umask))?, to))
            });
            match made {
                Ok((made, to)) => return Ok((branch, to, made)),
                Err(error) if may_work_elsewhere(error) => {
                    self.branches[branch].space_changed();
                    // What a branch cannot do at all is what the caller has an answer to.
                    failed = if failed == Errno::OPNOTSUPP { failed } else { error };
                }
                // The name is on none of the disks: that was found out before.
                Err(error) if self.branches[branch].note_error(error) => failed = error,
                Err(error) => return Err(error),
            }
        }
        Err(failed)
    }

    /// Asks each branch, unless the lookup before has done it.
    pub(crate) fn check_absent(
        &self,
        adding: &Adding<'_>,
        parent: &Node,
        name: &[u8],
    ) -> Result<()> {
        if adding.is_known_absent(name) {
            return Ok(());
        }
        if self.is_absent(parent, name)? { Ok(()) } else { Err(Errno::EXIST) }
    }

    /// Enters what was just created or linked on a branch.
    pub(crate) fn entered(
        &self,
        directory: NodeId,
        name: &[u8],
        branch: usize,
        to: &OwnedFd,
    ) -> Result<Found> {
        let parent = self.nodes.get(directory)?;
        self.index_added(&parent, name, branch);
        let stat = stat_at(to, name)?;
        self.count_file(branch, &stat);
        self.save_added(&parent, name, branch, (&stat).into());
        let found = OnBranches { stats: vec![(branch, stat)], ..OnBranches::default() };
        Ok(self.enter(directory, name, &found))
    }

    /// The directory on a branch. If it is not there yet it is created, and its parents, with the
    /// owner, mode, ACLs and other xattrs of the first copy.
    ///
    /// # Errors
    /// `ENOTDIR`: the branch has a file of the name of one of them.
    pub(crate) fn ensure_directory(&self, node: &Node, branch: usize) -> Result<Arc<OwnedFd>> {
        let mut missing = Vec::new();
        let mut at = self.nodes.get(node.id)?;
        // Up to a directory that is there, then down. A path may be too deep for recursion.
        let mut fd = loop {
            match self.linked_copy(&at, branch) {
                Err(Errno::NOENT) if at.id != NodeId::ROOT => {}
                found => break found?,
            }
            self.check_depth(missing.len())?;
            let name = at.first_name()?;
            let parent = self.nodes.get(name.directory)?;
            missing.push((std::mem::replace(&mut at, Arc::clone(&parent)), parent, name.name));
        };
        if !missing.is_empty() {
            self.check_writable(branch)?;
        }
        while let Some((node, parent, name)) = missing.pop() {
            fd = self.create_copy(&node, branch, &parent, &fd, &name)?;
        }
        Ok(fd)
    }

    /// The directory on a branch, unless somebody has removed it directly: then it does not count
    /// as a copy any more.
    fn linked_copy(&self, node: &Node, branch: usize) -> Result<Arc<OwnedFd>> {
        let fd = self.directory_fd(node, branch)?;
        if node.id == NodeId::ROOT || stat_fd(&fd)?.stx_nlink > 0 {
            return Ok(fd);
        }
        self.nodes.remove_copy(node, branch);
        self.notices.copies_changed(node.id);
        self.fds.remove(node.id, branch);
        Err(Errno::NOENT)
    }

    fn create_copy(
        &self,
        node: &Node,
        branch: usize,
        parent: &Node,
        parent_fd: &OwnedFd,
        name: &[u8],
    ) -> Result<Arc<OwnedFd>> {
        let (_, model) = self.present_copies(node)?.swap_remove(0);
        let root = self.branches[branch].root()?;
        // In the union no name is new, so no directory's time changes.
        let times = [stat_fd(parent_fd)?, stat_fd(&*root)?];
        // Complete before it has its name: nobody sees one without its owner and mode.
        let new = self.create_like(node, &model, branch)?;
        let named =
            rustix::fs::renameat_with(&*root, &*new, parent_fd, name, RenameFlags::NOREPLACE);
        set_modified(&root, &times[1]);
        if named.is_ok() {
            set_modified(parent_fd, &times[0]);
        }
        if let Err(error) = named {
            let _ = rustix::fs::unlinkat(&*root, &*new, AtFlags::REMOVEDIR);
            // Another thread was faster, or somebody made a file of this name.
            if error != Errno::EXIST {
                return Err(error);
            }
        }
        let stat = stat_at(parent_fd, name)?;
        if !is_directory(&stat) {
            return Err(Errno::NOTDIR);
        }
        self.nodes.add_copy(node, copy_of(branch, &stat));
        self.index_added(parent, name, branch);
        self.save_added(parent, name, branch, (&stat).into());
        parent.names.note_added();
        self.directory_fd(node, branch)
    }

    /// Creates a directory with the attributes of `model` under a temporary name in the root of the
    /// branch, and returns the name.
    fn create_like(&self, node: &Node, model: &OwnedFd, branch: usize) -> Result<Vec<u8>> {
        let root = self.branches[branch].root()?;
        let mut made = Err(Errno::EXIST);
        for number in 0..TEMPORARY_TRIES {
            let name = format!("{TEMPORARY_PREFIX}{}-{number}", node.id.0).into_bytes();
            made = rustix::fs::mkdirat(&*root, &*name, Mode::RWXU).map(|()| name);
            if made != Err(Errno::EXIST) {
                break;
            }
        }
        let name = made?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let copied = rustix::fs::openat(&*root, &*name, flags, Mode::empty())
            .and_then(|new| self.copy_attributes(node, model, &new, branch));
        match copied {
            Ok(()) => Ok(name),
            Err(error) => {
                let _ = rustix::fs::unlinkat(&*root, &*name, AtFlags::REMOVEDIR);
                Err(error)
            }
        }
    }

    fn copy_attributes(
        &self,
        node: &Node,
        model: &OwnedFd,
        new: &OwnedFd,
        branch: usize,
    ) -> Result<()> {
        let stat = stat_fd(model)?;
        let (uid, gid) =
            (rustix::fs::Uid::from_raw(stat.stx_uid), rustix::fs::Gid::from_raw(stat.stx_gid));
        rustix::fs::fchown(new, Some(uid), Some(gid))?;
        let from = path_of(model);
        for name in crate::xattrs::names(&from)? {
            let value = crate::xattrs::value(&from, &name)?;
            match rustix::fs::fsetxattr(new, &*name, &value, XattrFlags::empty()) {
                // The branch keeps no such xattr: the directory works without.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM) => {}
                Err(error) => return Err(error),
            }
        }
        let inode = stat_fd(new)?.stx_ino;
        let number = self.branches[branch].number;
        let stored = format!("{} {} {inode} {number}", self.pool, node.index);
        // Without it the directory has another number after the first copy was removed.
        let _ = rustix::fs::fsetxattr(new, INDEX_XATTR, stored.as_bytes(), XattrFlags::empty());
        set_modified(new, &stat);
        set_mode(new.as_fd(), stat.stx_mode.into())
    }

    /// The index that [`Union::copy_attributes`] stored. An xattr that was copied with the
    /// directory names another inode or branch, and does not count.
    pub(crate) fn stored_index(
        &self,
        branch: usize,
        stat: &rustix::fs::Statx,
        directory: NodeId,
        name: &[u8],
    ) -> Option<u64> {
        let parent = self.nodes.get(directory).ok()?;
        let parent = self.directory_fd(&parent, branch).ok()?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&*parent, name, flags, Mode::empty()).ok()?;
        let value = crate::xattrs::value(&path_of(&fd), INDEX_XATTR.as_bytes()).ok()?;
        let text = String::from_utf8(value).ok()?;
        let mut words = text.split(' ');
        let pool = words.next()?.parse::<crate::PoolUuid>().ok()?;
        let index = words.next()?.parse().ok()?;
        let inode: u64 = words.next()?.parse().ok()?;
        // Pools of earlier versions have no number of the branch there.
        let number = words.next().map_or(Some(self.branches[branch].number), |n| n.parse().ok())?;
        let here = inode == stat.stx_ino && number == self.branches[branch].number;
        (pool == self.pool && here && words.next().is_none()).then_some(index)
    }

    /// What a process that was killed left: none of them was ever seen.
    pub(crate) fn remove_temporary_directories(&self) {
        for branch in self.branches.iter().filter(|branch| branch.is_writable()) {
            let Ok(root) = branch.root() else { continue };
            let Ok(directory) = rustix::fs::Dir::read_from(&*root) else { continue };
            for entry in directory.flatten() {
                if entry.file_name().to_bytes().starts_with(TEMPORARY_PREFIX.as_bytes()) {
                    let _ = rustix::fs::unlinkat(&*root, entry.file_name(), AtFlags::REMOVEDIR);
                }
            }
        }
    }
}

/// Another branch may have space, may be writable, may have no file where this one has one in the
/// place of the directory, and may know kinds of files that this one does not.
fn may_work_elsewhere(error: Errno) -> bool {
    [Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::NOTDIR, Errno::OPNOTSUPP].contains(&error)
}

/// Gives a directory the time of its last change that it had. Where that fails, it is a later one:
/// of the last change of the copy.
fn set_modified(directory: &OwnedFd, stat: &Statx) {
    let time = stat.stx_mtime;
    let last_modification = Timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec.into() };
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access, last_modification };
    let _ = rustix::fs::utimensat(directory, c"", &times, AtFlags::EMPTY_PATH);
}

/// Whether new files in a directory get the umask.
pub(crate) fn is_masked(directory: &Node, fd: &OwnedFd) -> bool {
    directory.names.is_masked(|| {
        rustix::fs::getxattr_query(path_of(fd), DEFAULT_ACL).is_ok_and(|bytes| bytes > 0)
    })
}

const _: () = {
    // Temporary directories are hidden as all reserved names.
    let (prefix, reserved) = (TEMPORARY_PREFIX.as_bytes(), RESERVED_PREFIX);
    let mut at = 0;
    while at < reserved.len() {
        assert!(prefix[at] == reserved[at]);
        at += 1;
    }
};
