//! Has the kernel look at a queue again.
//!
//! A request that comes while all entries of its queue are taken waits until one of them is answered, also when entries are
//! registered meanwhile (Linux 6.18). Where all those that are answered wait for it, nothing moves. So when a reserve was used up,
//! the mount asks itself for something, on the queue's processor: that takes a new entry, and its answer fetches the request that
//! waits; again, as long as there was one.
//!
//! What it asks is `ustat(2)` of its device, which needs no path and no descriptor in the mount (they would keep it from being
//! unmounted) and is answered by this layer. Where there is no such call (not on AArch64) such a request waits until another one is
//! answered.
#![allow(unsafe_code)]

use rustix::thread::{CpuSet, gettid, sched_setaffinity};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Askers of one queue at a time. One whose request waits itself is not enough.
const ASKERS_MAX: usize = 8;

/// Of one queue.
#[derive(Debug, Default)]
pub(super) struct Poke {
    /// The threads that ask now, as requests name them.
    askers: Mutex<Vec<u32>>,
}

impl Poke {
    /// Whether a request is one that is sent here.
    pub(super) fn is_by(&self, thread: u32) -> bool {
        self.askers().contains(&thread)
    }

    /// Asks once, on another thread. `device`: the mount's, as `stat` shows it.
    pub(super) fn begin(self: &Arc<Self>, queue: u16, device: u32) {
        if self.askers().len() >= ASKERS_MAX {
            return;
        }
        let poke = Arc::clone(self);
        let spawned = std::thread::Builder::new()
            .name(format!("fuse-poke-{queue}"))
            .spawn(move || poke.run(queue, device));
        if let Err(error) = spawned {
            tracing::warn!(%error, queue, "no thread to have the kernel look at a queue again");
        }
    }

    fn run(&self, queue: u16, device: u32) {
        let own = gettid().as_raw_nonzero().get().unsigned_abs();
        let mut there = CpuSet::new();
        if usize::from(queue) < CpuSet::MAX_CPU {
            there.set(queue.into());
        }
        // Refused where this process must not run there.
        if let Err(error) = sched_setaffinity(None, &there) {
            return tracing::debug!(%error, queue, "a queue's processor is not to be had");
        }
        self.askers().push(own);
        ask(device);
        self.askers().retain(|thread| *thread != own);
    }

    fn askers(&self) -> MutexGuard<'_, Vec<u32>> {
        self.askers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One STATFS, which nobody but this layer sees.
#[cfg(target_arch = "x86_64")]
fn ask(device: u32) {
    // SAFETY: ustat(2) writes a `struct ustat`, 32 bytes on this architecture, through the pointer.
    unsafe {
        let mut room = [0u64; 8];
        libc::syscall(libc::SYS_ustat, libc::c_ulong::from(device), room.as_mut_ptr());
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn ask(_: u32) {}

/// The number of a FUSE mount's device, whose major is 0.
pub(super) fn device_of(minor: u32) -> u32 {
    minor & 0xff | (minor & !0xff) << 12
}
