//! What is cached under leases is current: two mounts, each with a kernel that caches all it may.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use crate::support::{self, Cluster, ROOT, Stuck, USER, wait_for};
use braid_client::{AttributeChanges, Attributes, Client};
use braid_types::ByteCount;
use braid_vfs::{
    Access, Allocation, CacheInvalidator, CachedAttributes, CachingLeases, FileHandle, FileIndex,
    FileKind, LookupResult, NewFile, OpenAs, RenameMode, Status, Vfs, WriteAs, XattrMode,
};
use proptest::{prelude::*, test_runner::Config as Runs};

/// A kernel: it caches names and attributes as long as it may, and asks for what it does not have.
#[derive(Default)]
struct Kernel(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    names: HashMap<(FileIndex, Vec<u8>), Option<FileIndex>>,
    attributes: HashMap<FileIndex, Attributes>,
    /// How often attributes were dropped. A reply to a question from before a drop is not cached.
    drops: u64,
}

impl CacheInvalidator for Kernel {
    fn drop_names(&self, directories: &[(FileIndex, Vec<FileIndex>)]) {
        let mut memory = self.0.lock().unwrap();
        memory.drops += 1;
        for (directory, files) in directories {
            memory.names.retain(|(of, _), _| of != directory);
            memory.attributes.remove(directory);
            files.iter().for_each(|file| _ = memory.attributes.remove(file));
        }
    }

    fn drop_attributes(&self, file: FileIndex) {
        let mut memory = self.0.lock().unwrap();
        memory.drops += 1;
        memory.attributes.remove(&file);
    }

    fn drop_data(&self, _: FileIndex, _: u64, _: u64) {}
}

struct Mount {
    vfs: Vfs,
    kernel: Arc<Kernel>,
    handles: Mutex<Vec<FileHandle>>,
}

impl Mount {
    fn new(cluster: &Cluster) -> Self {
        let (vfs, kernel) = (cluster.mount(), Arc::new(Kernel::default()));
        vfs.serve(Arc::clone(&kernel) as Arc<dyn CacheInvalidator>).unwrap();
        Self { vfs, kernel, handles: Mutex::default() }
    }

    fn memory<R>(&self, work: impl FnOnce(&mut Memory) -> R) -> R {
        work(&mut self.kernel.0.lock().unwrap())
    }

    /// stat(2) of a name.
    fn stat(&self, directory: FileIndex, name: &[u8]) -> Option<Attributes> {
        let key = (directory, name.to_vec());
        let drops = self.memory(|memory| memory.drops);
        let file = match self.memory(|memory| memory.names.get(&key).copied()) {
            Some(known) => known?,
            None => match self.vfs.look_up(directory, name).unwrap() {
                LookupResult::Found(known) => {
                    self.take_in_since(drops, Some(&key), &known);
                    known.attributes.file
                }
                LookupResult::Absent(keep) => {
                    self.vfs.reply_cacheable(&keep, |cacheable| {
                        if cacheable.name {
                            self.memory(|memory| _ = memory.names.insert(key, None));
                        }
                    });
                    return None;
                }
            },
        };
        if let Some(known) = self.memory(|memory| memory.attributes.get(&file).cloned()) {
            return Some(known);
        }
        let drops = self.memory(|memory| memory.drops);
        let known = self.vfs.attributes(file, None).unwrap();
        self.take_in_since(drops, None, &known);
        Some(known.attributes)
    }

    fn take_in(&self, key: Option<&(FileIndex, Vec<u8>)>, known: &CachedAttributes) {
        self.take_in_since(self.memory(|memory| memory.drops), key, known);
    }

