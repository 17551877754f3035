//! From one call of the library to the requests for each I/O daemon.
//!
//! ```text
//!   request (view, start, bytes)          the user's buffers, one after the other
//!        |  for each daemon: windows           ^
//!        v                                     |  pieces (position in the buffers, bytes)
//!   round: | A0 A1 | B0 B1 | C0 | ...   ------'
//!   round: | A2 A3 | B2    | ...
//! ```
//!
//! Invariants:
//! 1. Each daemon gets `ceil(its payload / WINDOW_BYTES)` windows per call (I2). The windows of a
//!    daemon are counted in its own payload bytes through the whole call; a round only says how
//!    many of them are sent together.
//! 2. The pieces of all windows of a call cover the call's bytes on the parts exactly once. The
//!    pieces of a window, in order, are its payload as the daemon packs it: both sides unfold the
//!    same request.
//! 3. A round has at most [`ROUND_BYTES_MAX`] of payload (or one window for each daemon) and about
//!    [`ROUND_PIECES_MAX`] pieces, however large the call is (I9). A window of more than
//!    [`PIECES_MAX`] pieces uses a bounce buffer.
//! 4. A window of an explicit list contains only the extents that it touches and, unless it is
//!    unfolded like other views, only those of its daemon. So all windows of a daemon together send
//!    it its part of the list once.
//!
//! `next_round` asserts the payload of a window (1) and of a round (3). To assert 2 and 4 would be
//! to plan the call a second time; the tests compare plans with every byte of small views.

mod assign_buffers;
mod bounce_buffer;
mod daemon_list;
mod file_map;
mod pieces;

use std::collections::VecDeque;

use braid_layout::{LayoutError, Pattern, Request, View, Window, Windows};
use braid_types::limits::WINDOW_BYTES;

pub(crate) use assign_buffers::{assign_buffers, assign_buffers_mut};
pub(crate) use bounce_buffer::{gather, scatter};
use daemon_list::{DaemonList, ListWindow};
pub use file_map::{FileMap, Target};
pub(crate) use pieces::{PlacedExtent, extents as laid_extents, place_extents, strided_view};

/// The largest payload of one round. Sixteen windows keep every network link busy while the next
/// round is planned.
pub const ROUND_BYTES_MAX: u64 = 64 << 20;
/// The largest number of pieces of one round: a few MiB of lists.
pub const ROUND_PIECES_MAX: usize = 65_536;
/// The largest number of pieces of a window that are sent from, or received into, the user's
/// memory. With more, the pieces average less than 256 bytes, and copying them once is cheaper than
/// passing each to the kernel.
pub const PIECES_MAX: usize = 16_384;

/// A contiguous range of the user's buffers that belongs to a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Position in the call's buffers, in bytes from their start.
    pub position: u64,
    /// Its length.
    pub bytes: u64,
}

/// The request to one daemon in one exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planned {
    /// Index of the daemon in [`FileMap::targets`].
    pub target: usize,
    /// The request.
    pub request: Request,
    /// Position in the call's buffers of the first byte of `request`.
    pub position: u64,
    /// The number of its bytes at this daemon.
    pub payload: u64,
    /// Where they are in the user's buffers.
    pub memory: WindowMemory,
}

/// Where the payload of a window is in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WindowMemory {
    /// In these pieces, in order.
    Pieces(Vec<Piece>),
    /// In pieces so small that they are copied through a bounce buffer.
    BounceBuffer,
}

/// Plans one call, round by round.
pub struct Planner<'f> {
    map: &'f FileMap,
    request: Request,
    queues: VecDeque<DaemonQueue>,
    /// Where each extent of an explicit list begins in the stream, and where the last ends; empty
    /// for other views.
    starts: Vec<u64>,
    /// The window for the whole call, if there is only one.
    single: Option<Planned>,
}

struct DaemonQueue {
    target: usize,
    windows: QueueWindows,
}

#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are the large variant; a box would be one more allocation"
)]
enum QueueWindows {
    Unfolded(Windows),
    Listed(DaemonList),
}

impl<'f> Planner<'f> {
    /// Plans `request` of a file.
    ///
    /// # Errors
    /// The request is malformed.
    pub fn new(map: &'f FileMap, request: Request) -> Result<Self, LayoutError> {
        let mut planner =
            Self { map, request, queues: VecDeque::new(), starts: Vec::new(), single: None };
        match planner.only_window()? {
            Some(single) => planner.single = Some(single),
            None => planner.open_queues()?,
        }
        Ok(planner)
    }

    /// A contiguous call within one strip, the typical small one, is not unfolded.
    fn only_window(&self) -> Result<Option<Planned>, LayoutError> {
        let bytes = self.request.bytes;
        if bytes > WINDOW_BYTES {
            return Ok(None);
        }
        let Some(target) = self.map.only_target(&self.request)? else { return Ok(None) };
        let memory = WindowMemory::Pieces(vec![Piece { position: 0, bytes }]);
        Ok(Some(Planned {
            target,
            request: self.request.clone(),
            position: 0,
            payload: bytes,
            memory,
        }))
    }

