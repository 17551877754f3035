//! Sole writers: what a client reports of a file that it made and that nobody else has written, or
//! that it alone has open for writing and has not written (ADR 0020). Its daemons need not be
//! asked.
//!
//! ```text
//!   create, open ──> sole writer ──┬─ its own stat, set attributes: answered by its report
//!                                  |─ its close: the report is cached (collection.rs)
//!                                  `─ another open for writing, a truncate, a new layout,
//!                                     a restart: the daemons are asked as before
//! ```
//!
//! Invariants:
//! 1. A sole writer is on record only while its handle is the only one that was ever opened for
//!    writing. A later open for writing removes it before a capability leaves the server; an
//!    earlier open is looked for after the sole writer was recorded.
//! 2. Until the sole writer's close, a report counts only for the call that carries it.
//! 3. Nothing is recorded on a client's word: a size that was reported with a close is asked of all
//!    daemons before its mark ends.
//!
//! None of these can be asserted here: they are about calls that other threads make.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use braid_meta::{Inode, ObjectSummary};
use braid_types::{
    ByteCount, Failure, FileIndex, LayoutVersion, PartIndex, SessionId, SizeGeneration, Status,
    Timestamp, limits::REPORTED_OBJECTS_MAX,
};
use braid_wire::message::{mds::SizeReport, types::ObjectInfo};

use super::{SizeTable, collection::is_recorded};
use crate::{
    call::Call,
    cluster::Cluster,
    convert,
    core::{MdsCore, MdsState, report},
    objects::{self, CollectedSize, IodReply},
};

/// The only handle by which a file was opened for writing, ever or since its size was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SoleWriter {
    session: SessionId,
    open_id: u64,
    generation: SizeGeneration,
    layout: LayoutVersion,
    since: SoleWriterSince,
}

/// Since when a handle is the only one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SoleWriterSince {
    /// It made the file: the file holds what it wrote and nothing else.
    Made,
    /// Since the size was recorded, which is valid as long as the handle has written nothing.
    Recorded,
}

/// A point in time, before a file is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CreateStart(u64);

/// Opens for writing that are remembered (I9), so that one is noticed that came and went while its
/// file was being made.
const LATEST_OPENS_MAX: usize = 1024;

/// The sole writers of open files: at most as many as there are open files.
#[derive(Debug, Default)]
pub(super) struct SoleWriters {
    files: HashMap<FileIndex, SoleWriter>,
    /// The files that were last opened for writing, the newest last, and the number of all such
    /// opens.
    latest_opens: VecDeque<FileIndex>,
    open_count: u64,
}

impl SoleWriters {
    pub(crate) fn create_start(&self) -> CreateStart {
        CreateStart(self.open_count)
    }

    /// Records a sole writer, unless another handle may have been opened for writing since.
    pub(crate) fn insert(&mut self, file: FileIndex, writer: SoleWriter, since: CreateStart) {
        let news = (self.open_count - since.0) as usize;
        let opens =
            self.latest_opens.iter().rev().take(news).filter(|opened| **opened == file).count();
        if news <= self.latest_opens.len() && opens == 1 {
            self.files.insert(file, writer);
        }
    }

    pub(crate) fn get(&self, file: FileIndex) -> Option<&SoleWriter> {
        self.files.get(&file)
    }

    /// The file is opened for writing, or what was reported of it is void.
    pub(crate) fn note_open(&mut self, file: FileIndex) {
        self.remove(file);
        self.open_count += 1;
        if self.latest_opens.len() == LATEST_OPENS_MAX {
            self.latest_opens.pop_front();
        }
        self.latest_opens.push_back(file);
    }

