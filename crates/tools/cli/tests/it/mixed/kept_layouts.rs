//! Layouts that a client does not return, against truncation and removal by a mount: the client
//! does nothing meanwhile, and the data servers refuse what it sends afterwards. ADR 0037, 10.

use std::{fs, os::unix::fs::FileExt};

use braid_nfs_wire::nfs4::NfsStatus;
use braid_testbed::{
    nfs::{NfsCallbacks, NfsError, NfsFile, NfsLayout},
    wait::wait_for,
};
use bytes::Bytes;

use super::{Mixed, Nfs, open_both, refused};

const STRIPE: u64 = 1 << 20;
/// Of each daemon.
const OFFSETS: [u64; 2] = [100, STRIPE + 100];

/// A file with bytes at both daemons, its open, and a layout to write.
fn with_layout(nfs: &mut Nfs, name: &str) -> (NfsFile, NfsLayout) {
    let file = nfs.mount.open(&nfs.dir, name, true).unwrap();
    let layout = nfs.mount.layout(&file, true).unwrap();
    for offset in OFFSETS {
        write(nfs, (&file, &layout), offset, b"before").unwrap();
    }
    (file, layout)
}

fn write(
    nfs: &mut Nfs,
    of: (&NfsFile, &NfsLayout),
    offset: u64,
    bytes: &'static [u8],
) -> Result<(), NfsError> {
    nfs.mount.direct_write(of, offset, Bytes::from_static(bytes)).map(drop)
}

/// Every data server refuses READ and WRITE by the layout.
#[track_caller]
fn is_refused(nfs: &mut Nfs, of: (&NfsFile, &NfsLayout)) {
    for offset in OFFSETS {
        let written = refused(write(nfs, of, offset, b"late"));
        assert_eq!(written, Some(NfsStatus::Stale), "WRITE at {offset}");
        let read = refused(nfs.mount.direct_read(of, offset, 4));
        assert_eq!(read, Some(NfsStatus::Stale), "READ at {offset}");
    }
}

#[test]
fn truncation_by_a_mount_needs_no_answer_of_a_client_with_a_layout() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("kept-truncated");
    let callbacks = NfsCallbacks::of(&nfs.mount).unwrap();
    let (file, layout) = with_layout(&mut nfs, "f");
    let open = open_both(&dir.join("f"));
    // The call returns an error after 30 s, and this client does not send anything.
    open.set_len(50).unwrap();
    is_refused(&mut nfs, (&file, &layout));
    assert_eq!(open.metadata().unwrap().len(), 50);
    assert_eq!(nfs.mount.size(&file.handle).unwrap(), 50);
    // What the refused client wrote is not there when the file is longer again.
    open.set_len(2 * STRIPE).unwrap();
    for offset in OFFSETS {
        let mut found = [1; 8];
        open.read_exact_at(&mut found, offset).unwrap();
        assert_eq!(found, [0; 8], "at {offset}");
    }
    // ADR 0039, 8: the fence needs no recall.
    assert!(callbacks.received().is_none());
    // The next layout is valid.
    let next = nfs.mount.layout(&file, true).unwrap();
    for offset in OFFSETS {
        write(&mut nfs, (&file, &next), offset, b"behind").unwrap();
        let mut found = [0; 6];
        open.read_exact_at(&mut found, offset).unwrap();
        assert_eq!(&found, b"behind", "at {offset}");
    }
    nfs.mount.return_layout(&file, &next).unwrap();
    nfs.mount.close(&file).unwrap();
}

#[test]
fn a_removed_file_ends_with_its_close_though_its_layout_is_kept() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("kept-removed");
    let (file, layout) = with_layout(&mut nfs, "f");
    fs::remove_file(dir.join("f")).unwrap();
    // An open file that is removed keeps its bytes, and its layout is valid.
    for offset in OFFSETS {
        write(&mut nfs, (&file, &layout), offset, b"behind").unwrap();
        let found = nfs.mount.direct_read((&file, &layout), offset, 6).unwrap();
        assert_eq!(found[..], b"behind"[..], "at {offset}");
    }
    nfs.mount.close(&file).unwrap();
    assert_eq!(refused(nfs.mount.size(&file.handle)), Some(NfsStatus::Stale));
    // The daemons delete the objects a moment later. A late write does not create them again.
    wait_for("the data servers to refuse the layout", || {
        OFFSETS.iter().all(|&offset| {
            let written = refused(write(&mut nfs, (&file, &layout), offset, b"late"));
            let read = refused(nfs.mount.direct_read((&file, &layout), offset, 4));
            (written, read) == (Some(NfsStatus::Stale), Some(NfsStatus::Stale))
        })
    });
    mixed.fsck();
}
