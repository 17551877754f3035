//! Counts the bytes of a request that lie on a set of parts.

use std::ops::Range;

use crate::modular_search::gcd;
use crate::unfold::{Seek, ViewWalk};
use crate::view::Shape;
use crate::{LayoutError, LayoutMap, PartSet, Request};

impl LayoutMap {
    /// How many bytes of the request lie on these parts, without unfolding them. A contiguous
    /// extent costs one subtraction, whatever the number of its strips. A view that repeats is
    /// counted over one common period of view and layout. Decrements `steps`; `None` when they run
    /// out first.
    ///
    /// ```
    /// use braid_layout::{Distribution, Layout, PartSet, Request, View};
    /// use braid_types::{IodId, PartIndex};
    /// let stripe = Distribution::SimpleStripe { stripe_size: 65536 };
    /// let map = Layout::one(stripe, (1..=4).map(IodId)).map()?;
    /// let request = Request { view: View::strided(0, 4096, 65536), start: 0, bytes: 64 << 20 };
    /// let parts = PartSet::one(PartIndex(2));
    /// assert_eq!(map.payload_bytes(&request, &parts, &mut 1000)?, Some(16 << 20));
    /// # Ok::<(), braid_layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The request is malformed.
    pub fn payload_bytes(
        &self,
        request: &Request,
        parts: &PartSet,
        steps: &mut usize,
    ) -> Result<Option<u64>, LayoutError> {
        let walk = ViewWalk::new(request, self, parts)?;
        let Range { start, end } = walk.rest();
        let Some(cycle) = common_period(&walk).filter(|cycle| (end - start) / cycle >= 2) else {
            return Ok(count(walk, steps));
        };
        let cycles = (end - start) / cycle;
        let (Some(each), Some(rest)) = (
            count(walk.restarted_over(start..start + cycle), steps),
            count(walk.restarted_over(start + cycles * cycle..end), steps),
        ) else {
            return Ok(None);
        };
        Ok(Some(cycles * each + rest))
    }
}

/// The file distance after which view and layout both repeat. `None` when there is no useful one.
fn common_period(walk: &ViewWalk) -> Option<u64> {
    let Shape::Repeat { stride, .. } = walk.view().root().shape else { return None };
    let period = walk.period()?;
    (stride / gcd(stride, period)).checked_mul(period)
}

fn count(mut walk: ViewWalk, steps: &mut usize) -> Option<u64> {
    let mut sum = 0;
    loop {
        match walk.seek(steps) {
            Seek::Hit(hit) => {
                sum += walk.bytes_in(&hit);
                walk.consume(hit.end - hit.start);
            }
            Seek::Paused => return None,
            Seek::End => return Some(sum),
        }
    }
}
