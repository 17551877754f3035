//! Numbers of files: valid after restarts and renames, and never those of another file.

use std::{fs, ops::ControlFlow, os::unix::fs::MetadataExt};

use braid_share::{OpenTarget, RenameMode, ShareClient, ShareFile, Status};

use crate::support::{
    BOTH, Fixture, ROOT, create, look_up, mkdir, read, refused, root, run, write,
};

#[test]
fn a_number_is_valid_after_a_restart_before_anybody_looks_it_up() {
    let Some(fixture) = Fixture::new(2, "round-robin") else { return };
    let (dir, file) = run(async {
        let own = fixture.own();
        let above = mkdir(&own, ROOT, "above", 0o755).await;
        let dir = mkdir(&own, above, "d", 0o755).await;
        let file = create(&own, dir, "f").await;
        write(&file, 0, b"bytes").await;
        (dir, file.index())
    });
    let fixture = fixture.restarted(|_| {});
    run(async {
        let own = fixture.own();
        let opened = own.open(&root(), OpenTarget::File(file), BOTH).await.expect("an open");
        assert_eq!(read(&opened.file, 0, 9).await.0, b"bytes");
        assert_eq!(look_up(&own, dir, "f").await.file, file);
        let above = own.parent(&root(), dir).await.expect("a parent");
        assert_eq!(look_up(&own, ROOT, "above").await.file, above.file);
        // Also on a branch that does not have the directory yet.
        create(&own, dir, "second").await;
        create(&own, dir, "third").await;
    });
}

#[test]
fn a_number_follows_renames_by_the_mount_and_on_the_disk() {
    let Some(fixture) = Fixture::new(1, "first") else { return };
    let (dir, file) = run(async {
        let own = fixture.own();
        let dir = mkdir(&own, ROOT, "d", 0o755).await;
        (dir, create(&own, dir, "f").await.index())
    });
    let disk = fixture.branches[0].clone();
    let fixture = fixture.restarted(|_| {
        fs::rename(disk.join("d"), disk.join("moved")).unwrap();
        fs::rename(disk.join("moved/f"), disk.join("g")).unwrap();
    });
    run(async {
        let own = fixture.own();
        let found = own.attributes(&root(), file).await.expect("the file");
        assert_eq!(look_up(&own, ROOT, "g").await.file, found.file);
        let listed = own.list(&root(), dir, 0, 4096, true).await.expect("a listing");
        assert!(listed.entries.is_empty() && listed.end);
        create(&own, dir, "new").await;
        assert!(disk.join("moved/new").exists());
    });
}

#[test]
fn a_removed_file_is_stale_also_when_its_inode_is_used_again() {
    let Some(fixture) = Fixture::new(1, "first") else { return };
    let disk = fixture.branches[0].clone();
    run(async {
        let own = fixture.own();
        // ext4 uses an inode again immediately.
        for round in 0..20 {
            let file = create(&own, ROOT, "f").await;
            let old = file.index();
            file.close().await.unwrap();
            let inode = fs::metadata(disk.join("f")).unwrap().ino();
            if round % 2 == 0 {
                own.remove(&root(), ROOT, b"f").await.unwrap();
            } else {
                fs::remove_file(disk.join("f")).unwrap();
            }
            fs::write(disk.join("other"), b"not for the old handle").unwrap();
            let again = fs::metadata(disk.join("other")).unwrap().ino() == inode;
            assert_eq!(refused(own.attributes(&root(), old).await), Status::StaleHandle);
            let opened = own.open(&root(), OpenTarget::File(old), BOTH).await;
            assert_eq!(refused(opened), Status::StaleHandle, "the same inode: {again}");
            let new = look_up(&own, ROOT, "other").await.file;
            assert_ne!(new, old);
            own.attributes(&root(), new).await.expect("the new file");
            assert_eq!(refused(own.attributes(&root(), old).await), Status::StaleHandle);
            own.remove(&root(), ROOT, b"other").await.unwrap();
        }
    });
}

