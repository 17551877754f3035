//! What a client tells of a file that it made and alone has written (ADR 0020): its daemons need not be asked.
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

use std::{collections::HashMap, sync::Arc};

use braid_meta::Inode;
use braid_types::{ByteCount, FileIndex, LayoutVersion, PartIndex, SessionId, SizeGeneration, Timestamp};
use braid_wire::message::{mds::ToldSize, types::ObjectInfo};

use crate::{
    call::Call,
    collect::is_recorded,
    core::{MdsCore, State, report},
    objects::{self, Answer, Found},
};

/// The one handle by which a file was ever opened for writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Maker {
    session: SessionId,
    open_id: u64,
    generation: SizeGeneration,
    layout: LayoutVersion,
}

/// Makers of files that are open: at the most as many as open files.
#[derive(Debug, Default)]
pub(crate) struct Makers(HashMap<FileIndex, Maker>);

impl Makers {
    pub(crate) fn insert(&mut self, file: FileIndex, maker: Maker) {
        self.0.insert(file, maker);
    }

    pub(crate) fn get(&self, file: FileIndex) -> Option<&Maker> {
        self.0.get(&file)
    }

    pub(crate) fn remove(&mut self, file: FileIndex) {
        self.0.remove(&file);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn end(&mut self, session: SessionId) {
        self.0.retain(|_, maker| maker.session != session);
    }
}

impl MdsCore {
    /// Notes who made a file, if nobody else has opened it for writing since.
    pub(crate) fn note_maker(&self, inode: &Inode, session: SessionId, open_id: u64) {
        let Some(layout) = &inode.layout else { return };
        let maker = Maker { session, open_id, generation: inode.size_generation, layout: layout.version };
        self.state().collector.made(inode.file, maker);
        let writers: u64 = self.names.opens_of(inode.file).iter().map(|open| u64::from(open.writers)).sum();
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
        told.iter().find_map(|told| state.believed(told, call.asker(), inode))
    }

    /// The last writer of a file has closed it: what it told is heard, or the daemons are asked.
    pub(crate) fn hear_or_ask(&self, call: &Call, open_id: u64, file: FileIndex) {
        let told = call.envelope.told.iter().find(|told| told.open_id == open_id);
        let inode = told.and_then(|_| self.names.getattr(file).ok());
        let now = self.now();
        // Held from the look at the maker on: no open for writing falls between it and what is heard.
        let mut state = self.state();
        let news = |(told, inode): (&ToldSize, Arc<Inode>)| {
            let found = state.believed(told, call.asker(), &inode)?;
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
                state.collector.hear_told(file, found, now);
            }
            _ => state.collector.add(file),
        }
    }
}

impl State {
    /// What is told of the file, if it is its maker who tells it.
    fn believed(&self, told: &ToldSize, session: SessionId, inode: &Inode) -> Option<Found> {
        let layout = inode.layout.as_ref()?;
        let (generation, version) = (inode.size_generation, layout.version);
        let teller = Maker { session, open_id: told.open_id, generation, layout: version };
        if self.collector.maker(inode.file) != Some(&teller) {
            return None;
        }
        let mut answers = Vec::new();
        for (iod, objects) in objects::by_daemon(inode.file, layout) {
            let said = told.daemons.iter().find(|daemon| daemon.iod == iod);
            let info = |part| {
                let known = said.and_then(|daemon| daemon.objects.iter().find(|info| info.part == part));
                known.cloned().unwrap_or_else(|| absent(part))
            };
            let verifier = said.map_or_else(|| self.cluster.verifier(iod), |daemon| Some(daemon.verifier))?;
            answers.push(Answer { iod, verifier, infos: objects.iter().map(|object| info(object.part)).collect() });
        }
        let found = objects::combine(inode, layout, &answers).ok()?;
        self.cluster.all_keep(&found.verifiers).then_some(found)
    }
}

fn absent(part: PartIndex) -> ObjectInfo {
    let none = ByteCount(0);
    ObjectInfo { part, exists: false, bytes: none, bytes_used: none, mtime: Timestamp::default() }
}
