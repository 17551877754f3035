//! Striped files from a user's view: a directory is chosen, its files are used through the mount.
#![cfg(target_os = "linux")]

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc,
};

use rustix::fs::FallocateFlags;
use serde_json::Value;

use crate::{
    harness::{braid, text},
    union::Mounted,
};

const UNIT: u64 = 64 << 10;

/// A mount of two disks, with a directory `s` whose files are striped.
fn start(options: &[&str]) -> Option<Mounted> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: striped files need root");
        return None;
    }
    let union = Mounted::start(options)?;
    fs::create_dir(union.at("mnt/s")).unwrap();
    stripe(&union, &["--unit", "64K"]);
    Some(union)
}

fn stripe(union: &Mounted, options: &[&str]) {
    let set = braid().args(["union", "stripe"]).arg(union.at("mnt/s")).args(options).output();
    let set = set.unwrap();
    assert!(set.status.success(), "{}", text(&set));
}

/// The objects of all disks.
fn objects(union: &Mounted) -> Vec<PathBuf> {
    let disks = ["disk1", "disk2"].into_iter();
    let directories = disks
        .flat_map(|disk| fs::read_dir(union.at(disk).join(".braid-striped/objects")).into_iter());
    let inner =
        directories.flatten().flat_map(|inner| fs::read_dir(inner.unwrap().path()).unwrap());
    inner.map(|object| object.unwrap().path()).collect()
}

/// All files are removed. The kernel reports a close after close(2), possibly after the removal.
fn check_no_objects(union: &Mounted) {
    let begun = std::time::Instant::now();
    while !objects(union).is_empty() && begun.elapsed().as_secs() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(objects(union).len(), 0, "objects of removed files");
}

#[test]
fn files_of_a_chosen_directory_are_striped_and_say_so() {
    let Some(mut union) = start(&[]) else { return };
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let big = union.at("mnt/s/big");
    fs::write(&big, &bytes).unwrap();
    assert_eq!(fs::read(&big).unwrap(), bytes);
    let found = fs::metadata(&big).unwrap();
    assert_eq!(found.len(), 3_000_000);
    assert!(found.blocks() * 512 >= found.len(), "a file without blocks is taken for a hole");
    let sizes: Vec<u64> =
        objects(&union).iter().map(|object| fs::metadata(object).unwrap().len()).collect();
    assert_eq!((sizes.len(), sizes.iter().sum()), (2, 3_000_000), "{sizes:?}");
    assert!(sizes.iter().all(|size| *size > 1_400_000), "{sizes:?}");

    let place = braid().args(["union", "where"]).arg(&big).output().unwrap();
    let place = text(&place);
    let stripes = place.lines().find(|line| line.contains("striped, 64")).unwrap();
    assert!(stripes.contains("/disk1") && stripes.contains("/disk2"), "{place}");
    let place = braid().args(["--json", "union", "where"]).arg(&big).output().unwrap();
    let place: Value = serde_json::from_slice(&place.stdout).unwrap();
    assert_eq!(place["striped"]["unit"], UNIT);
    assert_eq!(place["striped"]["over"].as_array().unwrap().len(), 2);

    stripe(&union, &["--off"]);
    fs::write(union.at("mnt/s/plain"), "plain").unwrap();
    assert_eq!(objects(&union).len(), 2);
    fs::rename(union.at("mnt/s/big"), union.at("mnt/moved")).unwrap();
    union.restart();
    assert_eq!(fs::read(union.at("mnt/moved")).unwrap(), bytes);
    fs::remove_file(union.at("mnt/moved")).unwrap();
    check_no_objects(&union);
}

#[test]
fn programs_map_append_copy_and_execute_striped_files() {
    let Some(mut union) = start(&[]) else { return };
    let script = "
        cp /bin/sh sh && cmp /bin/sh sh && ./sh -c 'echo executed'
        for n in 1 2 3; do head -c 50000 /bin/sh >> grown; done
        test $(stat -c %s grown) = 150000
        cp --sparse=always grown copy && cmp grown copy
        cp --reflink=auto sh ../plain && cmp sh ../plain
        cp ../plain back && cmp back sh
        truncate -s 1M hole && test $(tr -d '\\0' < hole | wc -c) = 0
        tar -Scf - grown hole | tar -df -
        exec 3<> open && rm open && echo kept >&3
        ln grown linked && rm grown && cmp linked copy && mv linked copy
    ";
    let ran = Command::new("sh").args(["-exc", script]).current_dir(union.at("mnt/s")).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{}", text(&ran));
    assert!(text(&ran).contains("executed"));
    // The kernel reports a last close whenever it likes; a start removes what is left.
    union.restart();
    // sh, copy, back, hole.
    assert_eq!(objects(&union).len(), 8);
}

/// xorshift64*: the same calls in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound
    }
}