    /// Caches a reply. `drops`: how often attributes were dropped before the question.
    fn take_in_since(
        &self,
        drops: u64,
        key: Option<&(FileIndex, Vec<u8>)>,
        known: &CachedAttributes,
    ) {
        let found = &known.attributes;
        self.vfs.reply_cacheable(&known.leases, |cacheable| {
            self.memory(|memory| {
                if memory.drops == drops {
                    memory.attributes.remove(&found.file);
                }
                if cacheable.attributes && memory.drops == drops {
                    memory.attributes.insert(found.file, found.clone());
                }
                if let Some(key) = key {
                    memory.names.remove(key);
                    if cacheable.name {
                        memory.names.insert(key.clone(), Some(found.file));
                    }
                }
            });
        });
    }

    /// The cached state of another name now belongs to this name, if a lease covers it.
    fn move_name(
        &self,
        keep: &CachingLeases,
        name: (FileIndex, Vec<u8>),
        leads: Option<FileIndex>,
    ) {
        self.vfs.reply_cacheable(keep, |cacheable| {
            if cacheable.name && leads.is_some() {
                self.memory(|memory| _ = memory.names.insert(name, leads));
            }
        });
    }

    /// The names of a directory and their files, in the order of a listing in batches of two.
    fn list(&self, directory: FileIndex) -> Vec<(Vec<u8>, FileIndex)> {
        let handle = self.vfs.open_directory(directory).unwrap();
        let (mut listed, mut cookie, mut end) = (Vec::new(), 0, false);
        while !end {
            let batch = self.vfs.read_directory(handle, cookie, 2, false).unwrap();
            cookie = batch.entries.last().map_or(cookie, |entry| entry.cookie);
            end = batch.entries.is_empty();
            listed.extend(batch.entries.into_iter().map(|entry| (entry.name, entry.file)));
        }
        self.vfs.release_directory(handle).unwrap();
        listed
    }

    /// What a kernel does by itself after its own change of a directory.
    fn changed(&self, directories: &[FileIndex]) {
        self.memory(|memory| {
            memory.drops += 1;
            directories.iter().for_each(|one| _ = memory.attributes.remove(one));
        });
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create { at: Place, bytes: u16, stays_open: bool },
    MakeDirectory(Place),
    Unlink(Place),
    RemoveDirectory(Place),
    Rename { from: Place, to: Place, mode: u8 },
    Link { from: Place, to: Place },
    Chmod(Place, u32),
    Truncate(Place, u16),
    Write { which: usize, bytes: u16 },
    CloseAll,
    Stat,
}

/// One of the three directories, and a name.
type Place = (usize, u8);

fn place() -> impl Strategy<Value = Place> {
    (0..3usize, b'a'..=b'd')
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (place(), any::<u16>(), any::<bool>())
            .prop_map(|(at, bytes, stays_open)| Step::Create { at, bytes, stays_open }),
        1 => place().prop_map(Step::MakeDirectory),
        2 => place().prop_map(Step::Unlink),
        1 => place().prop_map(Step::RemoveDirectory),
        3 => (place(), place(), 0..3u8)
            .prop_map(|(from, to, mode)| Step::Rename { from, to, mode }),
        1 => (place(), place()).prop_map(|(from, to)| Step::Link { from, to }),
        2 => (place(), 0..0o1000u32).prop_map(|(at, mode)| Step::Chmod(at, mode)),
        1 => (place(), any::<u16>()).prop_map(|(at, bytes)| Step::Truncate(at, bytes)),
        2 => (any::<usize>(), 1..100u16).prop_map(|(which, bytes)| Step::Write { which, bytes }),
        1 => Just(Step::CloseAll),
        3 => Just(Step::Stat),
    ]
}

