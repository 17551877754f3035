//! Truncates and punches, which are intents (I5). ADR 0004 has the table of what a crash after each
//! step leaves.
//!
//! ```text
//!   close the gate ─> begin (batch) ─> each daemon ─> finish (batch) ─> open the gate ─> answer
//!                                       | one is down: the call fails, the gate stays closed
//!                                       |────── again with a later tick
//!                                       | one refuses for good: replaced by one that undoes it
//!                                       `────── each daemon ─> finish ─> open the gate ─> refusal
//! ```
//!
//! A daemon that was removed from the cluster is not asked: it holds nothing of the file to
//! truncate.
//!
//! Invariants:
//! 1. A gate is closed before the intent is begun and opened after it is finished.
//! 2. No capability of the new generation is given out in between.
//! 3. A step that is done twice has the effect of one: the generation is the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use braid_meta::{Call as Change, Identity, Inode, Intent, IntentKind, Parts};
use braid_types::{ByteCount, Failure, FileIndex, FileOffset, IodId, ObjectId, SessionId, Status};
use braid_wire::{
    Capability, Rights,
    message::{
        iod::{ObjectLength, Punch, Truncate},
        types::ObjectInfo,
    },
};

use super::gate::GATE_WAIT_MS_MAX;
use crate::{
    core::{MdsCore, report},
    objects,
};

/// Objects in one `Truncate`: far below the limit of a message.
const TRUNCATE_OBJECTS_MAX: usize = 8192;
/// How long a daemon is waited for before the callers fail with its name, within their first
/// attempt. A truncate that reaches the daemon late is done once: daemons change the size of an
/// object once for each generation.
const IOD_TIMEOUT: Duration = Duration::from_millis(GATE_WAIT_MS_MAX);

/// Called when an intent is finished, or cannot be finished for now.
pub(crate) type IntentDone = Box<dyn FnOnce(&Arc<MdsCore>, Result<Arc<Inode>, Failure>) + Send>;

/// Intents that are not finished.
#[derive(Debug, Default)]
pub(super) struct Intents {
    /// To be done again with a later tick: a daemon could not be asked.
    stalled: BTreeMap<FileIndex, Intent>,
    running: BTreeSet<FileIndex>,
}

impl Intents {
    /// Whether daemons may be carrying out an intent on this file now.
    pub(crate) fn is_running(&self, file: FileIndex) -> bool {
        self.running.contains(&file)
    }

    /// Intents that are not finished.
    pub(crate) fn len(&self) -> usize {
        self.stalled.len() + self.running.len()
    }
}

impl MdsCore {
    /// Closes a file's gate; false when it is closed already.
    pub(crate) fn close_gate(&self, file: FileIndex) -> bool {
        self.state().sizes.gates.close(file)
    }

    /// Opens a file's gate and runs the calls again that waited there.
    pub(crate) fn open_gate(&self, file: FileIndex) {
        let waiting = self.state().sizes.gates.open(file);
        waiting.into_iter().for_each(|(call, request)| self.run(call, request));
    }

    /// Resumes the intents that the server began before its restart.
    pub(crate) fn recover_intents(self: &Arc<Self>) -> Result<(), Failure> {
        for intent in self.namespace.intents()? {
            self.close_gate(intent.file);
            self.state().sizes.intents.stalled.insert(intent.file, intent);
        }
        Ok(())
    }

    /// Retries the intents that a daemon held up.
    pub(crate) fn retry_intents(self: &Arc<Self>) {
        let stalled = std::mem::take(&mut self.state().sizes.intents.stalled);
        for intent in stalled.into_values() {
            self.run_intent(
                intent,
                Box::new(|_, outcome| {
                    if let Err(failure) = outcome {
                        tracing::debug!(%failure, "a truncate still waits");
                    }
                }),
            );
        }
    }

    /// Syncs an intent to disk, does it on every daemon of its file, finishes it, and opens the
    /// gate.
    ///
    /// The sync comes first, because what the daemons do is durable immediately. If the intent were
    /// lost with the power, objects would have an unknown size generation, and the file could not
    /// be opened (I5).
    pub(crate) fn run_intent(self: &Arc<Self>, intent: Intent, done: IntentDone) {
        self.state().sizes.intents.running.insert(intent.file);
        self.sync_log_then(move |core, forced| match forced {
            Ok(()) => core.ask_daemons(intent, done),
            Err(failure) => core.retry_later(intent, failure, done),
        });
    }

