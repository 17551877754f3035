//! One file for each operation, and the jobs that carry them out. `requests.rs` chooses the
//! operation for a message.

pub(crate) mod abandon;
pub(crate) mod allocate;
mod blocking_work;
pub(crate) mod collect_sizes;
pub(crate) mod copy;
pub(crate) mod data_server;
pub(crate) mod delete;
pub(crate) mod fence;
pub(crate) mod flush;
pub(crate) mod list;
pub(crate) mod lost_found;
pub(crate) mod measure;
pub(crate) mod punch;
pub(crate) mod read;
pub(crate) mod reservation;
mod search_limit;
pub(crate) mod seek;
pub(crate) mod sizes;
pub(crate) mod space;
pub(crate) mod status;
pub(crate) mod truncate;
pub(crate) mod write;

use braid_types::{Failure, Status};

pub use blocking_work::BlockingWork;
use blocking_work::Clock;
pub use data_server::{DataServerFile, DataServerRead, DataServerWrite};
pub(crate) use read::OpenedObjects;
pub use read::{COPIED_BYTES_MAX, ReadJob, ReadProgress};
pub(crate) use search_limit::SearchLimit;
pub use write::WriteJob;
pub(crate) use write::blocks_allocated;

/// What the layout crate refuses in a request is the caller's mistake.
pub(crate) fn invalid(why: braid_layout::LayoutError) -> Failure {
    Failure::new(Status::Invalid, why.to_string())
}
