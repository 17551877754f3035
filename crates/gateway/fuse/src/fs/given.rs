//! Names that the kernel was given as ones to be remembered: by these it is told to forget. docs/adr/0023.
//!
//! Invariants: (1) a name is noted before the answer that gives it is written, within [`braid_vfs::Vfs::hand_out`], so that a recall finds it;
//! so is the directory, if attributes of what is found there are given: the kernel may have no node yet that they could be dropped of;
//! (2) a directory that another mount has just changed gives nothing for a while: where several change and look, a recall has nothing to wait
//! for; (3) what is noted and what waits is bounded (I9): what the kernel believes no more goes, and beyond it nothing is given.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use braid_vfs::FileIndex;

use super::convert::NAME_VALID;

/// So long after a recall nothing of the directory is given.
const QUIET: Duration = Duration::from_secs(1);
/// Names and directories at most, about 100 bytes each and a name's own.
const NOTES_MAX: usize = 524_288;
/// So long the kernel may believe in a name: a thread of it that was given the answer applies it when it runs.
const BELIEVED: Duration = NAME_VALID.saturating_add(Duration::from_secs(5));
/// How often it is looked whether there is something to go.
const TIDY_EVERY: Duration = Duration::from_secs(1);
/// Recalls that are remembered at most.
const RECALLED_MAX: usize = 65_536;

/// The names of one mount.
#[derive(Debug, Default)]
pub(super) struct Given(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    directories: HashMap<FileIndex, Names>,
    /// Names and directories.
    notes: usize,
    notes_tidied: Option<Instant>,
    recalled_tidied: Option<Instant>,
    recalled: HashMap<FileIndex, Instant>,
    /// When requests came that the kernel waits for while it holds the locks of these directories.
    locked: HashMap<FileIndex, Vec<Instant>>,
}

#[derive(Debug)]
struct Names {
    /// And when each was given.
    names: HashMap<Box<[u8]>, Instant>,
    /// When the last was, or attributes of what is found here.
    last: Instant,
}

/// What a directory had given.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) names: Vec<Box<[u8]>>,
    /// When the last was.
    pub(super) last: Instant,
}

/// The kernel holds the locks of these directories.
#[derive(Debug)]
pub(super) struct Locked<'g> {
    given: &'g Given,
    directories: [FileIndex; 2],
    since: Instant,
}

impl Given {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a name is about to be given, or without one that attributes of what is found in the directory are; whether they may be.
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
        let has_room = state.notes + 2 <= NOTES_MAX;
        let State { directories, notes, .. } = &mut *state;
        let found = match directories.entry(directory) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(_) if !has_room => return false,
            Entry::Vacant(none) => {
                *notes += 1;
                none.insert(Names { names: HashMap::new(), last: now })
            }
        };
        match name.map(|name| (name, found.names.get_mut(name))) {
            None => {}
            Some((_, Some(at))) => *at = now,
            Some((_, None)) if !has_room => return false,
            Some((name, None)) => {
                *notes += 1;
                found.names.insert(name.into(), now);
            }
        }
        found.last = now;
        true
    }

    /// The kernel has the name no more.
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

    /// What the kernel is to forget of a directory, which gives nothing for a while.
    pub(super) fn take(&self, directory: FileIndex, now: Instant) -> Option<Taken> {
        let mut state = self.state();
        if state.recalled.len() >= RECALLED_MAX && is_time(&mut state.recalled_tidied, now) {
            state.recalled.retain(|_, at| now.saturating_duration_since(*at) < QUIET);
        }
        if state.recalled.len() < RECALLED_MAX {
            state.recalled.insert(directory, now);
        }
        let Names { names, last } = state.directories.remove(&directory)?;
        state.notes -= names.len() + 1;
        let names = names
            .into_iter()
            .filter(|(_, at)| is_believed(*at, now))
            .map(|(name, _)| name)
            .collect();
        is_believed(last, now).then_some(Taken { names, last })
    }

    /// A request has come that the kernel waits for with these directories (the same twice, if it is one) locked; until what comes back is
    /// dropped.
    pub(super) fn locked(&self, directories: [FileIndex; 2], since: Instant) -> Locked<'_> {
        let mut state = self.state();
        directories
            .iter()
            .for_each(|directory| state.locked.entry(*directory).or_default().push(since));
        Locked { given: self, directories, since }
    }

    /// Whether the kernel has waited for this mount since before then, and held the directory's lock.
    pub(super) fn is_locked_since(&self, directory: FileIndex, then: Option<Instant>) -> bool {
        self.state()
            .locked
            .get(&directory)
            .is_some_and(|times| times.iter().any(|since| Some(*since) <= then))
    }
}

