//! The one reply to a request.

use super::abi::{OUT_HEADER_BYTES, opcode};
use super::channel::Channel;
use super::encode::{DirectoryBuffer, Message};
use super::interrupt::{Interrupt, Interrupts};
use super::{Attributes, BackingId, Entry, ExtendedStat, Header, Lock, SpaceStat, Validity};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use thiserror::Error;

/// Answers one request, once, from any thread. If it is dropped before, it replies EIO: no process
/// may wait forever because of an error in a handler (I8).
#[derive(Debug)]
pub struct Reply {
    channel: Channel,
    interrupts: Arc<Interrupts>,
    interrupt: Interrupt,
    unique: u64,
    opcode: u32,
}

/// An open file, in a reply to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The kernel sends it with each request on the open file.
    pub handle: u64,
    /// `abi::fopen`.
    pub flags: u32,
    /// The file that the kernel reads and writes instead of asking; it sets
    /// `abi::fopen::PASSTHROUGH`. Only where [`super::Notifier::backing_files`] has any, and by the
    /// rules of [`super::BackingFile`].
    pub backing: Option<BackingId>,
}

/// The kernel did not accept a reply. It does not count the lookup, and will not release the
/// handle: the handler must undo them.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("sending a reply to the kernel failed: {0}")]
pub struct ReplyRejected(pub Errno);

impl Reply {
    /// `interrupt` has whether the request was answered already.
    pub(super) fn new(
        channel: &Channel,
        interrupts: &Arc<Interrupts>,
        interrupt: Interrupt,
        header: &Header,
    ) -> Self {
        let (channel, interrupts) = (channel.clone(), Arc::clone(interrupts));
        Self { channel, interrupts, interrupt, unique: header.unique, opcode: header.opcode }
    }

    /// LOOKUP, MKNOD, MKDIR, SYMLINK, LINK: counts as one lookup of the node.
    pub fn entry(self, entry: &Entry) -> Result<(), ReplyRejected> {
        self.send_fixed(|message| message.entry(entry))
    }

    /// LOOKUP of a name that does not exist, where the kernel may cache that. Otherwise the reply
    /// is `error(Errno::NOENT)`.
    pub fn absent(self, valid: Validity) {
        let _ = self.send_fixed(|message| message.absent(valid));
    }

    /// GETATTR, SETATTR.
    pub fn attributes(self, attributes: &Attributes, valid: Validity) {
        let _ = self.send_fixed(|message| message.attributes_valid(attributes, valid));
    }

    /// STATX.
    pub fn extended_stat(self, stat: &ExtendedStat, valid: Validity) {
        let _ = self.send_fixed(|message| message.extended(stat, valid));
    }

    /// OPEN, OPENDIR.
    pub fn opened(self, opened: Opened) -> Result<(), ReplyRejected> {
        self.send_fixed(|message| message.opened(&opened))
    }

    /// CREATE, TMPFILE.
    pub fn created(self, entry: &Entry, opened: Opened) -> Result<(), ReplyRejected> {
        self.send_fixed(|message| message.entry(entry).opened(&opened))
    }

    /// READ, READLINK, GETXATTR and LISTXATTR with a size. A READ that is shorter than asked ends
    /// the file.
    pub fn data(self, data: &[u8]) {
        self.data_slices(&[IoSlice::new(data)]);
    }

