//! Sizes of files: where the size of a file is known during writes and after them, and what
//! changes it.
//!
//! ```text
//!   recorded ──open for writing──> size mark: the size is in the objects (I5)
//!      ^                             │   true_size.rs    asks the I/O daemons for each caller
//!      │                             │   sole_writer.rs  or takes the report of the sole writer
//!      │                       last close
//!      │                             v
//!      └── cache.rs: cached <── collection.rs: collected from the daemons, without a flush
//!          flushed and recorded after some seconds; the mark ends
//!
//!   truncate, punch ──> gate.rs: calls on the file wait ──> intents.rs: carried out ──> gate open
//!   restart         ──> uncertain.rs: recorded sizes are uncertain until all clients reclaimed
//! ```
//!
//! [`SizeTable`] holds all of it and is a part of the server's state, under the server's lock. It
//! calls nobody. The methods of `MdsCore` in these files ask daemons and change the store.
//!
//! Invariants, each explained in its file:
//! 1. A size is cached, and recorded, only if no writer opened the file since its daemons were
//!    asked. [`SizeTable::opened_for_writing`] is called before a capability leaves the server.
//! 2. What is recorded was on the daemons' disks when they answered.
//! 3. The gate of a file is closed exactly while an intent for it is in the store, or is about to
//!    be put there. While it is closed, the file is not collected, and the store refuses to record
//!    its size.
//! 4. The number of closed gates, which is read without the lock, is changed under the lock.
//! 5. Everything that waits is bounded (I9).
//!
//! Each file asserts its invariants, or says why it cannot; for those of this list they are
//! `collection.rs` (1, 2, 5) and `gate.rs` (3, 4, 5).
//!
//! Lock order: the server's lock alone. The store may be called under it (`core.rs`).

mod cache;
mod change_queries;
mod collection;
mod gate;
mod intents;
mod sole_writer;
mod true_size;
mod uncertain;

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use braid_types::{Failure, FileIndex, SessionId, Timestamp};

use change_queries::ChangeQueries;
use collection::SizeCollector;
use gate::{NotWaiting, SizeChangeGates};
use intents::Intents;

pub(crate) use {
    cache::RECORD_SIZE_MS,
    gate::{GATE_WAIT_MS_MAX, SuspendedCall},
    sole_writer::{CreateStart, SoleWriterSince, check_size_reports},
    true_size::{CollectMode, CollectedSizes},
};
#[cfg(test)]
pub(crate) use {gate::GATE_WAIT_KNOWN_REASON_MS_MAX, sole_writer::REPORTED_FILES_MAX};

use crate::objects::CollectedSize;

/// What the server knows of sizes that are not recorded, and of changes of sizes that are not
/// finished. The module has the invariants.
#[derive(Debug, Default)]
pub(crate) struct SizeTable {
    collector: SizeCollector,
    gates: SizeChangeGates,
    intents: Intents,
    change_queries: ChangeQueries,
}

impl SizeTable {
    /// How many gates are closed: read without the lock.
    pub(crate) fn closed_gates(&self) -> Arc<AtomicUsize> {
        self.gates.closed()
    }

    /// A file is opened for writing: what its daemons or a sole writer said of it is void. Called
    /// before a capability leaves the server.
    pub(crate) fn opened_for_writing(&mut self, file: FileIndex) {
        self.collector.invalidate(file);
    }

    /// A handle of the file that may write was closed. Others may still write it.
    pub(crate) fn writer_closed(&mut self, file: FileIndex) {
        self.collector.forget_sole_writer(file);
    }

    /// The last handle of the file that may write was closed: its size is to be collected.
    pub(crate) fn last_writer_closed(&mut self, file: FileIndex) {
        self.collector.enqueue(file);
    }

    /// A session ended: it reports nothing more.
    pub(crate) fn session_ended(&mut self, session: SessionId) {
        self.collector.forget_session(session);
    }

    /// Whether one more file may be withheld from collection.
    pub(crate) fn may_note_unfenced_close(&self) -> bool {
        self.collector.may_note_unfenced_close()
    }

    /// A session of a ticket closed the file and may still write it: its mark stays.
    pub(crate) fn note_unfenced_close(&mut self, file: FileIndex) {
        self.collector.note_unfenced_close(file);
    }

    /// A session that the file was withheld for writes no more.
    pub(crate) fn end_unfenced_close(&mut self, file: FileIndex) {
        self.collector.end_unfenced_close(file);
    }

    /// The record of the file was changed by hand: what was collected of it is void.
    pub(crate) fn record_was_mended(&mut self, file: FileIndex) {
        self.collector.restart(file);
    }

    /// The file's time was set at `now`: writes before that do not change it.
    pub(crate) fn time_was_set(&mut self, file: FileIndex, now: Timestamp) {
        self.collector.time_was_set(file, now);
    }

    /// What the daemons said of a file after its last writer, if it is cached.
    pub(crate) fn cached(&self, file: FileIndex) -> Option<&CollectedSize> {
        self.collector.cached(file)
    }

    /// Files whose size is collected and not recorded, or to be collected.
    pub(crate) fn uncollected_count(&self) -> usize {
        self.collector.len()
    }

    /// Of how many files the sole writer is known.
    #[cfg(test)]
    pub(crate) fn sole_writer_count(&self) -> usize {
        self.collector.sole_writer_count()
    }

    /// Intents that are not finished.
    pub(crate) fn intent_count(&self) -> usize {
        self.intents.len()
    }

    /// Whether daemons may be carrying out an intent on this file now.
    pub(crate) fn is_intent_running(&self, file: FileIndex) -> bool {
        self.intents.is_running(file)
    }

    /// Suspends a call at a gate. It comes back when the gate is open or its queue is full.
    pub(crate) fn wait_at_gate(
        &mut self,
        file: FileIndex,
        waiting: SuspendedCall,
    ) -> Result<(), Box<NotWaiting>> {
        self.gates.wait(file, waiting)
    }

    /// Calls that waited too long at a gate, each with its failure.
    pub(crate) fn expire_gates(&mut self, now: Duration) -> Vec<(SuspendedCall, Failure)> {
        self.gates.expire(now)
    }
}
