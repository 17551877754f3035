//! True sizes: while a file's size mark stands, its size and time are asked of the I/O daemons
//! (I5).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use braid_meta::{Inode, ObjectSummary, Parts};
use braid_types::{ByteCount, Failure, FileIndex, IodId, Status, Timestamp};
use braid_wire::{
    encode_success,
    message::{
        iod::{CollectReply, CollectSizes},
        mds::MdsRequest,
        types::Attributes,
    },
};

use super::{SizeTable, gate::GATE_WAIT_MS_MAX};
use crate::{
    call::{Call, CallOutcome},
    convert,
    core::{MdsCore, MdsState},
    iod_queries::Replies,
    lease::claimed,
    objects::{self, CollectedSize, IodReply},
};

/// What each file's daemons said, in the order of the question.
pub(crate) type CollectedSizes = Vec<(Arc<Inode>, Result<CollectedSize, Failure>)>;

impl MdsCore {
    /// Answers a call with a file's attributes, with the true size.
    pub(crate) fn reply_with_attributes<R: braid_wire::Wire>(
        &self,
        call: Call,
        inode: Arc<Inode>,
        again: impl FnOnce() -> MdsRequest,
        reply: impl FnOnce(Attributes) -> R + Send + 'static,
    ) -> CallOutcome {
        self.with_true_size(call, inode, again, |_, call, attributes| {
            CallOutcome::Answer(call, encode_success(&reply(attributes)))
        })
    }

    /// Calls `then` with a file's attributes, with the true size: immediately when the size is
    /// recorded, else when the I/O daemons have answered. `again` makes the request, for a call
    /// that must run again.
    pub(crate) fn with_true_size(
        &self,
        call: Call,
        inode: Arc<Inode>,
        again: impl FnOnce() -> MdsRequest,
        then: impl FnOnce(&Self, Call, Attributes) -> CallOutcome + Send + 'static,
    ) -> CallOutcome {
        let call = claimed!(self.claim_size_query(call, inode.file));
        if self.is_size_changing(inode.file) {
            return CallOutcome::Gate(call, inode.file);
        }
        let recorded = !inode.size_in_objects;
        if !self.must_collect_size(&inode) {
            let uncacheable = self.is_uncacheable(&call, &inode, true);
            return then(self, call, Attributes { uncacheable, ..convert::attributes(&inode) });
        }
        if let Some(found) = self.reported_size(&call, &inode) {
            let (uncacheable, attributes) = (
                self.is_uncacheable(&call, &inode, true),
                self.state().sizes.attributes_from_objects(&inode, &found),
            );
            self.counters.answered_by_report.fetch_add(1, Ordering::Relaxed);
            return then(self, call, Attributes { uncacheable, ..attributes });
        }
        if let Some(attributes) = self.cached_attributes(&inode) {
            let uncacheable = self.is_uncacheable(&call, &inode, true);
            return then(self, call, Attributes { uncacheable, ..attributes });
        }
        let Some(me) = self.arc() else {
            return CallOutcome::Fail(call, Status::NotServing.into());
        };
        let request = again();
        let file = inode.file;
        me.collect_sizes_of(
            vec![inode],
            CollectMode::WHILE_CALLER_WAITS,
            move |core, mut sizes| {
                let flow = match sizes.pop() {
                    // A truncate began in the meantime: the daemons may have done half of it.
                    _ if core.is_size_changing(file) => CallOutcome::Gate(call, file),
                    Some((inode, found)) if recorded && !core.is_superseded(&inode) => {
                        match core.check_uncertain_record(&inode, found) {
                            Ok(attributes) => {
                                then(core, call, Attributes { uncacheable: true, ..attributes })
                            }
                            Err(failure) => CallOutcome::Fail(call, failure),
                        }
                    }
                    Some((inode, Ok(found))) if !core.is_superseded(&inode) => {
                        let alone = matches!(core.namespace.needs_size_collection(file), Ok(true));
                        let merged = {
                            let sizes = &mut core.state().sizes;
                            if alone && !found.is_part_lost {
                                // A mark that a restart left behind ends with the next query.
                                sizes.collector.enqueue(file);
                            }
                            sizes.attributes_from_objects(&inode, &found)
                        };
                        let uncacheable = core.is_uncacheable(&call, &inode, false);
                        then(core, call, Attributes { uncacheable, ..merged })
                    }
                    Some((_, Ok(_))) => return core.run(call, request),
                    Some((_, Err(failure))) => CallOutcome::Fail(call, failure),
                    None => CallOutcome::Fail(call, Status::Internal.into()),
                };
                core.settle(flow, request);
            },
        );
        CallOutcome::Pending
    }

