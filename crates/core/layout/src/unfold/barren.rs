//! What is left out because nothing can be there: a repeated pattern that had no byte of the parts for a whole period that it has in
//! common with them has none later.
//!
//! ```text
//!   parts      ####....####....####....####....####....        period 8
//!   view           #  #            #  #            #  #        stride 16: in common 16
//!              missed_from ───────> one common period: nothing is ever hit
//! ```
//!
//! Without it a list whose hull covers everything is looked at copy by copy: the hull proves nothing.

use super::walk::{Frame, Walk};
use crate::congruence::gcd;

impl Walk {
    /// Whether no copy from the one at `base` on has a byte of the parts, as far as this component goes: since the last hit all
    /// copies of a common period were looked at. Everything of the view before `base` is dealt with.
    pub(super) fn is_barren(&mut self, frame: &Frame, stride: u64, base: u64) -> bool {
        let (from, period) = (self.missed_from.max(frame.base), self.lane.cover.period());
        let missed = base.min(self.lane.end).saturating_sub(from);
        if missed < stride.max(period) {
            return false; // the usual case: no division
        }
        self.steps_taken += 1;
        (stride / gcd(stride, period)).checked_mul(period).is_some_and(|common| missed >= common)
    }

    /// Leaves out the rest of the innermost node's copies in this component; `end`: just past the last of them.
    pub(super) fn skip_barren(&mut self, end: u64) {
        if end <= self.lane.end {
            self.leave();
        } else {
            self.floor = self.floor.max(self.lane.end);
        }
    }
}
