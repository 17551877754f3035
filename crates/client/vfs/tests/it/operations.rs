//! Every operation once, as a program sees it.

use crate::support::{self, Cluster, ROOT, USER, create, found, new_file, read, size, write};
use braid_client::{AttributeChanges, SetTime};
use braid_types::ByteCount;
use braid_vfs::{
    Access, Allocation, Error, FileHandle, FileIndex, FileKind, LAYOUT_XATTR, NewFile, OpenAs,
    RenameMode, Status, Timestamp, User, Vfs, WriteAs, XattrMode,
};

fn refused<T: std::fmt::Debug>(result: braid_vfs::Result<T>) -> Option<Status> {
    result.unwrap_err().status()
}

#[test]
fn a_file_belongs_to_its_creator_and_has_what_is_written() {
    let cluster = Cluster::start(2);
    let vfs = cluster.mount();
    let (file, handle) = create(&vfs, b"f");
    let known = found(&vfs, b"f").unwrap().attributes;
    assert_eq!((known.file, known.uid, known.gid, known.mode), (file, 1000, 100, 0o644));
    write(&vfs, handle, 5, b"world");
    write(&vfs, handle, 0, b"hello");
    assert_eq!(read(&vfs, handle, 0, 100), b"helloworld");
    assert_eq!(read(&vfs, handle, 10, 100), b"");
    assert_eq!(size(&vfs, file), 10);
    vfs.sync(handle).unwrap();
    vfs.flush(handle, None).unwrap();
    vfs.release(handle, None).unwrap();
    assert!(matches!(vfs.release(handle, None), Err(Error::BadHandle)));
    assert!(matches!(vfs.read(handle, 0, &mut [0]), Err(Error::BadHandle)));
}

#[test]
fn a_handle_allows_only_the_access_it_was_opened_with() {
    let cluster = Cluster::start(1);
    let vfs = cluster.mount();
    let (file, handle) = create(&vfs, b"f");
    write(&vfs, handle, 0, b"abc");
    let reader = vfs.open(file, Access::READ).unwrap().handle;
    let writer = vfs.open(file, Access::WRITE).unwrap().handle;
    assert!(matches!(vfs.write(reader, 0, b"x", WriteAs::default()), Err(Error::BadHandle)));
    assert!(matches!(vfs.read(writer, 0, &mut [0]), Err(Error::BadHandle)));
    assert!(matches!(vfs.allocate(reader, 0, 1, Allocation::Punch, false), Err(Error::BadHandle)));
    assert_eq!(vfs.next_hole(writer, 0).unwrap(), 3, "holes are sought through any handle");
    assert_eq!(read(&vfs, reader, 0, 9), b"abc");
    let emptied = vfs.open(file, OpenAs { truncate: true, ..Access::READ.into() }).unwrap();
    assert_eq!(
        emptied.known.attributes.bytes,
        ByteCount(0),
        "O_RDONLY | O_TRUNC truncates, as on Linux"
    );
}

#[test]
fn an_unlinked_file_lives_until_its_last_handle_is_closed() {
    let cluster = Cluster::start(2);
    let (vfs, other) = (cluster.mount(), cluster.mount());
    let (file, handle) = create(&vfs, b"f");
    write(&vfs, handle, 0, b"before");
    other.unlink(ROOT, b"f").unwrap();
    assert!(found(&vfs, b"f").is_none());
    write(&vfs, handle, 6, b" and after");
    assert_eq!(read(&vfs, handle, 0, 99), b"before and after");
    let known = vfs.attributes(file, Some(handle)).unwrap().attributes;
    assert_eq!((known.links, known.bytes), (0, ByteCount(16)));
    let changes = AttributeChanges { bytes: Some(ByteCount(3)), ..AttributeChanges::none() };
    assert_eq!(
        vfs.set_attributes(file, Some(handle), changes, false).unwrap().attributes.bytes,
        ByteCount(3)
    );
    assert_eq!(read(&vfs, handle, 0, 99), b"bef");
    vfs.sync(handle).unwrap();
    vfs.release(handle, None).unwrap();
}

