//! Opens of all sessions, with what each may do and what it denies to the others.

use std::collections::BTreeMap;

use braid_types::{FileIndex, SessionId, Status};

use super::Outcome;
use crate::{AdoptedOpen, Deny, Identity, OpenMode, Rights};

/// An open of a file.
#[derive(Debug)]
pub struct Open {
    /// Whose open it is.
    pub session: SessionId,
    /// The file.
    pub file: FileIndex,
    /// What it may do, and what it denies to others.
    pub mode: OpenMode,
    /// The user who opened the file.
    pub who: Identity,
    /// The number of losses at the time of the first write that is not flushed; `None` if all are.
    pub unflushed_since: Option<u64>,
}

/// All opens, by a number that is never used twice.
#[derive(Debug, Default)]
pub struct OpenTable {
    opens: BTreeMap<u64, Open>,
    newest: u64,
}

impl OpenTable {
    /// The number of opens.
    pub fn count(&self) -> usize {
        self.opens.len()
    }

    /// Adds an open and returns its number.
    pub fn add(&mut self, open: Open) -> u64 {
        self.newest += 1;
        self.opens.insert(self.newest, open);
        self.newest
    }

    /// An open.
    ///
    /// # Errors
    /// `StaleHandle`: it was closed.
    pub fn get(&self, id: u64) -> Outcome<&Open> {
        self.opens.get(&id).ok_or(Status::StaleHandle)
    }

    /// An open, to change it.
    ///
    /// # Errors
    /// `StaleHandle`: it was closed.
    pub fn get_mut(&mut self, id: u64) -> Outcome<&mut Open> {
        self.opens.get_mut(&id).ok_or(Status::StaleHandle)
    }

    /// Removes an open; `None` if it was closed before.
    pub fn remove(&mut self, id: u64) -> Option<Open> {
        self.opens.remove(&id)
    }

    /// Closes all opens of a session. Returns their files.
    pub fn end_session(&mut self, session: SessionId) -> Vec<FileIndex> {
        let of_session =
            self.opens.values().filter(|open| open.session == session).map(|open| open.file);
        let files = of_session.collect();
        self.opens.retain(|_, open| open.session != session);
        files
    }

    /// Gives the opens of a session new numbers, so that nobody closes them by the old ones.
    pub fn renumber(&mut self, session: SessionId) -> Vec<AdoptedOpen> {
        let of_session = self.opens.iter().filter(|(_, open)| open.session == session);
        let numbers: Vec<u64> = of_session.map(|(number, _)| *number).collect();
        let opens = numbers.into_iter().filter_map(|number| {
            let open = self.remove(number)?;
            let (file, mode) = (open.file, open.mode);
            Some(AdoptedOpen { number: self.add(open), file, mode })
        });
        opens.collect()
    }

    /// Whether a file is open.
    pub fn is_open(&self, file: FileIndex) -> bool {
        self.of_file(file).next().is_some()
    }

    /// Whether a session has a file open for writing.
    pub fn writes(&self, session: SessionId, file: FileIndex) -> bool {
        self.of_file(file)
            .any(|(_, open)| open.session == session && open.mode.rights.allow(Rights::WRITE))
    }

    /// Whether a session has a file open.
    pub fn has_open(&self, session: SessionId, file: FileIndex) -> bool {
        self.of_file(file).any(|(_, open)| open.session == session)
    }

    /// Whether another session has a file open.
    pub fn open_besides(&self, session: SessionId, file: FileIndex) -> bool {
        self.of_file(file).any(|(_, open)| open.session != session)
    }

    /// Whether another session has a file open for writing.
    pub fn written_besides(&self, session: SessionId, file: FileIndex) -> bool {
        self.of_file(file)
            .any(|(_, open)| open.session != session && open.mode.rights.allow(Rights::WRITE))
    }

    /// What the opens of a file deny together.
    pub fn denied(&self, file: FileIndex) -> Deny {
        self.of_file(file).fold(Deny::NONE, |all, (_, open)| all | open.mode.deny)
    }

    /// What the opens of a file by other sessions deny together.
    pub fn denied_besides(&self, session: SessionId, file: FileIndex) -> Deny {
        let others = self.of_file(file).filter(|(_, open)| open.session != session);
        others.fold(Deny::NONE, |all, (_, open)| all | open.mode.deny)
    }

    /// Checks a mode against all opens but `except`.
    ///
    /// # Errors
    /// `SharingViolation`: one of them conflicts.
    pub fn check(&self, file: FileIndex, wanted: OpenMode, except: Option<u64>) -> Outcome<()> {
        let mut others = self.of_file(file).filter(|(id, _)| Some(*id) != except);
        match others.any(|(_, open)| denies(open.mode, wanted) || denies(wanted, open.mode)) {
            true => Err(Status::SharingViolation),
            false => Ok(()),
        }
    }

    /// Forgets unflushed writes of a session's opens of a file: they are durable now, or their loss
    /// was reported.
    pub fn flushed(&mut self, session: SessionId, file: FileIndex) {
        let opens = self.opens.values_mut();
        opens
            .filter(|open| open.session == session && open.file == file)
            .for_each(|open| open.unflushed_since = None);
    }

    fn of_file(&self, file: FileIndex) -> impl Iterator<Item = (u64, &Open)> {
        self.opens.iter().filter(move |(_, open)| open.file == file).map(|(id, open)| (*id, open))
    }
}

/// Whether an open with one mode denies what another has.
fn denies(one: OpenMode, other: OpenMode) -> bool {
    one.deny.has(Deny::READ) && other.rights.allow(Rights::READ)
        || one.deny.has(Deny::WRITE) && other.rights.allow(Rights::WRITE)
}
