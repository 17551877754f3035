//! Makes the kernel scan a queue again.
//!
//! A request that comes while all entries of its queue are in use waits until one of them is
//! answered, also when entries are registered meanwhile (Linux 6.18). If the replies of all of them
//! wait for that request, nothing moves. So when the reserve was used up, the mount sends itself a
//! request on the queue's processor. It takes a new entry, and its reply fetches the request that
//! waits. This repeats as long as there was one.
//!
//! The request is `ustat(2)` of the mount's device, which needs no path and no descriptor in the
//! mount (they would prevent an unmount), and which this module answers. Where there is no such
//! call (AArch64), a waiting request waits until another one is answered.
#![allow(unsafe_code)]

use rustix::thread::{CpuSet, gettid, sched_setaffinity};
use std::sync::{Arc, Mutex, MutexGuard};

/// Threads that scan one queue at a time. One is not enough: its own request may wait.
const ASKERS_MAX: usize = 8;

/// The scans of one queue.
#[derive(Debug, Default)]
pub(super) struct QueueRescan {
    /// The threads that send such a request now, as in request headers.
    askers: Mutex<Vec<u32>>,
}

impl QueueRescan {
    /// Whether a request was sent here.
    pub(super) fn is_by(&self, thread: u32) -> bool {
        self.askers().contains(&thread)
    }

    /// Sends one request, on another thread. `device`: the mount's, as `stat` shows it.
    pub(super) fn begin(self: &Arc<Self>, queue: u16, device: u32) {
        if self.askers().len() >= ASKERS_MAX {
            return;
        }
        let poke = Arc::clone(self);
        let spawned = std::thread::Builder::new()
            .name(format!("fuse-poke-{queue}"))
            .spawn(move || poke.run(queue, device));
        if let Err(error) = spawned {
            tracing::warn!(%error, queue, "starting a thread to scan a queue again failed");
        }
    }

    fn run(&self, queue: u16, device: u32) {
        let own = gettid().as_raw_nonzero().get().unsigned_abs();
        let mut there = CpuSet::new();
        if usize::from(queue) < CpuSet::MAX_CPU {
            there.set(queue.into());
        }
        // It fails where this process may not run on that processor.
        if let Err(error) = sched_setaffinity(None, &there) {
            return tracing::debug!(%error, queue, "running on a queue's processor failed");
        }
        self.askers().push(own);
        ask(device);
        self.askers().retain(|thread| *thread != own);
    }

    fn askers(&self) -> MutexGuard<'_, Vec<u32>> {
        self.askers.lock().unwrap_or_else(braid_types::poisoned)
    }
}

/// Sends one STATFS, which only this module sees.
#[cfg(target_arch = "x86_64")]
fn ask(device: u32) {
    // SAFETY: ustat(2) writes a `struct ustat`, 32 bytes on this architecture, through the pointer.
    unsafe {
        let mut buffer = [0u64; 8];
        libc::syscall(libc::SYS_ustat, libc::c_ulong::from(device), buffer.as_mut_ptr());
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn ask(_: u32) {}

/// The number of a FUSE mount's device, whose major is 0.
pub(super) fn device_of(minor: u32) -> u32 {
    minor & 0xff | (minor & !0xff) << 12
}