/// A file with cached attributes, open for reading.
fn known(vfs: &Vfs, name: &[u8]) -> (FileIndex, FileHandle) {
    let (file, handle) = create(vfs, name);
    vfs.release(handle, None).unwrap();
    support::wait_for(|| {
        vfs.reply_cacheable(&found(vfs, name).unwrap().leases, |cacheable| cacheable.attributes)
    });
    (file, vfs.open(file, Access::READ).unwrap().handle)
}

#[test]
fn an_open_file_that_is_replaced_has_one_link_less() {
    let cluster = Cluster::start(1);
    let vfs = cluster.serving_mount();
    let (file, handle) = known(&vfs, b"g");
    create(&vfs, b"new");
    vfs.rename((ROOT, b"new"), (ROOT, b"g"), RenameMode::Replace).unwrap();
    let replaced = vfs.attributes(file, Some(handle)).unwrap();
    assert_eq!(replaced.attributes.links, 0);
    assert!(!vfs.reply_cacheable(&replaced.leases, |cacheable| cacheable.attributes));
}

#[test]
fn a_file_with_two_names_keeps_one_when_the_other_is_replaced() {
    let cluster = Cluster::start(1);
    let vfs = cluster.serving_mount();
    let elsewhere = vfs.make_directory(USER, ROOT, b"d", 0o755, 0).unwrap().attributes.file;
    let (file, _) = known(&vfs, b"g");
    vfs.link(file, elsewhere, b"h").unwrap();
    assert_eq!(vfs.attributes(file, None).unwrap().attributes.links, 2);
    create(&vfs, b"new");
    vfs.rename((ROOT, b"new"), (elsewhere, b"h"), RenameMode::Replace).unwrap();
    assert_eq!(vfs.attributes(file, None).unwrap().attributes.links, 1);
    create(&vfs, b"newer");
    vfs.rename((ROOT, b"newer"), (ROOT, b"g"), RenameMode::Replace).unwrap();
    assert_eq!(vfs.attributes(file, None).unwrap().attributes.links, 0);
}

#[test]
fn create_is_exclusive_or_opens_the_existing_file() {
    let cluster = Cluster::start(1);
    let vfs = cluster.mount();
    let (file, handle) = create(&vfs, b"f");
    write(&vfs, handle, 0, b"abc");
    assert_eq!(refused(vfs.create(USER, ROOT, b"f", &new_file(0o600))), Some(Status::Exists));
    let again = NewFile { exclusive: false, ..new_file(0o600) };
    let (opened, made) = vfs.create(USER, ROOT, b"f", &again).unwrap();
    assert_eq!((opened.known.attributes.file, made), (file, false));
    assert_eq!(read(&vfs, opened.handle, 0, 9), b"abc");
    let (opened, _) = vfs.create(USER, ROOT, b"f", &NewFile { truncate: true, ..again }).unwrap();
    assert_eq!(opened.known.attributes.bytes, ByteCount(0));
}

#[test]
fn create_opens_no_file_that_was_not_checked() {
    let cluster = Cluster::start(1);
    let vfs = cluster.mount();
    let secret = NewFile { exclusive: false, ..new_file(0o600) };
    vfs.create(User::ROOT, ROOT, b"secret", &secret).unwrap();
    vfs.make_symlink(USER, ROOT, b"link", b"secret").unwrap();
    assert!(
        matches!(vfs.create(USER, ROOT, b"secret", &secret), Err(Error::NameChanged)),
        "another's file"
    );
    assert!(
        matches!(vfs.create(USER, ROOT, b"link", &secret), Err(Error::NameChanged)),
        "a symbolic link"
    );
    assert!(vfs.create(User::ROOT, ROOT, b"secret", &secret).is_ok());
}