    /// As `data`, from several slices, without a copy.
    pub fn data_slices(self, data: &[IoSlice<'_>]) {
        let _ = self.send(|channel, unique| channel.send_data(Message::new(unique, 0), data));
    }

    /// Whether [`Reply::piped`] works: over io_uring there is no descriptor to move data to.
    pub fn takes_pipe(&self) -> bool {
        self.channel.device().is_some()
    }

    /// The header of a reply with `bytes` of data, for [`Reply::piped`].
    pub fn data_header(&self, bytes: usize) -> [u8; OUT_HEADER_BYTES] {
        let mut header = [0; OUT_HEADER_BYTES];
        header.copy_from_slice(Message::new(self.unique, 0).finish(bytes));
        header
    }

    /// As `data`: `send` moves [`Reply::data_header`] and the data to the device in one call.
    pub fn piped(
        self,
        send: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<()>,
    ) -> Result<(), ReplyRejected> {
        self.send(|channel, _| {
            let device = channel.device().ok_or(Errno::OPNOTSUPP)?;
            send(device.fd().as_fd())
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        })
    }

    /// WRITE: bytes written.
    pub fn written(self, bytes: u32) {
        let _ = self.send_fixed(|message| message.u32(bytes).u32(0));
    }

    /// COPY_FILE_RANGE: bytes copied.
    pub fn copied(self, bytes: u64) {
        let wide = self.opcode == opcode::COPY_FILE_RANGE_64;
        // The older form has 32 bits: a larger copy is reported as a short one, which callers
        // continue.
        let narrow = u32::try_from(bytes).unwrap_or(!0xfff);
        let _ = self.send_fixed(
            |message| if wide { message.u64(bytes) } else { message.u32(narrow).u32(0) },
        );
    }

    /// STATFS.
    pub fn space(self, space: &SpaceStat) {
        let _ = self.send_fixed(|message| message.space(space));
    }

    /// GETXATTR and LISTXATTR with size 0: how long the value is.
    pub fn xattr_size(self, bytes: u32) {
        let _ = self.send_fixed(|message| message.u32(bytes).u32(0));
    }

    /// READDIR, READDIRPLUS. An empty listing: the end.
    pub fn directory(self, listing: &DirectoryBuffer) -> Result<(), ReplyRejected> {
        let data = [IoSlice::new(listing.as_bytes())];
        self.send(|channel, unique| channel.send_data(Message::new(unique, 0), &data))
    }

    /// GETLK: the conflicting lock.
    pub fn lock(self, conflict: Option<&Lock>) {
        let _ = self.send_fixed(|message| message.lock(conflict));
    }

    /// LSEEK: the offset found.
    pub fn position(self, offset: u64) {
        let _ = self.send_fixed(|message| message.u64(offset));
    }

    /// BMAP.
    pub fn block(self, block: u64) {
        let _ = self.send_fixed(|message| message.u64(block));
    }

    /// POLL: the ready events.
    pub fn events(self, events: u32) {
        let _ = self.send_fixed(|message| message.u32(events).u32(0));
    }

    /// IOCTL: its result, and data for the caller.
    pub fn ioctl(self, result: i32, data: &[u8]) {
        let _ = self.send(|channel, unique| {
            let mut message = Message::new(unique, 0);
            message.i32(result).u32(0).u32(0).u32(0);
            channel.send_data(message, &[IoSlice::new(data)])
        });
    }

    /// Success without data.
    pub fn ok(self) {
        let _ = self.send_fixed(|message| message);
    }

    /// The request failed.
    pub fn error(self, error: Errno) {
        self.fail(error);
    }

    pub(super) fn send_fixed(
        self,
        fill: impl FnOnce(&mut Message) -> &mut Message,
    ) -> Result<(), ReplyRejected> {
        self.send(|channel, unique| {
            let mut message = Message::new(unique, 0);
            fill(&mut message);
            channel.send(message)
        })
    }

    fn send(
        self,
        send: impl FnOnce(&Channel, u64) -> Result<(), Errno>,
    ) -> Result<(), ReplyRejected> {
        self.interrupts.remove(self.unique);
        if !self.interrupt.claim_answer() {
            // The process was killed, and the watcher has replied.
            return Err(ReplyRejected(Errno::INTR));
        }
        send(&self.channel, self.unique).map_err(|error| self.not_taken(error))
    }

    fn fail(&self, error: Errno) {
        self.interrupts.remove(self.unique);
        if !self.interrupt.claim_answer() {
            return;
        }
        // The kernel accepts errors in 1..512; any other number becomes an I/O error.
        let errno = Some(error.raw_os_error()).filter(|number| (1..512).contains(number));
        let errno = errno.unwrap_or(Errno::IO.raw_os_error());
        let _ = self
            .channel
            .send(Message::new(self.unique, -errno))
            .map_err(|error| self.not_taken(error));
    }

    fn not_taken(&self, error: Errno) -> ReplyRejected {
        // ENOENT: the request was aborted; ENODEV, ECONNABORTED: the mount has ended. Neither is a
        // fault.
        if !matches!(error, Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) {
            tracing::error!(
                opcode = self.opcode,
                %error,
                "sending a reply failed: the kernel refused it"
            );
        }
        ReplyRejected(error)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.interrupt.is_answered() {
            tracing::warn!(
                opcode = self.opcode,
                "a request was dropped without a reply: it fails with EIO"
            );
            self.fail(Errno::IO);
        }
    }
}
