//! Keys of the metadata store. A key begins with the shard that owns it, big-endian, then a letter
//! for the kind of record, then big-endian fields. Keys therefore sort as their fields do.
//! `docs/format-meta.md` lists them.

use std::ops::Deref;

use braid_types::{FileIndex, IodId, KeyId, SessionId, ShardId, limits::NAME_BYTES_MAX};

use crate::record::QuotaOwner;

/// The kind of record that a key names; the letter is part of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Usage = b'A',
    Quota = b'B',
    Cookie = b'C',
    Default = b'D',
    Entry = b'E',
    NeedsFsck = b'F',
    Iod = b'G',
    Boot = b'H',
    Inode = b'I',
    ClientKey = b'K',
    Symlink = b'L',
    Modes = b'M',
    Counter = b'N',
    Orphan = b'O',
    Deletion = b'Q',
    Replay = b'R',
    Session = b'S',
    Intent = b'T',
    Cluster = b'U',
    WriteOpen = b'W',
    Xattr = b'X',
    FoldedName = b'Y',
}

/// The shard of records that belong to the whole cluster.
pub(crate) const CLUSTER_SHARD: ShardId = ShardId(0);

/// The longest key: shard, kind, file, a folded name, which has at most 3 bytes for each 2 of the
/// name ([`braid_types::fold`]), NUL, and a cookie.
const BYTES_MAX: usize = 2 + 1 + 8 + NAME_BYTES_MAX * 3 / 2 + 1 + 8;
const _: () = assert!(BYTES_MAX <= crate::store::KEY_BYTES_MAX);

/// A key, on the stack: a create uses a dozen.
#[derive(Clone)]
pub(crate) struct Key {
    bytes: [u8; BYTES_MAX],
    used: u16,
}

impl Key {
    fn new(shard: ShardId, kind: Kind) -> Self {
        let mut key = Self { bytes: [0; BYTES_MAX], used: 0 };
        key.push(&shard.0.to_be_bytes());
        key.push(&[kind as u8]);
        key
    }

    fn push(&mut self, field: &[u8]) {
        let from = usize::from(self.used);
        self.bytes[from..from + field.len()].copy_from_slice(field);
        self.used += field.len() as u16;
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.used)]
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

fn key(shard: ShardId, kind: Kind, fields: &[&[u8]]) -> Key {
    let mut key = Key::new(shard, kind);
    fields.iter().for_each(|field| key.push(field));
    key
}

fn of_file(kind: Kind, file: FileIndex, rest: &[u8]) -> Key {
    key(file.shard(), kind, &[&file.0.to_be_bytes(), rest])
}

/// The boot of the host on which the server ran last.
pub(crate) fn boot() -> Key {
    key(CLUSTER_SHARD, Kind::Boot, &[])
}

pub(crate) fn inode(file: FileIndex) -> Key {
    of_file(Kind::Inode, file, &[])
}

pub(crate) fn entry(directory: FileIndex, name: &[u8]) -> Key {
    of_file(Kind::Entry, directory, name)
}

pub(crate) fn cookie(directory: FileIndex, cookie: u64) -> Key {
    of_file(Kind::Cookie, directory, &cookie.to_be_bytes())
}

/// The entry with this cookie, by its folded name. Names have no NUL, so that it ends the name.
pub(crate) fn folded_name(directory: FileIndex, folded: &[u8], cookie: u64) -> Key {
    let directory_bytes = directory.0.to_be_bytes();
    let fields = [&directory_bytes, folded, &[0], &cookie.to_be_bytes()];
    key(directory.shard(), Kind::FoldedName, &fields)
}

pub(crate) fn xattr(file: FileIndex, name: &[u8]) -> Key {
    of_file(Kind::Xattr, file, name)
}

pub(crate) fn symlink(file: FileIndex) -> Key {
    of_file(Kind::Symlink, file, &[])
}

pub(crate) fn directory_default(directory: FileIndex) -> Key {
    of_file(Kind::Default, directory, &[])
}

pub(crate) fn orphan(file: FileIndex) -> Key {
    of_file(Kind::Orphan, file, &[])
}

pub(crate) fn deletion(file: FileIndex) -> Key {
    of_file(Kind::Deletion, file, &[])
}

pub(crate) fn intent(file: FileIndex) -> Key {
    of_file(Kind::Intent, file, &[])
}

pub(crate) fn write_open(file: FileIndex, session: SessionId) -> Key {
    of_file(Kind::WriteOpen, file, &session.0.to_be_bytes())
}