    fn ask_daemons(self: &Arc<Self>, intent: Intent, done: IntentDone) {
        let asked = self.namespace.getattr(intent.file).and_then(|inode| {
            let layout = inode.layout.clone();
            let layout = layout.ok_or_else(|| {
                Failure::new(Status::Corrupted, format!("file {} has no layout", intent.file))
            })?;
            Ok((inode, layout))
        });
        let (inode, layout) = match asked {
            Ok(found) => found,
            // The file was removed: its objects are deleted anyway.
            Err(failure) if failure.status == Status::StaleHandle => {
                return self.drop_intent(intent, failure, done);
            }
            Err(failure) => return self.retry_later(intent, failure, done),
        };
        let capability = self.own_capability(&inode, intent);
        let removed = self.state().cluster.removed();
        match intent.kind {
            IntentKind::Truncate { size } => {
                let make_absent = self.may_be_written(intent.file);
                let calls =
                    match truncates(&inode, &layout, (size, intent), &capability, make_absent) {
                        Ok(calls) => {
                            calls.into_iter().filter(|(iod, _)| !removed.contains(iod)).collect()
                        }
                        Err(failure) => return self.retry_later(intent, failure, done),
                    };
                self.query_iods_within(calls, IOD_TIMEOUT, move |core, replies| {
                    let infos =
                        replies.into_iter().map(|(_, reply)| reply).collect::<Result<Vec<_>, _>>();
                    core.finish_intent(
                        intent,
                        infos.map(|infos| existing_parts(infos.into_iter().flatten())),
                        done,
                    );
                });
            }
            IntentKind::Punch { offset, bytes } => {
                let (offset, bytes, size_generation) =
                    (FileOffset(offset), ByteCount(bytes), intent.generation);
                let call = Punch { capability, offset, bytes, size_generation };
                let asked =
                    objects::daemons(&layout).into_iter().filter(|iod| !removed.contains(iod));
                let calls = asked.map(|iod| (iod, call.clone())).collect();
                self.query_iods_within(calls, IOD_TIMEOUT, move |core, replies| {
                    let done_all = replies.into_iter().try_for_each(|(_, reply)| reply);
                    core.finish_intent(intent, done_all.map(|()| Parts::none()), done);
                });
            }
        }
    }

    /// Whether a session may hold a capability to write the file: it has the file open, or closed
    /// it and still has the capability. Then each daemon must have an object that refuses the older
    /// generation. Otherwise such an object would cost a sync now and a deletion later for nothing,
    /// so absent parts stay absent.
    fn may_be_written(&self, file: FileIndex) -> bool {
        !self.namespace.writers(file).is_empty()
            || self.state().sizes.collector.has_unfenced_close(file)
    }

    fn finish_intent(
        self: &Arc<Self>,
        intent: Intent,
        parts: Result<Parts, Failure>,
        done: IntentDone,
    ) {
        let who = Identity::root();
        let change = Change { who: &who, now: self.env.clock.wall(), replay: None };
        let finished =
            parts.and_then(|parts| self.namespace.finish_intent(&change, &intent, &parts));
        match finished {
            Ok(inode) => {
                let to_collect =
                    matches!(self.namespace.needs_size_collection(intent.file), Ok(true));
                {
                    let sizes = &mut self.state().sizes;
                    sizes.intents.running.remove(&intent.file);
                    sizes.collector.invalidate(intent.file);
                    if to_collect {
                        sizes.collector.enqueue(intent.file);
                    }
                }
                self.open_gate(intent.file);
                done(self, Ok(inode));
                self.collect();
            }
            Err(failure) if failure.status == Status::StaleHandle => {
                self.drop_intent(intent, failure, done)
            }
            Err(failure) => self.undo_or_stall(intent, failure, done),
        }
    }

    /// Undoes an intent that a daemon refuses for good, since the gate must not stay closed for it.
    /// For any other failure, the intent is retried.
    fn undo_or_stall(self: &Arc<Self>, intent: Intent, failure: Failure, done: IntentDone) {
        let inode = self.namespace.getattr(intent.file);
        let Some(kind) =
            inode.ok().and_then(|inode| undo_kind(&inode, intent.kind, failure.status))
        else {
            return self.retry_later(intent, failure, done);
        };
        let who = Identity::root();
        let change = Change { who: &who, now: self.env.clock.wall(), replay: None };
        match self.namespace.replace_intent(&change, &intent, kind) {
            Ok(next) => {
                tracing::warn!(
                    file = %intent.file, %failure,
                    "a daemon refuses a truncate or punch: it is undone"
                );
                // The caller gets the refusal, also when a daemon holds up the undoing, which is
                // retried.
                self.run_intent(next, Box::new(move |core, _| done(core, Err(failure))));
            }
            Err(gone) if gone.status == Status::StaleHandle => self.drop_intent(intent, gone, done),
            Err(_) => self.retry_later(intent, failure, done),
        }
    }