#[test]
fn names_are_made_moved_and_removed() {
    let cluster = Cluster::start(1);
    let vfs = cluster.mount();
    let dir = vfs.make_directory(USER, ROOT, b"d", 0o777, 0o022).unwrap().attributes;
    assert_eq!((dir.kind, dir.mode, dir.uid), (FileKind::Directory, 0o755, 1000));
    let (file, _) = create(&vfs, b"f");
    assert_eq!(vfs.link(file, dir.file, b"g").unwrap().attributes.links, 2);
    assert_eq!(
        refused(vfs.rename((ROOT, b"f"), (dir.file, b"g"), RenameMode::NoReplace)),
        Some(Status::Exists)
    );
    let fifo = vfs.make_node(USER, ROOT, b"p", FileKind::Fifo, 0o666, 0, 0).unwrap().attributes;
    vfs.rename((ROOT, b"p"), (dir.file, b"g"), RenameMode::Exchange).unwrap();
    assert_eq!(found(&vfs, b"p").unwrap().attributes.file, file);
    vfs.rename((ROOT, b"f"), (ROOT, b"h"), RenameMode::Replace).unwrap();
    let link = vfs.make_symlink(USER, ROOT, b"l", b"d/g").unwrap().attributes;
    assert_eq!(vfs.read_link(link.file).unwrap(), b"d/g");
    assert_eq!(refused(vfs.remove_directory(ROOT, b"d")), Some(Status::NotEmpty));
    vfs.unlink(dir.file, b"g").unwrap();
    vfs.remove_directory(ROOT, b"d").unwrap();
    assert!(vfs.attributes(fifo.file, None).is_err());
    assert_eq!(refused(vfs.look_up(ROOT, &[b'n'; 256])), Some(Status::NameTooLong));
    let regular = vfs.make_node(USER, ROOT, b"r", FileKind::File, 0o640, 0, 0).unwrap().attributes;
    assert_eq!((regular.kind, regular.mode), (FileKind::File, 0o640));
}

/// More users than a server remembers of a connection.
#[test]
fn any_number_of_users_create_files_of_their_own() {
    const USERS: u64 = 4_200;
    let cluster = Cluster::start(1);
    let vfs = cluster.mount();
    let make = |uid: u64, name: String| {
        let user = User { uid, gid: uid + 1 };
        let made = vfs
            .make_node(user, ROOT, name.as_bytes(), FileKind::Fifo, 0o600, 0, 0)
            .unwrap()
            .attributes;
        assert_eq!((made.uid, made.gid), (uid, uid + 1));
    };
    (1..=USERS).for_each(|uid| make(uid, format!("of {uid}")));
    (1..=100).for_each(|uid| make(uid, format!("again of {uid}")));
}

#[test]
fn attributes_change_to_the_nanosecond_and_set_id_bits_are_cleared() {
    let cluster = Cluster::start(1);
    let vfs = cluster.mount();
    let (file, handle) = create(&vfs, b"f");
    let time = Timestamp { seconds: -5, nanos: 123_456_789 };
    let mode = |mode| AttributeChanges { mode: Some(mode), ..AttributeChanges::none() };
    let changes = AttributeChanges {
        atime: Some(SetTime { time: Some(time) }),
        uid: Some(7),
        ..mode(0o6755)
    };
    let known = vfs.set_attributes(file, None, changes, false).unwrap().attributes;
    assert_eq!((known.atime, known.uid, known.mode), (time, 7, 0o6755));
    vfs.write(handle, 0, b"x", WriteAs { kill_privileges: true, ..WriteAs::default() }).unwrap();
    assert_eq!(vfs.attributes(file, None).unwrap().attributes.mode, 0o755);
    vfs.set_attributes(file, None, mode(0o4755), false).unwrap();
    let cut = AttributeChanges { bytes: Some(ByteCount(0)), ..AttributeChanges::none() };
    assert_eq!(vfs.set_attributes(file, Some(handle), cut, true).unwrap().attributes.mode, 0o755);
}

