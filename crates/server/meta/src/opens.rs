//! Which session has which file open, and how often. Opens for writing are also records, so that a restarted server
//! knows them (I4, I5); opens for reading are not: clients tell them again.

use std::collections::HashMap;

use braid_types::{FileIndex, IdState, SessionId};

/// What a file is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Its bytes are read.
    pub read: bool,
    /// Its bytes are written.
    pub write: bool,
}

impl Access {
    /// Reading alone.
    pub const READ: Self = Self { read: true, write: false };
    /// Writing alone.
    pub const WRITE: Self = Self { read: false, write: true };
    /// Both.
    pub const BOTH: Self = Self { read: true, write: true };
}

/// One session's opens of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenFile {
    /// The file.
    pub file: FileIndex,
    /// The session.
    pub session: SessionId,
    /// Opens without writing.
    pub readers: u32,
    /// Opens with writing.
    pub writers: u32,
}

/// The table. A file is in it while anybody has it open.
#[derive(Default)]
pub(crate) struct Opens(HashMap<FileIndex, Vec<OpenFile>, IdState>);

impl Opens {
    pub(crate) fn of(&self, file: FileIndex, session: SessionId) -> OpenFile {
        let held = self.0.get(&file).and_then(|opens| opens.iter().find(|open| open.session == session));
        held.copied().unwrap_or(OpenFile { file, session, readers: 0, writers: 0 })
    }

    /// Replaces one session's opens of one file.
    pub(crate) fn set(&mut self, open: OpenFile) {
        let opens = self.0.entry(open.file).or_default();
        opens.retain(|other| other.session != open.session);
        if open.readers + open.writers > 0 {
            opens.push(open);
        }
        if opens.is_empty() {
            self.0.remove(&open.file);
        }
    }

    pub(crate) fn is_open(&self, file: FileIndex) -> bool {
        self.0.contains_key(&file)
    }

    pub(crate) fn is_open_elsewhere(&self, file: FileIndex, session: SessionId) -> bool {
        self.0.get(&file).is_some_and(|opens| opens.iter().any(|open| open.session != session))
    }

    pub(crate) fn writers(&self, file: FileIndex) -> Vec<SessionId> {
        let opens = self.0.get(&file).into_iter().flatten();
        opens.filter(|open| open.writers > 0).map(|open| open.session).collect()
    }

    pub(crate) fn of_file(&self, file: FileIndex) -> &[OpenFile] {
        self.0.get(&file).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn files_of(&self, session: SessionId) -> Vec<OpenFile> {
        self.0.values().flatten().filter(|open| open.session == session).copied().collect()
    }

    pub(crate) fn all(&self) -> Vec<OpenFile> {
        self.0.values().flatten().copied().collect()
    }

    /// Files that anybody has open.
    pub(crate) fn files(&self) -> usize {
        self.0.len()
    }
}
