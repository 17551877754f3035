//! Deleting objects: the queue in the store is worked off in batches, each daemon asked once a batch.
//!
//! Invariants: (1) a file leaves the queue when every daemon of its layout has confirmed; until then a crash or a
//! daemon that is down only delays it; (2) one pass at a time; files whose daemons are down are passed over and
//! looked at again in the next pass; (3) no object is deleted before the log that unlinks its file is on the disk:
//! a loss of power must not bring back a name whose bytes are gone (I6, I11).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
};

use braid_meta::Deletion;
use braid_types::{Failure, FileIndex, IodId, ObjectId};
use braid_wire::message::iod::Delete;

use crate::{
    core::{MdsCore, report},
    fan_out::Replies,
    objects,
};

/// Files in one batch.
const DELETE_FILES_MAX: usize = 256;
/// Objects in one message: 14 B each, far below the limit of a message.
const DELETE_OBJECTS_MAX: usize = 16_384;

/// The state of the deleter.
#[derive(Debug, Default)]
pub(crate) struct Deleter {
    running: bool,
    /// Something was queued since the pass began.
    more: bool,
}

impl Deleter {
    /// Something may have been queued.
    pub(crate) fn queued(&mut self) {
        self.more = true;
    }
}

impl MdsCore {
    /// After an operation that may have queued objects.
    pub(crate) fn kick_deletions<T>(&self, done: &Result<T, Failure>) {
        if done.is_ok() {
            self.state().deleter.queued();
        }
    }

    /// Works the queue off, from its start, unless that is under way.
    pub(crate) fn delete_queued(self: &Arc<Self>, all: bool) {
        {
            let deleter = &mut self.state().deleter;
            if deleter.running || !(deleter.more || all) {
                return;
            }
            (deleter.running, deleter.more) = (true, false);
        }
        self.delete_after(None);
    }

    fn delete_after(self: &Arc<Self>, after: Option<FileIndex>) {
        let batch = self.names.deletions(after, DELETE_FILES_MAX).unwrap_or_else(|failure| {
            report("reading the queue of deletions", &failure);
            Vec::new()
        });
        let Some(last) = batch.last().map(|deletion| deletion.file) else {
            self.state().deleter.running = false;
            return;
        };
        self.force(move |core, forced| match forced {
            Ok(()) => core.delete_batch(batch, last),
            Err(failure) => {
                report("forcing the log before objects are deleted", &failure);
                core.state().deleter.running = false;
            }
        });
    }

    fn delete_batch(self: &Arc<Self>, batch: Vec<Deletion>, last: FileIndex) {
        self.forget_layouts(batch.iter().map(|deletion| deletion.file));
        let wanted = by_daemon(&batch);
        let calls = wanted.iter().flat_map(|(iod, objects)| {
            objects.chunks(DELETE_OBJECTS_MAX).map(|some| (*iod, Delete { objects: some.to_vec() }))
        });
        self.ask_all(calls.collect(), move |core, replies| {
            core.deleted(&batch, replies);
            core.delete_after(Some(last));
        });
    }

    fn deleted(&self, batch: &[Deletion], replies: Replies<()>) {
        let failed: BTreeSet<IodId> = replies.iter().filter(|(_, reply)| reply.is_err()).map(|(iod, _)| *iod).collect();
        let done = |deletion: &&Deletion| objects::daemons(&deletion.layout).iter().all(|iod| !failed.contains(iod));
        let files: Vec<FileIndex> = batch.iter().filter(done).map(|deletion| deletion.file).collect();
        match self.names.deletions_done(&files) {
            Ok(()) => drop(self.counters.deleted.fetch_add(files.len() as u64, Ordering::Relaxed)),
            Err(failure) => report("taking deletions out of the queue", &failure),
        }
    }
}

/// Every object that may exist: while the mark stood, parts may have come that nobody recorded.
fn by_daemon(batch: &[Deletion]) -> BTreeMap<IodId, Vec<ObjectId>> {
    let mut wanted = BTreeMap::<IodId, Vec<ObjectId>>::new();
    for deletion in batch {
        for (iod, objects) in objects::by_daemon(deletion.file, &deletion.layout) {
            let exists = |object: &ObjectId| !deletion.parts_certain || deletion.parts.contains(object.part);
            wanted.entry(iod).or_default().extend(objects.into_iter().filter(exists));
        }
    }
    wanted.retain(|_, objects| !objects.is_empty());
    wanted
}
