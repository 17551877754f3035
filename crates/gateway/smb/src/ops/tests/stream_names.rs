//! Named streams: how they are created, listed, renamed and removed.

use braid_share::Status;
use braid_share::memory::CallKind;
use braid_smb_wire::fscc::{
    Disposition, ExtendedAttribute, FileAttributes, FileBasic, FileName, FsAttribute, FsAttributes,
    Information, InformationClass, RenameFlags, RenameTarget, SetInformation, VolumeClass,
    decode_streams,
};
use braid_smb_wire::smb2::create::CreateAction;
use braid_smb_wire::smb2::output::OutputResponse;
use braid_smb_wire::smb2::query_info::{InfoType, QueryInfoFlags, QueryInfoRequest};
use braid_smb_wire::smb2::set_info::SetInfoRequest;

use super::data::{read, write};
use super::streams::{attribute, put};
use super::*;
use crate::streams::list::STREAMS_MAX;

async fn output(client: &Client, id: FileId, info_type: InfoType, info_class: u8) -> OpResult {
    let request = QueryInfoRequest {
        info_type,
        info_class,
        output_buffer_length: 65_536,
        additional_information: 0,
        flags: QueryInfoFlags::default(),
        file_id: id,
        input: Bytes::new(),
    };
    super::super::query_info::query_info(&client.context(), request).await
}

pub(super) async fn query<T: Information>(
    client: &Client,
    id: FileId,
    class: InformationClass,
) -> T {
    let reply = output(client, id, InfoType::FILE, class.0).await.unwrap();
    T::from_bytes(body::<OutputResponse>(&reply).output).unwrap()
}

pub(super) async fn set(
    client: &Client,
    id: FileId,
    information: SetInformation,
) -> Result<(), NtStatus> {
    let request = SetInfoRequest {
        info_type: InfoType::FILE,
        info_class: information.class().0,
        additional_information: 0,
        file_id: id,
        data: information.to_bytes().into(),
    };
    super::super::set_info::set_info(&client.context(), request).await.done().map(drop)
}

/// Names and sizes of the streams of a file, sorted.
pub(super) async fn streams(client: &Client, id: FileId) -> Vec<(String, u64)> {
    let reply = output(client, id, InfoType::FILE, InformationClass::STREAM.0).await.unwrap();
    let list = decode_streams(body::<OutputResponse>(&reply).output).unwrap();
    let mut list: Vec<_> = list.into_iter().map(|one| (one.name, one.bytes)).collect();
    list.sort();
    list
}

fn rename(name: &str, flags: RenameFlags) -> SetInformation {
    SetInformation::Rename(RenameTarget { flags, root_directory: 0, name: name.to_owned() })
}

fn listed(names: &[(&str, u64)]) -> Vec<(String, u64)> {
    names.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect()
}

#[tokio::test]
async fn a_disposition_decides_what_is_done_with_a_stream() {
    let client = Client::new(user()).await;
    let missing = Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    let collision = Err(NtStatus::OBJECT_NAME_COLLISION);
    // What is done with a stream of 3 bytes, and without one.
    let created = Ok((CreateAction::CREATED, 0));
    let cases = [
        (CreateDisposition::OPEN, Ok((CreateAction::OPENED, 3)), missing),
        (CreateDisposition::CREATE, collision, created),
        (CreateDisposition::OPEN_IF, Ok((CreateAction::OPENED, 3)), created),
        (CreateDisposition::OVERWRITE, Ok((CreateAction::OVERWRITTEN, 0)), missing),
        (CreateDisposition::OVERWRITE_IF, Ok((CreateAction::OVERWRITTEN, 0)), created),
        (CreateDisposition::SUPERSEDE, Ok((CreateAction::SUPERSEDED, 0)), created),
    ];
    for (disposition, existing, new) in cases {
        let number = disposition.0;
        put(&client, &format!("there{number}"), b"base").await;
        put(&client, &format!("there{number}:s"), b"old").await;
        let absent = [format!("there{number}:absent"), format!("new{number}:absent")];
        let names = [(format!("there{number}:S"), existing)];
        for (name, wanted) in names.into_iter().chain(absent.map(|name| (name, new))) {
            let made = client.create(request(&name, BOTH, disposition)).await;
            let got = made.as_ref().map(|made| (made.action, made.end_of_file));
            assert_eq!(got.map_err(|status| *status), wanted, "{name}");
            if let Ok(made) = made {
                client.close(made.file_id).await.unwrap();
            }
        }
        let new_file = format!("new{number}");
        assert_eq!(client.exists(&new_file).await, new.is_ok(), "the file comes with its stream");
        let base = client.open(&format!("there{number}"), READ).await.unwrap();
        assert_eq!(read(&client, base, 0, 10).await.unwrap(), &b"base"[..]);
        client.close(base).await.unwrap();
    }
    client.assert_nothing_open();
}

