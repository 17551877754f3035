//! Why FUSE's write-back mode is never used (docs/adr/0011): with it the kernel owns a file's size
//! and times. Then another mount does not see appends of this mount, nor this mount those of
//! another one.
#![cfg(target_os = "linux")]

use crate::harness::{FILE, Memory, TestMount};
use braid_fuse::kernel::Features;
use std::fs;
use std::io::Write;

const APPENDED: &[u8] = b" and more";

/// Sizes of a file of 13 bytes while this mount has it open for appending.
#[derive(Debug, PartialEq)]
struct Sizes {
    /// In the file system, as another mount sees it, after an append of 9 bytes here.
    elsewhere_after_append_here: usize,
    /// Here, after another mount extended the file to 1,000 bytes.
    here_after_growth_elsewhere: u64,
}

fn sizes(write_back: bool) -> Option<Sizes> {
    let mut memory = Memory::new();
    memory.wanted.features = memory.wanted.features - Features::EXPLICIT_INVAL_DATA;
    if write_back {
        memory.wanted.features |= Features::WRITEBACK_CACHE;
    }
    let mount = TestMount::new(memory)?;
    let mut file = fs::File::options().append(true).open(mount.path("file")).unwrap();
    file.write_all(APPENDED).unwrap();
    let elsewhere_after_append_here = mount.memory.content(FILE).len();
    mount.memory.set_content(FILE, vec![b'x'; 1000]);
    let here_after_growth_elsewhere = file.metadata().unwrap().len();
    Some(Sizes { elsewhere_after_append_here, here_after_growth_elsewhere })
}

#[test]
fn without_write_back_appends_are_seen_both_ways() {
    let Some(seen) = sizes(false) else { return };
    assert_eq!(seen, Sizes { elsewhere_after_append_here: 22, here_after_growth_elsewhere: 1000 });
}

#[test]
fn with_write_back_appends_are_seen_neither_way() {
    let Some(seen) = sizes(true) else { return };
    assert_eq!(seen, Sizes { elsewhere_after_append_here: 13, here_after_growth_elsewhere: 22 });
}
