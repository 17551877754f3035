//! The bytes of named streams, and their share modes.

use braid_share::memory::CallKind;
use braid_share::{Status, XattrMode};
use braid_smb_wire::fscc::{FileStandard, InformationClass, SetInformation};

use super::data::{copy, flush, read, write, zero};
use super::locks::{EXCLUSIVE, UNLOCK, lock};
use super::stream_names::{query, set, streams};
use super::*;
use crate::streams::shared::STREAM_BYTES_MAX;

/// The value of an extended attribute, as root reads it.
pub(super) async fn attribute(client: &Client, file: &str, name: &str) -> Option<Vec<u8>> {
    let (fs, root) = (client.client(), Identity::root());
    let file = fs.look_up(&root, FileIndex::ROOT, file.as_bytes()).await.unwrap().file;
    fs.xattr(&root, file, name.as_bytes()).await.ok()
}

/// Makes a stream with these bytes.
pub(super) async fn put(client: &Client, name: &str, bytes: &'static [u8]) {
    let id = client.open(name, BOTH).await.unwrap();
    write(client, id, 0, bytes).await.unwrap();
    client.close(id).await.unwrap();
}

#[tokio::test]
async fn a_stream_is_stored_as_samba_stores_it() {
    let client = Client::new(user()).await;
    put(&client, "file:Zone.Identifier", b"[ZoneTransfer]").await;
    let name = "user.DosStream.Zone.Identifier:$DATA";
    let value = attribute(&client, "file", name).await;
    assert_eq!(value.as_deref(), Some(&b"[ZoneTransfer]\0"[..]));
    // What Samba has written.
    let (fs, root) = (client.client(), Identity::root());
    let file = fs.look_up(&root, FileIndex::ROOT, b"file").await.unwrap().file;
    let set = async |name: &[u8], value: &[u8]| {
        fs.set_xattr(&root, file, name, value, XattrMode::Either).await.unwrap();
    };
    set(b"user.DosStream.a:$DATA", b"abc\0").await;
    set(b"user.DosStream.long:$DATA", b"abc\x01").await;
    let id = client.open("file:A:$data", READ).await.unwrap();
    assert_eq!(read(&client, id, 0, 100).await.unwrap(), &b"abc"[..]);
    let long = client.create(request("file:long", READ, CreateDisposition::OPEN)).await;
    assert_eq!(long.map(drop), Err(NtStatus::NOT_SUPPORTED));
    client.close(id).await.unwrap();
    client.assert_nothing_open();
}

#[tokio::test]
async fn bytes_of_a_stream_are_read_cut_and_zeroed_as_those_of_a_file() {
    let client = Client::new(user()).await;
    let id = client.open("file:s", BOTH).await.unwrap();
    write(&client, id, 2, b"abc").await.unwrap();
    assert_eq!(read(&client, id, 0, 100).await.unwrap(), &b"\0\0abc"[..]);
    assert_eq!(read(&client, id, 5, 1).await, Err(NtStatus::END_OF_FILE));
    zero(&client, id, 3, 100).await.unwrap();
    assert_eq!(read(&client, id, 0, 100).await.unwrap(), &b"\0\0a\0\0"[..]);
    set(&client, id, SetInformation::EndOfFile(3)).await.unwrap();
    assert_eq!(read(&client, id, 0, 100).await.unwrap(), &b"\0\0a"[..]);
    set(&client, id, SetInformation::Allocation(1)).await.unwrap();
    let known: FileStandard = query(&client, id, InformationClass::STANDARD).await;
    assert_eq!((known.end_of_file, known.allocation_bytes, known.directory), (1, 8, false));
    flush(&client, id).await.unwrap();
    // A union makes the attributes of a file durable with the file.
    client.share().fail_next(CallKind::SyncDirectory, Status::NotDirectory);
    flush(&client, id).await.unwrap();
    let file = client.open("file", READ).await.unwrap();
    let known: FileStandard = query(&client, file, InformationClass::STANDARD).await;
    assert_eq!(known.end_of_file, 0, "the bytes of the file are others");
}

#[tokio::test]
async fn a_stream_has_as_many_bytes_as_an_extended_attribute() {
    let client = Client::new(user()).await;
    let id = client.open("file:s", BOTH).await.unwrap();
    let last = STREAM_BYTES_MAX as u64 - 1;
    write(&client, id, last, b"x").await.unwrap();
    assert_eq!(write(&client, id, last, b"xy").await, Err(NtStatus::DISK_FULL));
    let larger = SetInformation::EndOfFile(last + 2);
    assert_eq!(set(&client, id, larger).await, Err(NtStatus::DISK_FULL));
    assert_eq!(read(&client, id, last, 10).await.unwrap(), &b"x"[..], "nothing has changed");
}

