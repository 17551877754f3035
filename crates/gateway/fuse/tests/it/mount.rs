//! A mount as programs see it: one kernel with one or two mounts of one cluster.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    process::{Command, Stdio},
    thread,
};

use crate::support::{Cluster, Mount, can_mount, wait_for};
use rustix::fs::{CWD, FileType, Mode, OFlags};

fn read_write() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options
}

#[test]
fn writes_and_sizes_are_seen_on_both_mounts_immediately() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(2);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
    fs::write(one.path("f"), &bytes).unwrap();
    assert_eq!(fs::metadata(two.path("f")).unwrap().len(), bytes.len() as u64);
    assert!(fs::read(two.path("f")).unwrap() == bytes);
    let mut file = OpenOptions::new().append(true).open(two.path("f")).unwrap();
    for round in 0..20 {
        file.write_all(&[round; 1000]).unwrap();
        let size = bytes.len() as u64 + 1000 * (u64::from(round) + 1);
        assert_eq!(fs::metadata(one.path("f")).unwrap().len(), size);
    }
    file.set_len(5).unwrap();
    assert_eq!(fs::read(one.path("f")).unwrap(), bytes[..5]);
}

#[test]
fn a_sequential_reader_has_read_ahead_from_all_daemons() {
    const STEP: usize = 64 << 10;
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(4);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let bytes: Vec<u8> = (0..32u32 << 20).map(|at| (at >> 12) as u8).collect();
    let mut number = 0;
    // Until the writer's lease is returned, a file is read past the kernel's page cache. Then the
    // next file is used.
    (0..16).for_each(|number| fs::write(one.path(&format!("f{number}")), &bytes).unwrap());
    wait_for(|| {
        number += 1;
        let before = cluster.read_from_each();
        let mut file = fs::File::open(two.path(&format!("f{}", number % 16))).unwrap();
        let mut step = vec![0; STEP];
        for at in 0..16 {
            file.read_exact(&mut step).unwrap();
            assert!(step == bytes[at * STEP..][..STEP]);
        }
        let read = || {
            cluster
                .read_from_each()
                .iter()
                .zip(&before)
                .map(|(now, then)| now - then)
                .collect::<Vec<_>>()
        };
        // Read-ahead is still running when the program's own read returns.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(2);
        let ahead =
            || read().iter().all(|bytes| *bytes > 0) && read().iter().sum::<u64>() >= 2 << 20;
        while !ahead() && std::time::Instant::now() < until {
            thread::yield_now();
        }
        ahead()
    });
}

#[test]
fn an_unlinked_file_exists_while_it_is_open() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(2);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let mut file = read_write().open(one.path("f")).unwrap();
    file.write_all(b"kept").unwrap();
    fs::remove_file(two.path("f")).unwrap();
    assert!(!one.path("f").exists());
    file.write_all(b" and more").unwrap();
    assert_eq!((file.metadata().unwrap().nlink(), file.metadata().unwrap().len()), (0, 13));
    file.set_len(4).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "kept");
    file.sync_all().unwrap();
}

#[test]
fn appends_from_two_mounts_are_complete_and_not_mixed() {
    const RECORDS: usize = 300;
    const RECORD_BYTES: usize = 100;
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(2);
    let mounts = [Mount::new(&cluster), Mount::new(&cluster)];
    thread::scope(|scope| {
        for writer in 0..4u8 {
            let path = mounts[usize::from(writer) % 2].path("log");
            scope.spawn(move || {
                let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
                for number in 0..RECORDS {
                    let mut record = format!("{writer} {number} ").into_bytes();
                    record.resize(RECORD_BYTES - 1, b'a' + writer);
                    record.push(b'\n');
                    file.write_all(&record).unwrap();
                }
            });
        }
    });
    let log = fs::read(mounts[0].path("log")).unwrap();
    assert_eq!(log.len(), 4 * RECORDS * RECORD_BYTES);
    let mut next = [0; 4];
    for record in log.chunks(RECORD_BYTES) {
        let writer = usize::from(record[0] - b'0');
        let start = format!("{writer} {} ", next[writer]);
        assert!(record.starts_with(start.as_bytes()), "{}", String::from_utf8_lossy(record));
        assert!(
            record[start.len()..RECORD_BYTES - 1]
                .iter()
                .all(|byte| usize::from(byte - b'a') == writer)
        );
        next[writer] += 1;
    }
}

