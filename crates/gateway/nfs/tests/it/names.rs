//! RENAME, LINK, REMOVE and READDIR.

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;

use crate::last;
use crate::mount::*;
use crate::server::TestServer;

async fn start() -> (TestServer, Mount) {
    let server = TestServer::start().await;
    let mount = Mount::new(&server, "a").await;
    (server, mount)
}

fn rename(from: &FileHandle, old: &str, to: &FileHandle, new: &str) -> [ArgOp; 4] {
    let (old_name, new_name) = (old.to_owned().into(), new.to_owned().into());
    let rename = ArgOp::Rename(RenameArgs { old_name, new_name });
    [put(from), ArgOp::SaveFh, put(to), rename]
}

fn link(file: &FileHandle, dir: &FileHandle, name: &str) -> [ArgOp; 4] {
    let link = ArgOp::Link(LinkArgs { new_name: name.to_owned().into() });
    [put(file), ArgOp::SaveFh, put(dir), link]
}

fn remove(name: &str) -> ArgOp {
    ArgOp::Remove(RemoveArgs { name: name.to_owned().into() })
}

#[tokio::test]
async fn rename_replaces_only_what_it_may() {
    let (_server, mut a) = start().await;
    let root = a.root().await;
    for name in ["d", "empty", "full"] {
        a.make_directory(name).await;
    }
    let full = a.handle([ArgOp::PutRootFh, look_up("full")]).await;
    let (f, g) = (a.create("f").await, a.create("g").await);
    let inner = create(CreateObject::Other(NfsFtype::Directory), "inner");
    assert_eq!(a.status(at(&full, inner)).await, NfsStatus::Ok);
    for (old, new, expected) in [
        ("missing", "x", NfsStatus::NoEnt),
        ("", "x", NfsStatus::Inval),
        ("f", "..", NfsStatus::BadName),
        ("f", "a/b", NfsStatus::BadChar),
        ("d", "f", NfsStatus::Exist),
        ("f", "d", NfsStatus::Exist),
        ("d", "full", NfsStatus::Exist),
        ("d", "empty", NfsStatus::Ok),
        ("f", "f", NfsStatus::Ok),
        ("f", "g", NfsStatus::Ok),
    ] {
        let status = a.status(rename(&root, old, &root, new)).await;
        assert_eq!(status, expected, "{old:?} to {new:?}");
    }
    assert_eq!(a.handle([ArgOp::PutRootFh, look_up("g")]).await, f.handle);
    let into_itself = a.status(rename(&root, "full", &full, "x")).await;
    assert_eq!(into_itself, NfsStatus::Inval);
    let no_directory = a.status(rename(&root, "g", &f.handle, "x")).await;
    assert_eq!(no_directory, NfsStatus::NotDir);
    assert_eq!(a.close(&g).await, NfsStatus::Ok, "it was removed while it was open");
}

#[tokio::test]
async fn rename_reports_the_changes_of_both_directories() {
    let (_server, mut a) = start().await;
    let (root, dir) = (a.root().await, a.make_directory("d").await);
    a.create("f").await;
    let change = [attribute::CHANGE];
    let before = [a.attributes(&root, &change).await, a.attributes(&dir, &change).await];
    let renamed = last!(Rename, a.run(rename(&root, "f", &dir, "g")).await);
    let after = [a.attributes(&root, &change).await, a.attributes(&dir, &change).await];
    for (at, info) in [renamed.source, renamed.target].into_iter().enumerate() {
        let change = |known: &[Attributes; 2]| known[at].change.unwrap();
        assert_eq!((info.before, info.after), (change(&before), change(&after)));
        assert_ne!(info.before, info.after);
    }
}

#[tokio::test]
async fn links_are_for_files_only() {
    let (_server, mut a) = start().await;
    let (root, dir) = (a.root().await, a.make_directory("d").await);
    let file = a.create("f").await.handle;
    assert_eq!(a.status(link(&file, &dir, "g")).await, NfsStatus::Ok);
    let known = a.attributes(&file, &[attribute::NUMLINKS]).await;
    assert_eq!(known.numlinks, Some(2));
    assert_eq!(a.status(link(&file, &dir, "g")).await, NfsStatus::Exist);
    assert_eq!(a.status(link(&dir, &root, "x")).await, NfsStatus::IsDir);
    assert_eq!(a.status(link(&file, &file, "x")).await, NfsStatus::NotDir);
    assert_eq!(a.status(link(&file, &root, "")).await, NfsStatus::Inval);
    let without = ArgOp::Link(LinkArgs { new_name: "x".into() });
    assert_eq!(a.status([ArgOp::PutRootFh, without]).await, NfsStatus::NoFileHandle);
}

