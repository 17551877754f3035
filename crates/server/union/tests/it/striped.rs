//! Striped files: their bytes, their names, and what a killed process or a damaged disk leaves.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use braid_union::{
    NewAttributes, OpenFile, Pool, RenameMode, STRIPE_XATTR, SetXattr, Sweep, Union,
};
use rustix::{
    fs::{OFlags, XattrFlags},
    io::Errno,
};

use crate::harness::{Fixture, union_of};

pub const UNIT: u64 = 4096;
const STUB_XATTR: &str = "trusted.braid.striped";

/// A union whose directory `s` has the choice. `None`: the xattrs of stubs need root.
pub fn striped_union(disks: usize, choice: &str) -> Option<Fixture> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: striped files need root");
        return None;
    }
    let union = union_of(disks, "first");
    union.make_dir("s").unwrap();
    choose(&union, "s", choice).unwrap();
    Some(union)
}

fn choose(union: &Fixture, path: &str, choice: &str) -> Result<(), Errno> {
    let (node, name) = (union.node(path)?, STRIPE_XATTR.as_bytes());
    union.union.set_xattr(node, name, choice.as_bytes(), SetXattr::Any)
}

pub fn open(union: &Fixture, path: &str, flags: OFlags) -> Result<Arc<OpenFile>, Errno> {
    union.union.open_file(union.node(path)?, flags)
}

/// Different in each unit.
pub fn bytes(count: u64) -> Vec<u8> {
    (0..count).map(|at| (at / 7 % 251) as u8).collect()
}

fn size(union: &Fixture, path: &str) -> u64 {
    union.union.attributes(union.node(path).unwrap()).unwrap().size
}

pub fn truncate(union: &Fixture, path: &str, size: u64) -> Result<(), Errno> {
    let new = NewAttributes { size: Some(size), ..NewAttributes::default() };
    union.union.set_attributes(union.node(path)?, &new).map(drop)
}

/// All objects, or all pending stubs, of a branch.
fn in_store(branch: &Path, part: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![branch.join(".braid-striped").join(part)];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { directories.push(path) } else { found.push(path) }
        }
    }
    found
}

fn objects(union: &Fixture) -> Vec<PathBuf> {
    union.branches.iter().flat_map(|branch| in_store(branch, "objects")).collect()
}

fn pending(union: &Fixture) -> Vec<PathBuf> {
    union.branches.iter().flat_map(|branch| in_store(branch, "pending")).collect()
}

