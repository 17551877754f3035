//! INIT: what both sides agree on. No I/O.

use super::abi::{MAJOR, MINOR, MINOR_OLDEST};
use super::encode::Message;
use super::{Features, KernelFeatures, ProtocolOptions, Wanted};
use std::time::Duration;

/// Features that this code always needs.
const ALWAYS: Features = Features(
    Features::BIG_WRITES.0
        | Features::ABORT_ERROR.0
        | Features::MAX_PAGES.0
        | Features::SETXATTR_EXT.0
        | Features::INIT_EXT.0,
);

/// The kernel's limit (`fs.fuse.max_pages_limit`, 256 pages by default); it may reduce the size
/// further.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
const REQUEST_BYTES_MIN: u32 = 4096;

/// `FILESYSTEM_MAX_STACK_DEPTH`.
const STACK_DEPTH_MAX: u32 = 2;

/// What the kernel's INIT offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// A newer major version: the reply has ours, and the kernel sends INIT again.
    Newer,
    /// Too old.
    TooOld,
    /// A supported version.
    Usable(KernelFeatures),
}

pub(super) fn offer(major: u32, minor: u32, read_ahead_bytes_max: u32, flags: u64) -> Offer {
    match major.cmp(&MAJOR) {
        std::cmp::Ordering::Greater => Offer::Newer,
        std::cmp::Ordering::Equal if minor >= MINOR_OLDEST => {
            let (minor, offered) = (minor.min(MINOR), Features(flags));
            Offer::Usable(KernelFeatures { minor, offered, read_ahead_bytes_max })
        }
        _ => Offer::TooOld,
    }
}

/// The outcome of INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InitOutcome {
    pub(super) features: Features,
    pub(super) request_bytes_max: u32,
    pub(super) read_ahead_bytes: u32,
    background_max: u16,
    congestion_threshold: u16,
    request_timeout_s: u16,
    stack_depth: u32,
    page_bytes: u32,
}

impl InitOutcome {
    pub(super) fn new(kernel: &KernelFeatures, wanted: &Wanted, page_bytes: u32) -> Self {
        let timeout = wanted.request_timeout.filter(|time| !time.is_zero());
        let mut features = wanted.features | ALWAYS;
        if timeout.is_some() {
            features |= Features::REQUEST_TIMEOUT;
        }
        let mut features = features.and(kernel.offered);
        // The kernel would ignore PASSTHROUGH without an error, and refuse each backing file.
        if features.contains(Features::WRITEBACK_CACHE)
            || !(1..=STACK_DEPTH_MAX).contains(&wanted.stack_depth)
        {
            features = features - Features::PASSTHROUGH;
        }
        let passes = features.contains(Features::PASSTHROUGH);
        Self {
            features,
            request_bytes_max: wanted
                .request_bytes_max
                .clamp(REQUEST_BYTES_MIN.max(page_bytes), REQUEST_BYTES_MAX),
            read_ahead_bytes: wanted.read_ahead_bytes,
            background_max: wanted.background_max,
            congestion_threshold: wanted.congestion_threshold.min(wanted.background_max),
            request_timeout_s: timeout.map_or(0, whole_seconds),
            stack_depth: if passes { wanted.stack_depth } else { 0 },
            page_bytes,
        }
    }

    pub(super) fn protocol_options(&self) -> ProtocolOptions {
        ProtocolOptions { setxattr_ext: self.features.contains(Features::SETXATTR_EXT) }
    }

    /// `fuse_init_out`, 64 bytes.
    pub(super) fn encode<'m>(
        &self,
        kernel: &KernelFeatures,
        message: &'m mut Message,
    ) -> &'m mut Message {
        let [low, high] =
            [self.features.0 & 0xffff_ffff, self.features.0 >> 32].map(|half| half as u32);
        let pages =
            u16::try_from(self.request_bytes_max.div_ceil(self.page_bytes)).unwrap_or(u16::MAX);
        // `max_readahead` can only lower what the kernel would do.
        let read_ahead = kernel.read_ahead_bytes_max.max(self.read_ahead_bytes);
        message.u32(MAJOR).u32(kernel.minor).u32(read_ahead).u32(low);
        message.u16(self.background_max).u16(self.congestion_threshold).u32(self.request_bytes_max);
        // A time granularity of 1 ns; no mapping alignment.
        message.u32(1).u16(pages).u16(0).u32(high);
        // The rest is reserved.
        message.u32(self.stack_depth).u16(self.request_timeout_s).zeros(22)
    }
}

/// The reply to a kernel with a newer major version: only our version counts.
pub(super) fn ours(message: &mut Message) -> &mut Message {
    message.u32(MAJOR).u32(MINOR).zeros(56)
}