    /// A file's attributes by its cached size, while that is valid.
    pub(crate) fn cached_attributes(&self, inode: &Inode) -> Option<Attributes> {
        let MdsState { sizes, cluster, .. } = &*self.state();
        let found = sizes.cached(inode.file)?;
        let holds = found.fetch.generation == inode.size_generation
            && cluster.verifiers_unchanged(&found.verifiers);
        holds.then(|| sizes.attributes_from_objects(inode, found))
    }

    /// Whether a file's recorded size may be wrong: its mark stands, or the record is uncertain
    /// after a restart.
    pub(crate) fn must_collect_size(&self, inode: &Inode) -> bool {
        inode.size_in_objects || self.sizes_uncertain() && inode.layout.is_some()
    }

    /// Asks the daemons of several files together, each daemon once.
    pub(crate) fn collect_sizes_of(
        self: &Arc<Self>,
        inodes: Vec<Arc<Inode>>,
        how: CollectMode,
        done: impl FnOnce(&Arc<Self>, CollectedSizes) + Send + 'static,
    ) {
        self.collect_parts_of(inodes.into_iter().map(|inode| (inode, None)).collect(), how, done);
    }

    /// As [`MdsCore::collect_sizes_of`], with these parts of each file only.
    pub(crate) fn collect_parts_of(
        self: &Arc<Self>,
        questions: Vec<(Arc<Inode>, Option<Parts>)>,
        how: CollectMode,
        done: impl FnOnce(&Arc<Self>, CollectedSizes) + Send + 'static,
    ) {
        let removed = self.state().cluster.removed();
        let mut wanted = BTreeMap::<IodId, CollectSizes>::new();
        let mut asked = BTreeMap::<IodId, Vec<(FileIndex, usize)>>::new();
        for (inode, parts) in &questions {
            let Some(layout) = &inode.layout else { continue };
            for (iod, mut objects) in objects::by_daemon(inode.file, layout) {
                objects.retain(|object| {
                    parts.as_ref().is_none_or(|parts| parts.contains(object.part))
                });
                if objects.is_empty() || removed.contains(&iod) {
                    continue;
                }
                asked.entry(iod).or_default().push((inode.file, objects.len()));
                let call = || CollectSizes { objects: Vec::new(), flush: how.flush };
                let call = wanted.entry(iod).or_insert_with(call);
                call.objects.extend(objects);
            }
        }
        // A late answer changes nothing, so no query is waited for longer than its caller waits.
        self.query_iods_within(wanted.into_iter().collect(), how.timeout, move |core, replies| {
            let said = ObjectReplies::gather(&asked, replies, removed);
            let sizes = questions.into_iter().map(|(inode, _)| said.of(core, inode)).collect();
            done(core, sizes);
        });
    }

    /// Whether a truncate or punch of the file is in progress.
    pub(crate) fn is_size_changing(&self, file: FileIndex) -> bool {
        self.closed_gates.load(Ordering::Acquire) > 0 && self.state().sizes.gates.is_closed(file)
    }

    /// Whether a file was truncated since its inode was read.
    fn is_superseded(&self, inode: &Inode) -> bool {
        let now = self.namespace.getattr(inode.file);
        now.is_ok_and(|now| now.size_generation != inode.size_generation)
    }
}

/// How daemons are asked for sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CollectMode {
    /// They flush the objects before they answer.
    flush: bool,
    /// How long each daemon is waited for. A daemon that goes down is not waited for any longer.
    timeout: Duration,
}

