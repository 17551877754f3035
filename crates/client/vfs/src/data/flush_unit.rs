//! How many bytes of a file are coalesced before they are sent: full stripes.

use braid_client::{Distribution, Layout};

/// A write buffer ends at a multiple of the stripe size of at least this.
pub(super) const UNIT_BYTES: u64 = 512 * 1024;
/// No flush unit is longer.
pub(super) const UNIT_BYTES_MAX: u64 = 4 << 20;

/// How much of one file is buffered before it is sent, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlushUnit {
    /// The short unit: the strips of one or more daemons, enough to be worth a call.
    short: u64,
    /// What one daemon has of a stripe.
    strip: u64,
    /// The stripe: one strip of each daemon. A long unit has full stripes.
    stripe: u64,
}

impl FlushUnit {
    /// For a file whose layout is not known.
    pub(crate) const UNKNOWN: Self =
        Self { short: UNIT_BYTES, strip: UNIT_BYTES, stripe: UNIT_BYTES };

    /// For a file with this layout.
    pub(crate) fn of(layout: &Layout) -> Self {
        let component = layout.components.first();
        let (strip, daemons) =
            match component.map(|component| (&component.distribution, component.parts.len())) {
                Some((Distribution::SimpleStripe { stripe_size }, parts)) => {
                    (*stripe_size, parts as u64)
                }
                Some((Distribution::Grouped { stripe_size, group_width, .. }, _)) => {
                    (*stripe_size, (*group_width).into())
                }
                _ => (UNIT_BYTES, 1),
            };
        let strip = strip.max(1);
        let short = match strip {
            1..UNIT_BYTES => strip * UNIT_BYTES.div_ceil(strip),
            ..=UNIT_BYTES_MAX => strip,
            _ => UNIT_BYTES,
        };
        Self { short, strip, stripe: strip.saturating_mul(daemons.max(1)) }
    }

    /// Where the short unit ends that contains this byte of the file.
    pub(crate) fn end(&self, offset: u64) -> u64 {
        end(offset, self.short)
    }

    /// Where the long unit of at most `bytes_max` bytes ends that contains this byte.
    pub(crate) fn long_end(&self, offset: u64, bytes_max: u64) -> u64 {
        end(offset, self.long(bytes_max))
    }

    /// Whether a write of this length reaches fewer daemons than a long unit of at most
    /// `bytes_max`.
    pub(crate) fn reaches_fewer_daemons(&self, bytes: usize, bytes_max: u64) -> bool {
        (bytes as u64) < self.long(bytes_max)
    }

    /// The length of a long unit: full stripes, or strips where not even one stripe fits.
    fn long(&self, bytes_max: u64) -> u64 {
        let bytes_max = bytes_max.clamp(UNIT_BYTES, UNIT_BYTES_MAX);
        let whole = |bytes: u64| (bytes <= bytes_max).then(|| bytes_max / bytes * bytes);
        whole(self.stripe).or_else(|| whole(self.strip)).unwrap_or(bytes_max)
    }
}

/// The first multiple of `bytes` behind this offset.
fn end(offset: u64, bytes: u64) -> u64 {
    (offset / bytes + 1).saturating_mul(bytes)
}

#[cfg(test)]
mod tests {
    use braid_client::Distribution::SimpleStripe;
    use braid_types::IodId;

    use super::*;

    fn striped(stripe_size: u64, daemons: u32) -> FlushUnit {
        FlushUnit::of(&Layout::one(SimpleStripe { stripe_size }, (1..=daemons).map(IodId)))
    }

    #[test]
    fn a_short_unit_is_a_multiple_of_the_stripe_size_and_not_small() {
        let short = |stripe_size| striped(stripe_size, 4).end(0);
        assert_eq!(short(4096), 512 * 1024);
        assert_eq!(short(3 * 4096), 528_384, "43 strips");
        assert_eq!(short(1 << 20), 1 << 20);
        assert_eq!(short(64 << 20), UNIT_BYTES, "more is not buffered");
        assert_eq!(
            FlushUnit::of(&Layout::one(Distribution::Single, [IodId(1)])).end(0),
            UNIT_BYTES
        );
    }

    #[test]
    fn a_long_unit_is_full_stripes_as_far_as_memory_allows() {
        let long = |stripe_size, daemons| striped(stripe_size, daemons).long_end(0, UNIT_BYTES_MAX);
        assert_eq!(long(1 << 20, 4), 4 << 20);
        assert_eq!(long(1 << 20, 3), 3 << 20);
        assert_eq!(long(64 << 10, 4), 4 << 20);
        assert_eq!(long(1 << 20, 32), 4 << 20, "four daemons of the stripe at a time");
        assert_eq!(long(3 << 20, 32), 3 << 20);
        assert_eq!(long(64 << 20, 4), UNIT_BYTES_MAX);
    }

    #[test]
    fn a_unit_ends_behind_the_byte_that_it_contains() {
        let unit = striped(1 << 20, 4);
        let end = |offset| unit.long_end(offset, UNIT_BYTES_MAX);
        assert_eq!([0, (4 << 20) - 1, 4 << 20].map(end), [4 << 20, 4 << 20, 8 << 20]);
        let is_short = |bytes| unit.reaches_fewer_daemons(bytes, UNIT_BYTES_MAX);
        assert!(is_short((4 << 20) - 1) && !is_short(4 << 20));
    }

    #[test]
    fn a_limited_long_unit_is_full_stripes_or_strips_or_the_limit() {
        let long =
            |stripe_size, daemons, bytes_max| striped(stripe_size, daemons).long_end(0, bytes_max);
        assert_eq!(long(64 << 10, 6, 2 << 20), 5 * 6 * (64 << 10));
        assert_eq!(
            long(1 << 20, 4, (3 << 20) + 5),
            3 << 20,
            "three daemons of the stripe at a time"
        );
        assert_eq!(long(1 << 20, 4, 700_000), 700_000);
        assert_eq!(long(1 << 20, 4, 0), UNIT_BYTES);
        assert_eq!(long(64 << 10, 4, u64::MAX), UNIT_BYTES_MAX);
    }
}
