//! What programs store in mappings, as calls on the same mount see it before it is synced.
#![cfg(target_os = "linux")]

use std::{fs::OpenOptions, ptr::null_mut};

use crate::support::{Cluster, Mount, can_mount};
use rustix::{
    fs::{SeekFrom, seek},
    mm::{MapFlags, ProtFlags, mmap, munmap},
};

const BYTES: u64 = 4 << 20;
const STORED_AT: u64 = 1 << 20;

#[test]
fn what_a_mapping_has_stored_is_data_to_who_seeks_it() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(2);
    let mount = Mount::new(&cluster);
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(mount.path("f")).unwrap();
    let (mapped, other) = (open(), open());
    mapped.set_len(BYTES).unwrap();
    assert!(seek(&other, SeekFrom::Data(0)).is_err(), "all of it is a hole");
    let (length, protection) = (BYTES as usize, ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: the kernel picks an address where nothing is, and the mapping outlives what is stored; nobody cuts the file.
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
    // A close would have had the kernel write it.
    drop(mapped);
}
