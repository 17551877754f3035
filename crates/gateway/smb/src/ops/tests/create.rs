//! CREATE.

use braid_smb_wire::smb2::create::{
    CreateAction, CreateContext, MaximalAccessResponse, OnDiskId, context as tags,
};

use super::*;

const DIRECTORY: CreateOptions = CreateOptions::FILE_DIRECTORY_FILE;
const NO_DIRECTORY: CreateOptions = CreateOptions::FILE_NON_DIRECTORY_FILE;

#[tokio::test]
async fn a_disposition_decides_what_is_done_and_with_how_many_bytes() {
    let client = Client::new(user()).await;
    client.put("there", b"old", 0o666).await;
    let missing = Err(NtStatus::OBJECT_NAME_NOT_FOUND);
    let collision = Err(NtStatus::OBJECT_NAME_COLLISION);
    // What is done with a file of 3 bytes, and without one.
    let cases = [
        (CreateDisposition::OPEN, Ok((CreateAction::OPENED, 3)), missing),
        (CreateDisposition::CREATE, collision, Ok((CreateAction::CREATED, 0))),
        (CreateDisposition::OPEN_IF, Ok((CreateAction::OPENED, 3)), Ok((CreateAction::CREATED, 0))),
        (CreateDisposition::OVERWRITE, Ok((CreateAction::OVERWRITTEN, 0)), missing),
        (
            CreateDisposition::OVERWRITE_IF,
            Ok((CreateAction::OVERWRITTEN, 0)),
            Ok((CreateAction::CREATED, 0)),
        ),
        (
            CreateDisposition::SUPERSEDE,
            Ok((CreateAction::SUPERSEDED, 0)),
            Ok((CreateAction::CREATED, 0)),
        ),
    ];
    for (disposition, existing, new) in cases {
        for access in [BOTH, ATTRIBUTES] {
            let there = format!("there-{}-{access}", disposition.0);
            client.put(Box::leak(there.clone().into_boxed_str()), b"old", 0o666).await;
            let absent = format!("absent-{}-{access}", disposition.0);
            for (name, wanted) in [(there, existing), (absent, new)] {
                let made = client.create(request(&name, access, disposition)).await;
                let got = made.as_ref().map(|made| (made.action, made.end_of_file));
                assert_eq!(got.map_err(|status| *status), wanted, "{name}");
                if let Ok(made) = made {
                    client.close(made.file_id).await.unwrap();
                }
            }
        }
    }
    client.assert_nothing_open();
}

#[tokio::test]
async fn directories_and_files_are_not_taken_for_each_other() {
    let client = Client::new(user()).await;
    client.put("file", b"", 0o666).await;
    let open = CreateDisposition::OPEN;
    let make = request("dir", READ, CreateDisposition::CREATE);
    let made = client.create(with(DIRECTORY, make)).await.unwrap();
    assert_eq!(made.file_attributes, 0x10);
    client.close(made.file_id).await.unwrap();
    let cases = [
        ("dir", CreateOptions(0), open, Ok(())),
        ("dir", DIRECTORY, open, Ok(())),
        ("", CreateOptions(0), open, Ok(())),
        ("dir\\", CreateOptions(0), open, Ok(())),
        ("dir", NO_DIRECTORY, open, Err(NtStatus::FILE_IS_A_DIRECTORY)),
        ("dir::$DATA", CreateOptions(0), open, Err(NtStatus::FILE_IS_A_DIRECTORY)),
        ("dir", DIRECTORY, CreateDisposition::CREATE, Err(NtStatus::OBJECT_NAME_COLLISION)),
        ("dir", CreateOptions(0), CreateDisposition::OVERWRITE, Err(NtStatus::INVALID_PARAMETER)),
        ("file", NO_DIRECTORY, open, Ok(())),
        ("file::$DATA", CreateOptions(0), open, Ok(())),
        ("file", DIRECTORY, open, Err(NtStatus::NOT_A_DIRECTORY)),
        ("file\\", CreateOptions(0), open, Err(NtStatus::NOT_A_DIRECTORY)),
        ("file\\a", CreateOptions(0), open, Err(NtStatus::OBJECT_PATH_NOT_FOUND)),
        ("none\\a", CreateOptions(0), open, Err(NtStatus::OBJECT_PATH_NOT_FOUND)),
        ("dir\\a", CreateOptions(0), open, Err(NtStatus::OBJECT_NAME_NOT_FOUND)),
        ("new\\", CreateOptions(0), CreateDisposition::CREATE, Err(NtStatus::OBJECT_NAME_INVALID)),
        ("file", DIRECTORY.with(NO_DIRECTORY), open, Err(NtStatus::INVALID_PARAMETER)),
        ("a:b", CreateOptions(0), open, Err(NtStatus::OBJECT_NAME_NOT_FOUND)),
        ("a:b:c", CreateOptions(0), open, Err(NtStatus::OBJECT_NAME_INVALID)),
        ("file:b", CreateOptions(0), open, Err(NtStatus::OBJECT_NAME_NOT_FOUND)),
        ("file:b", DIRECTORY, open, Err(NtStatus::NOT_A_DIRECTORY)),
        ("dir::$INDEX_ALLOCATION", CreateOptions(0), open, Ok(())),
        ("file::$INDEX_ALLOCATION", CreateOptions(0), open, Err(NtStatus::NOT_A_DIRECTORY)),
    ];
    for (name, options, disposition, wanted) in cases {
        let made = client.create(with(options, request(name, READ, disposition))).await;
        assert_eq!(made.as_ref().map(drop).map_err(|status| *status), wanted, "{name} {options:?}");
        if let Ok(made) = made {
            client.close(made.file_id).await.unwrap();
        }
    }
    client.assert_nothing_open();
}