#[tokio::test]
async fn writes_of_two_clients_to_one_stream_are_all_kept() {
    let one = Client::new(user()).await;
    let two = Client::of(&one.server, user(), 2).await;
    let first = one.open("file:s", BOTH).await.unwrap();
    let second = two.open("file:S", BOTH).await.unwrap();
    for at in 0..32 {
        let writes =
            tokio::join!(write(&one, first, 2 * at, b"a"), write(&two, second, 2 * at + 1, b"b"));
        assert!(writes.0.is_ok() && writes.1.is_ok());
    }
    assert_eq!(read(&one, first, 0, 100).await.unwrap(), "ab".repeat(32).as_bytes());
}

#[tokio::test]
async fn a_write_waits_for_one_that_has_read_the_stream() {
    let client = Client::new(user()).await;
    let id = client.open("file:s", BOTH).await.unwrap();
    let open = client.session.open(id).unwrap();
    let shared = Arc::clone(&open.file().unwrap().stream.as_ref().unwrap().shared);
    let first = shared.changing.lock().await;
    let mut second = std::pin::pin!(write(&client, id, 1, b"b"));
    tokio::select! {
        biased;
        done = &mut second => panic!("it did not wait: {done:?}"),
        () = tokio::task::yield_now() => {}
    }
    let (fs, root) = (client.client(), Identity::root());
    let (file, name) = (open.file().unwrap().file, b"user.DosStream.s:$DATA");
    fs.set_xattr(&root, file, name, b"a\0", XattrMode::Replace).await.unwrap();
    drop(first);
    second.await.unwrap();
    assert_eq!(read(&client, id, 0, 10).await.unwrap(), &b"ab"[..]);
}

#[tokio::test]
async fn bytes_are_copied_from_and_to_streams() {
    let client = Client::new(user()).await;
    client.put("file", b"0123456789", 0o666).await;
    let file = client.open("file", BOTH).await.unwrap();
    let (one, two) = (client.open("file:1", BOTH).await, client.open("file:2", BOTH).await);
    let (one, two) = (one.unwrap(), two.unwrap());
    copy(&client, file, one, 0, 10).await.unwrap();
    write(&client, one, 0, b"ab").await.unwrap();
    copy(&client, one, two, 1, 5).await.unwrap();
    assert_eq!(read(&client, two, 0, 100).await.unwrap(), &b"\0b2345"[..]);
    copy(&client, two, file, 0, 3).await.unwrap();
    assert_eq!(read(&client, file, 0, 4).await.unwrap(), &b"\0b23"[..]);
    assert_eq!(copy(&client, two, file, 5, 2).await, Err(NtStatus::INVALID_VIEW_SIZE));
}

#[tokio::test]
async fn locks_of_a_stream_are_not_locks_of_the_file() {
    let one = Client::new(user()).await;
    let two = Client::of(&one.server, user(), 2).await;
    one.put("file", b"0123456789", 0o666).await;
    put(&one, "file:s", b"0123456789").await;
    let (first, second) = (one.open("file:s", BOTH).await, two.open("file:s", BOTH).await);
    let (first, second) = (first.unwrap(), second.unwrap());
    let file = two.open("file", BOTH).await.unwrap();
    lock(&one, first, &[(0, 5, EXCLUSIVE), (7, 1, EXCLUSIVE)]).await.unwrap();
    let refused = Err(NtStatus::LOCK_NOT_GRANTED);
    assert_eq!(lock(&two, second, &[(9, 1, EXCLUSIVE), (4, 1, EXCLUSIVE)]).await, refused);
    assert_eq!(write(&two, second, 4, b"x").await, Err(NtStatus::FILE_LOCK_CONFLICT));
    assert_eq!(read(&two, second, 4, 1).await, Err(NtStatus::FILE_LOCK_CONFLICT));
    lock(&two, file, &[(0, 5, EXCLUSIVE)]).await.unwrap();
    write(&two, file, 4, b"x").await.unwrap();
    lock(&one, first, &[(0, 5, UNLOCK)]).await.unwrap();
    lock(&two, second, &[(4, 1, EXCLUSIVE)]).await.unwrap();
    for (client, id) in [(&one, first), (&two, second), (&two, file)] {
        client.close(id).await.unwrap();
    }
    one.assert_nothing_open();
}

