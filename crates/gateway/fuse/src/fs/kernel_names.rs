//! Names that the kernel may cache, noted so that a recall can expire them. docs/adr/0023.
//!
//! Invariants:
//! 1. A name is noted before the reply with it is written, within
//!    [`braid_vfs::Vfs::reply_cacheable`], so that a recall finds it. If attributes of files in a
//!    directory are cacheable, the directory is noted: the kernel may have no node yet whose
//!    attributes could be dropped.
//! 2. For a while after another mount has changed a directory, nothing of it is cacheable. Where
//!    several mounts change and look, a recall then has nothing to wait for.
//! 3. The notes and the recalls are bounded (I9). Notes that the kernel does not use any more are
//!    removed. Where there are too many, nothing is cacheable.
//!
//! `note` and `take` assert 3, and `note` refuses what would break 2. The caller writes its reply
//! within `reply_cacheable` (1), which cannot be seen here.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use braid_vfs::FileIndex;

use super::convert::NAME_VALID;

/// How long after a recall nothing of the directory is cacheable.
const QUIET: Duration = Duration::from_secs(1);
/// Names and directories at most; each takes about 100 bytes, and a name its own.
const NOTES_MAX: usize = 524_288;
/// How long the kernel may use a name: its thread that reads the reply may apply it a little later.
const USABLE: Duration = NAME_VALID.saturating_add(Duration::from_secs(5));
/// How often unusable notes are removed at most.
const TIDY_EVERY: Duration = Duration::from_secs(1);
/// Recalls that are remembered at most.
const RECALLED_MAX: usize = 65_536;

/// The names that one mount's kernel may cache.
#[derive(Debug, Default)]
pub(super) struct KernelNames(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    directories: HashMap<FileIndex, Names>,
    /// How many names and directories there are.
    notes: usize,
    notes_tidied: Option<Instant>,
    recalled_tidied: Option<Instant>,
    recalled: HashMap<FileIndex, Instant>,
    /// Directories whose lock the kernel holds while it waits for a request, and when the requests
    /// came.
    locked: HashMap<FileIndex, Vec<Instant>>,
}

#[derive(Debug)]
struct Names {
    /// The time of the last reply with each name.
    names: HashMap<Box<[u8]>, Instant>,
    /// The time of the last reply with a name or with attributes of a file in this directory.
    last: Instant,
}

/// The noted names of a directory.
#[derive(Debug)]
pub(super) struct TakenNames {
    pub(super) names: Vec<Box<[u8]>>,
    /// The time of the last reply.
    pub(super) last: Instant,
}

/// While this exists the kernel holds the locks of these directories.
#[derive(Debug)]
pub(super) struct DirectoryLocks<'g> {
    noted: &'g KernelNames,
    directories: [FileIndex; 2],
    since: Instant,
}

