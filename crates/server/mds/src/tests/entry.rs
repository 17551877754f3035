//! Calls that name an entry by its directory and one name: what they follow, what they return, and
//! what they refuse (ADR 0041).

use braid_types::{FileIndex, Status};
use braid_wire::{
    Call as WireCall, Deny, Rights,
    message::{
        entry::{CreateMode, DirectoryChange, EntryKind},
        mds::*,
    },
};

use super::world::{Client, World};

const ROOT: FileIndex = FileIndex::ROOT;

fn open_entry(name: &str, create: CreateMode) -> OpenEntry {
    OpenEntry {
        dir: ROOT,
        name: name.into(),
        create,
        truncate: false,
        mode: 0o644,
        umask: 0,
        rights: Rights::READ_WRITE,
        deny: Deny::NONE,
    }
}

fn make(name: &str, kind: EntryKind) -> MakeEntry {
    let target = if kind == EntryKind::Symlink { b"f".to_vec() } else { Vec::new() };
    MakeEntry {
        dir: ROOT,
        name: name.into(),
        kind,
        mode: 0,
        umask: 0,
        device: 0,
        target,
        file: None,
    }
}

fn remove(name: &str) -> RemoveEntry {
    RemoveEntry { dir: ROOT, name: name.into() }
}

fn rename(from: &str, to: &str, to_dir: FileIndex) -> RenameEntry {
    let (from_name, to_name) = (from.into(), to.into());
    RenameEntry { from_dir: ROOT, from_name, to_dir, to_name, mode: RenameMode::Replace }
}

fn status<T: std::fmt::Debug>(refused: Result<T, braid_types::Failure>) -> Status {
    refused.unwrap_err().status
}

fn root_counter(client: &Client) -> u64 {
    client.stat("").unwrap().change
}

#[test]
fn each_reply_has_the_counters_of_its_directory_around_the_change() {
    let mut world = World::new(2);
    let client = world.client();
    let mut seen = root_counter(&client);
    let mut follows = |change: DirectoryChange| {
        assert_eq!(change.before, seen);
        assert!(change.after > change.before);
        seen = change.after;
        assert_eq!(root_counter(&client), seen, "what a query returns afterwards");
    };
    let made = client.call(open_entry("f", CreateMode::Exclusive)).unwrap();
    assert!(made.created);
    follows(made.change.unwrap());
    let d = client.call(make("d", EntryKind::Directory)).unwrap();
    follows(d.change);
    follows(client.call(make("l", EntryKind::Symlink)).unwrap().change);
    follows(client.call(make("p", EntryKind::Fifo)).unwrap().change);
    let file = Some(made.opened.attributes.file);
    let linked = client.call(MakeEntry { file, ..make("g", EntryKind::Link) }).unwrap();
    assert_eq!(linked.attributes.links, 2);
    follows(linked.change);
    let before = client.stat("d").unwrap().change;
    let moved = client.call(rename("g", "g", d.attributes.file)).unwrap();
    follows(moved.from);
    assert_eq!((moved.to.before, moved.to.after), (before, client.stat("d").unwrap().change));
    let within = client.call(rename("p", "q", ROOT)).unwrap();
    assert_eq!(within.from, within.to);
    follows(within.from);
    follows(client.call(remove("q")).unwrap());
    assert_eq!(status(client.call(remove("d"))), Status::NotEmpty);
    follows(client.call(make("e", EntryKind::Directory)).unwrap().change);
    follows(client.call(remove("e")).unwrap());
}

#[test]
fn open_entry_follows_no_link_and_names_the_kind_that_it_refuses() {
    let mut world = World::new(2);
    let client = world.client();
    client.close(&client.create("f"));
    client.call(make("l", EntryKind::Symlink)).unwrap();
    client.call(make("d", EntryKind::Directory)).unwrap();
    client.call(make("p", EntryKind::Fifo)).unwrap();
    let refused =
        [("l", Status::TooManyLinks), ("d", Status::IsDirectory), ("p", Status::NoDevice)];
    for (name, kind) in refused {
        for create in [CreateMode::Never, CreateMode::IfMissing] {
            assert_eq!(status(client.call(open_entry(name, create))), kind, "{name} {create:?}");
        }
        let exclusive = open_entry(name, CreateMode::Exclusive);
        assert_eq!(status(client.call(exclusive)), Status::Exists, "{name}");
    }
    let missing = open_entry("none", CreateMode::Never);
    assert_eq!(status(client.call(missing)), Status::NotFound);
    let found = client.call(open_entry("f", CreateMode::IfMissing)).unwrap();
    let counter = root_counter(&client);
    let same = DirectoryChange { before: counter, after: counter };
    assert_eq!((found.created, found.change), (false, Some(same)));
    let found = client.call(open_entry("f", CreateMode::Never)).unwrap();
    assert_eq!((found.created, found.change), (false, None));
}

