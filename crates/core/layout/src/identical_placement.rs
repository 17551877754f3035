//! Whether two ranges of files have identical placement. Then the I/O daemons copy one to the other
//! without using the network.

use braid_types::FileOffset;

use crate::{Component, Distribution, Layout};

impl Layout {
    /// Whether each byte at `from + n` lies on the same daemon as the byte at `to + n` of a file
    /// with layout `other`, and the extents of their objects correspond: bytes that are contiguous
    /// in an object of one file are contiguous in an object of the other. The cost is linear in the
    /// number of parts.
    ///
    /// ```
    /// use braid_layout::{Distribution, Layout};
    /// use braid_types::IodId;
    /// let layout = |iods: [u32; 2]| {
    ///     Layout::one(Distribution::SimpleStripe { stripe_size: 4096 }, iods.map(IodId))
    /// };
    /// assert!(layout([1, 2]).has_identical_placement(0, &layout([1, 2]), 8192));
    /// // The second strip of the other layout is on daemon 1.
    /// assert!(layout([1, 2]).has_identical_placement(0, &layout([2, 1]), 4096));
    /// assert!(!layout([1, 2]).has_identical_placement(0, &layout([1, 2]), 4096));
    /// assert!(!layout([1, 2]).has_identical_placement(0, &layout([1, 2]), 100));
    /// ```
    pub fn has_identical_placement(&self, from: u64, other: &Self, to: u64) -> bool {
        match (&self.components[..], &other.components[..]) {
            ([mine], [theirs]) if mine.distribution == theirs.distribution => {
                match mine.distribution {
                    Distribution::Single => has_same_daemon(mine, theirs),
                    Distribution::SimpleStripe { stripe_size } => {
                        from % stripe_size == to % stripe_size
                            && self.parts_match_in_turn(from, other, to)
                    }
                    _ => from == to && is_same_component(mine, theirs),
                }
            }
            (mine, theirs) => {
                from == to
                    && mine.len() == theirs.len()
                    && mine.iter().zip(theirs).all(|(a, b)| is_same_component(a, b))
            }
        }
    }

    /// Whether the parts from the one at `from` on are on the same daemons, in turn, as those from
    /// the one at `to` on.
    fn parts_match_in_turn(&self, from: u64, other: &Self, to: u64) -> bool {
        let at = |layout: &Self, offset: u64| {
            layout.locate(FileOffset(offset)).map(|found| usize::from(found.part.0))
        };
        let (Ok(mine), Ok(theirs)) = (at(self, from), at(other, to)) else { return false };
        let (ours, others) = (&self.components[0].parts, &other.components[0].parts);
        let turned = |parts: usize| {
            (0..parts).all(|step| {
                ours[(mine + step) % parts].iods == others[(theirs + step) % parts].iods
            })
        };
        ours.len() == others.len() && turned(ours.len())
    }
}

/// The whole file is in one part: the first.
fn has_same_daemon(mine: &Component, theirs: &Component) -> bool {
    let part = |component: &Component| {
        component.parts.get(usize::from(component.first_part)).map(|part| part.iods.clone())
    };
    part(mine).is_some() && part(mine) == part(theirs)
}

/// Whether two components hold the same offsets in the same way, except for the ids of their
/// objects.
fn is_same_component(mine: &Component, theirs: &Component) -> bool {
    let iods = |component: &Component| {
        component.parts.iter().map(|part| part.iods.clone()).collect::<Vec<_>>()
    };
    (mine.start, mine.end, &mine.distribution, mine.first_part)
        == (theirs.start, theirs.end, &theirs.distribution, theirs.first_part)
        && iods(mine) == iods(theirs)
}