#[tokio::test]
async fn streams_are_listed_with_their_names_and_sizes() {
    let client = Client::new(user()).await;
    put(&client, "file", b"base").await;
    put(&client, "file:One", b"1").await;
    put(&client, "file:two words", b"22").await;
    client.close(client.open("file:empty", BOTH).await.unwrap()).await.unwrap();
    let all = [("::$DATA", 4), (":One:$DATA", 1), (":empty:$DATA", 0), (":two words:$DATA", 2)];
    for name in ["file", "file:ONE"] {
        let id = client.open(name, READ).await.unwrap();
        assert_eq!(streams(&client, id).await, listed(&all), "{name}");
    }
    let made = request("dir", READ, CreateDisposition::CREATE);
    let dir = client.create(with(CreateOptions::FILE_DIRECTORY_FILE, made)).await.unwrap();
    assert_eq!(streams(&client, dir.file_id).await, []);
    for (name, file) in [("dir:s", dir.file_id), (":s", client.open("", READ).await.unwrap())] {
        put(&client, name, b"abc").await;
        assert_eq!(streams(&client, file).await, listed(&[(":s:$DATA", 3)]), "{name}");
    }
}

#[tokio::test]
async fn information_of_a_stream_is_that_of_its_file_but_for_name_and_size() {
    let client = Client::new(user()).await;
    let dir = request("dir", READ, CreateDisposition::CREATE);
    let dir = client.create(with(CreateOptions::FILE_DIRECTORY_FILE, dir)).await.unwrap();
    let id = client.open("dir:Stream", BOTH).await.unwrap();
    let name: FileName = query(&client, id, InformationClass::NAME).await;
    assert_eq!(name.name, r"\dir:Stream");
    let (of_dir, of_stream): (FileBasic, FileBasic) = (
        query(&client, dir.file_id, InformationClass::BASIC).await,
        query(&client, id, InformationClass::BASIC).await,
    );
    assert_eq!(of_dir.creation, of_stream.creation);
    assert!(of_dir.attributes.has(FileAttributes::DIRECTORY));
    assert!(!of_stream.attributes.has(FileAttributes::DIRECTORY));
    let reply = output(&client, id, InfoType::FILESYSTEM, VolumeClass::ATTRIBUTE.0).await.unwrap();
    let volume = FsAttribute::from_bytes(body::<OutputResponse>(&reply).output).unwrap();
    assert!(volume.attributes.has(FsAttributes::NAMED_STREAMS));
}

#[tokio::test]
async fn streams_are_no_extended_attributes() {
    let client = Client::new(user()).await;
    let id = client.open("file:s", ALL_ACCESS).await.unwrap();
    let none = output(&client, id, InfoType::FILE, InformationClass::FULL_EA.0).await;
    assert_eq!(none, Err(NtStatus::NO_EAS_ON_FILE));
    let attribute = |name: &'static str| ExtendedAttribute {
        flags: 0,
        name: Bytes::from_static(name.as_bytes()),
        value: Bytes::from_static(b"value"),
    };
    for name in ["DosStream.s:$DATA", "dosstream.x"] {
        let change = SetInformation::FullEa(vec![attribute(name)]);
        assert_eq!(set(&client, id, change).await, Err(NtStatus::OBJECT_NAME_INVALID), "{name}");
    }
}

