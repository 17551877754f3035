//! The FUSE protocol without libfuse (docs/adr/0010): from `/dev/fuse` to a [`Handler`] and back.
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
//! 1. Nothing here knows BraidFS; the handler gives requests their meaning.
//! 2. Parsing and encoding do no I/O; any bytes give a value or an error.
//! 3. Every request but FORGET gets exactly one reply; a [`Reply`] that is dropped replies EIO
//!    (I8).
//! 4. A worker that takes a request while no other worker idles starts another worker first: a
//!    handler that waits never delays the next request.
//! 5. The thread that calls a method of a reply writes the reply before that method returns. So
//!    what a handler does under a lock around it is ordered against notifications. Over io_uring
//!    there are three exceptions: replies to WRITE, and to READ of a page, are written when the
//!    handler has returned, and those from another thread soon after.
//! 6. The transport of requests is chosen once, at INIT. FORGET, INTERRUPT and notifications always
//!    use the device.

pub mod abi;
mod backing;
mod channel;
mod clone;
mod connection;
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
mod page_buffer;
mod parse;
mod reply;
pub mod uring;
mod value;
mod worker;
mod worker_count;

pub use backing::{BackingError, BackingFile, BackingFiles, BackingId};
pub use connection::StartError;
pub use encode::DirectoryBuffer;
pub use features::{Features, KernelFeatures, Wanted};
pub use handler::{Call, Forget, Handler};
pub use interrupt::{Interrupt, SignalGuard};
pub use invalidator::{INVALIDATORS_MAX, Invalidation};
pub use notify::{Expiry, Notifier};
pub use operation::{Forgotten, Lock, LockKind, Operation, SetAttributes, SetTime};
pub use parse::{Groups, Header, ParseError, ProtocolOptions, Request};
pub use reply::{Opened, Reply, ReplyRejected};
pub use value::{Attributes, Entry, ExtendedStat, Kind, SpaceStat, Time, Validity};
pub use worker::{PoolOptions, WORKERS_MAX};
