//! Share denials of an NFS client against opens of a mount.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    path::Path,
};

use braid_nfs_wire::nfs4::{NfsStatus, ShareAccess, ShareDeny, args::OpenHow};
use braid_testbed::{nfs::NfsFile, wait::wait_for};

use super::{Mixed, Nfs, refused};

fn open_as(nfs: &mut Nfs, access: ShareAccess, deny: ShareDeny) -> Result<NfsFile, NfsStatus> {
    let opened = nfs.mount.open_as(&nfs.dir, "f", OpenHow::NoCreate, (access, deny));
    opened.map_err(|error| error.status().unwrap_or_else(|| panic!("{error}")))
}

fn is_busy<T>(done: io::Result<T>) -> bool {
    done.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
}

fn open_to_write(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

#[test]
fn a_mount_cannot_open_what_nfs_denies() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("denied-by-nfs");
    let path = dir.join("f");
    nfs.create("f", b"content");
    // The mount has everything cached that it needs to open the file without a call.
    assert_eq!(fs::read(&path).unwrap(), b"content");
    let deny = open_as(&mut nfs, ShareAccess::READ, ShareDeny::WRITE).unwrap();
    assert!(is_busy(open_to_write(&path)));
    assert!(is_busy(File::create(&path)));
    assert_eq!(fs::read(&path).unwrap(), b"content");
    nfs.mount.close(&deny).unwrap();
    drop(open_to_write(&path).unwrap());
    let deny = wait_for_open(&mut nfs, ShareAccess::READ, ShareDeny::BOTH);
    assert!(is_busy(File::open(&path)) && is_busy(open_to_write(&path)));
    nfs.mount.close(&deny).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"content");
}

/// Opens it when the mount has reported its closes, which it may do a moment after them.
fn wait_for_open(nfs: &mut Nfs, access: ShareAccess, deny: ShareDeny) -> NfsFile {
    let mut opened = None;
    wait_for("the mount's close", || match open_as(nfs, access, deny) {
        Ok(file) => opened.insert(file).handle.0.len() > 1,
        Err(status) => {
            assert_eq!(status, NfsStatus::ShareDenied);
            false
        }
    });
    opened.unwrap()
}

#[test]
fn nfs_cannot_deny_what_a_mount_has_open() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("denied-by-mount");
    let path = dir.join("f");
    nfs.create("f", b"content");
    assert_eq!(fs::read(&path).unwrap(), b"content");
    // An open that the mount may have answered from its caches.
    let mut open = File::open(&path).unwrap();
    let denied = Err(NfsStatus::ShareDenied);
    assert_eq!(open_as(&mut nfs, ShareAccess::READ, ShareDeny::READ), denied);
    let file = open_as(&mut nfs, ShareAccess::READ, ShareDeny::WRITE).unwrap();
    nfs.mount.close(&file).unwrap();
    let mut content = Vec::new();
    open.read_to_end(&mut content).unwrap();
    assert_eq!(content, b"content");
    drop(open);
    let file = wait_for_open(&mut nfs, ShareAccess::READ, ShareDeny::READ);
    nfs.mount.close(&file).unwrap();

    let open = open_to_write(&path).unwrap();
    assert_eq!(open_as(&mut nfs, ShareAccess::READ, ShareDeny::WRITE), denied);
    let read_only = open_as(&mut nfs, ShareAccess::READ, ShareDeny::NONE).unwrap();
    nfs.mount.close(&read_only).unwrap();
    drop(open);
    // Also while the mount buffers what was written before the close.
    fs::write(&path, "buffered").unwrap();
    let file = wait_for_open(&mut nfs, ShareAccess::BOTH, ShareDeny::BOTH);
    assert_eq!(nfs.content(&file), b"buffered");
    nfs.mount.close(&file).unwrap();
    assert_eq!(refused(nfs.mount.close(&file)), Some(NfsStatus::BadStateId));
}
