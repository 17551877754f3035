//! How much of a file is gathered before it is sent: full stripes.

use braid_client::{Distribution, Layout};

/// A run ends where a multiple of the stripe size does that is at least this.
pub(super) const STRETCH_BYTES: u64 = 512 * 1024;
/// Beyond it, in the file's stripes, a run ends at a multiple of [`STRETCH_BYTES`].
pub(super) const STRETCH_BYTES_MAX: u64 = 4 << 20;

/// How much of one file is gathered at most, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    /// Enough for a call to be worth its while: one daemon's, or more.
    short: u64,
    /// As many daemons' as there are, where they are what is waited for.
    long: u64,
}

impl Stretch {
    /// Of a file whose layout is not known.
    pub(crate) const UNKNOWN: Self = Self { short: STRETCH_BYTES, long: STRETCH_BYTES_MAX };

    /// Of a file that is laid out so.
    pub(crate) fn of(layout: &Layout) -> Self {
        let component = layout.components.first();
        let (stripe, daemons) = match component.map(|component| (&component.distribution, component.parts.len())) {
            Some((Distribution::SimpleStripe { stripe_size }, parts)) => (*stripe_size, parts as u64),
            Some((Distribution::Grouped { stripe_size, group_width, .. }, _)) => (*stripe_size, (*group_width).into()),
            _ => (STRETCH_BYTES, 1),
        };
        let stripe = stripe.max(1);
        let short = match stripe {
            1..STRETCH_BYTES => stripe * STRETCH_BYTES.div_ceil(stripe),
            ..=STRETCH_BYTES_MAX => stripe,
            _ => STRETCH_BYTES,
        };
        // Rows of stripes, where there is room for one.
        let whole = |bytes: u64| (bytes <= STRETCH_BYTES_MAX).then(|| STRETCH_BYTES_MAX / bytes * bytes);
        let row = stripe.saturating_mul(daemons.max(1));
        Self { short, long: whole(row).or_else(|| whole(stripe)).unwrap_or(STRETCH_BYTES_MAX) }
    }

    /// Where the stretch ends that has this byte of the file.
    pub(crate) fn end(&self, offset: u64, long: bool) -> u64 {
        let bytes = if long { self.long } else { self.short };
        (offset / bytes + 1).saturating_mul(bytes)
    }

    /// Whether so many bytes reach all the daemons by themselves that a long stretch does.
    pub(crate) fn is_short_of(&self, bytes: usize) -> bool {
        (bytes as u64) < self.long
    }
}

#[cfg(test)]
mod tests {
    use braid_client::Distribution::SimpleStripe;
    use braid_types::IodId;

    use super::*;

    fn striped(stripe_size: u64, daemons: u32) -> Stretch {
        Stretch::of(&Layout::one(SimpleStripe { stripe_size }, (1..=daemons).map(IodId)))
    }

    #[test]
    fn a_short_stretch_is_a_multiple_of_the_stripe_size_and_not_small() {
        let short = |stripe_size| striped(stripe_size, 4).end(0, false);
        assert_eq!(short(4096), 512 * 1024);
        assert_eq!(short(3 * 4096), 528_384, "43 strips");
        assert_eq!(short(1 << 20), 1 << 20);
        assert_eq!(short(64 << 20), STRETCH_BYTES, "more is not kept in memory");
        assert_eq!(Stretch::of(&Layout::one(Distribution::Single, [IodId(1)])).end(0, false), STRETCH_BYTES);
    }

    #[test]
    fn a_long_stretch_is_rows_of_stripes_as_far_as_memory_allows() {
        let long = |stripe_size, daemons| striped(stripe_size, daemons).end(0, true);
        assert_eq!(long(1 << 20, 4), 4 << 20);
        assert_eq!(long(1 << 20, 3), 3 << 20);
        assert_eq!(long(64 << 10, 4), 4 << 20);
        assert_eq!(long(1 << 20, 32), 4 << 20, "four daemons of the row at a time");
        assert_eq!(long(3 << 20, 32), 3 << 20);
        assert_eq!(long(64 << 20, 4), STRETCH_BYTES_MAX);
    }

    #[test]
    fn a_stretch_ends_behind_the_byte_that_it_has() {
        let stretch = striped(1 << 20, 4);
        assert_eq!(stretch.end(0, true), 4 << 20);
        assert_eq!(stretch.end((4 << 20) - 1, true), 4 << 20);
        assert_eq!(stretch.end(4 << 20, true), 8 << 20);
        assert!(stretch.is_short_of((4 << 20) - 1) && !stretch.is_short_of(4 << 20));
    }
}