#[tokio::test]
async fn opens_exclude_those_of_the_same_stream_only() {
    let one = Client::new(user()).await;
    let two = Client::of(&one.server, user(), 2).await;
    let alone = CreateRequest {
        share_access: ShareAccess(0),
        ..request("file:s", BOTH, CreateDisposition::OPEN_IF)
    };
    let first = one.create(alone.clone()).await.unwrap();
    let violation = Err(NtStatus::SHARING_VIOLATION);
    for name in ["file:s", "FILE:S:$DATA"] {
        assert_eq!(two.open(name, READ).await.map(drop), violation);
    }
    let overwrite = request("file:s", READ, CreateDisposition::OVERWRITE);
    assert_eq!(two.create(overwrite).await.map(drop), violation);
    let others = [two.open("file:other", BOTH).await, two.open("file", BOTH).await];
    // A file is not removed under an open stream that does not share that.
    assert_eq!(two.open("file", DELETE).await.map(drop), violation);
    one.close(first.file_id).await.unwrap();
    let remover = two.open("file", DELETE).await.unwrap();
    for id in others.into_iter().map(Result::unwrap).chain([remover]) {
        two.close(id).await.unwrap();
    }
    one.assert_nothing_open();
}

#[tokio::test]
async fn a_user_needs_the_rights_to_the_file() {
    let client = Client::new(user()).await;
    client.put("readable", b"", 0o644).await;
    client.put("secret", b"", 0o600).await;
    let root = Client::of(&client.server, Identity::root(), 2).await;
    for name in ["readable:s", "secret:s"] {
        put(&root, name, b"abc").await;
    }
    let denied = Err(NtStatus::ACCESS_DENIED);
    let cases = [
        ("readable:s", READ, CreateDisposition::OPEN, Ok(())),
        ("readable:s", BOTH, CreateDisposition::OPEN, denied),
        ("readable:s", READ, CreateDisposition::OVERWRITE, denied),
        ("readable:new", READ, CreateDisposition::OPEN_IF, denied),
        ("secret:s", READ, CreateDisposition::OPEN, denied),
        ("secret:s", ATTRIBUTES, CreateDisposition::OPEN, Ok(())),
    ];
    for (name, access, disposition, wanted) in cases {
        let made = client.create(request(name, access, disposition)).await;
        assert_eq!(made.map(drop), wanted, "{name} {access:#x}");
    }
    let reader = client.open("secret:s", ATTRIBUTES).await.unwrap();
    assert_eq!(read(&client, reader, 0, 1).await.map(drop), denied);
    let read_only = client.read_only();
    let made = read_only.create(request("readable:new", READ, CreateDisposition::CREATE)).await;
    assert_eq!(made.map(drop), denied);
    let made = read_only.create(request("new:s", READ, CreateDisposition::CREATE)).await;
    assert_eq!(made.map(drop), denied);
    assert!(!read_only.exists("new").await);
}

#[tokio::test]
async fn an_open_stream_keeps_its_rights_when_the_mode_changes() {
    let client = Client::new(user()).await;
    let id = client.open("file:s", BOTH).await.unwrap();
    let (fs, root) = (client.client(), Identity::root());
    let file = fs.look_up(&root, FileIndex::ROOT, b"file").await.unwrap().file;
    let changes = AttributeChanges { mode: Some(0), ..AttributeChanges::none() };
    fs.set_attributes(&root, file, changes).await.unwrap();
    write(&client, id, 0, b"abc").await.unwrap();
    assert_eq!(read(&client, id, 0, 3).await.unwrap(), &b"abc"[..]);
    assert_eq!(client.open("file:s", READ).await.map(drop), Err(NtStatus::ACCESS_DENIED));
}

#[tokio::test]
async fn a_stream_that_others_remove_does_not_come_back() {
    let client = Client::new(user()).await;
    let id = client.open("file:s", BOTH).await.unwrap();
    let (fs, root) = (client.client(), Identity::root());
    let file = fs.look_up(&root, FileIndex::ROOT, b"file").await.unwrap().file;
    fs.remove_xattr(&root, file, b"user.DosStream.s:$DATA").await.unwrap();
    assert_eq!(write(&client, id, 0, b"abc").await, Err(NtStatus::FILE_CLOSED));
    let base = client.open("file", READ).await.unwrap();
    assert_eq!(streams(&client, base).await, [("::$DATA".to_owned(), 0)]);
    client.close(id).await.unwrap();
    client.close(base).await.unwrap();
    client.assert_nothing_open();
}
