//! Skips copies that cannot hold wanted bytes: if a repeated pattern had no byte of the parts
//! during a whole common period of pattern and parts, it has none later.
//!
//! ```text
//!   parts      ####....####....####....####....####....        period 8
//!   view           #  #            #  #            #  #        stride 16: common period 16
//!              no_hit_since ──────> one common period: no copy ever hits
//! ```
//!
//! Without this, a list whose hull covers everything would be searched copy by copy, since the hull
//! excludes nothing.

use super::view_walk::{TreeFrame, ViewWalk};
use crate::modular_search::gcd;

impl ViewWalk {
    /// Whether no copy from the one at `base` on has a byte of the parts within this component:
    /// since the last hit, all copies of a common period were searched. Everything of the view
    /// before `base` is done.
    pub(super) fn is_empty_from(&mut self, frame: &TreeFrame, stride: u64, base: u64) -> bool {
        let (from, period) = (self.no_hit_since.max(frame.base), self.component.cover.period());
        let missed = base.min(self.component.end).saturating_sub(from);
        if missed < stride.max(period) {
            return false; // the usual case needs no division
        }
        self.steps_taken += 1;
        (stride / gcd(stride, period)).checked_mul(period).is_some_and(|common| missed >= common)
    }

    /// Skips the remaining copies of the innermost node in this component. `end`: just past the
    /// last copy.
    pub(super) fn skip_empty_copies(&mut self, end: u64) {
        if end <= self.component.end {
            self.leave();
        } else {
            self.floor = self.floor.max(self.component.end);
        }
    }
}