    /// The gate stays closed until a daemon is back. The caller gets the failure, which names it.
    fn retry_later(self: &Arc<Self>, intent: Intent, failure: Failure, done: IntentDone) {
        report(&format!("a truncate of file {} waits", intent.file), &failure);
        {
            let sizes = &mut self.state().sizes;
            sizes.intents.running.remove(&intent.file);
            sizes.intents.stalled.insert(intent.file, intent);
            sizes.gates.note_reason(intent.file, failure.clone());
        }
        done(self, Err(failure));
    }

    fn drop_intent(self: &Arc<Self>, intent: Intent, failure: Failure, done: IntentDone) {
        self.state().sizes.intents.running.remove(&intent.file);
        self.open_gate(intent.file);
        done(self, Err(failure));
    }

    /// A capability for the server itself: session 0 belongs to no client.
    fn own_capability(&self, inode: &Inode, intent: Intent) -> Vec<u8> {
        let Some(layout) = &inode.layout else { return Vec::new() };
        Capability {
            file: inode.file,
            size_generation: intent.generation,
            rights: Rights::READ_WRITE,
            session: SessionId(0),
            epoch: self.epoch,
            owner: (inode.owner.id, inode.group.id),
            layout: (**layout).clone(),
            existing_parts: inode.parts.as_bytes().to_vec(),
        }
        .sign(&self.key)
    }
}

/// A size generation that changes nothing else.
const NEXT_GENERATION: IntentKind = IntentKind::Punch { offset: 0, bytes: 0 };

/// The intent that undoes one which a daemon refused with this status; `None` when the same intent
/// is to be retried.
///
/// A truncate that grows the file is undone by the size before. That size is unknown where writers
/// may have written past the recorded size: then the objects stay as they are, which loses none of
/// the bytes before the truncate's size. If such a truncate was about to shrink the file, some
/// daemons have done it, and the bytes behind that size may read as zeros: the program wanted to be
/// rid of them. Of a hole, each daemon has made its share or not, and the program's call allows
/// both.
///
/// A truncate to the recorded size or less shrinks the file. It can be refused only for lack of
/// space for the object records, which the undoing needs too, and space becomes free again.
fn undo_kind(inode: &Inode, kind: IntentKind, refused: Status) -> Option<IntentKind> {
    use Status::{Corrupted, Invalid, NoSpace, ObjectLost, TooLarge, Unsupported};
    match kind {
        // An object would have been longer than its disk's longest file: this truncate grows the
        // file, whatever size is recorded.
        IntentKind::Truncate { .. } if inode.size_in_objects && refused == TooLarge => {
            Some(NEXT_GENERATION)
        }
        IntentKind::Truncate { size } if size > inode.size => {
            let undone = if inode.size_in_objects {
                NEXT_GENERATION
            } else {
                IntentKind::Truncate { size: inode.size }
            };
            matches!(refused, TooLarge | Invalid | Unsupported | NoSpace).then_some(undone)
        }
        IntentKind::Truncate { .. } | IntentKind::Punch { bytes: 0, .. } => None,
        IntentKind::Punch { .. } => {
            let for_good = matches!(
                refused,
                TooLarge | Invalid | Unsupported | NoSpace | ObjectLost | Corrupted
            );
            for_good.then_some(NEXT_GENERATION)
        }
    }
}

/// The calls of a truncate: every object gets the length that follows from the file's new size.
fn truncates(
    inode: &Inode,
    layout: &braid_layout::Layout,
    (size, intent): (u64, Intent),
    capability: &[u8],
    make_absent: bool,
) -> Result<Vec<(IodId, Truncate)>, Failure> {
    let corrupted =
        |error| Failure::new(Status::Corrupted, format!("file {}: {error}", inode.file));
    let map = layout.map().map_err(corrupted)?;
    let mut wanted = BTreeMap::<IodId, Vec<ObjectLength>>::new();
    for (part, placement) in objects::parts(layout) {
        let object = ObjectId { file: inode.file, part, generation: placement.generation };
        let bytes = ByteCount(map.object_bytes(size, part).map_err(corrupted)?);
        for iod in &placement.iods {
            wanted.entry(*iod).or_default().push(ObjectLength { object, bytes });
        }
    }
    let size_generation = intent.generation;
    let call = |objects: &[ObjectLength]| Truncate {
        objects: objects.to_vec(),
        size_generation,
        capability: capability.to_vec(),
        make_absent,
    };
    let calls = wanted.iter().flat_map(|(iod, objects)| {
        objects.chunks(TRUNCATE_OBJECTS_MAX).map(|some| (*iod, call(some)))
    });
    Ok(calls.collect())
}

fn existing_parts(infos: impl Iterator<Item = ObjectInfo>) -> Parts {
    let mut parts = Parts::none();
    infos.filter(|info| info.exists).for_each(|info| parts.insert(info.part));
    parts
}
