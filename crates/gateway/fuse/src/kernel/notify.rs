//! Notifications to the kernel.

use super::abi::notify;
use super::backing::BackingFiles;
use super::device::Device;
use super::encode::Message;
use super::invalidator::{Invalidation, Invalidators, Work};
use rustix::io::Errno;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// Invalidates the kernel's caches, and registers backing files with it. Any thread may call it,
/// also one that serves a request.
#[derive(Clone, Debug)]
pub struct Notifier {
    device: Arc<Device>,
    pages: Arc<Invalidators>,
    names: Arc<Invalidators>,
    backing: Option<BackingFiles>,
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

/// What of one directory the kernel must look up again before it uses it.
#[derive(Clone, Debug)]
pub struct Expiry {
    /// The directory's node.
    pub directory: u64,
    /// Names in it. May be empty.
    pub names: Vec<Box<[u8]>>,
    /// Nodes whose attributes and ACLs are dropped after the directory's lock was taken. A file
    /// that is being created or looked up there has no node in the kernel before, and would get old
    /// attributes.
    pub files: Vec<u64>,
    /// Not before this time: a thread that looks up a known name again applies the reply without a
    /// lock, and possibly a little later.
    pub not_before: Option<Instant>,
}

/// A name that no file is likely to have. Such a file would be looked up once more.
const UNUSED_NAME: &[u8] = b"\n";

impl Expiry {
    /// Expires the names and drops the attributes. Counts the messages in `sent`.
    pub(super) fn carry_out(&self, device: &Device, sent: &AtomicUsize) -> Result<(), Errno> {
        if let Some(wait) =
            self.not_before.and_then(|then| then.checked_duration_since(Instant::now()))
        {
            thread::sleep(wait);
        }
        let unused = self.names.is_empty().then_some(UNUSED_NAME);
        for name in self.names.iter().map(AsRef::as_ref).chain(unused) {
            expire(device, self.directory, name)?;
            sent.fetch_add(1, Ordering::Relaxed);
        }
        self.files
            .iter()
            .try_for_each(|file| invalidate(device, Range { node: *file, offset: -1, length: 0 }))
    }
}

impl Notifier {
    pub(super) fn new(
        device: Arc<Device>,
        pages: Invalidators,
        names: Invalidators,
        backing: Option<BackingFiles>,
    ) -> Self {
        Self { device, pages: Arc::new(pages), names: Arc::new(names), backing }
    }

    /// Registers files that the kernel reads and writes by itself. `None`:
    /// [`super::Features::PASSTHROUGH`] was not agreed at INIT.
    pub fn backing_files(&self) -> Option<&BackingFiles> {
        self.backing.as_ref()
    }

    /// Drops a node's attributes and ACLs. Takes no lock.
    pub fn inval_attributes(&self, node: u64) -> Result<(), Errno> {
        self.inval_inode(node, -1, 0)
    }

    /// Drops the pages from byte `offset` for `length` bytes (0: to the end), and attributes and
    /// ACLs with them. Pages that a mapping made dirty are written first. Returns when the kernel
    /// has none of the pages. It waits for running READs and WRITEs of these pages, so their
    /// replies must not wait for the caller.
    ///
    /// A separate thread does it, at most [`super::INVALIDATORS_MAX`] at the same time: the caller
    /// waits where a SIGKILL of this process ends the wait. ENODEV and the like: the mount has
    /// ended.
    pub fn drop_pages(&self, node: u64, offset: u64, length: u64) -> Result<(), Errno> {
        let Ok(start) = i64::try_from(offset) else {
            // Past the end of the longest possible file.
            return Ok(());
        };
        let length = i64::try_from(length)
            .ok()
            .filter(|length| start.checked_add(*length).is_some())
            .unwrap_or(0);
        self.pages.begin(Work::Pages(Range { node, offset: start, length })).wait()
    }

    /// `FUSE_NOTIFY_INVAL_INODE` on this thread: drops attributes and ACLs and, where the offset is
    /// not negative, the pages from there for `length` bytes (0: to the end). A mount drops pages
    /// by [`Notifier::drop_pages`]: a thread that waits for a page here outlives its killed
    /// process, and so does the mount (I8).
    pub fn inval_inode(&self, node: u64, offset: i64, length: i64) -> Result<(), Errno> {
        invalidate(&self.device, Range { node, offset, length })
    }

    /// Begins to expire names in a directory (`FUSE_EXPIRE_ONLY`). The kernel looks each up before
    /// it uses it again. If the reply is the same, its file stays in use: a working directory, a
    /// running program, a mount point.
    ///
    /// It takes the directory's lock, which a pending create of this kernel holds. So a separate
    /// thread does it, and the caller waits as long as it likes. A reply that is being written
    /// stays valid: a lookup of a known name applies it without a lock. Only where
    /// [`super::KernelFeatures::expires_names`].
    pub fn expire(&self, expiry: Expiry) -> Invalidation {
        self.names.begin(Work::Names(expiry))
    }

    /// Sends any notification (`abi::notify`).
    pub fn send(&self, code: i32, payload: &[u8]) -> Result<(), Errno> {
        self.device.send_data(Message::new(0, code), &[IoSlice::new(payload)])
    }
}

pub(super) fn invalidate(device: &Device, range: Range) -> Result<(), Errno> {
    let mut message = Message::new(0, notify::INVAL_INODE);
    message.u64(range.node).i64(range.offset).i64(range.length);
    unless_unknown(device.send(message))
}

/// Sends `fuse_notify_inval_entry_out` and the name with its NUL.
fn expire(device: &Device, directory: u64, name: &[u8]) -> Result<(), Errno> {
    let mut message = Message::new(0, notify::INVAL_ENTRY);
    message
        .u64(directory)
        .u32(u32::try_from(name.len()).map_err(|_| Errno::NAMETOOLONG)?)
        .u32(notify::EXPIRE_ONLY);
    unless_unknown(device.send_data(message, &[IoSlice::new(name), IoSlice::new(&[0])]))
}

/// A node or name that the kernel does not have needs no invalidation.
fn unless_unknown(sent: Result<(), Errno>) -> Result<(), Errno> {
    match sent {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        sent => sent,
    }
}
