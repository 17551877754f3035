//! Access control lists on a mount.

use crate::support::{Cluster, ROOT, USER, new_file};
use braid_vfs::{FileKind, NFS4_LIST, Status, User, XattrMode};

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// A list of entries (tag, bits, id). Tags: 1 the owner, 2 a user, 4 the group, 16 the mask, 32
/// others.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0];
    for (tag, bits, id) in entries {
        out.extend([tag.to_le_bytes(), bits.to_le_bytes()].concat());
        out.extend(id.to_le_bytes());
    }
    out
}

const NOBODY: u32 = u32::MAX;

#[test]
fn a_default_list_replaces_the_umask_for_new_files() {
    let cluster = Cluster::start(1);
    let vfs = cluster.mount();
    let dir = vfs.make_directory(USER, ROOT, b"d", 0o777, 0o027).unwrap().attributes;
    assert_eq!(dir.mode, 0o750, "without a list the umask counts");
    let entries = [(1, 7, NOBODY), (2, 6, 4000), (4, 5, NOBODY), (16, 7, NOBODY), (32, 4, NOBODY)];
    vfs.set_xattr(dir.file, DEFAULT, &list(&entries), XattrMode::Either).unwrap();
    let strict = braid_vfs::NewFile { umask: 0o077, ..new_file(0o666) };
    let (made, _) = vfs.create(USER, dir.file, b"f", &strict).unwrap();
    let file = made.known.attributes;
    assert_eq!(file.mode, 0o664);
    let shown = [(1, 6, NOBODY), (2, 6, 4000), (4, 5, NOBODY), (16, 6, NOBODY), (32, 4, NOBODY)];
    assert_eq!(vfs.xattr(file.file, ACCESS).unwrap(), list(&shown));
    assert_eq!(vfs.xattrs(file.file).unwrap(), [ACCESS]);
    let pipe =
        vfs.make_node(USER, dir.file, b"p", FileKind::Fifo, 0o600, 0o077, 0).unwrap().attributes;
    let sub = vfs.make_directory(USER, dir.file, b"s", 0o777, 0o077).unwrap().attributes;
    assert_eq!((pipe.mode, sub.mode), (0o600, 0o774));
    assert_eq!(vfs.xattr(sub.file, DEFAULT).unwrap(), list(&entries));
}

#[test]
fn an_nfsv4_list_changes_the_mode_and_only_its_owner_sets_it() {
    let cluster = Cluster::start(1);
    let vfs = cluster.mount();
    let (made, _) = vfs.create(USER, ROOT, b"f", &new_file(0o600)).unwrap();
    let file = made.known.attributes.file;
    // A::OWNER@:rwa, A::4000:r, in XDR.
    let mut value = vec![0, 0, 0, 2];
    for (mask, who) in [(7_u32, &b"OWNER@"[..]), (1, b"4000")] {
        let words = [0, 0, mask, who.len() as u32];
        words.iter().for_each(|word| value.extend(word.to_be_bytes()));
        value.extend(who);
        value.resize(value.len().next_multiple_of(4), 0);
    }
    let other = User { uid: USER.uid + 1, gid: USER.gid };
    let refused = vfs.set_nfs4_list(other, file, Some(&value)).unwrap_err();
    assert_eq!(refused.status(), Some(Status::NotPermitted));
    let refused = vfs.set_xattr(file, NFS4_LIST, &value, XattrMode::Either).unwrap_err();
    assert_eq!(refused.status(), Some(Status::NotPermitted), "without a user");
    assert_eq!(vfs.attributes(file, None).unwrap().attributes.mode, 0o600);
    for user in [USER, User::ROOT] {
        vfs.set_nfs4_list(user, file, Some(&value)).unwrap();
        assert_eq!(vfs.attributes(file, None).unwrap().attributes.mode, 0o640);
        assert_eq!(vfs.xattr(file, NFS4_LIST).unwrap(), value);
        // The kernel checks permissions with this list.
        let shown = [(1, 6, NOBODY), (2, 4, 4000), (4, 0, NOBODY), (16, 4, NOBODY), (32, 0, !0)];
        assert_eq!(vfs.xattr(file, ACCESS).unwrap(), list(&shown));
        vfs.set_nfs4_list(user, file, None).unwrap();
        assert_eq!(vfs.attributes(file, None).unwrap().attributes.mode, 0o600);
    }
}

#[test]
fn an_acl_by_a_user_outside_the_group_clears_setgid() {
    let cluster = Cluster::start(1);
    let vfs = cluster.mount();
    let of_another = User { uid: 1000, gid: 7 };
    let (made, _) = vfs.create(of_another, ROOT, b"f", &new_file(0o2755)).unwrap();
    let file = made.known.attributes.file;
    let entries =
        list(&[(1, 7, NOBODY), (2, 6, 4000), (4, 5, NOBODY), (16, 7, NOBODY), (32, 5, NOBODY)]);
    vfs.set_acl_dropping_setgid(file, ACCESS, &entries).unwrap();
    assert_eq!(vfs.attributes(file, None).unwrap().attributes.mode, 0o775);
    vfs.remove_xattr(file, ACCESS).unwrap();
    assert_eq!(vfs.xattr(file, ACCESS).unwrap_err().status(), Some(Status::NoAttribute));
    let on_a_file = vfs.set_xattr(file, DEFAULT, &entries, XattrMode::Either).unwrap_err();
    assert_eq!(on_a_file.status(), Some(Status::PermissionDenied));
}