fn take(mount: &Mount, step: &Step, directories: &[FileIndex; 3]) {
    let at = |place: &Place| (directories[place.0], vec![place.1]);
    let vfs = &mount.vfs;
    match step {
        Step::Create { at: place, bytes, stays_open } => {
            let (directory, name) = at(place);
            let new = NewFile {
                mode: 0o644,
                umask: 0,
                access: Access::READ_WRITE,
                exclusive: true,
                truncate: false,
            };
            if let Ok((opened, _)) = vfs.create(USER, directory, &name, &new) {
                mount.changed(&[directory]);
                mount.take_in(Some(&(directory, name)), &opened.known);
                vfs.write(opened.handle, 0, &vec![1; usize::from(*bytes)], WriteAs::default())
                    .unwrap();
                mount.changed(&[opened.known.attributes.file]);
                match stays_open {
                    true => mount.handles.lock().unwrap().push(opened.handle),
                    false => vfs.release(opened.handle, None).unwrap(),
                }
            }
        }
        Step::MakeDirectory(place) => {
            let (directory, name) = at(place);
            if let Ok(known) = vfs.make_directory(USER, directory, &name, 0o755, 0) {
                mount.changed(&[directory]);
                mount.take_in(Some(&(directory, name)), &known);
            }
        }
        Step::Unlink(place) | Step::RemoveDirectory(place) => {
            let (directory, name) = at(place);
            let done = match step {
                Step::Unlink(_) => vfs.unlink(directory, &name),
                _ => vfs.remove_directory(directory, &name),
            };
            if done.is_ok() {
                mount.changed(&[directory]);
                let gone = mount.memory(|memory| memory.names.remove(&(directory, name)));
                gone.flatten().into_iter().for_each(|file| mount.changed(&[file]));
            }
        }
        Step::Rename { from, to, mode } => {
            let (from, to) = (at(from), at(to));
            let mode = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]
                [usize::from(*mode)];
            let keep = [from.0, to.0].map(|directory| vfs.lease_for_renamed(directory));
            if from != to && vfs.rename((from.0, &from.1), (to.0, &to.1), mode).is_ok() {
                mount.changed(&[from.0, to.0]);
                // A kernel moves what it has cached, and continues to use the attributes.
                let (moved, replaced) = mount.memory(|memory| {
                    (memory.names.remove(&from).flatten(), memory.names.remove(&to).flatten())
                });
                mount.move_name(&keep[1], to, moved);
                match mode {
                    RenameMode::Exchange => mount.move_name(&keep[0], from, replaced),
                    _ => mount.memory(|memory| {
                        replaced.iter().for_each(|file| _ = memory.attributes.remove(file))
                    }),
                }
            }
        }
        Step::Link { from, to } => {
            let (from, to) = (at(from), at(to));
            let Some(file) = mount.stat(from.0, &from.1) else { return };
            if file.kind == FileKind::File
                && let Ok(known) = vfs.link(file.file, to.0, &to.1)
            {
                mount.changed(&[to.0]);
                mount.take_in(Some(&to), &known);
            }
        }
        Step::Chmod(place, _) | Step::Truncate(place, _) => {
            let place = at(place);
            let changes = match step {
                Step::Chmod(_, mode) => {
                    AttributeChanges { mode: Some(*mode), ..AttributeChanges::none() }
                }
                Step::Truncate(_, bytes) => AttributeChanges {
                    bytes: Some(ByteCount(u64::from(*bytes))),
                    ..AttributeChanges::none()
                },
                _ => AttributeChanges::none(),
            };
            let Some(found) = mount.stat(place.0, &place.1) else { return };
            if changes.bytes.is_none() || found.kind == FileKind::File {
                let known = vfs.set_attributes(found.file, None, changes, false).unwrap();
                mount.take_in(None, &known);
            }
        }
        Step::Write { which, bytes } => {
            let handles = mount.handles.lock().unwrap();
            if let Some(handle) = handles.get(which % handles.len().max(1)) {
                let how = WriteAs { append: which % 2 == 0, ..WriteAs::default() };
                vfs.write(*handle, 70_000, &vec![2; usize::from(*bytes)], how).unwrap();
                mount.memory(|memory| memory.attributes.clear());
            }
        }
        Step::CloseAll => {
            let handles = std::mem::take(&mut *mount.handles.lock().unwrap());
            handles.into_iter().for_each(|handle| vfs.release(handle, None).unwrap());
        }
        Step::Stat => {}
    }
}