impl CollectMode {
    /// A client waits. It is answered within its attempt, as at a gate: otherwise it would report
    /// the metadata server as the one that does not answer.
    pub(crate) const WHILE_CALLER_WAITS: Self =
        Self { flush: false, timeout: Duration::from_millis(GATE_WAIT_MS_MAX) };
    /// Nobody waits.
    pub(crate) const IN_BACKGROUND: Self = Self { flush: false, timeout: Duration::MAX };
    /// For the record: a disk may take long.
    pub(crate) const WITH_FLUSH: Self = Self { flush: true, timeout: Duration::MAX };
}

/// The daemons' answers about objects, by file.
struct ObjectReplies {
    answers: BTreeMap<FileIndex, Vec<IodReply>>,
    failed: BTreeMap<FileIndex, Failure>,
    /// Daemons that were not asked: they are out of the cluster.
    removed: Arc<BTreeSet<IodId>>,
}

impl ObjectReplies {
    /// `asked`: the files of each daemon's call in their order, with the number of objects of each.
    fn gather(
        asked: &BTreeMap<IodId, Vec<(FileIndex, usize)>>,
        replies: Replies<CollectReply>,
        removed: Arc<BTreeSet<IodId>>,
    ) -> Self {
        let mut said = Self { answers: BTreeMap::new(), failed: BTreeMap::new(), removed };
        for (iod, reply) in replies {
            let files = asked.get(&iod).map(Vec::as_slice).unwrap_or_default();
            match reply {
                Ok(reply)
                    if reply.objects.len()
                        == files.iter().map(|(_, count)| count).sum::<usize>() =>
                {
                    let mut infos = reply.objects.into_iter();
                    for (file, count) in files {
                        let infos = infos.by_ref().take(*count).collect();
                        let answer = IodReply { iod, verifier: reply.verifier, infos };
                        said.answers.entry(*file).or_default().push(answer);
                    }
                }
                Ok(_) => said.fail(
                    files,
                    &Failure::new(
                        Status::Internal,
                        format!("I/O daemon {iod} returned a wrong number of objects"),
                    ),
                ),
                Err(failure) => said.fail(files, &failure),
            }
        }
        said
    }

    fn fail(&mut self, files: &[(FileIndex, usize)], failure: &Failure) {
        files.iter().for_each(|(file, _)| {
            self.failed.entry(*file).or_insert_with(|| failure.clone());
        });
    }

    fn of(
        &self,
        core: &MdsCore,
        inode: Arc<Inode>,
    ) -> (Arc<Inode>, Result<CollectedSize, Failure>) {
        let answers = self.answers.get(&inode.file).map(Vec::as_slice).unwrap_or_default();
        let found = match (self.failed.get(&inode.file), &inode.layout) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(layout)) => {
                let change = core.change_number_of(inode.file, answers);
                objects::file_state(&inode, layout, answers, &self.removed, change)
            }
            (None, None) => {
                Err(Failure::new(Status::Corrupted, format!("file {} has no layout", inode.file)))
            }
        };
        (inode, found)
    }
}

impl SizeTable {
    /// Attributes by what the daemons said of the objects.
    pub(crate) fn attributes_from_objects(
        &self,
        inode: &Inode,
        found: &CollectedSize,
    ) -> Attributes {
        let mtime = self.effective_mtime(inode, found.fetch.mtime);
        // Cached in the meantime with the same size: that is recorded later with its own change
        // number, and a caller must not have been given a higher one.
        let same = |cached: &&CollectedSize| {
            ObjectSummary { change: found.fetch.change, ..cached.fetch.clone() } == found.fetch
        };
        let cached = self.collector.cached(inode.file).filter(same);
        let change = cached.map_or(found.fetch.change, |cached| cached.fetch.change);
        let mut attributes = convert::attributes(&inode.with_objects(&ObjectSummary {
            mtime,
            change,
            ..found.fetch.clone()
        }));
        attributes.bytes_used = ByteCount(found.allocated_bytes);
        attributes
    }

    /// When the objects were written, unless the time of the file was set after that.
    pub(crate) fn effective_mtime(
        &self,
        inode: &Inode,
        found: Option<Timestamp>,
    ) -> Option<Timestamp> {
        let set = self.collector.mtime_set(inode);
        found.filter(|mtime| *mtime > inode.mtime && set.is_none_or(|set| *mtime > set))
    }
}