#[test]
fn only_root_gives_a_file_to_a_user_whose_quota_is_used_up() {
    let cluster = Cluster::start(1);
    let vfs = cluster.mount();
    let [(one, _), (other, _)] = [b"f", b"g"].map(|name| create(&vfs, name));
    cluster.limit_group(200, 1);
    let to_the_group = AttributeChanges { gid: Some(200), ..AttributeChanges::none() };
    let give = |user, file| vfs.set_attributes_for(user, file, None, to_the_group.clone(), false);
    assert_eq!(give(USER, one).unwrap().attributes.gid, 200);
    assert_eq!(refused(give(USER, other)), Some(Status::QuotaExceeded));
    assert_eq!(give(User::ROOT, other).unwrap().attributes.gid, 200);
}

#[test]
fn a_listing_continues_at_its_cookie_and_restarts_at_zero() {
    let cluster = Cluster::start(1);
    let vfs = cluster.mount();
    let dir = vfs.make_directory(USER, ROOT, b"d", 0o777, 0).unwrap().attributes.file;
    for number in 0..100 {
        vfs.make_node(USER, dir, format!("{number}").as_bytes(), FileKind::Fifo, 0o600, 0, 0)
            .unwrap();
    }
    let handle = vfs.open_directory(dir).unwrap();
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let batch = vfs.read_directory(handle, cookie, 7, true).unwrap();
        assert!(batch.entries.iter().all(|entry| entry.cookie > 2 && entry.attributes.is_some()));
        cookie = batch.entries.last().map_or(cookie, |entry| entry.cookie);
        names.extend(batch.entries.into_iter().map(|entry| entry.name));
        if batch.end {
            break;
        }
        // Listed names may be removed; names that were not listed must appear.
        vfs.unlink(dir, &names[names.len() - 1]).unwrap();
    }
    assert_eq!(names.len(), 100);
    assert!(vfs.read_directory(handle, 0, 1000, false).unwrap().entries.len() < 100);
    assert_eq!(vfs.parent(dir).unwrap(), ROOT);
    vfs.sync_directory(handle).unwrap();
    vfs.release_directory(handle).unwrap();
}

/// Names that are moved while they are listed get higher cookies than all others.
#[test]
fn a_listing_ends_at_the_end_its_directory_had_at_its_start() {
    const NAMES: usize = 50;
    let cluster = Cluster::start(1);
    let (serving, plain) = (cluster.serving_mount(), cluster.mount());
    let dir = plain.make_directory(USER, ROOT, b"d", 0o777, 0).unwrap().attributes.file;
    for number in 0..NAMES {
        plain
            .make_node(USER, dir, format!("{number}").as_bytes(), FileKind::Fifo, 0o600, 0, 0)
            .unwrap();
    }
    let mut moves = 0;
    let mut moved = |vfs: &Vfs, name: &[u8]| {
        moves += 1;
        vfs.rename((dir, name), (dir, format!("m{moves}").as_bytes()), RenameMode::Replace)
            .unwrap();
    };
    for vfs in [&serving, &plain] {
        for mover in [vfs, &plain] {
            let handle = vfs.open_directory(dir).unwrap();
            let (mut names, mut cookie) = (std::collections::BTreeSet::new(), 0);
            loop {
                let batch = vfs.read_directory(handle, cookie, 3, false).unwrap();
                cookie = batch.entries.last().map_or(cookie, |entry| entry.cookie);
                for entry in batch.entries {
                    moved(mover, &entry.name);
                    assert!(names.insert(entry.name), "once");
                }
                if batch.end {
                    break;
                }
                assert!(names.len() <= NAMES, "the listing follows moved names");
            }
            assert_eq!(names.len(), NAMES);
            let after = vfs.read_directory(handle, cookie, 3, false).unwrap();
            assert!(after.entries.is_empty() && after.end, "the listing stays at its end");
            assert_eq!(
                vfs.read_directory(handle, 0, 3, false).unwrap().entries.len(),
                3,
                "until it begins again"
            );
            vfs.release_directory(handle).unwrap();
        }
    }
    // The listing of the client library, of more than one reply.
    let client = cluster.client();
    for number in 0..2_000 {
        client
            .touch((dir, format!("{number:0>200}").as_bytes()), 0o600, true, Default::default())
            .unwrap();
    }
    let mut found = 0;
    for entry in client.read_dir(dir, false).unwrap() {
        moved(&plain, &entry.unwrap().name);
        found += 1;
    }
    assert_eq!(found, NAMES + 2_000);
}

