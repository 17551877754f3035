//! Which open files the kernel reads and writes by itself.
//!
//! The kernel demands one mode for all files that are open on a node at the same time
//! (`fs/fuse/iomode.c`): the first open decides, until the last close. A file is not passed through
//! where the kernel could not clear its set-user-id bits at a write: with the rights of this
//! process a write keeps them.

use std::{
    collections::HashMap,
    os::fd::AsFd,
    sync::{Arc, Mutex, PoisonError},
};

use braid_union::{Attributes, NodeId, OpenFile};

use crate::kernel::{BackingError, BackingFile, BackingFiles};

const SUID_OR_SGID: u32 = 0o6000;

#[derive(Debug)]
pub(super) struct Backings {
    files: Option<BackingFiles>,
    nodes: Mutex<HashMap<NodeId, OpenNode>>,
    /// Why the kernel refused the first file that it refused.
    refused: Mutex<Option<BackingError>>,
}

#[derive(Debug)]
struct OpenNode {
    backing: Option<Arc<BackingFile>>,
    opens: u64,
}

impl Backings {
    pub(super) fn new(files: Option<BackingFiles>) -> Self {
        Self { files, nodes: Mutex::default(), refused: Mutex::default() }
    }

    pub(super) fn works(&self) -> Result<(), String> {
        if self.files.is_none() {
            return Err("the kernel has no passthrough (Linux 6.9), or it needs root".to_owned());
        }
        match *self.refused.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(error) => Err(error.to_string()),
        }
    }

    /// The node is opened once more: the registered file for the reply, or `None` if the file is
    /// served by this process. Each call needs a [`Backings::close`].
    pub(super) fn open(
        &self,
        file: &OpenFile,
        attributes: impl FnOnce() -> Option<Attributes>,
    ) -> Option<Arc<BackingFile>> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let node = nodes.entry(file.node).or_insert_with(|| {
            // A striped file has no file on a branch with its bytes. All files that are open on a
            // node are striped, or none is.
            let passes = !file.is_striped()
                && attributes()
                    .is_some_and(|found| found.is_regular() && found.mode & SUID_OR_SGID == 0);
            let backing = passes.then(|| self.register(file)).flatten();
            OpenNode { backing, opens: 0 }
        });
        node.opens += 1;
        if node.backing.is_some() {
            file.pass_through(true);
        }
        node.backing.clone()
    }

    pub(super) fn close(&self, node: NodeId) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = nodes.get_mut(&node) {
            open.opens -= 1;
            if open.opens == 0 {
                nodes.remove(&node);
            }
        }
    }

    fn register(&self, file: &OpenFile) -> Option<Arc<BackingFile>> {
        let files = self.files.as_ref()?;
        file.pass_through(true);
        match files.register(file.fd().as_fd()) {
            Ok(backing) => Some(Arc::new(backing)),
            Err(error) => {
                file.pass_through(false);
                let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                if refused.replace(error).is_none() {
                    tracing::warn!(%error, "files are read and written through this process");
                }
                None
            }
        }
    }
}
