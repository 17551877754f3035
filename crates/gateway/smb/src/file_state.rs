//! The opens of each file and of its streams on this gateway: share modes, and removals that wait
//! for the last close. MS-FSA 2.1.5.1.2.2, 2.1.5.5.
//!
//! The metadata server compares opens of bytes across all gateways ([`braid_share::OpenMode`]).
//! This table adds what it does not know: opens of directories, of named streams, opens without
//! bytes, and the access to delete.
//!
//! Invariants:
//! 1. An entry exists while the file or a stream of it has an open here, or while a removal runs:
//!    memory is bounded by the limits of opens.
//! 2. A file whose removal is pending gets no further open, and no open of a stream. A stream whose
//!    removal is pending gets no further open.
//! 3. A file is removed after the last close of itself and of its streams.

mod sharing;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_share::{Deny, FileIndex, Identity};
use braid_smb_wire::NtStatus;

pub use sharing::Claim;
use sharing::Sharing;

use crate::open::Place;
use crate::streams::name::StreamName;
use crate::streams::shared::SharedStream;

/// What an open is of: a file, or a named stream of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StreamKey {
    /// The file.
    pub file: FileIndex,
    /// The number of a stream while it has an open; 0 for the file itself.
    pub stream: u64,
}

impl StreamKey {
    /// The file itself.
    pub fn of_file(file: FileIndex) -> Self {
        Self { file, stream: 0 }
    }
}

/// A name that is removed at the last close of its file, or a stream of the file with this name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removal {
    /// The root directory of the share.
    pub root: Option<FileIndex>,
    /// The name.
    pub place: Place,
    /// The user who has it removed.
    pub who: Identity,
}

/// The opens of a file.
#[derive(Debug, Default)]
struct FileState {
    sharing: Sharing,
    removal: Option<Removal>,
    /// Whether the last open was closed and the removal runs.
    is_removing: bool,
    /// The streams that have an open.
    streams: Vec<StreamState>,
}

/// The opens of a named stream.
#[derive(Debug)]
struct StreamState {
    number: u64,
    folded: Vec<u8>,
    shared: Arc<SharedStream>,
    sharing: Sharing,
    removal: Option<Removal>,
    is_removing: bool,
}

impl StreamState {
    fn is_pending(&self) -> bool {
        self.removal.is_some() || self.is_removing
    }

    fn check(&self, claim: Claim) -> Result<(), NtStatus> {
        // Invariant 2.
        if self.is_pending() { Err(NtStatus::DELETE_PENDING) } else { self.sharing.check(claim) }
    }
}

impl FileState {
    fn is_pending(&self) -> bool {
        self.removal.is_some() || self.is_removing
    }

    fn opens(&self) -> usize {
        self.sharing.opens() + self.streams.iter().map(|one| one.sharing.opens()).sum::<usize>()
    }

    fn check(&self, claim: Claim) -> Result<(), NtStatus> {
        // Invariant 2.
        if self.is_pending() {
            return Err(NtStatus::DELETE_PENDING);
        }
        self.sharing.check(claim)?;
        // Windows: an open of a file with the access to delete is one of all its streams, too.
        let is_kept = |one: &StreamState| one.sharing.denying_delete() > 0;
        match claim.has.has(Deny::DELETE) && self.streams.iter().any(is_kept) {
            true => Err(NtStatus::SHARING_VIOLATION),
            false => Ok(()),
        }
    }

    fn check_stream(&self, folded: &[u8], claim: Claim) -> Result<(), NtStatus> {
        if self.is_pending() {
            return Err(NtStatus::DELETE_PENDING);
        }
        let same = self.streams.iter().find(|one| one.folded == folded);
        same.map_or(Ok(()), |same| same.check(claim))
    }

    fn stream(&mut self, number: u64) -> Option<&mut StreamState> {
        self.streams.iter_mut().find(|one| one.number == number)
    }
}

/// The opens of all files of this gateway.
#[derive(Debug, Default)]
pub struct FileStates {
    files: Mutex<HashMap<FileIndex, FileState>>,
    last_stream: AtomicU64,
}

