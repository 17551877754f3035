//! The open table: which session has which file open, how often, and in which modes. Opens for
//! writing, and those that deny something, are recorded too, so that a restarted server knows them
//! (I4, I5). Other opens for reading are not recorded: clients reclaim them.

use std::collections::{HashMap, HashSet};

use braid_types::{FileIndex, IdHashBuilder, SessionId, Status};

use crate::lease::modes::{self, Deny, ModeCounts, OpenMode};

/// What a file is opened for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Access {
    /// Reading its bytes.
    pub read: bool,
    /// Writing its bytes.
    pub write: bool,
}

impl Access {
    /// Reading only.
    pub const READ: Self = Self { read: true, write: false };
    /// Writing only.
    pub const WRITE: Self = Self { read: false, write: true };
    /// Reading and writing.
    pub const BOTH: Self = Self { read: true, write: true };
}

/// One session's opens of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenFile {
    /// The file.
    pub file: FileIndex,
    /// The session.
    pub session: SessionId,
    /// Opens without write access.
    pub readers: u32,
    /// Opens with write access.
    pub writers: u32,
    /// Of these, those without read access.
    pub write_only: u32,
    /// Of all opens, those that deny something.
    pub denying: ModeCounts,
}

impl OpenFile {
    /// No opens.
    pub fn none(file: FileIndex, session: SessionId) -> Self {
        Self {
            file,
            session,
            readers: 0,
            writers: 0,
            write_only: 0,
            denying: ModeCounts::default(),
        }
    }

    /// What these opens deny together.
    pub fn denied(&self) -> Deny {
        modes::denied(std::slice::from_ref(self))
    }

    /// Adds one open.
    ///
    /// # Errors
    /// [`Status::TooManyOpen`].
    pub fn add(&mut self, mode: OpenMode) -> Result<(), Status> {
        let count = if mode.access.write { &mut self.writers } else { &mut self.readers };
        *count = count.checked_add(1).ok_or(Status::TooManyOpen)?;
        self.write_only += u32::from(!mode.access.read);
        if !mode.deny.is_none() {
            self.denying.add(mode);
        }
        Ok(())
    }

    /// Removes one open.
    pub fn remove(&mut self, mode: OpenMode) {
        let count = if mode.access.write { &mut self.writers } else { &mut self.readers };
        *count = count.saturating_sub(1);
        if !mode.access.read {
            self.write_only = self.write_only.saturating_sub(1);
        }
        if !mode.deny.is_none() {
            self.denying.remove(mode);
        }
    }

    /// Combines the record of the opens that write with the record of those that deny something.
    /// `None` if they disagree.
    pub(crate) fn with_denying(self, denying: ModeCounts) -> Option<Self> {
        let readers = denying.count(|access| !access.write);
        let write_only = denying.count(|access| !access.read);
        let agree = denying.count(|access| access.write) <= self.writers;
        agree.then_some(Self { readers, write_only, denying, ..self })
    }

    /// Whether there are no opens.
    pub fn is_none(&self) -> bool {
        self.readers + self.writers == 0
    }

    /// All opens, counted by mode. Those that deny nothing are counted as readers, writers, and
    /// writers that do not read.
    pub fn modes(&self) -> ModeCounts {
        let mut all = self.denying.clone();
        let readers = self.denying.count(|access| !access.write);
        let write_only = self.denying.count(|access| !access.read);
        let both = self.denying.count(|access| access.read && access.write);
        all.set(OpenMode::plain(Access::READ), self.readers.saturating_sub(readers));
        all.set(OpenMode::plain(Access::WRITE), self.write_only.saturating_sub(write_only));
        all.set(
            OpenMode::plain(Access::BOTH),
            self.writers.saturating_sub(self.write_only).saturating_sub(both),
        );
        all
    }

    /// Whether `held` has at least as many opens of each mode.
    pub fn is_within(&self, held: &Self) -> bool {
        self.at_most(held) == *self
    }

    /// The smaller count of each mode.
    pub(crate) fn at_most(&self, held: &Self) -> Self {
        let mut left = self.clone();
        left.readers = self.readers.min(held.readers);
        left.writers = self.writers.min(held.writers);
        left.write_only = self.write_only.min(held.write_only);
        left.denying.at_most(&held.denying);
        left
    }

    /// The larger count of each mode.
    pub(crate) fn at_least(&self, held: &Self) -> Self {
        let mut all = self.clone();
        all.readers = self.readers.max(held.readers);
        all.writers = self.writers.max(held.writers);
        all.write_only = self.write_only.max(held.write_only);
        for (mode, count) in held.denying.iter() {
            all.denying.set(mode, self.denying.of(mode).max(count));
        }
        all
    }
}

