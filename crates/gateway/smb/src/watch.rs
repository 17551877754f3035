//! Directories that clients watch, and what happens in them. MS-FSA 2.1.5.11, MS-SMB2 3.3.5.19.
//!
//! ```text
//!   change through this gateway ──> events, with names
//!   change by others: the change counter of the directory, read every 2 s while a request waits
//!       ──> "something has changed": the client lists the directory again
//! ```
//!
//! Changes through this gateway raise the counter, too: their change goes from one value to the
//! next without a gap. A gap is a change by somebody else.
//!
//! Invariants:
//! 1. What happens between two requests of a client is kept for the next one. Of more than
//!    [`EVENTS_BYTES_MAX`] bytes, or [`ALL_EVENTS_BYTES_MAX`] of all watches, only is kept that
//!    something has changed.
//! 2. A watch ends with its open. There are at most [`WATCHES_MAX`], and [`SESSION_WATCHES_MAX`] of
//!    a session: what happens in a directory is compared with each watch of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use braid_share::{DirectoryChange, FileIndex, Identity, ShareClient, Status};
use braid_smb_wire::NtStatus;
use braid_smb_wire::fscc::{NotifyAction, NotifyEvent, encode_notify};
use braid_smb_wire::smb2::change_notify::CompletionFilter;
use braid_smb_wire::smb2::output::OutputResponse;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::context::{OpResult, Reply};
use crate::open::Place;
use crate::status::failed;
use crate::streams::name::StreamName;

/// Most bytes of events that wait for a request. Also the most bytes of a response.
pub const EVENTS_BYTES_MAX: usize = 64 << 10;
/// The same of all watches of the gateway.
pub const ALL_EVENTS_BYTES_MAX: usize = 64 << 20;
/// Most directories that all opens watch.
pub const WATCHES_MAX: usize = 16_384;
/// The same of a session.
pub const SESSION_WATCHES_MAX: usize = 1024;
/// Bytes of an event besides its name.
const EVENT_BYTES: usize = 16;
/// How often the change counter of a directory is read while a request waits.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Something that happened to a name of a directory.
#[derive(Clone, Copy, Debug)]
struct Happening<'a> {
    /// The root directory of the share.
    root: FileIndex,
    /// The directory that has the name.
    dir: FileIndex,
    /// Its path from the root of the share, with the name.
    path: &'a str,
    /// What happened.
    action: NotifyAction,
    /// What has changed.
    changed: CompletionFilter,
    /// The change of the directory, if its names have changed.
    change: Option<DirectoryChange>,
}

/// The name of a file or directory.
pub fn name_of(is_directory: bool) -> CompletionFilter {
    if is_directory { CompletionFilter::DIR_NAME } else { CompletionFilter::FILE_NAME }
}

impl Watches {
    /// Lets those who watch know that this has happened to a file below the root of a share.
    pub fn report(
        &self,
        root: Option<FileIndex>,
        place: &Place,
        (action, changed): (NotifyAction, CompletionFilter),
        change: Option<DirectoryChange>,
    ) {
        let Some(root) = root.filter(|_| self.count.load(Ordering::Acquire) > 0) else { return };
        // The root of a share has no name.
        if place.name.is_empty() {
            return;
        }
        // The client may have named it in another case than it has.
        let dir = place.path.rfind('\\').map_or("", |end| &place.path[..=end]);
        let path = format!("{dir}{}", String::from_utf8_lossy(&place.name));
        self.note(Happening { root, dir: place.dir, path: &path, action, changed, change });
    }

    /// The same of a stream of a file.
    pub fn report_stream(
        &self,
        root: Option<FileIndex>,
        place: &Place,
        stream: &StreamName,
        what: (NotifyAction, CompletionFilter),
    ) {
        // The root of a share has no name, and so its streams have none.
        if place.name.is_empty() || self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut place = place.clone();
        place.name.extend_from_slice(stream.with_type().as_bytes());
        self.report(root, &place, what, None);
    }
}

