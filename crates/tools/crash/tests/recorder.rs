//! The recorder and the image builder, run over programs with known calls.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use braid_crash_tests::{
    disk::{Change, Event, History, Loss, PowerCut, SurvivingShare, Tree},
    trace,
};

struct Scratch {
    _dir: tempfile::TempDir,
    root: PathBuf,
    history: History,
}

/// Records a shell script. `$D` is the recorded directory, `mark TEXT` makes a mark.
fn record(script: &str) -> Option<Scratch> {
    if trace::missing().is_some_and(|why| {
        println!("skipped: {why}");
        true
    }) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let (root, marks, text) =
        (dir.path().join("root"), dir.path().join("marks"), dir.path().join("trace"));
    fs::create_dir(&root).unwrap();
    let script = format!(
        "D={}; mark() {{ echo \"$1\" >> {}; }}; set -e; {script}",
        root.display(),
        marks.display()
    );
    trace::record(&text, Path::new("/bin/sh"), &[OsStr::new("-c"), OsStr::new(&script)]).unwrap();
    let history = trace::read(&text, &root, &marks).unwrap();
    Some(Scratch { _dir: dir, root, history })
}

fn mark(history: &History, text: &str) -> usize {
    history.marks().find(|(_, mark)| *mark == text).unwrap().0
}

fn image(history: &History, at: usize, share: SurvivingShare) -> (tempfile::TempDir, PathBuf) {
    write(&PowerCut::new(history, at).image(&Loss { share, volumes: None, seed: 1, strict: true }))
}

fn write(tree: &Tree) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    tree.write_to(&path).unwrap();
    (dir, path)
}

/// Writes files through several programs, with shared and moved descriptors, links, truncates and
/// holes.
const MANY: &str = r#"
    mkdir $D/a; mark made
    (echo one; echo two) > $D/a/file
    echo three >> $D/a/file
    dd if=/dev/zero bs=1000 count=3 2>/dev/null | tr '\0' x |
      dd of=$D/a/big bs=1000 seek=2 conv=fsync 2>/dev/null
    mark synced
    dd if=/dev/zero of=$D/a/big bs=100 count=1 seek=30 conv=notrunc 2>/dev/null
    mv $D/a/file $D/a/moved; ln $D/a/moved $D/a/linked; ln -s moved $D/a/soft
    truncate -s 2500 $D/a/big; fallocate -p -o 2100 -l 100 $D/a/big
    echo gone > $D/gone; rm $D/gone; cat $D/a/big > $D/copy
    (exec 5<>$D/a/big && echo abc >&5 && sh -c 'echo def >&5')
"#;

#[test]
fn the_replayed_history_equals_the_disk() {
    let Some(scratch) = record(MANY) else { return };
    let end = scratch.history.end();
    assert_eq!(end.differences(&scratch.root, &[]).unwrap(), Vec::<String>::new());
    // Also to a directory and back.
    let (_dir, copy) = write(&end);
    assert_eq!(end.differences(&copy, &[]).unwrap(), Vec::<String>::new());
    assert_eq!(fs::read(copy.join("a/moved")).unwrap(), b"one\ntwo\nthree\n");
    assert_eq!(fs::read_link(copy.join("a/soft")).unwrap(), Path::new("moved"));
}

#[test]
fn a_file_created_without_a_name_gets_it_by_the_link() {
    let script = r#"
        mkdir $D/a; mark made; export D
        python3 -c 'import os, sys
d = os.environ["D"]
fd = os.open(d + "/a", os.O_RDWR | os.O_TMPFILE, 0o640)
os.write(fd, b"nameless")
os.setxattr(fd, "user.of", b"it")
os.link(f"/proc/self/fd/{fd}", d + "/a/named", src_dir_fd=fd, follow_symlinks=True)
os.write(fd, b" no more")'
    "#;
    let Some(scratch) = record(script) else { return };
    let end = scratch.history.end();
    assert_eq!(end.differences(&scratch.root, &[]).unwrap(), Vec::<String>::new());
    let (_dir, copy) = write(&end);
    assert_eq!(fs::read(copy.join("a/named")).unwrap(), b"nameless no more");
    let (_dir, bare) =
        image(&scratch.history, mark(&scratch.history, "made"), SurvivingShare::Nothing);
    assert!(!bare.join("a/named").exists());
}

