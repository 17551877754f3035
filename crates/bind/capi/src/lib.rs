//! The C library: the client library behind `braid.h`.
//!
//! ```text
//!   C program ── braid_*() ──> FFI boundary (pointers, errno, panics)
//!                                   └──> table (descriptors) ──> braid-client
//! ```
//!
//! Invariants:
//! 1. Every exported function runs in `ffi::call`. No panic crosses into C, and every failure
//!    sets errno and the thread's message.
//! 2. Arguments from C are checked before use, as far as possible: NULL, alignment, lengths,
//!    descriptors. `unsafe` occurs in the FFI boundary and in the one line of each function that
//!    uses a pointer.
//! 3. A descriptor is never a pointer: a closed descriptor, or one of the kernel, gives EBADF and
//!    not a crash.
//! 4. After `fork` the child has none of its parent's descriptors. It never takes a lock that
//!    another thread of the parent may have held (`ffi/process.rs`).
//!
//! Invariants 1, 2 and 4 concern C callers and forks, which no assertion here can see; the C tests
//! check them. Invariant 3 follows from the type of the table.
#![cfg(target_os = "linux")]
#![deny(unsafe_op_in_unsafe_fn)]
// The safety conditions of callers are the same for all functions. braid.h and libbraid(3) state
// them in terms of C.
#![allow(clippy::missing_safety_doc)]

mod cluster;
mod collective;
mod fcntl;
mod ffi;
mod file;
mod group;
mod layout;
mod list;
mod names;
mod nonblocking;
mod nonblocking_collective;
mod settings;
mod view;

pub use cluster::*;
pub use collective::*;
pub use fcntl::*;
pub use ffi::message::*;
pub use file::{
    close::*, copy::*, lock::*, open::*, read::*, seek::*, size::*, sync::*, view::*, write::*,
};
pub use group::*;
pub use layout::*;
pub use list::*;
pub use names::{change::*, directory::*, link::*, make::*, stat::*, xattr::*};
pub use nonblocking::*;
pub use nonblocking_collective::*;
pub use view::*;
