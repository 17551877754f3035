//! The windows of an explicit list, divided by daemon in one pass over it.
//!
//! ```text
//!   list          e0    e1    e2    e3         for a daemon: the extents that touch its parts
//!   daemon A      e0          e2               its own list; it unfolds every entry
//!   daemon B            e1    e2    e3
//! ```
//!
//! A daemon receives, and unfolds, no extent without a byte on it, and the list is not unfolded
//! here once for each daemon. Extents are not divided, so no daemon's list is longer than the
//! call's.

use braid_layout::{Extent, Pattern, Request, View};
use braid_types::{FileOffset, limits::FILE_BYTES_MAX};

use super::{FileMap, PIECES_MAX, Piece};

/// One daemon's part of a list.
pub(super) struct DaemonList {
    /// Its extents, as in the view.
    extents: Vec<Extent>,
    /// Where each begins in the stream of the daemon's list, and where the last ends.
    starts: Vec<u64>,
    /// Its pieces of the caller's buffers, and where each begins in that stream.
    pieces: Vec<(Piece, u64)>,
    /// The first piece that is in no window yet.
    next: usize,
}

/// One window of a daemon's list.
pub(super) struct ListWindow {
    pub(super) request: Request,
    pub(super) payload: u64,
    pub(super) pieces: Vec<Piece>,
}

/// Each daemon's part of the request, in the order of [`FileMap::targets`]. `None` if the view is
/// not a list, if the list would be refused, or if a daemon has more pieces than may be passed to
/// the kernel. Then the request is planned like other views.
pub(super) fn by_daemon(map: &FileMap, request: &Request) -> Option<Vec<DaemonList>> {
    let Pattern::Extents(extents) = &request.view.pattern else { return None };
    let mut lists: Vec<DaemonList> = map.targets().iter().map(|_| DaemonList::new()).collect();
    let (mut skip, mut left, mut position, mut end) = (request.start, request.bytes, 0, 0);
    for extent in extents {
        let extent_end = extent
            .offset
            .checked_add(extent.bytes)
            .filter(|_| extent.bytes > 0 && extent.offset >= end)?;
        end = extent_end;
        let skipped = skip.min(extent.bytes);
        skip -= skipped;
        let wanted = (extent.bytes - skipped).min(left);
        if wanted == 0 {
            continue;
        }
        let own = Extent { offset: extent.offset + skipped, bytes: wanted };
        let from = request.view.displacement.checked_add(own.offset)?;
        from.checked_add(wanted).filter(|end| *end <= FILE_BYTES_MAX)?;
        let mut at = 0;
        while at < wanted {
            let (target, contiguous) = map.daemon_at(FileOffset(from + at))?;
            let bytes = contiguous.min(wanted - at);
            lists[target].push(own, at, Piece { position: position + at, bytes })?;
            at += bytes;
        }
        (position, left) = (position + wanted, left - wanted);
    }
    // A list that is repeated after its end is not supported here.
    (left == 0 && request.view.extent >= end).then_some(lists)
}

impl DaemonList {
    fn new() -> Self {
        Self { extents: Vec::new(), starts: vec![0], pieces: Vec::new(), next: 0 }
    }

    /// Adds the bytes of an extent from `at`. `None` if there are too many pieces.
    fn push(&mut self, extent: Extent, at: u64, piece: Piece) -> Option<()> {
        if self.extents.last() != Some(&extent) {
            self.extents.push(extent);
            self.starts.push(self.end() + extent.bytes);
        }
        let stream = self.end() - extent.bytes + at;
        match self.pieces.last_mut() {
            // Pieces adjacent in the buffers are adjacent in the stream: no byte of another daemon
            // is between.
            Some((last, _)) if last.position + last.bytes == piece.position => {
                last.bytes += piece.bytes
            }
            _ => self.pieces.push((piece, stream)),
        }
        (self.pieces.len() <= PIECES_MAX).then_some(())
    }

    fn end(&self) -> u64 {
        self.starts.last().copied().unwrap_or_default()
    }

    /// The next window, of at most `window` bytes.
    pub(super) fn next_window(&mut self, view: &View, window: u64) -> Option<ListWindow> {
        let start = self.pieces.get(self.next)?.1;
        let (mut payload, mut end, mut pieces) = (0, start, Vec::new());
        while let Some((piece, stream)) = self.pieces.get_mut(self.next) {
            let bytes = piece.bytes.min(window - payload);
            if bytes == 0 {
                break;
            }
            pieces.push(Piece { bytes, ..*piece });
            (payload, end) = (payload + bytes, *stream + bytes);
            if bytes < piece.bytes {
                (piece.position, piece.bytes, *stream) =
                    (piece.position + bytes, piece.bytes - bytes, end);
                break;
            }
            self.next += 1;
        }
        let first = self.starts.partition_point(|at| *at <= start) - 1;
        let past = self.starts.partition_point(|at| *at < end);
        let pattern = Pattern::Extents(self.extents[first..past].to_vec());
        let view = View { pattern, displacement: view.displacement, extent: view.extent };
        let request = Request { view, start: start - self.starts[first], bytes: end - start };
        Some(ListWindow { request, payload, pieces })
    }
}
