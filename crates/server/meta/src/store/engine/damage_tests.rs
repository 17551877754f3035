//! Damage of a store's files is never silent: the start gives correct data, or an error that names
//! what is broken. A loss of power is not damage.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use braid_types::Random;

use super::*;
use crate::{Batch, MetaStore};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn batch(changes: &[(&[u8], Option<&[u8]>)]) -> Batch {
    let mut batch = Batch::new();
    changes.iter().for_each(|(key, value)| match value {
        Some(value) => batch.put(key, value),
        None => batch.remove(key),
    });
    batch
}

/// A batch that puts the sequence as a key.
fn numbered(n: u64) -> Batch {
    batch(&[(&n.to_be_bytes(), Some(&[n as u8; 40]))])
}

fn commit(store: &Engine, numbers: std::ops::RangeInclusive<u64>) {
    numbers.for_each(|n| _ = store.commit(numbered(n), Fence(1)).unwrap());
}

fn open(directory: &Path) -> Result<Engine, StoreError> {
    Engine::open(directory, EngineOptions { checkpoint_bytes: 20_000 })
}

fn all(store: &Engine) -> Model {
    let mut found = Model::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        found.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    };
    store.snapshot().unwrap().scan(b"", b"\xff\xff\xff", &mut visit).unwrap();
    found
}

/// Every file below `directory` except the lock, with its bytes.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.ends_with("lock") {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// The files as a killed process leaves them.
fn image(store: &Engine, directory: &Path) -> tempfile::TempDir {
    store.wait_for_checkpoint().unwrap();
    copy(directory)
}

fn copy(directory: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    std::fs::create_dir(copy.path().join("base")).unwrap();
    for (path, bytes) in files(directory) {
        std::fs::write(copy.path().join(path.strip_prefix(directory).unwrap()), bytes).unwrap();
    }
    copy
}

fn segment(directory: &Path, first: u64) -> PathBuf {
    directory.join(format!("log.{first:016x}"))
}