/// The object on a disk, when there is one striped file.
fn object_on(union: &Fixture, disk: usize) -> PathBuf {
    let found = in_store(&union.branches[disk], "objects");
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

fn stub_value(path: &Path) -> String {
    let mut value = [0; 1024];
    let bytes = rustix::fs::getxattr(path, STUB_XATTR, &mut value[..]).unwrap();
    String::from_utf8(value[..bytes].to_vec()).unwrap()
}

fn set_stub_value(path: &Path, value: &str) {
    rustix::fs::setxattr(path, STUB_XATTR, value.as_bytes(), XattrFlags::empty()).unwrap();
}

fn read_at(union: &Fixture, file: &OpenFile, offset: u64, count: usize) -> Result<Vec<u8>, Errno> {
    let mut read = vec![0xee; count];
    let count = union.union.read(file, offset, &mut read)?;
    read.truncate(count);
    Ok(read)
}

#[test]
fn units_are_on_the_branches_in_turn_and_the_stub_has_no_bytes() {
    let Some(union) = striped_union(3, "unit=4K") else { return };
    let written = bytes(7 * UNIT + 100);
    union.write("s/x", &written).unwrap();
    assert_eq!(union.read("s/x").unwrap(), written);
    assert_eq!(size(&union, "s/x"), written.len() as u64);
    for disk in 0..3 {
        let units: Vec<u8> =
            written.chunks(UNIT as usize).skip(disk).step_by(3).flatten().copied().collect();
        assert_eq!(fs::read(object_on(&union, disk)).unwrap(), units, "disk {disk}");
    }
    let stub = union.branches[0].join("s/x");
    assert!(fs::read(&stub).unwrap().iter().all(|byte| *byte == 0));
    let found = union.union.attributes(union.node("s/x").unwrap()).unwrap();
    assert!(found.blocks * 512 >= found.size, "{found:?}");
    let places = union.union.xattr(union.node("s/x").unwrap(), b"user.braid.stripes").unwrap();
    let places = String::from_utf8(places).unwrap();
    let disks: Vec<&str> = union.branches.iter().map(|disk| disk.to_str().unwrap()).collect();
    assert_eq!(places.split('\0').collect::<Vec<_>>(), [&["4096"], &disks[..]].concat());
    assert_eq!(pending(&union), [""; 0].map(PathBuf::from));
}

#[test]
fn a_directory_gives_its_choice_to_new_ones_until_it_is_taken_back() {
    let Some(union) = striped_union(3, "unit=4K,branches=2") else { return };
    union.make_dir("s/inner").unwrap();
    union.write("s/inner/x", b"striped").unwrap();
    assert_eq!(objects(&union).len(), 2);
    union.write("plain", b"plain").unwrap();
    let inner = union.node("s/inner").unwrap();
    union.union.remove_xattr(inner, STRIPE_XATTR.as_bytes()).unwrap();
    union.write("s/inner/y", b"plain").unwrap();
    assert_eq!(objects(&union).len(), 2);
    for wrong in ["unit=5000", "branches=1", "fast"] {
        assert_eq!(choose(&union, "s", wrong), Err(Errno::INVAL), "{wrong}");
    }
    assert_eq!(choose(&union, "plain", "unit=4K"), Err(Errno::INVAL));
    assert_eq!(union.read("s/inner/x").unwrap(), b"striped");
}

#[test]
fn two_writers_on_different_ranges_lose_no_byte() {
    let Some(union) = striped_union(3, "unit=4K") else { return };
    union.write("s/x", b"").unwrap();
    const STEP: usize = 3000;
    let whole = bytes(100 * STEP as u64);
    let one = |which: usize| {
        let file = open(&union, "s/x", OFlags::RDWR).unwrap();
        for (at, piece) in whole.chunks(STEP).enumerate().filter(|(at, _)| at % 2 == which) {
            let offset = (at * STEP) as u64;
            assert_eq!(union.union.write(&file, offset, piece, false), Ok(STEP));
            assert_eq!(read_at(&union, &file, offset, STEP).unwrap(), piece);
        }
        union.union.close(&file);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| one(0));
        one(1);
    });
    let file = open(&union, "s/x", OFlags::RDONLY).unwrap();
    assert_eq!(read_at(&union, &file, 0, whole.len() + 1).unwrap(), whole);
}

#[test]
fn bytes_that_a_killed_writer_left_behind_the_end_never_appear() {
    let Some(union) = striped_union(2, "unit=4K") else { return };
    union.write("s/x", &bytes(UNIT + 10)).unwrap();
    // The writer was killed before it set the size.
    let object = fs::File::options().write(true).open(object_on(&union, 1)).unwrap();
    object.write_all_at(&[0xee; 3000], 10).unwrap();
    let union = union.reopened(|_| {});
    assert_eq!(union.read("s/x").unwrap(), bytes(UNIT + 10));
    truncate(&union, "s/x", 2 * UNIT).unwrap();
    let mut expected = bytes(UNIT + 10);
    expected.resize(2 * UNIT as usize, 0);
    assert_eq!(union.read("s/x").unwrap(), expected);
}

#[test]
fn the_last_removed_name_takes_the_objects_along() {
    let Some(union) = striped_union(2, "unit=4K") else { return };
    union.write("s/x", &bytes(3 * UNIT)).unwrap();
    union.link("s/x", "other").unwrap();
    union.unlink("s/x").unwrap();
    assert_eq!(union.read("other").unwrap(), bytes(3 * UNIT));
    assert_eq!((objects(&union).len(), pending(&union).len()), (2, 0));
    union.unlink("other").unwrap();
    assert_eq!((objects(&union).len(), pending(&union).len()), (0, 0));
}

