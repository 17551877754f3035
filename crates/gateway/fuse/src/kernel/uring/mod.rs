//! FUSE over io_uring (docs/adr/0033): the second way for requests, without a switch to another processor for each.
//!
//! ```text
//!   a program on processor N ── request ──> queue N of the kernel ── into the memory of an entry whose worker waits ──> handler
//!        ^                                                                                                                |
//!        +──────────────────────────────── the entry's answer, which fetches the next request ──────────────────────────-+
//! ```
//!
//! 1. The kernel uses the rings when each possible processor has a queue with an entry, and then for all requests but
//!    FORGET and INTERRUPT. Until then it holds requests back, unless a registration fails.
//! 2. An entry belongs to one worker, and is free only while that worker waits in its ring.
//! 3. Behind the workers of a queue stand entries in reserve, whose thread does nothing but make workers: as many requests as
//!    there may be workers can wait for servers, and the next one is still taken.

mod lane;
mod memory;
mod poke;
mod processors;
mod queue;
mod ring;
mod slot;
mod wire;
mod worker;

pub(super) use queue::Rings;
pub(super) use slot::Slot;

use super::{Features, KernelFeatures};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// What root types so that kernels that have FUSE over io_uring offer it.
pub const SWITCH_ON: &str = "echo Y > /sys/module/fuse/parameters/enable_uring";

/// `-o io_uring=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoUring {
    /// Where the kernel has it switched on.
    Auto,
    /// Or there is no mount.
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

/// A word that says nothing about io_uring.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("it is none of auto, on, off")]
pub struct UnknownIoUring;

/// How the requests of a mount come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// By `/dev/fuse`, and why.
    Device(NoIoUring),
    /// By io_uring.
    IoUring {
        /// One for each possible processor.
        queues: u16,
    },
}

impl fmt::Display for Transport {
    /// In a line of a log: `io_uring, 2 queues`, `/dev/fuse (why)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(why) => write!(f, "/dev/fuse ({why})"),
            Self::IoUring { queues } => write!(f, "io_uring, {queues} queues"),
        }
    }
}

/// Why requests do not come over io_uring.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoIoUring {
    /// Nobody wants it.
    #[error("io_uring=off")]
    Off,
    /// The kernel does not offer it.
    #[error("this kernel does not offer FUSE over io_uring")]
    NotOffered,
    /// The system gives this process no ring, or not all of them.
    #[error("io_uring is refused: {0}")]
    Refused(String),
}

impl NoIoUring {
    /// What to type.
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

/// How many queues a mount is to have, before that is promised to the kernel.
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
    fn without_the_kernels_offer_there_is_none_and_the_remedy_is_said() {
        assert_eq!(plan(&kernel(Features::ASYNC_READ), IoUring::On), Err(NoIoUring::NotOffered));
        assert!(NoIoUring::NotOffered.remedy().ends_with(SWITCH_ON));
    }

    #[test]
    fn off_is_off_whatever_the_kernel_offers() {
        assert_eq!(plan(&kernel(Features::OVER_IO_URING), IoUring::Off), Err(NoIoUring::Off));
    }

    #[test]
    fn the_words_of_the_option_are_auto_on_and_off() {
        let words = ["auto", "on", "off"].map(|word| word.parse::<IoUring>());
        assert_eq!(words, [Ok(IoUring::Auto), Ok(IoUring::On), Ok(IoUring::Off)]);
        assert_eq!("yes".parse::<IoUring>(), Err(UnknownIoUring));
    }
}
