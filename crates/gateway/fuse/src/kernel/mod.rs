//! The FUSE protocol by ourselves (docs/adr/0010): from `/dev/fuse` to a [`Handler`] and back.
//!
//! ```text
//!   kernel ── /dev/fuse ──> Worker (pool grows) ── parse ──> Handler::handle(Request, Reply, Call)
//!     |  or io_uring ─────> uring::Worker (as many) ──^                          |
//!     ^                        |                                              |
//!     |                        +── FUSE_INTERRUPT ──> Interrupt of the request|
//!     +── writev ── Reply (may move to another thread; dropped = EIO) <───────+
//!     +── write ─── Notifier (attributes)
//!     +── write ─── Invalidators (pages, names; threads with a table of their own) <── Notifier
//! ```
//!
//! 1. Nothing here knows BraidFS; what a request means is the handler's.
//! 2. Parsing and encoding are pure: bytes in, values out, no I/O; any bytes give a value or an error.
//! 3. Every request but FORGET gets exactly one reply; a [`Reply`] that is dropped says EIO (I8).
//! 4. Whoever takes a request when no other worker idles makes another worker first: a handler that
//!    waits never keeps the next request waiting.
//! 5. A reply is written by the thread that calls the reply's method, before that method returns: what
//!    a handler does under a lock around it is ordered against notifications. Over io_uring there are three exceptions: answers to WRITE,
//!    and to READ of a page, are written when the handler has returned, and those from another thread soon after.
//! 6. Which of the two transports carries requests is decided once, at INIT; FORGET, INTERRUPT and notifications use
//!    the device with both.

pub mod abi;
mod channel;
mod clone;
mod connection;
mod demand;
mod device;
mod encode;
mod features;
mod handler;
mod init;
mod interrupt;
mod invalidator;
pub mod mount;
mod notify;
mod operation;
mod pages;
mod parse;
mod reply;
pub mod uring;
mod value;
mod worker;

pub use connection::StartError;
pub use encode::DirectoryBuffer;
pub use features::{Features, KernelFeatures, Wanted};
pub use handler::{Call, Forget, Handler};
pub use interrupt::{Interrupt, SignalGuard};
pub use invalidator::{INVALIDATORS_MAX, Invalidation};
pub use notify::{Expiry, Notifier};
pub use operation::{Forgotten, Lock, LockKind, Operation, SetAttributes, SetTime};
pub use parse::{Dialect, Groups, Header, ParseError, Request};
pub use reply::{NotTaken, Opened, Reply};
pub use value::{Attributes, Entry, ExtendedStat, Kind, SpaceStat, Time, Validity};
pub use worker::{PoolOptions, WORKERS_MAX};