fn edit(path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    edit(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

/// Asserts that the start is refused for this file, suggests a command, and changes nothing.
/// Returns the reported position of the damage.
#[track_caller]
fn refused(directory: &Path, at_file: &Path) -> u64 {
    let before = files(directory);
    let Err(error) = open(directory) else {
        panic!("{} is damaged, and the store opened", at_file.display())
    };
    let text = error.to_string();
    let StoreError::Damaged { file, offset, .. } = &error else { panic!("{text}") };
    assert_eq!(file, at_file.to_str().unwrap(), "{text}");
    assert!(
        text.ends_with(&format!("; try: braid mds salvage --dir {}", directory.display())),
        "{text}"
    );
    let mut after = files(directory);
    // LMDB's lock file says nothing about stored data.
    after.retain(|path, _| before.contains_key(path) || !path.ends_with("lock.mdb"));
    assert!(before == after, "every file is unchanged");
    *offset
}

/// A store with `numbers` in its log, none synced; the bytes up to which each record reaches.
fn logged(count: u64) -> (tempfile::TempDir, Vec<usize>) {
    let directory = tempfile::tempdir().unwrap();
    let store = Engine::create(directory.path(), EngineOptions::default()).unwrap();
    commit(&store, 1..=count);
    let killed = image(&store, directory.path());
    let bytes = std::fs::read(segment(killed.path(), 1)).unwrap();
    let mut ends = vec![log::HEADER_BYTES];
    while let Some((_, length)) = log::decode(&bytes[ends[ends.len() - 1]..]) {
        ends.push(ends[ends.len() - 1] + length);
    }
    assert_eq!(ends.len() as u64, count + 1);
    (killed, ends)
}

/// Two segments: of 1 to 5, which the base does not hold yet, and of 6 to 10. Everything is synced
/// up to 10.
fn two_segments() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let store = Engine::create(directory.path(), EngineOptions::default()).unwrap();
    commit(&store, 1..=5);
    let killed = image(&store, directory.path());
    store.checkpoint().unwrap();
    commit(&store, 6..=10);
    store.sync(Sequence(10)).unwrap();
    for file in [segment(directory.path(), 6), directory.path().join("synced")] {
        std::fs::copy(&file, killed.path().join(file.file_name().unwrap())).unwrap();
    }
    killed
}

#[test]
fn a_flipped_byte_in_the_middle_of_the_log_stops_the_start() {
    let (whole, ends) = logged(300);
    for at in [ends[0], ends[147] + 3, ends[147] + 60, ends[298] + 9] {
        let directory = copy(whole.path());
        let path = segment(directory.path(), 1);
        edit(&path, |bytes| bytes[at] ^= 0x10);
        let record = ends.iter().rposition(|end| *end <= at).unwrap();
        assert_eq!(refused(directory.path(), &path), ends[record] as u64);
    }
    assert_eq!(all(&open(whole.path()).unwrap()).len(), 300);
}

#[test]
fn a_byte_inserted_or_removed_in_the_log_stops_the_start() {
    let (whole, ends) = logged(20);
    let (inserted, removed) = (copy(whole.path()), copy(whole.path()));
    edit(&segment(inserted.path(), 1), |bytes| bytes.insert(ends[7] + 20, 7));
    edit(&segment(removed.path(), 1), |bytes| _ = bytes.remove(ends[7] + 20));
    for directory in [&inserted, &removed] {
        assert_eq!(refused(directory.path(), &segment(directory.path(), 1)), ends[7] as u64);
    }
}

#[test]
fn a_flipped_byte_in_the_last_synced_record_stops_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let store = Engine::create(directory.path(), EngineOptions::default()).unwrap();
    commit(&store, 1..=10);
    let unsynced = image(&store, directory.path());
    store.sync(Sequence(10)).unwrap();
    let synced = image(&store, directory.path());
    for directory in [&unsynced, &synced] {
        edit(&segment(directory.path(), 1), |bytes| *bytes.last_mut().unwrap() ^= 1);
    }
    let torn = open(unsynced.path()).unwrap();
    assert_eq!(
        (torn.committed(), torn.torn_tail().unwrap().first_lost),
        (Sequence(9), Sequence(10))
    );
    refused(synced.path(), &segment(synced.path(), 1));
}

#[test]
fn a_log_that_ends_below_the_synced_sequence_stops_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let store = Engine::create(directory.path(), EngineOptions::default()).unwrap();
    commit(&store, 1..=6);
    store.sync(Sequence(6)).unwrap();
    let synced = std::fs::metadata(segment(directory.path(), 1)).unwrap().len() as usize;
    commit(&store, 7..=9);
    let whole = image(&store, directory.path());
    let bytes = std::fs::metadata(segment(directory.path(), 1)).unwrap().len() as usize;
    for end in (0..=bytes).step_by(11) {
        let directory = copy(whole.path());
        let path = segment(directory.path(), 1);
        edit(&path, |bytes| bytes.truncate(end));
        if end < synced {
            refused(directory.path(), &path);
        } else {
            assert!(open(directory.path()).unwrap().committed() >= Sequence(6), "cut at {end}");
        }
    }
}

#[test]
fn a_missing_segment_stops_the_start() {
    assert_eq!(all(&open(two_segments().path()).unwrap()).len(), 10);
    let (first, second, both) = (two_segments(), two_segments(), two_segments());
    std::fs::remove_file(segment(first.path(), 1)).unwrap();
    refused(first.path(), &segment(first.path(), 1));
    std::fs::remove_file(segment(second.path(), 6)).unwrap();
    refused(second.path(), &segment(second.path(), 1));
    [1, 6].iter().for_each(|n| std::fs::remove_file(segment(both.path(), *n)).unwrap());
    refused(both.path(), &segment(both.path(), 1));
}

