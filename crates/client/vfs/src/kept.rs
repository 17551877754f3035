//! Names and attributes that this mount remembers under names leases: what the kernel asks again is answered from here.
//!
//! Invariants: (1) everything of a directory is under one promise; with another one it begins anew, and the files of before
//! are still told to whoever carries a recall out; (2) attributes of a file are kept beside a name of it, under the
//! promise of its directory; those of a directory under its own; (3) an answer is kept only if this mount itself
//! changed nothing of what it is about since before the question: `Mark`; (4) at most [`FILES_MAX`] names are kept (I9);
//! (5) a directory is *whole* when as many names are remembered as its attributes count: then what is not remembered is not
//! there, and nobody is asked. While this mount is removing one of its names it is not, since the server may be ahead;
//! (6) a listing is given, and taken in, only while this mount changes no entry of the directory: somebody else may have seen the change
//! already; (7) for the same reason no name is said to be absent while this mount makes something under it.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::{Arc, Mutex},
    time::Instant,
};

use braid_client::{Attributes, FileIndex, FileKind, message::mds::ReadDirectoryReply};

use crate::{
    arrivals::{Arrival, Arrivals},
    doubts::Doubts,
    files::lock,
    known::{Keep, Known, Looked},
    listed::Listing,
    promise::Promise,
    vfs::Before,
};

/// Names that are remembered at most: about 100 MB. Beyond it the directories remembered first are given up.
const FILES_MAX: usize = 262_144;
/// After a recall so many questions are asked before the lease is: one that others change all the time is of no use.
const QUESTIONS_AFTER_RECALL: u32 = 8;
/// Directories whose recalls are remembered (I9).
const RECALLED_MAX: usize = 65_536;
/// Places in which changes are counted: what shares one with another is kept a little less often.
const PLACES: usize = 1024;

/// A moment, before a question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u64);

#[derive(Debug)]
pub(crate) struct Cache(Mutex<State>);

#[derive(Debug)]
struct State {
    directories: HashMap<FileIndex, Directory>,
    /// Those directories.
    order: Arrivals,
    /// In which directory a file that is none has its one name.
    parents: HashMap<FileIndex, FileIndex>,
    names: usize,
    recalled: HashMap<FileIndex, u32>,
    /// Removals that are under way, by directory.
    removing: HashMap<FileIndex, u32>,
    /// Changes of entries that are under way, removals too, by directory.
    changing: HashMap<FileIndex, u32>,
    /// Names under which something is being made: others may have seen it already (7).
    making: HashMap<Entry, u32>,
    /// Entries of listings, of all directories together.
    listed: usize,
    /// Renames from one directory to another that this mount has made: a directory's own may have been moved.
    moves: u64,
    changes: u64,
    changed: Vec<u64>,
    /// Of these nothing is remembered.
    doubts: Doubts,
}

/// Names are being removed from these directories.
#[derive(Debug)]
pub(crate) struct Removing<'a> {
    cache: &'a Cache,
    directories: [FileIndex; 2],
}

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.cache.0);
        self.directories.iter().for_each(|directory| one_less(&mut state.removing, *directory));
    }
}

/// Entries of these directories are being changed.
#[derive(Debug)]
pub(crate) struct Changing<'a> {
    cache: &'a Cache,
    directories: [FileIndex; 2],
    /// Something is being made under this name, or moved to it.
    making: Option<Entry>,
}

/// A name in a directory.
type Entry = (FileIndex, Box<[u8]>);

impl Changing<'_> {
    /// Something is being made under this name, or moved to it: until that is done nobody is told that it is absent.
    pub(crate) fn making(mut self, directory: FileIndex, name: &[u8]) -> Self {
        let entry = (directory, Box::from(name));
        *lock(&self.cache.0).making.entry(Clone::clone(&entry)).or_default() += 1;
        self.making = Some(entry);
        self
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.cache.0);
        self.directories.iter().for_each(|directory| one_less(&mut state.changing, *directory));
        if let Some(entry) = self.making.take() {
            one_less(&mut state.making, entry);
        }
    }
}