#[tokio::test]
async fn remove_takes_files_and_empty_directories() {
    let (_server, mut a) = start().await;
    let (root, dir) = (a.root().await, a.make_directory("d").await);
    let file = a.create("f").await;
    let inner = create(CreateObject::Other(NfsFtype::Directory), "inner");
    assert_eq!(a.status(at(&dir, inner)).await, NfsStatus::Ok);
    for (handle, name, expected) in [
        (&root, "missing", NfsStatus::NoEnt),
        (&root, "", NfsStatus::Inval),
        (&root, ".", NfsStatus::BadName),
        (&root, "d", NfsStatus::NotEmpty),
        (&file.handle, "x", NfsStatus::NotDir),
        (&dir, "inner", NfsStatus::Ok),
        (&root, "d", NfsStatus::Ok),
        (&root, "f", NfsStatus::Ok),
    ] {
        let status = a.status(at(handle, remove(name))).await;
        assert_eq!(status, expected, "{name:?}");
    }
    let listed = a.status(at(&dir, read_dir(0, 4096))).await;
    assert_eq!(listed, NfsStatus::Stale);
    // RFC 8881 18.25.4: it exists until its last close (OPEN4_RESULT_PRESERVE_UNLINKED).
    assert_eq!(a.status(file.op(read(file.id, 0, 1))).await, NfsStatus::Ok);
    assert_eq!(a.close(&file).await, NfsStatus::Ok);
    assert_eq!(a.status([put(&file.handle), ArgOp::LookupParent]).await, NfsStatus::Stale);
}

fn read_dir(cookie: u64, max_count: u32) -> ArgOp {
    let attributes = Bitmap::of(&[attribute::TYPE, attribute::FILEID, attribute::SIZE]);
    let (verifier, dir_count) = (Verifier([0; 8]), max_count);
    ArgOp::ReadDir(ReadDirArgs { cookie, verifier, dir_count, max_count, attributes })
}

#[tokio::test]
async fn directory_is_listed_page_by_page() {
    let (_server, mut a) = start().await;
    let mut expected: Vec<String> = (0..40).map(|number| format!("name-{number}")).collect();
    for name in &expected {
        let file = a.create(name).await;
        assert_eq!(a.close(&file).await, NfsStatus::Ok);
    }
    let (mut names, mut cookie, mut pages) = (Vec::new(), 0, 0);
    loop {
        let xdr_bytes = 400;
        let ops = [ArgOp::PutRootFh, read_dir(cookie, xdr_bytes)];
        let page = last!(ReadDir, a.run(ops).await);
        let mut encoder = braid_nfs_wire::xdr::Encoder::new();
        braid_nfs_wire::xdr::Xdr::encode(&page, &mut encoder);
        assert!(encoder.len() <= xdr_bytes as usize, "RFC 8881 18.23.3: {}", encoder.len());
        pages += 1;
        cookie = page.entries.last().expect("no page is empty").cookie;
        names.extend(page.entries.into_iter().map(|entry| {
            let known = Attributes::from_encoded(&entry.attributes).unwrap();
            assert_eq!((known.file_type, known.size), (Some(NfsFtype::Regular), Some(0)));
            String::from_utf8(entry.name.to_vec()).unwrap()
        }));
        if page.eof {
            break;
        }
    }
    assert!(pages > 3, "{pages}");
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
    let after = last!(ReadDir, a.run([ArgOp::PutRootFh, read_dir(cookie, 400)]).await);
    assert!(after.entries.is_empty() && after.eof);
}

#[tokio::test]
async fn wrong_listings_are_refused() {
    let (_server, mut a) = start().await;
    let file = a.create("name").await;
    for (cookie, max_count, expected) in [
        (0, 4, NfsStatus::TooSmall),
        (0, 40, NfsStatus::TooSmall),
        (1, 4096, NfsStatus::BadCookie),
        (2, 4096, NfsStatus::BadCookie),
        (0, 4096, NfsStatus::Ok),
    ] {
        let ops = [ArgOp::PutRootFh, read_dir(cookie, max_count)];
        assert_eq!(a.status(ops).await, expected, "{cookie} {max_count}");
    }
    assert_eq!(a.status(file.op(read_dir(0, 4096))).await, NfsStatus::NotDir);
    let mut other = read_dir(5, 4096);
    if let ArgOp::ReadDir(args) = &mut other {
        args.verifier = Verifier([1; 8]);
    }
    assert_eq!(a.status([ArgOp::PutRootFh, other]).await, NfsStatus::NotSame);
}