#[test]
fn a_flipped_byte_in_a_header_stops_the_start() {
    for at in 0..log::HEADER_BYTES {
        for first in [1, 6] {
            let directory = two_segments();
            let path = segment(directory.path(), first);
            edit(&path, |bytes| bytes[at] ^= 4);
            refused(directory.path(), &path);
        }
    }
}

#[test]
fn segments_that_changed_places_stop_the_start() {
    let directory = two_segments();
    let (a, b) = (segment(directory.path(), 1), segment(directory.path(), 6));
    let spare = directory.path().join("spare");
    [(&a, &spare), (&b, &a), (&spare, &b)]
        .iter()
        .for_each(|(from, to)| std::fs::rename(from, to).unwrap());
    assert_eq!(refused(directory.path(), &a), 16);
}

#[test]
fn a_file_of_another_store_stops_the_start() {
    let other = two_segments();
    for name in ["log.0000000000000001", "log.0000000000000006", "base/data.mdb", "synced"] {
        let directory = two_segments();
        std::fs::copy(other.path().join(name), directory.path().join(name)).unwrap();
        let named = if name == "synced" { "base/data.mdb" } else { name };
        refused(directory.path(), &directory.path().join(named));
    }
}

#[test]
fn an_older_base_stops_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let store = Engine::create(directory.path(), EngineOptions::default()).unwrap();
    commit(&store, 1..=5);
    store.checkpoint().unwrap();
    let older = std::fs::read(base::base_file(directory.path())).unwrap();
    commit(&store, 6..=9);
    store.checkpoint().unwrap();
    let killed = image(&store, directory.path());
    std::fs::write(base::base_file(killed.path()), older).unwrap();
    refused(killed.path(), &segment(killed.path(), 6));
}

#[test]
fn a_base_of_any_shorter_length_stops_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let store = Engine::create(directory.path(), EngineOptions::default()).unwrap();
    commit(&store, 1..=300);
    store.checkpoint().unwrap();
    let whole = image(&store, directory.path());
    let bytes = std::fs::metadata(base::base_file(whole.path())).unwrap().len();
    for end in (0..bytes).step_by(1500) {
        let directory = copy(whole.path());
        let path = base::base_file(directory.path());
        File::options().write(true).open(&path).unwrap().set_len(end).unwrap();
        refused(directory.path(), &path);
    }
    let longer = copy(whole.path());
    File::options()
        .write(true)
        .open(base::base_file(longer.path()))
        .unwrap()
        .set_len(bytes * 3)
        .unwrap();
    assert_eq!(
        all(&open(longer.path()).unwrap()),
        all(&store),
        "bytes after the last page are not read"
    );
}

#[test]
fn a_meta_page_that_counts_too_many_pages_stops_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let store = Engine::create(directory.path(), EngineOptions::default()).unwrap();
    commit(&store, 1..=300);
    store.checkpoint().unwrap();
    let whole = image(&store, directory.path());
    for last_page in [u64::MAX, u64::MAX - 1, 1 << 60, 1 << 45] {
        let directory = copy(whole.path());
        let path = base::base_file(directory.path());
        // The last page that each meta page counts.
        edit(&path, |bytes| {
            for at in [136, 4096 + 136] {
                bytes[at..at + 8].copy_from_slice(&last_page.to_ne_bytes());
            }
        });
        refused(directory.path(), &path);
    }
}

#[test]
fn an_empty_directory_is_no_new_store() {
    let directory = tempfile::tempdir().unwrap();
    for path in [directory.path().to_owned(), directory.path().join("none")] {
        let error = open(&path).err().unwrap().to_string();
        assert!(error.contains("is its disk mounted?") && !error.contains("init"), "{error}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing was created");
    for name in ["synced", "base"] {
        let whole = two_segments();
        let path = whole.path().join(name);
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap()
        } else {
            std::fs::remove_file(&path).unwrap()
        }
        let named = if name == "base" { path.join("data.mdb") } else { path };
        refused(whole.path(), &named);
        let made = Engine::create(whole.path(), EngineOptions::default());
        assert!(matches!(made, Err(StoreError::Exists(_))), "nor is a new one created there");
    }
}

