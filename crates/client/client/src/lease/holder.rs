//! The interface of a cache under leases.

use std::sync::Weak;

use braid_types::FileIndex;

use super::LeaseMode;

/// A cache under leases. Threads reserved for recalls call it: a recall of names never waits behind
/// one of data or of a layout.
///
/// Recalls of one lease come one after the other, those of different leases at the same time.
/// [`LeaseHolder::lost_all`] may be called while any of them runs.
///
/// A callback may make calls of the client. If it takes longer than `RECALL_MS`, or
/// `RECALL_DATA_MS` for data, the server ends the session.
pub trait LeaseHolder: Send + Sync {
    /// The names lease of a directory is recalled. `Leases::is_valid` has returned false since
    /// before this call. When this returns, nothing cached under the lease may be used any more;
    /// then the lease is returned to the server.
    fn recall_names(&self, dir: FileIndex);

    /// The data lease of a file is recalled, entirely or down to the mode `keep`. The lease is held
    /// until this returns. The result is the mode that is kept: `keep` or none. Return none if
    /// buffered bytes could not be written. [`LeaseHolder::lost_all`] may be called meanwhile.
    fn recall_data(&self, file: FileIndex, keep: LeaseMode) -> LeaseMode;

    /// The layout lease of a file is recalled. The lease is held until this returns; then nothing
    /// may be read or written with the cached layout. Nobody receives the lease meanwhile.
    /// [`LeaseHolder::lost_all`] may be called before it returns. A holder that has not cached the
    /// layout need not do anything.
    fn recall_layout(&self, file: FileIndex) {
        let _ = file;
    }

    /// All leases are lost: the server did not answer in time, has ended the session, or has
    /// restarted. When this returns, nothing cached may be used any more; then new leases are
    /// requested.
    fn lost_all(&self);

    /// Whether the client reads and writes a file only while it holds the file's data lease, as a
    /// mount does. If not, its opens make others return what they buffer of the file, and cache
    /// nothing of it that this client may change, as the opens of a client without leases. Asked
    /// once.
    fn does_io_under_leases(&self) -> bool {
        true
    }
}

pub(crate) fn does_io_under_leases(holder: &Weak<dyn LeaseHolder>) -> bool {
    holder.upgrade().is_none_or(|holder| holder.does_io_under_leases())
}