pub(crate) fn modes(file: FileIndex, session: SessionId) -> Key {
    of_file(Kind::Modes, file, &session.0.to_be_bytes())
}

pub(crate) fn counter(shard: ShardId) -> Key {
    key(shard, Kind::Counter, &[])
}

pub(crate) fn replay(shard: ShardId, session: SessionId, slot: u32) -> Key {
    key(shard, Kind::Replay, &[&session.0.to_be_bytes(), &slot.to_be_bytes()])
}

pub(crate) fn session(session: SessionId) -> Key {
    key(CLUSTER_SHARD, Kind::Session, &[&session.0.to_be_bytes()])
}

fn of_owner(shard: ShardId, kind: Kind, owner: QuotaOwner) -> Key {
    let (tag, number) = owner.parts();
    key(shard, kind, &[&[tag], &number.to_be_bytes()])
}

pub(crate) fn usage(shard: ShardId, owner: QuotaOwner) -> Key {
    of_owner(shard, Kind::Usage, owner)
}

pub(crate) fn quota(owner: QuotaOwner) -> Key {
    of_owner(CLUSTER_SHARD, Kind::Quota, owner)
}

pub(crate) fn client_key(id: KeyId) -> Key {
    key(CLUSTER_SHARD, Kind::ClientKey, &[&id.0.to_be_bytes()])
}

pub(crate) fn iod(id: IodId) -> Key {
    key(CLUSTER_SHARD, Kind::Iod, &[&id.0.to_be_bytes()])
}

/// The needs-fsck flag: why `fsck` must check the file system.
pub(crate) fn needs_fsck() -> Key {
    key(CLUSTER_SHARD, Kind::NeedsFsck, &[])
}

pub(crate) fn cluster() -> Key {
    key(CLUSTER_SHARD, Kind::Cluster, &[])
}

/// A range `[from, end)` of keys.
pub(crate) struct Range {
    pub(crate) from: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

/// Every key of one kind in one shard.
pub(crate) fn all(shard: ShardId, kind: Kind) -> Range {
    let end = vec![(shard.0 >> 8) as u8, shard.0 as u8, kind as u8 + 1];
    Range { from: key(shard, kind, &[]).to_vec(), end }
}

/// Every key of one kind of one file.
pub(crate) fn all_of(file: FileIndex, kind: Kind) -> Range {
    let end = match file.0.checked_add(1) {
        Some(next) if next >> 48 == file.0 >> 48 => {
            key(file.shard(), kind, &[&next.to_be_bytes()]).to_vec()
        }
        _ => all(file.shard(), kind).end,
    };
    Range { from: of_file(kind, file, &[]).to_vec(), end }
}

/// Every cookie of a directory after `after`.
pub(crate) fn cookies_after(directory: FileIndex, after: u64) -> Range {
    Range {
        from: cookie(directory, after.saturating_add(1)).to_vec(),
        end: all_of(directory, Kind::Cookie).end,
    }
}

/// Every entry of a directory with this folded name, in the order of their cookies.
pub(crate) fn all_folded(directory: FileIndex, folded: &[u8]) -> Range {
    let mut end = folded_name(directory, folded, u64::MAX).to_vec();
    end.push(0);
    Range { from: folded_name(directory, folded, 0).to_vec(), end }
}

/// Every replay record of a session in one shard.
pub(crate) fn replays_of(shard: ShardId, session: SessionId) -> Range {
    let from = replay(shard, session, 0).to_vec();
    let mut end = replay(shard, session, u32::MAX).to_vec();
    end.push(0);
    Range { from, end }
}

/// The file in a key of a file's record.
pub(crate) fn file_of(key: &[u8]) -> Option<FileIndex> {
    Some(FileIndex(u64::from_be_bytes(key.get(3..11)?.try_into().ok()?)))
}

/// The owner in a key of a usage or quota.
pub(crate) fn owner_of(key: &[u8]) -> Option<QuotaOwner> {
    QuotaOwner::from_parts(*key.get(3)?, u64::from_be_bytes(key.get(4..)?.try_into().ok()?))
}

/// The part of a file's key after the file: a name, a cookie.
pub(crate) fn tail_of(key: &[u8]) -> &[u8] {
    key.get(11..).unwrap_or_default()
}

/// The cookie in a key of a folded name.
pub(crate) fn cookie_of_folded(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*tail_of(key).last_chunk()?))
}

/// The 64-bit number after the file: a cookie or a session.
pub(crate) fn number_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(tail_of(key).try_into().ok()?))
}