#[test]
fn a_store_of_format_1_is_refused_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let mut header = b"BRAIDLOG\x01\0\0\0".to_vec();
    header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
    header.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    std::fs::write(segment(directory.path(), 1), &header).unwrap();
    let error = open(directory.path()).err().unwrap().to_string();
    assert!(error.contains("of format 1, which this program does not read"), "{error}");
}

/// The directory of an empty store whose log is written by the test, each record with the mark
/// `synced`.
fn by_hand(segments: &[std::ops::RangeInclusive<u64>], synced: u64) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    drop(Engine::create(directory.path(), EngineOptions::default()).unwrap());
    let (file, store, _) = SyncedFile::open(directory.path()).unwrap();
    file.write(Sequence(synced)).unwrap();
    for numbers in segments {
        let mut segment =
            Segment::create(directory.path(), Sequence(*numbers.start()), store).unwrap();
        numbers.clone().for_each(|n| {
            segment.append(&numbered(n), Sequence(n), Fence(1), Sequence(0)).unwrap()
        });
    }
    directory
}

#[test]
fn a_segment_after_a_torn_one_is_not_read() {
    for (cut, want) in [(0, 10), (1, 4)] {
        let directory = by_hand(&[1..=5, 6..=10], 3);
        edit(&segment(directory.path(), 1), |bytes| bytes.truncate(bytes.len() - cut));
        let found = open(directory.path()).unwrap();
        assert_eq!((all(&found).len(), found.committed().0), (want, want as u64));
        commit(&found, 99..=99);
        drop(found);
        let again = open(directory.path()).unwrap();
        assert_eq!(all(&again).len(), want + 1, "records after the tear do not return");
    }
    let damaged = by_hand(&[1..=5, 6..=10], 3);
    edit(&segment(damaged.path(), 1), |bytes| *bytes.last_mut().unwrap() ^= 1);
    refused(damaged.path(), &segment(damaged.path(), 1));
}

#[test]
fn a_mark_in_a_later_record_proves_that_a_bad_one_was_synced() {
    let directory = by_hand(&[1..=5], 0);
    let (_, store, _) = SyncedFile::open(directory.path()).unwrap();
    let mut later = Segment::create(directory.path(), Sequence(6), store).unwrap();
    later.append(&numbered(6), Sequence(6), Fence(1), Sequence(5)).unwrap();
    // As a lost write would look.
    edit(&segment(directory.path(), 1), |bytes| bytes.truncate(bytes.len() - 1));
    refused(directory.path(), &segment(directory.path(), 1));
}

#[test]
fn after_a_loss_of_power_any_unsynced_sectors_may_be_missing() {
    let (count, synced) = (200, 60);
    let whole = by_hand(&[1..=count], synced);
    let bytes = std::fs::read(segment(whole.path(), 1)).unwrap();
    let record = (bytes.len() - log::HEADER_BYTES) / count as usize;
    let safe = log::HEADER_BYTES + record * synced as usize;
    let mut opened_with_a_hole = 0;
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let directory = copy(whole.path());
        let end = if seed % 3 == 0 {
            safe + random.below((bytes.len() - safe) as u64) as usize
        } else {
            bytes.len()
        };
        edit(&segment(directory.path(), 1), |bytes| {
            bytes.truncate(end);
            let one_in = 2 + random.below(20);
            for sector in (safe / 512..end.div_ceil(512))
                .filter(|_| random.below(one_in) == 0)
                .collect::<Vec<_>>()
            {
                bytes[(sector * 512).max(safe)..end.min((sector + 1) * 512)].fill(0);
            }
        });
        let store = open(directory.path()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let committed = store.committed().0;
        assert!(committed >= synced, "seed {seed}: synced batches are there (I6)");
        let want: Model =
            (1..=committed).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; 40])).collect();
        assert_eq!(all(&store), want, "seed {seed}");
        assert_eq!(
            store.torn_tail().is_some(),
            committed < count,
            "seed {seed}: and it is reported"
        );
        opened_with_a_hole += u32::from(committed < count && end == bytes.len());
    }
    assert!(opened_with_a_hole > 20, "{opened_with_a_hole}");
}

