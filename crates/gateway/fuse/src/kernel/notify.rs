//! What the kernel is told without having asked.

use super::abi::notify;
use super::device::Device;
use super::encode::Message;
use rustix::io::Errno;
use std::io::IoSlice;
use std::sync::Arc;

/// Drops what the kernel keeps. Any thread may call, but none that serves a request: `inval_inode` of a
/// range waits for READs of it.
///
/// There is no way to drop a single name: `FUSE_NOTIFY_INVAL_ENTRY` takes the directory's lock, which a
/// create in this kernel holds while it may wait for another machine's recall (docs/adr/0010).
#[derive(Clone, Debug)]
pub struct Notifier {
    device: Arc<Device>,
    inc_epoch: bool,
}

impl Notifier {
    pub(super) fn new(device: Arc<Device>, inc_epoch: bool) -> Self {
        Self { device, inc_epoch }
    }

    /// Drops a node's attributes and ACLs. Takes no lock.
    pub fn inval_attributes(&self, node: u64) -> Result<(), Errno> {
        self.inval_inode(node, -1, 0)
    }

    /// Drops attributes and ACLs, and the pages from `offset` for `length` bytes (0: to the end). Waits for
    /// reads of those pages that are under way, and writes out pages that a mapping made dirty.
    /// A negative offset drops no pages.
    pub fn inval_inode(&self, node: u64, offset: i64, length: i64) -> Result<(), Errno> {
        let mut message = Message::new(0, notify::INVAL_INODE);
        message.u64(node).i64(offset).i64(length);
        match self.device.send(message) {
            // The kernel does not have the node.
            Err(Errno::NOENT) => Ok(()),
            result => result,
        }
    }

    /// Every name that went out before now is asked for anew before it is used. Takes no lock.
    /// EOPNOTSUPP where [`super::KernelFeatures::inc_epoch`] is false.
    pub fn inc_epoch(&self) -> Result<(), Errno> {
        if !self.inc_epoch {
            return Err(Errno::OPNOTSUPP);
        }
        self.device.send(Message::new(0, notify::INC_EPOCH))
    }

    /// Any notification, as bytes (`abi::notify`).
    pub fn send(&self, code: i32, payload: &[u8]) -> Result<(), Errno> {
        self.device.send_data(Message::new(0, code), &[IoSlice::new(payload)])
    }
}