    pub(crate) fn remove(&mut self, file: FileIndex) {
        self.files.remove(&file);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn end(&mut self, session: SessionId) {
        self.files.retain(|_, writer| writer.session != session);
    }
}

/// Reports that one call carries (I9): a client closes 64 files together.
pub(crate) const REPORTED_FILES_MAX: usize = 1024;

/// Refuses reports that are larger than any client sends, before they are searched under the
/// server's lock. A client reports no more objects of a file, and no daemon without one.
pub(crate) fn check_size_reports(reports: &[SizeReport]) -> Result<(), Failure> {
    let objects = |reports: &SizeReport| {
        reports.daemons.iter().map(|daemon| daemon.objects.len()).sum::<usize>()
    };
    let too_much = |reports: &SizeReport| {
        reports.daemons.len() > REPORTED_OBJECTS_MAX || objects(reports) > REPORTED_OBJECTS_MAX
    };
    if reports.len() <= REPORTED_FILES_MAX && !reports.iter().any(too_much) {
        return Ok(());
    }
    let why = format!(
        "a call reports at most {REPORTED_FILES_MAX} files, {REPORTED_OBJECTS_MAX} objects of each"
    );
    Err(Failure::new(Status::LimitExceeded, why))
}

impl MdsCore {
    /// A point in time, before a file is made.
    pub(crate) fn create_start(&self) -> CreateStart {
        self.state().sizes.collector.create_start()
    }

    /// A point in time, if the size of the file was on record after it.
    pub(crate) fn create_start_if_recorded(&self, file: FileIndex) -> Option<CreateStart> {
        let mark = self.create_start();
        let recorded = |inode: Arc<Inode>| !self.must_collect_size(&inode);
        self.namespace.getattr(file).is_ok_and(recorded).then_some(mark)
    }

    /// Records the sole writer of a file: it made the file and opened it, or opened it while the
    /// size was on record. Nothing is recorded if the file was otherwise opened for writing since
    /// `mark`.
    pub(crate) fn note_sole_writer(
        &self,
        inode: &Inode,
        (session, open_id): (SessionId, u64),
        since: SoleWriterSince,
        mark: CreateStart,
    ) {
        let Some(layout) = &inode.layout else { return };
        let writer = SoleWriter {
            session,
            open_id,
            generation: inode.size_generation,
            layout: layout.version,
            since,
        };
        self.state().sizes.collector.note_sole_writer(inode.file, writer, mark);
        // Invariant 1: an open in progress is in the store already, and is found here, or it
        // removes the sole writer afterwards.
        let writers: u64 =
            self.namespace.opens_of(inode.file).iter().map(|open| u64::from(open.writers)).sum();
        if writers != 1 {
            self.state().sizes.collector.forget_sole_writer(inode.file);
        }
    }

    /// The file's size as its sole writer reports it with this call.
    pub(crate) fn reported_size(&self, call: &Call, inode: &Inode) -> Option<CollectedSize> {
        let reports = &call.envelope.size_reports;
        if reports.is_empty() {
            return None;
        }
        let MdsState { sizes, cluster, .. } = &*self.state();
        reports.iter().find_map(|reports| {
            sizes.accept_report(
                cluster,
                reports,
                call.caller_session(),
                inode,
                self.namespace.next_change(),
            )
        })
    }

