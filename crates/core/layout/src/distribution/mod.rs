//! Distributions: which part holds which byte, as pure mappings behind one trait.
//!
//! ```text
//!   component offset  0        s        2s       3s       4s
//!                     |column 0|column 1|column 2|column 0| ...      simple stripe over 3 parts
//! ```
//!
//! Offsets here are relative to the start of the component. A *column* is a part counted from the
//! component's first part, so that no mapping knows of `first_part`: `part = (column + first_part) mod parts`.
//!
//! Invariants, for every distribution:
//! 1. `offset(locate(x)) == x`, and `locate(offset(column, y)) == (column, y)` (I3).
//! 2. The object offsets of a column rise with the component offset and have no gaps.
//! 3. No product passes the 64-bit edge: it is checked when the mapping is made, or answered with `None`.

mod cover;
mod grouped;
mod single;
mod skip;
mod stripe;
mod varstrip;

use braid_types::limits::{STRIPE_BYTES_MAX, STRIPS_MAX};

pub use cover::Cover;
use cover::Interval;
use grouped::Grouped;
use single::Single;
pub(crate) use skip::{Comb, Progression};
use stripe::SimpleStripe;
use varstrip::VarStrip;

use crate::{Component, Distribution, LayoutError, PartSet};

/// Where one byte of a component lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The part, counted from the component's first part.
    pub column: u16,
    /// Where in the part's object, in bytes.
    pub object_offset: u64,
    /// How many bytes from here are contiguous in the component and in the object, at least 1.
    pub contiguous: u64,
}

/// A distribution made ready for use: Direct-pNFS's aggregation driver.
pub trait Aggregation {
    /// Where the byte at `offset` of the component lies.
    fn locate(&self, offset: u64) -> Place;

    /// The component offset of a byte of a column's object; `None` when the column holds no bytes or the
    /// offset passes the 64-bit edge.
    fn offset(&self, column: u16, object_offset: u64) -> Option<u64>;

    /// How many of the component's first `bytes` bytes lie in the column.
    fn object_bytes(&self, bytes: u64, column: u16) -> u64;

    /// Where the bytes of these columns lie, as a periodic set of intervals.
    fn cover(&self, columns: &PartSet) -> Cover;
}

/// Any of the four. An enum and not a box: the call is on the path of every read and write.
#[derive(Clone, Debug)]
pub(crate) enum Mapping {
    SimpleStripe(SimpleStripe),
    Single(Single),
    VarStrip(VarStrip),
    Grouped(Grouped),
}

impl Mapping {
    /// Makes a component's distribution ready; an error for what cannot be mapped.
    pub(crate) fn new(component: &Component) -> Result<Self, LayoutError> {
        let parts = component.parts.len();
        Ok(match &component.distribution {
            Distribution::SimpleStripe { stripe_size } => {
                Self::SimpleStripe(SimpleStripe::new(check_stripe(*stripe_size)?, parts as u64))
            }
            Distribution::Single if parts == 1 => Self::Single(Single),
            Distribution::Single => return Err(LayoutError::SingleParts { parts }),
            Distribution::VarStrip { strips } => {
                if strips.is_empty() || strips.len() > STRIPS_MAX {
                    return Err(LayoutError::StripCount { count: strips.len(), max: STRIPS_MAX });
                }
                for strip in strips {
                    check_stripe(strip.bytes)?;
                }
                Self::VarStrip(VarStrip::new(strips, parts))
            }
            Distribution::Grouped { stripe_size, group_width, group_depth } => {
                if *group_width == 0 || !parts.is_multiple_of(usize::from(*group_width)) {
                    return Err(LayoutError::GroupWidth { width: *group_width, parts });
                }
                if *group_depth == 0 {
                    return Err(LayoutError::GroupDepth);
                }
                let stripe_size = check_stripe(*stripe_size)?;
                let shape = Grouped::new(
                    stripe_size,
                    parts as u64,
                    u64::from(*group_width),
                    u64::from(*group_depth),
                );
                Self::Grouped(shape.ok_or(LayoutError::Overflow)?)
            }
        })
    }
}

/// Sizes that the maths can hold; [`crate::Layout::validate`] is stricter about the smallest.
fn check_stripe(bytes: u64) -> Result<u64, LayoutError> {
    if bytes == 0 || bytes > STRIPE_BYTES_MAX {
        return Err(LayoutError::StripeSize { bytes, min: 1, max: STRIPE_BYTES_MAX });
    }
    Ok(bytes)
}

macro_rules! each {
    ($self:ident, $mapping:ident => $call:expr) => {
        match $self {
            Self::SimpleStripe($mapping) => $call,
            Self::Single($mapping) => $call,
            Self::VarStrip($mapping) => $call,
            Self::Grouped($mapping) => $call,
        }
    };
}

impl Aggregation for Mapping {
    fn locate(&self, offset: u64) -> Place {
        each!(self, mapping => mapping.locate(offset))
    }

    fn offset(&self, column: u16, object_offset: u64) -> Option<u64> {
        each!(self, mapping => mapping.offset(column, object_offset))
    }

    fn object_bytes(&self, bytes: u64, column: u16) -> u64 {
        each!(self, mapping => mapping.object_bytes(bytes, column))
    }

    fn cover(&self, columns: &PartSet) -> Cover {
        each!(self, mapping => mapping.cover(columns))
    }
}
