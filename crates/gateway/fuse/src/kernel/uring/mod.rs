//! FUSE over io_uring (docs/adr/0033): a second transport for requests, without a switch to another
//! processor for each.
//!
//! ```text
//!   a program on processor N ── request ──> queue N ── memory of an idle worker's entry ─> handler
//!        ^                                                                                    |
//!        +──────────── the reply in the entry, which fetches the next request ────────────────+
//! ```
//!
//! 1. The kernel uses the rings once each possible processor has a queue with an entry, and then
//!    for all requests but FORGET and INTERRUPT. Until then it holds requests back, unless a
//!    registration fails.
//! 2. An entry belongs to one worker, and is free only while that worker waits in its ring.
//! 3. Each queue has reserve entries, whose thread only starts workers. So as many requests as
//!    there may be workers can wait for servers, and the next one is still read.

mod memory;
mod processors;
mod queue;
mod requeue;
mod ring;
mod ring_entry;
mod wire;
mod worker;
mod worker_ring;

pub(super) use queue::Rings;
pub(super) use ring_entry::RingEntry;

use super::{Features, KernelFeatures};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The command with which root enables FUSE over io_uring in kernels that have it.
pub const SWITCH_ON: &str = "echo Y > /sys/module/fuse/parameters/enable_uring";

/// `-o io_uring=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoUring {
    /// If the kernel has it enabled.
    Auto,
    /// Always; if it is not available, mounting fails.
    On,
    /// Never: no run has shown it to be faster yet (docs/adr/0033).
    #[default]
    Off,
}

impl FromStr for IoUring {
    type Err = UnknownIoUring;

    fn from_str(word: &str) -> Result<Self, UnknownIoUring> {
        match word {
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err(UnknownIoUring),
        }
    }
}

/// A value that the option does not have.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("it is none of auto, on, off")]
pub struct UnknownIoUring;

/// The transport of a mount's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// `/dev/fuse`, and why not io_uring.
    Device(NoIoUring),
    /// io_uring.
    IoUring {
        /// Queues: one for each possible processor.
        queues: u16,
    },
}

impl fmt::Display for Transport {
    /// For the log: `io_uring, 2 queues`, `/dev/fuse (why)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(why) => write!(f, "/dev/fuse ({why})"),
            Self::IoUring { queues } => write!(f, "io_uring, {queues} queues"),
        }
    }
}

/// Why io_uring is not used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoIoUring {
    /// It is not requested.
    #[error("io_uring=off")]
    Off,
    /// The kernel does not offer it.
    #[error("this kernel does not offer FUSE over io_uring")]
    NotOffered,
    /// The system refuses some or all rings.
    #[error("creating the rings failed: {0}")]
    Refused(String),
}

impl NoIoUring {
    /// What to try.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Off => "-o io_uring=on",
            Self::NotOffered => {
                "as root (Linux 6.14 or newer): echo Y > /sys/module/fuse/parameters/enable_uring"
            }
            Self::Refused(_) => "sysctl kernel.io_uring_disabled=0, and ulimit -n 16384",
        }
    }

    pub(super) fn refused(why: impl fmt::Display) -> Self {
        Self::Refused(why.to_string())
    }
}

/// The number of queues of a mount, determined before the reply to INIT promises them to the
/// kernel.
pub(super) fn plan(kernel: &KernelFeatures, wanted: IoUring) -> Result<u16, NoIoUring> {
    if wanted == IoUring::Off {
        return Err(NoIoUring::Off);
    }
    if !kernel.offered.contains(Features::OVER_IO_URING) {
        return Err(NoIoUring::NotOffered);
    }
    worker::probe().and_then(|()| processors::possible()).map_err(NoIoUring::refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(offered: Features) -> KernelFeatures {
        KernelFeatures { minor: 45, offered, read_ahead_bytes_max: 128 << 10 }
    }

    #[test]
    fn without_the_kernels_offer_the_error_has_a_remedy() {
        assert_eq!(plan(&kernel(Features::ASYNC_READ), IoUring::On), Err(NoIoUring::NotOffered));
        assert!(NoIoUring::NotOffered.remedy().ends_with(SWITCH_ON));
    }

    #[test]
    fn off_means_off_whatever_the_kernel_offers() {
        assert_eq!(plan(&kernel(Features::OVER_IO_URING), IoUring::Off), Err(NoIoUring::Off));
    }

    #[test]
    fn the_values_of_the_option_are_auto_on_and_off() {
        let words = ["auto", "on", "off"].map(|word| word.parse::<IoUring>());
        assert_eq!(words, [Ok(IoUring::Auto), Ok(IoUring::On), Ok(IoUring::Off)]);
        assert_eq!("yes".parse::<IoUring>(), Err(UnknownIoUring));
    }
}