impl KernelNames {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(braid_types::poisoned)
    }

    /// Notes that a reply is about to make a name cacheable or, without a name, attributes of a
    /// file in the directory. Whether it may.
    pub(super) fn note(&self, directory: FileIndex, name: Option<&[u8]>, now: Instant) -> bool {
        let mut state = self.state();
        if let Some(at) = state.recalled.get(&directory) {
            if now.saturating_duration_since(*at) < QUIET {
                return false;
            }
            state.recalled.remove(&directory);
        }
        if state.notes + 2 > NOTES_MAX {
            state.tidy(now);
        }
        let has_space = state.notes + 2 <= NOTES_MAX;
        let State { directories, notes, .. } = &mut *state;
        let found = match directories.entry(directory) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(_) if !has_space => return false,
            Entry::Vacant(none) => {
                *notes += 1;
                none.insert(Names { names: HashMap::new(), last: now })
            }
        };
        match name.map(|name| (name, found.names.get_mut(name))) {
            None => {}
            Some((_, Some(at))) => *at = now,
            Some((_, None)) if !has_space => return false,
            Some((name, None)) => {
                *notes += 1;
                found.names.insert(name.into(), now);
            }
        }
        found.last = now;
        debug_assert!(*notes <= NOTES_MAX, "3: more names are noted than allowed");
        true
    }

    /// The kernel does not have the name any more.
    pub(super) fn forget(&self, directory: FileIndex, name: &[u8]) {
        let mut state = self.state();
        if state
            .directories
            .get_mut(&directory)
            .is_some_and(|found| found.names.remove(name).is_some())
        {
            state.notes -= 1;
        }
    }

    /// Takes the names of a directory that the kernel must expire. Nothing of it is cacheable for a
    /// while.
    pub(super) fn take(&self, directory: FileIndex, now: Instant) -> Option<TakenNames> {
        let mut state = self.state();
        if state.recalled.len() >= RECALLED_MAX && is_time(&mut state.recalled_tidied, now) {
            state.recalled.retain(|_, at| now.saturating_duration_since(*at) < QUIET);
        }
        if state.recalled.len() < RECALLED_MAX {
            state.recalled.insert(directory, now);
        }
        debug_assert!(state.recalled.len() <= RECALLED_MAX, "3: bounded");
        let Names { names, last } = state.directories.remove(&directory)?;
        state.notes -= names.len() + 1;
        let names =
            names.into_iter().filter(|(_, at)| is_usable(*at, now)).map(|(name, _)| name).collect();
        is_usable(last, now).then_some(TakenNames { names, last })
    }

    /// A request has come for which the kernel waits with these directories locked. For one
    /// directory, name it twice.
    pub(super) fn locked(&self, directories: [FileIndex; 2], since: Instant) -> DirectoryLocks<'_> {
        let mut state = self.state();
        directories
            .iter()
            .for_each(|directory| state.locked.entry(*directory).or_default().push(since));
        DirectoryLocks { noted: self, directories, since }
    }

    /// Whether the kernel has held the directory's lock since before `then` and waits for this
    /// mount.
    pub(super) fn is_locked_since(&self, directory: FileIndex, then: Option<Instant>) -> bool {
        self.state()
            .locked
            .get(&directory)
            .is_some_and(|times| times.iter().any(|since| Some(*since) <= then))
    }
}

impl State {
    /// Removes names that the kernel cannot use any more.
    fn tidy(&mut self, now: Instant) {
        if !is_time(&mut self.notes_tidied, now) {
            return;
        }
        self.directories.retain(|_, found| {
            found.names.retain(|_, at| is_usable(*at, now));
            is_usable(found.last, now)
        });
        self.notes = self.directories.values().map(|found| found.names.len() + 1).sum();
    }
}

/// Whether the last removal was long enough ago; if so, notes this one.
fn is_time(last: &mut Option<Instant>, now: Instant) -> bool {
    let is_time = last.is_none_or(|last| now.saturating_duration_since(last) >= TIDY_EVERY);
    if is_time {
        *last = Some(now);
    }
    is_time
}

fn is_usable(noted: Instant, now: Instant) -> bool {
    now.saturating_duration_since(noted) < USABLE
}

