//! Open files.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{
    NodeId, Result, Union,
    attributes::{copy_of, stat_fd},
    node::{Name, Node, lock},
    striped::StripedOpen,
};

/// An open file on its branch.
#[derive(Debug)]
pub struct OpenFile {
    /// Its node.
    pub node: NodeId,
    /// Another one after the file was moved to another branch.
    pub(crate) fd: Mutex<Arc<OwnedFd>>,
    /// Of open(2).
    pub(crate) flags: OFlags,
    /// That of its node.
    pub(crate) io: Arc<RwLock<()>>,
    passed_through: AtomicBool,
    pub(crate) striped: Option<StripedOpen>,
}

impl OpenFile {
    /// The descriptor on the branch. That of a striped file has no bytes.
    pub fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&lock(&self.fd))
    }

    /// Says, before the kernel gets the descriptor, whether it reads and writes the file by itself:
    /// such a file is not moved.
    pub fn pass_through(&self, passes: bool) {
        self.passed_through.store(passes, Ordering::SeqCst);
    }

    pub(crate) fn is_passed_through(&self) -> bool {
        self.passed_through.load(Ordering::SeqCst)
    }

    /// Whether it was opened to write.
    pub fn writes(&self) -> bool {
        self.flags.intersects(OFlags::WRONLY | OFlags::RDWR)
    }

    /// Whether its bytes are in units on several branches.
    pub fn is_striped(&self) -> bool {
        self.striped.is_some()
    }

    /// What of a program's flags matters on the branch. Offsets of appends are the kernel's, and
    /// the other flags say what the open did.
    pub(crate) fn flags(wanted: OFlags) -> OFlags {
        let access = wanted & (OFlags::WRONLY | OFlags::RDWR);
        access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK
    }
}

impl Union {
    /// Opens a regular file.
    ///
    /// # Errors
    /// Those of open(2); `ESTALE`: the file is gone.
    pub fn open_file(&self, id: NodeId, flags: OFlags) -> Result<Arc<OpenFile>> {
        let _shared = self.shared();
        let node = self.nodes.get(id)?;
        let flags = OpenFile::flags(flags);
        let branch = node.state().copies.first().ok_or(Errno::STALE)?.branch;
        if flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
            self.check_writable(branch)?;
        }
        let fd = match self.open_by_name(&node, branch, flags) {
            Some(fd) => fd,
            None => {
                let reference = self.reference(&node, branch)?;
                let path = crate::attributes::path_of(&*reference);
                // The path is a link to the file itself.
                rustix::fs::open(path, flags - OFlags::NOFOLLOW, Mode::empty())?
            }
        };
        let writes = flags.intersects(OFlags::WRONLY | OFlags::RDWR);
        let striped = self.open_striped(&node, branch, &fd, writes)?.map(StripedOpen::new);
        Ok(self.enter_open(&node, fd, flags, striped))
    }

    /// The usual case in two system calls. `None`: the name leads elsewhere, or the open failed.
    fn open_by_name(&self, node: &Node, branch: usize, flags: OFlags) -> Option<OwnedFd> {
        let copy = node.copy_on(branch)?;
        let Name { directory, name } = node.state().names.first().cloned()?;
        let directory = self.nodes.get(directory).ok()?;
        let directory = self.directory_fd(&directory, branch).ok()?;
        let fd = rustix::fs::openat(&*directory, &*name, flags, Mode::empty()).ok()?;
        (copy_of(branch, &stat_fd(&fd).ok()?) == copy).then_some(fd)
    }

    pub(crate) fn enter_open(
        &self,
        node: &Node,
        fd: OwnedFd,
        flags: OFlags,
        striped: Option<StripedOpen>,
    ) -> Arc<OpenFile> {
        let file = Arc::new(OpenFile {
            node: node.id,
            fd: Mutex::new(Arc::new(fd)),
            flags,
            io: Arc::clone(&node.io),
            passed_through: AtomicBool::new(false),
            striped,
        });
        let mut state = node.state();
        if file.writes() && !state.open.iter().any(|open| open.writes()) {
            self.notices.opened_to_write(&*file.fd());
        }
        state.open.push(Arc::clone(&file));
        drop(state);
        file
    }

    /// The last descriptor of the open file is closed.
    pub fn close(&self, file: &Arc<OpenFile>) {
        if let Ok(node) = self.nodes.get(file.node) {
            let mut state = node.state();
            let stays = |open: &Arc<OpenFile>| open.writes() && !Arc::ptr_eq(open, file);
            if file.writes() && !state.open.iter().any(stays) {
                self.notices.closed_to_write(&*file.fd());
            }
            state.open.retain(|open| !Arc::ptr_eq(open, file));
        }
        if let Some(striped) = &file.striped {
            self.close_striped(&striped.file);
        }
        self.count_closed(file);
    }
}