#[test]
fn a_replaced_file_takes_its_objects_along_an_exchanged_one_keeps_them() {
    let Some(union) = striped_union(2, "unit=4K") else { return };
    union.write("s/x", b"x").unwrap();
    union.write("s/y", b"y").unwrap();
    union.rename_by("s/x", "s/y", RenameMode::Exchange).unwrap();
    assert_eq!(
        (union.read("s/x").unwrap(), union.read("s/y").unwrap()),
        (b"y".into(), b"x".into())
    );
    assert_eq!(union.rename_by("s/x", "s/y", RenameMode::NoReplace), Err(Errno::EXIST));
    assert_eq!(objects(&union).len(), 4);
    union.rename("s/x", "s/y").unwrap();
    assert_eq!(union.read("s/y").unwrap(), b"y");
    assert_eq!((objects(&union).len(), pending(&union).len()), (2, 0));
    union.write("plain", b"plain").unwrap();
    union.rename("plain", "s/y").unwrap();
    assert_eq!(union.read("s/y").unwrap(), b"plain");
    assert_eq!((objects(&union).len(), pending(&union).len()), (0, 0));
}

#[test]
fn a_removed_file_that_is_open_has_its_bytes_until_the_last_close() {
    let Some(union) = striped_union(2, "unit=4K") else { return };
    union.write("s/x", &bytes(2 * UNIT)).unwrap();
    let node = union.node("s/x").unwrap();
    let files = [0; 2].map(|_| open(&union, "s/x", OFlags::RDWR).unwrap());
    union.unlink("s/x").unwrap();
    assert_eq!(union.union.attributes(node).unwrap().links, 0);
    let back = union.union.link(node, braid_union::NodeId::ROOT, b"back").map(drop);
    assert_eq!(back, Err(Errno::NOENT));
    union.union.close(&files[0]);
    assert_eq!(read_at(&union, &files[1], 0, 9000).unwrap(), bytes(2 * UNIT));
    assert_eq!(union.union.write(&files[1], 2 * UNIT, b"more", false), Ok(4));
    union.union.close(&files[1]);
    assert_eq!((objects(&union).len(), pending(&union).len()), (0, 0));
}

#[test]
fn a_kill_before_the_last_close_of_a_removed_file_leaves_nothing() {
    let Some(union) = striped_union(2, "unit=4K") else { return };
    union.write("s/x", &bytes(2 * UNIT)).unwrap();
    let file = open(&union, "s/x", OFlags::RDWR).unwrap();
    union.unlink("s/x").unwrap();
    assert_eq!((objects(&union).len(), pending(&union).len()), (2, 1));
    let union = union.reopened(|_| {});
    drop(file);
    assert_eq!((objects(&union).len(), pending(&union).len()), (0, 0));
}

/// Each state that a kill between two steps of a create, or of a removal, leaves.
#[test]
fn a_kill_between_any_two_steps_leaves_a_whole_file_or_nothing() {
    for has_name in [true, false] {
        for removed in 0..=2 {
            let Some(union) = striped_union(2, "unit=4K") else { return };
            union.write("s/x", &bytes(2 * UNIT)).unwrap();
            union.write("s/other", &bytes(UNIT)).unwrap();
            let stub = union.branches[0].join("s/x");
            let id = stub_value(&stub).split(' ').nth(2).unwrap().to_owned();
            let link = union.branches[0].join(".braid-striped/pending").join(&id);
            fs::hard_link(&stub, &link).unwrap();
            if !has_name {
                // Created up to here without a name, or removed up to here.
                fs::remove_file(&stub).unwrap();
                let own = |path: &PathBuf| path.to_str().unwrap().contains(&id);
                let own: Vec<PathBuf> = objects(&union).into_iter().filter(own).collect();
                own.iter().take(removed).for_each(|object| fs::remove_file(object).unwrap());
            }
            let union = union.reopened(|_| {});
            let expected = if has_name { Ok(bytes(2 * UNIT)) } else { Err(Errno::NOENT) };
            assert_eq!(union.read("s/x"), expected);
            assert_eq!(objects(&union).len(), if has_name { 4 } else { 2 });
            assert_eq!(pending(&union).len(), 0);
            assert_eq!(union.read("s/other").unwrap(), bytes(UNIT));
        }
    }
}

