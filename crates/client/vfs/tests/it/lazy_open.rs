//! Lazy opens: no server is asked, and the files keep their content.

use crate::support::{self, Cluster, ROOT, USER, create, read};
use braid_vfs::{
    Access, AttributeChanges, FileHandle, FileIndex, LookupResult, OpenAs, Opened, Page, Status,
    Vfs, WriteAs, XattrMode,
};

/// A file that its writer has closed, looked up by its reader.
fn known(creator: &Vfs, reader: &Vfs, name: &[u8]) -> FileIndex {
    let (file, handle) = create(creator, name);
    creator.write(handle, 0, b"what it was", WriteAs::default()).unwrap();
    creator.release(handle, None).unwrap();
    // Once the close has arrived and the size is recorded, its attributes are cached.
    support::wait_for(|| {
        let opened = open(reader, file);
        reader.release(opened.handle, None).unwrap();
        let LookupResult::Found(found) = reader.look_up(ROOT, name).unwrap() else {
            panic!("it is there")
        };
        opened.may_cache_pages
            && reader.reply_cacheable(&found.leases, |cacheable| cacheable.attributes)
    });
    file
}

fn open(vfs: &Vfs, file: FileIndex) -> Opened {
    vfs.open(file, OpenAs::from(Access::READ)).unwrap()
}

fn page(vfs: &Vfs, handle: FileHandle) -> Vec<u8> {
    let give = |page: Page<'_>| match page {
        Page::Bytes(bytes) => bytes.to_vec(),
        Page::Piped(_) => panic!("no pipe was given"),
    };
    vfs.read_page(handle, 0, &mut [0; 64], None, give).unwrap()
}

#[test]
fn a_file_with_cached_attributes_is_opened_and_closed_without_a_call() {
    let cluster = Cluster::start(1);
    let (one, two) = (cluster.serving_mount(), cluster.serving_mount());
    let file = known(&one, &two, b"f");
    let before = cluster.calls();
    for _ in 0..2000 {
        let opened = open(&two, file);
        assert!(opened.may_cache_pages);
        two.release(opened.handle, None).unwrap();
    }
    // Other calls: heartbeats and renewals.
    assert!(cluster.calls() - before < 100, "{} calls", cluster.calls() - before);
    let opened = open(&two, file);
    assert_eq!(page(&two, opened.handle), b"what it was");
}

#[test]
fn an_open_file_removed_by_another_mount_keeps_its_content() {
    let cluster = Cluster::start(1);
    let (one, two) = (cluster.serving_mount(), cluster.serving_mount());
    let file = known(&one, &two, b"f");
    let opened = open(&two, file);
    one.unlink(ROOT, b"f").unwrap();
    assert_eq!(page(&two, opened.handle), b"what it was");
    assert_eq!(read(&two, opened.handle, 0, 64), b"what it was");
}

#[test]
fn a_lazily_open_file_removed_or_replaced_here_keeps_its_content() {
    let cluster = Cluster::start(1);
    let (one, two) = (cluster.serving_mount(), cluster.serving_mount());
    let (removed, replaced) = (known(&one, &two, b"f"), known(&one, &two, b"g"));
    create(&two, b"new");
    let opened = [removed, replaced].map(|file| open(&two, file));
    two.unlink(ROOT, b"f").unwrap();
    two.rename((ROOT, b"new"), (ROOT, b"g"), braid_vfs::RenameMode::Replace).unwrap();
    for one in opened {
        assert_eq!(page(&two, one.handle), b"what it was");
    }
}

#[test]
fn a_lazily_open_file_stays_readable_after_its_rights_change() {
    const OWNER_MAY_NOT: &[u8] = &[
        2, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255, 4, 0, 0, 0, 255, 255, 255, 255, 32, 0, 0, 0,
        255, 255, 255, 255,
    ];
    let cluster = Cluster::start(1);
    let (one, two) =
        (cluster.serving_mount(), cluster.serving_mount_of(cluster.config_of_a_user(USER)));
    let (by_mode, by_list) = (known(&one, &two, b"f"), known(&one, &two, b"g"));
    let opened = [by_mode, by_list].map(|file| open(&two, file));
    let none = AttributeChanges { mode: Some(0), ..AttributeChanges::none() };
    two.set_attributes(by_mode, Some(opened[0].handle), none, false).unwrap();
    two.set_xattr(by_list, b"system.posix_acl_access", OWNER_MAY_NOT, XattrMode::Either).unwrap();
    for (file, opened) in [by_mode, by_list].into_iter().zip(&opened) {
        assert_eq!(
            two.open(file, Access::READ_WRITE).unwrap_err().status(),
            Some(Status::PermissionDenied)
        );
        assert_eq!(page(&two, opened.handle), b"what it was");
    }
}

#[test]
fn a_file_that_is_not_cached_costs_one_call_of_the_metadata_server() {
    const FILES: u64 = 300;
    let cluster = Cluster::start(1);
    let (one, two) = (cluster.serving_mount(), cluster.serving_mount());
    let files: Vec<FileIndex> = (0..FILES)
        .map(|number| {
            let (file, handle) = create(&one, format!("f{number}").as_bytes());
            one.write(handle, 0, b"what it was", WriteAs::default()).unwrap();
            one.release(handle, None).unwrap();
            file
        })
        .collect();
    // The writer would return its leases with its closes, a moment later.
    one.flush_all();
    drop(one);
    let before = cluster.calls();
    for file in files {
        let opened = open(&two, file);
        assert_eq!(read(&two, opened.handle, 0, 64), b"what it was");
        two.release(opened.handle, None).unwrap();
    }
    // One call to open; the read goes to the daemon. Several closes share a call.
    let calls = cluster.calls() - before;
    assert!(calls < FILES + FILES / 3, "{calls} calls for {FILES} files");
}

#[test]
fn a_page_past_the_end_of_a_cached_file_is_read_from_one_daemon() {
    const PAGES: u64 = 300;
    let cluster = Cluster::start(4);
    let (one, two) = (cluster.serving_mount(), cluster.serving_mount());
    let opened = open(&two, known(&one, &two, b"f"));
    let (_, before) = cluster.written();
    for _ in 0..PAGES {
        assert_eq!(page(&two, opened.handle), b"what it was");
    }
    // Where the end is not known, all four daemons are asked for their objects.
    let calls = cluster.written().1 - before;
    assert!(calls < PAGES + PAGES / 3, "{calls} calls for {PAGES} pages");
}

#[test]
fn a_page_ends_where_this_mount_or_another_has_written_to() {
    let cluster = Cluster::start(4);
    let (one, two) = (cluster.serving_mount(), cluster.serving_mount());
    let file = known(&one, &two, b"f");
    let opened = open(&two, file);
    let mut text = b"what it was".to_vec();
    for writer in [&two, &one, &two, &one] {
        assert_eq!(page(&two, opened.handle), text);
        let longer = writer.open(file, OpenAs::from(Access::WRITE)).unwrap();
        writer.write(longer.handle, text.len() as u64, b" and is", WriteAs::default()).unwrap();
        text.extend(b" and is");
        assert_eq!(page(&two, opened.handle), text, "buffered, or just written");
        writer.release(longer.handle, None).unwrap();
        assert_eq!(page(&two, opened.handle), text);
        // Cached again, with the current attributes.
        support::wait_for(|| {
            let LookupResult::Found(found) = two.look_up(ROOT, b"f").unwrap() else {
                panic!("it is there")
            };
            two.reply_cacheable(&found.leases, |cacheable| cacheable.attributes)
        });
    }
}