#[tokio::test]
async fn access_is_what_the_permissions_give() {
    let client = Client::new(user()).await;
    client.put("readable", b"abc", 0o644).await;
    client.put("secret", b"abc", 0o600).await;
    let denied = Err(NtStatus::ACCESS_DENIED);
    let cases = [
        ("readable", READ, Ok(())),
        ("readable", 0x8000_0000, Ok(())),
        ("readable", BOTH, denied),
        ("readable", 0x4000_0000, denied),
        ("readable", 0x0004_0000, denied),
        ("secret", READ, denied),
        ("secret", ATTRIBUTES, Ok(())),
        ("readable", 0, denied),
        ("readable", 0x0100_0000, Err(NtStatus::PRIVILEGE_NOT_HELD)),
    ];
    for (name, access, wanted) in cases {
        let made = client.create(request(name, access, CreateDisposition::OPEN)).await;
        assert_eq!(made.map(drop), wanted, "{name} {access:#x}");
    }
    let overwrite = request("readable", ATTRIBUTES, CreateDisposition::OVERWRITE);
    assert_eq!(client.create(overwrite).await.map(drop), denied, "without the right to write");
}

#[tokio::test]
async fn the_maximal_access_is_granted_and_reported() {
    let client = Client::new(user()).await;
    client.put("file", b"abc", 0o644).await;
    let mut asked = request("file", MAXIMUM_ALLOWED, CreateDisposition::OPEN);
    asked.contexts =
        vec![CreateContext::new(tags::MAXIMAL_ACCESS, Bytes::new()), OnDiskId::request()];
    let made = client.create(asked).await.unwrap();
    let maximal = CreateContext::find(&made.contexts, tags::MAXIMAL_ACCESS).unwrap();
    let maximal = MaximalAccessResponse::decode(maximal).unwrap();
    // To read and execute, and to delete, since the directory may be changed.
    assert_eq!((maximal.status, maximal.maximal_access), (NtStatus::SUCCESS, 0x0013_00a9));
    let id = CreateContext::find(&made.contexts, tags::ON_DISK_ID).unwrap();
    assert_ne!(OnDiskId::decode(id).unwrap().file, 0);
    let open = client.session.open(made.file_id).unwrap();
    assert_eq!(open.file().unwrap().granted, 0x0013_00a9);
}

#[tokio::test]
async fn the_owner_of_a_file_and_of_the_root_may_have_all_rights() {
    let client = Client::new(Identity::root()).await;
    client.put("file", b"abc", 0o644).await;
    for name in ["file", ""] {
        let made = client.create(request(name, 0x1000_0000, CreateDisposition::OPEN)).await;
        let open = client.session.open(made.unwrap().file_id).unwrap();
        assert_eq!(open.file().unwrap().granted, ALL_ACCESS, "{name}");
    }
}

#[tokio::test]
async fn a_read_only_share_changes_nothing() {
    let client = Client::new(Identity::root()).await.read_only();
    client.put("file", b"abc", 0o666).await;
    let cases = [
        ("file", READ, CreateDisposition::OPEN, true),
        ("file", MAXIMUM_ALLOWED, CreateDisposition::OPEN_IF, true),
        ("file", BOTH, CreateDisposition::OPEN, false),
        ("file", DELETE, CreateDisposition::OPEN, false),
        ("file", READ, CreateDisposition::OVERWRITE, false),
        ("new", READ, CreateDisposition::OPEN_IF, false),
    ];
    for (name, access, disposition, is_allowed) in cases {
        let made = client.create(request(name, access, disposition)).await.map(drop);
        let wanted = if is_allowed { Ok(()) } else { Err(NtStatus::ACCESS_DENIED) };
        assert_eq!(made, wanted, "{name} {access:#x} {disposition:?}");
    }
    assert!(!client.exists("new").await);
}