fn facts(found: Option<Attributes>) -> Option<(FileIndex, u32, u32, u64)> {
    let bytes = |found: &Attributes| if found.kind == FileKind::File { found.bytes.0 } else { 0 };
    found.map(|found| (found.file, found.mode, found.links, bytes(&found)))
}

fn check(mounts: &[Mount; 2], plain: &Client, directories: &[FileIndex; 3], after: &Step) {
    // What a kernel has cached of open files, before any name is looked up again.
    for mount in mounts {
        for (file, found) in mount.memory(|memory| memory.attributes.clone()) {
            if let Ok(truth) = plain.lstat(file) {
                assert_eq!(facts(Some(found)), facts(Some(truth)), "{file} {after:?}");
            }
        }
    }
    for directory in directories {
        let mut there = Vec::new();
        for name in b'a'..=b'd' {
            let found = plain.lstat((*directory, [name])).ok();
            there.extend(found.as_ref().map(|found| (vec![name], found.file)));
            let below = found
                .as_ref()
                .filter(|found| found.kind == FileKind::Directory)
                .map(|found| found.file);
            let truth = facts(found);
            for mount in mounts {
                assert_eq!(
                    facts(mount.stat(*directory, &[name])),
                    truth,
                    "{directory} {} {after:?}",
                    name as char
                );
                below.iter().for_each(|below| {
                    assert_eq!(mount.vfs.parent(*below).unwrap(), *directory, "{after:?}")
                });
            }
        }
        for mount in mounts {
            let mut listed = mount.list(*directory);
            listed.sort();
            assert_eq!(listed, there, "{directory} {after:?}");
        }
    }
}

#[test]
fn two_mounts_that_cache_all_they_may_never_see_stale_state() {
    let cluster = Cluster::start(2);
    let plain = cluster.client();
    let runs = Runs { cases: 6, max_shrink_iters: 0, failure_persistence: None, ..Runs::default() };
    let cases = AtomicU32::new(0);
    proptest!(runs, |(steps in prop::collection::vec((0..2usize, step()), 60..90))| {
        let case = cases.fetch_add(1, Ordering::Relaxed);
        let mounts = [Mount::new(&cluster), Mount::new(&cluster)];
        let made = |name: String| plain.mkdir(format!("/{name}"), 0o755).unwrap().file;
        let directories = [0, 1, 2].map(|number| made(format!("case{case}-{number}")));
        for (which, step) in &steps {
            take(&mounts[*which], step, &directories);
            check(&mounts, &plain, &directories, step);
        }
    });
}

#[test]
fn a_lookup_is_answered_from_the_cache_until_a_client_changes_it() {
    let cluster = Cluster::start(1);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let made = one.vfs.make_directory(USER, ROOT, b"d", 0o755, 0).unwrap().attributes.file;
    for name in [b"a", b"b"] {
        one.vfs.make_node(USER, made, name, FileKind::File, 0o600, 0, 0).unwrap();
    }
    let look = |mount: &Mount| {
        let names = [b"a", b"b", b"c"].map(|name| facts(mount.stat(made, name)));
        names.map(|found| found.map(|(_, mode, ..)| mode))
    };
    assert_eq!(look(&two), [Some(0o600), Some(0o600), None]);
    // What a kernel evicted by itself is still cached here. Other calls: heartbeats and renewals.
    let before = cluster.calls();
    for _ in 0..100 {
        two.memory(|memory| *memory = Memory::default());
        assert_eq!(look(&two), [Some(0o600), Some(0o600), None]);
    }
    assert!(cluster.calls() - before < 50, "{} calls", cluster.calls() - before);
    one.vfs.rename((made, b"a"), (made, b"c"), RenameMode::Replace).unwrap();
    assert_eq!(look(&two), [None, Some(0o600), Some(0o600)]);
    let file = one.stat(made, b"b").unwrap().file;
    let mode = AttributeChanges { mode: Some(0o644), ..AttributeChanges::none() };
    one.vfs.set_attributes(file, None, mode, false).unwrap();
    assert_eq!(look(&two), [None, Some(0o644), Some(0o600)]);
}

