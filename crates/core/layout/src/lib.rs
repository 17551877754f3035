//! Distributions, views, requests and jobs: the location of each byte of a file. All functions are
//! pure and total (I3): no I/O, no clock, no panic for any input; 64-bit offsets with checked
//! arithmetic.
//!
//! ```text
//!   View + stream position  --ViewMap-->   file offset   --LayoutMap-->  (part, object offset)
//!   Request                 --unfold--->   accesses of the wanted parts, lazily, in request order
//! ```
//!
//! Client and I/O daemon unfold the same request with the same code: the client to place each
//! extent of the stream, the daemon to know what to read or write.
//!
//! ```
//! use braid_layout::{Distribution, Layout, PartSet, Request, View, unfold};
//! use braid_types::{IodId, PartIndex};
//!
//! // 3 parts, strips of 10 bytes; a view of 4 bytes in every 10, from byte 8.
//! let layout = Layout::one(Distribution::SimpleStripe { stripe_size: 10 }, (1..=3).map(IodId));
//! let request = Request { view: View::strided(8, 4, 10), start: 0, bytes: 12 };
//! let accesses = unfold(&request, &layout, &PartSet::one(PartIndex(0)))?;
//! let found: Vec<_> = accesses
//!     .map(|a| (a.file_offset.0, a.object_offset.0, a.bytes, a.stream_offset))
//!     .collect();
//! assert_eq!(found, [(8, 8, 2, 0), (30, 10, 2, 10)]);
//! # Ok::<(), braid_layout::LayoutError>(())
//! ```
#![forbid(unsafe_code)]

mod distribution;
mod error;
mod extents;
mod identical_placement;
mod layout;
mod map;
mod modular_search;
mod part_set;
mod payload;
mod request_union;
mod unfold;
mod validate;
mod view;
mod windows;

pub use distribution::{Aggregation, ColumnLocation, Cover};
pub use error::LayoutError;
pub use extents::Extents;
pub use layout::{ChecksumKind, Component, Distribution, Layout, PartPlacement, Redundancy, Strip};
pub use map::{LayoutMap, Location};
pub use part_set::PartSet;
pub use request_union::{NextExtent, ObjectExtent, RequestUnion};
pub use unfold::{Access, Unfold, Unfolded, unfold};
pub use view::{BlockCyclicDimension, Extent, Pattern, Request, View, ViewMap};
pub use windows::{Window, Windows};
