//! Look-ups without regard to case, and their index.

use std::ops::ControlFlow;

use braid_types::fold;

use super::*;
use crate::key::{self, Kind};
use crate::record::{NAMES_BEING_INDEXED, NAMES_INDEXED, decode_folded_name};
use crate::store::Batch;
use crate::{Faults, RenameMode};

/// Cookie and name of each index record of a directory.
fn index(ns: &Namespace, directory: FileIndex) -> Vec<(u64, Vec<u8>)> {
    let range = key::all_of(directory, Kind::FoldedName);
    let mut found = Vec::new();
    ns.store
        .snapshot()
        .unwrap()
        .scan(&range.from, &range.end, &mut |key, value| {
            let cookie = key::cookie_of_folded(key).unwrap();
            let name = decode_folded_name(value).unwrap();
            assert_eq!(key, &*key::folded_name(directory, &fold(name), cookie));
            found.push((cookie, name.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
    found.sort();
    found
}

/// Cookie and name of each entry of a directory.
fn entries(ns: &Namespace, directory: FileIndex) -> Vec<(u64, Vec<u8>)> {
    let mut found: Vec<_> = names(ns, directory)
        .into_iter()
        .map(|name| (ns.find_entry(directory, &name).unwrap().unwrap().cookie, name))
        .collect();
    found.sort();
    found
}

/// The index of a directory equals its names; without a mark there is none.
pub(super) fn check_index(ns: &Namespace, directory: FileIndex) {
    let inode = ns.getattr(directory).unwrap();
    match inode.flags & (NAMES_INDEXED | NAMES_BEING_INDEXED) {
        0 => assert_eq!(index(ns, directory), []),
        NAMES_INDEXED => assert_eq!(index(ns, directory), entries(ns, directory)),
        marks => panic!("marks {marks:#x}: an index that is not complete"),
    }
}

fn find(ns: &Namespace, directory: FileIndex, name: &str) -> Result<String, Status> {
    let found = ns.look_up_folded(&Identity::root(), directory, name.as_bytes());
    let (name, inode) = found.map_err(|failure| failure.status)?;
    assert_eq!(ns.find_entry(directory, &name).unwrap().unwrap().file, inode.file);
    Ok(String::from_utf8(name).unwrap())
}

fn is_indexed(ns: &Namespace, directory: FileIndex) -> bool {
    ns.getattr(directory).unwrap().has_name_index()
}

/// A directory with these files, without an index.
fn directory(ns: &Namespace, names: &[&str]) -> FileIndex {
    let root = Identity::root();
    let call = &call(&root);
    let directory = ns.mkdir(call, ROOT, b"d", 0o755).unwrap().file;
    for name in names {
        create(ns, call, directory, name.as_bytes()).unwrap();
    }
    directory
}

#[test]
fn a_name_is_found_in_any_case_and_has_its_own() {
    let (_, ns) = memory();
    let d = directory(&ns, &["ReadMe", "Äpfel", "straße"]);
    for (name, wanted) in [
        ("ReadMe", Ok("ReadMe")),
        ("README", Ok("ReadMe")),
        ("readme", Ok("ReadMe")),
        ("äPFEL", Ok("Äpfel")),
        ("STRAßE", Ok("straße")),
        ("STRASSE", Err(Status::NotFound)),
        ("ReadM", Err(Status::NotFound)),
        ("ReadMee", Err(Status::NotFound)),
        ("", Err(Status::NotFound)),
        (".", Err(Status::Invalid)),
        ("a/b", Err(Status::Invalid)),
    ] {
        assert_eq!(find(&ns, d, name), wanted.map(str::to_owned), "{name}");
    }
    check_index(&ns, d);
}

#[test]
fn the_exact_name_wins_and_else_the_one_listed_first() {
    let (_, ns) = memory();
    let d = directory(&ns, &["name", "NAME", "Name"]);
    for name in ["name", "NAME", "Name"] {
        assert_eq!(find(&ns, d, name).unwrap(), name);
    }
    assert_eq!(find(&ns, d, "nAmE").unwrap(), "name");
    let root = Identity::root();
    ns.rename(&call(&root), (d, b"name"), (d, b"nAME"), RenameMode::NoReplace).unwrap();
    assert_eq!(find(&ns, d, "nAmE").unwrap(), "NAME", "a new name is listed last");
}

#[test]
fn the_first_look_up_that_misses_makes_the_index_and_nothing_else() {
    let (store, ns) = memory();
    let d = directory(&ns, &["a", "b"]);
    let before = ns.getattr(d).unwrap();
    assert_eq!(find(&ns, d, "a").unwrap(), "a");
    assert!(!is_indexed(&ns, d), "an exact name needs no index");
    assert_eq!(find(&ns, d, "c"), Err(Status::NotFound));
    assert!(is_indexed(&ns, d));
    let after = ns.getattr(d).unwrap();
    assert_eq!(Inode { flags: 0, ..(*after).clone() }, *before);
    let committed = store.committed();
    assert_eq!(find(&ns, d, "C"), Err(Status::NotFound));
    assert_eq!(store.committed(), committed, "a complete index is only read");
}

#[test]
fn a_new_directory_below_one_with_an_index_has_one() {
    let (_, ns) = memory();
    let root = Identity::root();
    let d = directory(&ns, &[]);
    assert_eq!(find(&ns, d, "x"), Err(Status::NotFound));
    let below = ns.mkdir(&call(&root), d, b"Below", 0o755).unwrap().file;
    assert!(is_indexed(&ns, below) && !is_indexed(&ns, ROOT));
    let file = create(&ns, &call(&root), below, b"File").unwrap().inode;
    assert_eq!(file.flags, 0);
    assert_eq!(find(&ns, below, "FILE").unwrap(), "File");
    check_index(&ns, below);
}

#[test]
fn every_change_of_names_keeps_the_index() {
    let (_, ns) = memory();
    let root = Identity::root();
    let call = &call(&root);
    let (d, e) = (directory(&ns, &["f"]), ns.mkdir(call, ROOT, b"e", 0o755).unwrap().file);
    for directory in [d, e] {
        assert_eq!(find(&ns, directory, "none"), Err(Status::NotFound));
    }
    let check = || [d, e].into_iter().for_each(|directory| check_index(&ns, directory));
    let file = ns.lookup(&root, d, b"f").unwrap().file;
    ns.link(call, file, e, b"Link").unwrap();
    ns.symlink(call, e, b"Symlink", b"x").unwrap();
    ns.mkdir(call, e, b"Sub", 0o755).unwrap();
    check();
    ns.rename(call, (d, b"f"), (d, b"F"), RenameMode::NoReplace).unwrap();
    assert_eq!(find(&ns, d, "f").unwrap(), "F");
    check();
    ns.rename(call, (d, b"F"), (e, b"Symlink"), RenameMode::Replace).unwrap();
    check();
    create(&ns, call, d, b"G").unwrap();
    ns.rename(call, (d, b"G"), (e, b"Sub"), RenameMode::Exchange).unwrap();
    check();
    ns.unlink(call, e, b"Link").unwrap();
    ns.rmdir(call, d, b"G").unwrap();
    check();
    assert_eq!(index(&ns, d), []);
    ns.rmdir(call, ROOT, b"d").unwrap();
    assert_eq!(find(&ns, d, "x"), Err(Status::StaleHandle));
}

#[test]
fn a_large_directory_is_indexed_in_several_batches() {
    let (store, ns) = memory();
    let d = directory(&ns, &[]);
    let root = Identity::root();
    for n in 0..2100 {
        create(&ns, &call(&root), d, format!("File {n}").as_bytes()).unwrap();
    }
    // The second batch fails: the next look-up begins again, and changes keep the index meanwhile.
    store.set_faults(Faults { failing_commits: vec![1], ..Default::default() });
    assert_eq!(find(&ns, d, "FILE 2000"), Err(Status::DiskError));
    store.set_faults(Faults::default());
    assert_eq!(ns.getattr(d).unwrap().flags, NAMES_BEING_INDEXED);
    ns.unlink(&call(&root), d, b"File 7").unwrap();
    create(&ns, &call(&root), d, b"file 8").unwrap();
    assert_eq!(find(&ns, d, "FILE 8").unwrap(), "File 8", "the index is not used before its end");
    assert_eq!(find(&ns, d, "FILE 7"), Err(Status::NotFound));
    assert_eq!(find(&ns, d, "FILE 2099").unwrap(), "File 2099");
    check_index(&ns, d);
}

#[test]
fn names_are_found_without_an_index_if_the_disk_has_no_space() {
    let (store, ns) = memory();
    let d = directory(&ns, &["Name", "NAME"]);
    store.set_faults(Faults { full_commits: (0..9).collect(), ..Default::default() });
    assert_eq!(find(&ns, d, "name").unwrap(), "Name");
    assert_eq!(find(&ns, d, "other"), Err(Status::NotFound));
    assert!(!is_indexed(&ns, d));
}

#[test]
fn the_longest_names_have_index_records() {
    let (_, ns) = memory();
    // U+0250 has 2 bytes, its upper case U+2C6F 3.
    let name = "ɐ".repeat(127) + "a";
    let d = directory(&ns, &[&name]);
    assert_eq!(find(&ns, d, &name.to_uppercase().replace('Ɐ', "ɐ")).unwrap(), name);
    check_index(&ns, d);
}

#[test]
fn an_index_record_without_its_name_is_passed_over() {
    let (store, ns) = memory();
    let d = directory(&ns, &["Name"]);
    assert_eq!(find(&ns, d, "NAME").unwrap(), "Name");
    let mut batch = Batch::new();
    for name in [&b"name"[..], b"Name"] {
        batch.put(key::folded_name(d, b"NAME", 1), [&[1], name].concat());
        store.commit(std::mem::take(&mut batch), store.fence()).unwrap();
        assert_eq!(find(&ns, d, "NAME").unwrap(), "Name");
    }
}

#[test]
fn a_look_up_needs_the_right_to_search() {
    let (_, ns) = memory();
    let d = directory(&ns, &["Name"]);
    let changes = crate::AttributeChanges { mode: Some(0o766), ..Default::default() };
    ns.setattr(&call(&Identity::root()), d, &changes).unwrap();
    assert_eq!(status(ns.look_up_folded(&user(5), d, b"NAME")), Status::PermissionDenied);
    let file = ns.lookup(&Identity::root(), d, b"Name").unwrap().file;
    assert_eq!(find(&ns, file, "x"), Err(Status::NotDirectory));
}