fn one_less<K: Eq + Hash>(under_way: &mut HashMap<K, u32>, key: K) {
    match under_way.get_mut(&key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => _ = under_way.remove(&key),
    }
}

#[derive(Debug)]
struct Directory {
    promise: Arc<Promise>,
    arrival: Arrival,
    names: HashMap<Box<[u8]>, Option<(FileIndex, FileKind)>>,
    /// Of the names, those that lead somewhere.
    present: u64,
    files: HashMap<FileIndex, Attributes>,
    own: Option<Attributes>,
    listing: Listing,
    /// The directory above, and how many `moves` there had been.
    above: Option<(FileIndex, u64)>,
    /// When this mount last changed the directory without being told how it is since.
    untold: u64,
    /// What was handed out under this or an earlier promise.
    told: HashSet<FileIndex>,
}

impl Default for Cache {
    fn default() -> Self {
        Self(Mutex::new(State {
            directories: HashMap::new(),
            order: Arrivals::default(),
            parents: HashMap::new(),
            names: 0,
            recalled: HashMap::new(),
            removing: HashMap::new(),
            changing: HashMap::new(),
            making: HashMap::new(),
            listed: 0,
            moves: 0,
            changes: 0,
            changed: vec![0; PLACES],
            doubts: Doubts::default(),
        }))
    }
}

impl Cache {
    /// Before a question.
    pub(crate) fn mark(&self) -> Mark {
        Mark(lock(&self.0).changes)
    }

    pub(crate) fn promise(&self, directory: FileIndex) -> Option<Arc<Promise>> {
        lock(&self.0).directories.get(&directory).map(|found| Arc::clone(&found.promise))
    }

    /// Remembers a directory from now on, unless somebody else began under a promise that holds.
    pub(crate) fn begin(
        &self,
        directory: FileIndex,
        promise: Arc<Promise>,
        holds: impl Fn(&Promise) -> bool,
    ) -> Arc<Promise> {
        let mut state = lock(&self.0);
        let told = match state.directories.get(&directory) {
            Some(found) if holds(&found.promise) => return Arc::clone(&found.promise),
            Some(_) => state.take(directory),
            None => HashSet::new(),
        };
        let fresh = Directory {
            promise: Arc::clone(&promise),
            arrival: state.order.add(directory),
            names: HashMap::new(),
            present: 0,
            files: HashMap::new(),
            own: None,
            listing: Listing::default(),
            above: None,
            untold: 0,
            told,
        };
        state.directories.insert(directory, fresh);
        promise
    }

