//! One io_uring with one entry of a FUSE queue: what a worker waits in.
#![allow(unsafe_code)]

use super::memory::EntryMemory;
use super::wire::{self, COMMIT_AND_FETCH, HEADER_BYTES, REGISTER};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// One command is under way at a time.
const COMMANDS: u32 = 1;
/// Where `io_uring_sqe` has its `len`: the number of pieces of memory that a registration names.
const LEN_AT: std::ops::Range<usize> = 24..28;
const SQE_BYTES: usize = 128;

const _: () = assert!(size_of::<squeue::Entry128>() == SQE_BYTES);

/// Belongs to the thread that made it (`IORING_SETUP_SINGLE_ISSUER`).
pub(super) struct Ring {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    /// An idle worker is no disk that somebody waits for.
    wait_flags: EnterFlags,
    /// A completion that was seen and not yet waited for.
    seen: Option<i32>,
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// A request lies in the memory.
    Request,
    /// The time is over, and the memory is the thread's own until it waits again.
    Nothing,
    /// The kernel does not know this entry any more.
    Failed(Errno),
}

impl Ring {
    pub(super) fn new() -> io::Result<Self> {
        let mut builder = IoUring::<squeue::Entry128, cqueue::Entry>::builder();
        builder.dontfork().setup_single_issuer().setup_defer_taskrun();
        let mut ring = builder.build(COMMANDS)?;
        let no_iowait = ring.params().is_feature_no_iowait();
        // Without it each call looks the descriptor up; it works as well.
        let _ = ring.submitter().register_ring_fd();
        let wait_flags = if no_iowait { EnterFlags::NO_IOWAIT } else { EnterFlags::empty() };
        ring.completion().sync();
        Ok(Self { ring, wait_flags, seen: None })
    }

    /// Gives memory to a queue. It is the kernel's to fill in calls of this thread from now on.
    pub(super) fn register(&mut self, device: RawFd, queue: u16, memory: &EntryMemory) -> Result<(), Errno> {
        let pieces = [
            libc::iovec { iov_base: memory.header_address().cast(), iov_len: HEADER_BYTES },
            libc::iovec { iov_base: memory.payload_address().cast(), iov_len: memory.payload_bytes() },
        ];
        self.register_pieces(device, queue, &pieces)
    }

    /// Has the kernel refuse a registration: it then sends all requests by the device (it would else wait for
    /// the queues that it was promised).
    pub(super) fn decline(&mut self, device: RawFd) {
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let _ = self.register_pieces(device, 0, &[nothing, nothing]);
    }

    fn register_pieces(&mut self, device: RawFd, queue: u16, pieces: &[libc::iovec; 2]) -> Result<(), Errno> {
        let command = opcode::UringCmd80::new(Fd(device), REGISTER).cmd(wire::command(queue, 0));
        let entry = command.addr(Some(pieces.as_ptr() as u64)).build();
        // SAFETY: an Entry128 is the kernel's `io_uring_sqe` of 128 bytes (repr(C), its size is asserted above), plain numbers.
        let mut bytes: [u8; SQE_BYTES] = unsafe { std::mem::transmute(entry) };
        bytes[LEN_AT].copy_from_slice(&2u32.to_ne_bytes());
        // SAFETY: as above.
        let entry: squeue::Entry128 = unsafe { std::mem::transmute(bytes) };
        // SAFETY: the kernel reads `pieces` while it takes the command, before `submit` returns; what they name is the kernel's only
        // within calls of this thread, which keeps it (`EntryMemory`).
        unsafe { self.push(&entry) }?;
        self.submit()
    }

    /// Answers what lies in the memory, in this call. `Err`: the kernel did not take it.
    pub(super) fn commit(&mut self, device: RawFd, queue: u16, commit_id: u64) -> Result<(), Errno> {
        self.prepare_commit(device, queue, commit_id)?;
        self.submit()
    }

    /// As `commit`, in the call that waits for the next request.
    pub(super) fn prepare_commit(&mut self, device: RawFd, queue: u16, commit_id: u64) -> Result<(), Errno> {
        let command = opcode::UringCmd80::new(Fd(device), COMMIT_AND_FETCH).cmd(wire::command(queue, commit_id));
        // SAFETY: it names no memory but the entry's, which was registered.
        unsafe { self.push(&command.build()) }
    }

    /// # Safety
    /// What the entry names is valid until the kernel has taken it.
    unsafe fn push(&mut self, entry: &squeue::Entry128) -> Result<(), Errno> {
        // SAFETY: the caller's word.
        let pushed = unsafe { self.ring.submission().push(entry) };
        // Full: an answer that was not taken is under way. It cannot be while one entry has one command.
        pushed.map_err(|_| Errno::BUSY)
    }

    /// Hands the command to the kernel; one that fails does so here.
    fn submit(&mut self) -> Result<(), Errno> {
        loop {
            match self.ring.submit() {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            }
        }
        self.look();
        match self.seen {
            Some(result) if result < 0 => Err(Errno::from_raw_os_error(-result)),
            _ => Ok(()),
        }
    }

    fn look(&mut self) {
        if self.seen.is_none() {
            self.seen = self.ring.completion().next().map(|completion| completion.result());
        }
    }

    /// Waits for a request, or for so long.
    pub(super) fn wait(&mut self, time: Option<Duration>) -> Waited {
        let timespec = time.map(Timespec::from);
        loop {
            self.look();
            if let Some(result) = self.seen.take() {
                let failed = |number: i32| Waited::Failed(Errno::from_raw_os_error(number));
                return if result < 0 { failed(-result) } else { Waited::Request };
            }
            let arguments = SubmitArgs::new();
            let waited = match &timespec {
                Some(time) => {
                    let arguments = arguments.timespec(time);
                    self.ring.submitter().submit_with_args_and_flags(1, &arguments, self.wait_flags)
                }
                None => self.ring.submitter().submit_with_args_and_flags(1, &arguments, self.wait_flags),
            };
            match waited {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(Errno::TIME.raw_os_error()) => {
                    self.look();
                    if self.seen.is_none() {
                        return Waited::Nothing;
                    }
                }
                Err(error) => return Waited::Failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            }
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("seen", &self.seen).finish_non_exhaustive()
    }
}
