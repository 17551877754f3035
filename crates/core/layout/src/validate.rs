//! Checks before a layout, view or request is stored or sent (I10): malformed values, and exceeded
//! limits.

use braid_types::limits::{STRIPE_BYTES_MAX, STRIPE_BYTES_MIN};
use braid_types::{IodId, PartIndex};

use crate::{Distribution, Layout, LayoutError, Request, View};

impl Layout {
    /// Whether a file may have this layout: everything that [`Layout::map`] checks, stripes of at
    /// least [`STRIPE_BYTES_MIN`], and an I/O daemon for every part. The strips of a `varstrip`
    /// cycle may have any size from 1 byte, since they follow records, not pages.
    ///
    /// # Errors
    /// The first problem found.
    pub fn validate(&self) -> Result<(), LayoutError> {
        self.map()?;
        for component in &self.components {
            match component.distribution {
                Distribution::SimpleStripe { stripe_size: bytes }
                | Distribution::Grouped { stripe_size: bytes, .. }
                    if bytes < STRIPE_BYTES_MIN =>
                {
                    return Err(LayoutError::StripeSize {
                        bytes,
                        min: STRIPE_BYTES_MIN,
                        max: STRIPE_BYTES_MAX,
                    });
                }
                _ => {}
            }
        }
        let mut placements = self.components.iter().flat_map(|component| &component.parts);
        match placements
            .position(|placement| placement.iods.is_empty() || placement.iods.contains(&IodId(0)))
        {
            Some(part) => Err(LayoutError::NoIod { part: PartIndex(part as u16) }),
            None => Ok(()),
        }
    }
}

impl View {
    /// Whether the view is valid: it covers bytes, nothing overlaps, it is not too deep or too
    /// long, and no offset exceeds 2^64.
    ///
    /// # Errors
    /// The first problem found.
    pub fn validate(&self) -> Result<(), LayoutError> {
        self.map().map(|_| ())
    }
}

impl Request {
    /// Whether the view is valid and the request ends within the largest file.
    ///
    /// # Errors
    /// The first problem found.
    pub fn validate(&self) -> Result<(), LayoutError> {
        self.view.map()?.file_range(self.start, self.bytes).map(|_| ())
    }
}
