//! The C library: the client library behind `braid.h`.
//!
//! ```text
//!   C program ── braid_*() ──> border (pointers, errno, panics) ──> table (descriptors) ──> braid-client
//! ```
//!
//! Invariants:
//! 1. Every exported function passes through `border::call`: no panic crosses into C, and whoever fails leaves errno and a
//!    message of the thread.
//! 2. What comes from C is checked where it can be before it is used: NULL, alignment, lengths, numbers of descriptors.
//!    `unsafe` stands in `border/` and in the one line of each function that takes a pointer in hand.
//! 3. A descriptor is never a pointer: a number that was closed, or is the kernel's, is EBADF and not a crash.
//! 4. After `fork` the child has no descriptor of its parent's and never takes a lock that another thread of the parent may
//!    have held (`border/process.rs`).
#![cfg(target_os = "linux")]
#![deny(unsafe_op_in_unsafe_fn)]
// What a caller owes is said once for all functions, in braid.h and libbraid(3), in C's words.
#![allow(clippy::missing_safety_doc)]

mod asynchronous;
mod border;
mod cluster;
mod collective;
mod collective_started;
mod fcntl;
mod file;
mod group;
mod layout;
mod list;
mod names;
mod settings;
mod view;

pub use asynchronous::*;
pub use border::message::*;
pub use cluster::*;
pub use collective::*;
pub use collective_started::*;
pub use fcntl::*;
pub use file::{
    close::*, copy::*, lock::*, open::*, read::*, seek::*, size::*, sync::*, view::*, write::*,
};
pub use group::*;
pub use layout::*;
pub use list::*;
pub use names::{change::*, directory::*, link::*, make::*, stat::*, xattr::*};
pub use view::*;
