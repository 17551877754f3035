//! True sizes: while a file's size mark stands, its size and time are asked of the I/O daemons
//! (I5).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use braid_meta::{ObjectSummary, Inode, Parts};
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
    call::{Call, Flow},
    convert,
    core::{MdsCore, State},
    fan_out::Replies,
    lease::claimed,
    objects::{self, Answer, Found},
};

/// What each file's daemons said, in the order of the question.
pub(crate) type Sizes = Vec<(Arc<Inode>, Result<Found, Failure>)>;

impl MdsCore {
    /// Answers a call with a file's attributes, with the true size.
    pub(crate) fn attributes_of<R: braid_wire::Wire>(
        &self,
        call: Call,
        inode: Arc<Inode>,
        again: impl FnOnce() -> MdsRequest,
        reply: impl FnOnce(Attributes) -> R + Send + 'static,
    ) -> Flow {
        self.with_true_size(call, inode, again, |_, call, attributes| {
            Flow::Answer(call, encode_success(&reply(attributes)))
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
        then: impl FnOnce(&Self, Call, Attributes) -> Flow + Send + 'static,
    ) -> Flow {
        let call = claimed!(self.look(call, inode.file));
        if self.is_gated(inode.file) {
            return Flow::Gate(call, inode.file);
        }
        let recorded = !inode.size_in_objects;
        if !self.asks_for_size(&inode) {
            let shared = self.is_shared(&call, &inode, true);
            return then(self, call, Attributes { uncacheable: shared, ..convert::attributes(&inode) });
        }
        if let Some(found) = self.told(&call, &inode) {
            let (shared, told) =
                (self.is_shared(&call, &inode, true), self.state().sizes.merged(&inode, &found));
            self.counters.told.fetch_add(1, Ordering::Relaxed);
            return then(self, call, Attributes { uncacheable: shared, ..told });
        }
        if let Some(attributes) = self.heard(&inode) {
            let shared = self.is_shared(&call, &inode, true);
            return then(self, call, Attributes { uncacheable: shared, ..attributes });
        }
        let Some(me) = self.arc() else { return Flow::Fail(call, Status::NotServing.into()) };
        let request = again();
        let file = inode.file;
        me.ask_sizes(vec![inode], HowAsked::FOR_A_CALL, move |core, mut sizes| {
            let flow = match sizes.pop() {
                // A truncate began in the meantime: the daemons may have done half of it.
                _ if core.is_gated(file) => Flow::Gate(call, file),
                Some((inode, found)) if recorded && !core.is_superseded(&inode) => {
                    match core.resolve_doubt(&inode, found) {
                        Ok(attributes) => {
                            then(core, call, Attributes { uncacheable: true, ..attributes })
                        }
                        Err(failure) => Flow::Fail(call, failure),
                    }
                }
                Some((inode, Ok(found))) if !core.is_superseded(&inode) => {
                    let alone = matches!(core.names.needs_size_collection(file), Ok(true));
                    let merged = {
                        let sizes = &mut core.state().sizes;
                        if alone && !found.lost {
                            // A mark that a restart left behind ends with the next query.
                            sizes.collector.add(file);
                        }
                        sizes.merged(&inode, &found)
                    };
                    let shared = core.is_shared(&call, &inode, false);
                    then(core, call, Attributes { uncacheable: shared, ..merged })
                }
                Some((_, Ok(_))) => return core.run(call, request),
                Some((_, Err(failure))) => Flow::Fail(call, failure),
                None => Flow::Fail(call, Status::Internal.into()),
            };
            core.settle(flow, request);
        });
        Flow::Later
    }

    /// A file's attributes by its cached size, while that is valid.
    pub(crate) fn heard(&self, inode: &Inode) -> Option<Attributes> {
        let State { sizes, cluster, .. } = &*self.state();
        let found = sizes.cached(inode.file)?;
        let holds =
            found.fetch.generation == inode.size_generation && cluster.all_keep(&found.verifiers);
        holds.then(|| sizes.merged(inode, found))
    }

    /// Whether a file's recorded size may be wrong: its mark stands, or the record is uncertain
    /// after a restart.
    pub(crate) fn asks_for_size(&self, inode: &Inode) -> bool {
        inode.size_in_objects || self.is_in_doubt() && inode.layout.is_some()
    }

    /// Asks the daemons of several files together, each daemon once.
    pub(crate) fn ask_sizes(
        self: &Arc<Self>,
        inodes: Vec<Arc<Inode>>,
        how: HowAsked,
        done: impl FnOnce(&Arc<Self>, Sizes) + Send + 'static,
    ) {
        self.ask_parts(inodes.into_iter().map(|inode| (inode, None)).collect(), how, done);
    }

    /// As [`MdsCore::ask_sizes`], with these parts of each file only.
    pub(crate) fn ask_parts(
        self: &Arc<Self>,
        questions: Vec<(Arc<Inode>, Option<Parts>)>,
        how: HowAsked,
        done: impl FnOnce(&Arc<Self>, Sizes) + Send + 'static,
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
        self.ask_within(wanted.into_iter().collect(), how.patience, move |core, replies| {
            let said = Said::gather(&asked, replies, removed);
            let sizes = questions.into_iter().map(|(inode, _)| said.of(core, inode)).collect();
            done(core, sizes);
        });
    }

    /// Whether a truncate or punch of the file is in progress.
    pub(crate) fn is_gated(&self, file: FileIndex) -> bool {
        self.closed_gates.load(Ordering::Acquire) > 0 && self.state().sizes.gates.is_closed(file)
    }

    /// Whether a file was truncated since its inode was read.
    fn is_superseded(&self, inode: &Inode) -> bool {
        let now = self.names.getattr(inode.file);
        now.is_ok_and(|now| now.size_generation != inode.size_generation)
    }
}

/// How daemons are asked for sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HowAsked {
    /// They flush the objects before they answer.
    flush: bool,
    /// How long each daemon is waited for. A daemon that goes down is not waited for any longer.
    patience: Duration,
}

impl HowAsked {
    /// A client waits. It is answered within its attempt, as at a gate: otherwise it would report
    /// the metadata server as the one that does not answer.
    pub(crate) const FOR_A_CALL: Self =
        Self { flush: false, patience: Duration::from_millis(GATE_WAIT_MS_MAX) };
    /// Nobody waits.
    pub(crate) const COLLECTING: Self = Self { flush: false, patience: Duration::MAX };
    /// For the record: a disk may take long.
    pub(crate) const FLUSHED: Self = Self { flush: true, patience: Duration::MAX };
}

/// The daemons' answers about objects, by file.
struct Said {
    answers: BTreeMap<FileIndex, Vec<Answer>>,
    failed: BTreeMap<FileIndex, Failure>,
    /// Daemons that were not asked: they are out of the cluster.
    removed: Arc<BTreeSet<IodId>>,
}

impl Said {
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
                        let answer = Answer { iod, verifier: reply.verifier, infos };
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

