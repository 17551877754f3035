//! Large reads, which go from the daemons' sockets to the kernel through a pipe, return every byte
//! as it was written.
#![cfg(target_os = "linux")]

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
    process::Command,
    thread,
};

use crate::support::{Cluster, Mount, can_mount, wait_for};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A pattern that has at each offset that offset.
fn content(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| (at ^ (at >> 9) ^ (at >> 18)) as u8).collect()
}

/// A directory whose files have a stripe size of `stripe_bytes`.
fn striped(mount: &Mount, name: &str, stripe_bytes: u64) {
    fs::create_dir(mount.path(name)).unwrap();
    let layout = format!("stripe-size={stripe_bytes}");
    rustix::fs::setxattr(
        mount.path(name),
        "user.braid.layout",
        layout.as_bytes(),
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
}

/// Reads a file of which `mount` has no page: from beginning to end, and then pieces of it.
fn is_as_written(mount: &Mount, name: &str, bytes: &[u8]) {
    assert!(fs::read(mount.path(name)).unwrap() == bytes, "{name}");
    let file = File::open(mount.path(name)).unwrap();
    for (at, length) in
        [(1, 600 * KIB), (512 * KIB - 1, MIB), (bytes.len() as u64, 1), (3 * MIB - 5, 5 * MIB)]
    {
        let mut buffer = vec![0xaa; length as usize];
        let got = read_all_at(&file, &mut buffer, at);
        let from = bytes.len().min(at as usize);
        assert!(
            buffer[..got] == bytes[from..bytes.len().min(from + length as usize)],
            "{name} from {at}"
        );
    }
}

fn read_all_at(file: &File, buffer: &mut [u8], at: u64) -> usize {
    let mut got = 0;
    while got < buffer.len() {
        match file.read_at(&mut buffer[got..], at + got as u64).unwrap() {
            0 => break,
            bytes => got += bytes,
        }
    }
    got
}

#[test]
fn a_file_that_is_read_through_comes_by_a_pipe() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(4);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let bytes = content(16 * MIB);
    (0..4).for_each(|number| fs::write(one.path(&format!("f{number}")), &bytes).unwrap());
    let mut number = 0;
    // Until the writer's lease is returned, a file is read past the page cache and not through a
    // pipe. Then the next file is used.
    wait_for(|| {
        number += 1;
        let (path, before) = (two.path(&format!("f{}", number % 4)), two.piped_reads());
        assert!(fs::read(&path).unwrap() == bytes);
        drop_pages(&path);
        two.piped_reads() - before >= 16
    });
    assert_eq!(one.piped_reads(), 0, "nothing was read there");
}

/// Drops the kernel's pages of the file.
fn drop_pages(path: &Path) {
    let file = File::open(path).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

#[test]
fn every_length_and_every_hole_reads_as_it_was_written() {
    if !can_mount() {
        return;
    }
    for daemons in [1, 3, 4] {
        let cluster = Cluster::start(daemons);
        let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
        for stripe in [64 * KIB, MIB] {
            let dir = format!("s{stripe}");
            striped(&one, &dir, stripe);
            for length in [128 * KIB, 512 * KIB, 3 * MIB + 77] {
                for length in [length - 1, length, length + 1] {
                    let (name, bytes) = (format!("{dir}/l{length}"), content(length));
                    fs::write(one.path(&name), &bytes).unwrap();
                    is_as_written(&two, &name, &bytes);
                }
            }
            let (name, mut bytes) = (format!("{dir}/holes"), vec![0; 9 * MIB as usize + 1]);
            let file =
                OpenOptions::new().write(true).create_new(true).open(one.path(&name)).unwrap();
            for (at, length) in
                [(MIB - 10, 20), (2 * MIB + 5, MIB), (4 * MIB, 512 * KIB), (7 * MIB - 1, 2)]
            {
                let data = content(length);
                file.write_all_at(&data, at).unwrap();
                bytes[at as usize..][..length as usize].copy_from_slice(&data);
            }
            file.set_len(bytes.len() as u64).unwrap();
            drop(file);
            is_as_written(&two, &name, &bytes);
        }
    }
}

#[test]
fn writes_and_truncates_of_another_mount_are_read_immediately() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(3);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    for round in 1..=8u64 {
        let length = (round % 5 + 1) * 700_001;
        fs::write(one.path("f"), vec![round as u8; length as usize]).unwrap();
        assert!(fs::read(two.path("f")).unwrap() == vec![round as u8; length as usize]);
        let file = OpenOptions::new().write(true).open(one.path("f")).unwrap();
        file.set_len(length / 2).unwrap();
        assert!(fs::read(two.path("f")).unwrap() == vec![round as u8; length as usize / 2]);
        file.set_len(length).unwrap();
        let grown = fs::read(two.path("f")).unwrap();
        let (kept, zeros) = grown.split_at(length as usize / 2);
        assert!(
            kept.iter().all(|byte| *byte == round as u8) && zeros.iter().all(|byte| *byte == 0)
        );
        assert_eq!(grown.len() as u64, length);
    }
}

#[test]
fn many_programs_read_large_files_at_the_same_time() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(4);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let bytes = content(4 * MIB);
    (0..12).for_each(|number| fs::write(one.path(&format!("f{number}")), &bytes).unwrap());
    thread::scope(|scope| {
        for number in 0..12 {
            let (path, bytes) = (two.path(&format!("f{number}")), &bytes);
            scope.spawn(move || {
                for _ in 0..3 {
                    assert!(fs::read(&path).unwrap() == *bytes);
                    drop_pages(&path);
                }
            });
        }
    });
}

#[test]
fn a_program_killed_during_a_read_leaves_the_mount_working() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(4);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let bytes = content(16 * MIB);
    fs::write(one.path("f"), &bytes).unwrap();
    for _ in 0..10 {
        let mut reader = Command::new("cat")
            .arg(two.path("f"))
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // It has begun.
        std::io::Read::read_exact(reader.stdout.as_mut().unwrap(), &mut [0; 4096]).unwrap();
        reader.kill().unwrap();
        reader.wait().unwrap();
        drop_pages(&two.path("f"));
    }
    assert!(fs::read(two.path("f")).unwrap() == bytes);
}