/// A change that a mount makes.
type Change<'a> = dyn Fn(&Vfs) + Sync + 'a;

/// Another client may see a change before its reply arrives at the mount that made it. Cached
/// attributes of before the change would then contradict what that client saw.
#[test]
fn no_attributes_are_cached_while_this_mount_changes_them() {
    let cluster = Cluster::start(1);
    let mount = Mount::new(&cluster);
    let file =
        mount.vfs.make_node(USER, ROOT, b"f", FileKind::File, 0o600, 0, 0).unwrap().attributes.file;
    let set = |changes: AttributeChanges| {
        move |vfs: &Vfs| drop(vfs.set_attributes(file, None, changes.clone(), false).unwrap())
    };
    let none = AttributeChanges::none;
    let (mode, bytes) = (Some(0o644), Some(ByteCount(7)));
    let value = (b"user.colour", b"red");
    let cuts = OpenAs { truncate: true, ..Access::READ_WRITE.into() };
    let changes: [(&str, Box<Change<'_>>); 5] = [
        ("mode", Box::new(set(AttributeChanges { mode, ..none() }))),
        ("size", Box::new(set(AttributeChanges { bytes, ..none() }))),
        (
            "xattr",
            Box::new(|vfs| vfs.set_xattr(file, value.0, value.1, XattrMode::Either).unwrap()),
        ),
        ("open", Box::new(|vfs| drop(vfs.open(file, cuts).unwrap()))),
        ("link", Box::new(|vfs| drop(vfs.link(file, ROOT, b"g").unwrap()))),
    ];
    let is_cacheable = |known: &CachedAttributes| {
        mount.vfs.reply_cacheable(&known.leases, |cacheable| cacheable.attributes)
    };
    let known = || mount.vfs.attributes(file, None).unwrap();
    let found = || support::found(&mount.vfs, b"f").unwrap();
    for (what, change) in &changes {
        wait_for(|| mount.stat(ROOT, b"f").is_some() && is_cacheable(&known()));
        mount.stat(ROOT, b"f").unwrap();
        let client = cluster.client();
        let (stuck, let_go) = Stuck::serve(&client);
        wait_for(|| client.leases().ask_names(ROOT).unwrap().is_some());
        std::thread::scope(|scope| {
            // Dropped first, also by a failed assertion.
            let let_go = let_go;
            let changing = scope.spawn(|| change(&mount.vfs));
            wait_for(|| stuck.is_recalled());
            let has_none = mount.memory(|memory| !memory.attributes.contains_key(&file));
            assert!(has_none, "the kernel has attributes: {what}");
            for _ in 0..2 {
                assert!(!is_cacheable(&known()) && !is_cacheable(&found()), "{what}");
            }
            assert!(!changing.is_finished(), "{what}");
            drop(let_go);
        });
    }
}

/// A kernel learns of a write from its reply. Another client may see the write before that.
#[test]
fn a_kernel_has_no_attributes_from_before_a_write_that_others_see() {
    let cluster = Cluster::start(2);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let (file, handle) = support::create(&one.vfs, b"f");
    let (_, source) = support::create(&one.vfs, b"source");
    let writes = |offset: u64, append| {
        move |vfs: &Vfs| {
            let how = WriteAs { append, ..WriteAs::default() };
            vfs.write(handle, offset, b"bytes", how).unwrap();
        }
    };
    support::write(&one.vfs, source, 0, b"bytes");
    let keep_size = false;
    let reserve = Allocation::Reserve { keep_size };
    let changes: [(&str, u64, Box<Change<'_>>); 6] = [
        ("at the daemons", 15, Box::new(writes(10, false))),
        ("buffered", 20, Box::new(writes(15, false))),
        ("append", 25, Box::new(writes(0, true))),
        ("at the daemons again", 35, Box::new(writes(30, false))),
        ("allocation", 40, Box::new(|vfs| vfs.allocate(handle, 30, 10, reserve, false).unwrap())),
        (
            "copy",
            45,
            Box::new(|vfs| {
                vfs.copy_range((source, 0), (handle, 40), 5, false).unwrap();
            }),
        ),
    ];
    for (what, bytes, change) in &changes {
        let size = |mount: &Mount| mount.stat(ROOT, b"f").unwrap().bytes.0;
        let is_cached = || {
            size(&one);
            one.memory(|memory| memory.attributes.contains_key(&file))
        };
        wait_for(is_cached);
        // May recall the lease that the file was written under.
        size(&two);
        wait_for(is_cached);
        change(&one.vfs);
        assert_eq!((size(&two), size(&one)), (*bytes, *bytes), "{what}");
    }
}

#[test]
fn sizes_that_two_mounts_see_never_decrease_while_one_of_them_writes() {
    const WRITES: u64 = 200;
    let cluster = Cluster::start(1);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let (file, handle) = support::create(&one.vfs, b"f");
    let (largest, writes) = (AtomicU64::new(0), AtomicBool::new(true));
    std::thread::scope(|scope| {
        for mount in [&one, &two] {
            let (largest, writes) = (&largest, &writes);
            scope.spawn(move || {
                let _ends = Ends(writes);
                while writes.load(Ordering::SeqCst) {
                    let seen = largest.load(Ordering::SeqCst);
                    let bytes = mount.stat(ROOT, b"f").unwrap().bytes.0;
                    assert!(bytes >= seen, "{bytes} after {seen}");
                    largest.fetch_max(bytes, Ordering::SeqCst);
                }
            });
        }
        let ends = Ends(&writes);
        for number in 0..WRITES {
            // Half of them continue the write before, and are buffered where this mount is alone.
            let offset = 3 * (number / 2) + number % 2;
            support::write(&one.vfs, handle, offset, b"b");
            // The reply arrives at the kernel when another mount may have seen the write.
            let seen = || largest.load(Ordering::SeqCst) > offset;
            wait_for(|| seen() || !writes.load(Ordering::SeqCst));
            one.changed(&[file]);
        }
        drop(ends);
    });
}

/// Ends the threads of a test when it is dropped, also by a failed assertion.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[test]
fn a_listing_is_served_from_the_cache_until_a_client_changes_it() {
    let cluster = Cluster::start(1);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let make = |directory, name: &[u8]| {
        one.vfs.make_directory(USER, directory, name, 0o755, 0).unwrap().attributes.file
    };
    let (made, elsewhere) = (make(ROOT, b"d"), make(ROOT, b"e"));
    let below = make(made, b"s");
    for name in [b"a", b"b", b"c"] {
        one.vfs.make_node(USER, made, name, FileKind::File, 0o600, 0, 0).unwrap();
    }
    let names = |mount: &Mount| -> Vec<Vec<u8>> {
        mount.list(made).into_iter().map(|(name, _)| name).collect()
    };
    let all = [b"s", b"a", b"b", b"c"];
    assert_eq!(names(&two), all);
    assert_eq!(two.vfs.parent(below).unwrap(), made);
    let before = cluster.calls();
    for _ in 0..100 {
        assert_eq!(names(&two), all);
        assert_eq!(two.vfs.parent(below).unwrap(), made);
    }
    // Other calls: heartbeats and renewals.
    assert!(cluster.calls() - before < 50, "{} calls", cluster.calls() - before);
    one.vfs.unlink(made, b"b").unwrap();
    assert_eq!(names(&two), [b"s", b"a", b"c"], "another mount removed one");
    two.vfs.make_node(USER, made, b"f", FileKind::File, 0o600, 0, 0).unwrap();
    assert_eq!(names(&two), [b"s", b"a", b"c", b"f"], "this mount made one");
    two.vfs.rename((made, b"c"), (made, b"g"), RenameMode::Replace).unwrap();
    assert_eq!(names(&two), [b"s", b"a", b"f", b"g"], "this mount moved one");
    one.vfs.rename((made, b"s"), (elsewhere, b"s"), RenameMode::Replace).unwrap();
    assert_eq!((names(&two).len(), two.vfs.parent(below).unwrap()), (3, elsewhere));
    two.vfs.rename((elsewhere, b"s"), (made, b"t"), RenameMode::Replace).unwrap();
    assert_eq!((names(&two).len(), two.vfs.parent(below).unwrap()), (4, made));
}

#[test]
fn a_listing_includes_all_changes_of_its_mount_that_have_returned() {
    let cluster = Cluster::start(1);
    let mount = Mount::new(&cluster);
    assert_eq!(mount.stat(ROOT, b"d"), None);
    let made = mount.vfs.make_directory(USER, ROOT, b"d", 0o755, 0).unwrap().attributes.file;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let mount = &mount;
            scope.spawn(move || {
                for number in 0..40 {
                    let name = format!("{thread}-{number}").into_bytes();
                    let has = |mount: &Mount| {
                        mount.list(made).iter().filter(|(found, _)| *found == name).count()
                    };
                    mount.vfs.make_node(USER, made, &name, FileKind::File, 0o600, 0, 0).unwrap();
                    assert_eq!((has(mount), has(mount)), (1, 1));
                    mount.vfs.unlink(made, &name).unwrap();
                    assert_eq!((has(mount), has(mount)), (0, 0));
                }
            });
        }
    });
    assert_eq!(mount.list(made), []);
}