#[test]
fn a_program_runs_from_the_mount() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(2);
    let mount = Mount::new(&cluster);
    fs::copy("/bin/echo", mount.path("echo")).unwrap();
    fs::set_permissions(mount.path("echo"), fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(mount.path("echo")).arg("from the mount").output().unwrap();
    assert_eq!(output.stdout, b"from the mount\n");
    fs::write(mount.path("script"), "#!/bin/sh\nexec ./echo \"$@\"\n").unwrap();
    fs::set_permissions(mount.path("script"), fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(mount.path("script"))
        .arg("twice")
        .current_dir(mount.point())
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"twice\n");
}

#[test]
fn a_refused_open_does_not_truncate_a_running_program() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(2);
    let mount = Mount::new(&cluster);
    let program = mount.path("cat");
    fs::copy("/bin/cat", &program).unwrap();
    let bytes = fs::metadata(&program).unwrap().len();
    let mut running = Command::new(&program).stdin(Stdio::piped()).spawn().unwrap();
    // Opened for reading and truncated all the same: Linux checks only at the truncate whether the
    // program runs.
    let truncate =
        |access: OFlags| rustix::fs::open(&program, access | OFlags::TRUNC, Mode::empty());
    for access in [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR] {
        assert_eq!(truncate(access).unwrap_err(), rustix::io::Errno::TXTBSY, "{access:?}");
        assert_eq!(fs::metadata(&program).unwrap().len(), bytes, "{access:?}");
    }
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success());
    truncate(OFlags::RDONLY).unwrap();
    assert_eq!(fs::metadata(&program).unwrap().len(), 0);
}

#[test]
fn a_listing_under_change_has_every_untouched_name_once() {
    const FILES: usize = 10_000;
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(1);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    fs::create_dir(one.path("d")).unwrap();
    thread::scope(|scope| {
        for (quarter, mount) in [&one, &two, &one, &two].into_iter().enumerate() {
            let names = (quarter * FILES / 4..(quarter + 1) * FILES / 4)
                .map(|n| mount.path(&format!("d/{n}")));
            scope.spawn(move || {
                for name in names {
                    rustix::fs::mknodat(CWD, name, FileType::Fifo, 0o600.into(), 0).unwrap();
                }
            });
        }
    });
    let mut seen = BTreeSet::new();
    for (number, entry) in fs::read_dir(one.path("d")).unwrap().enumerate() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(seen.insert(name.clone()), "{name} was listed twice");
        // During the listing: names that it has returned are removed, others are created.
        if number % 50 == 0 {
            fs::remove_file(two.path(&format!("d/{name}"))).unwrap();
            fs::write(two.path(&format!("d/new{number}")), b"").unwrap();
        }
    }
    let old = seen.iter().filter(|name| !name.starts_with("new")).count();
    assert_eq!(old, FILES);
    assert_eq!(fs::read_dir(two.path("d")).unwrap().count(), FILES);
    let names: BTreeSet<_> =
        fs::read_dir(one.path("d")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), FILES);
}