/// A directory that an open watches.
#[derive(Debug)]
pub struct Watch {
    /// The directory.
    dir: FileIndex,
    /// The root directory of its share.
    root: FileIndex,
    /// Its path from the root of the share, with a backslash at the end if it is not the root, for
    /// comparison.
    path: Vec<u8>,
    /// Which changes are watched.
    filter: CompletionFilter,
    /// Whether the directories below are watched as well.
    is_recursive: bool,
    /// Room of the first request. More events are never listed, as in Windows.
    bytes_max: usize,
    state: Mutex<WatchState>,
    changed: Notify,
    /// Bytes of the events of all watches.
    all_bytes: Arc<AtomicUsize>,
    /// The watches of its session.
    of_session: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct WatchState {
    events: Vec<NotifyEvent>,
    bytes: usize,
    /// Whether something has changed that no event says.
    is_incomplete: bool,
    /// The change counter of the directory after all that is known.
    counter: u64,
    is_closed: bool,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.all_bytes.fetch_sub(state.bytes, Ordering::Relaxed);
    }
}

/// What an open watches. Dropping it ends the watch.
#[derive(Debug)]
pub struct OpenWatch(Arc<Watch>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.changed.notify_waiters();
        self.0.of_session.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a client wants to watch.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The directory.
    pub dir: FileIndex,
    /// The root directory of its share.
    pub root: FileIndex,
    /// Its path from the root of the share.
    pub path: String,
    /// Which changes.
    pub filter: CompletionFilter,
    /// Whether the directories below are watched as well.
    pub is_recursive: bool,
    /// The room of the first request.
    pub bytes_max: usize,
}

/// The directories that all opens of this gateway watch.
#[derive(Debug, Default)]
pub struct Watches {
    tables: Mutex<Tables>,
    all_bytes: Arc<AtomicUsize>,
    /// Watches that were begun and may still be there: mostly none, so that nothing is locked.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Tables {
    by_dir: HashMap<FileIndex, Vec<Weak<Watch>>>,
    recursive: Vec<Weak<Watch>>,
}

