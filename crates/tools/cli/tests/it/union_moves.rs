//! Branches are added, drained, replaced and removed while programs use the union.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crate::union::Mounted;

/// What a union of three disks with 60 files in two directories has, after a time in which moves
/// are possible.
fn with_files() -> Option<(Mounted, Vec<PathBuf>)> {
    let union = Mounted::start(&[])?;
    fs::create_dir(union.at("disk3")).unwrap();
    let (code, printed) = union.braid("add", &["disk3", "--min-free", "0"]);
    assert_eq!(code, 0, "{printed}");
    let paths: Vec<PathBuf> =
        (0..60).map(|n| union.at(["mnt/dir", "mnt"][n % 2]).join(n.to_string())).collect();
    paths.iter().for_each(|path| fs::write(path, path.to_str().unwrap()).unwrap());
    thread::sleep(Duration::from_millis(100));
    Some((union, paths))
}

fn check(paths: &[PathBuf]) {
    for path in paths {
        assert_eq!(fs::read_to_string(path).unwrap(), path.to_str().unwrap());
    }
}

#[test]
fn a_disk_is_added_drained_and_removed_while_the_union_is_mounted() {
    let Some((mut union, paths)) = with_files() else { return };
    assert!(!union.on("dir/2").is_empty());
    let used = |disk: &str| fs::read_dir(union.at(disk)).unwrap().count();
    assert!(used("disk3") > 5, "new files are on the new disk too");
    let numbers: Vec<u64> = paths.iter().map(|path| fs::metadata(path).unwrap().ino()).collect();

    let (code, printed) = union.braid("remove", &["disk1"]);
    assert!(code != 0 && printed.contains("it has files"), "{printed}");
    assert!(printed.contains("braid union drain"), "{printed}");
    let (code, printed) = union.braid("drain", &["disk1"]);
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("files moved") && printed.contains("union remove"), "{printed}");
    assert_eq!(used("disk1"), 1, "only its .braid-branch is left");
    check(&paths);
    let (code, printed) = union.braid("remove", &["disk1"]);
    assert_eq!(code, 0, "{printed}");
    assert_eq!(used("disk1"), 0);
    fs::remove_dir(union.at("disk1")).unwrap();
    check(&paths);
    fs::write(union.at("mnt/new"), "new").unwrap();
    let (code, printed) = union.braid("status", &[]);
    assert!(code == 0 && !printed.contains("disk1"), "{printed}");

    union.restart();
    check(&paths);
    let after: Vec<u64> = paths.iter().map(|path| fs::metadata(path).unwrap().ino()).collect();
    assert_eq!(after, numbers, "the numbers of files stay over moves and restarts");
}

#[test]
fn a_disk_is_replaced_and_a_file_in_use_stays_until_it_is_closed() {
    let Some((union, paths)) = with_files() else { return };
    let on_second = paths.iter().find(|path| {
        let name = path.strip_prefix(union.at("mnt")).unwrap();
        union.on(name.to_str().unwrap()) == ["disk2"]
    });
    let in_use = on_second.expect("a third of the files is on each disk");
    let mut open = fs::File::options().read(true).write(true).open(in_use).unwrap();
    fs::create_dir(union.at("disk4")).unwrap();
    let replace = ["disk2", "disk4", "--min-free", "0"];
    let (code, printed) = union.braid("replace", &replace);
    assert!(code != 0 && printed.contains("a program has it open"), "{printed}");
    assert_eq!(printed.matches("has it open").count(), 1, "{printed}");
    let mut content = String::new();
    open.read_to_string(&mut content).unwrap();
    assert_eq!(content, in_use.to_str().unwrap());
    open.write_all(b" and more").unwrap();
    drop(open);
    thread::sleep(Duration::from_millis(100));
    let (code, printed) = union.braid("replace", &replace);
    assert_eq!(code, 0, "{printed}");
    assert!(fs::read_to_string(in_use).unwrap().ends_with("and more"));
    let (_, printed) = union.braid("status", &[]);
    assert!(printed.contains("disk4") && !printed.contains("disk2"), "{printed}");
    assert_eq!(fs::read_dir(union.at("disk2")).unwrap().count(), 0);
}