impl State {
    /// What the kernel believes no more goes.
    fn tidy(&mut self, now: Instant) {
        if !is_time(&mut self.notes_tidied, now) {
            return;
        }
        self.directories.retain(|_, found| {
            found.names.retain(|_, at| is_believed(*at, now));
            is_believed(found.last, now)
        });
        self.notes = self.directories.values().map(|found| found.names.len() + 1).sum();
    }
}

/// Whether it was last tidied so long ago that it is to be tidied now.
fn is_time(last: &mut Option<Instant>, now: Instant) -> bool {
    let is_time = last.is_none_or(|last| now.saturating_duration_since(last) >= TIDY_EVERY);
    if is_time {
        *last = Some(now);
    }
    is_time
}

fn is_believed(given: Instant, now: Instant) -> bool {
    now.saturating_duration_since(given) < BELIEVED
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let mut state = self.given.state();
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

    fn names(taken: Option<Taken>) -> Vec<Box<[u8]>> {
        let mut names = taken.map(|taken| taken.names).unwrap_or_default();
        names.sort();
        names
    }

    #[test]
    fn a_recall_finds_each_name_of_its_directory_once() {
        let (given, now) = (Given::default(), Instant::now());
        for (directory, name) in [(ONE, b"a"), (ONE, b"b"), (ONE, b"a"), (OTHER, b"c")] {
            assert!(given.note(directory, Some(name), now));
        }
        given.forget(ONE, b"b");
        given.forget(ONE, b"b");
        assert_eq!(names(given.take(ONE, now)), [b"a".as_slice().into()]);
        assert!(given.take(ONE, now).is_none());
        assert_eq!(given.state().notes, 2, "the other directory's");
    }

    #[test]
    fn a_directory_that_was_recalled_gives_nothing_for_a_while() {
        let (given, now) = (Given::default(), Instant::now());
        assert!(given.take(ONE, now).is_none());
        assert!(
            !given.note(ONE, Some(b"a"), now + QUIET / 2)
                && !given.note(ONE, None, now + QUIET / 2)
        );
        assert!(given.note(OTHER, Some(b"a"), now));
        assert!(given.note(ONE, Some(b"a"), now + QUIET));
    }

    #[test]
    fn recalls_that_are_remembered_are_bounded_and_those_that_matter_no_more_go_first() {
        let (given, now) = (Given::default(), Instant::now());
        (0..2 * RECALLED_MAX as u64).for_each(|number| drop(given.take(FileIndex(number), now)));
        assert_eq!(given.state().recalled.len(), RECALLED_MAX);
        given.take(OTHER, now + QUIET);
        assert_eq!(given.state().recalled.len(), 1);
    }

    #[test]
    fn no_more_names_are_given_than_can_be_noted_and_those_that_are_believed_no_more_make_room() {
        let (given, now) = (Given::default(), Instant::now());
        let note = |number: usize, at| given.note(ONE, Some(format!("{number}").as_bytes()), at);
        assert!((0..NOTES_MAX - 2).all(|number| note(number, now)));
        assert!(!note(NOTES_MAX, now) && !given.note(OTHER, None, now));
        assert!(note(7, now + BELIEVED / 2), "that one is noted");
        assert!(!note(NOTES_MAX, now + BELIEVED / 2));
        assert!(given.note(OTHER, Some(b"a"), now + BELIEVED));
        assert_eq!(given.state().notes, 4, "each directory and its name");
    }

    #[test]
    fn a_recall_tells_nothing_that_is_believed_no_more() {
        let (given, now) = (Given::default(), Instant::now());
        assert!(
            given.note(ONE, Some(b"a"), now) && given.note(ONE, Some(b"b"), now + BELIEVED / 2)
        );
        assert!(given.note(OTHER, Some(b"c"), now));
        assert_eq!(names(given.take(ONE, now + BELIEVED)), [b"b".as_slice().into()]);
        assert!(given.take(OTHER, now + BELIEVED).is_none());
        assert_eq!(given.state().notes, 0);
    }

    #[test]
    fn a_directory_that_gave_attributes_alone_is_taken_without_names() {
        let (given, now) = (Given::default(), Instant::now());
        assert!(given.note(ONE, None, now));
        assert!(given.take(ONE, now).is_some_and(|taken| taken.names.is_empty()));
        assert!(given.take(ONE, now).is_none());
    }

    #[test]
    fn a_directory_is_locked_until_the_last_request_is_done() {
        let (given, now) = (Given::default(), Instant::now());
        let is_locked = |directory, then| given.is_locked_since(directory, Some(then));
        let (first, second) =
            (given.locked([ONE, ONE], now), given.locked([ONE, OTHER], now + QUIET));
        assert!(is_locked(ONE, now) && !is_locked(OTHER, now), "the second came later");
        drop(first);
        assert!(
            !is_locked(ONE, now) && is_locked(ONE, now + QUIET) && is_locked(OTHER, now + QUIET)
        );
        drop(second);
        assert!(given.state().locked.is_empty());
    }
}