#[test]
fn a_new_file_has_its_creators_ids_and_its_attributes_change() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(1);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let file = read_write().mode(0o640).open(one.path("f")).unwrap();
    file.write_at(b"x", (1 << 40) - 1).unwrap();
    std::os::unix::fs::chown(one.path("f"), Some(1000), Some(100)).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o4755)).unwrap();
    let known = fs::metadata(two.path("f")).unwrap();
    assert_eq!(
        (known.uid(), known.gid(), known.mode(), known.len()),
        (1000, 100, 0o104755, 1 << 40)
    );
    assert_eq!(known.ino(), file.metadata().unwrap().ino());
    let time =
        fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH + std::time::Duration::new(5, 6));
    file.set_times(time).unwrap();
    assert_eq!(
        (
            fs::metadata(two.path("f")).unwrap().mtime(),
            fs::metadata(two.path("f")).unwrap().mtime_nsec()
        ),
        (5, 6)
    );
    fs::hard_link(two.path("f"), two.path("g")).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 2);
    std::os::unix::fs::symlink("g", one.path("l")).unwrap();
    assert_eq!(fs::metadata(two.path("l")).unwrap().len(), 1 << 40);
    fs::rename(one.path("g"), one.path("l")).unwrap();
    assert!(fs::symlink_metadata(two.path("l")).unwrap().is_file());
}

#[test]
fn two_mounts_change_one_directory_concurrently_and_none_hangs() {
    const ROUNDS: usize = 60;
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(2);
    let mounts = [Mount::new(&cluster), Mount::new(&cluster)];
    fs::create_dir_all(mounts[0].path("a/b")).unwrap();
    thread::scope(|scope| {
        for worker in 0..6usize {
            let mount = &mounts[worker % 2];
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let own = mount.path(&format!("a/own{worker}"));
                    fs::write(&own, format!("{worker} {round}")).unwrap();
                    // Names that all workers use, and moves between the directories in both
                    // directions.
                    let _ = fs::rename(&own, mount.path("a/b/all"));
                    let _ =
                        fs::rename(mount.path("a/b/all"), mount.path(&format!("a/taken{worker}")));
                    let _ = fs::metadata(mount.path("a/b/all"));
                    let _ = fs::remove_file(mount.path(&format!("a/taken{}", round % 6)));
                    let _ = fs::create_dir(mount.path("a/b/dir"))
                        .and_then(|()| fs::remove_dir(mount.path("a/b/dir")));
                }
            });
        }
    });
    let names = |mount: &Mount, below: &str| -> BTreeSet<_> {
        fs::read_dir(mount.path(below)).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    for below in ["a", "a/b"] {
        let seen = names(&mounts[0], below);
        assert_eq!(seen, names(&mounts[1], below));
        for (name, mount) in seen.iter().flat_map(|name| [(name, &mounts[0]), (name, &mounts[1])]) {
            assert!(fs::symlink_metadata(mount.path(below).join(name)).is_ok(), "{name:?}");
        }
    }
}

#[test]
fn a_change_on_one_mount_is_seen_by_the_next_call_on_the_other() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(1);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    fs::create_dir(one.path("d")).unwrap();
    for round in 0..100u32 {
        let name = format!("d/{}", round % 7);
        let (changed, seen) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
        // Both cache what they may of the name, also its absence.
        let before = (one.path(&name).exists(), two.path(&name).exists());
        match before.0 {
            true if round % 3 == 0 => fs::remove_file(changed.path(&name)).unwrap(),
            true => fs::set_permissions(
                changed.path(&name),
                fs::Permissions::from_mode((round % 0o777) | 0o400),
            )
            .unwrap(),
            false => fs::write(changed.path(&name), vec![0; round as usize]).unwrap(),
        }
        let facts = |mount: &Mount| {
            fs::metadata(mount.path(&name))
                .ok()
                .map(|found| (found.ino(), found.mode(), found.len()))
        };
        assert_eq!(before.0, before.1);
        assert_eq!(facts(seen), facts(changed), "round {round}");
        assert_eq!(
            fs::read(seen.path(&name)).ok().map(|bytes| bytes.len() as u64),
            facts(changed).map(|(_, _, bytes)| bytes)
        );
    }
}

#[test]
fn free_space_is_counted_in_the_unit_that_programs_expect() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(1);
    let mount = Mount::new(&cluster);
    let space = rustix::fs::statfs(mount.point()).unwrap();
    assert_eq!((space.f_bsize, space.f_frsize), (4096, 4096));
}
