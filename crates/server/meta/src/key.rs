//! Keys of the metadata store. Each begins with the virtual shard that owns it, big-endian, then a letter for the
//! kind of record, then big-endian fields, so that keys sort as their fields do. `docs/format-meta.md` lists them.

use braid_types::{FileIndex, IodId, KeyId, SessionId, ShardId};

use crate::record::QuotaOwner;

/// What a key names; the letter is part of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Usage = b'A',
    Quota = b'B',
    Cookie = b'C',
    Default = b'D',
    Entry = b'E',
    Iod = b'G',
    Inode = b'I',
    ClientKey = b'K',
    Symlink = b'L',
    Counter = b'N',
    Orphan = b'O',
    Deletion = b'Q',
    Replay = b'R',
    Session = b'S',
    Intent = b'T',
    Cluster = b'U',
    WriteOpen = b'W',
    Xattr = b'X',
}

/// The shard of records that belong to the whole cluster.
pub(crate) const CLUSTER_SHARD: ShardId = ShardId(0);

fn key(shard: ShardId, kind: Kind, fields: &[&[u8]]) -> Vec<u8> {
    let bytes = 3 + fields.iter().map(|field| field.len()).sum::<usize>();
    let mut key = Vec::with_capacity(bytes);
    key.extend_from_slice(&shard.0.to_be_bytes());
    key.push(kind as u8);
    fields.iter().for_each(|field| key.extend_from_slice(field));
    key
}

fn of_file(kind: Kind, file: FileIndex, rest: &[u8]) -> Vec<u8> {
    key(file.shard(), kind, &[&file.0.to_be_bytes(), rest])
}

pub(crate) fn inode(file: FileIndex) -> Vec<u8> {
    of_file(Kind::Inode, file, &[])
}

pub(crate) fn entry(directory: FileIndex, name: &[u8]) -> Vec<u8> {
    of_file(Kind::Entry, directory, name)
}

pub(crate) fn cookie(directory: FileIndex, cookie: u64) -> Vec<u8> {
    of_file(Kind::Cookie, directory, &cookie.to_be_bytes())
}

pub(crate) fn xattr(file: FileIndex, name: &[u8]) -> Vec<u8> {
    of_file(Kind::Xattr, file, name)
}

pub(crate) fn symlink(file: FileIndex) -> Vec<u8> {
    of_file(Kind::Symlink, file, &[])
}

pub(crate) fn directory_default(directory: FileIndex) -> Vec<u8> {
    of_file(Kind::Default, directory, &[])
}

pub(crate) fn orphan(file: FileIndex) -> Vec<u8> {
    of_file(Kind::Orphan, file, &[])
}

pub(crate) fn deletion(file: FileIndex) -> Vec<u8> {
    of_file(Kind::Deletion, file, &[])
}

pub(crate) fn intent(file: FileIndex) -> Vec<u8> {
    of_file(Kind::Intent, file, &[])
}

pub(crate) fn write_open(file: FileIndex, session: SessionId) -> Vec<u8> {
    of_file(Kind::WriteOpen, file, &session.0.to_be_bytes())
}

pub(crate) fn counter(shard: ShardId) -> Vec<u8> {
    key(shard, Kind::Counter, &[])
}

pub(crate) fn replay(shard: ShardId, session: SessionId, slot: u32) -> Vec<u8> {
    key(shard, Kind::Replay, &[&session.0.to_be_bytes(), &slot.to_be_bytes()])
}

pub(crate) fn session(session: SessionId) -> Vec<u8> {
    key(CLUSTER_SHARD, Kind::Session, &[&session.0.to_be_bytes()])
}

fn of_owner(shard: ShardId, kind: Kind, owner: QuotaOwner) -> Vec<u8> {
    let (tag, number) = owner.parts();
    key(shard, kind, &[&[tag], &number.to_be_bytes()])
}

pub(crate) fn usage(shard: ShardId, owner: QuotaOwner) -> Vec<u8> {
    of_owner(shard, Kind::Usage, owner)
}

pub(crate) fn quota(owner: QuotaOwner) -> Vec<u8> {
    of_owner(CLUSTER_SHARD, Kind::Quota, owner)
}

pub(crate) fn client_key(id: KeyId) -> Vec<u8> {
    key(CLUSTER_SHARD, Kind::ClientKey, &[&id.0.to_be_bytes()])
}

pub(crate) fn iod(id: IodId) -> Vec<u8> {
    key(CLUSTER_SHARD, Kind::Iod, &[&id.0.to_be_bytes()])
}

pub(crate) fn cluster() -> Vec<u8> {
    key(CLUSTER_SHARD, Kind::Cluster, &[])
}

/// A range `[from, end)` of keys.
pub(crate) struct Range {
    pub(crate) from: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

/// Every key of one kind in one shard.
pub(crate) fn all(shard: ShardId, kind: Kind) -> Range {
    Range { from: key(shard, kind, &[]), end: vec![(shard.0 >> 8) as u8, shard.0 as u8, kind as u8 + 1] }
}

/// Every key of one kind of one file.
pub(crate) fn all_of(file: FileIndex, kind: Kind) -> Range {
    let end = match file.0.checked_add(1) {
        Some(next) if next >> 48 == file.0 >> 48 => key(file.shard(), kind, &[&next.to_be_bytes()]),
        _ => all(file.shard(), kind).end,
    };
    Range { from: of_file(kind, file, &[]), end }
}

/// Every cookie of a directory past `after`.
pub(crate) fn cookies_after(directory: FileIndex, after: u64) -> Range {
    Range { from: cookie(directory, after.saturating_add(1)), end: all_of(directory, Kind::Cookie).end }
}

/// Every replay record of a session in one shard.
pub(crate) fn replays_of(shard: ShardId, session: SessionId) -> Range {
    let from = replay(shard, session, 0);
    let mut end = replay(shard, session, u32::MAX);
    end.push(0);
    Range { from, end }
}

/// The file that a key of a file's record names.
pub(crate) fn file_of(key: &[u8]) -> Option<FileIndex> {
    Some(FileIndex(u64::from_be_bytes(key.get(3..11)?.try_into().ok()?)))
}

/// The owner that a key of a usage or a quota names.
pub(crate) fn owner_of(key: &[u8]) -> Option<QuotaOwner> {
    QuotaOwner::from_parts(*key.get(3)?, u64::from_be_bytes(key.get(4..)?.try_into().ok()?))
}

/// What stands behind the file in a key of a file's record: a name, a cookie.
pub(crate) fn tail_of(key: &[u8]) -> &[u8] {
    key.get(11..).unwrap_or_default()
}

/// The 64-bit number behind the file: a cookie or a session.
pub(crate) fn number_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(tail_of(key).try_into().ok()?))
}
