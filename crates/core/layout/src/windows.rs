//! Splits a request to one I/O daemon into windows (I2), which count wanted bytes, not the spanned
//! range.

use crate::{Access, LayoutError, LayoutMap, PartSet, Request, Unfold};

/// A part of a request: `Request { start, bytes, ..request }` holds `payload` bytes of the parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// First byte, as a position in the view's stream. It is on the parts.
    pub start: u64,
    /// Bytes of the stream from there to the last byte on the parts.
    pub bytes: u64,
    /// How many of them are on the parts: a full window, except in the last one.
    pub payload: u64,
}

/// The windows of a request, in order: `ceil(payload / window)` of them.
#[derive(Clone, Debug)]
pub struct Windows {
    unfold: Unfold,
    /// The rest of an access that the last window split.
    cut: Option<Access>,
    start: u64,
    window: u64,
}

impl LayoutMap {
    /// Splits the request, as far as it lies on these parts, into windows of `window` payload
    /// bytes.
    ///
    /// ```
    /// use braid_layout::{Distribution, Layout, PartSet, Request, Window};
    /// use braid_types::{FileOffset, IodId, PartIndex};
    /// let stripe = Distribution::SimpleStripe { stripe_size: 4096 };
    /// let map = Layout::one(stripe, (1..=2).map(IodId)).map()?;
    /// let request = Request::contiguous(FileOffset(0), 5 * 4096);
    /// let mut windows = map.windows(&request, &PartSet::one(PartIndex(0)), 2 * 4096)?;
    /// assert_eq!(windows.next(), Some(Window { start: 0, bytes: 3 * 4096, payload: 2 * 4096 }));
    /// assert_eq!(windows.next(), Some(Window { start: 4 * 4096, bytes: 4096, payload: 4096 }));
    /// assert_eq!(windows.next(), None);
    /// # Ok::<(), braid_layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The request is malformed, or the window is 0.
    pub fn windows(
        &self,
        request: &Request,
        parts: &PartSet,
        window: u64,
    ) -> Result<Windows, LayoutError> {
        if window == 0 {
            return Err(LayoutError::EmptyWindow);
        }
        Ok(Windows {
            unfold: self.unfold(request, parts)?,
            cut: None,
            start: request.start,
            window,
        })
    }
}

impl Windows {
    /// The next window. Calls `access_in_it` with (position in the request's stream, bytes) for
    /// each of its accesses, clipped to the window.
    pub fn next_with(&mut self, mut access_in_it: impl FnMut(u64, u64)) -> Option<Window> {
        let first = self.cut.take().or_else(|| self.unfold.next())?;
        let (start, mut end, mut payload) = (first.stream_offset, first.stream_offset, 0);
        let mut next = Some(first);
        while let Some(access) = next {
            let taken = access.bytes.min(self.window - payload);
            if taken > 0 {
                access_in_it(access.stream_offset, taken);
                payload += taken;
                end = access.stream_offset + taken;
            }
            if taken < access.bytes {
                // The object offset of a split access is not used again.
                let (stream_offset, bytes) = (access.stream_offset + taken, access.bytes - taken);
                self.cut = Some(Access { stream_offset, bytes, ..access });
                break;
            }
            next = self.unfold.next();
        }
        Some(Window { start: self.start + start, bytes: end - start, payload })
    }
}

impl Iterator for Windows {
    type Item = Window;

    fn next(&mut self) -> Option<Window> {
        self.next_with(|_, _| {})
    }
}