#[test]
fn xattrs_are_stored_and_the_layout_is_one_of_them() {
    let cluster = Cluster::start(2);
    let vfs = cluster.mount();
    let (file, handle) = create(&vfs, b"f");
    vfs.set_xattr(file, b"user.a", b"1", XattrMode::Either).unwrap();
    assert_eq!(vfs.xattr(file, b"user.a").unwrap(), b"1");
    assert_eq!(vfs.xattrs(file).unwrap(), [b"user.a"]);
    vfs.remove_xattr(file, b"user.a").unwrap();
    assert_eq!(refused(vfs.xattr(file, b"user.a")), Some(Status::NoAttribute));

    vfs.release(handle, None).unwrap();
    let wish = b"stripe-size=65536 iod-count=2";
    vfs.set_xattr(file, LAYOUT_XATTR, wish, XattrMode::Either).unwrap();
    let shown = String::from_utf8(vfs.xattr(file, LAYOUT_XATTR).unwrap()).unwrap();
    assert!(
        shown.starts_with("distribution=simple-stripe stripe-size=65536 iod-count=2 first-part="),
        "{shown}"
    );
    let handle = vfs.open(file, Access::READ_WRITE).unwrap().handle;
    write(&vfs, handle, 0, b"x");
    vfs.sync(handle).unwrap();
    vfs.release(handle, None).unwrap();
    assert!(
        vfs.set_xattr(file, LAYOUT_XATTR, b"iod-count=1", XattrMode::Either).is_err(),
        "it has bytes already"
    );
    assert_eq!(vfs.xattr(ROOT, LAYOUT_XATTR).unwrap(), b"default");
    vfs.set_xattr(ROOT, LAYOUT_XATTR, wish, XattrMode::Either).unwrap();
    assert_eq!(vfs.xattr(ROOT, LAYOUT_XATTR).unwrap(), wish);
    vfs.remove_xattr(ROOT, LAYOUT_XATTR).unwrap();
    assert_eq!(vfs.xattr(ROOT, LAYOUT_XATTR).unwrap(), b"default");
    assert_eq!(
        refused(vfs.set_xattr(ROOT, LAYOUT_XATTR, b"iods=1", XattrMode::Either)),
        Some(Status::Invalid)
    );
}

#[test]
fn ranges_are_reserved_punched_zeroed_searched_and_copied() {
    let cluster = Cluster::start(2);
    let vfs = cluster.mount();
    let (file, handle) = create(&vfs, b"f");
    let block = vec![7; 1 << 16];
    write(&vfs, handle, 0, &block);
    write(&vfs, handle, 1 << 20, &block);
    assert_eq!(vfs.next_hole(handle, 0).unwrap(), 1 << 16);
    assert_eq!(vfs.next_data(handle, 1 << 16).unwrap(), 1 << 20);
    assert!(matches!(vfs.next_data(handle, 2 << 20), Err(Error::PastEnd)));
    assert!(matches!(vfs.next_hole(handle, 2 << 20), Err(Error::PastEnd)));
    vfs.allocate(handle, 0, 4 << 20, Allocation::Reserve { keep_size: true }, false).unwrap();
    assert_eq!(size(&vfs, file), (1 << 20) + (1 << 16));
    vfs.allocate(handle, 0, 2 << 20, Allocation::Reserve { keep_size: false }, false).unwrap();
    assert_eq!(size(&vfs, file), 2 << 20);
    vfs.allocate(handle, 10, 10, Allocation::Punch, false).unwrap();
    vfs.allocate(handle, 30, 10, Allocation::Zero { keep_size: true }, false).unwrap();
    let wanted = [vec![7; 10], vec![0; 10], vec![7; 10], vec![0; 10], vec![7; 10]].concat();
    assert_eq!(read(&vfs, handle, 0, 50), wanted);
    let (_, copy) = create(&vfs, b"copy");
    assert_eq!(vfs.copy_range((handle, 5), (copy, 0), 45, false).unwrap(), 45);
    assert_eq!(read(&vfs, copy, 0, 99), wanted[5..]);
    assert_eq!(
        vfs.copy_range((copy, 40), (copy, 100), 1000, false).unwrap(),
        5,
        "to the end of the source"
    );
    assert!(vfs.free_space(FileIndex::ROOT).unwrap().total_bytes > 0);
}