#[test]
fn a_base_after_any_checkpoints_passes_the_check() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Engine::create(directory.path(), EngineOptions::default()).unwrap();
    let (mut random, mut model) = (Random::new(24), Model::new());
    for round in 0..30 {
        // Rounds that grow, that shrink, and now and then remove everything. Pages are split,
        // merged and freed by the hundred, and the list of free pages takes overflow pages.
        let removed_of_ten = [1, 5, 9][round % 3];
        let is_end = round % 10 == 9;
        let keys: Vec<_> = if is_end { model.keys().cloned().collect() } else { Vec::new() };
        for n in 0..if is_end { keys.len() as u64 } else { 2500 } {
            let mut batch = Batch::new();
            let number = random.below(6000).to_be_bytes();
            let key = if is_end {
                keys[n as usize].clone()
            } else {
                [&number[..], &[b'k'; 200][..(number[7] / 2).into()]].concat()
            };
            if is_end || random.below(10) < removed_of_ten {
                model.remove(&key);
                batch.remove(&key);
            } else {
                let longest = if random.below(50) == 0 { 40_000 } else { 400 };
                let value = vec![number[7]; random.below(longest) as usize];
                model.insert(key.clone(), value.clone());
                batch.put(&key, value);
            }
            store.commit(batch, Fence(1)).unwrap();
        }
        store.checkpoint().unwrap();
        let store_id = store.shared.store;
        Base::check(directory.path(), store_id)
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        if round % 4 == 0 {
            drop(store);
            store = Engine::open(directory.path(), EngineOptions::default()).unwrap();
        }
        assert!(all(&store) == model, "round {round}");
    }
}

/// A store with a history of batches, of which some were synced; the history, and the synced
/// sequence.
struct History {
    image: tempfile::TempDir,
    batches: Vec<Batch>,
    synced: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let directory = tempfile::tempdir().unwrap();
        let store =
            Engine::create(directory.path(), EngineOptions { checkpoint_bytes: 20_000 }).unwrap();
        let (mut batches, mut synced) = (Vec::new(), 0);
        for _ in 0..100 + random.below(300) {
            let mut batch = Batch::new();
            for _ in 0..1 + random.below(4) {
                let key = [&[0, 1, b'E'][..], &random.below(400).to_be_bytes(), b"a name"].concat();
                match random.below(12) {
                    0..3 => batch.remove(key),
                    // Some values need overflow pages.
                    3 => batch.put(
                        key,
                        vec![random.below(256) as u8; 3000 + random.below(9000) as usize],
                    ),
                    _ => batch.put(
                        key,
                        random.next_u64().to_le_bytes().repeat(1 + random.below(20) as usize),
                    ),
                }
            }
            batches.push(batch.clone());
            let sequence = store.commit(batch, Fence(1)).unwrap();
            if random.below(30) == 0 {
                store.sync(sequence).unwrap();
                synced = sequence.0;
            }
        }
        let image = image(&store, directory.path());
        Self { image, batches, synced }
    }

    fn model(&self, upto: Sequence) -> Model {
        let mut model = Model::new();
        for change in self.batches[..upto.0 as usize].iter().flat_map(Batch::changes) {
            match change.value {
                Some(value) => drop(model.insert(change.key.to_vec(), value.to_vec())),
                None => drop(model.remove(change.key)),
            }
        }
        model
    }
}

