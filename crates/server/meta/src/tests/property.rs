//! Random operations against a model file system in memory, with failing commits, kills and losses
//! of power in between.

use std::collections::{BTreeMap, BTreeSet};

use braid_types::fold;
use proptest::prelude::*;

use super::*;
use crate::RenameMode;

/// The expected state of the namespace.
#[derive(Clone, Default, Debug, PartialEq)]
struct Model {
    /// Entries of each directory.
    directories: BTreeMap<FileIndex, BTreeMap<Vec<u8>, FileIndex>>,
    /// Names of each file that is not a directory.
    links: BTreeMap<FileIndex, u32>,
}

impl Model {
    fn new() -> Self {
        Self { directories: BTreeMap::from([(ROOT, BTreeMap::new())]), ..Self::default() }
    }

    fn directory(&self, pick: usize) -> FileIndex {
        *self.directories.keys().nth(pick % self.directories.len()).unwrap()
    }

    fn at(&self, (directory, name): (FileIndex, &[u8])) -> Option<FileIndex> {
        self.directories[&directory].get(name).copied()
    }

    fn set(&mut self, (directory, name): (FileIndex, &[u8]), file: Option<FileIndex>) {
        let entries = self.directories.get_mut(&directory).unwrap();
        match file {
            Some(file) => entries.insert(name.to_vec(), file),
            None => entries.remove(name),
        };
    }

    fn is_directory(&self, file: FileIndex) -> bool {
        self.directories.contains_key(&file)
    }

    /// Removes the file of a name, or says why it cannot.
    fn remove(&mut self, place: (FileIndex, &[u8]), directory: bool) -> Result<(), Status> {
        let file = self.at(place).ok_or(Status::NotFound)?;
        self.check_removable(file, directory)?;
        self.set(place, None);
        self.forget(file);
        Ok(())
    }

    fn check_removable(&self, file: FileIndex, directory: bool) -> Result<(), Status> {
        match (self.directories.get(&file), directory) {
            (Some(_), false) => Err(Status::IsDirectory),
            (None, true) => Err(Status::NotDirectory),
            (Some(entries), true) if !entries.is_empty() => Err(Status::NotEmpty),
            _ => Ok(()),
        }
    }

    fn forget(&mut self, file: FileIndex) {
        self.directories.remove(&file);
        if let Some(links) = self.links.get_mut(&file) {
            *links -= 1;
            if *links == 0 {
                self.links.remove(&file);
            }
        }
    }

    /// Whether `inner` is `outer` or lies below it.
    fn lies_in(&self, inner: FileIndex, outer: FileIndex) -> bool {
        let below = |file: &FileIndex| self.is_directory(*file) && self.lies_in(inner, *file);
        inner == outer
            || self.directories.get(&outer).is_some_and(|entries| entries.values().any(below))
    }

    fn rename(
        &mut self,
        from: (FileIndex, &[u8]),
        to: (FileIndex, &[u8]),
        mode: RenameMode,
    ) -> Result<(), Status> {
        let source = self.at(from).ok_or(Status::NotFound)?;
        let target = self.at(to);
        if target.is_some() && mode == RenameMode::NoReplace {
            return Err(Status::Exists);
        }
        if self.is_directory(source) && self.lies_in(to.0, source) {
            return Err(Status::WouldLoop);
        }
        match (target, mode) {
            (None, RenameMode::Exchange) => return Err(Status::NotFound),
            (Some(target), _) if target == source => return Ok(()),
            (Some(target), RenameMode::Exchange) => {
                if self.is_directory(target) && self.lies_in(from.0, target) {
                    return Err(Status::WouldLoop);
                }
                self.set(from, Some(target));
            }
            (Some(target), _) => {
                let wanted = self.is_directory(source);
                self.check_removable(target, wanted)?;
                self.set(from, None);
                self.forget(target);
            }
            (None, _) => self.set(from, None),
        }
        self.set(to, Some(source));
        Ok(())
    }
}

/// A directory (modulo their number) and one of a few names.
type Place = (usize, u8);

#[derive(Clone, Debug)]
enum Step {
    Create(Place),
    Mkdir(Place),
    Symlink(Place),
    Link(Place, Place),
    Unlink(Place),
    Rmdir(Place),
    Rename(Place, Place, u8),
    /// Without regard to case.
    LookUp(Place),
    /// The commit of the next operation fails.
    FailNext,
    Sync,
    Kill,
    /// A loss of power; this share of the unsynced batches, in 256ths, had reached the disk.
    LosePower(u8),
}

