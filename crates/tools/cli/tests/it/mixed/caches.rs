//! The caches of a mount, to read and to write behind, against OPEN, READ, WRITE and SETATTR of an
//! NFS client and against a program with the library.

use std::{
    fs,
    os::unix::fs::{FileExt, MetadataExt},
};

use braid_client::OpenOptions;
use braid_nfs_wire::nfs4::StateId;
use braid_testbed::nfs::NfsFile;

use super::{Mixed, Nfs, open_both};

/// Turns of each test. A mount sends what it has buffered after 0.1 s at the earliest, so most
/// turns find bytes that are not sent yet.
const TURNS: u32 = 20;

fn words(turn: u32) -> Vec<u8> {
    turn.to_be_bytes().repeat(5)
}

/// Reads without an open of its own.
fn read_without_open(nfs: &mut Nfs, name: &str) -> Vec<u8> {
    let handle = nfs.mount.look_up(&nfs.dir, name).unwrap();
    let file = NfsFile { handle, open: StateId::ANONYMOUS, locks: None };
    nfs.content(&file)
}

#[test]
fn nfs_reads_what_a_mount_has_buffered() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("buffered");
    let (path, library) = (dir.join("f"), mixed.library());
    fs::write(&path, words(0)).unwrap();
    let file = nfs.open("f");
    let mut change = nfs.mount.change(&file.handle).unwrap();
    nfs.mount.close(&file).unwrap();
    for turn in 1..TURNS {
        // Closed, and sent behind the close.
        fs::write(&path, words(turn)).unwrap();
        let found = match turn % 4 {
            0 => nfs.read("f"),
            1 => read_without_open(&mut nfs, "f"),
            2 => {
                let mut bytes = vec![0; 100];
                let file = library.open("/buffered/f", &OpenOptions::new().read(true)).unwrap();
                let read = file.read_at(&mut bytes, 0).unwrap();
                bytes.truncate(read);
                bytes
            }
            _ => words(turn),
        };
        assert_eq!(found, words(turn), "turn {turn}");
        // Which is what an NFS client checks before it uses what it has cached.
        let now = nfs.mount.change(&file.handle).unwrap();
        assert!(now > change, "turn {turn}: {now} after {change}");
        change = now;
    }
    // In an open file, before a close.
    let open = open_both(&path);
    for turn in TURNS..2 * TURNS {
        open.write_all_at(&words(turn), u64::from(turn) * 20).unwrap();
        let now = nfs.mount.change(&file.handle).unwrap();
        assert!(now > change, "turn {turn}: {now} after {change}");
        change = now;
        assert_eq!(nfs.mount.size(&file.handle).unwrap(), u64::from(turn) * 20 + 20);
        let found = read_without_open(&mut nfs, "f");
        assert_eq!(found[turn as usize * 20..], words(turn), "turn {turn}");
    }
}

#[test]
fn a_mount_reads_what_nfs_has_written_and_nothing_older() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("cached");
    let (path, library) = (dir.join("f"), mixed.library());
    nfs.create("f", &words(0));
    let open = fs::File::open(&path).unwrap();
    let read_open = || {
        let mut bytes = vec![0; 20];
        open.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    let handle = nfs.mount.look_up(&nfs.dir, "f").unwrap();
    let without_open = NfsFile { handle, open: StateId::ANONYMOUS, locks: None };
    let mut mtime = (0, 0);
    for turn in 1..2 * TURNS {
        // Fills the mount's cache.
        read_open();
        match turn % 3 {
            0 => nfs.write(&without_open, 0, &words(turn)),
            1 => {
                let file = nfs.open("f");
                nfs.write(&file, 0, &words(turn));
                // While it is open.
                assert_eq!(read_open(), words(turn), "turn {turn}");
                nfs.mount.close(&file).unwrap();
            }
            _ => {
                let options = OpenOptions::new().write(true);
                let file = library.open("/cached/f", &options).unwrap();
                file.write_at(&words(turn), 0).unwrap();
            }
        }
        assert_eq!(read_open(), words(turn), "turn {turn}");
        assert_eq!(fs::read(&path).unwrap(), words(turn), "turn {turn}");
        let known = fs::metadata(&path).unwrap();
        let now = (known.mtime(), known.mtime_nsec());
        assert!(now >= mtime, "turn {turn}: {now:?} after {mtime:?}");
        mtime = now;
    }
}

#[test]
fn writes_of_a_mount_and_of_nfs_to_one_page_are_both_kept() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("one-page");
    nfs.create("f", &[0; 64]);
    let open = open_both(&dir.join("f"));
    let mut expected = vec![0; 64];
    for turn in 0..TURNS {
        let (byte, at) = (turn as u8 + 1, turn as usize);
        // The mount buffers its write unless NFS has the file open before.
        let before = (turn % 2 == 0).then(|| nfs.open("f"));
        open.write_all_at(&[byte; 2], at as u64).unwrap();
        expected[at..at + 2].fill(byte);
        let file = before.unwrap_or_else(|| nfs.open("f"));
        nfs.write(&file, 32 + u64::from(turn), &[byte]);
        expected[32 + at] = byte;
        let mut found = vec![0; 64];
        open.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(found, expected, "turn {turn}, on the mount");
        assert_eq!(nfs.content(&file), expected, "turn {turn}, by NFS");
        nfs.mount.close(&file).unwrap();
    }
}

#[test]
fn truncation_by_nfs_cuts_what_a_mount_has_buffered_and_cached() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("cut");
    nfs.create("f", b"");
    let (path, handle) = (dir.join("f"), nfs.mount.look_up(&nfs.dir, "f").unwrap());
    let without_open = NfsFile { handle, open: StateId::ANONYMOUS, locks: None };
    for turn in 0..TURNS {
        let open = open_both(&path);
        open.write_all_at(&[7; 40], 0).unwrap();
        nfs.mount.set_size(&without_open, 10).unwrap();
        assert_eq!(open.metadata().unwrap().len(), 10, "turn {turn}");
        // What is made longer again has zeros.
        open.set_len(12).unwrap();
        let expected = [&[7; 10][..], &[0; 2]].concat();
        assert_eq!(fs::read(&path).unwrap(), expected, "turn {turn}, on the mount");
        assert_eq!(nfs.read("f"), expected, "turn {turn}, by NFS");
        nfs.mount.set_size(&without_open, 0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"", "turn {turn}");
    }
}
