//! Pipes for large reads: from a daemon's socket to `/dev/fuse` without a copy in this process's
//! memory (docs/adr/0017).
//!
//! A read takes a pipe and puts it back. A pipe that failed is closed with its content.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use braid_vfs::Pipe;

/// Smaller reads gain little (docs/adr/0017): a few percent of the CPU time at 64 and 128 KiB, a
/// fifth at 512 KiB.
const BYTES_MIN: usize = 128 << 10;
/// Pipes at most: each has two descriptors and 1 MiB of pages. Read-ahead of one program has up to
/// sixteen requests in flight.
const PIPES_MAX: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pipes {
    idle: Mutex<Vec<Pipe>>,
    made: AtomicUsize,
    /// Reads that were served by a pipe.
    answers: AtomicU64,
}

impl Pipes {
    /// A pipe that begins with `header`, for `bytes` bytes. `None`: they must be copied.
    pub(super) fn take(&self, bytes: usize, header: &[u8]) -> Option<Pipe> {
        if bytes < BYTES_MIN {
            return None;
        }
        let idle = self.idle.lock().unwrap_or_else(braid_types::poisoned).pop();
        let mut pipe = idle.or_else(|| self.make())?;
        if bytes > pipe.usual_bytes_max() || pipe.begin(header).is_err() {
            self.put_back(pipe);
            return None;
        }
        Some(pipe)
    }

    fn make(&self) -> Option<Pipe> {
        if self.made.fetch_add(1, Ordering::Relaxed) >= PIPES_MAX {
            self.made.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        // The next read tries again: the user's other programs may release their pipes.
        let made = Pipe::new();
        if let Err(error) = &made {
            self.made.fetch_sub(1, Ordering::Relaxed);
            tracing::debug!(%error, "no pipe for a large read: its data is copied");
        }
        made.ok()
    }

    pub(super) fn put_back(&self, mut pipe: Pipe) {
        // If nothing was moved, the header is still in it.
        if pipe.is_empty() || pipe.payload_bytes() == 0 && pipe.take(&mut []).is_ok() {
            return self.idle.lock().unwrap_or_else(braid_types::poisoned).push(pipe);
        }
        drop(pipe);
        self.made.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [u8; 16] = [7; 16];

    #[test]
    fn small_reads_and_reads_larger_than_a_pipe_get_none() {
        let pipes = Pipes::default();
        assert!(pipes.take(BYTES_MIN - 1, &HEADER).is_none());
        assert!(pipes.take(1 << 20, &HEADER).is_none());
        assert!(pipes.take(BYTES_MIN, &HEADER).is_some());
    }

    #[test]
    fn pipes_are_bounded_and_a_failed_one_is_closed() {
        let pipes = Pipes::default();
        let mut taken: Vec<Pipe> =
            (0..PIPES_MAX).map(|_| pipes.take(BYTES_MIN, &HEADER).unwrap()).collect();
        assert!(pipes.take(BYTES_MIN, &HEADER).is_none());
        taken.drain(..).for_each(|pipe| pipes.put_back(pipe));
        let mut again: Vec<Pipe> =
            (0..PIPES_MAX).map(|_| pipes.take(BYTES_MIN, &HEADER).unwrap()).collect();
        assert_eq!(
            pipes.made.load(Ordering::Relaxed),
            PIPES_MAX,
            "the same pipes, with a new header"
        );
        let mut failed = again.pop().unwrap();
        failed.send(std::fs::File::open("/dev/null").unwrap()).unwrap_err();
        pipes.put_back(failed);
        assert_eq!(pipes.made.load(Ordering::Relaxed), PIPES_MAX - 1);
        assert!(pipes.take(BYTES_MIN, &HEADER).is_some(), "another in its place");
    }
}