fn place_strategy() -> impl Strategy<Value = Place> {
    (0..6usize, 0..NAMES.len() as u8)
}

fn step_strategy() -> impl Strategy<Value = Step> {
    let place = place_strategy;
    prop_oneof![
        4 => place().prop_map(Step::Create),
        3 => place().prop_map(Step::Mkdir),
        1 => place().prop_map(Step::Symlink),
        2 => (place(), place()).prop_map(|(a, b)| Step::Link(a, b)),
        3 => place().prop_map(Step::Unlink),
        2 => place().prop_map(Step::Rmdir),
        6 => (place(), place(), 0..3u8).prop_map(|(a, b, mode)| Step::Rename(a, b, mode)),
        2 => place().prop_map(Step::LookUp),
        2 => Just(Step::FailNext),
        1 => Just(Step::Sync),
        1 => Just(Step::Kill),
        1 => any::<u8>().prop_map(Step::LosePower),
    ]
}

/// Namespace and model next to each other.
struct Bench {
    store: Arc<MemoryStore>,
    ns: Namespace,
    model: Model,
    /// The model after each sequence since the last sync.
    history: BTreeMap<u64, Model>,
    failing: bool,
}

const NAMES: [&[u8]; 7] = [
    b"a",
    b"b",
    b"A",
    "ä".as_bytes(),
    "Ä".as_bytes(),
    &[0xff, 0xfe],
    b"a longer name than the others",
];

impl Bench {
    fn new() -> Self {
        let (store, ns) = memory();
        let history = BTreeMap::from([(store.committed().0, Model::new())]);
        Self { store, ns, model: Model::new(), history, failing: false }
    }

