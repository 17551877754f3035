//! What a client tells of a file that it made and alone has written, or alone has open for writing and has not written
//! (ADR 0020): its daemons need not be asked.
//!
//! ```text
//!   create, open ──> maker ──┬─ stat, set attributes, by the maker: answered by what it tells
//!                            |─ its close tells: heard at once (collect.rs)
//!                            `─ another open for writing, a truncate, a new layout, a restart: asked as ever
//! ```
//!
//! Invariants: (1) a maker is on record only while its handle is the only one that was ever opened for writing: who opens the
//! file for that later takes it off before a capability leaves the server, and who did so before is looked for after it was
//! noted; (2) what is told counts for the call that tells it, and for nobody else, until the maker's close; (3) nothing is
//! recorded on a client's word: what was told with a close is asked of all daemons before its mark ends.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use braid_meta::{Fetch, Inode};
use braid_types::{
    ByteCount, Failure, FileIndex, LayoutVersion, PartIndex, SessionId, SizeGeneration, Status,
    Timestamp, limits::TOLD_OBJECTS_MAX,
};
use braid_wire::message::{mds::ToldSize, types::ObjectInfo};

use crate::{
    call::Call,
    collect::is_recorded,
    convert,
    core::{MdsCore, State, report},
    objects::{self, Answer, Found},
};

/// The one handle by which a file was opened for writing, ever or since its size was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Maker {
    session: SessionId,
    open_id: u64,
    generation: SizeGeneration,
    layout: LayoutVersion,
    since: Since,
}

/// From when on a handle is the only one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Since {
    /// It made the file: what it wrote is all that there is.
    Made,
    /// The size on record is how the file is, while it has written nothing.
    Recorded,
}

/// A moment, before a file is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u64);

/// Opens for writing that are remembered, so that one which came and went while its file was being made is seen (I9).
const LATEST_MAX: usize = 1024;

/// Makers of files that are open: at the most as many as open files.
#[derive(Debug, Default)]
pub(crate) struct Makers {
    files: HashMap<FileIndex, Maker>,
    /// The newest files that were opened for writing, and how many there were in all.
    latest: VecDeque<FileIndex>,
    count: u64,
}

impl Makers {
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.count)
    }

    /// Notes a maker, unless somebody besides it may have opened the file for writing since.
    pub(crate) fn insert(&mut self, file: FileIndex, maker: Maker, since: Mark) {
        let news = (self.count - since.0) as usize;
        let opens = self.latest.iter().rev().take(news).filter(|opened| **opened == file).count();
        if news <= self.latest.len() && opens == 1 {
            self.files.insert(file, maker);
        }
    }

    pub(crate) fn get(&self, file: FileIndex) -> Option<&Maker> {
        self.files.get(&file)
    }

    /// The file is opened for writing, or what was told of it is void.
    pub(crate) fn disturb(&mut self, file: FileIndex) {
        self.remove(file);
        self.count += 1;
        if self.latest.len() == LATEST_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back(file);
    }

    pub(crate) fn remove(&mut self, file: FileIndex) {
        self.files.remove(&file);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn end(&mut self, session: SessionId) {
        self.files.retain(|_, maker| maker.session != session);
    }
}

/// Files that one call tells of (I9): a client closes 64 at once.
pub(crate) const TOLD_FILES_MAX: usize = 1024;

/// Refuses what no client tells, before it is looked through under the server's lock: a client tells of no more objects of a
/// file, and of no daemon without one.
pub(crate) fn check_told(told: &[ToldSize]) -> Result<(), Failure> {
    let objects =
        |told: &ToldSize| told.daemons.iter().map(|daemon| daemon.objects.len()).sum::<usize>();
    let too_much =
        |told: &ToldSize| told.daemons.len() > TOLD_OBJECTS_MAX || objects(told) > TOLD_OBJECTS_MAX;
    if told.len() <= TOLD_FILES_MAX && !told.iter().any(too_much) {
        return Ok(());
    }
    let why = format!(
        "a call tells of at most {TOLD_FILES_MAX} files, {TOLD_OBJECTS_MAX} objects of each"
    );
    Err(Failure::new(Status::LimitExceeded, why))
}

impl MdsCore {
    /// A moment, before a file is made.
    pub(crate) fn makers_mark(&self) -> Mark {
        self.state().collector.makers_mark()
    }

    /// A moment, if the size of the file was on record after it.
    pub(crate) fn recorded_mark(&self, file: FileIndex) -> Option<Mark> {
        let mark = self.makers_mark();
        let recorded = |inode: Arc<Inode>| !self.asks_for_size(&inode);
        self.names.getattr(file).is_ok_and(recorded).then_some(mark)
    }

    /// Notes who made a file and opened it, or opened it as it was on record, if nobody else has opened it for writing since
    /// before that.
    pub(crate) fn note_maker(
        &self,
        inode: &Inode,
        (session, open_id): (SessionId, u64),
        since: Since,
        mark: Mark,
    ) {
        let Some(layout) = &inode.layout else { return };
        let maker = Maker {
            session,
            open_id,
            generation: inode.size_generation,
            layout: layout.version,
            since,
        };
        self.state().collector.made(inode.file, maker, mark);
        // Who is about to open it has done so in the store, and takes the maker off after this, or is seen here.
        let writers: u64 =
            self.names.opens_of(inode.file).iter().map(|open| u64::from(open.writers)).sum();
        if writers != 1 {
            self.state().collector.end_maker(inode.file);
        }
    }