impl Watches {
    /// Watches a directory whose change counter is `counter`. `of_session` counts the watches of
    /// the session.
    ///
    /// # Errors
    /// `INSUFFICIENT_RESOURCES` if there are too many.
    pub fn begin(
        &self,
        watched: Watched,
        counter: u64,
        of_session: &Arc<AtomicUsize>,
    ) -> Result<OpenWatch, NtStatus> {
        let mut tables = self.tables();
        tables.forget_ended();
        // Under the mutex, which all that raise the number hold.
        let is_full = of_session.load(Ordering::Relaxed) >= SESSION_WATCHES_MAX;
        if is_full || tables.len() >= WATCHES_MAX {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        of_session.fetch_add(1, Ordering::Relaxed);
        let mut path = watched.path;
        if !path.is_empty() {
            path.push('\\');
        }
        let watch = Arc::new(Watch {
            dir: watched.dir,
            root: watched.root,
            path: braid_share::fold(path.as_bytes()).into_owned(),
            filter: watched.filter,
            is_recursive: watched.is_recursive,
            bytes_max: watched.bytes_max,
            state: Mutex::new(WatchState { counter, ..WatchState::default() }),
            changed: Notify::new(),
            all_bytes: Arc::clone(&self.all_bytes),
            of_session: Arc::clone(of_session),
        });
        let list = match watch.is_recursive {
            true => &mut tables.recursive,
            false => tables.by_dir.entry(watch.dir).or_default(),
        };
        list.push(Arc::downgrade(&watch));
        self.count.store(tables.len(), Ordering::Release);
        Ok(OpenWatch(watch))
    }

    fn note(&self, happening: Happening<'_>) {
        let tables = self.tables();
        let of_dir = tables.by_dir.get(&happening.dir).into_iter().flatten();
        for watch in of_dir.chain(&tables.recursive).filter_map(Weak::upgrade) {
            watch.note(&happening);
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn forget_ended(&mut self) {
        let is_there = |watch: &Weak<Watch>| watch.strong_count() > 0;
        self.recursive.retain(is_there);
        self.by_dir.retain(|_, list| {
            list.retain(is_there);
            !list.is_empty()
        });
    }

    fn len(&self) -> usize {
        self.recursive.len() + self.by_dir.values().map(Vec::len).sum::<usize>()
    }
}

impl OpenWatch {
    /// Waits until something happens: the response of a request with room for `max_bytes`.
    ///
    /// # Errors
    /// `DELETE_PENDING` if the directory was removed, and those of the share.
    pub async fn next<C: ShareClient>(
        watch: Arc<Watch>,
        client: C,
        who: Identity,
        max_bytes: usize,
    ) -> OpResult {
        loop {
            let changed = watch.changed.notified();
            tokio::pin!(changed);
            // What happens from here on ends the wait.
            changed.as_mut().enable();
            if let Some(reply) = watch.take(max_bytes) {
                return Ok(reply);
            }
            if timeout(POLL_INTERVAL, changed).await.is_err() {
                watch.compare(&client, &who).await?;
            }
        }
    }

    /// The watch, for a request that waits.
    pub fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.0)
    }
}

impl Watch {
    /// The response with what has happened, if anything has.
    pub fn take(&self, max_bytes: usize) -> Option<Reply> {
        let mut state = self.state();
        let events = self.take_events(&mut state);
        let status = match std::mem::take(&mut state.is_incomplete) {
            // 3.3.5.19: also if it does not fit. The client lists the directory again.
            true => NtStatus::NOTIFY_ENUM_DIR,
            false if !events.is_empty() => {
                match encode_notify(&events, max_bytes.min(self.bytes_max)) {
                    Some(output) => {
                        return Some(Reply::new(&OutputResponse { output: output.into() }));
                    }
                    None => NtStatus::NOTIFY_ENUM_DIR,
                }
            }
            false if state.is_closed => NtStatus::NOTIFY_CLEANUP,
            false => return None,
        };
        Some(Reply::new(&OutputResponse::default()).with_status(status))
    }

    /// Compares the change counter of the directory with what is known.
    async fn compare<C: ShareClient>(&self, client: &C, who: &Identity) -> Result<(), NtStatus> {
        let known =
            client.attributes(who, self.dir).await.map_err(|error| match error.status() {
                // MS-FSA 2.1.5.11: the directory has gone.
                Status::NotFound | Status::StaleHandle => NtStatus::DELETE_PENDING,
                _ => failed(error),
            })?;
        let mut state = self.state();
        if known.change > state.counter {
            state.counter = known.change;
            state.is_incomplete |= self.watches_names();
        }
        Ok(())
    }

    fn watches_names(&self) -> bool {
        self.filter.has_any(CompletionFilter::FILE_NAME.with(CompletionFilter::DIR_NAME))
    }

    fn note(&self, happening: &Happening<'_>) {
        let is_own = happening.dir == self.dir;
        let Some(name) = self.name(happening, is_own) else { return };
        let mut state = self.state();
        if let Some(change) = happening.change.filter(|_| is_own) {
            if change.before > state.counter || !change.atomic {
                state.is_incomplete |= self.watches_names();
            }
            state.counter = state.counter.max(change.after);
        }
        if self.filter.has_any(happening.changed) {
            let bytes = EVENT_BYTES + 2 * name.len();
            let all = self.all_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
            state.bytes += bytes;
            if state.bytes > EVENTS_BYTES_MAX || all > ALL_EVENTS_BYTES_MAX {
                self.take_events(&mut state);
                state.is_incomplete = true;
            } else {
                let name = name.to_owned();
                state.events.push(NotifyEvent { action: happening.action, name });
            }
        }
        if state.is_incomplete || !state.events.is_empty() {
            self.changed.notify_waiters();
        }
    }