impl FileStates {
    /// Adds an open. Each one is given to [`FileStates::close`] once.
    ///
    /// # Errors
    /// `DELETE_PENDING`, `SHARING_VIOLATION`.
    pub fn open(&self, file: FileIndex, claim: Claim) -> Result<(), NtStatus> {
        let mut files = self.files();
        if let Some(state) = files.get(&file) {
            state.check(claim)?;
        }
        files.entry(file).or_default().sharing.add(claim);
        Ok(())
    }

    /// Adds an open of a stream. Each one is given to [`FileStates::close`] once.
    ///
    /// # Errors
    /// `DELETE_PENDING`, `SHARING_VIOLATION`.
    pub fn open_stream(
        &self,
        file: FileIndex,
        name: &StreamName,
        claim: Claim,
    ) -> Result<(StreamKey, Arc<SharedStream>), NtStatus> {
        let (mut files, folded) = (self.files(), name.folded());
        if let Some(state) = files.get(&file) {
            state.check_stream(&folded, claim)?;
        }
        let state = files.entry(file).or_default();
        if let Some(same) = state.streams.iter_mut().find(|one| one.folded == folded) {
            same.sharing.add(claim);
            return Ok((StreamKey { file, stream: same.number }, Arc::clone(&same.shared)));
        }
        let number = self.last_stream.fetch_add(1, Ordering::Relaxed) + 1;
        let shared = Arc::new(SharedStream::new(name.clone()));
        let mut sharing = Sharing::default();
        sharing.add(claim);
        state.streams.push(StreamState {
            number,
            folded,
            shared: Arc::clone(&shared),
            sharing,
            removal: None,
            is_removing: false,
        });
        Ok((StreamKey { file, stream: number }, shared))
    }

    /// Checks that an open with this claim could be added now.
    ///
    /// # Errors
    /// As [`FileStates::open`].
    pub fn check(&self, file: FileIndex, claim: Claim) -> Result<(), NtStatus> {
        self.files().get(&file).map_or(Ok(()), |state| state.check(claim))
    }

    /// The same for an open of a stream.
    ///
    /// # Errors
    /// As [`FileStates::open_stream`].
    pub fn check_stream(
        &self,
        file: FileIndex,
        name: &StreamName,
        claim: Claim,
    ) -> Result<(), NtStatus> {
        let files = self.files();
        files.get(&file).map_or(Ok(()), |state| state.check_stream(&name.folded(), claim))
    }