    /// Whether the lease of a directory is to be asked for now.
    pub(crate) fn is_worth_asking(&self, directory: FileIndex) -> bool {
        let mut state = lock(&self.0);
        match state.recalled.get_mut(&directory) {
            Some(0) | None => {
                state.recalled.remove(&directory);
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
        }
    }

    pub(crate) fn recalled(&self, directory: FileIndex) {
        let mut state = lock(&self.0);
        if state.recalled.len() >= RECALLED_MAX {
            state.recalled.clear();
        }
        state.recalled.insert(directory, QUESTIONS_AFTER_RECALL);
    }

    /// Forgets a directory; what was handed out of it. One that was begun again under a promise that holds stays.
    pub(crate) fn take(
        &self,
        directory: FileIndex,
        holds: impl Fn(&Promise) -> bool,
    ) -> Vec<FileIndex> {
        let mut state = lock(&self.0);
        match state.directories.get(&directory) {
            Some(found) if holds(&found.promise) => found.told.iter().copied().collect(),
            Some(_) => state.take(directory).into_iter().collect(),
            None => Vec::new(),
        }
    }

    pub(crate) fn directories(&self) -> Vec<FileIndex> {
        lock(&self.0).directories.keys().copied().collect()
    }

    /// Directories to be given up, so that there is room: the oldest eighth of all names.
    pub(crate) fn too_many(&self, wanted: FileIndex) -> Vec<(FileIndex, Arc<Promise>)> {
        let state = lock(&self.0);
        if state.names <= FILES_MAX {
            return Vec::new();
        }
        let mut freed = 0;
        let oldest = state.order.iter().filter(|(directory, _)| *directory != wanted);
        let oldest = oldest.filter_map(|(directory, arrival)| {
            state.arrived(directory, arrival).map(|found| (directory, found))
        });
        oldest
            .take_while(|(_, found)| {
                let goes_on = freed < FILES_MAX / 8;
                freed += found.names.len() + 1;
                goes_on
            })
            .map(|(directory, found)| (directory, Arc::clone(&found.promise)))
            .collect()
    }

    /// What a name leads to, as far as it is remembered.
    pub(crate) fn look_up(
        &self,
        directory: FileIndex,
        name: &[u8],
        holds: impl Fn(&Promise) -> bool,
    ) -> Option<Looked> {
        let state = lock(&self.0);
        let found = state.directories.get(&directory).filter(|found| holds(&found.promise))?;
        let promise = Some(Arc::clone(&found.promise));
        let leads = match found.names.get(name) {
            Some(leads) => *leads,
            None if state.is_whole(directory, found) => None,
            None => return None,
        };
        match leads {
            None if state.is_being_made(directory, name) => None,
            None => Some(Looked::Absent(Keep { name: promise, attributes: None })),
            Some((file, FileKind::Directory)) => {
                let below = state.directories.get(&file).filter(|below| holds(&below.promise))?;
                let keep = Keep { name: promise, attributes: Some(Arc::clone(&below.promise)) };
                Some(Looked::Found(Known { attributes: below.own.clone()?, keep }))
            }
            Some((file, _)) => {
                let keep = Keep { name: promise.clone(), attributes: promise };
                Some(Looked::Found(Known { attributes: found.files.get(&file)?.clone(), keep }))
            }
        }
    }

    /// What a name leads to, as this mount was told or has made it; `None`: not known. Others may have changed it since.
    pub(crate) fn leads_to(&self, directory: FileIndex, name: &[u8]) -> Option<Option<FileIndex>> {
        let state = lock(&self.0);
        let known = state.directories.get(&directory)?.names.get(name)?;
        Some(known.map(|(file, _)| file))
    }

    /// The attributes of a file, as far as they are remembered.
    pub(crate) fn attributes(
        &self,
        file: FileIndex,
        holds: impl Fn(&Promise) -> bool,
    ) -> Option<Known> {
        let state = lock(&self.0);
        let (attributes, promise) = match state.directories.get(&file) {
            Some(own) => (own.own.as_ref()?, &own.promise),
            None => {
                let above = state.directories.get(state.parents.get(&file)?)?;
                (above.files.get(&file)?, &above.promise)
            }
        };
        let keep = || Keep { name: None, attributes: Some(Arc::clone(promise)) };
        holds(promise).then(|| Known { attributes: attributes.clone(), keep: keep() })
    }

    /// Whether this mount has changed nothing of a file since.
    pub(crate) fn is_unchanged(&self, file: FileIndex, mark: Mark) -> bool {
        lock(&self.0).is_unchanged(file, mark)
    }

    /// Whether a listing of the directory is worth its files' attributes: not all are remembered, and there is room for more.
    pub(crate) fn gains_by_listing(
        &self,
        directory: FileIndex,
        holds: impl Fn(&Promise) -> bool,
    ) -> bool {
        let state = lock(&self.0);
        let found = state.directories.get(&directory).filter(|found| holds(&found.promise));
        state.names < FILES_MAX / 2 && found.is_some_and(|found| !state.is_whole(directory, found))
    }

    /// At most `count` entries of a directory after a cookie, as the server would tell them, where nobody has to be asked and
    /// nothing is gained by asking.
    pub(crate) fn listed(
        &self,
        directory: FileIndex,
        (cookie, count): (u64, usize),
        holds: impl Fn(&Promise) -> bool,
    ) -> Option<ReadDirectoryReply> {
        let state = lock(&self.0);
        let found = state.directories.get(&directory).filter(|found| holds(&found.promise))?;
        let is_quiet = !state.changing.contains_key(&directory);
        let gains = state.names < FILES_MAX / 2 && !state.is_whole(directory, found);
        let last = found.listing.last();
        let after = if is_quiet && !gains { found.listing.after(cookie, count) } else { None };
        after.map(|(entries, end)| ReadDirectoryReply { entries, end, last })
    }

    /// Remembers what was told to come after a cookie.
    pub(crate) fn keep_listed(
        &self,
        promise: &Arc<Promise>,
        mark: Mark,
        cookie: u64,
        told: &ReadDirectoryReply,
        holds: impl Fn(&Promise) -> bool,
    ) {
        let mut state = lock(&self.0);
        let directory = promise.directory();
        let fresh = holds(promise)
            && state.is_unchanged(directory, mark)
            && !state.changing.contains_key(&directory);
        if fresh && state.listed + told.entries.len() <= FILES_MAX {
            let more = state.under(promise).map_or(0, |found| {
                found.listing.extend(cookie, &told.entries, (told.end, told.last))
            });
            state.listed += more;
        }
    }

    /// The directory above one, as far as it is remembered.
    pub(crate) fn above(
        &self,
        directory: FileIndex,
        holds: impl Fn(&Promise) -> bool,
    ) -> Option<FileIndex> {
        let state = lock(&self.0);
        let found = state.directories.get(&directory).filter(|found| holds(&found.promise))?;
        found.above.filter(|(_, moves)| *moves == state.moves).map(|(above, _)| above)
    }

    /// How many moves there were, before the directory above one is asked for.
    pub(crate) fn moves(&self) -> u64 {
        lock(&self.0).moves
    }

    /// Remembers the directory above one: who moves it elsewhere needs the lease of its own names, too.
    pub(crate) fn keep_above(
        &self,
        promise: &Arc<Promise>,
        moves: u64,
        above: FileIndex,
        holds: impl Fn(&Promise) -> bool,
    ) {
        let mut state = lock(&self.0);
        if holds(promise)
            && let Some(found) = state.under(promise)
        {
            found.above = Some((above, moves));
        }
    }

    /// This mount has moved a name from one directory to another, or may have.
    pub(crate) fn moved(&self) {
        lock(&self.0).moves += 1;
    }

    /// The directory in which a file that is none has its one name, as far as that is known.
    pub(crate) fn parent(&self, file: FileIndex) -> Option<FileIndex> {
        lock(&self.0).parents.get(&file).copied()
    }

    /// Remembers what a name leads to, `None`: nowhere, and nothing else of it; whether it may be.
    pub(crate) fn keep_name(
        &self,
        promise: &Arc<Promise>,
        mark: Mark,
        name: &[u8],
        leads: Option<(FileIndex, FileKind)>,
        holds: impl Fn(&Promise) -> bool,
    ) -> bool {
        let mut state = lock(&self.0);
        let fresh = holds(promise) && state.is_unchanged(promise.directory(), mark);
        fresh && state.set_name(promise, name, leads)
    }

    /// Remembers what a name leads to, and the attributes of what is not a directory; what of it may be.
    pub(crate) fn keep_found(
        &self,
        promise: &Arc<Promise>,
        mark: Mark,
        name: &[u8],
        found: &Attributes,
        holds: impl Fn(&Promise) -> bool,
    ) -> Keep {
        let mut state = lock(&self.0);
        let fresh = holds(promise) && state.is_unchanged(promise.directory(), mark);
        if !fresh || !state.set_name(promise, name, Some((found.file, found.kind))) {
            return Keep::default();
        }
        let kept = state.is_unchanged(found.file, mark) && state.set_attributes(promise, found);
        Keep { name: Some(Arc::clone(promise)), attributes: kept.then(|| Arc::clone(promise)) }
    }

    /// Remembers the attributes of a file whose name is remembered, or of the promise's own directory.
    pub(crate) fn keep_attributes(
        &self,
        promise: &Arc<Promise>,
        mark: Mark,
        found: &Attributes,
        holds: impl Fn(&Promise) -> bool,
    ) -> Keep {
        let mut state = lock(&self.0);
        let fresh = holds(promise) && state.is_unchanged(found.file, mark);
        let named = state.parents.get(&found.file) == Some(&promise.directory());
        let kept = fresh
            && match found.file == promise.directory() {
                true => state.set_own(promise, found),
                false => named && state.set_attributes(promise, found),
            };
        Keep { name: None, attributes: kept.then(|| Arc::clone(promise)) }
    }

    /// This mount has changed these files: answers to questions of before are not kept, what is remembered goes.
    pub(crate) fn change(&self, files: &[FileIndex]) {
        let mut state = lock(&self.0);
        files.iter().for_each(|file| state.change(*file));
    }

    /// This mount has changed a file: the moment after it, if it has changed nothing else of it since `mark`.
    pub(crate) fn change_alone(&self, file: FileIndex, mark: Mark) -> Option<Mark> {
        let mut state = lock(&self.0);
        let alone = state.is_unchanged(file, mark);
        state.change(file);
        alone.then_some(Mark(state.changes))
    }

    /// This mount gave up changing an entry of a directory, and the server may yet do it: for a while nothing more is remembered.
    pub(crate) fn doubt(&self, directory: FileIndex) {
        lock(&self.0).doubts.begin(directory, Instant::now());
    }

    /// Whether nothing of a directory is to be remembered for a while.
    pub(crate) fn is_in_doubt(&self, directory: FileIndex) -> bool {
        lock(&self.0).doubts.has(directory, Instant::now)
    }

    /// This mount may have changed what a name leads to. What was handed out of it is still told at a recall.
    pub(crate) fn change_name(&self, directory: FileIndex, name: &[u8]) {
        lock(&self.0).change_name(directory, name);
    }

    /// This mount is about to remove names from these directories, until what comes back is dropped.
    pub(crate) fn removing(&self, directories: [FileIndex; 2]) -> Removing<'_> {
        let mut state = lock(&self.0);
        directories
            .iter()
            .for_each(|directory| *state.removing.entry(*directory).or_default() += 1);
        Removing { cache: self, directories }
    }