#[tokio::test]
async fn an_overwritten_file_has_no_streams() {
    let client = Client::new(user()).await;
    for disposition in [CreateDisposition::OVERWRITE_IF, CreateDisposition::SUPERSEDE] {
        put(&client, "file:closed", b"abc").await;
        put(&client, "file:open", b"abc").await;
        let open = client.open("file:open", BOTH).await.unwrap();
        let made = client.create(request("file", BOTH, disposition)).await.unwrap();
        let left = listed(&[("::$DATA", 0), (":open:$DATA", 3)]);
        assert_eq!(streams(&client, made.file_id).await, left);
        assert_eq!(client.open("file:open", READ).await, Err(NtStatus::DELETE_PENDING));
        assert_eq!(read(&client, open, 0, 3).await.unwrap(), &b"abc"[..]);
        client.close(open).await.unwrap();
        assert_eq!(streams(&client, made.file_id).await, listed(&[("::$DATA", 0)]));
        client.close(made.file_id).await.unwrap();
    }
    client.assert_nothing_open();
}

#[tokio::test]
async fn a_stream_goes_with_its_last_open_and_the_file_stays() {
    let client = Client::new(user()).await;
    put(&client, "file:kept", b"abc").await;
    put(&client, "file:s", b"abc").await;
    let deleting = request("file:s", READ | DELETE, CreateDisposition::OPEN);
    let deleting = with(CreateOptions::FILE_DELETE_ON_CLOSE, deleting);
    let first = client.create(deleting).await.unwrap();
    let second = client.open("file:s", READ).await.unwrap();
    client.close(first.file_id).await.unwrap();
    assert_eq!(client.open("file:S", READ).await, Err(NtStatus::DELETE_PENDING));
    let base = client.open("file", BOTH | DELETE).await.unwrap();
    client.close(second).await.unwrap();
    let left = [("::$DATA", 0), (":kept:$DATA", 3)];
    assert_eq!(streams(&client, base).await, listed(&left));
    // By a disposition, which is taken back and set once more.
    let kept = client.open("file:kept", DELETE).await.unwrap();
    for flags in [Disposition::DELETE, Disposition::default(), Disposition::DELETE] {
        set(&client, kept, SetInformation::Disposition(flags)).await.unwrap();
    }
    client.close(kept).await.unwrap();
    assert_eq!(streams(&client, base).await, listed(&left[..1]));
    client.close(base).await.unwrap();
    client.assert_nothing_open();
}

#[tokio::test]
async fn a_file_goes_after_the_last_close_of_its_streams() {
    let client = Client::new(user()).await;
    put(&client, "file:s", b"abc").await;
    let stream = client.open("file:s", READ).await.unwrap();
    let file = client.open("file", DELETE).await.unwrap();
    set(&client, file, SetInformation::Disposition(Disposition::DELETE)).await.unwrap();
    client.close(file).await.unwrap();
    assert_eq!(read(&client, stream, 0, 3).await.unwrap(), &b"abc"[..]);
    for name in ["file", "file:s", "file:other"] {
        assert_eq!(client.open(name, READ).await, Err(NtStatus::DELETE_PENDING), "{name}");
    }
    client.close(stream).await.unwrap();
    assert!(!client.exists("file").await);
    client.assert_nothing_open();
}

#[tokio::test]
async fn a_stream_is_renamed_within_its_file() {
    let client = Client::new(user()).await;
    put(&client, "file:full", b"full").await;
    client.close(client.open("file:Empty", BOTH).await.unwrap()).await.unwrap();
    let id = client.open("file:s", BOTH | DELETE).await.unwrap();
    write(&client, id, 0, b"abc").await.unwrap();
    let (keep, replace) = (RenameFlags::default(), RenameFlags::REPLACE_IF_EXISTS);
    let invalid = Err(NtStatus::INVALID_PARAMETER);
    let cases = [
        (":new", keep, Ok(())),
        (":NEW:$DATA", keep, Ok(())),
        (":full", keep, Err(NtStatus::OBJECT_NAME_COLLISION)),
        (":full", replace, invalid),
        (":empty", replace, Ok(())),
        (":a:$FOO", keep, invalid),
        ("::$INDEX_ALLOCATION", keep, invalid),
        ("::$DATA", keep, Err(NtStatus::OBJECT_NAME_COLLISION)),
        ("file:other", replace, Err(NtStatus::SHARING_VIOLATION)),
    ];
    for (name, flags, wanted) in cases {
        assert_eq!(set(&client, id, rename(name, flags)).await, wanted, "{name}");
    }
    // The open follows, and the old name is free.
    write(&client, id, 3, b"d").await.unwrap();
    let value = attribute(&client, "file", "user.DosStream.empty:$DATA").await;
    assert_eq!(value.as_deref(), Some(&b"abcd\0"[..]));
    let all = [("::$DATA", 0), (":empty:$DATA", 4), (":full:$DATA", 4)];
    assert_eq!(streams(&client, id).await, listed(&all));
    let link = SetInformation::Link(RenameTarget {
        flags: keep,
        root_directory: 0,
        name: "link".to_owned(),
    });
    assert_eq!(set(&client, id, link).await, invalid);
    // A file with an open stream keeps its name (MS-FSA 2.1.5.15.11).
    let file = client.open("file", DELETE).await.unwrap();
    let moved = rename("moved", keep);
    assert_eq!(set(&client, file, moved.clone()).await, Err(NtStatus::ACCESS_DENIED));
    client.close(id).await.unwrap();
    set(&client, file, moved).await.unwrap();
    client.close(file).await.unwrap();
    assert!(attribute(&client, "moved", "user.DosStream.full:$DATA").await.is_some());
    client.assert_nothing_open();
}

