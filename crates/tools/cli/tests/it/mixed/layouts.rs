//! READ and WRITE at data servers (pNFS) beside a mount.

use std::{fs, os::unix::fs::FileExt};

use super::{Mixed, open_both};

const STRIPE: u64 = 1 << 20;
/// Bytes around the end of the first stripe, so that both daemons have some.
const OFFSETS: [u64; 4] = [0, STRIPE - 8, STRIPE, 3 * STRIPE];

#[test]
fn a_mount_and_data_servers_see_each_others_bytes_and_sizes() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("layout");
    nfs.create("f", b"");
    let (path, file) = (dir.join("f"), nfs.open("f"));
    let open = open_both(&path);
    let layout = nfs.mount.layout(&file, true).unwrap();
    let mut change = nfs.mount.change(&file.handle).unwrap();
    for turn in 1..5u64 {
        for offset in OFFSETS {
            let bytes = (turn << 32 | offset).to_be_bytes();
            // Without LAYOUTCOMMIT and COMMIT, which a client may send much later.
            nfs.mount.direct_write((&file, &layout), offset, bytes.to_vec().into()).unwrap();
            let mut found = [0; 8];
            open.read_exact_at(&mut found, offset).unwrap();
            assert_eq!(found, bytes, "turn {turn}, on the mount at {offset}");
            let end = if turn == 1 { offset + 8 } else { 3 * STRIPE + 8 };
            assert_eq!(fs::metadata(&path).unwrap().len(), end, "turn {turn} at {offset}");
            let now = nfs.mount.change(&file.handle).unwrap();
            assert!(now > change, "turn {turn} at {offset}: {now} after {change}");
            change = now;
            let bytes = bytes.map(|byte| !byte);
            open.write_all_at(&bytes, offset).unwrap();
            let found = nfs.mount.direct_read((&file, &layout), offset, 8).unwrap();
            assert_eq!(found[..], bytes, "turn {turn}, at the data server at {offset}");
        }
    }
    nfs.mount.return_layout(&file, &layout).unwrap();
    nfs.mount.close(&file).unwrap();
}

#[test]
fn the_end_of_a_file_that_a_mount_makes_longer_is_known_to_data_servers() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("layout-end");
    nfs.create("f", b"short");
    let (open, file) = (open_both(&dir.join("f")), nfs.open("f"));
    let layout = nfs.mount.layout(&file, false).unwrap();
    let mut read = |offset, count| nfs.mount.direct_read((&file, &layout), offset, count).unwrap();
    assert_eq!(read(0, 100)[..], b"short"[..]);
    open.write_all_at(b"end", STRIPE + 10).unwrap();
    assert_eq!(read(4, 3)[..], b"t\0\0"[..], "a hole in the first stripe");
    assert_eq!(read(STRIPE, 100)[..], b"\0\0\0\0\0\0\0\0\0\0end"[..]);
}