    /// This mount is about to change entries of these directories, until what comes back is dropped.
    pub(crate) fn changing(&self, directories: [FileIndex; 2]) -> Changing<'_> {
        let mut state = lock(&self.0);
        directories
            .iter()
            .for_each(|directory| *state.changing.entry(*directory).or_default() += 1);
        Changing { cache: self, directories, making: None }
    }

    /// This mount has removed a name, and was told how the directory is `after` it. Who has the file open forgets its
    /// attributes by itself: it saw the call.
    pub(crate) fn remove_name(
        &self,
        (directory, name): (FileIndex, &[u8]),
        Before { promise, mark, .. }: &Before<'_>,
        after: Option<Attributes>,
        holds: impl Fn(&Promise) -> bool,
    ) {
        let mut state = lock(&self.0);
        if let Some((file, _)) = state.forget_name(directory, name) {
            state.forget_removed(directory, file);
        }
        state.change_entries(
            directory,
            promise.as_ref().filter(|promise| holds(promise)),
            *mark,
            after,
        );
    }

    /// This mount has changed the entries of a directory, and was told how it is `after` it.
    pub(crate) fn change_entries(
        &self,
        directory: FileIndex,
        promise: &Arc<Promise>,
        mark: Mark,
        after: Option<Attributes>,
        holds: impl Fn(&Promise) -> bool,
    ) {
        lock(&self.0).change_entries(
            directory,
            Some(promise).filter(|promise| holds(promise)),
            mark,
            after,
        );
    }

    /// This mount has moved a name, or exchanged two, and held the promises of both directories ever since before.
    /// What of it is to be dropped where it was handed out: files that are now in a directory without a promise.
    pub(crate) fn rename(
        &self,
        from: (FileIndex, &[u8]),
        to: (FileIndex, &[u8]),
        exchanges: bool,
        promises: &[Option<Arc<Promise>>; 2],
    ) -> Vec<FileIndex> {
        let mut state = lock(&self.0);
        [from.0, to.0].into_iter().for_each(|directory| state.change(directory));
        let (moved, replaced) = (state.forget_name(from.0, from.1), state.forget_name(to.0, to.1));
        if let Some((file, _)) = replaced.filter(|_| !exchanges) {
            state.forget_removed(to.0, file);
        }
        let mut dropped = Vec::new();
        let mut moves = vec![(moved, from.0, to, &promises[1])];
        moves.push((replaced.filter(|_| exchanges), to.0, from, &promises[0]));
        for (leads, before, (directory, name), promise) in moves {
            let Some((file, kind)) = leads else { continue };
            state.change(file);
            let kept = promise
                .as_ref()
                .is_some_and(|promise| state.set_name(promise, name, Some((file, kind))));
            let leaves = before != directory && kind != FileKind::Directory;
            if leaves || !kept {
                state.forget_file(before, file);
            }
            if leaves {
                state.forget_told(before, file);
                match state.directories.get_mut(&directory).filter(|_| kept) {
                    Some(found) => {
                        found.told.insert(file);
                        state.parents.insert(file, directory);
                    }
                    None => dropped.push(file),
                }
            }
        }
        dropped
    }
}

