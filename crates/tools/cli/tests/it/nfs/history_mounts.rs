//! Mounts in the histories of calls.

use std::{
    fs::{self, File, OpenOptions},
    io::ErrorKind,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use braid_mount_tests::record_locks::{Mode, Space, lock};

use super::{
    NfsProcesses,
    history::{self, FILES, WORDS_FILE},
};
use crate::{mixed, mount::can_mount};

/// One mount, with all files open. The words are not open where each call opens them.
pub struct MountActor {
    point: PathBuf,
    words: Option<File>,
    size: File,
    locked: File,
}

impl MountActor {
    pub fn new(point: &Path, keeps_open: bool) -> Self {
        let words = keeps_open.then(|| open(&point.join(WORDS_FILE)));
        let [size, locked] = FILES.map(|name| open(&point.join(name)));
        Self { point: point.to_owned(), words, size, locked }
    }

    fn with_words<T>(&self, call: impl FnOnce(&File) -> T) -> T {
        match &self.words {
            Some(words) => call(words),
            None => call(&open(&self.point.join(WORDS_FILE))),
        }
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.with_words(|words| words.write_all_at(bytes, offset).unwrap());
    }

    pub fn read(&mut self, offset: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let read = self.with_words(|words| words.read_at(&mut bytes, offset).unwrap());
        bytes.truncate(read);
        bytes
    }

    pub fn set_size(&mut self, bytes: u64) {
        self.size.set_len(bytes).unwrap();
    }

    pub fn size(&mut self) -> u64 {
        fs::metadata(self.point.join(FILES[0])).unwrap().len()
    }

    pub fn has(&mut self, name: &str) -> bool {
        match fs::symlink_metadata(self.point.join(name)) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => panic!("stat: {error}"),
        }
    }

    pub fn lock(&mut self, start: i64, bytes: i64) -> bool {
        match lock(&self.locked, Space::Open, Mode::Alone, false, start, bytes) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("fcntl: {error}"),
        }
    }

    pub fn unlock(&mut self, start: i64, bytes: i64) {
        lock(&self.locked, Space::Open, Mode::Unlock, false, start, bytes).unwrap();
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn calls_of_nfs_clients_the_library_and_mounts_have_an_order() {
    if !can_mount() {
        return;
    }
    let processes = NfsProcesses::start(2, 2);
    let mounts = ["a", "b"].map(|name| mixed::mount(&processes, name));
    history::run(2, &processes, &mounts.each_ref().map(|mount| mount.point()));
}
