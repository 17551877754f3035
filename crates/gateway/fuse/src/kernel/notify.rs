//! What the kernel is told without having asked.

use super::abi::notify;
use super::device::Device;
use super::encode::Message;
use super::invalidator::{Invalidation, Invalidators, Work};
use rustix::io::Errno;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// Drops what the kernel keeps. Any thread may call, also one that serves a request.
#[derive(Clone, Debug)]
pub struct Notifier {
    device: Arc<Device>,
    pages: Arc<Invalidators>,
    names: Arc<Invalidators>,
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

/// What the kernel is to ask for before it uses it again, of one directory.
#[derive(Clone, Debug)]
pub struct Expiry {
    /// The directory's node.
    pub directory: u64,
    /// Names in it. Without any, all is as if there were one.
    pub names: Vec<Box<[u8]>>,
    /// Nodes whose attributes and ACLs are dropped once the directory's lock was free: what is being made or looked up there has
    /// no node in the kernel before, and would be given attributes that were true then.
    pub files: Vec<u64>,
    /// Not before this: a thread that looked a known name up again applies the answer without a lock, when it runs.
    pub not_before: Option<Instant>,
}

/// A name that nobody has; if somebody has, it is asked for once more.
const NOBODYS: &[u8] = b"\n";

impl Expiry {
    /// Counts what was `sent`.
    pub(super) fn carry_out(&self, device: &Device, sent: &AtomicUsize) -> Result<(), Errno> {
        if let Some(wait) =
            self.not_before.and_then(|then| then.checked_duration_since(Instant::now()))
        {
            thread::sleep(wait);
        }
        let nobodys = self.names.is_empty().then_some(NOBODYS);
        for name in self.names.iter().map(AsRef::as_ref).chain(nobodys) {
            expire(device, self.directory, name)?;
            sent.fetch_add(1, Ordering::Relaxed);
        }
        self.files
            .iter()
            .try_for_each(|file| invalidate(device, Range { node: *file, offset: -1, length: 0 }))
    }
}

impl Notifier {
    pub(super) fn new(device: Arc<Device>, pages: Invalidators, names: Invalidators) -> Self {
        Self { device, pages: Arc::new(pages), names: Arc::new(names) }
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
        let length = i64::try_from(length)
            .ok()
            .filter(|length| start.checked_add(*length).is_some())
            .unwrap_or(0);
        self.pages.begin(Work::Pages(Range { node, offset: start, length })).wait()
    }

    /// As `FUSE_NOTIFY_INVAL_INODE`, by this thread: drops attributes and ACLs, and where the offset is not negative the pages from
    /// there for `length` bytes (0: to the end). A mount drops pages by [`Notifier::drop_pages`]: the thread that
    /// waits for a page here outlives its process, and with it the mount (I8).
    pub fn inval_inode(&self, node: u64, offset: i64, length: i64) -> Result<(), Errno> {
        invalidate(&self.device, Range { node, offset, length })
    }

    /// Begins to expire names in a directory: each is asked for before it is used again, and what it leads to stays what it
    /// was, if the answer is the same (`FUSE_EXPIRE_ONLY`): a working directory, a running program, what is mounted there.
    ///
    /// Takes the directory's lock, which a create of this kernel holds that waits for its answer: so it is done by a thread of its
    /// own, and the caller waits as long as it likes. An answer that is being written goes on being valid: what looks a
    /// known name up again applies it without a lock. Only where [`super::KernelFeatures::expires_names`].
    pub fn expire(&self, expiry: Expiry) -> Invalidation {
        self.names.begin(Work::Names(expiry))
    }

    /// Any notification, as bytes (`abi::notify`).
    pub fn send(&self, code: i32, payload: &[u8]) -> Result<(), Errno> {
        self.device.send_data(Message::new(0, code), &[IoSlice::new(payload)])
    }
}

pub(super) fn invalidate(device: &Device, range: Range) -> Result<(), Errno> {
    let mut message = Message::new(0, notify::INVAL_INODE);
    message.u64(range.node).i64(range.offset).i64(range.length);
    if_there(device.send(message))
}

/// `fuse_notify_inval_entry_out`, and the name with its NUL.
fn expire(device: &Device, directory: u64, name: &[u8]) -> Result<(), Errno> {
    let mut message = Message::new(0, notify::INVAL_ENTRY);
    message
        .u64(directory)
        .u32(u32::try_from(name.len()).map_err(|_| Errno::NAMETOOLONG)?)
        .u32(notify::EXPIRE_ONLY);
    if_there(device.send_data(message, &[IoSlice::new(name), IoSlice::new(&[0])]))
}

/// What the kernel does not have needs no telling.
fn if_there(told: Result<(), Errno>) -> Result<(), Errno> {
    match told {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        told => told,
    }
}