impl State {
    /// The directory that came then, unless it is gone.
    fn arrived(&self, directory: FileIndex, arrival: Arrival) -> Option<&Directory> {
        self.directories.get(&directory).filter(|found| found.arrival == arrival)
    }

    fn change(&mut self, file: FileIndex) {
        self.count_change(file);
        if let Some(own) = self.directories.get_mut(&file) {
            (own.own, own.untold) = (None, self.changes);
        }
        if let Some(above) =
            self.parents.get(&file).and_then(|above| self.directories.get_mut(above))
        {
            above.files.remove(&file);
        }
    }

    /// Entries were changed. What the server told with the answer is newer than what was told with another answer exactly if
    /// its change counter is.
    fn change_entries(
        &mut self,
        directory: FileIndex,
        promise: Option<&Arc<Promise>>,
        mark: Mark,
        after: Option<Attributes>,
    ) {
        let after = after.filter(|after| after.file == directory && !after.shared);
        let told =
            promise.zip(after).is_some_and(|(promise, after)| self.set_after(promise, mark, after));
        match told {
            true => self.count_change(directory),
            false => self.change(directory),
        }
    }

    fn set_after(&mut self, promise: &Arc<Promise>, mark: Mark, after: Attributes) -> bool {
        let Some(found) = self.under(promise) else { return false };
        if found.own.as_ref().is_some_and(|own| own.change >= after.change) {
            return true;
        }
        let fresh = found.untold <= mark.0;
        if fresh {
            found.own = Some(after);
        }
        fresh
    }