/// As fsx: random calls through the mount, and a model in memory.
#[test]
fn random_calls_through_the_mount_leave_the_bytes_of_a_model() {
    const END: u64 = 12 * UNIT;
    for (seed, options) in [(1, &[][..]), (2, &["--no-passthrough"])] {
        let Some(mut union) = start(options) else { return };
        let path = union.at("mnt/s/x");
        let open =
            || File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let (mut random, mut model, mut file) = (Random(seed), Vec::new(), open().unwrap());
        for call in 0..400 {
            let (at, bytes) = (random.below(END), 1 + random.below(3 * UNIT));
            let range = at as usize..(at + bytes) as usize;
            let known = range.start.min(model.len())..range.end.min(model.len());
            match random.below(10) {
                0..=3 => {
                    let fill = 1 + random.below(255) as u8;
                    file.write_all_at(&vec![fill; range.len()], at).unwrap();
                    model.resize(model.len().max(range.end), 0);
                    model[range].fill(fill);
                }
                4..=5 => {
                    let mut read = vec![0xee; known.len()];
                    file.read_exact_at(&mut read, at).unwrap();
                    assert!(read == model[known], "call {call}");
                }
                6 => {
                    file.set_len(at).unwrap();
                    model.resize(at as usize, 0);
                }
                7 => {
                    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    rustix::fs::fallocate(&file, mode, at, bytes).unwrap();
                    model[known].fill(0);
                }
                8 => file = open().unwrap(),
                _ if call % 7 == 0 => {
                    drop(file);
                    union.restart();
                    file = open().unwrap();
                }
                _ => file.sync_all().unwrap(),
            }
            assert_eq!(file.metadata().unwrap().len(), model.len() as u64, "call {call}");
        }
        assert!(fs::read(&path).unwrap() == model, "seed {seed}");
    }
}

#[test]
fn mistakes_of_stripes_are_named_with_what_to_do() {
    let Some(union) = start(&[]) else { return };
    fs::write(union.at("mnt/file"), "").unwrap();
    let (mnt, file, disk) = (union.at("mnt/s"), union.at("mnt/file"), union.at("disk1"));
    let (mnt, file) = (mnt.to_str().unwrap(), file.to_str().unwrap());
    for (arguments, expected) in [
        (&["stripe", mnt, "--unit", "5000"][..], "multiple of 4K"),
        (&["stripe", mnt, "--branches", "1"], "2 to 64"),
        (&["stripe", file], "no directory"),
        (&["stripe", disk.to_str().unwrap()], "not in a mounted union"),
        (&["sweep", union.at("meta").to_str().unwrap()], "has it mounted"),
    ] {
        let ran = braid().arg("union").args(arguments).output().unwrap();
        assert!(!ran.status.success(), "{arguments:?}");
        let printed = text(&ran);
        assert!(printed.contains(expected) && printed.contains("; try: "), "{printed}");
    }
}

/// Creates, replaces, links and removes files until the mount is gone. Reports each round.
fn churn(directory: &Path, rounds: &mpsc::Sender<()>) {
    for round in 0_u64.. {
        let at = |name: u64| directory.join((name % 5).to_string());
        let work = || -> std::io::Result<()> {
            fs::write(directory.join("new"), content())?;
            fs::rename(directory.join("new"), at(round))?;
            fs::hard_link(at(round), directory.join("linked"))?;
            fs::rename(directory.join("linked"), at(round + 2))?;
            fs::remove_file(at(round))
        };
        if work().is_err() || rounds.send(()).is_err() {
            return;
        }
    }
}

fn content() -> Vec<u8> {
    (0..3 * UNIT).map(|at| (at % 249) as u8 + 1).collect()
}

#[test]
fn a_kill_at_any_time_leaves_whole_files_and_no_other_object() {
    let Some(mut union) = start(&[]) else { return };
    for kill in 0..6 {
        let (report, rounds) = mpsc::channel();
        let directory = union.at("mnt/s");
        let worker = std::thread::spawn(move || churn(&directory, &report));
        (0..3 + 5 * kill).for_each(|_| rounds.recv().unwrap());
        union.kill();
        worker.join().unwrap();
        let swept = braid().args(["--json", "union", "sweep"]).arg(union.at("meta")).output();
        let swept = swept.unwrap();
        let found: Value = serde_json::from_slice(&swept.stdout).unwrap();
        for wrong in ["orphans", "missing_objects", "damaged", "restored"] {
            assert_eq!(found[wrong], 0, "{}", text(&swept));
        }
        union.start_again();
        for entry in fs::read_dir(union.at("mnt/s")).unwrap() {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            assert!(content().starts_with(&bytes), "{}", path.display());
            fs::remove_file(path).unwrap();
        }
        check_no_objects(&union);
    }
}