#[test]
fn a_new_directory_is_filled_and_emptied_with_one_call_per_name() {
    let cluster = Cluster::start(1);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    assert_eq!(one.stat(ROOT, b"d"), None, "now it holds the lease of the root");
    let made = one.vfs.make_directory(USER, ROOT, b"d", 0o755, 0).unwrap().attributes.file;
    let names: Vec<Vec<u8>> = (0..200).map(|number| format!("f{number}").into_bytes()).collect();
    let count = || one.vfs.attributes(made, None).unwrap().attributes.bytes.0;
    let before = cluster.calls();
    for (number, name) in names.iter().enumerate() {
        // As a kernel does: it asks for the directory, for the name, and creates the file.
        assert_eq!(count(), number as u64);
        assert!(matches!(one.vfs.look_up(made, name).unwrap(), LookupResult::Absent(_)));
        let (opened, _) = one.vfs.create(USER, made, name, &support::new_file(0o644)).unwrap();
        one.vfs.release(opened.handle, None).unwrap();
    }
    for (number, name) in names.iter().enumerate() {
        assert_eq!(count(), (names.len() - number) as u64);
        one.vfs.unlink(made, name).unwrap();
    }
    // Other calls: closes, several in one call, heartbeats and renewals.
    let calls = cluster.calls() - before;
    assert!(calls < 2 * names.len() as u64 + 50, "{calls} calls");
    // Another client's name is found, in a directory that was complete until then.
    let (opened, _) = two.vfs.create(USER, made, b"other", &support::new_file(0o644)).unwrap();
    two.vfs.release(opened.handle, None).unwrap();
    assert!(matches!(one.vfs.look_up(made, b"other").unwrap(), LookupResult::Found(_)));
    assert_eq!(count(), 1);
}