#[tokio::test]
async fn a_stream_becomes_the_bytes_of_a_file_without_any() {
    let client = Client::new(user()).await;
    put(&client, "file:s", b"abc").await;
    let id = client.open("file:s", BOTH | DELETE).await.unwrap();
    let file = client.open("file", BOTH).await.unwrap();
    let to_bytes = rename("::$DATA", RenameFlags::REPLACE_IF_EXISTS);
    let invalid = Err(NtStatus::INVALID_PARAMETER);
    assert_eq!(set(&client, id, to_bytes.clone()).await, invalid, "the file is open");
    write(&client, file, 0, b"x").await.unwrap();
    client.close(file).await.unwrap();
    assert_eq!(set(&client, id, to_bytes.clone()).await, invalid, "it has bytes");
    let file = client.open("file", BOTH).await.unwrap();
    set(&client, file, SetInformation::EndOfFile(0)).await.unwrap();
    assert!(set(&client, file, rename(":t", RenameFlags::default())).await.is_err());
    client.close(file).await.unwrap();
    set(&client, id, to_bytes).await.unwrap();
    assert_eq!(read(&client, id, 0, 3).await, Err(NtStatus::FILE_CLOSED));
    client.close(id).await.unwrap();
    let file = client.open("file", READ).await.unwrap();
    assert_eq!(read(&client, file, 0, 10).await.unwrap(), &b"abc"[..]);
    assert_eq!(streams(&client, file).await, listed(&[("::$DATA", 3)]));
    client.close(file).await.unwrap();
    client.assert_nothing_open();
}

#[tokio::test]
async fn a_file_has_at_most_256_streams() {
    let client = Client::new(user()).await;
    for number in 0..STREAMS_MAX {
        let id = client.open(&format!("file:{number}"), BOTH).await.unwrap();
        client.close(id).await.unwrap();
    }
    let more = client.open("file:more", BOTH).await;
    assert_eq!(more, Err(NtStatus::INSUFFICIENT_RESOURCES));
    let last = client.open("file:0", READ).await.unwrap();
    assert_eq!(streams(&client, last).await.len(), STREAMS_MAX + 1);
}

#[tokio::test]
async fn without_extended_attributes_there_are_no_streams() {
    let client = Client::new(user()).await;
    client.put("file", b"abc", 0o666).await;
    for (name, call) in [("file:s", CallKind::SetXattr), ("new:s", CallKind::Xattr)] {
        client.share().fail_next(call, Status::Unsupported);
        let refused = client.open(name, BOTH).await;
        assert_eq!(refused, Err(NtStatus::OBJECT_NAME_INVALID), "{name}");
    }
    assert!(!client.exists("new").await, "no file is left");
    client.share().fail_next(CallKind::Xattr, Status::Unsupported);
    let root = client.open("", READ).await.unwrap();
    let reply = output(&client, root, InfoType::FILESYSTEM, VolumeClass::ATTRIBUTE.0).await;
    let bytes = body::<OutputResponse>(&reply.unwrap()).output;
    let volume = FsAttribute::from_bytes(bytes).unwrap();
    assert!(!volume.attributes.has(FsAttributes::NAMED_STREAMS));
    // What a local file system has no room for.
    client.share().fail_next(CallKind::SetXattr, Status::NoSpace);
    assert_eq!(client.open("file:s", BOTH).await, Err(NtStatus::DISK_FULL));
    client.close(root).await.unwrap();
    client.assert_nothing_open();
}
