//! Names that a mount changes under the opens of an NFS client, and the other way round.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::{FileExt, MetadataExt},
};

use braid_nfs_wire::nfs4::{NfsStatus, attribute};
use braid_testbed::wait::wait_for;

use super::{Mixed, open_both, refused};

#[test]
fn nfs_goes_on_with_a_file_that_a_mount_renames() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("renamed-by-mount");
    fs::create_dir(dir.join("sub")).unwrap();
    fs::write(dir.join("sub/f"), "before").unwrap();
    let sub = nfs.mount.look_up(&nfs.dir, "sub").unwrap();
    let file = nfs.mount.open(&sub, "f", false).unwrap();
    fs::rename(dir.join("sub/f"), dir.join("g")).unwrap();
    fs::rename(dir.join("sub"), dir.join("moved")).unwrap();
    nfs.write(&file, 0, b"behind");
    assert_eq!(nfs.content(&file), b"behind");
    assert_eq!(fs::read(dir.join("g")).unwrap(), b"behind");
    assert_eq!(refused(nfs.mount.look_up(&sub, "f")), Some(NfsStatus::NoEnt));
    assert_eq!(refused(nfs.mount.look_up(&nfs.dir, "sub")), Some(NfsStatus::NoEnt));
    // The handle of the directory is that of the moved one.
    fs::write(dir.join("moved/new"), "new").unwrap();
    assert_eq!(nfs.mount.list(&sub).unwrap(), ["new"]);
    assert_eq!(nfs.mount.look_up(&nfs.dir, "g").unwrap(), file.handle);
    nfs.mount.close(&file).unwrap();
}

#[test]
fn a_mount_goes_on_with_a_file_and_a_directory_that_nfs_renames() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("renamed-by-nfs");
    let sub = nfs.mount.make_directory(&nfs.dir, "sub").unwrap();
    fs::write(dir.join("sub/f"), "before").unwrap();
    let (file, open_dir) = (open_both(&dir.join("sub/f")), File::open(dir.join("sub")).unwrap());
    nfs.mount.rename_to((&sub, "f"), (&nfs.dir, "g")).unwrap();
    nfs.mount.rename(&nfs.dir, "sub", "moved").unwrap();
    for gone in ["sub", "sub/f", "moved/f"] {
        assert!(fs::metadata(dir.join(gone)).is_err(), "{gone}");
    }
    file.write_all_at(b"behind", 0).unwrap();
    assert_eq!(nfs.read("g"), b"behind");
    assert_eq!(fs::read(dir.join("g")).unwrap(), b"behind");
    assert_eq!(file.metadata().unwrap().ino(), fs::metadata(dir.join("g")).unwrap().ino());
    let moved = fs::metadata(dir.join("moved")).unwrap();
    assert_eq!(open_dir.metadata().unwrap().ino(), moved.ino());
}

#[test]
fn nfs_keeps_a_file_that_a_mount_removes_or_replaces_until_close() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("removed-by-mount");
    for how in ["removed", "replaced"] {
        nfs.create(how, b"before");
        let file = nfs.open(how);
        fs::read(dir.join(how)).unwrap();
        match how {
            "removed" => fs::remove_file(dir.join(how)).unwrap(),
            _ => {
                fs::write(dir.join("other"), "other").unwrap();
                fs::rename(dir.join("other"), dir.join(how)).unwrap();
                assert_eq!(nfs.read(how), b"other");
            }
        }
        nfs.write(&file, 6, b" and behind");
        assert_eq!(nfs.content(&file), b"before and behind", "{how}");
        let links = nfs.mount.attributes(&file.handle, &[attribute::NUMLINKS]).unwrap();
        assert_eq!(links.numlinks, Some(0), "{how}");
        nfs.mount.close(&file).unwrap();
        // The mount read it too, and reports the close of a file a moment after it.
        wait_for("the removed file's end", || {
            refused(nfs.mount.size(&file.handle)) == Some(NfsStatus::Stale)
        });
    }
    // The handle of a removed file never becomes that of a later one.
    let old = nfs.create("again", b"old");
    fs::remove_file(dir.join("again")).unwrap();
    fs::write(dir.join("again"), "new").unwrap();
    assert_eq!(refused(nfs.mount.size(&old)), Some(NfsStatus::Stale));
    assert_eq!(nfs.read("again"), b"new");
}

#[test]
fn a_mount_keeps_a_file_that_nfs_removes_or_replaces_until_close() {
    let Some(mixed) = Mixed::shared() else { return };
    let (dir, mut nfs) = mixed.dir("removed-by-nfs");
    for how in ["removed", "replaced"] {
        fs::write(dir.join(how), "before").unwrap();
        let mut file = open_both(&dir.join(how));
        let handle = nfs.mount.look_up(&nfs.dir, how).unwrap();
        if how == "removed" {
            nfs.mount.remove(&nfs.dir, how).unwrap();
            assert!(fs::metadata(dir.join(how)).is_err());
            fs::write(dir.join(how), "other").unwrap();
        } else {
            nfs.create("other", b"other");
            nfs.mount.rename(&nfs.dir, "other", how).unwrap();
        }
        file.write_all_at(b" and behind", 6).unwrap();
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        assert_eq!(content, "before and behind", "{how}");
        assert_eq!(file.metadata().unwrap().nlink(), 0, "{how}");
        assert_eq!(fs::read(dir.join(how)).unwrap(), b"other", "{how}");
        assert_eq!(nfs.read(how), b"other", "{how}");
        drop(file);
        // The mount reports the close of a file a moment after it.
        wait_for("the removed file's end", || {
            refused(nfs.mount.size(&handle)) == Some(NfsStatus::Stale)
        });
    }
}