/// The table. It holds a file while any session has it open.
///
/// Invariants:
/// 1. `sessions` names for each session the files whose list has an entry of it, so that the end or
///    the reclaim of a session visits only its own files. `set` asserts it.
/// 2. A file has at most one entry for each session, and no entry without an open. `set` asserts
///    it.
#[derive(Default)]
pub(crate) struct OpenTable {
    files: HashMap<FileIndex, Vec<OpenFile>, IdHashBuilder>,
    sessions: HashMap<SessionId, HashSet<FileIndex, IdHashBuilder>, IdHashBuilder>,
    /// How many entries have a writer.
    writing: usize,
    /// How many entries deny something; if none, no check is needed.
    denying: usize,
}

impl OpenTable {
    pub(crate) fn of(&self, file: FileIndex, session: SessionId) -> OpenFile {
        let held = self
            .files
            .get(&file)
            .and_then(|opens| opens.iter().find(|open| open.session == session));
        held.cloned().unwrap_or_else(|| OpenFile::none(file, session))
    }

    /// Replaces one session's opens of one file.
    pub(crate) fn set(&mut self, open: OpenFile) {
        let (file, session) = (open.file, open.session);
        let opens = self.files.entry(file).or_default();
        let before =
            opens.iter().position(|other| other.session == session).map(|at| opens.remove(at));
        let files = self.sessions.get(&session);
        let is_indexed = files.is_some_and(|files| files.contains(&file));
        debug_assert_eq!(before.is_some(), is_indexed, "1: the index of sessions is exact");
        debug_assert!(opens.iter().all(|other| other.session != session), "2: one entry");
        if let Some(before) = &before {
            self.denying -= usize::from(!before.denying.is_empty());
            self.writing -= usize::from(before.writers > 0);
        }
        let is_none = open.is_none();
        if !is_none {
            self.denying += usize::from(!open.denying.is_empty());
            self.writing += usize::from(open.writers > 0);
            opens.push(open);
        }
        if opens.is_empty() {
            self.files.remove(&file);
        }
        match (before.is_some(), is_none) {
            (true, true) => self.forget(session, file),
            (false, false) => drop(self.sessions.entry(session).or_default().insert(file)),
            _ => {}
        }
    }

    fn forget(&mut self, session: SessionId, file: FileIndex) {
        let Some(files) = self.sessions.get_mut(&session) else { return };
        files.remove(&file);
        if files.is_empty() {
            self.sessions.remove(&session);
        }
    }

    /// How many sessions have a file open for writing, over all files.
    pub(crate) fn writing(&self) -> usize {
        self.writing
    }

    /// How many sessions deny something of a file, over all files.
    pub(crate) fn denying(&self) -> usize {
        self.denying
    }

    /// What is denied of a file.
    pub(crate) fn denied(&self, file: FileIndex) -> Deny {
        if self.denying == 0 { Deny::NONE } else { modes::denied(self.of_file(file)) }
    }

    pub(crate) fn is_open(&self, file: FileIndex) -> bool {
        self.files.contains_key(&file)
    }

    pub(crate) fn is_open_elsewhere(&self, file: FileIndex, session: SessionId) -> bool {
        self.files.get(&file).is_some_and(|opens| opens.iter().any(|open| open.session != session))
    }

    pub(crate) fn writers(&self, file: FileIndex) -> Vec<SessionId> {
        let opens = self.files.get(&file).into_iter().flatten();
        opens.filter(|open| open.writers > 0).map(|open| open.session).collect()
    }

    pub(crate) fn of_file(&self, file: FileIndex) -> &[OpenFile] {
        self.files.get(&file).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn files_of(&self, session: SessionId) -> Vec<OpenFile> {
        let files = self.sessions.get(&session).into_iter().flatten();
        files.map(|file| self.of(*file, session)).collect()
    }

    pub(crate) fn all(&self) -> Vec<OpenFile> {
        self.files.values().flatten().cloned().collect()
    }

    /// How many files are open.
    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(file: u64, session: u64, readers: u32, writers: u32) -> OpenFile {
        OpenFile { readers, writers, ..OpenFile::none(FileIndex(file), SessionId(session)) }
    }

    /// Compares the table's counts and index with a full search.
    fn check(opens: &OpenTable) {
        let all = opens.all();
        assert_eq!(opens.writing(), all.iter().filter(|open| open.writers > 0).count());
        for session in 0..4 {
            let id = |open: &OpenFile| open.file.0;
            let (mut found, mut wanted) = (opens.files_of(SessionId(session)), all.clone());
            wanted.retain(|open| open.session.0 == session);
            found.sort_by_key(id);
            wanted.sort_by_key(id);
            assert_eq!(found, wanted, "session {session}");
            assert_eq!(opens.sessions.contains_key(&SessionId(session)), !wanted.is_empty());
        }
    }

    #[test]
    fn the_session_index_and_the_writer_count_follow_every_change() {
        let mut opens = OpenTable::default();
        let mut seed = 1_u64;
        for _ in 0..2000 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = |shift: u32, below: u64| (seed >> shift) % below;
            opens.set(open(at(33, 6), at(40, 4), at(45, 3) as u32, at(50, 2) as u32));
            check(&opens);
        }
    }
}