    /// Removes an open, which had `claim`. With `removal` the file or stream is removed at the last
    /// close. Returns the removal that is now due.
    pub fn close(
        &self,
        key: StreamKey,
        claim: Claim,
        removal: Option<Removal>,
    ) -> Option<DueRemoval<'_>> {
        let mut files = self.files();
        let state = files.get_mut(&key.file)?;
        if key.stream == 0 {
            state.sharing.remove(claim);
            if state.removal.is_none() {
                state.removal = removal;
            }
            return self.take_due(&mut files, key.file);
        }
        let stream = state.stream(key.stream)?;
        stream.sharing.remove(claim);
        if stream.removal.is_none() {
            stream.removal = removal;
        }
        if stream.sharing.opens() > 0 {
            return None;
        }
        if let Some(removal) = stream.removal.take() {
            stream.is_removing = true;
            let stream = Some(Arc::clone(&stream.shared));
            return Some(DueRemoval { states: self, key, stream, removal });
        }
        state.streams.retain(|one| one.number != key.stream);
        self.take_due(&mut files, key.file)
    }

    /// The removal of a file without opens, if it is due. Forgets a file without one.
    fn take_due(
        &self,
        files: &mut HashMap<FileIndex, FileState>,
        file: FileIndex,
    ) -> Option<DueRemoval<'_>> {
        let state = files.get_mut(&file)?;
        // Invariant 3. A stream stays in the list while its removal runs.
        if state.sharing.opens() > 0 || !state.streams.is_empty() || state.is_removing {
            return None;
        }
        let Some(removal) = state.removal.take() else {
            files.remove(&file);
            return None;
        };
        state.is_removing = true;
        let key = StreamKey::of_file(file);
        Some(DueRemoval { states: self, key, stream: None, removal })
    }

    /// Sets or takes back the removal at the last close (MS-FSA 2.1.5.15.3). The file or stream has
    /// an open.
    pub fn set_removal(&self, key: StreamKey, removal: Option<Removal>) {
        let mut files = self.files();
        let Some(state) = files.get_mut(&key.file) else { return };
        match key.stream {
            0 => state.removal = removal,
            number => {
                if let Some(stream) = state.stream(number) {
                    stream.removal = removal;
                }
            }
        }
    }

    /// Has a stream removed at its last close. Returns whether it has an open; else nothing is
    /// done.
    pub fn set_stream_removal(
        &self,
        file: FileIndex,
        name: &StreamName,
        removal: &Removal,
    ) -> bool {
        let (mut files, folded) = (self.files(), name.folded());
        let streams = files.get_mut(&file).map(|state| &mut state.streams);
        let open = streams.and_then(|all| all.iter_mut().find(|one| one.folded == folded));
        let Some(open) = open else { return false };
        open.removal.get_or_insert_with(|| removal.clone());
        true
    }

    /// Gives an open stream another name.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` if the stream that has the name is open (MS-FSA 2.1.5.15.11.1).
    pub fn rename_stream(&self, key: StreamKey, name: &StreamName) -> Result<(), NtStatus> {
        let (mut files, folded) = (self.files(), name.folded());
        let state = files.get_mut(&key.file).ok_or(NtStatus::FILE_CLOSED)?;
        let is_other = |one: &StreamState| one.folded == folded && one.number != key.stream;
        if state.streams.iter().any(is_other) {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let stream = state.stream(key.stream).ok_or(NtStatus::FILE_CLOSED)?;
        stream.folded = folded;
        stream.shared.set_name(name.clone());
        Ok(())
    }

    /// Whether the file or stream is removed at its last close.
    pub fn is_delete_pending(&self, key: StreamKey) -> bool {
        let mut files = self.files();
        let Some(state) = files.get_mut(&key.file) else { return false };
        state.is_pending() || state.stream(key.stream).is_some_and(|stream| stream.is_pending())
    }

    /// The number of opens that a file and its streams have.
    pub fn open_count(&self, file: FileIndex) -> usize {
        self.files().get(&file).map_or(0, FileState::opens)
    }

    /// Whether the file itself has an open.
    pub fn is_open(&self, file: FileIndex) -> bool {
        self.files().get(&file).is_some_and(|state| state.sharing.opens() > 0)
    }

    /// Whether a stream of the file has an open.
    pub fn has_open_stream(&self, file: FileIndex) -> bool {
        self.files().get(&file).is_some_and(|state| !state.streams.is_empty())
    }

    /// Whether an open of the file, other than the caller's own with the claim `own`, denies others
    /// to rename and remove it.
    pub fn others_deny_delete(&self, file: FileIndex, own: Claim) -> bool {
        let denying = self.files().get(&file).map_or(0, |state| state.sharing.denying_delete());
        denying > usize::from(own.denies.has(Deny::DELETE))
    }

    /// Whether there is no open, and no removal runs.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.files().is_empty()
    }

    fn files(&self) -> MutexGuard<'_, HashMap<FileIndex, FileState>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A removal whose time has come. Until it ends, the file or stream gets no further open.
#[derive(Debug)]
pub struct DueRemoval<'a> {
    states: &'a FileStates,
    key: StreamKey,
    stream: Option<Arc<SharedStream>>,
    removal: Removal,
}

impl<'a> DueRemoval<'a> {
    /// The file.
    pub fn file(&self) -> FileIndex {
        self.key.file
    }

    /// The name of the file, and who has it removed.
    pub fn removal(&self) -> &Removal {
        &self.removal
    }

    /// The stream that is removed; `None` if it is the file.
    pub fn stream(&self) -> Option<&Arc<SharedStream>> {
        self.stream.as_ref()
    }

    /// Ends the removal. Returns that of the file, if it waited for this one of a stream.
    pub fn end(self) -> Option<DueRemoval<'a>> {
        let (states, file) = (self.states, self.key.file);
        drop(self);
        states.take_due(&mut states.files(), file)
    }
}

impl Drop for DueRemoval<'_> {
    fn drop(&mut self) {
        let mut files = self.states.files();
        if self.key.stream == 0 {
            files.remove(&self.key.file);
        } else if let Some(state) = files.get_mut(&self.key.file) {
            state.streams.retain(|one| one.number != self.key.stream);
        }
    }
}

#[cfg(test)]
mod tests;