#[test]
fn attributes_of_a_directory_are_right_after_concurrent_changes() {
    let cluster = Cluster::start(1);
    let mount = Mount::new(&cluster);
    assert_eq!(mount.stat(ROOT, b"d"), None);
    let made = mount.vfs.make_directory(USER, ROOT, b"d", 0o755, 0).unwrap().attributes.file;
    let plain = cluster.client();
    for round in 0..20 {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let vfs = &mount.vfs;
                scope.spawn(move || {
                    let name = |number: u32| format!("{round}-{thread}-{number}").into_bytes();
                    for number in 0..8 {
                        let (opened, _) = vfs
                            .create(USER, made, &name(number), &support::new_file(0o644))
                            .unwrap();
                        vfs.release(opened.handle, None).unwrap();
                        if number % 2 == 1 {
                            vfs.unlink(made, &name(number - 1)).unwrap();
                            assert!(matches!(
                                vfs.look_up(made, &name(number - 1)).unwrap(),
                                LookupResult::Absent(_)
                            ));
                        }
                        assert!(matches!(
                            vfs.look_up(made, &name(number)).unwrap(),
                            LookupResult::Found(_)
                        ));
                    }
                });
            }
        });
        let (cacheable, truth) =
            (mount.vfs.attributes(made, None).unwrap().attributes, plain.lstat(made).unwrap());
        assert_eq!(
            (cacheable.bytes, cacheable.change, cacheable.mtime),
            (truth.bytes, truth.change, truth.mtime)
        );
    }
}