#[tokio::test]
async fn opens_of_two_clients_exclude_each_other_as_they_ask() {
    let one = Client::new(user()).await;
    let two = Client::of(&one.server, user(), 2).await;
    let violation = Err(NtStatus::SHARING_VIOLATION);
    let alone = CreateRequest {
        share_access: ShareAccess(0),
        ..request("file", BOTH, CreateDisposition::OPEN_IF)
    };
    let first = one.create(alone.clone()).await.unwrap();
    assert_eq!(two.open("file", READ).await.map(drop), violation);
    assert_eq!(two.open("file", DELETE).await.map(drop), violation);
    two.open("file", ATTRIBUTES).await.unwrap();
    one.close(first.file_id).await.unwrap();
    two.open("file", READ).await.unwrap();
    assert_eq!(one.create(alone).await.map(drop), violation);
}

#[tokio::test]
async fn links_are_followed_inside_the_share_only() {
    let client = Client::new(user()).await;
    client.put("file", b"abc", 0o644).await;
    let (root, fs) = (Identity::root(), client.client());
    let (dir, _) = fs.make_directory(&root, FileIndex::ROOT, b"dir", 0o755).await.unwrap();
    let links: [(&[u8], &[u8]); 6] = [
        (b"to-file", b"../file"),
        (b"to-dir", b"../dir/./"),
        (b"above", b"../../file"),
        (b"absolute", b"/file"),
        (b"loop", b"loop"),
        (b"gone", b"nothing"),
    ];
    for (name, target) in links {
        fs.make_symlink(&root, dir.file, name, target).await.unwrap();
    }
    let not_found = Err(NtStatus::OBJECT_PATH_NOT_FOUND);
    let cases = [
        (r"dir\to-file", Ok(3)),
        (r"dir\to-dir\to-dir\to-file", Ok(3)),
        (r"dir\to-dir", Ok(0)),
        (r"dir\above", not_found),
        (r"dir\absolute", not_found),
        (r"dir\loop", not_found),
        (r"dir\gone", Err(NtStatus::OBJECT_NAME_NOT_FOUND)),
        (r"dir\gone\a", not_found),
    ];
    for (name, wanted) in cases {
        let made = client.create(request(name, READ, CreateDisposition::OPEN)).await;
        assert_eq!(made.map(|made| made.end_of_file), wanted, "{name}");
    }
    let itself = request(r"dir\absolute", ATTRIBUTES, CreateDisposition::OPEN);
    client.create(with(CreateOptions::FILE_OPEN_REPARSE_POINT, itself)).await.unwrap();
}

#[tokio::test]
async fn a_create_that_fails_late_leaves_nothing_open() {
    let client = Client::new(user()).await;
    client.put("file", b"abc", 0o666).await;
    client.session.remove_tree(client.tree.id).unwrap();
    let options = CreateOptions::FILE_DELETE_ON_CLOSE;
    let opened = request("file", BOTH | DELETE, CreateDisposition::OPEN);
    assert!(client.create(with(options, opened)).await.is_err(), "the tree has ended");
    client.assert_nothing_open();
    assert!(client.exists("file").await);
}

#[tokio::test]
async fn a_session_with_all_opens_that_it_may_have_changes_no_file() {
    let limits = Limits { opens_per_session: 1, ..Limits::default() };
    let client = Client::with_limits(user(), limits).await;
    client.put("there", b"old", 0o666).await;
    client.put("first", b"", 0o666).await;
    let first = client.open("first", READ).await.unwrap();
    for (name, options) in [("there", NO_DIRECTORY), ("file", NO_DIRECTORY), ("dir", DIRECTORY)] {
        let disposition = match name {
            "there" => CreateDisposition::OVERWRITE_IF,
            _ => CreateDisposition::CREATE,
        };
        let refused = client.create(with(options, request(name, BOTH, disposition))).await;
        assert_eq!(refused.map(drop), Err(NtStatus::INSUFFICIENT_RESOURCES), "{name}");
    }
    assert!(!client.exists("file").await && !client.exists("dir").await);
    client.close(first).await.unwrap();
    // What failed holds nothing.
    assert_eq!(client.open("missing\\x", READ).await, Err(NtStatus::OBJECT_PATH_NOT_FOUND));
    let there = client.create(request("there", READ, CreateDisposition::OPEN)).await.unwrap();
    assert_eq!(there.end_of_file, 3);
    client.close(there.file_id).await.unwrap();
    client.assert_nothing_open();
}
