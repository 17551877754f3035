//! Shared code of the tests.
#![allow(dead_code, reason = "each test binary uses some of it")]

mod cluster;
pub mod kernel;
mod stuck;

use braid_vfs::{
    Access, CachedAttributes, FileHandle, FileIndex, LookupResult, NewFile, User, Vfs, WriteAs,
};

#[allow(unused_imports, reason = "each test binary uses some of it")]
pub use cluster::{Cluster, wait_for};
#[allow(unused_imports, reason = "each test binary uses some of it")]
pub use stuck::Stuck;

pub const ROOT: FileIndex = FileIndex::ROOT;
pub const USER: User = User { uid: 1000, gid: 100 };

pub fn new_file(mode: u32) -> NewFile {
    NewFile { mode, umask: 0o022, access: Access::READ_WRITE, exclusive: true, truncate: false }
}

/// Makes a file in the root and opens it for reading and writing.
pub fn create(vfs: &Vfs, name: &[u8]) -> (FileIndex, FileHandle) {
    let (opened, made) = vfs.create(USER, ROOT, name, &new_file(0o666)).unwrap();
    assert!(made);
    (opened.known.attributes.file, opened.handle)
}

pub fn found(vfs: &Vfs, name: &[u8]) -> Option<CachedAttributes> {
    match vfs.look_up(ROOT, name).unwrap() {
        LookupResult::Found(known) => Some(known),
        LookupResult::Absent(_) => None,
    }
}

pub fn write(vfs: &Vfs, handle: FileHandle, offset: u64, bytes: &[u8]) {
    assert_eq!(vfs.write(handle, offset, bytes, WriteAs::default()).unwrap(), bytes.len());
}

pub fn read(vfs: &Vfs, handle: FileHandle, offset: u64, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0xee; bytes];
    let got = vfs.read(handle, offset, &mut buffer).unwrap();
    buffer.truncate(got);
    buffer
}

pub fn size(vfs: &Vfs, file: FileIndex) -> u64 {
    vfs.attributes(file, None).unwrap().attributes.bytes.0
}
