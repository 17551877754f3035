//! A change of the bytes by a user without the right to keep them clears setuid and setgid,
//! whichever mount has set them.

use crate::support::{Cluster, create, write};
use braid_client::AttributeChanges;
use braid_vfs::{Access, Allocation, FileHandle, FileIndex, Vfs, WriteAs, XattrMode};

const BY_ANOTHER: WriteAs = WriteAs {
    append: false,
    durable: false,
    kill_privileges: true,
    page: false,
    direct: false,
    owner: None,
};

fn chmod(vfs: &Vfs, file: FileIndex, mode: u32) {
    let changes = AttributeChanges { mode: Some(mode), ..AttributeChanges::none() };
    assert_eq!(vfs.set_attributes(file, None, changes, false).unwrap().attributes.mode, mode);
}

fn mode(vfs: &Vfs, file: FileIndex) -> u32 {
    vfs.attributes(file, None).unwrap().attributes.mode
}

fn write_by_another(vfs: &Vfs, handle: FileHandle) {
    assert_eq!(vfs.write(handle, 0, b"x", BY_ANOTHER).unwrap(), 1);
}

/// Two mounts; the first has created a file, and both have it open.
fn scene(cluster: &Cluster) -> ([Vfs; 2], FileIndex, [FileHandle; 2]) {
    let mounts = [cluster.serving_mount(), cluster.serving_mount()];
    let (file, mine) = create(&mounts[0], b"f");
    let theirs = mounts[1].open(file, Access::READ_WRITE).unwrap().handle;
    (mounts, file, [mine, theirs])
}

#[test]
fn a_mode_that_another_mount_set_meanwhile_stays_as_it_is() {
    let cluster = Cluster::start(1);
    let ([one, two], file, [mine, _]) = scene(&cluster);
    chmod(&one, file, 0o4755);
    write(&one, mine, 0, b"by root");
    chmod(&two, file, 0o600);
    write_by_another(&one, mine);
    assert_eq!([mode(&one, file), mode(&two, file)], [0o600; 2]);
    chmod(&two, file, 0o6711);
    write_by_another(&one, mine);
    assert_eq!([mode(&one, file), mode(&two, file)], [0o711; 2]);
}

#[test]
fn set_id_bits_of_any_mount_are_cleared_by_the_next_write() {
    let cluster = Cluster::start(1);
    let ([one, two], file, [mine, theirs]) = scene(&cluster);
    for round in 0..4 {
        for giver in [&one, &two] {
            write_by_another(&one, mine);
            let append = WriteAs { append: true, ..BY_ANOTHER };
            for (writer, handle) in [(&one, mine), (&two, theirs)] {
                chmod(giver, file, 0o4755);
                assert_eq!(mode(&two, file), 0o4755, "earlier writes do not clear them");
                writer
                    .write(handle, 0, b"y", if round % 2 == 0 { append } else { BY_ANOTHER })
                    .unwrap();
                assert_eq!([mode(&one, file), mode(&two, file)], [0o755; 2]);
            }
            chmod(giver, file, 0o2755);
            write(&one, mine, 0, b"by root");
            assert_eq!(mode(&one, file), 0o2755, "root keeps them");
            write_by_another(&one, mine);
            assert_eq!([mode(&one, file), mode(&two, file)], [0o755; 2]);
        }
    }
}

#[test]
fn setgid_is_cleared_where_an_acl_lets_the_group_execute() {
    const LIST: &[u8] = b"system.posix_acl_access";
    let cluster = Cluster::start(1);
    let ([one, two], file, [mine, _]) = scene(&cluster);
    // Version 2, then tag, bits and id: the owner rw, the group r-x, others none.
    let entry = |tag: u16, bits: u16| {
        [tag.to_le_bytes().to_vec(), bits.to_le_bytes().to_vec(), vec![0xff; 4]].concat()
    };
    let list = [2_u32.to_le_bytes().to_vec(), entry(1, 6), entry(4, 5), entry(0x20, 0)].concat();
    for giver in [&one, &two] {
        chmod(giver, file, 0o2640);
        write_by_another(&one, mine);
        assert_eq!(mode(&one, file), 0o2640, "it marks mandatory locking");
        giver.set_xattr(file, LIST, &list, XattrMode::Either).unwrap();
        assert_eq!(mode(&one, file), 0o2650);
        write_by_another(&one, mine);
        assert_eq!([mode(&one, file), mode(&two, file)], [0o650; 2]);
    }
}

#[test]
fn copies_and_fallocate_clear_set_id_bits_too() {
    let cluster = Cluster::start(2);
    let ([one, two], file, [mine, _]) = scene(&cluster);
    let (_, source) = create(&one, b"source");
    write(&one, source, 0, &[7; 100]);
    let ways: [&dyn Fn(bool); 4] = [
        &|kills| assert_eq!(one.copy_range((source, 0), (mine, 0), 100, kills).unwrap(), 100),
        &|kills| {
            one.allocate(mine, 0, 4096, Allocation::Reserve { keep_size: true }, kills).unwrap()
        },
        &|kills| one.allocate(mine, 10, 10, Allocation::Punch, kills).unwrap(),
        &|kills| one.allocate(mine, 20, 10, Allocation::Zero { keep_size: true }, kills).unwrap(),
    ];
    for change in ways {
        for giver in [&one, &two] {
            chmod(giver, file, 0o6755);
            change(false);
            assert_eq!(mode(&two, file), 0o6755);
            change(true);
            assert_eq!([mode(&one, file), mode(&two, file)], [0o755; 2]);
        }
    }
}

#[test]
fn writes_of_unprivileged_users_ask_the_metadata_server_nothing() {
    const WRITES: u64 = 2_000;
    let cluster = Cluster::start(1);
    let vfs = cluster.serving_mount();
    // It may take a while until the server knows that the mount carries out recalls. Until then a
    // file comes without a lease, and the mount asks for one.
    let (_, handle) = create(&vfs, b"f");
    let before = cluster.calls();
    (0..WRITES).for_each(|at| _ = vfs.write(handle, at, b"x", BY_ANOTHER).unwrap());
    // Other calls: the daemon's heartbeats, and renewals.
    let calls = cluster.calls() - before;
    assert!(calls < WRITES / 2, "{calls} calls of the metadata server for {WRITES} writes");
    vfs.release(handle, None).unwrap();
}
