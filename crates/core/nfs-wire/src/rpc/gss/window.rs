//! Which sequence numbers of a context were used. RFC 2203 5.3.3.1.

/// Sequence numbers that a context remembers, as Linux's server does. A client has at most this
/// many calls in flight in one context.
pub const SEQUENCE_WINDOW: u32 = u128::BITS;

/// The highest sequence number seen and a bitmap of the [`SEQUENCE_WINDOW`] numbers up to it.
#[derive(Debug, Clone, Default)]
pub struct SequenceWindow {
    highest: u32,
    /// Bit n: `highest - n` was seen.
    seen: u128,
}

impl SequenceWindow {
    /// A window in which nothing was seen.
    pub fn new() -> Self {
        Self::default()
    }

    /// Marks `sequence` as seen. False when it was seen before or is below the window; the call is
    /// then dropped without a reply. The header's MIC is to be verified first.
    #[must_use]
    pub fn accept(&mut self, sequence: u32) -> bool {
        if sequence > self.highest {
            self.seen = self.seen.checked_shl(sequence - self.highest).unwrap_or(0);
            self.highest = sequence;
        }
        let age = self.highest - sequence;
        if age >= SEQUENCE_WINDOW || self.seen & (1 << age) != 0 {
            return false;
        }
        self.seen |= 1 << age;
        true
    }
}
