//! What is refused before it is stored or sent (I10): everything malformed, and what is past a limit.

use braid_types::limits::{STRIPE_BYTES_MAX, STRIPE_BYTES_MIN};
use braid_types::{IodId, PartIndex};

use crate::{Distribution, Layout, LayoutError, Request, View};

impl Layout {
    /// Whether this layout may be given to a file: everything [`Layout::map`] checks, stripes of
    /// [`STRIPE_BYTES_MIN`] at least, and an I/O daemon for every part. (The strips of a `varstrip`
    /// cycle may be of any size from 1 byte: they follow records, not pages.)
    ///
    /// # Errors
    /// The first thing that is wrong.
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
    /// Whether the view makes sense: it covers bytes, nothing overlaps, it is not too deep or too long,
    /// and no offset passes the 64-bit edge.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), LayoutError> {
        self.map().map(|_| ())
    }
}

impl Request {
    /// Whether the view makes sense and the request ends before the largest file does.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), LayoutError> {
        self.view.map()?.file_range(self.start, self.bytes).map(|_| ())
    }
}
