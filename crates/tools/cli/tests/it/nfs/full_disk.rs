//! Full disks: the error arrives at the right call, and what was acknowledged stays.

use braid_nfs_wire::nfs4::{NfsStatus, StableHow};
use braid_testbed::{
    nfs::{NfsError, NfsMount},
    wait::wait_for,
};
use bytes::Bytes;

use super::with_small_disk;

const BLOCK: u64 = 256 << 10;

fn block(number: u64) -> Bytes {
    vec![number as u8; BLOCK as usize].into()
}

/// Writes blocks until one is refused: how many were written, and the status.
fn fill(
    mount: &mut NfsMount,
    mut write: impl FnMut(&mut NfsMount, u64) -> Result<(), NfsError>,
) -> (u64, NfsStatus) {
    for number in 0..1000 {
        if let Err(error) = write(mount, number) {
            return (number, error.status().unwrap_or_else(|| panic!("{error}")));
        }
    }
    panic!("the disk is never full");
}

#[test]
fn a_full_iod_is_nospc_at_write_and_nothing_written_is_lost() {
    let Some((_disk, processes)) = with_small_disk("48m") else { return };
    let mut mount = processes.mount(0, "a");
    let root = mount.root.clone();
    for direct in [false, true] {
        let file = mount.open(&root, "big", true).unwrap();
        let layout = mount.layout(&file, true).unwrap();
        let (written, status) = fill(&mut mount, |mount, number| match direct {
            true => mount.direct_write((&file, &layout), number * BLOCK, block(number)).map(drop),
            false => {
                mount.write(&file, number * BLOCK, block(number), StableHow::FileSync).map(drop)
            }
        });
        assert_eq!(status, NfsStatus::NoSpc, "direct: {direct}");
        assert!(written > 16, "{written} blocks, direct: {direct}");
        if direct {
            mount.direct_commit(&layout, 0).unwrap();
        } else {
            mount.commit(&file).unwrap();
        }
        for number in 0..written {
            let read = mount.read(&file, number * BLOCK, BLOCK as u32).unwrap();
            assert!(read == block(number), "block {number}, direct: {direct}");
        }
        mount.close(&file).unwrap();
        // Removal needs no space. The daemon frees the bytes after the answer.
        mount.remove(&root, "big").unwrap();
        let file = mount.open(&root, "small", true).unwrap();
        wait_for("the removed file's space", || {
            let all = (0..16).map(|at| (at * BLOCK, block(at)));
            all.into_iter()
                .all(|(at, data)| mount.write(&file, at, data, StableHow::FileSync).is_ok())
        });
        mount.close(&file).unwrap();
        mount.remove(&root, "small").unwrap();
    }
}
