//! A kernel that caches pages: it locks a page while it reads it, and waits for that lock when it
//! must drop it.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, MutexGuard},
};

use braid_vfs::{
    Access, CacheInvalidator, Consistency, FileHandle, FileIndex, OpenAs, Options, Vfs, WriteAs,
};

use super::{Cluster, wait_for};

pub const PAGE: u64 = 4096;
/// How many pages of a file it can cache.
pub const PAGES: u64 = 4;

/// A kernel's page cache.
#[derive(Default)]
pub struct Kernel {
    pages: Mutex<HashMap<u64, Page>>,
    unlocked: Condvar,
}

#[derive(Clone, Copy, PartialEq)]
enum Page {
    /// It is being read: a thread that uses or drops it waits.
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
    pub fn read(&self, vfs: &Vfs, handle: FileHandle, at: u64) -> u64 {
        let mut pages = self.settled(self.pages.lock().unwrap(), at);
        if let Some(Page::Has(word)) = pages.get(&at) {
            return *word;
        }
        pages.insert(at, Page::Locked);
        drop(pages);
        let give = |page: braid_vfs::Page<'_>| {
            let braid_vfs::Page::Bytes(bytes) = page else { panic!("no pipe was given") };
            let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            self.pages.lock().unwrap().insert(at, Page::Has(word));
            word
        };
        let word = vfs.read_page(handle, at * PAGE, &mut [0; PAGE as usize], None, give).unwrap();
        self.unlocked.notify_all();
        word
    }
}

impl Kernel {
    /// Whether it has a page.
    pub fn has(&self, at: u64) -> bool {
        self.pages.lock().unwrap().contains_key(&at)
    }
}

impl CacheInvalidator for Kernel {
    fn drop_names(&self, _: &[(FileIndex, Vec<FileIndex>)]) {}
    fn drop_attributes(&self, _: FileIndex) {}

    fn drop_data(&self, _: FileIndex, offset: u64, bytes: u64) {
        let end = if bytes == 0 { PAGES } else { (offset + bytes).div_ceil(PAGE) };
        for at in offset / PAGE..end {
            let mut pages = self.settled(self.pages.lock().unwrap(), at);
            pages.remove(&at);
        }
    }
}

/// A mount with its own kernel.
pub struct Mount {
    pub vfs: Vfs,
    pub kernel: Arc<Kernel>,
}

impl Mount {
    pub fn new(cluster: &Cluster) -> Self {
        Self::with(cluster, Consistency::Posix)
    }

    pub fn with(cluster: &Cluster, consistency: Consistency) -> Self {
        let vfs =
            Vfs::with(cluster.client(), Options { consistency, ..Options::default() }).unwrap();
        let kernel = Arc::new(Kernel::default());
        vfs.serve(Arc::clone(&kernel) as Arc<dyn CacheInvalidator>).unwrap();
        Self { vfs, kernel }
    }

    pub fn open(&self, file: FileIndex, access: Access) -> FileHandle {
        self.vfs.open(file, OpenAs::from(access)).unwrap().handle
    }

    /// Opens a file for reading until its pages are cacheable: another mount returns its lease a
    /// little later.
    pub fn open_keeping(&self, file: FileIndex) -> FileHandle {
        let mut cacheable = None;
        wait_for(|| {
            let opened = self.vfs.open(file, OpenAs::from(Access::READ)).unwrap();
            match opened.may_cache_pages {
                true => cacheable = Some(opened.handle),
                false => self.vfs.release(opened.handle, None).unwrap(),
            }
            cacheable.is_some()
        });
        cacheable.unwrap()
    }

    pub fn read(&self, handle: FileHandle, at: u64) -> u64 {
        self.kernel.read(&self.vfs, handle, at)
    }

    /// Writes one word at the beginning of a page, past the kernel's cache.
    pub fn write(&self, handle: FileHandle, at: u64, word: u64) {
        self.vfs.write(handle, at * PAGE, &word.to_le_bytes(), WriteAs::default()).unwrap();
    }
}