    fn open_queues(&mut self) -> Result<(), LayoutError> {
        if let Some(lists) = daemon_list::by_daemon(self.map, &self.request) {
            let queue =
                |(target, list)| DaemonQueue { target, windows: QueueWindows::Listed(list) };
            self.queues = lists.into_iter().enumerate().map(queue).collect();
            return Ok(());
        }
        self.starts = starts(&self.request.view);
        for (target, daemon) in self.map.targets().iter().enumerate() {
            let windows =
                self.map.layout_map().windows(&self.request, &daemon.parts, WINDOW_BYTES)?;
            self.queues.push_back(DaemonQueue { target, windows: QueueWindows::Unfolded(windows) });
        }
        Ok(())
    }

    /// The next round; `None` when everything is planned.
    pub fn next_round(&mut self) -> Option<Vec<Planned>> {
        if let Some(single) = self.single.take() {
            return Some(vec![single]);
        }
        let mut round = Vec::new();
        let (mut bytes, mut pieces) = (0, 0);
        // Alternates between the daemons, so that every daemon has work in every round.
        while let Some(mut queue) = self.queues.pop_front() {
            let Some(planned) = self.next_of(&mut queue) else { continue };
            debug_assert!(planned.payload <= WINDOW_BYTES, "1: a window has a bounded payload");
            bytes += planned.payload;
            pieces += planned.memory.len();
            round.push(planned);
            self.queues.push_back(queue);
            if bytes >= ROUND_BYTES_MAX || pieces >= ROUND_PIECES_MAX {
                break;
            }
        }
        debug_assert!(bytes < ROUND_BYTES_MAX + WINDOW_BYTES, "3: a round has bounded payload");
        (!round.is_empty()).then_some(round)
    }

    fn next_of(&self, queue: &mut DaemonQueue) -> Option<Planned> {
        let target = queue.target;
        match &mut queue.windows {
            QueueWindows::Unfolded(windows) => self.next_unfolded(target, windows),
            QueueWindows::Listed(list) => {
                list.next_window(&self.request.view, WINDOW_BYTES).map(|window| {
                    let ListWindow { request, payload, pieces } = window;
                    let position = pieces.first().map_or(0, |piece| piece.position);
                    Planned {
                        target,
                        request,
                        position,
                        payload,
                        memory: WindowMemory::Pieces(pieces),
                    }
                })
            }
        }
    }

    fn next_unfolded(&self, target: usize, windows: &mut Windows) -> Option<Planned> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut are_many = false;
        let window = windows.next_with(|position, bytes| {
            let count = pieces.len();
            match pieces.last_mut() {
                Some(last) if last.position + last.bytes == position => last.bytes += bytes,
                _ if count == PIECES_MAX => are_many = true,
                _ => pieces.push(Piece { position, bytes }),
            }
        })?;
        let memory =
            if are_many { WindowMemory::BounceBuffer } else { WindowMemory::Pieces(pieces) };
        let position = window.start - self.request.start;
        Some(Planned {
            target,
            request: self.part(window),
            position,
            payload: window.payload,
            memory,
        })
    }

    /// The request for one window.
    fn part(&self, window: Window) -> Request {
        let Window { start, bytes, .. } = window;
        let view = &self.request.view;
        match (&view.pattern, self.starts.last()) {
            // Within the first copy of the list; all lists that programs pass are.
            (Pattern::Extents(extents), Some(end))
                if start.checked_add(bytes).is_some_and(|last| last <= *end) =>
            {
                let first = self.starts.partition_point(|at| *at <= start) - 1;
                let past = self.starts.partition_point(|at| *at < start + bytes);
                let pattern = Pattern::Extents(extents[first..past].to_vec());
                let view = View { pattern, displacement: view.displacement, extent: view.extent };
                Request { view, start: start - self.starts[first], bytes }
            }
            _ => Request { view: view.clone(), start, bytes },
        }
    }
}

fn starts(view: &View) -> Vec<u64> {
    let Pattern::Extents(extents) = &view.pattern else { return Vec::new() };
    let mut starts = Vec::with_capacity(extents.len() + 1);
    let mut end = 0u64;
    starts.push(end);
    for extent in extents {
        // A list that passes 64 bits is refused where it is used.
        end = end.saturating_add(extent.bytes);
        starts.push(end);
    }
    starts
}

impl Planned {
    /// Its pieces in the user's buffers; none if it uses a bounce buffer.
    pub fn pieces(&self) -> &[Piece] {
        match &self.memory {
            WindowMemory::Pieces(pieces) => pieces,
            WindowMemory::BounceBuffer => &[],
        }
    }
}

impl WindowMemory {
    fn len(&self) -> usize {
        match self {
            Self::Pieces(pieces) => pieces.len(),
            // A bounce buffer of one window counts as much as the pieces that it replaces.
            Self::BounceBuffer => PIECES_MAX,
        }
    }
}
