//! Stores through mappings, as calls on the same mount see them before they are synced.
#![cfg(target_os = "linux")]

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    ptr::null_mut,
    sync::Barrier,
    thread,
};

use crate::support::{Cluster, Mount, can_mount};
use rustix::{
    fs::{SeekFrom, seek},
    mm::{MapFlags, ProtFlags, mmap, munmap},
};

const BYTES: u64 = 4 << 20;
const STORED_AT: u64 = 1 << 20;

/// A shared mapping of a file's beginning.
pub struct Mapping {
    address: *mut u8,
    length: usize,
}

// SAFETY: it is memory of the process; the test decides which thread stores into which part.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub fn of(file: &File, length: usize) -> Self {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an unused address, and nothing truncates the file.
        let address =
            unsafe { mmap(null_mut(), length, protection, MapFlags::SHARED, file, 0) }.unwrap();
        Self { address: address.cast(), length }
    }

    pub fn store(&self, at: usize, word: u64) {
        assert!(at.is_multiple_of(8) && at + 8 <= self.length);
        // SAFETY: within the mapping, aligned.
        unsafe { self.address.add(at).cast::<u64>().write_volatile(word) }
    }

    pub fn load(&self, at: usize) -> u64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.length);
        // SAFETY: within the mapping, aligned.
        unsafe { self.address.add(at).cast::<u64>().read_volatile() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing points into it any more.
        unsafe { munmap(self.address.cast(), self.length) }.unwrap();
    }
}

/// One thread writes the first word of a page with a call, while another stores into the middle of
/// the page through a mapping: neither is lost.
#[test]
fn a_write_beside_a_store_into_the_same_page_is_not_lost() {
    const PAGE: usize = 4096;
    const PAGES: usize = 16;
    const STORED: usize = 2048;
    const ROUNDS: usize = 1_000;
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(2);
    let mount = Mount::new(&cluster);
    let open = || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(mount.path("f"))
            .unwrap()
    };
    let (written, mapped) = (open(), open());
    written.write_all_at(&[0; PAGES * PAGE], 0).unwrap();
    let mapping = Mapping::of(&mapped, PAGES * PAGE);
    let together = Barrier::new(2);
    let lost = thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                together.wait();
                mapping.store(round % PAGES * PAGE + STORED, round as u64);
                together.wait();
            }
        });
        let mut lost = Vec::new();
        for round in 0..ROUNDS {
            let at = round % PAGES * PAGE;
            together.wait();
            written.write_all_at(&(round as u64).to_ne_bytes(), at as u64).unwrap();
            together.wait();
            let mut word = [0; 8];
            written.read_exact_at(&mut word, at as u64).unwrap();
            let found = [u64::from_ne_bytes(word), mapping.load(at), mapping.load(at + STORED)];
            if found != [round as u64; 3] {
                lost.push((round, found));
            }
        }
        lost
    });
    assert!(
        lost.is_empty(),
        "{} of {ROUNDS} rounds lost a write or a store, the first {:?}",
        lost.len(),
        lost[0]
    );
}

#[test]
fn stores_through_a_mapping_are_data_for_a_seek() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(2);
    let mount = Mount::new(&cluster);
    let open = || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(mount.path("f"))
            .unwrap()
    };
    let (mapped, other) = (open(), open());
    mapped.set_len(BYTES).unwrap();
    assert!(seek(&other, SeekFrom::Data(0)).is_err(), "all of it is a hole");
    let (length, protection) = (BYTES as usize, ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: the kernel chooses an unused address, and the mapping outlives the stores; nothing
    // truncates the file.
    let address = unsafe {
        let address = mmap(null_mut(), length, protection, MapFlags::SHARED, &mapped, 0).unwrap();
        address.cast::<u8>().add(STORED_AT as usize).write_volatile(7);
        address
    };
    let data = seek(&other, SeekFrom::Data(0)).unwrap();
    assert!(data <= STORED_AT, "data from {data}");
    let hole = seek(&other, SeekFrom::Hole(STORED_AT)).unwrap();
    assert!(hole > STORED_AT, "a hole from {hole}");
    // SAFETY: it is this mapping, and nothing points into it any more.
    unsafe { munmap(address, length) }.unwrap();
    // A close would have made the kernel write it back.
    drop(mapped);
}
