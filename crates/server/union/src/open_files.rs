//! Open files.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{NodeId, Result, Union, node::Node};

/// An open file on its branch.
#[derive(Debug)]
pub struct OpenFile {
    /// Its node.
    pub node: NodeId,
    fd: OwnedFd,
    writes: bool,
}

impl OpenFile {
    /// The descriptor on the branch.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Whether it was opened to write.
    pub fn writes(&self) -> bool {
        self.writes
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
        let reference = self.reference(&node, branch)?;
        let path = crate::attributes::path_of(&*reference);
        // The path is a link to the file itself.
        let fd = rustix::fs::open(path, flags - OFlags::NOFOLLOW, Mode::empty())?;
        Ok(self.enter_open(&node, fd, flags))
    }

    pub(crate) fn enter_open(&self, node: &Node, fd: OwnedFd, flags: OFlags) -> Arc<OpenFile> {
        let writes = flags.intersects(OFlags::WRONLY | OFlags::RDWR);
        let file = Arc::new(OpenFile { node: node.id, fd, writes });
        node.state().open.push(Arc::clone(&file));
        file
    }

    /// The last descriptor of the open file is closed.
    pub fn close(&self, file: &Arc<OpenFile>) {
        if let Ok(node) = self.nodes.get(file.node) {
            node.state().open.retain(|open| !Arc::ptr_eq(open, file));
        }
    }
}
