//! What the kernel is told without having asked.

use super::abi::notify;
use super::device::Device;
use super::encode::Message;
use super::invalidator::Invalidators;
use rustix::io::Errno;
use std::io::IoSlice;
use std::sync::Arc;

/// Drops what the kernel keeps. Any thread may call, also one that serves a request.
///
/// There is no way to drop a single name: `FUSE_NOTIFY_INVAL_ENTRY` takes the directory's lock, which a
/// create in this kernel holds while it may wait for another machine's recall (docs/adr/0010).
#[derive(Clone, Debug)]
pub struct Notifier {
    device: Arc<Device>,
    invalidators: Arc<Invalidators>,
    inc_epoch: bool,
}

/// `fuse_notify_inval_inode_out`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) node: u64,
    /// Negative: no pages.
    pub(super) offset: i64,
    /// 0: to the end.
    pub(super) length: i64,
}

impl Notifier {
    pub(super) fn new(device: Arc<Device>, invalidators: Invalidators, inc_epoch: bool) -> Self {
        Self { device, invalidators: Arc::new(invalidators), inc_epoch }
    }

    /// Drops a node's attributes and ACLs. Takes no lock.
    pub fn inval_attributes(&self, node: u64) -> Result<(), Errno> {
        self.inval_inode(node, -1, 0)
    }

    /// Drops the pages from byte `offset` for `length` bytes (0: to the end), and attributes and ACLs with them; what a
    /// mapping made dirty is written first. Returns when the kernel has none of them: it waits for READs of these
    /// pages that are under way, and for WRITEs, so the caller must not be what their answers wait for.
    ///
    /// It is done by a thread of its own, at most [`super::INVALIDATORS_MAX`] at once: the caller waits where a SIGKILL
    /// of this process ends it. ENODEV and the like: the mount is over.
    pub fn drop_pages(&self, node: u64, offset: u64, length: u64) -> Result<(), Errno> {
        let Ok(start) = i64::try_from(offset) else {
            // Behind the longest file.
            return Ok(());
        };
        let length = i64::try_from(length).ok().filter(|length| start.checked_add(*length).is_some()).unwrap_or(0);
        self.invalidators.drop_pages(Range { node, offset: start, length })
    }

    /// As `FUSE_NOTIFY_INVAL_INODE`, by this thread: drops attributes and ACLs, and where the offset is not negative the pages from
    /// there for `length` bytes (0: to the end). A mount drops pages by [`Notifier::drop_pages`]: the thread that
    /// waits for a page here outlives its process, and with it the mount (I8).
    pub fn inval_inode(&self, node: u64, offset: i64, length: i64) -> Result<(), Errno> {
        invalidate(&self.device, Range { node, offset, length })
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

pub(super) fn invalidate(device: &Device, range: Range) -> Result<(), Errno> {
    let mut message = Message::new(0, notify::INVAL_INODE);
    message.u64(range.node).i64(range.offset).i64(range.length);
    match device.send(message) {
        // The kernel does not have the node.
        Err(Errno::NOENT) => Ok(()),
        result => result,
    }
}