    fn count_change(&mut self, file: FileIndex) {
        self.changes += 1;
        self.changed[place(file)] = self.changes;
        if let Some(found) = self.directories.get_mut(&file) {
            self.listed -= std::mem::take(&mut found.listing).len();
        }
    }

    fn is_being_made(&self, directory: FileIndex, name: &[u8]) -> bool {
        !self.making.is_empty() && self.making.contains_key(&(directory, Box::from(name)))
    }

    /// Whether all names of a directory are remembered (5).
    fn is_whole(&self, directory: FileIndex, found: &Directory) -> bool {
        let counted = found.own.as_ref().map(|own| own.bytes.0);
        counted == Some(found.present) && !self.removing.contains_key(&directory)
    }

    fn is_unchanged(&self, file: FileIndex, mark: Mark) -> bool {
        self.changed[place(file)] <= mark.0
    }

    /// Under the promise that the directory is remembered by, unless nothing is to be.
    fn under(&mut self, promise: &Arc<Promise>) -> Option<&mut Directory> {
        if self.doubts.has(promise.directory(), Instant::now) {
            return None;
        }
        self.directories
            .get_mut(&promise.directory())
            .filter(|found| Arc::ptr_eq(&found.promise, promise))
    }

    fn set_name(
        &mut self,
        promise: &Arc<Promise>,
        name: &[u8],
        leads: Option<(FileIndex, FileKind)>,
    ) -> bool {
        if self.names > FILES_MAX + FILES_MAX / 8 {
            return false;
        }
        let Some(found) = self.under(promise) else { return false };
        let old = found.names.insert(name.into(), leads);
        found.present += u64::from(leads.is_some());
        found.present -= u64::from(old.is_some_and(|old| old.is_some()));
        match old {
            None => self.names += 1,
            Some(Some((file, _))) if leads.is_none_or(|(now, _)| now != file) => {
                self.forget_file(promise.directory(), file)
            }
            Some(_) => {}
        }
        true
    }