#[test]
fn programs_read_and_write_while_their_files_are_moved() {
    let Some((union, paths)) = with_files() else { return };
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Each thread appends to its files, which are often open and often changed just now.
        for (worker, mine) in paths.chunks(20).enumerate() {
            let over = &over;
            scope.spawn(move || {
                let mut rounds = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    for path in mine {
                        let file = fs::File::options().read(true).write(true).open(path).unwrap();
                        file.write_all_at(&rounds.to_le_bytes(), 500 + worker as u64).unwrap();
                        drop(file);
                        let mut bytes = [0; 8];
                        let file = fs::File::open(path).unwrap();
                        file.read_exact_at(&mut bytes, 500 + worker as u64).unwrap();
                        assert_eq!(u64::from_le_bytes(bytes), rounds, "{}", path.display());
                    }
                    rounds += 1;
                }
            });
        }
        let end = EndOnDrop(&over);
        for to in ["disk1", "disk2", "disk3", "disk1"] {
            let root = union.at("mnt");
            let (_, printed) = union.braid("move", &[root.to_str().unwrap(), "--to", to]);
            // How many files are not in use just then is chance.
            assert!(printed.contains(" moved, "), "{printed}");
        }
        drop(end);
    });
    thread::sleep(Duration::from_millis(100));
    let root = union.at("mnt");
    let (code, printed) = union.braid("move", &[root.to_str().unwrap(), "--to", "disk2"]);
    assert_eq!(code, 0, "{printed}");
    for path in &paths {
        let name = path.strip_prefix(union.at("mnt")).unwrap().to_str().unwrap();
        assert_eq!(union.on(name), ["disk2"]);
        assert!((508..=510).contains(&fs::metadata(path).unwrap().len()), "{name}");
    }
}

/// Ends the workers if the test fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn only_the_owner_of_a_pool_gives_it_commands() {
    let Some(union) = Mounted::start(&[]) else { return };
    assert_eq!(union.braid("placement", &["first"]).0, 0);
    for entry in
        fs::read_dir(union.at("meta")).unwrap().chain(fs::read_dir(union.at("disk1")).unwrap())
    {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().mode() & 0o777;
        let expected = match entry.file_name().to_str().unwrap() {
            "pool.toml" | ".braid-branch" | "old" => 0o644,
            "renames" => 0o700,
            _ => 0o600,
        };
        assert_eq!(mode, expected, "{}", entry.path().display());
    }
    fs::set_permissions(union.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // What is no request is answered, and harms nothing.
    for bad in ["\n", "{}\n", "{\"call\":\"drain\"}\n", "\u{0}\u{1}\n", "[[[[[[[[[[\n"] {
        let mut stream = std::os::unix::net::UnixStream::connect(union.at("meta/control")).unwrap();
        stream.write_all(bad.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.contains("reading the request failed"), "{bad:?}: {reply}");
    }
    let (code, printed) = union.braid("drain", &["disk9"]);
    assert!(code != 0 && printed.contains("the pool has none"), "{printed}");
    let (code, printed) = union.braid("mode", &["disk1", "fast"]);
    assert!(code != 0 && printed.contains("no mode fast"), "{printed}");
    let (code, printed) = union.braid("mode", &["1", "nc"]);
    assert_eq!(code, 0, "{printed}");
    fs::write(union.at("mnt/only"), "x").unwrap();
    assert_eq!(union.on("only"), ["disk1"]);
    let (_, printed) = union.braid("status", &[]);
    assert!(printed.contains("nc"), "{printed}");
}

#[test]
fn a_program_writes_on_when_its_disk_is_full() {
    let Some(union) = Mounted::start(&[]) else { return };
    fs::create_dir(union.at("disk3")).unwrap();
    let small = union.at("disk3");
    let mount = |arguments: &[&str]| {
        let mut command = std::process::Command::new(arguments[0]);
        command.args(&arguments[1..]).arg(&small).status().unwrap().success()
    };
    assert!(mount(&["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs"]));
    let run = |call: &str, arguments: &[&str]| {
        let (code, printed) = union.braid(call, arguments);
        assert_eq!(code, 0, "{printed}");
    };
    run("add", &["disk3", "--min-free", "2M"]);
    run("mode", &["disk1", "nc"]);
    run("mode", &["disk2", "nc"]);
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    fs::write(union.at("mnt/film"), &bytes).unwrap();
    assert_eq!(union.on("film"), ["disk3"]);
    run("mode", &["disk1", "rw"]);
    let mut file = fs::File::options().append(true).open(union.at("mnt/film")).unwrap();
    file.write_all(&bytes).unwrap();
    drop(file);
    let read = fs::read(union.at("mnt/film")).unwrap();
    let (place, same) = (union.on("film"), read == [&bytes[..], &bytes].concat());
    assert!(mount(&["umount", "-l"]));
    assert_eq!((place, same), (vec!["disk1"], true));
}