/// Damages one or two files of a store; returns a description.
fn damage(directory: &Path, random: &mut Random) -> String {
    let paths: Vec<PathBuf> = files(directory).into_keys().collect();
    let path = random.pick(&paths).unwrap().clone();
    let name = path.strip_prefix(directory).unwrap().display().to_string();
    let mut bytes = std::fs::read(&path).unwrap();
    let length = bytes.len() as u64;
    let at = random.below(length) as usize;
    let longest = 1 << random.below(13);
    let run = 1 + random.below(longest) as usize;
    let end = (at + run).min(bytes.len());
    let what = match random.below(8) {
        0 => {
            std::fs::remove_file(&path).unwrap();
            return format!("{name} is removed");
        }
        1 => {
            let other = random.pick(&paths).unwrap();
            let theirs = std::fs::read(other).unwrap();
            std::fs::write(&path, theirs).unwrap();
            std::fs::write(other, bytes).unwrap();
            return format!("{name} and {} change places", other.display());
        }
        2 => {
            bytes.truncate(at);
            format!("{name} is truncated at {at}")
        }
        3 => {
            bytes[at..end].fill(0);
            format!("{name} has zeros at {at}, {run} bytes")
        }
        4 => {
            let from = random.below(length) as usize;
            let copied = bytes[from..(from + run).min(bytes.len())].to_vec();
            let fits = copied.len().min(bytes.len() - at);
            bytes[at..at + fits].copy_from_slice(&copied[..fits]);
            format!("{name} has {run} bytes of {from} at {at}")
        }
        5 => {
            bytes.drain(at..end);
            format!("{name} has lost {run} bytes at {at}")
        }
        6 => {
            // Two pages of the base, or blocks of the log.
            let pages = (bytes.len() / 4096).max(1) as u64;
            let (a, b) = (random.below(pages) as usize * 4096, random.below(pages) as usize * 4096);
            for n in 0..4096.min(bytes.len().saturating_sub(a.max(b))) {
                bytes.swap(a + n, b + n);
            }
            format!("{name} has its blocks at {a} and {b} exchanged")
        }
        _ => {
            bytes[at] ^= 1 << random.below(8);
            format!("{name} has a bit flipped at {at}")
        }
    };
    std::fs::write(&path, bytes).unwrap();
    what
}

#[test]
fn random_damage_gives_correct_data_or_an_error_that_names_it() {
    const STORES: u64 = 6;
    const CASES: u64 = 60;
    let (mut refused, mut right, mut cut) = (0, 0, 0);
    for store in 0..STORES {
        let history = History::new(store);
        for case in 0..CASES {
            let seed = store * 1000 + case;
            let mut random = Random::new(seed);
            let directory = copy(history.image.path());
            let what = damage(directory.path(), &mut random);
            match open(directory.path()) {
                Ok(store) => {
                    let committed = store.committed();
                    assert!(
                        committed.0 >= history.synced,
                        "seed {seed}, {what}: {committed:?} of {}",
                        history.synced
                    );
                    assert!(
                        all(&store) == history.model(committed),
                        "seed {seed}, {what}: wrong data"
                    );
                    let is_all = committed.0 == history.batches.len() as u64;
                    assert!(
                        is_all || store.torn_tail().is_some(),
                        "seed {seed}, {what}: cut off without a report"
                    );
                    (right, cut) = (right + u32::from(is_all), cut + u32::from(!is_all));
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(
                        text.contains(directory.path().to_str().unwrap()),
                        "seed {seed}, {what}: {text}"
                    );
                    assert!(text.contains("braid mds salvage"), "seed {seed}, {what}: {text}");
                    refused += 1;
                }
            }
        }
    }
    // How many are cut off depends on how far the base had come when the image was taken.
    assert!(refused > 100 && right + cut > 40, "{refused} refused, {right} whole, {cut} cut");
}