#[test]
fn no_server_is_asked_for_xattrs_of_a_file_without_any() {
    let cluster = Cluster::start(1);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let file =
        one.vfs.make_node(USER, ROOT, b"f", FileKind::File, 0o644, 0, 0).unwrap().attributes.file;
    let value =
        |mount: &Mount, name: &[u8]| mount.vfs.xattr(file, name).map_err(|error| error.status());
    let none = Err(Some(Status::NoAttribute));
    two.stat(ROOT, b"f").unwrap();
    let before = cluster.calls();
    for _ in 0..100 {
        assert_eq!(value(&two, b"user.colour"), none);
        assert_eq!(value(&two, b"security.capability"), none);
        assert_eq!(two.vfs.xattrs(file).unwrap(), [b""; 0]);
    }
    assert!(cluster.calls() - before < 50, "{} calls", cluster.calls() - before);
    one.vfs.set_xattr(file, b"user.colour", b"red", XattrMode::Either).unwrap();
    assert_eq!(value(&two, b"user.colour").unwrap(), b"red");
    two.vfs.remove_xattr(file, b"user.colour").unwrap();
    assert_eq!((value(&one, b"user.colour"), value(&two, b"user.colour")), (none.clone(), none));
}

#[test]
fn a_name_moved_to_a_directory_without_a_lease_is_not_cached() {
    let cluster = Cluster::start(1);
    let (known, other) = ((0, b'a'), (1, b'b'));
    let moves = [(0, known, other), (1, known, other), (2, known, other), (2, other, known)];
    for (number, (mode, from, to)) in moves.into_iter().enumerate() {
        let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
        let make = |name: usize| {
            two.vfs.make_directory(USER, ROOT, format!("{number}-{name}").as_bytes(), 0o755, 0)
        };
        let directories = [0, 1, 2].map(|name| make(name).unwrap().attributes.file);
        two.vfs.make_node(USER, directories[0], b"a", FileKind::File, 0o600, 0, 0).unwrap();
        if mode == 2 {
            two.vfs.make_node(USER, directories[1], b"b", FileKind::File, 0o600, 0, 0).unwrap();
        }
        let file = one.stat(directories[0], b"a").unwrap().file;
        // Nothing was ever looked up in the other directory, so it has no lease that could be
        // recalled.
        take(&one, &Step::Rename { from, to, mode }, &directories);
        assert_eq!(two.stat(directories[1], b"b").map(|found| found.file), Some(file), "{number}");
        two.vfs.unlink(directories[1], b"b").unwrap();
        assert_eq!(
            facts(one.stat(directories[1], b"b")),
            None,
            "{number}: another mount has removed it"
        );
    }
}