#[test]
fn what_is_gone_is_named_so() {
    let cluster = Cluster::start(1);
    let vfs = cluster.mount();
    let nowhere = FileIndex(0x77);
    assert!(matches!(
        refused(vfs.attributes(nowhere, None)),
        Some(Status::StaleHandle | Status::NotFound)
    ));
    assert!(matches!(
        refused(vfs.open(nowhere, Access::READ)),
        Some(Status::StaleHandle | Status::NotFound)
    ));
    assert_eq!(refused(vfs.unlink(ROOT, b"nothing")), Some(Status::NotFound));
    assert_eq!(refused(vfs.open(ROOT, Access::READ)), Some(Status::IsDirectory));
}

#[test]
fn past_the_longest_file_of_the_disks_is_efbig_and_the_file_stays_usable() {
    for iods in [1, 3] {
        let mut cluster = Cluster::start(iods);
        let vfs = cluster.mount();
        let (file, handle) = create(&vfs, b"f");
        write(&vfs, handle, 0, b"hello");
        vfs.sync(handle).unwrap();
        let resize = |vfs: &Vfs, bytes| {
            let changes =
                AttributeChanges { bytes: Some(ByteCount(bytes)), ..AttributeChanges::none() };
            vfs.set_attributes(file, None, changes, false)
        };
        // At most 16 TiB on each of three disks, if they are ext4.
        let past = 70 << 40;
        if resize(&vfs, past).is_ok() {
            return println!("skipped: the file system under the test has files of 70 TiB");
        }
        let reserve = Allocation::Reserve { keep_size: false };
        let direct = WriteAs { direct: true, ..WriteAs::default() };
        for _ in 0..2 {
            assert_eq!(refused(resize(&vfs, past)), Some(Status::TooLarge));
            assert_eq!(
                refused(vfs.allocate(handle, past, 1 << 20, reserve, false)),
                Some(Status::TooLarge)
            );
            assert_eq!(
                refused(vfs.write(handle, past, b"x", WriteAs::default())),
                Some(Status::TooLarge)
            );
            assert_eq!(refused(vfs.write(handle, past, b"x", direct)), Some(Status::TooLarge));
            vfs.allocate(handle, past, 1 << 20, Allocation::Punch, false)
                .expect("nothing is there to punch");
            assert_eq!((size(&vfs, file), read(&vfs, handle, 0, 9)), (5, b"hello".to_vec()));
        }
        vfs.sync(handle).unwrap();
        vfs.release(handle, None).unwrap();
        drop(vfs);
        cluster.stop_mds();
        cluster.start_mds();
        let other = cluster.mount();
        assert_eq!(size(&other, file), 5);
        let handle = other.open(file, Access::READ_WRITE).unwrap().handle;
        write(&other, handle, 5, b" world");
        assert_eq!(read(&other, handle, 0, 99), b"hello world");
        other.release(handle, None).unwrap();
        other.unlink(ROOT, b"f").unwrap();
    }
}