    fn set_attributes(&mut self, promise: &Arc<Promise>, found: &Attributes) -> bool {
        if found.kind == FileKind::Directory || found.shared {
            return false;
        }
        let Some(directory) = self.under(promise) else { return false };
        directory.told.insert(found.file);
        directory.files.insert(found.file, found.clone());
        self.parents.insert(found.file, promise.directory());
        true
    }

    fn set_own(&mut self, promise: &Arc<Promise>, found: &Attributes) -> bool {
        let Some(directory) = self.under(promise).filter(|_| !found.shared) else { return false };
        directory.own = Some(found.clone());
        true
    }

    fn change_name(&mut self, directory: FileIndex, name: &[u8]) {
        self.change(directory);
        if let Some((file, _)) = self.forget_name(directory, name) {
            self.change(file);
            self.forget_file(directory, file);
        }
    }

    /// A name of this file was removed from a directory, or given to another.
    fn forget_removed(&mut self, directory: FileIndex, file: FileIndex) {
        self.change(file);
        self.forget_file(directory, file);
        self.forget_told(directory, file);
    }

    fn forget_name(&mut self, directory: FileIndex, name: &[u8]) -> Option<(FileIndex, FileKind)> {
        let found = self.directories.get_mut(&directory)?;
        let old = found.names.remove(name)?;
        found.present -= u64::from(old.is_some());
        self.names -= 1;
        old
    }

    fn forget_file(&mut self, directory: FileIndex, file: FileIndex) {
        if self.parents.get(&file) == Some(&directory) {
            self.parents.remove(&file);
        }
        if let Some(found) = self.directories.get_mut(&directory) {
            found.files.remove(&file);
        }
    }

    fn forget_told(&mut self, directory: FileIndex, file: FileIndex) {
        if let Some(found) = self.directories.get_mut(&directory) {
            found.told.remove(&file);
        }
    }

    fn take(&mut self, directory: FileIndex) -> HashSet<FileIndex> {
        let Some(found) = self.directories.remove(&directory) else { return HashSet::new() };
        let left = &self.directories;
        self.order.tidy(left.len(), |one, arrival| {
            left.get(&one).is_some_and(|found| found.arrival == arrival)
        });
        self.names -= found.names.len();
        self.listed -= found.listing.len();
        for file in found.names.values().flatten().map(|(file, _)| file) {
            if self.parents.get(file) == Some(&directory) {
                self.parents.remove(file);
            }
        }
        found.told
    }
}

fn place(file: FileIndex) -> usize {
    (file.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % PLACES
}

#[cfg(test)]
mod tests;