impl Drop for DirectoryLocks<'_> {
    fn drop(&mut self) {
        let mut state = self.noted.state();
        for directory in self.directories {
            let Some(times) = state.locked.get_mut(&directory) else { continue };
            if let Some(at) = times.iter().position(|since| *since == self.since) {
                times.swap_remove(at);
            }
            if times.is_empty() {
                state.locked.remove(&directory);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: FileIndex = FileIndex(7);
    const OTHER: FileIndex = FileIndex(8);

    fn names(taken: Option<TakenNames>) -> Vec<Box<[u8]>> {
        let mut names = taken.map(|taken| taken.names).unwrap_or_default();
        names.sort();
        names
    }

    #[test]
    fn a_recall_finds_each_name_of_its_directory_once() {
        let (noted, now) = (KernelNames::default(), Instant::now());
        for (directory, name) in [(ONE, b"a"), (ONE, b"b"), (ONE, b"a"), (OTHER, b"c")] {
            assert!(noted.note(directory, Some(name), now));
        }
        noted.forget(ONE, b"b");
        noted.forget(ONE, b"b");
        assert_eq!(names(noted.take(ONE, now)), [b"a".as_slice().into()]);
        assert!(noted.take(ONE, now).is_none());
        assert_eq!(noted.state().notes, 2, "the other directory's");
    }

    #[test]
    fn after_a_recall_nothing_of_a_directory_is_cacheable_for_a_while() {
        let (noted, now) = (KernelNames::default(), Instant::now());
        assert!(noted.take(ONE, now).is_none());
        assert!(
            !noted.note(ONE, Some(b"a"), now + QUIET / 2)
                && !noted.note(ONE, None, now + QUIET / 2)
        );
        assert!(noted.note(OTHER, Some(b"a"), now));
        assert!(noted.note(ONE, Some(b"a"), now + QUIET));
    }

    #[test]
    fn remembered_recalls_are_bounded_and_expired_ones_are_removed_first() {
        let (noted, now) = (KernelNames::default(), Instant::now());
        (0..2 * RECALLED_MAX as u64).for_each(|number| drop(noted.take(FileIndex(number), now)));
        assert_eq!(noted.state().recalled.len(), RECALLED_MAX);
        noted.take(OTHER, now + QUIET);
        assert_eq!(noted.state().recalled.len(), 1);
    }

    #[test]
    fn cacheable_names_are_bounded_and_expired_ones_make_space() {
        let (noted, now) = (KernelNames::default(), Instant::now());
        let note = |number: usize, at| noted.note(ONE, Some(format!("{number}").as_bytes()), at);
        assert!((0..NOTES_MAX - 2).all(|number| note(number, now)));
        assert!(!note(NOTES_MAX, now) && !noted.note(OTHER, None, now));
        assert!(note(7, now + USABLE / 2), "it is noted already");
        assert!(!note(NOTES_MAX, now + USABLE / 2));
        assert!(noted.note(OTHER, Some(b"a"), now + USABLE));
        assert_eq!(noted.state().notes, 4, "each directory and its name");
    }

    #[test]
    fn a_recall_leaves_out_names_that_the_kernel_cannot_use_any_more() {
        let (noted, now) = (KernelNames::default(), Instant::now());
        assert!(noted.note(ONE, Some(b"a"), now) && noted.note(ONE, Some(b"b"), now + USABLE / 2));
        assert!(noted.note(OTHER, Some(b"c"), now));
        assert_eq!(names(noted.take(ONE, now + USABLE)), [b"b".as_slice().into()]);
        assert!(noted.take(OTHER, now + USABLE).is_none());
        assert_eq!(noted.state().notes, 0);
    }

    #[test]
    fn a_directory_with_cacheable_attributes_only_is_taken_without_names() {
        let (noted, now) = (KernelNames::default(), Instant::now());
        assert!(noted.note(ONE, None, now));
        assert!(noted.take(ONE, now).is_some_and(|taken| taken.names.is_empty()));
        assert!(noted.take(ONE, now).is_none());
    }

    #[test]
    fn a_directory_is_locked_until_the_last_request_is_done() {
        let (noted, now) = (KernelNames::default(), Instant::now());
        let is_locked = |directory, then| noted.is_locked_since(directory, Some(then));
        let (first, second) =
            (noted.locked([ONE, ONE], now), noted.locked([ONE, OTHER], now + QUIET));
        assert!(is_locked(ONE, now) && !is_locked(OTHER, now), "the second came later");
        drop(first);
        assert!(
            !is_locked(ONE, now) && is_locked(ONE, now + QUIET) && is_locked(OTHER, now + QUIET)
        );
        drop(second);
        assert!(noted.state().locked.is_empty());
    }
}