    /// The last writer of a file has closed it: its report is cached, or the daemons are asked.
    pub(crate) fn cache_report_or_collect(&self, call: &Call, open_id: u64, file: FileIndex) {
        let reports = call.envelope.size_reports.iter().find(|reports| reports.open_id == open_id);
        let inode = reports.and_then(|_| self.namespace.getattr(file).ok());
        let now = self.now();
        // Locked from the check of the sole writer on: no open for writing comes before the report
        // is cached.
        let MdsState { sizes, cluster, .. } = &mut *self.state();
        let news = |(reports, inode): (&SizeReport, Arc<Inode>)| {
            let change = self.namespace.next_change();
            let found =
                sizes.accept_report(cluster, reports, call.caller_session(), &inode, change)?;
            // Apparently nothing was written: the daemons are asked, and their answer can be
            // recorded immediately.
            (!is_recorded(&inode, &found)).then_some(found)
        };
        let believed = reports.zip(inode).and_then(news);
        sizes.collector.forget_sole_writer(file);
        match believed {
            Some(found) if !sizes.gates.is_closed(file) && sizes.collector.cache_has_room() => {
                if let Err(failure) = self.namespace.size_collected(file, found.fetch.size) {
                    report("noting a size for quotas", &failure);
                }
                if !sizes.collector.has_unfenced_close(file) {
                    sizes.collector.cache_reported(file, found, now);
                }
            }
            _ => sizes.collector.enqueue(file),
        }
    }
}

impl SizeTable {
    /// The size that is reported of the file, if its sole writer reports it.
    fn accept_report(
        &self,
        cluster: &Cluster,
        reports: &SizeReport,
        session: SessionId,
        inode: &Inode,
        change: u64,
    ) -> Option<CollectedSize> {
        let layout = inode.layout.as_ref()?;
        let writer = *self.collector.sole_writer(inode.file)?;
        let (open_id, generation, version) =
            (reports.open_id, inode.size_generation, layout.version);
        if writer
            != (SoleWriter { session, open_id, generation, layout: version, since: writer.since })
        {
            return None;
        }
        if writer.since == SoleWriterSince::Recorded {
            // It knows only what it wrote itself: the report counts while that is nothing.
            return reports.daemons.is_empty().then(|| size_on_record(inode));
        }
        let mut answers = Vec::new();
        for (iod, objects) in objects::by_daemon(inode.file, layout) {
            let said = reports.daemons.iter().find(|daemon| daemon.iod == iod);
            let info = |part| {
                let known =
                    said.and_then(|daemon| daemon.objects.iter().find(|info| info.part == part));
                known.cloned().unwrap_or_else(|| absent_object(part))
            };
            let verifier =
                said.map_or_else(|| cluster.verifier(iod), |daemon| Some(daemon.verifier))?;
            answers.push(IodReply {
                iod,
                verifier,
                infos: objects.iter().map(|object| info(object.part)).collect(),
            });
        }
        let found =
            objects::file_state(inode, layout, &answers, &cluster.removed(), change).ok()?;
        cluster.verifiers_unchanged(&found.verifiers).then_some(found)
    }
}

/// The size on record.
fn size_on_record(inode: &Inode) -> CollectedSize {
    let (size, parts) = (inode.size, inode.parts.clone());
    let fetch =
        ObjectSummary { generation: inode.size_generation, size, parts, mtime: None, change: 0 };
    let bytes_used = convert::attributes(inode).bytes_used.0;
    CollectedSize {
        fetch,
        allocated_bytes: bytes_used,
        verifiers: Vec::new(),
        empty: Vec::new(),
        is_part_lost: false,
    }
}

fn absent_object(part: PartIndex) -> ObjectInfo {
    let none = ByteCount(0);
    ObjectInfo { part, exists: false, bytes: none, bytes_used: none, mtime: Timestamp::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileIndex = FileIndex(5);

    fn noted(opens: impl IntoIterator<Item = FileIndex>) -> bool {
        let (session, layout) = (SessionId(1), LayoutVersion(1));
        let writer = SoleWriter {
            session,
            open_id: 1,
            generation: SizeGeneration(0),
            layout,
            since: SoleWriterSince::Made,
        };
        let mut makers = SoleWriters::default();
        makers.note_open(FILE);
        let since = makers.create_start();
        opens.into_iter().for_each(|file| makers.note_open(file));
        makers.insert(FILE, writer, since);
        makers.get(FILE).is_some()
    }

    #[test]
    fn an_open_that_came_and_went_while_the_file_was_made_is_noticed() {
        assert!(noted([FILE]), "its own");
        assert!(noted([FileIndex(6), FILE, FileIndex(7)]));
        assert!(!noted([FILE, FILE]));
        assert!(!noted([FILE, FileIndex(6), FILE]));
    }

    #[test]
    fn too_many_opens_since_then_leave_no_sole_writer() {
        let others = (0..LATEST_OPENS_MAX as u64).map(|number| FileIndex(100 + number));
        assert!(!noted(others.chain([FILE])));
    }
}