    /// The events, which the watch no longer has afterwards (invariant 1).
    fn take_events(&self, state: &mut WatchState) -> Vec<NotifyEvent> {
        self.all_bytes.fetch_sub(std::mem::take(&mut state.bytes), Ordering::Relaxed);
        std::mem::take(&mut state.events)
    }

    /// The path below this directory, if that is watched.
    fn name<'a>(&self, happening: &Happening<'a>, is_own: bool) -> Option<&'a str> {
        let path = happening.path;
        if is_own {
            return Some(path.rsplit('\\').next().unwrap_or(path));
        }
        if !self.is_recursive || happening.root != self.root {
            return None;
        }
        // Names count without regard to case. Folding does not change the number of separators.
        let folded = braid_share::fold(path.as_bytes());
        let depth = self.path.iter().filter(|byte| **byte == b'\\').count();
        let begin = match depth {
            0 => 0,
            depth => path.match_indices('\\').nth(depth - 1)?.0 + 1,
        };
        folded.starts_with(&self.path).then(|| &path[begin..])
    }

    fn state(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: FileIndex = FileIndex(7);
    const NAMES: CompletionFilter = CompletionFilter::FILE_NAME;

    fn watched(dir: FileIndex) -> Watched {
        Watched {
            dir,
            root: FileIndex(1),
            path: "dir".to_owned(),
            filter: NAMES,
            is_recursive: false,
            bytes_max: EVENTS_BYTES_MAX,
        }
    }

    fn report(watches: &Watches, name: &str) {
        let place = Place { dir: DIR, name: name.into(), path: format!("dir\\{name}") };
        watches.report(Some(FileIndex(1)), &place, (NotifyAction::ADDED, NAMES), None);
    }

    #[test]
    fn the_watches_of_a_session_are_limited() {
        let (watches, of_session) = (Watches::default(), Arc::default());
        let begin = |of: &Arc<AtomicUsize>| watches.begin(watched(DIR), 0, of);
        let mut all: Vec<_> =
            (0..SESSION_WATCHES_MAX).map(|_| begin(&of_session).unwrap()).collect();
        assert_eq!(begin(&of_session).err(), Some(NtStatus::INSUFFICIENT_RESOURCES));
        assert!(begin(&Arc::default()).is_ok(), "another session");
        all.pop();
        assert!(begin(&of_session).is_ok());
    }

    #[test]
    fn events_that_nobody_fetches_take_bounded_memory() {
        let (watches, of_session) = (Watches::default(), Arc::default());
        // 1,030 watches of 64 KiB each would be more than all may have.
        let all: Vec<_> = (0..1024)
            .map(|_| watches.begin(watched(DIR), 0, &of_session).unwrap())
            .chain((0..6).map(|_| watches.begin(watched(DIR), 0, &Arc::default()).unwrap()))
            .collect();
        let name = "n".repeat(250);
        for _ in 0..EVENTS_BYTES_MAX / (EVENT_BYTES + 2 * name.len()) {
            report(&watches, &name);
            assert!(watches.all_bytes.load(Ordering::Relaxed) <= ALL_EVENTS_BYTES_MAX);
        }
        let statuses: Vec<_> =
            all.iter().map(|watch| watch.watch().take(usize::MAX).unwrap().status).collect();
        assert!(statuses.contains(&NtStatus::NOTIFY_ENUM_DIR), "some have lost their events");
        assert!(statuses.contains(&NtStatus::SUCCESS));
        assert_eq!(watches.all_bytes.load(Ordering::Relaxed), 0);
        report(&watches, "x");
        assert_ne!(watches.all_bytes.load(Ordering::Relaxed), 0);
        drop(all);
        assert_eq!(watches.all_bytes.load(Ordering::Relaxed), 0);
    }
}