/// Rounded up, so that it is never shorter than requested.
fn whole_seconds(time: Duration) -> u16 {
    u16::try_from(time.as_millis().div_ceil(1000)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u32 = 4096;

    fn kernel(offered: Features) -> KernelFeatures {
        KernelFeatures { minor: 45, offered, read_ahead_bytes_max: 128 << 10 }
    }

    #[test]
    fn features_that_either_side_lacks_are_left_out() {
        let offered = ALWAYS | Features::ASYNC_READ | Features::WRITEBACK_CACHE;
        let wanted =
            Wanted { features: Features::ASYNC_READ | Features::POSIX_ACL, ..Wanted::default() };
        let agreed = InitOutcome::new(&kernel(offered), &wanted, PAGE);
        assert_eq!(agreed.features, ALWAYS | Features::ASYNC_READ);
    }

    #[test]
    fn a_request_timeout_is_agreed_only_where_the_kernel_has_it() {
        let wanted =
            Wanted { request_timeout: Some(Duration::from_millis(45_001)), ..Wanted::default() };
        let with = InitOutcome::new(&kernel(ALWAYS | Features::REQUEST_TIMEOUT), &wanted, PAGE);
        assert!(with.features.contains(Features::REQUEST_TIMEOUT));
        assert_eq!(with.request_timeout_s, 46);
        assert!(
            !InitOutcome::new(&kernel(ALWAYS), &wanted, PAGE)
                .features
                .contains(Features::REQUEST_TIMEOUT)
        );
    }

    #[test]
    fn passthrough_is_agreed_only_with_a_stack_depth_and_without_write_back() {
        let passes = Features::PASSTHROUGH;
        let depth = |offered: Features, features, stack_depth| {
            let wanted = Wanted { features, stack_depth, ..Wanted::default() };
            let agreed = InitOutcome::new(&kernel(ALWAYS | offered), &wanted, PAGE);
            assert_eq!(agreed.features.contains(passes), agreed.stack_depth > 0);
            agreed.stack_depth
        };
        assert_eq!([0, 1, 2, 3].map(|wanted| depth(passes, passes, wanted)), [0, 1, 2, 0]);
        assert_eq!(depth(Features::default(), passes, 1), 0, "the kernel lacks it");
        assert_eq!(depth(passes, Features::default(), 1), 0, "it is not wanted");
        let both = passes | Features::WRITEBACK_CACHE;
        assert_eq!(depth(both, both, 1), 0, "the kernel buffers writes");
        assert_eq!(depth(passes, both, 1), 1, "the kernel cannot buffer writes");
    }

    #[test]
    fn the_reply_has_its_fields_at_the_offsets_of_the_kernel() {
        let offered = ALWAYS
            | Features::DIRECT_IO_ALLOW_MMAP
            | Features::PASSTHROUGH
            | Features::REQUEST_TIMEOUT;
        let wanted = Wanted {
            features: offered,
            background_max: 64,
            congestion_threshold: 90,
            request_timeout: Some(Duration::from_secs(0x1234)),
            stack_depth: 2,
            ..Wanted::default()
        };
        let kernel = kernel(offered);
        let mut message = Message::new(2, 0);
        InitOutcome::new(&kernel, &wanted, PAGE).encode(&kernel, &mut message);
        let bytes = message.finish(0);
        assert_eq!(bytes.len(), 16 + 64);
        let u32_at = |at: usize| u32::from_ne_bytes(bytes[16 + at..20 + at].try_into().unwrap());
        let u16_at = |at: usize| u16::from_ne_bytes(bytes[16 + at..18 + at].try_into().unwrap());
        assert_eq!((u32_at(0), u32_at(4), u32_at(8)), (7, 45, 1 << 20));
        assert_eq!(u32_at(12), (offered.0 & 0xffff_ffff) as u32);
        assert_eq!((u16_at(16), u16_at(18)), (64, 64), "the threshold is never above the maximum");
        assert_eq!((u32_at(20), u32_at(24)), (1 << 20, 1));
        assert_eq!((u16_at(28), u16_at(30)), (256, 0));
        assert_eq!(u32_at(32), 1 << (36 - 32) | 1 << (37 - 32) | 1 << (42 - 32));
        assert_eq!((u32_at(36), u16_at(40)), (2, 0x1234));
        assert_eq!(bytes[16 + 42..], [0; 22]);
    }

    #[test]
    fn other_protocol_versions_are_distinguished() {
        assert_eq!(offer(8, 0, 0, 0), Offer::Newer);
        assert_eq!(offer(6, 99, 0, 0), Offer::TooOld);
        assert_eq!(offer(7, 30, 0, 0), Offer::TooOld);
        assert!(matches!(offer(7, 99, 0, 0), Offer::Usable(kernel) if kernel.minor == MINOR));
    }
}