#[test]
fn a_missing_object_harms_only_its_units() {
    let Some(union) = striped_union(3, "unit=4K") else { return };
    let written = bytes(6 * UNIT);
    union.write("s/x", &written).unwrap();
    fs::remove_file(object_on(&union, 1)).unwrap();
    let union = union.reopened(|_| {});
    let file = open(&union, "s/x", OFlags::RDWR).unwrap();
    let unit = |at: usize| &written[at * UNIT as usize..][..UNIT as usize];
    for at in 0..6 {
        let read = read_at(&union, &file, at as u64 * UNIT, UNIT as usize);
        let expected = if at % 3 == 1 { Err(Errno::IO) } else { Ok(unit(at).to_vec()) };
        assert_eq!(read, expected, "unit {at}");
    }
    assert_eq!(read_at(&union, &file, 0, 2 * UNIT as usize), Err(Errno::IO));
    assert_eq!(union.union.write(&file, 2 * UNIT, b"ok", false), Ok(2));
    assert_eq!(union.union.write(&file, UNIT, b"lost", false), Err(Errno::IO));
    // What comes before it counts as written.
    assert_eq!(union.union.write(&file, 0, &written, false), Ok(UNIT as usize));
    assert_eq!(union.union.sync(&file, false), Err(Errno::IO));
    union.union.close(&file);
    let found = union.union.sweep(false).unwrap();
    assert_eq!((found.files, found.missing, found.orphans), (1, 1, 0));
    union.unlink("s/x").unwrap();
    assert_eq!((objects(&union).len(), pending(&union).len()), (0, 0));
}

#[test]
fn something_else_in_place_of_an_object_is_never_followed() {
    let Some(union) = striped_union(2, "unit=4K") else { return };
    union.write("s/x", &bytes(2 * UNIT)).unwrap();
    let object = object_on(&union, 1);
    let secret = union.dir.path().join("secret");
    fs::write(&secret, bytes(UNIT)).unwrap();
    let fifo = |path: &Path| {
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
    };
    let link = |path: &Path| std::os::unix::fs::symlink(&secret, path).unwrap();
    let directory = |path: &Path| fs::create_dir(path).unwrap();
    for put in [&link as &dyn Fn(&Path), &fifo, &directory] {
        _ = fs::remove_file(&object).or_else(|_| fs::remove_dir(&object));
        put(&object);
        let file = open(&union, "s/x", OFlags::RDWR).unwrap();
        assert_eq!(read_at(&union, &file, UNIT, 10), Err(Errno::IO));
        assert_eq!(union.union.write(&file, UNIT, b"no", false), Err(Errno::IO));
        union.union.close(&file);
    }
    assert_eq!(fs::read(&secret).unwrap(), bytes(UNIT));
}

#[test]
fn a_damaged_stub_is_an_error_and_takes_no_object_along() {
    let Some(union) = striped_union(2, "unit=4K") else { return };
    union.write("s/x", &bytes(2 * UNIT)).unwrap();
    let stub = union.branches[0].join("s/x");
    let value = stub_value(&stub);
    let mut union = union;
    for (field, wrong) in
        [(0, "2"), (1, "00"), (2, "zz"), (3, "4097"), (4, "0,0"), (4, "0"), (5, "-1"), (5, "")]
    {
        let mut words: Vec<&str> = value.split(' ').collect();
        words[field] = wrong;
        set_stub_value(&stub, &words.join(" "));
        union = union.reopened(|_| {});
        assert_eq!(union.read("s/x"), Err(Errno::IO), "field {field}: {wrong}");
        assert_eq!(truncate(&union, "s/x", 0), Err(Errno::IO));
        assert_eq!(size(&union, "s/x"), 2 * UNIT);
    }
    let found = union.union.sweep(true).unwrap();
    assert_eq!((found.files, found.damaged, found.orphans), (0, 1, 2));
    assert_eq!(objects(&union).len(), 2, "they may be those of the damaged stub");
    union.rename("s/x", "s/y").unwrap();
    union.unlink("s/y").unwrap();
    let found = union.union.sweep(true).unwrap();
    assert_eq!((found.damaged, found.orphans, objects(&union).len()), (0, 2, 0));
}

