//! Distributions: which part holds which byte, as pure mappings behind one trait.
//!
//! ```text
//!   component offset  0        s        2s       3s       4s
//!                     |column 0|column 1|column 2|column 0| ...      simple stripe over 3 parts
//! ```
//!
//! Offsets here are relative to the start of the component. A *column* is a part counted from the
//! component's first part, so no mapping needs `first_part`: `part = (column + first_part) mod
//! parts`.
//!
//! Invariants, for every distribution:
//! 1. `offset(locate(x)) == x`, and `locate(offset(column, y)) == (column, y)` (I3).
//! 2. The object offsets of a column rise with the component offset and have no gaps.
//! 3. No product exceeds 2^64: this is checked when the mapping is made, or the result is `None`.
//!
//! `Mapping::locate` asserts 1. Each distribution's tests compare 2 with a scan of all bytes.
//! Checked arithmetic gives 3.

mod cover;
mod grouped;
mod pattern_skip;
mod single;
mod stripe;
mod varstrip;

use braid_types::limits::{STRIPE_BYTES_MAX, STRIPS_MAX};

pub use cover::Cover;
use cover::Interval;
use grouped::Grouped;
pub(crate) use pattern_skip::{PeriodicPattern, Progression};
use single::Single;
use stripe::SimpleStripe;
use varstrip::VarStrip;

use crate::{Component, Distribution, LayoutError, PartSet};

/// The location of one byte of a component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnLocation {
    /// The part, counted from the component's first part.
    pub column: u16,
    /// Offset in the part's object, in bytes.
    pub object_offset: u64,
    /// Number of bytes from here that are contiguous in the component and in the object, at least
    /// 1.
    pub contiguous: u64,
}

/// A distribution prepared for use: Direct-pNFS's aggregation driver.
pub trait Aggregation {
    /// The location of the byte at `offset` of the component.
    fn locate(&self, offset: u64) -> ColumnLocation;

    /// The component offset of a byte of a column's object. `None` when the column holds no bytes,
    /// or when the offset exceeds 2^64.
    fn offset(&self, column: u16, object_offset: u64) -> Option<u64>;

    /// How many of the component's first `bytes` bytes lie in the column.
    fn object_bytes(&self, bytes: u64, column: u16) -> u64;

    /// The bytes of these columns, as a periodic set of intervals.
    fn cover(&self, columns: &PartSet) -> Cover;
}

/// One of the four distributions. An enum and not a box, since each read and write calls it.
#[derive(Clone, Debug)]
pub(crate) enum Mapping {
    SimpleStripe(SimpleStripe),
    Single(Single),
    VarStrip(VarStrip),
    Grouped(Grouped),
}

impl Mapping {
    /// Prepares a component's distribution. An error for what cannot be mapped.
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

/// Checks sizes for the arithmetic; [`crate::Layout::validate`] has a higher minimum.
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
    fn locate(&self, offset: u64) -> ColumnLocation {
        let found = each!(self, mapping => mapping.locate(offset));
        debug_assert_eq!(
            self.offset(found.column, found.object_offset),
            Some(offset),
            "1: the byte at the location is that of the offset"
        );
        found
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
