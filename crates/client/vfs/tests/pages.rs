//! Pages that kernels keep are what is in the file, and nobody waits for ever: mounts whose kernels lock a page while they
//! ask for it, and wait for that lock when they are to drop it.

mod support;

use std::{
    collections::HashMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use braid_vfs::{Access, FileHandle, FileIndex, Keeper, OpenAs, Vfs, WriteAs};
use support::{Cluster, create};

const PAGE: u64 = 4096;
const PAGES: u64 = 4;
const TURNS: u64 = 150;

/// A kernel's page cache.
#[derive(Default)]
struct Kernel {
    pages: Mutex<HashMap<u64, Page>>,
    unlocked: Condvar,
}

#[derive(Clone, Copy, PartialEq)]
enum Page {
    /// It is being read: whoever wants to use or drop it waits.
    Locked,
    Has(u64),
}

impl Kernel {
    fn settled<'a>(
        &'a self,
        mut pages: MutexGuard<'a, HashMap<u64, Page>>,
        at: u64,
    ) -> MutexGuard<'a, HashMap<u64, Page>> {
        while pages.get(&at) == Some(&Page::Locked) {
            pages = self.unlocked.wait(pages).unwrap();
        }
        pages
    }

    /// The first word of a page, from memory if it is there.
    fn read(&self, vfs: &Vfs, handle: FileHandle, at: u64) -> u64 {
        let mut pages = self.settled(self.pages.lock().unwrap(), at);
        if let Some(Page::Has(word)) = pages.get(&at) {
            return *word;
        }
        pages.insert(at, Page::Locked);
        drop(pages);
        let give = |bytes: &[u8]| {
            let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            self.pages.lock().unwrap().insert(at, Page::Has(word));
            word
        };
        let word = vfs.read_page(handle, at * PAGE, &mut [0; PAGE as usize], give).unwrap();
        self.unlocked.notify_all();
        word
    }
}

impl Keeper for Kernel {
    fn drop_names(&self, _: FileIndex, _: &[FileIndex]) {}
    fn drop_attributes(&self, _: FileIndex) {}

    fn drop_data(&self, _: FileIndex, offset: u64, bytes: u64) {
        let end = if bytes == 0 { PAGES } else { (offset + bytes).div_ceil(PAGE) };
        for at in offset / PAGE..end {
            let mut pages = self.settled(self.pages.lock().unwrap(), at);
            pages.remove(&at);
        }
    }
}

struct Mount {
    vfs: Vfs,
    kernel: Arc<Kernel>,
}

impl Mount {
    fn new(cluster: &Cluster) -> Self {
        let (vfs, kernel) = (cluster.mount(), Arc::new(Kernel::default()));
        vfs.serve(Arc::clone(&kernel) as Arc<dyn Keeper>).unwrap();
        Self { vfs, kernel }
    }

    fn open(&self, file: FileIndex, access: Access) -> FileHandle {
        self.vfs.open(file, OpenAs::from(access)).unwrap().handle
    }

    /// One word at the beginning of a page, past the kernel's cache.
    fn write(&self, handle: FileHandle, at: u64, word: u64) {
        self.vfs.write(handle, at * PAGE, &word.to_le_bytes(), WriteAs::default()).unwrap();
    }
}

/// Each page has one writer, which writes 1, 2, 3, … and then says how far it is. Whoever reads the page, on any mount, must
/// not find less than was said before.
fn pages_are_never_old(readers: Access) {
    let cluster = Cluster::start(2);
    let mounts = [Mount::new(&cluster), Mount::new(&cluster)];
    let (file, handle) = create(&mounts[0].vfs, b"f");
    mounts[0].vfs.write(handle, 0, &vec![0; (PAGES * PAGE) as usize], WriteAs::default()).unwrap();
    let written: Vec<AtomicU64> = (0..PAGES).map(|_| AtomicU64::new(0)).collect();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for at in 0..PAGES {
            let (mount, written) = (&mounts[at as usize % 2], &written[at as usize]);
            scope.spawn(move || {
                let handle = mount.open(file, Access::READ_WRITE);
                for turn in 1..=TURNS {
                    mount.write(handle, at, turn);
                    written.store(turn, Ordering::Release);
                }
                mount.vfs.release(handle, None).unwrap();
            });
        }
        let reading: Vec<_> =
            mounts.iter().map(|mount| scope.spawn(|| reads(mount, file, readers, &written, &ended))).collect();
        while written.iter().any(|written| written.load(Ordering::Acquire) < TURNS)
            && !reading.iter().any(|one| one.is_finished())
        {
            thread::yield_now();
        }
        ended.store(true, Ordering::Release);
        reading.into_iter().for_each(|one| one.join().unwrap());
    });
}

fn reads(mount: &Mount, file: FileIndex, access: Access, written: &[AtomicU64], ended: &AtomicBool) {
    let mut handle = mount.open(file, access);
    let mut turn = 0;
    while !ended.load(Ordering::Acquire) {
        let at = turn % PAGES;
        let before = written[at as usize].load(Ordering::Acquire);
        let found = mount.kernel.read(&mount.vfs, handle, at);
        assert!(found >= before, "page {at}: {before} was written, and {found} is in memory");
        turn += 1;
        if turn % 64 == 0 {
            mount.vfs.release(handle, None).unwrap();
            handle = mount.open(file, access);
        }
    }
    mount.vfs.release(handle, None).unwrap();
}

#[test]
fn pages_that_are_only_read_are_never_old() {
    pages_are_never_old(Access::READ);
}

#[test]
fn pages_of_two_mounts_that_both_may_write_are_never_old_and_none_waits_for_ever() {
    pages_are_never_old(Access::READ_WRITE);
}

#[test]
fn pages_that_nobody_changes_cost_one_call_each() {
    let cluster = Cluster::start(1);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let (file, handle) = create(&one.vfs, b"f");
    one.vfs.write(handle, 0, &[7; PAGE as usize], WriteAs::default()).unwrap();
    one.vfs.release(handle, None).unwrap();
    let opened = [&one, &two].map(|mount| mount.vfs.open(file, OpenAs::from(Access::READ)).unwrap());
    assert!(opened.iter().all(|opened| opened.keeps_data), "both may keep what they read");
    let seen = two.kernel.read(&two.vfs, opened[1].handle, 0);
    assert_eq!(seen, u64::from_le_bytes([7; 8]));
    let writes = one.open(file, Access::WRITE);
    one.write(writes, 0, 9);
    assert_eq!(two.kernel.read(&two.vfs, opened[1].handle, 0), 9, "what was kept was dropped before the write");
}