#[test]
fn a_copy_of_a_stub_is_read_only_until_it_is_the_only_one() {
    let Some(union) = striped_union(2, "unit=4K") else { return };
    union.write("s/x", &bytes(2 * UNIT)).unwrap();
    let stub = union.branches[0].join("s/x");
    let copy = |name: &str| {
        let path = union.branches[0].join("s").join(name);
        fs::File::create(&path).unwrap().set_len(2 * UNIT).unwrap();
        set_stub_value(&path, &stub_value(&stub));
    };
    copy("copy");
    copy("restored");
    assert_eq!(union.read("s/copy").unwrap(), bytes(2 * UNIT));
    assert_eq!(open(&union, "s/copy", OFlags::RDWR).map(drop), Err(Errno::ROFS));
    assert_eq!(truncate(&union, "s/copy", 0), Err(Errno::ROFS));
    union.unlink("s/copy").unwrap();
    assert_eq!(union.read("s/x").unwrap(), bytes(2 * UNIT));
    assert_eq!(union.union.sweep(true).unwrap().restored, 0, "the original is there");
    // As a disk that was restored from a backup.
    fs::remove_file(stub).unwrap();
    let expected = Sweep { files: 1, restored: 1, ..Sweep::default() };
    assert_eq!(union.union.sweep(true).unwrap(), expected);
    let union = union.reopened(|_| {});
    truncate(&union, "s/restored", UNIT).unwrap();
    assert_eq!(union.read("s/restored").unwrap(), bytes(UNIT));
    union.unlink("s/restored").unwrap();
    assert_eq!(objects(&union).len(), 0);
}

#[test]
fn a_read_only_branch_refuses_writes_and_keeps_its_objects_until_later() {
    let Some(union) = striped_union(2, "unit=4K") else { return };
    union.write("s/x", &bytes(2 * UNIT)).unwrap();
    let mode = |meta: &Path, mode: &str| {
        let path = meta.join("pool.toml");
        let text = fs::read_to_string(&path).unwrap();
        let (head, last) = text.rsplit_once("mode = ").unwrap();
        let (_, tail) = last.split_once('\n').unwrap();
        fs::write(&path, format!("{head}mode = \"{mode}\"\n{tail}")).unwrap();
        assert!(Pool::open(meta).is_ok());
    };
    let union = union.reopened(|meta| mode(meta, "ro"));
    assert_eq!(open(&union, "s/x", OFlags::RDWR).map(drop), Err(Errno::ROFS));
    assert_eq!(truncate(&union, "s/x", 0), Err(Errno::ROFS));
    assert_eq!(union.read("s/x").unwrap(), bytes(2 * UNIT));
    union.write("s/y", b"plain: one branch takes new files").unwrap();
    // `s` itself is on the first disk only.
    union.unlink("s/x").unwrap();
    assert_eq!((objects(&union).len(), pending(&union).len()), (1, 1));
    let union = union.reopened(|meta| mode(meta, "rw"));
    assert_eq!((objects(&union).len(), pending(&union).len()), (0, 0));
}