#[test]
fn a_file_that_was_removed_while_nobody_served_is_stale() {
    let Some(fixture) = Fixture::new(1, "first") else { return };
    let (gone, replaced) = run(async {
        let own = fixture.own();
        let gone = create(&own, ROOT, "gone").await.index();
        (gone, create(&own, ROOT, "replaced").await.index())
    });
    let disk = fixture.branches[0].clone();
    let fixture = fixture.restarted(|_| {
        fs::remove_file(disk.join("gone")).unwrap();
        fs::write(disk.join("new"), b"new").unwrap();
        fs::rename(disk.join("new"), disk.join("replaced")).unwrap();
    });
    run(async {
        let own = fixture.own();
        for file in [gone, replaced] {
            assert_eq!(refused(own.attributes(&root(), file).await), Status::StaleHandle);
        }
        assert_ne!(look_up(&own, ROOT, "replaced").await.file, replaced);
    });
}

#[test]
fn a_lost_or_damaged_table_loses_only_handles() {
    let Some(mut fixture) = Fixture::new(1, "first") else { return };
    let (one, two) = run(async {
        let own = fixture.own();
        (create(&own, ROOT, "one").await.index(), create(&own, ROOT, "two").await.index())
    });
    for damage in ["remove", "overwrite", "cut"] {
        fixture = fixture.restarted(|meta| {
            let table = meta.join("nfs-files");
            match damage {
                "remove" => fs::remove_file(table).unwrap(),
                "overwrite" => fs::write(table, [0xa5; 300]).unwrap(),
                _ => fs::write(&table, &fs::read(&table).unwrap()[..30]).unwrap(),
            }
        });
        run(async {
            let own = fixture.own();
            assert_eq!(refused(own.attributes(&root(), one).await), Status::StaleHandle);
            assert_eq!(look_up(&own, ROOT, "one").await.file, one, "{damage}");
            own.attributes(&root(), one).await.expect("the same number as before");
            assert_eq!(look_up(&own, ROOT, "two").await.file, two);
        });
    }
}

#[test]
fn a_number_stays_when_a_file_is_moved_to_another_branch() {
    let Some(fixture) = Fixture::new(2, "first") else { return };
    let file = run(async {
        let file = create(&fixture.own(), ROOT, "f").await;
        write(&file, 0, b"moved").await;
        file.index()
    });
    // After a restart the share finds the file without its name.
    let fixture = fixture.restarted(|_| {});
    run(async { fixture.own().attributes(&root(), file).await.map(drop).expect("the file") });
    let mut go_on = |_: &_| ControlFlow::Continue(());
    // A file that was changed a moment ago is not moved yet.
    while fixture.union.move_to(b"f", 1, &mut go_on).unwrap().files == 0 {
        std::thread::yield_now();
    }
    assert!(!fixture.branches[0].join("f").exists());
    run(async {
        let own = fixture.own();
        let opened = own.open(&root(), OpenTarget::File(file), BOTH).await.expect("an open");
        assert_eq!(read(&opened.file, 0, 9).await.0, b"moved");
        assert_eq!(look_up(&own, ROOT, "f").await.file, file);
    });
    let fixture = fixture.restarted(|_| {});
    run(async { fixture.own().attributes(&root(), file).await.map(drop).expect("the file") });
}

#[test]
fn a_rename_keeps_the_number_and_a_replaced_file_is_stale() {
    let Some(fixture) = Fixture::new(2, "round-robin") else { return };
    run(async {
        let own = fixture.own();
        let (one, two) = (create(&own, ROOT, "one").await, create(&own, ROOT, "two").await);
        let (kept, gone) = (one.index(), two.index());
        one.close().await.unwrap();
        two.close().await.unwrap();
        let ends = ((ROOT, &b"one"[..]), (ROOT, &b"two"[..]));
        own.rename(&root(), ends.0, ends.1, RenameMode::Replace).await.expect("a rename");
        assert_eq!(look_up(&own, ROOT, "two").await.file, kept);
        assert_eq!(refused(own.attributes(&root(), gone).await), Status::StaleHandle);
    });
}