#[test]
fn open_entry_with_truncation_empties_the_file_in_the_same_call() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 5000).unwrap();
    client.close(&opened);
    world.settle();
    assert_eq!(client.stat("f").unwrap().bytes.0, 5000);
    let truncating = OpenEntry { truncate: true, ..open_entry("f", CreateMode::IfMissing) };
    let emptied = client.call(truncating).unwrap();
    assert!(!emptied.created);
    assert_eq!(emptied.opened.attributes.bytes.0, 0);
    assert_eq!(client.stat("f").unwrap().bytes.0, 0);
}

#[test]
fn paths_and_fields_without_a_meaning_are_refused() {
    let mut world = World::new(2);
    let client = world.client();
    let file = client.create("f").attributes.file;
    client.call(make("d", EntryKind::Directory)).unwrap();
    for name in ["d/f", "/f", ".", "..", "f/"] {
        let opening = open_entry(name, CreateMode::IfMissing);
        assert_eq!(status(client.call(opening)), Status::Invalid, "{name}");
        assert_eq!(status(client.call(remove(name))), Status::Invalid, "{name}");
        assert_eq!(status(client.call(rename("f", name, ROOT))), Status::Invalid, "{name}");
    }
    let meaningless = [
        MakeEntry { mode: 0o600, ..make("x", EntryKind::Symlink) },
        MakeEntry { device: 5, ..make("x", EntryKind::Fifo) },
        MakeEntry { target: b"f".to_vec(), ..make("x", EntryKind::Directory) },
        MakeEntry { file: Some(file), ..make("x", EntryKind::Directory) },
        make("x", EntryKind::Link),
    ];
    for call in meaningless {
        assert_eq!(status(client.call(call.clone())), Status::Invalid, "{call:?}");
    }
    assert_eq!(status(client.call(open_entry("", CreateMode::Never))), Status::NotFound);
}

/// Makes a call, kills the server before the answer arrives, and retries it: both answers.
fn retried<M: WireCall + Clone>(world: &mut World, client: Client, m: M) -> (M::Reply, M::Reply) {
    let envelope = client.next();
    let first = client.call_as(envelope.clone(), m.clone()).unwrap();
    world.restart();
    let client = client.reclaim(world).unwrap();
    (first, client.call_as(envelope, m).unwrap())
}

#[test]
fn retry_after_a_restart_returns_the_same_counters() {
    let mut world = World::new(2);
    let client = world.client();
    client.close(&client.create("f"));
    let (a, b) = retried(&mut world, client, make("d", EntryKind::Directory));
    assert_eq!((a.attributes.file, a.change), (b.attributes.file, b.change));
    let client = world.client();
    let (a, b) = retried(&mut world, client, rename("f", "g", a.attributes.file));
    assert_eq!(a, b);
    let client = world.client();
    let (a, b) = retried(&mut world, client, open_entry("h", CreateMode::IfMissing));
    assert_eq!((a.created, a.change), (b.created, b.change));
    let client = world.client();
    let (a, b) = retried(&mut world, client, remove("h"));
    assert_eq!(a, b);
    assert_eq!(status(world.client().stat("h")), Status::NotFound);
}

#[test]
fn a_name_is_looked_up_without_regard_to_case() {
    let mut world = World::new(2);
    let client = world.client();
    let opened = client.create("Name");
    world.write(&opened, 100).unwrap();
    let look_up = |dir, name: &str| client.call(LookUpFolded { dir, name: name.into() });
    for name in ["Name", "NAME"] {
        let found = look_up(ROOT, name).unwrap();
        assert_eq!(found.name, b"Name");
        assert_eq!(found.attributes.file, opened.attributes.file);
        assert_eq!(found.attributes.bytes.0, 100, "the size is collected");
    }
    let root = client.stat("").unwrap();
    assert_eq!(root.flags, 0, "clients see no mark");
    for (name, wanted) in [
        ("", Status::NotFound),
        ("other", Status::NotFound),
        ("..", Status::Invalid),
        ("a/b", Status::Invalid),
    ] {
        assert_eq!(status(look_up(ROOT, name)), wanted, "{name}");
    }
    assert_eq!(status(look_up(opened.attributes.file, "x")), Status::NotDirectory);
}