    /// How the file is, by what its maker tells with this call.
    pub(crate) fn told(&self, call: &Call, inode: &Inode) -> Option<Found> {
        let told = &call.envelope.told;
        if told.is_empty() {
            return None;
        }
        let state = self.state();
        told.iter()
            .find_map(|told| state.believed(told, call.asker(), inode, self.names.next_change()))
    }

    /// The last writer of a file has closed it: what it told is heard, or the daemons are asked.
    pub(crate) fn hear_or_ask(&self, call: &Call, open_id: u64, file: FileIndex) {
        let told = call.envelope.told.iter().find(|told| told.open_id == open_id);
        let inode = told.and_then(|_| self.names.getattr(file).ok());
        let now = self.now();
        // Held from the look at the maker on: no open for writing falls between it and what is heard.
        let mut state = self.state();
        let news = |(told, inode): (&ToldSize, Arc<Inode>)| {
            let found = state.believed(told, call.asker(), &inode, self.names.next_change())?;
            // Nothing was written, as it seems: what the daemons say of that can be recorded as soon as they say it.
            (!is_recorded(&inode, &found)).then_some(found)
        };
        let believed = told.zip(inode).and_then(news);
        state.collector.end_maker(file);
        match believed {
            Some(found) if !state.gates.is_closed(file) && state.collector.has_room() => {
                if let Err(failure) = self.names.size_heard(file, found.fetch.size) {
                    report("noting a size for quotas", &failure);
                }
                if !state.collector.is_withheld(file) {
                    state.collector.hear_told(file, found, now);
                }
            }
            _ => state.collector.add(file),
        }
    }
}

impl State {
    /// What is told of the file, if it is its maker who tells it.
    fn believed(
        &self,
        told: &ToldSize,
        session: SessionId,
        inode: &Inode,
        change: u64,
    ) -> Option<Found> {
        let layout = inode.layout.as_ref()?;
        let maker = *self.collector.maker(inode.file)?;
        let (open_id, generation, version) = (told.open_id, inode.size_generation, layout.version);
        if maker != (Maker { session, open_id, generation, layout: version, since: maker.since }) {
            return None;
        }
        if maker.since == Since::Recorded {
            // Of what it wrote it knows only its own part.
            return told.daemons.is_empty().then(|| recorded(inode));
        }
        let mut answers = Vec::new();
        for (iod, objects) in objects::by_daemon(inode.file, layout) {
            let said = told.daemons.iter().find(|daemon| daemon.iod == iod);
            let info = |part| {
                let known =
                    said.and_then(|daemon| daemon.objects.iter().find(|info| info.part == part));
                known.cloned().unwrap_or_else(|| absent(part))
            };
            let verifier =
                said.map_or_else(|| self.cluster.verifier(iod), |daemon| Some(daemon.verifier))?;
            answers.push(Answer {
                iod,
                verifier,
                infos: objects.iter().map(|object| info(object.part)).collect(),
            });
        }
        let found =
            objects::combine(inode, layout, &answers, &self.cluster.removed(), change).ok()?;
        self.cluster.all_keep(&found.verifiers).then_some(found)
    }
}

/// As it is on record.
fn recorded(inode: &Inode) -> Found {
    let (size, parts) = (inode.size, inode.parts.clone());
    let fetch = Fetch { generation: inode.size_generation, size, parts, mtime: None, change: 0 };
    let bytes_used = convert::attributes(inode).bytes_used.0;
    Found { fetch, bytes_used, verifiers: Vec::new(), empty: Vec::new(), lost: false }
}

fn absent(part: PartIndex) -> ObjectInfo {
    let none = ByteCount(0);
    ObjectInfo { part, exists: false, bytes: none, bytes_used: none, mtime: Timestamp::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileIndex = FileIndex(5);

    fn noted(opens: impl IntoIterator<Item = FileIndex>) -> bool {
        let (session, layout) = (SessionId(1), LayoutVersion(1));
        let maker = Maker {
            session,
            open_id: 1,
            generation: SizeGeneration(0),
            layout,
            since: Since::Made,
        };
        let mut makers = Makers::default();
        makers.disturb(FILE);
        let since = makers.mark();
        opens.into_iter().for_each(|file| makers.disturb(file));
        makers.insert(FILE, maker, since);
        makers.get(FILE).is_some()
    }

    #[test]
    fn an_open_that_came_and_went_while_the_file_was_made_is_seen() {
        assert!(noted([FILE]), "its own");
        assert!(noted([FileIndex(6), FILE, FileIndex(7)]));
        assert!(!noted([FILE, FILE]));
        assert!(!noted([FILE, FileIndex(6), FILE]));
    }

    #[test]
    fn who_cannot_know_takes_nobody_for_the_maker() {
        let others = (0..LATEST_MAX as u64).map(|number| FileIndex(100 + number));
        assert!(!noted(others.chain([FILE])));
    }
}