#[test]
fn the_name_of_the_store_is_reserved_in_the_root_only() {
    let Some(union) = striped_union(2, "unit=4K") else { return };
    union.write("s/x", b"x").unwrap();
    assert_eq!(union.names("").unwrap(), ["s"]);
    assert_eq!(union.make_dir(".braid-striped"), Err(Errno::NOENT));
    assert_eq!(union.write(".braid-striped", b""), Err(Errno::NOENT));
    assert_eq!(union.remove_dir(".braid-striped"), Err(Errno::NOENT));
    assert_eq!(union.rename("s", ".braid-striped"), Err(Errno::NOENT));
    union.make_dir("s/.braid-striped").unwrap();
    union.write("s/.braid-striped/pending", b"ordinary").unwrap();
    let union = union.reopened(|_| {});
    assert_eq!(union.read("s/.braid-striped/pending").unwrap(), b"ordinary");
    assert_eq!(union.union.sweep(true).unwrap(), Sweep { files: 2, ..Sweep::default() });
}

#[test]
fn objects_whose_stub_was_removed_on_the_disk_are_swept() {
    let Some(union) = striped_union(2, "unit=4K") else { return };
    union.write("s/x", &bytes(2 * UNIT)).unwrap();
    union.write("s/y", &bytes(2 * UNIT)).unwrap();
    fs::remove_file(union.branches[0].join("s/x")).unwrap();
    let found = union.union.sweep(false).unwrap();
    assert_eq!((found.files, found.orphans, objects(&union).len()), (1, 2, 4));
    assert!(found.orphan_bytes >= 2 * UNIT);
    union.union.sweep(true).unwrap();
    assert_eq!(objects(&union).len(), 2);
    assert_eq!(union.read("s/y").unwrap(), bytes(2 * UNIT));
}

#[test]
fn drain_leaves_striped_files_and_a_branch_with_objects_stays() {
    let Some(union) = striped_union(2, "unit=4K") else { return };
    union.write("s/x", b"x").unwrap();
    let report = union.union.drain(0, None, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    let reason = report.reasons.iter().find(|(path, _)| path == "s/x").unwrap();
    assert!(reason.1.contains("striped"), "{reason:?}");
    let refused = union.union.remove_branch(1, false).unwrap_err().to_string();
    assert!(refused.contains(".braid-striped/objects/"), "{refused}");
    union.unlink("s/x").unwrap();
    union.union.remove_branch(1, false).unwrap();
}

#[test]
fn the_time_of_a_file_moves_with_each_write() {
    let Some(union) = striped_union(2, "unit=4K") else { return };
    union.write("s/x", &bytes(2 * UNIT)).unwrap();
    let node = union.node("s/x").unwrap();
    let long_ago = braid_union::Time { seconds: 1_000_000, nanoseconds: 0 };
    let file = open(&union, "s/x", OFlags::RDWR).unwrap();
    let change = || {
        let modified = Some(braid_union::NewTime::At(long_ago));
        let new = NewAttributes { modified, ..NewAttributes::default() };
        assert_eq!(union.union.set_attributes(node, &new).unwrap().modified, long_ago);
    };
    let modified = || union.union.attributes(node).unwrap().modified;
    change();
    union.union.write(&file, UNIT, b"within", false).unwrap();
    assert_ne!(modified(), long_ago);
    change();
    union.union.write(&file, 9 * UNIT, b"beyond", false).unwrap();
    assert_ne!(modified(), long_ago);
    assert_eq!(size(&union, "s/x"), 9 * UNIT + 6);
    union.union.close(&file);
}

#[test]
fn a_pool_with_striped_files_is_opened_by_root_only() {
    let Some(union) = striped_union(2, "unit=4K") else { return };
    union.write("s/x", b"x").unwrap();
    let Fixture { dir, union, .. } = union;
    drop(union);
    let pool = Pool::open(&dir.path().join("meta")).unwrap();
    std::thread::spawn(move || {
        // Only this thread loses the right.
        let mut sets = rustix::thread::capabilities(None).unwrap();
        sets.effective -= rustix::thread::CapabilitySet::SYS_ADMIN;
        rustix::thread::set_capabilities(None, sets).unwrap();
        let refused = Union::open(&pool).unwrap_err().to_string();
        assert!(refused.contains("striped files") && refused.contains("; try: "), "{refused}");
    })
    .join()
    .unwrap();
}