    fn of(&self, core: &MdsCore, inode: Arc<Inode>) -> (Arc<Inode>, Result<Found, Failure>) {
        let answers = self.answers.get(&inode.file).map(Vec::as_slice).unwrap_or_default();
        let found = match (self.failed.get(&inode.file), &inode.layout) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(layout)) => {
                let change = core.number_of_look(inode.file, answers);
                objects::combine(&inode, layout, answers, &self.removed, change)
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
    pub(crate) fn merged(&self, inode: &Inode, found: &Found) -> Attributes {
        let mtime = self.written_at(inode, found.fetch.mtime);
        // Cached in the meantime with the same size: that is recorded later with its own change
        // number, and a caller must not have been given a higher one.
        let same = |heard: &&Found| {
            ObjectSummary { change: found.fetch.change, ..heard.fetch.clone() } == found.fetch
        };
        let heard = self.collector.heard(inode.file).filter(same);
        let change = heard.map_or(found.fetch.change, |heard| heard.fetch.change);
        let mut attributes =
            convert::attributes(&inode.with_objects(&ObjectSummary { mtime, change, ..found.fetch.clone() }));
        attributes.bytes_used = ByteCount(found.bytes_used);
        attributes
    }

    /// When the objects were written, unless the time of the file was set after that.
    pub(crate) fn written_at(&self, inode: &Inode, found: Option<Timestamp>) -> Option<Timestamp> {
        let set = self.collector.mtime_set(inode);
        found.filter(|mtime| *mtime > inode.mtime && set.is_none_or(|set| *mtime > set))
    }
}