#[test]
fn a_difference_from_the_disk_is_found() {
    let Some(scratch) = record(MANY) else { return };
    let mut end = scratch.history.end();
    let node = scratch.history.events.iter().find_map(|event| match event {
        Event::Change(Change::Write { node, .. }) => Some(*node),
        _ => None,
    });
    end.write(node.unwrap(), 1, b"?");
    assert_eq!(end.differences(&scratch.root, &[]).unwrap().len(), 2, "under both of its names");
}

#[test]
fn synced_changes_are_in_every_image_and_nothing_else_is_certain() {
    let Some(scratch) = record(
        "mkdir $D/a; sync $D; echo kept > $D/a/file; sync $D/a/file; sync $D/a; mark synced
         echo lost >> $D/a/file; echo lost > $D/a/other; mv $D/a/file $D/a/moved; mark end",
    ) else {
        return;
    };
    let (_dir, bare) =
        image(&scratch.history, mark(&scratch.history, "end"), SurvivingShare::Nothing);
    assert_eq!(fs::read(bare.join("a/file")).unwrap(), b"kept\n");
    assert_eq!(fs::read_dir(bare.join("a")).unwrap().count(), 1);
    let (_dir, full) =
        image(&scratch.history, mark(&scratch.history, "end"), SurvivingShare::Everything);
    assert_eq!(fs::read(full.join("a/moved")).unwrap(), b"kept\nlost\n");
    assert!(!full.join("a/file").exists() && full.join("a/other").exists());
}

#[test]
fn a_synced_file_without_a_synced_name_may_be_gone() {
    let Some(scratch) = record("echo kept > $D/file; sync $D/file; mark end") else { return };
    let (_dir, bare) =
        image(&scratch.history, mark(&scratch.history, "end"), SurvivingShare::Nothing);
    assert_eq!(fs::read_dir(bare).unwrap().count(), 0);
}

#[test]
fn a_rename_is_whole_or_not_at_all_in_every_image() {
    let Some(scratch) = record(
        "echo old > $D/name; sync $D/name; sync $D; echo new > $D/tmp; sync $D/tmp
         mv $D/tmp $D/name; mark end",
    ) else {
        return;
    };
    let cut = PowerCut::new(&scratch.history, mark(&scratch.history, "end"));
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let share = SurvivingShare::ALL[seed as usize % SurvivingShare::ALL.len()];
        let (_dir, path) = write(&cut.image(&Loss { share, volumes: None, seed, strict: true }));
        seen.insert(fs::read(path.join("name")).unwrap());
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [b"new\n", b"old\n"]);
}

#[test]
fn unsynced_writes_are_torn_and_a_forgotten_sync_is_noticed() {
    let Some(scratch) = record(
        "touch $D/file; sync $D/file; sync $D
         dd if=/dev/zero bs=8192 count=1 2>/dev/null | tr '\\0' x > $D/file
         mark written; sync $D/file; mark synced",
    ) else {
        return;
    };
    let written = PowerCut::new(&scratch.history, mark(&scratch.history, "written"));
    let ones = |tree: &Tree| {
        let (_dir, path) = write(tree);
        fs::read(path.join("file")).unwrap().iter().filter(|byte| **byte == b'x').count()
    };
    let counts: Vec<_> = (0..100)
        .map(|seed| {
            ones(&written.image(&Loss {
                share: SurvivingShare::Scattered,
                volumes: None,
                seed,
                strict: true,
            }))
        })
        .collect();
    assert!(
        counts.contains(&0)
            && counts.contains(&8192)
            && counts.iter().any(|count| (1..8192).contains(count))
    );
    assert!(counts.iter().all(|count| count % 512 == 0), "torn at sectors");

    let mut synced = PowerCut::new(&scratch.history, mark(&scratch.history, "synced"));
    let bare = Loss { share: SurvivingShare::Nothing, volumes: None, seed: 1, strict: true };
    assert_eq!(ones(&synced.image(&bare)), 8192);
    for (event, _) in scratch.history.events.iter().enumerate().filter(|(_, event)| is_write(event))
    {
        synced.forget(event);
    }
    assert_eq!(ones(&synced.image(&bare)), 0);
}

fn is_write(event: &Event) -> bool {
    matches!(event, Event::Change(Change::Write { .. }))
}