    fn place(&self, (directory, name): Place) -> (FileIndex, &'static [u8]) {
        (self.model.directory(directory), NAMES[usize::from(name)])
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::FailNext => {
                self.store
                    .set_faults(crate::Faults { failing_commits: vec![0], ..Default::default() });
                self.failing = true;
            }
            Step::Sync => {
                self.ns.sync().unwrap();
                self.history = BTreeMap::from([(self.store.committed().0, self.model.clone())]);
            }
            Step::Kill => self.restart(self.store.kill()),
            Step::LosePower(share) => {
                self.restart(
                    self.store.lose_power(self.store.unsynced() * usize::from(*share) / 255),
                );
            }
            operation => self.operate(operation),
        }
    }

    fn restart(&mut self, store: MemoryStore) {
        let newest = self.history.range(..=store.committed().0).next_back();
        self.model = newest.expect("synced changes are not lost (I6)").1.clone();
        self.store = Arc::new(store);
        self.ns = open(self.store.clone());
        self.history = BTreeMap::from([(self.store.committed().0, self.model.clone())]);
        self.failing = false;
        self.compare();
    }

    fn operate(&mut self, operation: &Step) {
        let before = self.store.committed();
        let mut expected = self.model.clone();
        let unchanged = self.model.clone();
        let (want, got) = self.both(operation, &mut expected);
        match got {
            Err(failure) if failure.status == Status::DiskError && self.failing => {
                self.failing = false
            }
            got => {
                assert_eq!(got.map_err(|failure| failure.status), want, "{operation:?}");
                if want.is_ok() {
                    self.model = expected;
                }
            }
        }
        let committed = self.store.committed();
        assert!(
            committed.0 <= before.0 + 2,
            "one operation, one batch, and one before it that reserves file indices"
        );
        self.history
            .extend((before.0 + 1..committed.0).map(|sequence| (sequence, unchanged.clone())));
        self.history.insert(committed.0, self.model.clone());
        for directory in self.model.directories.keys() {
            super::folded::check_index(&self.ns, *directory);
        }
    }

    /// Runs the operation on both sides; returns the model's answer and the namespace's.
    fn both(
        &self,
        operation: &Step,
        model: &mut Model,
    ) -> (Result<(), Status>, Result<(), Failure>) {
        let root = Identity::root();
        let call = &call(&root);
        match operation {
            Step::Create(at) | Step::Mkdir(at) | Step::Symlink(at) => {
                let at = self.place(*at);
                let made = match operation {
                    Step::Create(_) => create(&self.ns, call, at.0, at.1).map(|made| made.inode),
                    Step::Mkdir(_) => self.ns.mkdir(call, at.0, at.1, 0o755),
                    _ => self.ns.symlink(call, at.0, at.1, b"x"),
                };
                let want = if model.at(at).is_some() { Err(Status::Exists) } else { Ok(()) };
                if let (Ok(()), Ok(inode)) = (want, &made) {
                    model.set(at, Some(inode.file));
                    match inode.is_directory() {
                        true => drop(model.directories.insert(inode.file, BTreeMap::new())),
                        false => drop(model.links.insert(inode.file, 1)),
                    }
                }
                (want, made.map(drop))
            }
            Step::Link(from, to) => {
                let (from, to) = (self.place(*from), self.place(*to));
                let Some(file) = model.at(from) else { return (Ok(()), Ok(())) };
                let want = match (model.at(to), model.is_directory(file)) {
                    (Some(_), _) => Err(Status::Exists),
                    (None, true) => Err(Status::NotPermitted),
                    (None, false) => Ok(()),
                };
                if want.is_ok() {
                    model.set(to, Some(file));
                    *model.links.get_mut(&file).unwrap() += 1;
                }
                (want, self.ns.link(call, file, to.0, to.1).map(drop))
            }
            Step::Unlink(at) => {
                let at = self.place(*at);
                (model.remove(at, false), self.ns.unlink(call, at.0, at.1))
            }
            Step::Rmdir(at) => {
                let at = self.place(*at);
                (model.remove(at, true), self.ns.rmdir(call, at.0, at.1))
            }
            Step::Rename(from, to, mode) => {
                let mode = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]
                    [usize::from(*mode)];
                let (from, to) = (self.place(*from), self.place(*to));
                (model.rename(from, to, mode), self.ns.rename(call, from, to, mode))
            }
            Step::LookUp(at) => {
                let at = self.place(*at);
                let equal = |name: &&Vec<u8>| fold(name) == fold(at.1);
                let wanted = self.model.directories[&at.0].keys().filter(equal).count();
                let found = self.ns.look_up_folded(&root, at.0, at.1);
                if let Ok((name, inode)) = &found {
                    assert!(equal(&name));
                    assert_eq!(self.model.at((at.0, name)), Some(inode.file));
                    assert!(self.model.at(at).is_none_or(|file| file == inode.file), "exact first");
                }
                (if wanted == 0 { Err(Status::NotFound) } else { Ok(()) }, found.map(drop))
            }
            _ => unreachable!("not an operation"),
        }
    }

    /// The namespace equals the model, and its records are consistent.
    fn compare(&self) {
        let root = Identity::root();
        let mut inodes = BTreeSet::new();
        for (directory, entries) in &self.model.directories {
            let inode = self.ns.getattr(*directory).unwrap();
            let below =
                entries.values().filter(|file| self.model.is_directory(**file)).count() as u32;
            assert_eq!((inode.size, inode.nlink), (entries.len() as u64, below + 2));
            let listed: BTreeSet<_> = names(&self.ns, *directory).into_iter().collect();
            assert_eq!(listed, entries.keys().cloned().collect());
            super::folded::check_index(&self.ns, *directory);
            for (name, file) in entries {
                let found = self.ns.lookup(&root, *directory, name).unwrap();
                assert_eq!(found.file, *file);
                if found.is_directory() {
                    assert_eq!(found.parent, *directory);
                } else {
                    assert_eq!(found.nlink, self.model.links[file]);
                }
                inodes.insert(*file);
            }
        }
        inodes.insert(ROOT);
        let stored = (0..SHARDS)
            .flat_map(|shard| self.ns.files(braid_types::ShardId(shard), None, 1000).unwrap());
        assert_eq!(
            stored.map(|(file, inode)| inode.map(|_| file).unwrap()).collect::<BTreeSet<_>>(),
            inodes
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_operations_agree_with_the_model_through_crashes(
        steps in prop::collection::vec(step_strategy(), 1..120)
    ) {
        let mut bench = Bench::new();
        for step in &steps {
            bench.step(step);
        }
        bench.compare();
    }
}
