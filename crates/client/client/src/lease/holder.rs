//! Who caches under leases, as the client sees it.

use braid_types::FileIndex;

use super::LeaseMode;

/// Who caches under leases. It is told on threads that serve nobody else: a recall of names never waits behind one of
/// data or of a layout.
///
/// Recalls of one lease come one after the other, those of different leases at the same time; [`LeaseHolder::lost_all`] may be called
/// while any of them is carried out.
///
/// A callback may make calls of the client. What takes longer than `RECALL_MS`, for data `RECALL_DATA_MS`, costs the session.
pub trait LeaseHolder: Send + Sync {
    /// The names lease of a directory is lost: `Leases::still` says so since before this call. When it returns, nothing
    /// that was kept under the lease is used any more; then the server is told.
    fn recall_names(&self, dir: FileIndex);

    /// The data lease of a file is to go, or to become `keep`. It is held until this returns, with what is kept now,
    /// which is `keep` or nothing; then the server is told. Nothing is kept when what was gathered could not be written.
    /// [`LeaseHolder::lost_all`] may be called meanwhile.
    fn recall_data(&self, file: FileIndex, keep: LeaseMode) -> LeaseMode;

    /// The layout lease of a file is to go. It is held until this returns: then nothing is read or written by the layout that was
    /// kept, and the server is told. Nobody is handed it meanwhile. [`LeaseHolder::lost_all`] may be called before it returns. A
    /// layout that nobody was handed needs nothing.
    fn recall_layout(&self, file: FileIndex) {
        let _ = file;
    }

    /// Every lease is lost: the server was not heard of in time, has ended the session, or has restarted. When this
    /// returns, nothing that was kept is used any more; then leases are asked for again.
    fn lost_all(&self);
}
